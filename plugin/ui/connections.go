package ui

import (
	"net"
	"sync"
)

// maxConnections is the maximum number of connections to the pages of one user: far more than browsers open for maxStreams pages, and far fewer than a
// process can have.
const maxConnections = 512

// limitConnections returns a listener that has at most so many connections at a time. A further one is accepted once an earlier one is closed.
func limitConnections(l net.Listener, most int) *limitedListener {
	return &limitedListener{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{})}
}

// limitedListener is a net.Listener with a limit of connections.
type limitedListener struct {
	net.Listener
	// places has an item for each connection.
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: accepted, leave: func() { <-l.places }}, nil
}

// Close implements net.Listener. It ends an Accept that waits for a place.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn is a connection that leaves its place when it is closed.
type limitedConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}
