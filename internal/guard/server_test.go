package guard

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// world is a server in a bubble of package synctest, where time passes only while nothing else does, and its network.
type world struct {
	t      *testing.T
	limits Limits
	accept chan net.Conn
	closed chan struct{}
	server *http.Server
	served net.Listener
	// handled are the lengths of the bodies that were handled; hold, if there is one, lets a handler go on.
	handled chan int64
	hold    chan struct{}
}

// Accept implements net.Listener, and so do Close and Addr.
func (w *world) Accept() (net.Conn, error) {
	select {
	case c := <-w.accept:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *world) Close() error   { close(w.closed); return nil }
func (w *world) Addr() net.Addr { return &net.TCPAddr{} }

// pipe is one end of a connection from an address.
type pipe struct {
	net.Conn
	from netip.Addr
}

func (p pipe) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.from, 1)) }

// serve runs a server within limits, until the test ends.
func serve(t *testing.T, limits Limits, encrypted *tls.Config) *world {
	w := &world{t: t, limits: limits, accept: make(chan net.Conn), closed: make(chan struct{}), handled: make(chan int64, 1000)}
	w.server, w.served = New(limits, w, encrypted, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || int64(len(text)) != max(0, r.ContentLength) {
			t.Errorf("%d bytes of %d: %v", len(text), r.ContentLength, err)
		}
		if r.URL.Path == "/proved" {
			Prove(r.Context(), func() bool { return true })
		}
		w.handled <- int64(len(text))
		if w.hold != nil {
			select {
			case <-w.hold:
			case <-r.Context().Done():
			}
		}
		rw.WriteHeader(http.StatusTeapot)
	}), Report{Refused: func(string) {}, Log: io.Discard})
	ended := make(chan error)
	go func() { ended <- w.server.Serve(w.served) }()
	t.Cleanup(func() {
		_ = w.server.Shutdown(context.WithoutCancel(t.Context()))
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return w
}

// client is a connection to the server.
type client struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
}

// dial connects from an address.
func (w *world) dial(from netip.Addr) *client {
	here, there := net.Pipe()
	w.accept <- pipe{there, from}
	// The answers of a server that does not close a connection are read for longer than any limit.
	if err := here.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = here.Close() })
	return &client{here, w.t, bufio.NewReader(here)}
}

// send sends text in the background: the server may stop reading before its end.
func (c *client) send(text string) {
	go func() { _, _ = io.WriteString(c, text) }()
	synctest.Wait()
}

// status is the status of the next answer; 0 if the connection is closed instead.
func (c *client) status() int {
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
			c.t.Errorf("answer: %v", err)
		}
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body) // Its text does not matter.
	_ = resp.Body.Close()
	return resp.StatusCode
}

// servers are the servers of the process.
var servers = map[string]Limits{"webhooks": Webhooks, "metrics": Metrics, "probes": Probes, "profiles": Profiles, "viewer": Viewer}

// eachServer runs a test for each server.
func eachServer(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for name, limits := range servers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, serve(t, limits, nil)) })
		})
	}
}

// closes states when the server closes a connection.
type closes int

const (
	closesNow closes = iota
	// closesLate is once the request should have arrived.
	closesLate
	// closesIdle is after a time without a request.
	closesIdle
)

// exchange is what a client sends, and what it is to get.
type exchange struct {
	text   string
	want   []int
	closes closes
}

