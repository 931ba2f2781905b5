package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// victim is a manager with the memory of a release, all its servers, and two tenants, one of them with the namespaces of an attack.
type victim struct {
	process  *harness.Process
	start    func(t *testing.T) *harness.Process
	limit    int64
	hostile  []string
	other    string
	webhooks string
	metrics  string

	tried, refused atomic.Int64
	// peak is the most memory that a process of the manager has had.
	peak int64
}

// attack is what a stranger does until the context ends. It calls began once the manager has had its first share of it.
type attack struct {
	name string
	// fast is true for an attack that takes all the processor time it gets, also that of the API server for what the manager reads. The attackers of this test run on the same processors as the manager
	// and the API server, so that its ratio says nothing of the manager.
	fast bool
	// namespaces is in how many namespaces the tenant has the role, 0 for one.
	namespaces int
	// restarts is how often the manager is killed and started again, with the objects of the attack in its way.
	restarts int
	run      func(ctx context.Context, t *testing.T, v *victim, began func())
}

// attacks are by a tenant with the role edit, and by pods without credentials.
var attacks = []attack{
	{name: "Services of 250 KB with the operator's label", restarts: 2, run: labelledServices},
	{name: "Apps of 600 KB in one namespace", restarts: 2, run: largeApps},
	{name: "Apps of 600 KB in four namespaces", namespaces: 4, restarts: 2, run: largeApps},
	{name: "dry runs of 24,000 errors", fast: true, run: dryRunsOfErrors},
	{name: "unfinished reviews from one address", run: unfinished(1, slow, toWebhooks)},
	{name: "unfinished reviews from 60 addresses", run: unfinished(60, slow, toWebhooks)},
	{name: "unfinished reviews, again at once", fast: true, run: unfinished(60, 0, toWebhooks)},
	{name: "unfinished requests for metrics", run: unfinished(60, slow, func(v *victim) target { return target{v.metrics, false} })},
	{name: "unfinished probes", run: unfinished(60, slow, func(v *victim) target { return target{v.process.Probes, false} })},
	{name: "forged reviews of many values", run: forgedReviews(manyValues, 16, time.Second)},
	{name: "forged reviews, again at once", fast: true, run: forgedReviews(manyValues, 64, 0)},
	{name: "reviews in YAML", run: forgedReviews(strings.Repeat("-\n", 1_750_000), 16, time.Second)},
	{name: "NetworkPolicies of 650,000 rules to take over", restarts: 2, run: largePolicies},
	{name: "Jobs of 150,000 arguments next to ServiceAccounts to take over", fast: true, restarts: 2, run: largeJobs},
}

// slow is how long an attacker waits until it sends again that has been refused.
const slow = 15 * time.Second

func toWebhooks(v *victim) target { return target{v.webhooks, true} }

// TestAttacked attacks managers inside the memory of config/manager. None is killed for its memory or ends, the API server's own reviews are
// answered, and another tenant's App is Ready in at most twice the time of before. The short form, which runs next to other suites, judges no
// time, and leaves out the attacks that take all processor time.
func TestAttacked(t *testing.T) {
	for _, a := range attacks {
		if a.fast && !full {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			v := newVictim(t, max(1, a.namespaces))
			before := v.serve(t, "before")
			v.tried.Store(0)
			v.refused.Store(0)

			ctx, end := context.WithCancel(t.Context())
			began, ended := make(chan struct{}), make(chan struct{})
			go func() {
				a.run(ctx, t, v, sync.OnceFunc(func() { close(began) }))
				close(ended)
			}()
			select {
			case <-began:
			case <-ended:
			}
			during := v.serve(t, "during")
			for range a.restarts {
				v.restart(t)
			}
			end()
			<-ended
			v.check(t, before, during, a.fast)
			results.add(t, "attack: "+a.name, 1, []time.Duration{during},
				"an App of another namespace is ready after %.2f × the time of before; %d of %d invalid ones are refused; %d of %d MiB",
				during.Seconds()/before.Seconds(), v.refused.Load(), v.tried.Load(), v.peak>>20, v.limit>>20)
		})
	}
}

