package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// singles is how often a single App is applied.
const singles = 200

// BenchmarkSingle applies one App after the other where nothing else happens, by turns for the manager and as floor B. The
// manager is given one namespace, and the floor has another.
func BenchmarkSingle(b *testing.B) {
	w := bare(b)
	defer w.end(b)
	o := w.start(b, w.namespace)
	o.settle(b)
	floor := *w
	floor.namespace = "floor"
	w.addNamespace(b, floor.namespace)
	var manages, floors []time.Duration
	for i := range singles {
		manages = append(manages, w.one(b, i, func(ctx context.Context, i int) error { return w.applied(ctx, w.app(i)) }))
		floors = append(floors, floor.one(b, i, floor.applyAll))
	}
	slices.Sort(manages)
	slices.Sort(floors)
	for _, q := range quantiles {
		found.add("single, "+q.name, 1, manager, "ms", 1000*quantile(manages, q.at).Seconds())
		found.add("single, "+q.name, 1, floorB, "ms", 1000*quantile(floors, q.at).Seconds())
		found.divide("single, "+q.name, 1, floorB)
	}
	progress("a single App: p50 %s, p99 %s; floor B: p50 %s, p99 %s", quantile(manages, 0.5), quantile(manages, 0.99),
		quantile(floors, 0.5), quantile(floors, 0.99))
	o.stop(b)
}

// one makes an App by way of f, and returns how long it took until both children were seen.
func (w *world) one(b *testing.B, i int, f func(ctx context.Context, i int) error) time.Duration {
	b.Helper()
	name := w.app(i).Name
	seen := w.observe(b, 1, func(e watch.Event) (step, bool) {
		if obj, ok := e.Object.(client.Object); !ok || obj.GetName() != name {
			return "", false
		}
		return made(e)
	}, deployment, service)
	began := time.Now()
	if err := f(b.Context(), i); err != nil {
		b.Fatal(err)
	}
	seen.wait(b)
	return seen.took(began)
}

// applyAll is what floor B writes for an App before both children are there.
func (w *world) applyAll(ctx context.Context, i int) error {
	app := w.app(i)
	if err := w.applied(ctx, app); err != nil {
		return err
	}
	return writeChildren(ctx, app, w.applied)
}

const (
	// foreigners is how many Deployments and Services of others there are.
	foreigners    = 10000
	foreignMemory = "memory for foreign Deployments and Services, at rest"
)

// BenchmarkForeign measures what the Deployments and Services of others cost a manager.
func BenchmarkForeign(b *testing.B) {
	const n = 1000
	w := headless(b) // For the sake of time.
	defer w.end(b)
	each(b, n, w.submit)
	first := w.start(b, "")
	first.settle(b)
	first.stop(b)

	progress("memory: a manager without foreign objects")
	before := w.resident(b)
	each(b, foreigners, w.foreign)
	progress("memory: a manager with %d foreign Deployments and Services", foreigners)
	after := w.resident(b)
	found.add("memory without foreign objects, at rest", n, manager, "MiB", before)
	found.add(foreignMemory, n, manager, "MiB", after-before)
	progress("memory: %.0f MiB, and %.0f MiB with foreign objects", before, after)
}

// resident is the memory at rest of a manager that was restarted.
func (w *world) resident(b *testing.B) float64 {
	b.Helper()
	o := w.start(b, "")
	o.settle(b)
	defer o.stop(b)
	pass(b, collected)
	return o.figures(b).resident
}

// foreign makes a Deployment and a Service that are nobody's concern here, as long as those of Apps.
func (w *world) foreign(ctx context.Context, i int) error {
	app := w.app(i)
	app.Name, app.UID = fmt.Sprintf("foreign-%05d", i), types.UID(fmt.Sprint(i))
	d, s, err := children(app)
	if err != nil {
		return err
	}
	for _, child := range []client.Object{d, s} {
		child.SetOwnerReferences(nil)
		child.SetAnnotations(nil)
		child.SetLabels(map[string]string{"app": app.Name})
		if err := w.client.Create(ctx, child); err != nil {
			return err
		}
	}
	return nil
}
