package stored

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&CloudManager{}, &CloudManagerList{}) }

// CloudManager is a CloudManager as stored by the API server.
type CloudManager struct {
	base[appv1.CloudManagerStatus] `json:",inline"`
}

// Decode returns the typed CloudManager. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *CloudManager) Decode() (*appv1.CloudManager, error) {
	typed := &appv1.CloudManager{TypeMeta: typeMeta("CloudManager")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decodeInto(&typed.Spec); err != nil {
		typed.Spec = appv1.CloudManagerSpec{Paused: r.Spec.isPaused()}
		return typed, err
	}
	return typed, nil
}

// DeepCopyInto copies the CloudManager.
func (r *CloudManager) DeepCopyInto(out *CloudManager) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *CloudManager) DeepCopyObject() runtime.Object {
	out := &CloudManager{}
	r.DeepCopyInto(out)
	return out
}

// CloudManagerList is a list of CloudManagers.
type CloudManagerList struct {
	list[CloudManager] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *CloudManagerList) DeepCopyObject() runtime.Object {
	out := &CloudManagerList{}
	l.copyTo(&out.list, (*CloudManager).DeepCopyInto)
	return out
}

// Condition implements Observed.
func (r *CloudManager) Condition(name string) *metav1.Condition {
	return statusCondition(&r.Status.Value.CommonStatus, name)
}

// Outdated implements Observed.
func (r *CloudManager) Outdated() (rendering, size bool) {
	status := &r.Status.Value
	for _, tier := range []*appv1.TierStatus{&status.DB, &status.Identity, &status.Front} {
		rendering = rendering || tier.LatestRendering != 0
		size = size || tier.LatestSize != ""
	}
	return rendering, size
}

// Defaults implements Observed. No resource of this kind has any.
func (*CloudManager) Defaults() *appv1.DefaultsInUse { return nil }

// Canary implements Observed. No resource of this kind has one.
func (*CloudManager) Canary() *appv1.CanaryStatus { return nil }

// Reduce drops the spec, and the parts of the status that metrics do not read. An index finds the resource by names.
func (r *CloudManager) Reduce(names []string) {
	r.dropSpec(names, "")
	status := &r.Status.Value
	r.Status.Value = appv1.CloudManagerStatus{
		CommonStatus: reduceStatus(&status.CommonStatus),
		DB:           reduceTier(&status.DB), Identity: reduceTier(&status.Identity), Front: reduceTier(&status.Front),
	}
}
