package ui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

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