func newVictim(t *testing.T, namespaces int) *victim {
	t.Helper()
	v := &victim{other: plane.Namespace(t), metrics: harness.FreeAddress(t), limit: managerMemoryLimit(t)}
	for range namespaces {
		v.hostile = append(v.hostile, plane.Namespace(t))
	}
	watched := append(slices.Clone(v.hostile), v.other)
	opts, authority := harness.LocalWebhooks(t)
	v.webhooks = net.JoinHostPort("127.0.0.1", fmt.Sprint(opts.Port))
	v.start = func(t *testing.T) *harness.Process {
		t.Helper()
		p := harness.SpawnWith(t, []string{"GOGC=40", "GOMEMLIMIT=450MiB", "ENABLE_WEBHOOKS=true"}, program, plane.ManagerConfig(), strings.Join(watched, ","),
			"--webhook-cert-dir="+opts.CertDir, fmt.Sprintf("--webhook-port=%d", opts.Port), "--metrics-bind-address="+v.metrics, "--metrics-secure=false")
		p.LimitMemory(t, v.limit)
		p.Ready(t)
		return p
	}
	v.process = v.start(t)
	if v.isRefused(t) {
		t.Fatal("an App that only the webhooks refuse is refused without them")
	}
	for _, ns := range watched {
		plane.Ask(t, ns, "-"+ns, opts.Port, authority)
	}
	// The API server has learned of the webhooks once an invalid App is refused; then an update makes its address a proven one.
	harness.Eventually(t, func() error {
		if !v.isRefused(t) {
			return fmt.Errorf("an invalid App is not refused")
		}
		return nil
	})
	return v
}

// survives checks that the manager runs within its memory.
func (v *victim) survives(t *testing.T) {
	t.Helper()
	if killed := v.process.KilledForMemory(t); killed > 0 || !v.process.Alive() {
		t.Fatalf("the manager has ended; killed for its memory: %d times", killed)
	}
	v.peak = max(v.peak, v.process.PeakMemory(t))
	if v.peak > v.limit {
		t.Errorf("the manager used %d MiB, and its limit is %d MiB", v.peak>>20, v.limit>>20)
	}
}

// restart kills the manager, starts it again, and has it reconcile an App of the other tenant.
func (v *victim) restart(t *testing.T) {
	t.Helper()
	v.survives(t)
	v.process.Signal(t, syscall.SIGKILL)
	<-v.process.Ended()
	v.process = v.start(t)
	app := newApp(metav1.ObjectMeta{Namespace: v.other, GenerateName: "restarted-"}).(*appv1.App)
	plane.Create(t, app)
	plane.Until(t, app, func() error { return (&script{controlled: true}).settled(app) })
	v.survives(t)
}

