package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// hung is a cluster that answers those that follow it, and no page.
type hung struct{ *fake }

func (hung) wait(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("the page has no time limit")
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h hung) ListResources(ctx context.Context) (*view.List, error) { return nil, h.wait(ctx) }

func (h hung) ReadSnapshot(ctx context.Context, _ view.Kind, _, _ string) (*view.Snapshot, error) {
	return nil, h.wait(ctx)
}

// hungActor is an Actor that gets no answer.
type hungActor struct {
	*acted
	hung
}

func (h hungActor) ProposeAction(ctx context.Context, _ Action) (*Proposal, error) {
	return nil, h.wait(ctx)
}

// TestPagesAnswerWithinABound opens each page while the API server hangs. A page is answered with the reason, or with what is known, and since when.
func TestPagesAnswerWithinABound(t *testing.T) {
	t.Parallel()
	f := hung{newFake()}
	s := listenWith(t, f, hungActor{&acted{}, f})
	s.options.Wait = time.Millisecond
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	for _, path := range []string{"", "app/shop/cart", "app/shop/cart/pause"} {
		page := visit(s, secret, path, nil)
		if page.Code < http.StatusBadRequest || strings.Contains(page.Body.String(), "no time limit") {
			t.Errorf("%q: %d\n%s", path, page.Code, page.Body)
		}
		if path != "app/shop/cart/pause" && !strings.Contains(page.Body.String(), "has not answered within") {
			t.Errorf("%q does not say why it is empty:\n%s", path, page.Body)
		}
	}
	read := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	list := view.RowsOf([]view.Resource{f.snapshot.Resource}, nil)
	for topic, known := range map[Topic]content{
		{}: {list: list, at: read}, {Kind: "App", Namespace: "shop", Name: "cart"}: {snapshot: f.snapshot, at: read},
	} {
		s.hub.topics[topic] = &followed{Topic: topic, latest: known, feed: movingFeed{&moving{state: State{Heard: read}}}}
	}
	for _, path := range []string{"", "app/shop/cart"} {
		page := visit(s, secret, path, nil)
		if text := page.Body.String(); page.Code != http.StatusOK || !strings.Contains(text, "read at 03:04:05") || !strings.Contains(text, "cart") {
			t.Errorf("%q: %d\n%s", path, page.Code, text)
		}
	}
}
