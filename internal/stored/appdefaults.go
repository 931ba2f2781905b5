package stored

import (
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&AppDefaults{}, &AppDefaultsList{}) }

// AppDefaults is an AppDefaults as stored by the API server.
type AppDefaults struct {
	base[appv1.AppDefaultsStatus] `json:",inline"`
}

// Decode returns the typed AppDefaults, with an error, which is a *field.Error, for a spec that cannot be decoded. A missing spec is an
// empty one.
func (r *AppDefaults) Decode() (*appv1.AppDefaults, error) {
	typed := &appv1.AppDefaults{TypeMeta: typeMeta("AppDefaults")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if r.Spec.json == nil && r.Spec.dropped == nil {
		return typed, nil
	}
	err := r.Spec.decodeInto(&typed.Spec)
	return typed, err
}

// Reduce drops the spec, the last valid one, and the other long parts.
func (r *AppDefaults) Reduce([]string) {
	r.dropSpec(nil, "")
	before := &r.Status.Value
	common := reduceStatus(&appv1.CommonStatus{Conditions: before.Conditions, ObservedGeneration: before.ObservedGeneration})
	r.Status.Value = appv1.AppDefaultsStatus{
		Conditions: common.Conditions, ObservedGeneration: common.ObservedGeneration, Apps: before.Apps, Current: before.Current, Pending: before.Pending,
	}
}

// DeepCopyInto copies the AppDefaults.
func (r *AppDefaults) DeepCopyInto(out *AppDefaults) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *AppDefaults) DeepCopyObject() runtime.Object {
	out := &AppDefaults{}
	r.DeepCopyInto(out)
	return out
}

// AppDefaultsList is a list of AppDefaults.
type AppDefaultsList struct {
	list[AppDefaults] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *AppDefaultsList) DeepCopyObject() runtime.Object {
	out := &AppDefaultsList{}
	l.copyTo(&out.list, (*AppDefaults).DeepCopyInto)
	return out
}
