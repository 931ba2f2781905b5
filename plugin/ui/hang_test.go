package ui

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// hanging is a cluster whose reads of resources hang while hangs is true, until their contexts end.
type hanging struct {
	*moving
	hangs bool
}

// ReadSnapshot implements Reader.
func (h *hanging) ReadSnapshot(ctx context.Context, kind view.Kind, namespace, name string) (*view.Snapshot, error) {
	h.mu.Lock()
	hangs := h.hangs
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.moving.ReadSnapshot(ctx, kind, namespace, name)
}

// TestReadHangs has the API server hang while a resource is read. The page hears of it at once, and goes on by itself.
func TestReadHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &hanging{moving: newMoving(1)}
		s := viewerOf(t, m)
		defer s.end()
		page, err := s.hub.openStream(t.Context(), "jo", appTopic(0))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(pauseResource)
		if found := page.latestContent(); found.snapshot == nil || !found.state.Away.IsZero() {
			t.Fatalf("at first, the content is %+v", found)
		}
		<-page.news
		m.change(func() { m.hangs = true })
		<-time.After(pauseResource)
		away := time.Now()
		m.change(func() { m.state.Away = away })
		synctest.Wait()
		if found := page.latestContent(); found.snapshot == nil || !found.state.Away.Equal(away) || len(page.news) == 0 {
			t.Errorf("while the read hangs, the content is %+v, and the page has %d news", found, len(page.news))
		}
		changed := *m.snapshot
		changed.Resource.Image = "nginx:changed-meanwhile"
		m.change(func() { m.hangs, m.state.Away, m.snapshot = false, time.Time{}, &changed })
		<-time.After(readTime + 2*pauseProblem)
		if found := page.latestContent(); found.snapshot.Resource.Image != changed.Resource.Image || !found.state.Away.IsZero() {
			t.Errorf("afterwards, the content is %+v", found)
		}
	})
}

// TestStateBeforeContent renders a page that hangs: the page has received before that the API server is away.
func TestStateBeforeContent(t *testing.T) {
	var sent string
	out := &stream{render: func(*content) ([]fragment, []string, error) {
		if !strings.Contains(sent, `"since":"2026-01-02T12:03:04Z"`) {
			t.Errorf("before it is rendered, the page has received %q", sent)
		}
		return nil, nil, nil
	}}
	taken := &seat{followed: &followed{Topic: appTopic(0), feed: movingFeed{newMoving(1)}}}
	taken.latest = content{snapshot: newFake().snapshot, state: State{Begun: true, Away: time.Date(2026, 1, 2, 12, 3, 4, 5, time.UTC)}}
	h := &hub{options: &Options{}}
	if _, err := h.sendUpdate(out, taken, func(text []byte) bool { sent += string(text); return true }); err != nil {
		t.Error(err)
	}
	if strings.Count(sent, "event: state") != 1 {
		t.Errorf("the page has received %q", sent)
	}
}
