package stored

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

func init() { registerKind(&App{}, &AppList{}) }

// App is an App as stored by the API server.
type App struct {
	base[appv1.AppStatus] `json:",inline"`
}

// Decode returns the typed App. With an error, which is a *field.Error, its spec has nothing but paused.
func (r *App) Decode() (*appv1.App, error) {
	typed := &appv1.App{TypeMeta: typeMeta("App")}
	r.ObjectMeta.DeepCopyInto(&typed.ObjectMeta)
	r.Status.Value.DeepCopyInto(&typed.Status)
	if err := r.Spec.decodeInto(&typed.Spec); err != nil {
		typed.Spec = appv1.AppSpec{Paused: r.Spec.isPaused()}
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

// ServiceName returns the name that the App states for its Service, empty if it states none.
func (r *App) ServiceName() string { return r.Spec.serviceName(false) }

// Condition implements Observed.
func (r *App) Condition(name string) *metav1.Condition {
	return statusCondition(&r.Status.Value.CommonStatus, name)
}

// Outdated implements Observed.
func (r *App) Outdated() (rendering, size bool) { return outdatedParts(&r.Status.Value.WorkloadStatus) }

// Defaults implements Observed.
func (r *App) Defaults() *appv1.DefaultsInUse { return r.Status.Value.Defaults }

// Canary implements Observed.
func (r *App) Canary() *appv1.CanaryStatus { return r.Status.Value.Canary }

// Reduce drops the spec, and the parts of the status that metrics do not read. An index finds the resource by names.
func (r *App) Reduce(names []string) {
	r.dropSpec(names, r.ServiceName())
	r.Status.Value = appv1.AppStatus{
		WorkloadStatus: reduceWorkload(&r.Status.Value.WorkloadStatus), ReleaseStatus: r.Status.Value.ReleaseStatus,
		DefaultsStatus: reduceDefaults(&r.Status.Value.DefaultsStatus),
	}
}
