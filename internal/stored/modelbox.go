package stored

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&ModelBox{}, &ModelBoxList{}) }

// ModelBox is a ModelBox as stored by the API server.
type ModelBox struct {
	base[appv1.ModelBoxStatus] `json:",inline"`
}

// Decode returns the typed ModelBox. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *ModelBox) Decode() (*appv1.ModelBox, error) {
	typed := &appv1.ModelBox{TypeMeta: typeMeta("ModelBox")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decodeInto(&typed.Spec); err != nil {
		typed.Spec = appv1.ModelBoxSpec{Paused: r.Spec.isPaused()}
		return typed, err
	}
	return typed, nil
}

// DeepCopyInto copies the ModelBox.
func (r *ModelBox) DeepCopyInto(out *ModelBox) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *ModelBox) DeepCopyObject() runtime.Object {
	out := &ModelBox{}
	r.DeepCopyInto(out)
	return out
}

// ModelBoxList is a list of ModelBoxes.
type ModelBoxList struct {
	list[ModelBox] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *ModelBoxList) DeepCopyObject() runtime.Object {
	out := &ModelBoxList{}
	l.copyTo(&out.list, (*ModelBox).DeepCopyInto)
	return out
}

// ServiceName returns the name that the ModelBox states for its Service, empty if it states none.
func (r *ModelBox) ServiceName() string { return r.Spec.serviceName(false) }

// Condition implements Observed.
func (r *ModelBox) Condition(name string) *metav1.Condition {
	return statusCondition(&r.Status.Value.CommonStatus, name)
}

// Outdated implements Observed.
func (r *ModelBox) Outdated() (rendering, size bool) {
	return outdatedParts(&r.Status.Value.WorkloadStatus)
}

// Defaults implements Observed.
func (r *ModelBox) Defaults() *appv1.DefaultsInUse { return r.Status.Value.Defaults }

// Canary implements Observed.
func (r *ModelBox) Canary() *appv1.CanaryStatus { return r.Status.Value.Canary }

// Reduce drops the spec, and the parts of the status that metrics do not read. An index finds the resource by names.
func (r *ModelBox) Reduce(names []string) {
	r.dropSpec(names, r.ServiceName())
	r.Status.Value = appv1.ModelBoxStatus{
		WorkloadStatus: reduceWorkload(&r.Status.Value.WorkloadStatus), ReleaseStatus: r.Status.Value.ReleaseStatus,
		DefaultsStatus: reduceDefaults(&r.Status.Value.DefaultsStatus),
	}
}
