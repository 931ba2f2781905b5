package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// The floors: what a client has to send at least, that knows everything beforehand and looks at nothing.
const (
	// floorA posts the App and its children and states its status.
	floorA = "floor A"
	// floorB does the same by server-side apply, and tells of it by one event.
	floorB = "floor B"
	// lists reads and decodes what a manager that starts has to.
	lists = "lists"
	// manager is the operator's.
	manager = "manager"
)

// children are the objects that an App means.
func children(app *appv1.App) (deployment, service client.Object, err error) {
	w, errs := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
	objects := w.Objects()
	d, s := objects[0], objects[1]
	// As long as a real one.
	d.GetAnnotations()[appv1.AnnotationLastAppliedHash] = strings.Repeat("0", 32)
	s.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedHash: strings.Repeat("0", 32)})
	return d, s, errs.ToAggregate()
}

// post is floor A for one App.
func (w *world) post(ctx context.Context, i int) error {
	app := w.app(i)
	if err := w.create(ctx, app); err != nil {
		return err
	}
	if err := writeChildren(ctx, app, w.create); err != nil {
		return err
	}
	return w.state(ctx, app)
}

// apply is floor B for one App.
func (w *world) apply(ctx context.Context, i int) error {
	app := w.app(i)
	if err := w.create(ctx, app); err != nil {
		return err
	}
	if err := writeChildren(ctx, app, w.applied); err != nil {
		return err
	}
	return w.report(ctx, app)
}

// change is floor B for one App that exists and gets another image.
func (w *world) change(ctx context.Context, i int) error {
	app, err := w.edit(ctx, i)
	if err != nil {
		return err
	}
	d, _, err := children(app)
	if err != nil {
		return err
	}
	if err := w.applied(ctx, d); err != nil {
		return err
	}
	return w.report(ctx, app)
}

// writeChildren writes the children of an App that exists, each by write.
func writeChildren(ctx context.Context, app *appv1.App, write func(context.Context, client.Object) error) error {
	d, s, err := children(app)
	if err != nil {
		return err
	}
	if err := write(ctx, d); err != nil {
		return err
	}
	return write(ctx, s)
}

// edit gives an App the other image.
func (w *world) edit(ctx context.Context, i int) (*appv1.App, error) {
	app := w.app(i)
	return app, w.client.Patch(ctx, app, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"image": %q}}`, image)))
}

// create posts an object.
func (w *world) create(ctx context.Context, obj client.Object) error {
	return w.client.Create(ctx, obj)
}

// applied sends a server-side apply of an object, and reads the answer.
func (w *world) applied(ctx context.Context, obj client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	delete(fields, "status")
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return w.client.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner("floor"), client.ForceOwnership)
}

// report states the status of an App and tells of it.
func (w *world) report(ctx context.Context, app *appv1.App) error {
	if err := w.state(ctx, app); err != nil {
		return err
	}
	return w.tell(ctx, app)
}

// state writes a status of the length of those that the manager writes.
func (w *world) state(ctx context.Context, app *appv1.App) error {
	status := app.Status.DeepCopy()
	status.ObservedGeneration = app.Generation
	status.Ready, status.Selector = "0/2", "app.huolala.cn/app="+app.Name
	status.Endpoint = app.Name + "." + app.Namespace + ".svc:8080"
	for _, kind := range []string{appv1.ConditionReady, appv1.ConditionReconciling, appv1.ConditionStalled} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: appv1.ReasonProgressing, ObservedGeneration: app.Generation,
			Message: "Deployment " + app.Name + ": 0 of 2 pods are ready",
		})
	}
	data, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return w.client.Status().Patch(ctx, app, client.RawPatch(types.MergePatchType, data))
}

// tell sends an event about an App.
func (w *world) tell(ctx context.Context, app *appv1.App) error {
	return w.client.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, GenerateName: app.Name + "-"},
		EventTime:  metav1.NowMicro(), ReportingController: "floor", ReportingInstance: "floor", Type: corev1.EventTypeNormal,
		Action: "Reconcile", Reason: "Created", Note: "created Deployment " + app.Name + ", Service " + app.Name,
		Regarding: corev1.ObjectReference{APIVersion: appv1.GroupVersion.String(), Kind: resource.KindApp.Name, Namespace: app.Namespace, Name: app.Name, UID: app.UID},
	})
}
