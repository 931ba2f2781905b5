package bench

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// BenchmarkPods makes Apps on a whole control plane with simulated nodes, and waits until all are ready.
func BenchmarkPods(b *testing.B) {
	const n, nodes = 500, 20
	plane, err := harness.StartCluster("bench", nodes)
	if err != nil {
		b.Fatal(err)
	}
	w := in(b, plane)
	defer w.end(b)
	o := w.start(b, "")
	o.settle(b)
	asked, before := w.requests(b), o.figures(b)
	seen := w.observe(b, n, isReady, ready)
	began := time.Now()
	each(b, n, w.submit)
	seen.wait(b)
	took := seen.took(began).Seconds()
	o.settle(b)
	cost, after := w.requests(b).since(asked), o.figures(b)
	found.add("all Apps ready, with pods", n, manager, "s", took)
	found.add("status writes until an App is ready, with pods", n, manager, "an App", float64(cost["patch apps/status"])/n)
	found.add("looks at an App until it is ready, with pods", n, manager, "an App", float64(after.reconciles-before.reconciles)/n)
	found.add("processor time for 1,000 Apps, with pods", n, manager, "s", (after.cpu-before.cpu)*1000/n)
	progress("%d Apps with pods: ready in %.1f s; %.2f status writes and %.2f looks an App", n, took,
		float64(cost["patch apps/status"])/n, float64(after.reconciles-before.reconciles)/n)
	o.stop(b)
}

// isReady tells of Apps that say so.
func isReady(e watch.Event) (step, bool) {
	app, ok := e.Object.(*appv1.App)
	return ready, ok && meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady)
}
