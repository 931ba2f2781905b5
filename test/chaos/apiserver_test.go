package chaos

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// TestAPIServer stops, cuts off and troubles the API server under load. It has one of its own for that. Each time, all comes
// to what it comes to when nothing happens.
func TestAPIServer(t *testing.T) {
	t.Parallel()
	fragile, apiServer, etcd, err := harness.StartRestartable(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fragile.Stop(); err != nil {
			t.Error(err)
		}
	})
	calm := newScript(fragile, fragile.Namespace(t), of(fixture.Of(fewest, 12), 60), false)
	seen := calm.watch(t)
	p := harness.Spawn(t, program, fragile.ManagerConfig(), calm.namespace)
	calm.start(t.Context())
	want := calm.undisturbed(t)
	p.Signal(t, syscall.SIGKILL)
	templates := seen.templates(t)

	// These concern no one but their own manager.
	t.Run("the network", func(t *testing.T) {
		t.Run("cut", func(t *testing.T) {
			t.Parallel()
			x, cuts := newTrial(t, fragile, len(calm.subjects), nil), of(fixture.Of(4, 10), 100)
			for i := range cuts {
				x.script.reach(t, i, cuts)
				x.proxy.Cut()
			}
			took := x.recovers(t)
			x.unharmed(t, templates)
			results.add(t, "all connections cut", cuts, []time.Duration{took}, "%s", x.ends(t, want, cuts*len(calm.subjects)))
		})
		for name, fault := range chosenTroubles() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				trouble := &trouble{fault: fault, r: chance(3)}
				x := newTrial(t, fragile, len(calm.subjects), trouble)
				x.script.finish(t)
				trouble.on.Store(false)
				took := x.recovers(t)
				x.unharmed(t, templates)
				made := int(trouble.made.Load())
				results.add(t, "one request of four: "+name, made, []time.Duration{took}, "%s", x.ends(t, want, made))
			})
		}
	})
	t.Run("servers restarted", func(t *testing.T) {
		servers := map[string]harness.Server{"etcd": etcd}
		if full {
			servers["kube-apiserver"] = apiServer
		}
		restarted(t, fragile, len(calm.subjects), want, servers, apiServer)
	})
	t.Run("CRD removed", func(t *testing.T) { crdRemoved(t, fragile) })
}

// restarted stops servers under load and starts them again, and counts what the manager asks of an API server that is away:
// the short form's only restart of that one.
func restarted(t *testing.T, p *harness.Plane, n int, want map[string]any, servers map[string]harness.Server, apiServer harness.Server) {
	x, runs := newTrial(t, p, n, nil), of(1, 5)
	took := map[string][]time.Duration{}
	for i := range runs {
		for name, server := range servers {
			x.script.reach(t, i, runs)
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			pause(t, time.Second)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			took[name] = append(took[name], x.recovers(t))
		}
	}
	all, late, away := x.without(t, apiServer)
	took["without"] = []time.Duration{x.recovers(t)}
	second := x.retriesLessAndLess(t, late, away)
	x.late(t)
	note := x.ends(t, want, 2*runs*(n+20)+all)
	for name := range servers {
		results.add(t, name+" restarted", runs, took[name], "%s", note)
	}
	results.add(t, "kube-apiserver away", 1, took["without"], "for %s: %d requests in the first half, %d in the second", away, all-second, second)
}

// retriesLessAndLess returns how many requests there were in the second half of the time without an API server. It fails the test if there
// were more than the manager may ask for.
func (x *trial) retriesLessAndLess(t *testing.T, late map[string]int, away time.Duration) int {
	t.Helper()
	reads, writes := 0, 0
	for asked, requests := range late {
		switch verb, _, _ := strings.Cut(asked, " "); verb {
		case "get", "list", "watch":
			reads += requests
		default:
			writes += requests
		}
	}
	// Each resource at hand (there are two for each subject) is tried less and less often: once in this half, with a
	// write of two children, of the status and of an event; a CloudManager has eight children more.
	most := 4 * 2 * len(x.script.subjects)
	for _, sub := range x.script.subjects {
		if sub.kind.name == "cloud" {
			most += 8
		}
	}
	if writes > most {
		t.Errorf("%d writes in the second half of %s without an API server, want at most %d: %v", writes, away, most, late)
	}
	// It is read once, and each of the 20 watches begins three times. client-go repeats each of these ten times, once a second, where the
	// connection ends without an answer, as that of a proxy does.
	if most := 11 * (2*len(x.script.subjects) + 3*20); reads > most {
		t.Errorf("%d reads in the second half of %s without an API server, want at most %d: %v", reads, away, most, late)
	}
	return reads + writes
}

