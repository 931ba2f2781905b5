package harness

import (
	"io"
	"net/http"
	"sync"
)

// Gate holds back what a manager's watch of one resource receives, while it is shut. The zero Gate is open. A test opens it before it ends.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{}
}

// Close holds back what the watch receives from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets pass what was held back, and what follows.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *Gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// Before puts the gate in front of the watches of a resource.
func (g *Gate) Before(resource string) Fault {
	return func(q Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err == nil && q.Verb == "watch" && q.Resource == resource {
			resp.Body = gatedBody{resp.Body, g}
		}
		return resp, err
	}
}

type gatedBody struct {
	io.ReadCloser
	gate *Gate
}

func (b gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.pass()
	return n, err
}
