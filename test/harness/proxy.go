package harness

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Proxy is a server between one client, such as a manager, and the API server. It sends on what it is asked, as a ServiceAccount,
// records it, and lets it fail as a fault says.
type Proxy struct {
	// Requests are all that the client has sent.
	Requests *Requests
	server   *httptest.Server
}

// Proxy starts a proxy for a manager, which ends with the test. fault may be nil.
func (p *Plane) Proxy(t testing.TB, fault Fault) *Proxy {
	t.Helper()
	return p.proxy(t, managerAccount, &Requests{fault: fault, usage: p.usage})
}

// ProxyAs is Proxy for a client that is no manager, and acts as a ServiceAccount: what it uses of rights is its own.
func (p *Plane) ProxyAs(t testing.TB, account types.NamespacedName, fault Fault) *Proxy {
	t.Helper()
	return p.proxy(t, account, &Requests{fault: fault, usage: &usage{}})
}

func (p *Plane) proxy(t testing.TB, account types.NamespacedName, requests *Requests) *Proxy {
	t.Helper()
	x := &Proxy{Requests: requests}
	transport, err := rest.TransportFor(p.recorded(account, x.Requests))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(p.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	x.server = httptest.NewServer(&httputil.ReverseProxy{
		Transport:     transport,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1, // A watch is told at once.
		ErrorHandler:  hangUp,
		ErrorLog:      log.New(io.Discard, "", 0), // Of connections that break, which they are meant to.
	})
	t.Cleanup(func() {
		x.Cut()
		x.server.Close()
	})
	return x
}

// Config is a manager's way to the API server through the proxy.
func (x *Proxy) Config() *rest.Config { return &rest.Config{Host: x.server.URL} }

// Cut breaks all connections of the manager, its watches among them. New ones are taken.
func (x *Proxy) Cut() { x.server.CloseClientConnections() }

// hangUp ends the connection of a request that got no answer: what the manager sees is what it would see without a proxy.
func hangUp(w http.ResponseWriter, _ *http.Request, _ error) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}
