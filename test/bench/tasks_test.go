package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// scheduled is how many Tasks are made of one App.
const scheduled = 1000

// idleTasks is the figure of a manager whose Tasks are not due.
const idleTasks = "requests in 60 idle seconds, Tasks"

// BenchmarkTasks makes Tasks of one App that are not due: what the manager asks for each, and what in a minute in which nothing happens.
func BenchmarkTasks(b *testing.B) {
	w := headless(b)
	defer w.end(b)
	o := w.start(b, "")
	o.settle(b)
	if err := w.submit(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	o.settle(b)
	asked := w.requests(b)
	each(b, scheduled, w.submitTask)
	w.awaitTasks(b)
	o.settle(b)
	cost := w.requests(b).since(asked)
	delete(cost, "post tasks")
	delete(cost, "list tasks") // The benchmark's own.
	found.count("making one of the Tasks", scheduled, cost)
	asked = w.requests(b)
	pass(b, time.Minute)
	idle := w.requests(b).since(asked)
	found.add(idleTasks, scheduled, manager, "", float64(idle.total()))
	found.add("memory, Tasks", scheduled, manager, "MiB", o.figures(b).resident)
	progress("%d Tasks: %d requests in an idle minute, %.0f MiB; %s", scheduled, idle.total(), o.figures(b).resident, cost)
	o.stop(b)
}

// awaitTasks waits until each Task is ready.
func (w *world) awaitTasks(b *testing.B) {
	b.Helper()
	w.awaitEach(b, &appv1.TaskList{}, func(obj runtime.Object) bool {
		task, ok := obj.(*appv1.Task)
		return ok && meta.IsStatusConditionTrue(task.Status.Conditions, appv1.ConditionReady)
	})
}

// submitTask creates the Task of a number, of the first App.
func (w *world) submitTask(ctx context.Context, i int) error {
	task := fixture.NewTask(w.namespace, fmt.Sprintf("task-%05d", i))
	task.Spec.Image, task.Spec.App, task.Spec.Command = "", w.app(0).Name, []string{"report"}
	return w.client.Create(ctx, task)
}