// serve has another tenant create Apps, and change each once it is Ready. It returns the median of the times until they are Ready.
func (v *victim) serve(t *testing.T, phase string) time.Duration {
	t.Helper()
	var took []time.Duration
	for i := range of(5, 11) {
		v.isRefused(t)
		app := newApp(objectMeta(v.other, fmt.Sprintf("%s-%d", phase, i))).(*appv1.App)
		began := time.Now()
		plane.Create(t, app)
		plane.Until(t, app, func() error { return (&script{controlled: true}).settled(app) })
		took = append(took, time.Since(began))
		plane.Change(t, app, func() { app.Spec.MinReadySeconds = ptr.To[int32](1) })
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// isRefused creates an App that only the webhooks refuse, as a dry run, and reports whether it is refused with the message of its fault.
func (v *victim) isRefused(t *testing.T) bool {
	t.Helper()
	app := newApp(objectMeta(v.other, "invalid")).(*appv1.App)
	app.Spec.Volumes = nil
	app.Spec.VolumeMounts = []corev1.VolumeMount{{Name: "missing", MountPath: "/data"}}
	err := plane.Client.Create(t.Context(), app, client.DryRunAll)
	v.tried.Add(1)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		return false
	}
	v.refused.Add(1)
	return true
}

// check checks what came of an attack.
func (v *victim) check(t *testing.T, before, during time.Duration, fast bool) {
	t.Helper()
	v.survives(t)
	if tried, refused := v.tried.Load(), v.refused.Load(); refused < tried {
		t.Errorf("of %d invalid Apps, %d were refused", tried, refused)
	}
	// The clock of a short time is coarse: a rollout waits for informers and nodes.
	if most := max(2*before, before+time.Second/2); full && during > most && !fast {
		t.Errorf("an App of another tenant is ready after %s, and after %s before", during, before)
	}
	v.process.Ready(t)
}

// target is a server of the manager.
type target struct {
	address   string
	encrypted bool
}

// dial connects from one of many addresses of this machine.
func (a target) dial(ctx context.Context, from int) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(from/250), byte(from%250+1))}, Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", a.address)
	if err != nil || !a.encrypted {
		return conn, err
	}
	encrypted := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return encrypted, nil
}

// unfinished keeps 60 requests of 6.9 MiB whose last bytes never come, and 300 requests with headers of 1 MB, from some addresses. A request that
// the server gives up is followed by another one after a pause.
func unfinished(addresses int, pause time.Duration, at func(*victim) target) func(context.Context, *testing.T, *victim, func()) {
	const size = 69 << 20 / 10
	body := fmt.Sprintf("POST /validate-app-huolala-cn-v1-app HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		4<<20-10, strings.Repeat("x", 4<<20-20))
	chunked := fmt.Sprintf("POST /validate-app-huolala-cn-v1-app HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", size, strings.Repeat("x", size-10))
	headers := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1_000_000)
	return func(ctx context.Context, _ *testing.T, v *victim, began func()) {
		var group sync.WaitGroup
		var sent atomic.Int64
		for i := range 360 {
			group.Go(func() {
				text := headers
				if i < 60 {
					text = []string{body, chunked}[i%2]
				}
				for ctx.Err() == nil {
					leaveUnfinished(ctx, at(v), i%addresses, text, func() {
						if sent.Add(1) == 180 {
							began()
						}
					})
					linger(ctx, pause)
				}
			})
		}
		group.Wait()
		began()
	}
}

// linger waits for a time, or until the attack ends.
func linger(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// leaveUnfinished sends a text, and waits until the server closes the connection. sent is called once the text is sent, or the server has
// had enough of it.
func leaveUnfinished(ctx context.Context, at target, from int, text string, sent func()) {
	conn, err := at.dial(ctx, from)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, text)
	sent()
	if err == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// manyValues is a review of many short JSON values. It takes 60 times its length to decode.
var manyValues = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","object":{"metadata":{"managedFields":[` +
	strings.TrimSuffix(strings.Repeat("{},", 100_000), ",") + `]}}}}`

// forgedReviews sends a review again and again, from as many clients with 16 addresses.
func forgedReviews(text string, clients int, pause time.Duration) func(context.Context, *testing.T, *victim, func()) {
	return func(ctx context.Context, _ *testing.T, v *victim, began func()) {
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				transport := &http.Transport{
					DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return toWebhooks(v).dial(ctx, i%16) },
				}
				defer transport.CloseIdleConnections()
				for n := 0; ctx.Err() == nil; n++ {
					post(ctx, transport, v.webhooks, text)
					if n == 3 {
						began()
					}
					linger(ctx, pause)
				}
			})
		}
		group.Wait()
		began()
	}
}

// post sends a review, and reads the answer.
func post(ctx context.Context, transport *http.Transport, address, review string) {
	at := url.URL{Scheme: "https", Host: address, Path: "/validate-app-huolala-cn-v1-app"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(review))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := transport.RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // What it says does not matter here.
		_ = resp.Body.Close()
	}
}