// exchanges are requests of all forms, at the limits of a server and beyond.
func exchanges(limits *Limits) map[string]exchange {
	const plain, chunked = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	header := func(length int) string {
		const begin, end = "GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n"
		return begin + strings.Repeat("x", length-len(begin)-len(end)) + end
	}
	post := func(length int64, more string) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%s\r\n", length, more)
	}
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	body, end, late := bodyOf(int(limits.Body)), "0\r\n\r\n", http.StatusRequestTimeout
	whole, asked := chunk(body)+end, []int{http.StatusContinue, http.StatusTeapot}
	if limits.Body == 0 {
		whole, late = end, http.StatusRequestEntityTooLarge
		asked = asked[1:] // Nothing is to come.
	}
	const handled, tooLarge = http.StatusTeapot, http.StatusRequestEntityTooLarge
	return map[string]exchange{
		"headers at the limit":      {header(maxHeader), []int{handled}, closesIdle},
		"headers beyond":            {header(maxHeader + 1), []int{http.StatusRequestHeaderFieldsTooLarge}, closesNow},
		"headers without an end":    {strings.TrimSuffix(header(2000), "\r\n"), nil, closesLate},
		"no byte":                   {"", nil, closesLate},
		"no HTTP":                   {"\x16\x03\x01\r\n\r\n", []int{http.StatusBadRequest}, closesNow},
		"body at the limit":         {post(limits.Body, "") + body, []int{handled}, closesIdle},
		"body beyond":               {post(limits.Body+1, "") + body + "x", []int{tooLarge}, closesNow},
		"body beyond, announced":    {post(1<<40, ""), []int{tooLarge}, closesLate},
		"body beyond, asked for":    {post(1<<40, "Expect: 100-continue\r\n"), []int{tooLarge}, closesNow},
		"body asked for":            {post(limits.Body, "Expect: 100-continue\r\n") + body, asked, closesIdle},
		"last byte is missing":      {post(max(limits.Body, 1), "") + body[:max(0, len(body)-1)], []int{late}, closesLate},
		"chunked, at the limit":     {chunked + whole, []int{handled}, closesIdle},
		"chunked, beyond":           {chunked + chunk(body+"x") + end, []int{tooLarge}, closesNow},
		"chunked, no end":           {chunked + "1", []int{http.StatusRequestTimeout}, closesLate},
		"chunked, broken":           {chunked + "zz\r\n", []int{http.StatusBadRequest}, closesNow},
		"HTTP/1.0":                  {"GET / HTTP/1.0\r\n\r\n", []int{handled}, closesNow},
		"HTTP/1.0 with a body":      {fmt.Sprintf("POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body), []int{handled}, closesNow},
		"HTTP/2":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{handled}, closesNow},
		"pipelined":                 {strings.Repeat(plain, 5), []int{handled, handled, handled, handled, handled}, closesIdle},
		"pipelined, one unfinished": {plain + "GET / HT", []int{handled}, closesLate},
		"question about the server": {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", []int{handled}, closesIdle},
	}
}

// TestRequests sends requests of all forms to each server, at each limit and beyond.
func TestRequests(t *testing.T) {
	for server, limits := range servers {
		for name, c := range exchanges(&limits) {
			t.Run(server+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := serve(t, limits, nil)
					conn := w.dial(address(1))
					began := time.Now()
					conn.send(c.text)
					for i, want := range c.want {
						if status := conn.status(); status != want {
							t.Errorf("answer %d: %d, want %d", i, status, want)
						}
					}
					conn.checkClosing(began, c.closes, &limits)
					if n := int64(len(w.served.(*listener).guard.bodies.claims)); n > 0 {
						t.Errorf("%d requests still hold memory", n)
					}
				})
			})
		}
	}
}

// checkClosing checks when the server closes a connection. net/http waits half a second before it closes one that may have sent more.
func (c *client) checkClosing(began time.Time, want closes, limits *Limits) {
	c.t.Helper()
	const grace = time.Second
	if _, err := io.Copy(io.Discard, c.answers); err != nil {
		c.t.Fatalf("after %s, reading ends with: %v", time.Since(began), err)
	}
	from, to := map[closes]time.Duration{closesIdle: idleTimeout}[want], limits.Arrival+grace
	switch want {
	case closesNow:
		to = grace
	case closesIdle:
		to = idleTimeout + grace
	}
	if took := time.Since(began); took < from || took > to {
		c.t.Errorf("it is closed after %s, want from %s to %s", took, from, to)
	}
}
