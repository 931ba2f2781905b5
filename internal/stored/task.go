package stored

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&Task{}, &TaskList{}) }

// IndexApp is the cache's index that finds Tasks by the App that they name.
const IndexApp = "app"

// Task is a Task as stored by the API server.
type Task struct {
	base[appv1.TaskStatus] `json:",inline"`
}

// Decode returns the typed Task. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *Task) Decode() (*appv1.Task, error) {
	typed := &appv1.Task{TypeMeta: typeMeta("Task")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decodeInto(&typed.Spec); err != nil {
		typed.Spec = appv1.TaskSpec{Paused: r.Spec.isPaused()}
		return typed, err
	}
	return typed, nil
}

// DeepCopyInto copies the Task.
func (r *Task) DeepCopyInto(out *Task) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *Task) DeepCopyObject() runtime.Object {
	out := &Task{}
	r.DeepCopyInto(out)
	return out
}

// TaskList is a list of Tasks.
type TaskList struct {
	list[Task] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *TaskList) DeepCopyObject() runtime.Object {
	out := &TaskList{}
	l.copyTo(&out.list, (*Task).DeepCopyInto)
	return out
}

// Condition implements Observed.
func (r *Task) Condition(name string) *metav1.Condition {
	return statusCondition(&r.Status.Value.CommonStatus, name)
}

// Outdated implements Observed. The next run has the latest rendering and size.
func (*Task) Outdated() (rendering, size bool) { return false, false }

// Defaults implements Observed. A run takes the defaults of its time, so no Task has former ones.
func (*Task) Defaults() *appv1.DefaultsInUse { return nil }

// Canary implements Observed. No resource of this kind has one.
func (*Task) Canary() *appv1.CanaryStatus { return nil }

// Reduce drops the spec, and the parts of the status that metrics do not read. An index finds the resource by names.
func (r *Task) Reduce(names []string) {
	r.dropSpec(names, "")
	r.Status.Value = appv1.TaskStatus{CommonStatus: reduceStatus(&r.Status.Value.CommonStatus)}
}
