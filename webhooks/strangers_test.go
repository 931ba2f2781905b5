package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/resource"
)

// gate is a guarded server without a network, for the contexts of requests from given addresses.
type gate struct {
	t        *testing.T
	accept   chan net.Conn
	ended    chan struct{}
	contexts chan context.Context
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.accept:
		return c, nil
	case <-g.ended:
		return nil, net.ErrClosed
	}
}
func (g *gate) Close() error   { return nil }
func (g *gate) Addr() net.Addr { return &net.TCPAddr{} }

// remote is one end of a connection from an address.
type remote struct {
	net.Conn
	from netip.Addr
}

func (r remote) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.from, 1)) }

// openGate serves until the test ends.
func openGate(t *testing.T) *gate {
	g := &gate{t: t, accept: make(chan net.Conn), ended: make(chan struct{}), contexts: make(chan context.Context)}
	limits := guard.Webhooks
	limits.Arrival, limits.Answer = time.Hour, time.Hour
	server, listener := guard.New(limits, g, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.contexts <- r.Context()
		<-g.ended
	}), guard.Report{Refused: func(string) {}, Log: io.Discard})
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // It ends with the gate.
	t.Cleanup(func() {
		close(g.ended)
		served.Wait()
		_ = server.Close()
	})
	return g
}

// contextFrom returns the context of a request from an address. The request lasts until the test ends.
func (g *gate) contextFrom(address int) context.Context {
	here, there := net.Pipe()
	g.t.Cleanup(func() { _ = here.Close() })
	g.accept <- remote{there, netip.AddrFrom4([4]byte{10, 0, byte(address >> 8), byte(address)})}
	go func() { _, _ = io.WriteString(here, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }()
	return <-g.contexts
}

// slowWorld is an empty cluster that answers no read of an object called "slow" before it ends. reads counts these reads.
type slowWorld struct {
	emptyWorld
	reads *atomic.Int32
	ended chan struct{}
}

func (w slowWorld) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == "slow" {
		w.reads.Add(1)
		<-w.ended
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return w.emptyWorld.Get(ctx, key, obj, opts...)
}

// TestStrangersLeaveTurns has strangers send slow reviews that state the namespace of a victim. Strangers have at most half of the turns, and a review
// from an address that has proved itself is checked at once. Before any proof, strangers have all turns of a namespace. Time is that of synctest.
func TestStrangersLeaveTurns(t *testing.T) {
	const reviews, apiServer = 40, 1 << 10
	for name, c := range map[string]struct {
		processors, addresses, namespaces int
		proven                            bool
		running                           int32
	}{
		"one address":                         {2, 1, 1, true, 1},
		"two addresses":                       {2, 2, 1, true, 1},
		"many addresses":                      {2, reviews, 1, true, 1},
		"many addresses, many namespaces":     {2, reviews, 5, true, 2},
		"eight processors":                    {8, reviews, 1, true, 2},
		"eight processors, many namespaces":   {8, reviews, 5, true, 4},
		"no proof":                            {8, reviews, 1, false, 4},
		"no proof, many namespaces":           {8, reviews, 5, false, 8},
		"no proof, one address, 2 processors": {2, 1, 1, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := slowWorld{reads: &atomic.Int32{}, ended: make(chan struct{})}
				s := newValidators(t, world, emptyWorld{})
				s.patience, s.limits = time.Second, newLimits(c.processors)
				handler := handlersOf(s)[validatorPath(resource.KindApp.Name)]
				g := openGate(t)
				genuine := g.contextFrom(apiServer)
				if c.proven {
					guard.Prove(genuine, func() bool { return true })
				}
				var strangers sync.WaitGroup
				slow := creation(t, resource.KindApp.Name, map[string]any{"image": "a:1"})
				slow.Object.Raw = bytes.Replace(slow.Object.Raw, []byte(`"cart"`), []byte(`"slow"`), 1)
				for i := range reviews {
					ctx, req := g.contextFrom(i%c.addresses), slow
					if n := i % c.namespaces; n > 0 {
						req.Namespace = fmt.Sprint("shop-", n)
					}
					strangers.Go(func() { handler.Handle(ctx, req) })
				}
				synctest.Wait()
				if n := world.reads.Load(); n != c.running {
					t.Errorf("%d reviews of strangers run at once, want %d", n, c.running)
				}
				begin, wrong := time.Now(), creation(t, resource.KindApp.Name, invalidApp)
				if answer := handler.Handle(genuine, wrong); c.proven && (answer.Allowed || time.Since(begin) > 0) {
					t.Errorf("the review of a proven address, after %s: %+v", time.Since(begin), answer)
				}
				close(world.ended)
				strangers.Wait()
			})
		})
	}
}

// invalidApp is a spec that is refused by itself.
var invalidApp = map[string]any{"image": "a:1", "minReadySeconds": 600, "progressDeadlineSeconds": 600}

// TestUpdatesProveBeforeTheirTurn sends updates of each kind and of the scale while the reviews of strangers take all turns. With the UID of the stored
// resource, the update is reviewed at once. With an invented UID, it is not.
func TestUpdatesProveBeforeTheirTurn(t *testing.T) {
	for kind := range featureSpecs {
		for _, sub := range []string{"", subresourceScale} {
			for stated, proven := range map[types.UID]bool{trueUID: true, "invented": false} {
				if sub != "" && (kind != resource.KindApp.Name && kind != resource.KindModelBox.Name) {
					continue
				}
				t.Run(fmt.Sprint(kind, sub, proven), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, _ := secretWorld(t)
						s.patience = time.Second
						g := openGate(t)
						guard.Prove(g.contextFrom(1), func() bool { return true })
						for range cap(s.limits.strangers.reviews.slots) {
							s.limits.strangers.reviews.slots <- struct{}{}
						}
						update := forgedReviews("shop", "shop", stated)[kind][1]
						update.SubResource = sub
						begin := time.Now()
						answer := handlersOf(s)[validatorPath(kind)].Handle(g.contextFrom(2), update)
						if reviewed := time.Since(begin) == 0 && !slices.Contains(answer.Warnings, messageNotReviewed); reviewed != proven {
							t.Errorf("after %s: %+v", time.Since(begin), answer)
						}
					})
				})
			}
		}
	}
}

// TestStrangersUseTheirRates has strangers use up what reviews without proof may read: a creation from a proven address has its own rates.
func TestStrangersUseTheirRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newValidators(t, emptyWorld{}, emptyWorld{})
		g := openGate(t)
		genuine := g.contextFrom(1)
		guard.Prove(genuine, func() bool { return true })
		var strangers []context.Context
		for i := range 8 {
			strangers = append(strangers, g.contextFrom(2+i))
		}
		for i := range 2 * allLookRate.burst {
			who := s.newAsker(strangers[i%len(strangers)], []string{"shop", fmt.Sprint("shop-", i)}[i%2], false)
			who.mayLook()
			who.mayAsk()
		}
		if who := s.newAsker(strangers[0], "shop", false); who.mayLook() || who.mayAsk() {
			t.Error("strangers have no limit")
		}
		if who := s.newAsker(genuine, "shop", false); !who.mayLook() || !who.mayAsk() {
			t.Error("strangers take from the rates of a proven address")
		}
	})
}
