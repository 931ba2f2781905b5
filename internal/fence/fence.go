// Package fence blocks the writes of a manager whose leader lease may have expired.
//
// A leader that was frozen, or had no network, learns that it has lost the election only when its renewal of the lease times out.
// Until then its workers would continue with earlier data, while another leader works.
package fence

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// ErrLapsed is the error for a request that the fence has not sent.
var ErrLapsed = errors.New("request not sent: this manager has not renewed its lease in time, so another manager may be the leader")

// Fence lets writes pass while the lease is fresh. Before this manager first holds the lease, all writes pass: a manager that is not the
// leader writes only what needs no leader.
type Fence struct {
	fresh time.Duration
	clock clock.PassiveClock

	mu      sync.Mutex
	held    bool
	renewed time.Time
}

// New returns a fence that closes when the last renewal of the lease is longer than fresh ago. fresh must be shorter than the lease by the
// time of a request; --leader-elect-renew-deadline, how long a leader tries to renew the lease, meets this condition.
func New(fresh time.Duration, clk clock.PassiveClock) *Fence { return &Fence{fresh: fresh, clock: clk} }

// Election returns a way to the API server for the election, whose renewals keep the fence open. Once it is closed, the lease
// is not given up either: it may be another manager's, and client-go, which reads it again first, would take it from them.
func (f *Fence) Election(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet || !strings.HasPrefix(req.URL.Path, "/apis/"+coordinationv1.GroupName+"/") {
				return next.RoundTrip(req)
			}
			return f.renewLease(req, next)
		})
	})
	return cfg
}

// Work returns a way to the API server for all else, with the fence across. A closed fence stops writes before they are sent,
// and whatever is on its way through the process when it wakes up from a long sleep before it reaches the network.
func (f *Fence) Work(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // As client-go's.
	}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return fenced{conn, f}, nil
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet || !f.hasLapsed() {
				return next.RoundTrip(req)
			}
			return nil, refuseRequest(req)
		})
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// fenced is a connection to which nothing is written once the fence is closed.
type fenced struct {
	net.Conn
	fence *Fence
}

// Write implements net.Conn.
func (c fenced) Write(data []byte) (int, error) {
	if c.fence.hasLapsed() {
		return 0, ErrLapsed
	}
	return c.Conn.Write(data)
}

// renewLease sends a write of the lease. If it succeeds, the lease is fresh from the time before it was sent, or given up.
func (f *Fence) renewLease(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	sent, released := f.clock.Now(), releasesLease(req)
	if released && f.hasLapsed() {
		return nil, refuseRequest(req)
	}
	resp, err := next.RoundTrip(req)
	if err == nil && resp.StatusCode < http.StatusMultipleChoices {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held, f.renewed = true, sent
		if released {
			f.renewed = time.Time{}
		}
	}
	return resp, err
}

// refuseRequest ends a request that is not sent.
func refuseRequest(req *http.Request) error {
	if req.Body != nil {
		_ = req.Body.Close() // As every transport must.
	}
	return ErrLapsed
}

// releasesLease reports whether a write of a lease, in JSON or, as client-go sends it, Protobuf, gives it up.
func releasesLease(req *http.Request) bool {
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	var lease coordinationv1.Lease
	_, _, err = scheme.Codecs.UniversalDeserializer().Decode(data, nil, &lease)
	return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == ""
}

// hasLapsed reports whether the lease was held and is no longer fresh, by either of two clocks: the process clock does not run while the
// machine sleeps, and the wall clock may be set.
func (f *Fence) hasLapsed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	return f.held && max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))) > f.fresh
}
