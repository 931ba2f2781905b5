package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// busyTenant is what a tenant does without end within their rights.
type busyTenant struct {
	name string
	// objects are those that exist before.
	objects func(namespace string) []client.Object
	// change returns the n-th change: the object and a merge patch. It happens so many times a second.
	change   func(namespace string, n int) (client.Object, string)
	eachBusy time.Duration
	// probe returns another tenant's new resource.
	probe func(metav1.ObjectMeta) harness.Resource
	// status is the request whose rate is reported: the status writes of the tenant's resources.
	status string
}

// busyTenants returns the loads. None has pods, which would keep Kubernetes' own controllers busy in place of the manager.
func busyTenants() []busyTenant {
	small, large, united := of(100, 500), of(12, 60), of(200, 1000)
	var long []corev1.EnvVar
	for i := range 600 {
		long = append(long, corev1.EnvVar{Name: fmt.Sprintf("LONG_%03d", i), Value: strings.Repeat("x", 960)})
	}
	apps := func(n int, envs []corev1.EnvVar) func(string) []client.Object {
		return func(namespace string) (objects []client.Object) {
			for i := range n {
				app := newApp(objectMeta(namespace, fmt.Sprint("busy-", i))).(*appv1.App)
				app.Spec.Replicas, app.Spec.Ports, app.Spec.Envs = ptr.To[int32](0), nil, envs
				objects = append(objects, app)
			}
			return objects
		}
	}
	image := func(of int) func(string, int) (client.Object, string) {
		return func(namespace string, n int) (client.Object, string) {
			return &appv1.App{ObjectMeta: objectMeta(namespace, fmt.Sprint("busy-", n%of))}, fmt.Sprintf(`{"spec":{"image":"nginx:busy-%d"}}`, n)
		}
	}
	return []busyTenant{
		{fmt.Sprintf("%d Apps, 60 images a second", small), apps(small, nil), image(small), time.Second / 60, newApp, "patch apps/status"},
		{fmt.Sprintf("%d Apps of 600 KB, 3 images a second", large), apps(large, long), image(large), time.Second / 3, newApp, "patch apps/status"},
		{fmt.Sprintf("%d UnitedDeployments of one Deployment, scaled 10 times a second", united), func(namespace string) []client.Object {
			objects := []client.Object{newDeployment(objectMeta(namespace, "busy"))}
			objects[0].(*appsv1.Deployment).Spec.Replicas = ptr.To[int32](0)
			for i := range united {
				ud := newUnitedDeployment(objectMeta(namespace, fmt.Sprint("busy-", i))).(*appv1.UnitedDeployment)
				ud.Spec.DeploymentName, ud.Spec.Replicas = "busy", ptr.To[int32](0)
				objects = append(objects, ud)
			}
			return objects
		}, func(namespace string, n int) (client.Object, string) {
			return newDeployment(objectMeta(namespace, "busy")), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n%3)
		}, time.Second / 10, newUnitedTemplate, "patch uniteddeployments/status"},
	}
}

// TestBusyTenant has a tenant keep the manager busy, and another one create a resource: it is Ready within three times the time of before,
// but for what a plain Deployment is slower than before, which is the share of the API server and of Kubernetes' own controllers. What is the
// manager's alone is within the three times whatever the API server does: from the resource's creation until the manager's first write for
// it, that is event, queue and reconcile, it takes less than two times the time of before. The times are medians. Both limits are asserted with
// the full numbers alone: the short form, which runs next to other suites, asserts that all become Ready.
func TestBusyTenant(t *testing.T) {
	for _, load := range busyTenants() {
		t.Run(load.name, func(t *testing.T) {
			busy, other := plane.Namespace(t), plane.Namespace(t)
			seen := &firsts{namespace: other}
			x := plane.Proxy(t, seen.note)
			harness.Spawn(t, program, x.Config(), busy+","+other).Ready(t)
			s := &served{namespace: other, probe: load.probe, firsts: seen}
			s.serve(t, 1) // The first one pays for connections.
			before := s.serve(t, of(3, 7))
			atOnce(t, 8, load.objects(busy), func(obj client.Object) error { return plane.Client.Create(t.Context(), obj) })
			x.Requests.AwaitQuiet(t)

			x.Requests.Reset()
			end := load.begin(t, busy)
			pause(t, 3*time.Second) // For the queue to fill.
			during := s.serve(t, of(3, 7))
			changes, took := end()
			slower, deployment := ratioOf(during.resource, before.resource), ratioOf(during.deployment, before.deployment)
			writes := float64(writesIn(busy, x)[load.status]) / took.Seconds()
			t.Logf("%s: %d changes in %s, %.0f status writes a second; Ready after %s, before %s; a Deployment %s, before %s; the first write after %s, before %s; an answer after %s, before %s",
				load.name, changes, took, writes, during.resource, before.resource, during.deployment, before.deployment,
				during.first, before.first, median(during.answer), median(before.answer))
			if changes == 0 {
				t.Error("the API server took none of the changes")
			}
			if full && slower > 3*max(1, deployment) {
				t.Errorf("another tenant's resource is Ready after %.1f × the time of before, and a Deployment is available after %.1f ×", slower, deployment)
			}
			if first := median(during.first); full && first > 2*median(before.resource) {
				t.Errorf("the manager's first write for another tenant's new resource comes after %s, and the resource was Ready after %s before", first, median(before.resource))
			}
			results.add(t, "busy tenant: "+load.name, changes, during.resource,
				"%.1f × the time of before, a plain Deployment %.1f ×; the first write after %s (before %s), an answer to a write after %s (%s); %.1f changes and %.0f status writes a second",
				slower, deployment, median(during.first), median(before.first), median(during.answer), median(before.answer), float64(changes)/took.Seconds(), writes)
		})
	}
}

