package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// newWebApp returns the App web.
func newWebApp() *appv1.App {
	app := &appv1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: "App"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "1", Generation: 3},
	}
	app.Spec.Image = "nginx:1"
	app.Spec.Replicas = ptr.To[int32](2)
	app.Spec.Ports = []appv1.Port{{Port: 80}}
	return app
}

// newAppInput returns the input of an App as its steps make it.
func newAppInput(app *appv1.App) *Input {
	return &Input{Owner: app, Kind: resource.KindApp, Name: app.Name, Spec: resource.AppSpec(app), Before: statusOf(app)}
}

// statusOf returns the status of an App as the input has it.
func statusOf(app *appv1.App) Status {
	return Status{Workload: app.Status.WorkloadStatus, Serving: app.Status.ServingStatus, History: app.Status.HistoryStatus, Release: app.Status.ReleaseStatus}
}
