package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"huolala.cn/app-operator/plugin/view"
)

// logged has a log, or an error, and notes what is asked for.
type logged struct {
	logs []Log
	err  error
	o    view.LogOptions
}

// ReadLogs implements LogReader.
func (l *logged) ReadLogs(_ context.Context, _ view.Kind, _, _ string, o view.LogOptions) ([]Log, int, error) {
	l.o = o
	return l.logs, 2, l.err
}

// TestLogsPage shows logs, links to the other run of each container, and says why there is none.
func TestLogsPage(t *testing.T) {
	t.Parallel()
	c, l := newFake(), &logged{logs: []Log{
		{LogSource: view.LogSource{Pod: "cart-1", Container: "cart", Previous: true, State: "ended with exit code 3"}, Text: "<script>\nthe end\n"},
		{LogSource: view.LogSource{Pod: "cart-2", Container: "log", Others: []string{"cart"}, None: "the container has not started"}},
	}}
	s, err := Listen(t.Context(), Options{Reader: c, Follower: c, Logs: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.listener.Close() })
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	open := func(path string) (int, string) {
		q := request{host: "127.0.0.1:" + s.port, method: http.MethodGet, cookie: secret}
		answer := q.send(s, s.pagePath("")+path)
		return answer.Code, answer.Body.String()
	}
	status, text := open("app/shop/cart/logs?pod=cart-1&container=cart&previous=true")
	if status != http.StatusOK || l.o.Pod != "cart-1" || l.o.Container != "cart" || l.o.Previous == nil || !*l.o.Previous || l.o.Most != maxLogs {
		t.Errorf("status %d, asked for %+v", status, l.o)
	}
	for _, want := range []string{
		"Pod cart-1, container cart, the run before, which ended with exit code 3", "&lt;script&gt;\nthe end", "There is no log: the container has not started",
		"?container=cart&amp;pod=cart-1&amp;previous=false", textPresentRun, "?container=cart&amp;pod=cart-2", "Container cart", "2 more like these",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if open("app/shop/cart/logs?previous=perhaps"); l.o.Previous != nil || l.o.Pod != "" {
		t.Errorf("asked for %+v", l.o)
	}
	l.logs, l.err = nil, errors.New("App shop/cart has no pod\x1b[31m")
	if status, text := open("app/shop/cart/logs"); status != http.StatusBadGateway || !strings.Contains(text, "App shop/cart has no pod[31m") {
		t.Errorf("status %d\n%s", status, text)
	}
	if status, _ := open("pod/shop/cart/logs"); status != http.StatusNotFound {
		t.Errorf("of another kind: status %d", status)
	}
	if status := ask(t, viewerOf(t, c), http.MethodGet, "apps.example.com", "/app/shop/cart/logs", nil).Code; status != http.StatusNotFound {
		t.Errorf("of a viewer: status %d", status)
	}
}
