package ui

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestConnectionLimit opens more connections than a listener takes: the further ones wait until others are closed. The end of the listener ends the wait.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	const most = 3
	var config net.ListenConfig
	inner, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limitConnections(inner, most)
	accepted, ended := make(chan net.Conn), make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	var open []net.Conn
	for range 2 * most {
		var dialer net.Dialer
		c, err := dialer.DialContext(t.Context(), "tcp4", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	places := l.places
	for range most {
		open = append(open, <-accepted)
	}
	for i := range most {
		if len(places) != most {
			t.Fatalf("%d connections are open, want %d", len(places), most)
		}
		select {
		case <-accepted:
			t.Fatalf("a connection beyond the limit is accepted after %d were closed", i)
		default:
		}
		_ = open[i].Close()
		_ = open[i].Close() // Once more leaves no second place.
		open = append(open, <-accepted)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the wait ends with %v", err)
	}
	for _, c := range open {
		_ = c.Close()
	}
	if len(places) != 0 {
		t.Errorf("%d places are taken after the end", len(places))
	}
}

// TestServerHasTheLimit checks that the pages of one user have the limit, and leave room for all streams.
func TestServerHasTheLimit(t *testing.T) {
	t.Parallel()
	if l, ok := listen(t, newFake()).listener.(*limitedListener); !ok || cap(l.places) != maxConnections || maxConnections < 4*maxStreams {
		t.Errorf("the listener is %+v", l)
	}
}

// TestIdlenessOfSessions sends requests of all sorts, a day apart: only a login and the requests of a session count as use, by which the server goes on.
func TestIdlenessOfSessions(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.options.Now = func() time.Time { return now }
	host := "127.0.0.1:" + s.port
	const form = "application/x-www-form-urlencoded"
	secret := login(t, s)
	for name, c := range map[string]struct {
		q    request
		path string
		used bool
	}{
		"a page":           {request{host: host, method: http.MethodGet, cookie: secret}, "", true},
		"another page":     {request{host: host, method: http.MethodGet, cookie: secret}, "plan", true},
		"a form":           {request{host: host, method: http.MethodPost, cookie: secret, token: formToken(secret), contentType: form}, "app/shop/cart/pause", true},
		"another host":     {request{host: "evil.example", method: http.MethodGet, cookie: secret}, "", false},
		"no session":       {request{host: host, method: http.MethodGet}, "", false},
		"a wrong session":  {request{host: host, method: http.MethodGet, cookie: "wrong"}, "", false},
		"the login":        {request{host: host, method: http.MethodGet}, "login", false},
		"a wrong code":     {request{host: host, method: http.MethodPost, contentType: form, form: url.Values{"code": {"wrong"}}}, "login", false},
		"a style sheet":    {request{host: host, method: http.MethodGet}, "style.css", false},
		"no form":          {request{host: host, method: http.MethodPost, contentType: "text/plain"}, "plan", false},
		"a form of nobody": {request{host: host, method: http.MethodPost, contentType: form}, "plan", false},
	} {
		now = now.Add(24 * time.Hour)
		before := s.last.Load()
		c.q.send(s, "/"+s.id+"/"+c.path)
		if last := s.last.Load(); (last == now.UnixNano()) != c.used || !c.used && last != before {
			t.Errorf("%s: it counts as use: %t", name, last != before)
		}
	}
	now = now.Add(24 * time.Hour)
	right := request{host: host, method: http.MethodPost, contentType: form, form: url.Values{"code": {s.NewCode()}}}
	if right.send(s, outside+"login"); s.last.Load() != now.UnixNano() {
		t.Error("a login does not count as use")
	}
}
