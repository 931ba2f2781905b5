package bench

import (
	"context"
	"crypto/sha512"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

const (
	// defaulted is the number of Apps with AppDefaults of their namespace, and mostDefaulted the number of those in many namespaces with AppDefaults of
	// the operator's namespace.
	defaulted, mostDefaulted = 1000, 10000
	// defaultedShards is the number of these namespaces.
	defaultedShards = 20
	// defaultedKeys is the number of annotations in the AppDefaults, with texts that do not get shorter by compression: about 2 KiB of a record.
	defaultedKeys = 32
	// idleDefaults is the figure of a manager whose Apps have other defaults than the present ones, memoryDefaults that of what the records cost:
	// Apps with defaults against Apps that state the same annotations.
	idleDefaults, memoryDefaults = "requests in 60 idle seconds, outdated defaults", "memory, Apps with defaults ÷ Apps that state the same"
)

// BenchmarkDefaults makes Apps with AppDefaults, and as many that state the same on a control plane of their own: what an edit of the AppDefaults
// writes, what the records cost in memory, what an idle minute asks for, and what a restart does while all Apps have earlier defaults.
func BenchmarkDefaults(b *testing.B) { defaultsOfMany(b, defaulted, 0) }

// BenchmarkManyDefaults is BenchmarkDefaults for many Apps in many namespaces, with AppDefaults of the operator's namespace.
func BenchmarkManyDefaults(b *testing.B) { defaultsOfMany(b, mostDefaulted, defaultedShards) }

func defaultsOfMany(b *testing.B, n, shards int) {
	b.Helper()
	stated, with := defaultsOf(b, n, shards, false), defaultsOf(b, n, shards, true)
	found.add(memoryDefaults, n, manager, "×", with/stated)
	progress("%d Apps: %.0f MiB with defaults, %.0f MiB with the same in each spec", n, with, stated)
}

// defaultsOf makes a number of Apps on a control plane of their own, with AppDefaults, or with the same in the spec of each App, and returns the
// memory of the manager, in MiB.
func defaultsOf(b *testing.B, n, shards int, with bool) (memory float64) {
	b.Helper()
	w := headless(b)
	defer w.end(b)
	w.shards = shards
	defaults := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: appv1.AppDefaultsName}}
	for i := range shards {
		defaults.Namespace = harness.SystemNamespace
		w.addNamespace(b, w.shard(i))
	}
	submit := w.submit
	if with {
		defaults.Spec.Defaults.PodAnnotations = annotations(0)
		if err := w.client.Create(b.Context(), defaults); err != nil {
			b.Fatal(err)
		}
	} else {
		submit = func(ctx context.Context, i int) error {
			app := w.app(i)
			app.Spec.PodAnnotations = annotations(0)
			return w.client.Create(ctx, app)
		}
	}
	o := w.start(b, "")
	o.settle(b)
	seen := w.observe(b, n, made, deployment, status)
	each(b, n, submit)
	seen.wait(b)
	o.settle(b)
	o.stop(b)
	memory = w.resident(b)
	if with {
		w.editDefaults(b, n, defaults)
		w.restartOverDefaults(b, n)
	}
	return memory
}

// editDefaults changes the AppDefaults, and counts what the manager writes until each App says that it has earlier ones.
func (w *world) editDefaults(b *testing.B, n int, defaults *appv1.AppDefaults) {
	b.Helper()
	o := w.start(b, "")
	o.settle(b)
	defer o.stop(b)
	asked, before := w.requests(b), o.figures(b)
	seen := w.observe(b, n, outdated, status)
	began := time.Now()
	edited := defaults.DeepCopy()
	edited.Spec.Defaults.PodAnnotations = annotations(1)
	if err := w.client.Patch(b.Context(), edited, client.MergeFrom(defaults)); err != nil {
		b.Fatal(err)
	}
	seen.wait(b)
	took := seen.took(began).Seconds()
	o.settle(b)
	cost, after := w.requests(b).since(asked), o.figures(b)
	delete(cost, "patch appdefaults")
	found.add("an edit of AppDefaults, until all Apps say so", n, manager, "s", took)
	found.add("an edit of AppDefaults, processor time", n, manager, "s", after.cpu-before.cpu)
	found.add("an edit of AppDefaults, memory after it", n, manager, "MiB", after.resident)
	found.count("an edit of AppDefaults", n, cost)
	asked = w.requests(b)
	pass(b, time.Minute)
	idle := w.requests(b).since(asked)
	found.add(idleDefaults, n, manager, "", float64(idle.total()))
	progress("an edit of AppDefaults over %d Apps: %.1f s, %.1f s of the processor, %.0f MiB before, %.0f MiB after it; %d requests in an idle minute; %s", n,
		took, after.cpu-before.cpu, before.resident, after.resident, idle.total(), cost)
}

// outdated reports Apps with earlier defaults than the present ones.
func outdated(e watch.Event) (step, bool) {
	app, ok := e.Object.(*appv1.App)
	return status, ok && app.Status.Defaults != nil && !app.Status.Defaults.Current
}

// restartOverDefaults starts a manager while all Apps have earlier defaults.
func (w *world) restartOverDefaults(b *testing.B, n int) {
	b.Helper()
	asked := w.requests(b)
	o := w.start(b, "")
	took := o.through(b, n)
	cost := w.requests(b).since(asked)
	found.add("restart over outdated defaults", n, manager, "s", took)
	found.add("restart over outdated defaults, writes", n, manager, "", float64(cost.writes()))
	progress("a restart over %d Apps with outdated defaults: %.2f s, %d writes", n, took, cost.writes())
	o.stop(b)
}

// annotations returns annotations of pods that differ by an edition.
func annotations(edition int) map[string]string {
	made := map[string]string{}
	for i := range defaultedKeys {
		made[fmt.Sprintf("example.com/key-%d", i)] = fmt.Sprintf("%x", sha512.Sum512([]byte{byte(edition), byte(i)}))[:80]
	}
	return made
}
