package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// canaries is the number of Apps whose canary waits for a promotion.
const canaries = 1000

// idleCanaries is the figure of a manager whose canaries wait for a promotion.
const idleCanaries = "requests in 60 idle seconds, canaries"

// BenchmarkCanaries has the canary of each App wait for its promotion: what the manager asks for each canary, and what in a minute in which
// nothing happens. The benchmark writes the status of the Deployments in place of their controller.
func BenchmarkCanaries(b *testing.B) {
	w := headless(b)
	defer w.end(b)
	o := w.start(b, "")
	o.settle(b)
	each(b, canaries, func(ctx context.Context, i int) error {
		app := w.app(i)
		app.Spec.Canary = &appv1.CanarySpec{}
		return w.client.Create(ctx, app)
	})
	o.settle(b)
	each(b, canaries, func(ctx context.Context, i int) error { return w.becomesAvailable(ctx, w.app(i).Name) })
	w.awaitApps(b, func(s *appv1.AppStatus) bool { return meta.IsStatusConditionTrue(s.Conditions, appv1.ConditionReady) })
	o.settle(b)
	asked := w.requests(b)
	each(b, canaries, func(ctx context.Context, i int) error {
		app := w.app(i)
		return w.client.Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"nginx:1.17.0"}}`)))
	})
	w.awaitApps(b, func(s *appv1.AppStatus) bool { return s.Canary != nil })
	each(b, canaries, func(ctx context.Context, i int) error {
		return w.becomesAvailable(ctx, w.app(i).Name+appv1.CanarySuffix)
	})
	w.awaitApps(b, func(s *appv1.AppStatus) bool { return s.Canary != nil && s.Canary.Ready == s.Canary.Pods })
	o.settle(b)
	cost := w.requests(b).since(asked)
	for _, own := range []string{"patch apps", "get apps", "get deployments", "list apps", "put deployments/status"} {
		delete(cost, own)
	}
	found.count("making one of the canaries", canaries, cost)
	asked = w.requests(b)
	pass(b, time.Minute)
	idle := w.requests(b).since(asked)
	found.add(idleCanaries, canaries, manager, "", float64(idle.total()))
	found.add("memory, canaries", canaries, manager, "MiB", o.figures(b).resident)
	progress("%d canaries: %d requests in an idle minute, %.0f MiB; %s", canaries, idle.total(), o.figures(b).resident, cost)
	o.stop(b)

	asked = w.requests(b)
	o = w.start(b, "")
	took := o.through(b, canaries)
	again := w.requests(b).since(asked)
	found.add("restart over canaries", canaries, manager, "s", took)
	found.add("restart over canaries, writes", canaries, manager, "", float64(again.writes()))
	progress("a new manager over %d canaries is idle after %.2f s; %s", canaries, took, again)
	o.stop(b)
}

// becomesAvailable writes the status of a Deployment, as its controller does once all its pods are available.
func (w *world) becomesAvailable(ctx context.Context, name string) error {
	var d appsv1.Deployment
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &d); err != nil {
		return err
	}
	n := *d.Spec.Replicas
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, n, n
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n
	return w.client.Status().Update(ctx, &d)
}

// awaitApps waits until the status of each App is as it should be.
func (w *world) awaitApps(b *testing.B, is func(*appv1.AppStatus) bool) {
	b.Helper()
	w.awaitEach(b, &appv1.AppList{}, func(obj runtime.Object) bool {
		app, ok := obj.(*appv1.App)
		return ok && is(&app.Status)
	})
}

// awaitEach waits until each object of the type of an empty list is as it should be.
func (w *world) awaitEach(b *testing.B, empty client.ObjectList, is func(runtime.Object) bool) {
	b.Helper()
	harness.Eventually(b, func() error {
		list, ok := empty.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("%T is no list", empty)
		}
		if err := w.client.List(b.Context(), list); err != nil {
			return err
		}
		return meta.EachListItem(list, func(obj runtime.Object) error {
			if !is(obj) {
				return fmt.Errorf("an object is not there yet: %+v", obj)
			}
			return nil
		})
	})
}
