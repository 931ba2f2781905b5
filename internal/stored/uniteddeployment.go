package stored

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&UnitedDeployment{}, &UnitedDeploymentList{}) }

// IndexDeployment is the cache's index that finds UnitedDeployments by the Deployment that they name.
const IndexDeployment = "deployment"

// UnitedDeployment is a UnitedDeployment as stored by the API server.
type UnitedDeployment struct {
	base[appv1.UnitedDeploymentStatus] `json:",inline"`
}

// Decode returns the typed UnitedDeployment. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *UnitedDeployment) Decode() (*appv1.UnitedDeployment, error) {
	typed := &appv1.UnitedDeployment{TypeMeta: typeMeta("UnitedDeployment")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decodeInto(&typed.Spec); err != nil {
		typed.Spec = appv1.UnitedDeploymentSpec{Paused: r.Spec.isPaused()}
		return typed, err
	}
	return typed, nil
}

// DeepCopyInto copies the UnitedDeployment.
func (r *UnitedDeployment) DeepCopyInto(out *UnitedDeployment) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *UnitedDeployment) DeepCopyObject() runtime.Object {
	out := &UnitedDeployment{}
	r.DeepCopyInto(out)
	return out
}

// UnitedDeploymentList is a list of UnitedDeployments.
type UnitedDeploymentList struct {
	list[UnitedDeployment] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *UnitedDeploymentList) DeepCopyObject() runtime.Object {
	out := &UnitedDeploymentList{}
	l.copyTo(&out.list, (*UnitedDeployment).DeepCopyInto)
	return out
}

// ServiceName returns the name that the UnitedDeployment's template states for the Service, empty if it states none.
func (r *UnitedDeployment) ServiceName() string { return r.Spec.serviceName(true) }

// Metadata returns the metadata of each UnitedDeployment, which is read only.
func (l *UnitedDeploymentList) Metadata() iter.Seq[*metav1.ObjectMeta] {
	return func(yield func(*metav1.ObjectMeta) bool) {
		for i := range l.Items {
			if !yield(&l.Items[i].ObjectMeta) {
				return
			}
		}
	}
}

// Condition implements Observed.
func (r *UnitedDeployment) Condition(name string) *metav1.Condition {
	return statusCondition(&r.Status.Value.CommonStatus, name)
}

// Outdated implements Observed.
func (r *UnitedDeployment) Outdated() (rendering, size bool) {
	return outdatedParts(&r.Status.Value.WorkloadStatus)
}

// Defaults implements Observed. No resource of this kind has any.
func (*UnitedDeployment) Defaults() *appv1.DefaultsInUse { return nil }

// Canary implements Observed. No resource of this kind has one.
func (*UnitedDeployment) Canary() *appv1.CanaryStatus { return nil }

// Reduce drops the spec, and the parts of the status that metrics do not read. An index finds the resource by names.
func (r *UnitedDeployment) Reduce(names []string) {
	r.dropSpec(names, r.ServiceName())
	r.Status.Value = appv1.UnitedDeploymentStatus{WorkloadStatus: reduceWorkload(&r.Status.Value.WorkloadStatus)}
}
