package ui

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"huolala.cn/app-operator/test/harness"
)

// gate is the way to the API server. While it is shut, connections are refused, as of a server that is not there.
type gate struct {
	t        testing.TB
	address  string
	target   string
	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	isShut   bool
}

// newGate returns a gate, and the administrator's way through it.
func newGate(t testing.TB) (*gate, *rest.Config) {
	t.Helper()
	target, err := url.Parse(plane.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, address: "127.0.0.1:0", target: target.Host, open: map[net.Conn]bool{}}
	g.unshut()
	t.Cleanup(g.shut)
	cfg := rest.CopyConfig(plane.Config)
	cfg.Host = "https://" + g.address
	return g, cfg
}

// unshut takes connections, at the same port as before.
func (g *gate) unshut() {
	g.t.Helper()
	harness.Eventually(g.t, func() error {
		var config net.ListenConfig
		listener, err := config.Listen(g.t.Context(), "tcp4", g.address)
		if err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.listener, g.address, g.isShut = listener, listener.Addr().String(), false
		return nil
	})
	go func(listener net.Listener) {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(conn)
		}
	}(g.listener)
}

// shut ends all connections, and takes no more.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
	_ = g.listener.Close()
	for conn := range g.open {
		_ = conn.Close()
	}
	clear(g.open)
}

// note has connections end when the gate is shut. It reports whether it is open; if it is not, it ends them.
func (g *gate) note(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range conns {
		if g.isShut {
			_ = conn.Close()
		} else {
			g.open[conn] = true
		}
	}
	return !g.isShut
}

// pass connects a client to the API server.
func (g *gate) pass(client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(g.t.Context(), "tcp4", g.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !g.note(client, server) {
		return
	}
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go copyTo(client, server)
	copyTo(server, client)
}
