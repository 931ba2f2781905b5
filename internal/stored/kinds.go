package stored

import (
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// App is an App as it is stored.
type App struct {
	base[appv1.AppStatus] `json:",inline"`
}

// Decode returns the typed App. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *App) Decode() (*appv1.App, error) {
	typed := &appv1.App{TypeMeta: typeMeta("App")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decode(&typed.Spec); err != nil {
		typed.Spec = appv1.AppSpec{Paused: r.Spec.paused()}
		return typed, err
	}
	return typed, nil
}

// DeepCopyInto copies the App.
func (r *App) DeepCopyInto(out *App) {
	r.copyTo(&out.base)
	r.Status.Value.DeepCopyInto(&out.Status.Value)
}

// DeepCopyObject implements runtime.Object.
func (r *App) DeepCopyObject() runtime.Object {
	out := &App{}
	r.DeepCopyInto(out)
	return out
}

// AppList is a list of Apps.
type AppList struct {
	list[App] `json:",inline"`
}

// DeepCopyObject implements runtime.Object.
func (l *AppList) DeepCopyObject() runtime.Object {
	out := &AppList{}
	l.copyTo(&out.list, (*App).DeepCopyInto)
	return out
}

// ModelBox is a ModelBox as it is stored.
type ModelBox struct {
	base[appv1.ModelBoxStatus] `json:",inline"`
}

// Decode returns the typed ModelBox. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *ModelBox) Decode() (*appv1.ModelBox, error) {
	typed := &appv1.ModelBox{TypeMeta: typeMeta("ModelBox")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decode(&typed.Spec); err != nil {
		typed.Spec = appv1.ModelBoxSpec{Paused: r.Spec.paused()}
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

// UnitedDeployment is a UnitedDeployment as it is stored.
type UnitedDeployment struct {
	base[appv1.UnitedDeploymentStatus] `json:",inline"`
}

// Decode returns the typed UnitedDeployment. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *UnitedDeployment) Decode() (*appv1.UnitedDeployment, error) {
	typed := &appv1.UnitedDeployment{TypeMeta: typeMeta("UnitedDeployment")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decode(&typed.Spec); err != nil {
		typed.Spec = appv1.UnitedDeploymentSpec{Paused: r.Spec.paused()}
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

// CloudManager is a CloudManager as it is stored.
type CloudManager struct {
	base[appv1.CloudManagerStatus] `json:",inline"`
}

// Decode returns the typed CloudManager. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *CloudManager) Decode() (*appv1.CloudManager, error) {
	typed := &appv1.CloudManager{TypeMeta: typeMeta("CloudManager")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decode(&typed.Spec); err != nil {
		typed.Spec = appv1.CloudManagerSpec{Paused: r.Spec.paused()}
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