// begin starts the load. The returned function ends it, and returns how many changes were made in what time. In the short form few
// changes are under way at a time: with the other suites of the machine, more would keep the API server from its own controllers.
func (l *busyTenant) begin(t *testing.T, namespace string) (end func() (int, time.Duration)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	numbers, began := make(chan int), time.Now()
	var group sync.WaitGroup
	var made int
	var mu sync.Mutex
	for range of(2, 16) {
		group.Go(func() {
			for n := range numbers {
				obj, patch := l.change(namespace, n)
				// An API server that cannot take them all refuses some.
				if err := plane.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))); err == nil {
					mu.Lock()
					made++
					mu.Unlock()
				}
			}
		})
	}
	group.Go(func() {
		defer close(numbers)
		tick := time.NewTicker(l.eachBusy)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			select {
			case numbers <- n:
			case <-ctx.Done():
			}
		}
	})
	return func() (int, time.Duration) {
		cancel()
		group.Wait()
		return made, time.Since(began)
	}
}

// served creates resources and plain Deployments of a tenant, by turns.
type served struct {
	namespace string
	probe     func(metav1.ObjectMeta) harness.Resource
	firsts    *firsts
	made      int
}

// firsts has when the manager sent the first write for each object of a namespace, and how long its writes waited for their answers.
type firsts struct {
	namespace string
	mu        sync.Mutex
	sent      map[string]time.Time
	answers   []time.Duration
}

// note is a harness.Fault that makes nothing fail.
func (f *firsts) note(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if q.Namespace != f.namespace || !q.Write() {
		return send()
	}
	f.mu.Lock()
	if f.sent == nil {
		f.sent = map[string]time.Time{}
	}
	if f.sent[q.Name].IsZero() {
		f.sent[q.Name] = q.Sent
	}
	f.mu.Unlock()
	resp, err := send()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, time.Since(q.Sent))
	return resp, err
}

// after returns how long it took from a time until the first write for an object, and whether there was one.
func (f *firsts) after(began time.Time, name string) (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent, known := f.sent[name]
	return max(0, sent.Sub(began)), known // The manager may know before the answer to the creation arrives.
}

// takeAnswers returns how long writes have waited for their answers since it was last called, the shortest first.
func (f *firsts) takeAnswers() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := f.answers
	f.answers = nil
	slices.Sort(answers)
	return answers
}

// times are how long it took until resources were Ready, until Deployments were available, from the answer to a resource's creation until
// the manager's first write for it, and from each of its writes until the answer, the shortest first.
type times struct{ resource, deployment, first, answer []time.Duration }

// serve creates n of each.
func (s *served) serve(t *testing.T, n int) (took times) {
	t.Helper()
	for range n {
		s.made++
		resource := s.probe(objectMeta(s.namespace, fmt.Sprint("probe-", s.made)))
		created, ready := timed(t, resource, func() error { return (&script{controlled: true}).settled(resource) })
		took.resource = append(took.resource, ready)
		first, sent := s.firsts.after(created, resource.GetName())
		if !sent {
			t.Fatalf("the manager has written nothing of the name %s", resource.GetName())
		}
		took.first = append(took.first, first)
		deployment := newDeployment(objectMeta(s.namespace, fmt.Sprint("plain-", s.made))).(*appsv1.Deployment)
		deployment.Spec.Replicas = ptr.To[int32](1)
		_, available := timed(t, deployment, func() error {
			if deployment.Status.AvailableReplicas < 1 {
				return errors.New("it is not available")
			}
			return nil
		})
		took.deployment = append(took.deployment, available)
	}
	took.answer = s.firsts.takeAnswers()
	for _, of := range [][]time.Duration{took.resource, took.deployment, took.first} {
		slices.Sort(of)
	}
	return took
}

// timed creates an object, and returns when the API server had it, and how long it took until it is as wanted.
func timed(t *testing.T, obj client.Object, wanted func() error) (created time.Time, took time.Duration) {
	t.Helper()
	began := time.Now()
	plane.Create(t, obj)
	created = time.Now()
	plane.Until(t, obj, wanted)
	return created, time.Since(began)
}

// median returns the median of times in order, 0 of none.
func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	return of[len(of)/2].Round(time.Millisecond)
}

// ratioOf returns the ratio of two medians.
func ratioOf(a, b []time.Duration) float64 { return a[len(a)/2].Seconds() / b[len(b)/2].Seconds() }

// atOnce does something with each object, from so many clients.
func atOnce(t *testing.T, clients int, objects []client.Object, do func(client.Object) error) {
	t.Helper()
	if err := do(objects[0]); err != nil { // What the others may be about.
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := 1 + c; i < len(objects); i += clients {
				if err := do(objects[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
