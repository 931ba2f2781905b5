package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// busyApps is how many Apps of a tenant are changed all the time, and busyPause how long it is from one change to the next.
	busyApps  = 500
	busyPause = time.Second / 60
	// neighbours is how often another tenant applies an App meanwhile.
	neighbours = 50
	// busySingle is the figure of a single App next to a busy tenant.
	busySingle = "single next to a busy tenant, p50, ÷ alone"
)

// BenchmarkBusy applies Apps of one namespace, and as floor B, before and while a tenant of another namespace changes the images of many Apps.
func BenchmarkBusy(b *testing.B) {
	w := bare(b)
	defer w.end(b)
	floor, busy := *w, *w
	floor.namespace, busy.namespace = "floor", "busy"
	w.addNamespace(b, floor.namespace)
	w.addNamespace(b, busy.namespace)
	o := w.start(b, w.namespace+","+busy.namespace)
	each(b, busyApps, busy.submit)
	o.settle(b)
	next := 0
	median := func() (manages, floors time.Duration) {
		var of, from []time.Duration
		for range neighbours {
			of = append(of, w.one(b, next, func(ctx context.Context, i int) error { return w.applied(ctx, w.app(i)) }))
			from = append(from, floor.one(b, next, floor.applyAll))
			next++
		}
		slices.Sort(of)
		slices.Sort(from)
		return quantile(of, 0.5), quantile(from, 0.5)
	}
	before, floorBefore := median()
	end := busy.keepBusy(b)
	pass(b, 3*time.Second) // For the queue to fill.
	during, floorDuring := median()
	rate := end()
	found.add(busySingle, busyApps, manager, "×", during.Seconds()/before.Seconds())
	found.add(busySingle, busyApps, floorB, "×", floorDuring.Seconds()/floorBefore.Seconds())
	progress("a single App next to %.0f changes a second of another tenant: p50 %s, alone %s; floor B: %s and %s", rate, during, before, floorDuring, floorBefore)
	o.stop(b)
}

// keepBusy changes the images of the busy Apps. The returned function ends that, and returns how many changes a second there were.
func (w *world) keepBusy(b *testing.B) (end func() float64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	began, made := time.Now(), make([]int, clients)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			tick := time.NewTicker(clients * busyPause)
			defer tick.Stop()
			for i := c; ; i += clients {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				if err := w.setImage(ctx, w.app(i%busyApps), fmt.Sprintf("nginx:busy-%d", i)); err != nil && ctx.Err() == nil {
					b.Errorf("the busy tenant: %v", err)
					return
				}
				made[c]++
			}
		})
	}
	return func() float64 {
		cancel()
		group.Wait()
		total := 0
		for _, n := range made {
			total += n
		}
		return float64(total) / time.Since(began).Seconds()
	}
}

// setImage changes the image of an App.
func (w *world) setImage(ctx context.Context, app *appv1.App, to string) error {
	return w.client.Patch(ctx, app, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"image": %q}}`, to)))
}

// largeChanges is how often the image of a large App is changed.
const largeChanges = 40

// BenchmarkLarge changes the image of an App with a spec of 600 KB again and again, and what processor time that costs the manager and the
// API server. Floor B is a plain client that applies the same Deployment and writes the status.
func BenchmarkLarge(b *testing.B) {
	w := bare(b)
	defer w.end(b)
	floor := *w
	floor.namespace = "floor"
	w.addNamespace(b, floor.namespace)
	o := w.start(b, w.namespace)
	large := func(w *world) *appv1.App {
		app := w.app(0)
		for i := range 600 {
			app.Spec.Envs = append(app.Spec.Envs, corev1.EnvVar{Name: fmt.Sprintf("LONG_%03d", i), Value: strings.Repeat("x", 960)})
		}
		return app
	}
	create := func(ctx context.Context, _ int) error { return w.client.Create(ctx, large(w)) }
	w.one(b, 0, create)
	if err := floor.client.Create(b.Context(), large(&floor)); err != nil {
		b.Fatal(err)
	}
	o.settle(b)

	cpu, server := o.figures(b).cpu, w.serverTime(b)
	for i := range largeChanges {
		if err := w.setImage(b.Context(), w.app(0), fmt.Sprintf("nginx:%d", i)); err != nil {
			b.Fatal(err)
		}
		o.settleSoon(b, w)
	}
	each := func(seconds float64) float64 { return 1000 * seconds / largeChanges }
	ours, its := each(o.figures(b).cpu-cpu), each(w.serverTime(b)-server)

	server = w.serverTime(b)
	for i := range largeChanges {
		app := large(&floor)
		app.Spec.Image = fmt.Sprintf("nginx:%d", i)
		if err := floor.setImage(b.Context(), floor.app(0), app.Spec.Image); err != nil {
			b.Fatal(err)
		}
		if err := floor.client.Get(b.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			b.Fatal(err)
		}
		d, _, err := children(app)
		if err != nil {
			b.Fatal(err)
		}
		if err := floor.applied(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		if err := floor.report(b.Context(), app); err != nil {
			b.Fatal(err)
		}
	}
	plain := each(w.serverTime(b) - server)
	const name = "a change of an App of 600 KB, processor time"
	found.add(name, 1, manager, "ms", ours)
	found.add(name+" of the API server", 1, manager, "ms", its)
	found.add(name+" of the API server", 1, floorB, "ms", plain)
	progress("a change of an App of 600 KB: %.0f ms of the manager, %.0f ms of the API server, with floor B %.0f ms", ours, its, plain)
	o.stop(b)
}

// settleSoon waits until the status of the App is that of its generation.
func (o *operator) settleSoon(b *testing.B, w *world) {
	b.Helper()
	for {
		app := w.app(0)
		if err := w.client.Get(b.Context(), client.ObjectKeyFromObject(app), app); err != nil {
			b.Fatal(err)
		}
		if app.Status.ObservedGeneration == app.Generation {
			return
		}
		pass(b, pause)
	}
}

// serverTime is the processor time of the API server in seconds.
func (w *world) serverTime(b *testing.B) float64 {
	b.Helper()
	var total float64
	for _, m := range w.metrics(b)["process_cpu_seconds_total"].GetMetric() {
		total += m.GetCounter().GetValue()
	}
	return total
}
