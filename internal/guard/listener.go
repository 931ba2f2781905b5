package guard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// listener accepts connections within the limits, and closes all others at once.
type listener struct {
	net.Listener
	guard *guard
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, guard: l.guard, from: addressOf(accepted.RemoteAddr())}
		c.claim = l.guard.conns.openClaim(c.from, c.takeBack)
		if l.guard.conns.growClaim(c.claim, 1) {
			return c, nil
		}
		l.guard.reportRefused(reasonConnections)
		_ = c.Close() // Nothing was sent.
	}
}

// addressOf returns the address of a client, without its port; the zero address for a client that has none.
func addressOf(remote net.Addr) netip.Addr {
	if with, ok := remote.(interface{ AddrPort() netip.AddrPort }); ok {
		return with.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// conn is a connection that holds a claim until it is closed.
type conn struct {
	net.Conn
	guard *guard
	from  netip.Addr
	claim *claim
	// mu keeps a deadline from being set while interrupted, which is true once nothing more is to be read, becomes true.
	mu          sync.Mutex
	interrupted bool
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.conns.endClaim(c.claim)
	return c.Conn.Close()
}

// takeBack closes the connection, which holds no claim any more.
func (c *conn) takeBack() {
	c.guard.reportRefused(reasonConnections)
	_ = c.Conn.Close() // The server closes it once more.
}

// interruptRead ends all reading, so that the request which is read can be refused.
func (c *conn) interruptRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // It fails for a connection that is closed.
}

// SetReadDeadline implements net.Conn. It changes nothing after an interrupt.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return nil
	}
	return c.Conn.SetReadDeadline(at)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(at time.Time) error {
	if err := c.SetReadDeadline(at); err != nil {
		return err
	}
	return c.SetWriteDeadline(at)
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// withConn returns the context of a connection.
func withConn(ctx context.Context, served net.Conn) context.Context {
	if c := guardedConn(served); c != nil {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// guardedConn returns the guarded connection below a TLS connection.
func guardedConn(served net.Conn) *conn {
	if encrypted, ok := served.(*tls.Conn); ok {
		served = encrypted.NetConn()
	}
	c, _ := served.(*conn)
	return c
}

// onState lets a connection be taken back again once its answer is sent.
func onState(served net.Conn, state http.ConnState) {
	if c := guardedConn(served); c != nil && state == http.StateIdle {
		c.guard.conns.leaveClaim(c.claim)
	}
}
