package ui

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
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

// waitingActor is an Actor whose actions take as long as they may.
type waitingActor struct {
	*acted
	// ended has the reasons why the actions ended.
	ended chan error
}

// PerformAction implements Actor.
func (a waitingActor) PerformAction(ctx context.Context, _ Action, _ string) error {
	return a.wait(ctx)
}

// PlanText implements Actor.
func (a waitingActor) PlanText(ctx context.Context, _ string) (*Proposal, error) {
	return nil, a.wait(ctx)
}

func (a waitingActor) wait(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		a.ended <- errors.New("the action has no time limit")
		return nil
	}
	<-ctx.Done()
	a.ended <- ctx.Err()
	return ctx.Err()
}

// TestActionsOutlastTheRequest sends forms over a connection whose requests have less time to arrive than the actions take: an action ends with its own time
// limit, and not with that of the request, and the answer arrives.
func TestActionsOutlastTheRequest(t *testing.T) {
	t.Parallel()
	actor := waitingActor{&acted{}, make(chan error, 1)}
	s := listenWith(t, newFake(), actor)
	s.options.ActionWait = 2 * time.Second
	server := &http.Server{Handler: s.handler, ReadTimeout: time.Second, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(s.listener) }()
	t.Cleanup(func() { _ = server.Close() })
	secret := login(t, s)
	for path, form := range map[string]url.Values{"app/shop/cart/pause": {"version": {"7"}}, "plan": {"text": {"kind: App"}}} {
		form.Set("token", formToken(secret))
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.AddCookie(&http.Cookie{Name: s.cookieName(), Value: secret})
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if ended := <-actor.ended; !errors.Is(ended, context.DeadlineExceeded) || answer.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: status %d, ended by %v", path, answer.StatusCode, ended)
		}
	}
	if actionTime+answerTime >= responseTime || requestTime >= responseTime {
		t.Errorf("an answer has %s, and the action takes %s", responseTime, actionTime)
	}
}

// panicking is a cluster of a resource that no page can show.
type panicking struct{ *fake }

func (panicking) ReadSnapshot(context.Context, view.Kind, string, string) (*view.Snapshot, error) {
	panic("a defect")
}

// TestReadThatPanics reads a resource that no page can show: its page gets an error, the log the panic, and the program goes on.
func TestReadThatPanics(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := &hub{options: &Options{Reader: panicking{newFake()}, Log: &log}}
	read, err := h.readResource(t.Context(), &followed{Topic: Topic{Kind: "App", Namespace: "shop", Name: "cart"}})
	if read != nil || !errors.Is(err, errDefect) {
		t.Errorf("read %v, %v", read, err)
	}
	if text := log.String(); !strings.Contains(text, "cart of namespace shop is read: a defect") || !strings.Contains(text, "bound_test.go") {
		t.Errorf("the log has %q", text)
	}
}