// without keeps the API server away while resources wait to be worked on, and counts the requests of that time, and those
// of its second half by what they ask for.
func (x *trial) without(t *testing.T, server harness.Server) (all int, late map[string]int, away time.Duration) {
	t.Helper()
	away = time.Duration(of(3, 60)) * time.Second
	for i := range x.script.subjects {
		// Much is asked for, and can be asked no more.
		x.script.plane.Create(t, x.lateApp(i))
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pause(t, away)
	late = map[string]int{}
	for _, q := range x.proxy.Requests.All() {
		if since := q.Sent.Sub(began); since > 0 && since < away {
			all++
			if since > away/2 {
				late[q.Verb+" "+q.Resource]++
			}
		}
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	return all, late, away
}

// troubles are the ways in which a request goes wrong; some are carried out nevertheless.
var troubles = map[string]harness.Fault{
	"429": answer(func(harness.Request) apierrors.APIStatus { return apierrors.NewTooManyRequests("too many requests", 1) }),
	"409": answer(func(q harness.Request) apierrors.APIStatus {
		return apierrors.NewConflict(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("the object has been modified"))
	}),
	"500": answer(func(harness.Request) apierrors.APIStatus {
		return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	}),
	"504": answer(func(q harness.Request) apierrors.APIStatus {
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}),
	"done, and no answer": func(_ harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		<-time.After(time.Second) // As long as the one who asks has to wait for nothing.
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	},
}

// answer is a request that the API server answers with an error and does not carry out.
func answer(with func(harness.Request) apierrors.APIStatus) harness.Fault {
	return func(q harness.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		status := with(q)
		resp := harness.Answer(status)
		if details := status.Status().Details; details != nil && details.RetryAfterSeconds > 0 {
			resp.Header.Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
		}
		return resp, nil
	}
}

// chosenTroubles are all of them one by one, or in the short form all of them at once.
func chosenTroubles() map[string]harness.Fault {
	if full {
		return troubles
	}
	var mu sync.Mutex
	var faults []harness.Fault
	for _, fault := range troubles {
		faults = append(faults, fault)
	}
	next := 0
	return map[string]harness.Fault{
		"429, 409, 500, 504 and no answer": func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			mu.Lock()
			next = (next + 1) % len(faults)
			fault := faults[next]
			mu.Unlock()
			return fault(q, send)
		},
	}
}

// trouble makes one request of four go wrong while it is on. Watches it leaves alone: to cut them is another test.
type trouble struct {
	fault harness.Fault
	on    atomic.Bool
	made  atomic.Int64
	mu    sync.Mutex
	r     *rand.Rand
}

func (tr *trouble) send(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	tr.mu.Lock()
	chosen := tr.r.IntN(4) == 0
	tr.mu.Unlock()
	if !chosen || q.Verb == "watch" || !tr.on.Load() {
		return send()
	}
	tr.made.Add(1)
	return tr.fault(q, send)
}

// trial is a script whose manager goes through a proxy.
type trial struct {
	script  *script
	proxy   *harness.Proxy
	seen    *witness
	process *harness.Process
	probes  int
}

// newTrial starts a script with a manager of its own, and lets it get into trouble, unless that is nil, once it is ready: one
// that cannot even start ends, and is started again by Kubernetes.
func newTrial(t *testing.T, p *harness.Plane, n int, trouble *trouble) *trial {
	t.Helper()
	var fault harness.Fault
	if trouble != nil {
		fault = trouble.send
	}
	x := &trial{script: newScript(p, p.Namespace(t), n, false), proxy: p.Proxy(t, fault)}
	x.seen = x.script.watch(t)
	x.process = harness.Spawn(t, program, x.proxy.Config(), x.script.namespace)
	x.process.Ready(t)
	if trouble != nil {
		trouble.on.Store(true)
	}
	x.script.start(t.Context())
	return x
}

// recovers returns how long it takes until the manager has done something new for a user.
func (x *trial) recovers(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	x.probes++
	probe := newApp(objectMeta(x.script.namespace, fmt.Sprintf("%sprobe-%d", extra, x.probes)))
	harness.Eventually(t, func() error {
		if err := x.script.plane.Client.Create(t.Context(), probe); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	x.script.plane.Until(t, probe, func() error { return x.script.settled(probe) })
	return time.Since(began)
}

// lateApp returns an App that is made right before the API server is gone.
func (x *trial) lateApp(i int) harness.Resource {
	return newApp(objectMeta(x.script.namespace, fmt.Sprintf("%slate-%d", extra, i)))
}

// late waits until all of these Apps are applied: each is tried less and less often.
func (x *trial) late(t *testing.T) {
	t.Helper()
	for i := range x.script.subjects {
		app := x.lateApp(i)
		harness.Eventually(t, func() error {
			if err := x.script.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
				return err
			}
			return x.script.settled(app)
		})
	}
}

// unharmed fails the test if other pod templates were seen than those of a script that nothing happened to, or if the manager
// was forbidden anything. An API server that is just starting forbids everything.
func (x *trial) unharmed(t *testing.T, templates map[string]string) {
	t.Helper()
	x.script.finish(t)
	sameTemplates(t, templates, x.seen.templates(t))
	if forbidden := x.proxy.Requests.Forbidden(); len(forbidden) > 0 {
		t.Errorf("the manager's role does not allow: %v", forbidden)
	}
}

// ends waits until the script has come to what it should. It fails the test if there were more writes than its steps are
// worth, and as many as were tried again.
func (x *trial) ends(t *testing.T, want map[string]any, again int) string {
	t.Helper()
	x.script.finish(t)
	x.script.comesTo(t, want)
	writes := 0
	for _, n := range x.proxy.Requests.Writes() {
		writes += n
	}
	// A step may be answered by a write of each child and one of the status.
	most := 4*x.script.total + 2*again
	if writes > most {
		t.Errorf("%d writes for %d steps, want at most %d: %v", writes, x.script.total, most, x.proxy.Requests.Writes())
	}
	x.process.Signal(t, syscall.SIGKILL) // It fails if the process is no longer there.
	<-x.process.Ended()
	x.script.rests(t)
	if t.Failed() {
		t.FailNow()
	}
	return fmt.Sprintf("%d steps, %d writes", x.script.total, writes)
}
