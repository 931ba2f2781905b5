package ui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"huolala.cn/app-operator/plugin/view"
)

// slowReader is a reader whose reads of resources take a second. It notes the most that were in work at once.
type slowReader struct {
	Reader
	inWork, most int
	change       chan struct{}
}

// ReadSnapshot implements Reader.
func (r *slowReader) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	r.change <- struct{}{}
	r.inWork++
	r.most = max(r.most, r.inWork)
	<-r.change
	<-time.After(time.Second)
	r.change <- struct{}{}
	r.inWork--
	<-r.change
	return r.Reader.ReadSnapshot(ctx, kind, namespace, name)
}

// TestViewerReadsAtOnce has as many resources read as may be at once, and more: the others wait, and one whose page is closed takes no place.
func TestViewerReadsAtOnce(t *testing.T) {
	kind, _ := view.KindOf("app")
	for reads, seconds := range map[int]int{1: 1, viewerAtOnce: 1, viewerAtOnce + 1: 2, 5 * viewerAtOnce: 5} {
		synctest.Test(t, func(t *testing.T) {
			slow := &slowReader{Reader: newMoving(1), change: make(chan struct{}, 1)}
			public, began := newPublicReader(slow), time.Now()
			done := make(chan error)
			for range reads {
				go func() {
					_, err := public.ReadSnapshot(t.Context(), kind, "shop", "cart")
					done <- err
				}()
			}
			synctest.Wait()
			if reads >= viewerAtOnce {
				closed, leave := context.WithCancel(t.Context())
				leave()
				if _, err := public.ReadSnapshot(closed, kind, "shop", "cart"); err == nil {
					t.Error("a page that is closed is read")
				}
			}
			for range reads {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); slow.most != min(reads, viewerAtOnce) || took != time.Duration(seconds)*time.Second {
				t.Errorf("of %d reads, %d are in work at once; they take %s", reads, slow.most, took)
			}
		})
	}
}

// sized is a cluster whose resources take a number of bytes, by their names.
type sized struct {
	*moving
	bytes map[string]int
}

// ReadSnapshot implements Reader.
func (s *sized) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	found, err := s.moving.ReadSnapshot(ctx, kind, namespace, name)
	larger := *found
	fields := metav1.ManagedFieldsEntry{FieldsV1: &metav1.FieldsV1{Raw: make([]byte, s.bytes[name])}}
	larger.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{fields}}}}
	return &larger, err
}

// TestViewerBytes follows resources as large as there is room for, and larger ones. The one that was left first makes room, then one of the reader who has
// most, and a resource that is too large alone is refused.
func TestViewerBytes(t *testing.T) {
	const part = viewerBytes/4 - 1<<16 // Four fit in.
	for name, c := range map[string]struct {
		readers []string
		// left is the resource that nobody looks at any longer, -1 for none.
		left  int
		bytes int
		ended []int
	}{
		"at the limit":               {[]string{"greedy", "greedy", "greedy", "greedy"}, -1, part, nil},
		"another one of the reader":  {[]string{"greedy", "greedy", "greedy", "greedy", "greedy"}, -1, part, []int{0}},
		"one was left":               {[]string{"greedy", "greedy", "greedy", "greedy", "jo"}, 2, part, []int{2}},
		"another reader":             {[]string{"jo", "greedy", "greedy", "greedy", "al"}, -1, part, []int{1}},
		"one that is too large":      {[]string{"jo"}, -1, viewerBytes, []int{0}},
		"many of one and one of all": {[]string{"jo", "greedy", "greedy", "greedy", "greedy", "greedy", "greedy"}, -1, part, []int{1, 2, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMoving(1)
			m.over = make(chan struct{}, 100)
			sizes := &sized{m, map[string]int{}}
			for i := range c.readers {
				sizes.bytes[appTopic(i).Name] = c.bytes
			}
			s := viewerOf(t, sizes)
			defer s.end()
			var seats []*seat
			for i, reader := range c.readers {
				taken, err := s.hub.openVisit(t.Context(), reader, appTopic(i))
				if err != nil {
					t.Fatal(err)
				}
				seats = append(seats, taken)
				<-time.After(pauseResource / 2)
				if i == c.left {
					s.hub.closeVisit(taken)
				}
			}
			kept := 0
			for i, taken := range seats {
				s.hub.mu.Lock()
				ended := s.hub.topics[taken.Topic] != taken.followed
				s.hub.mu.Unlock()
				if ended != slices.Contains(c.ended, i) {
					t.Errorf("%s: resource %d of %s has ended: %t", name, i, c.readers[i], ended)
				}
				if !ended {
					kept += taken.latestContent().snapshot.Bytes()
				}
			}
			if kept > viewerBytes {
				t.Errorf("%s: %d bytes are kept, want at most %d", name, kept, viewerBytes)
			}
		})
	}
}

// TestViewerTooLarge opens the page of a resource that is larger than all room.
func TestViewerTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewerOf(t, &sized{newMoving(1), map[string]int{"cart": viewerBytes}})
		defer s.end()
		answer := askAs(t, s, "jo", "/app/shop/cart")
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), messageTooMany) {
			t.Errorf("status %d\n%s", answer.Code, answer.Body)
		}
	})
}

// deletable is a cluster whose resources are gone once isGone is set.
type deletable struct {
	*sized
	isGone atomic.Bool
}

// ReadSnapshot implements Reader.
func (g *deletable) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	if g.isGone.Load() {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "apps"}, name)
	}
	return g.sized.ReadSnapshot(ctx, kind, namespace, name)
}

// TestBytesOfAGoneResource deletes a resource whose page is open: it takes no memory any longer.
func TestBytesOfAGoneResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &deletable{sized: &sized{newMoving(1), map[string]int{appTopic(0).Name: 1 << 20}}}
		s := viewerOf(t, g)
		defer s.end()
		taken, err := s.hub.openVisit(t.Context(), "jo", appTopic(0))
		if err != nil {
			t.Fatal(err)
		}
		bytes := func() int {
			s.hub.mu.Lock()
			defer s.hub.mu.Unlock()
			return taken.bytes
		}
		<-time.After(2 * pauseResource)
		before := bytes()
		g.isGone.Store(true)
		signalNews(taken.dirty)
		<-time.After(4 * pauseResource)
		if before < 1<<20 || bytes() != 0 {
			t.Errorf("%d bytes are counted, and %d once it is gone", before, bytes())
		}
	})
}
