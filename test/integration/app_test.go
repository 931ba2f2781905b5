package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// How an App of newApp stands while nothing is in the way. No pod ever runs here, so it is ready only if a test plays
// the Deployment's controller; see completeRollout.
var progressing = []string{"Ready=False/Progressing", "Reconciling=True/Progressing", "Stalled=False/NotStalled"}

// newApp returns an App of two pods with one port.
var newApp = fixture.NewApp

// newFullApp returns an App in whose spec every field is set.
func newFullApp(namespace, name string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.ImagePullPolicy = corev1.PullAlways
	app.Spec.Command = []string{"nginx"}
	app.Spec.Args = []string{"-g", "daemon off;"}
	app.Spec.Envs = []corev1.EnvVar{
		{Name: "DEMO", Value: "app"},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	app.Spec.Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": apiresource.MustParse("500m"), "memory": apiresource.MustParse("500Mi")},
		Requests: corev1.ResourceList{"cpu": apiresource.MustParse("100m"), "memory": apiresource.MustParse("100Mi")},
	}
	app.Spec.Ports = []appv1.Port{
		{Name: "http", Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80)), AppProtocol: ptr.To("http")},
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: ptr.To(intstr.FromInt32(5353))},
	}
	return app
}

// deployment and service are the App's children, to be read.
var deployment, service = fixture.Deployment, fixture.Service

// readChildren reads both children.
func readChildren(t testing.TB, app client.Object) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := deployment(app), service(app)
	plane.Read(t, d)
	plane.Read(t, s)
	return d, s
}

// createInPlace creates an App and waits until its children are in place.
func createInPlace(t testing.TB, app *appv1.App) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	return readChildren(t, app)
}

// awaitImage waits until the Deployment runs an image.
func awaitImage(t testing.TB, d *appsv1.Deployment, image string) {
	t.Helper()
	plane.Until(t, d, func() error {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the image is %s, want %s", got, image)
		}
		return nil
	})
}

// setImage changes the App's image.
func setImage(t testing.TB, app *appv1.App, image string) {
	t.Helper()
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = image })
}

// annotate sets an annotation, or removes it if the value is empty.
func annotate(t testing.TB, obj client.Object, key, value string) {
	t.Helper()
	plane.Read(t, obj)
	plane.Change(t, obj, func() {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		obj.SetAnnotations(annotations)
	})
}

// readWhole returns an object as the API server has it, with everything.
func readWhole(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	plane.Read(t, obj)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// checkUntouched fails the test if an object differs in anything from how it was.
func checkUntouched(t testing.TB, obj client.Object, was map[string]any) {
	t.Helper()
	if diff := cmp.Diff(was, readWhole(t, obj)); diff != "" {
		t.Errorf("%T %s was touched (-before +after):\n%s", obj, obj.GetName(), diff)
	}
}

// checkEvents fails the test if the events about an object differ from those wanted, each as "Type Reason: note".
func checkEvents(t testing.TB, obj client.Object, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, listEvents(t, obj)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// listEvents returns the events about an object, each as "Type Reason: note".
func listEvents(t testing.TB, obj client.Object) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		if e.Regarding.UID == obj.GetUID() {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
		}
	}
	slices.Sort(got)
	return got
}

// checkRequests fails the test if the requests of the manager differ from those wanted.
func checkRequests(t testing.TB, m *harness.Manager, what string, want map[string]int) {
	t.Helper()
	var diff string
	harness.Eventually(t, func() error {
		m.Idle(t)
		got := m.Requests.Counts()
		if diff = cmp.Diff(want, got); diff == "" {
			return nil
		}
		for request, n := range got {
			if n > want[request] {
				return nil // One too many stays one too many.
			}
		}
		// On a loaded machine, what it reacts to may take longer to reach it than it takes to look idle.
		return fmt.Errorf("%s (-want +got):\n%s%v", what, diff, m.Requests.All())
	})
	if diff != "" {
		t.Errorf("%s (-want +got):\n%s%v", what, diff, m.Requests.All())
	}
}

// marshal returns the JSON of a value.
func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameTemplate fails the test if the pod template is not byte for byte what it was: the pods would restart.
func sameTemplate(t testing.TB, d *appsv1.Deployment, was corev1.PodTemplateSpec) {
	t.Helper()
	plane.Read(t, d)
	if !bytes.Equal(marshal(t, d.Spec.Template), marshal(t, was)) {
		t.Errorf("the pod template has changed (-before +after):\n%s", cmp.Diff(was, d.Spec.Template))
	}
}

// diffOf returns an error that says in what got differs from want, nil if in nothing.
func diffOf(want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("(-want +got):\n" + diff)
	}
	return nil
}

// asUnstructured returns an object as it is now, as a tree of JSON values.
func asUnstructured(t testing.TB, p *harness.Plane, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	gvk, err := p.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	p.Read(t, u)
	p.Read(t, obj)
	return u
}
