package controllers

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/task"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// TaskReconciler makes a Task's CronJob.
type TaskReconciler struct {
	Deps
}

// taskKind is the kind Task.
func taskKind() kind {
	k := newKind(resource.KindTask, func() reconciler.Stored[*appv1.Task] { return &stored.Task{} },
		func() client.ObjectList { return &stored.TaskList{} },
		func(s *Deps) reconciler.Steps[*appv1.Task] { return (&TaskReconciler{Deps: *s}).reconcileSteps })
	k.index, k.childNames, k.watchMore = stored.IndexApp, taskApps, watchApps
	return k
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=tasks,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=tasks/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=tasks/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get;list;watch;create;patch;delete

// reconcileSteps reconciles the Task, and reports how its runs are doing.
func (r *TaskReconciler) reconcileSteps(ctx context.Context, t *appv1.Task, undecodable error) (reconciler.Report, error) {
	if errs := validation.DisabledTask(r.Disabled); len(errs) > 0 { // Nothing of it is watched.
		return reconciler.Report{}, workload.InvalidSpec(errs)
	}
	in := &task.Input{Task: t, Undecodable: undecodable}
	if undecodable == nil {
		in.Errs = validation.Task(t)
	}
	return (&task.Reconciler{Reconciler: r.Reconciler}).Reconcile(ctx, in)
}

// mapScheduled returns the function that maps a CronJob, or a Job of a CronJob, to the Tasks that it concerns.
func (k *kind) mapScheduled(s *Deps) wakeFunc {
	return func(ctx context.Context, obj client.Object) wakeUps {
		if owned := k.mapController(obj); len(owned) > 0 {
			return wakeUps{requests: owned}
		}
		key := client.ObjectKeyFromObject(obj)
		if c := metav1.GetControllerOfNoCopy(obj); c != nil && children.IsCronJob(c) {
			key.Name = c.Name // The CronJob of a Task has the name of the Task.
		}
		return wakeUps{requests: s.requestIfExists(ctx, k.empty(), key)}
	}
}

// watchApps has the Tasks of an App reconciled when the pod template of its Deployment changes.
func watchApps(k *kind, s *Deps, w *waker, b *builder.Builder) {
	if !s.watched.runsTasks() {
		return
	}
	b.Watches(&appsv1.Deployment{}, w.handler(k.mapApp), builder.WithPredicates(templateChanged()))
}

// mapApp maps the Deployment of an App to the Tasks that name the App.
func (k *kind) mapApp(_ context.Context, obj client.Object) wakeUps {
	return wakeUps{groups: []wakeGroup{{k.index, obj.GetNamespace(), obj.GetName()}}}
}

// templateChanged selects the events of a Deployment that can change its spec or its owner.
func templateChanged() predicate.Predicate {
	return children.SplitReplaced(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || (was == nil) != (is == nil) || was != nil && was.UID != is.UID ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}})
}

// runsTasks reports whether the kind Task is switched on.
func (w *watchSet) runsTasks() bool { return !slices.Contains(w.disabled, validation.FeatureTask) }

// taskApps returns the name of the App that a stored Task names, none for a Task without an App, or a Task that cannot be decoded.
func taskApps(obj client.Object) []string {
	t, ok := obj.(*stored.Task)
	if !ok {
		return nil
	}
	if names, dropped := t.IndexNames(); dropped {
		return names
	}
	if typed, err := t.Decode(); err == nil && typed.Spec.App != "" {
		return []string{typed.Spec.App}
	}
	return nil
}
