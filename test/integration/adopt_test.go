package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestAdopt takes over a Deployment and a Service that were made by hand.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, client.Object){
		"created": func(t *testing.T, obj client.Object) { plane.Create(t, obj) },
		"applied": func(t *testing.T, obj client.Object) {
			gvk, err := plane.Client.GroupVersionKindFor(obj)
			if err != nil {
				t.Fatal(err)
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			patch := client.RawPatch(types.ApplyPatchType, marshalJSON(t, obj))
			if err := plane.Client.Patch(t.Context(), obj, patch, client.FieldOwner("kubectl")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			d, s := newHandMade(ns, "web"), newHandMadeService(ns, "web")
			pod := &d.Spec.Template.Spec
			pod.NodeSelector = map[string]string{"disk": "ssd"}
			pod.Containers = append(pod.Containers, corev1.Container{Name: "web", Image: "httpd",
				Env: []corev1.EnvVar{{Name: "DEMO", Value: "hand"}, {Name: "OTHER", Value: "hand"}}})
			make(t, d)
			make(t, s)
			app := newApp(ns, "web")
			app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}, {Name: "B", Value: "2"}}
			plane.Create(t, app)
			plane.Stands(t, app, exists...)

			setAnnotation(t, app, appv1.AnnotationAdopt, "true")
			plane.Stands(t, app, progressing...)
			checkAdopted(t, app, d, s)
			m.Idle(t)
			m.Requests.Reset()

			// What leaves the spec leaves the objects, although it was once stated by hand.
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Envs = app.Spec.Envs[1:] })
			plane.Stands(t, app, progressing...)
			plane.Read(t, d)
			envs := map[string]string{}
			for _, env := range containerOf(d).Env {
				envs[env.Name] = env.Value
			}
			if diff := cmp.Diff(map[string]string{"B": "2", "OTHER": "hand"}, envs); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			checkRequests(t, m, "a change after the adoption", map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1})
		})
	}
}

// checkAdopted checks that the objects made by hand are those of the App now, and the same.
func checkAdopted(t *testing.T, app *appv1.App, d *appsv1.Deployment, s *corev1.Service) {
	t.Helper()
	uids := []types.UID{d.UID, s.UID}
	plane.Read(t, d)
	plane.Read(t, s)
	if diff := cmp.Diff(uids, []types.UID{d.UID, s.UID}); diff != "" {
		t.Errorf("the objects are others (-before +after):\n%s", diff)
	}
	for _, child := range []client.Object{d, s} {
		if !metav1.IsControlledBy(child, app) {
			t.Errorf("owners of %T are %v", child, child.GetOwnerReferences())
		}
		want := childLabels("web")
		want["team"] = "a" // What an App does not state stays.
		if diff := cmp.Diff(want, child.GetLabels()); diff != "" {
			t.Errorf("labels of %T (-want +got):\n%s", child, diff)
		}
	}
	selector := map[string]string{"run": "web"}
	if diff := cmp.Diff(selector, d.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(selector, s.Spec.Selector); diff != "" {
		t.Errorf("selector of the Service (-want +got):\n%s", diff)
	}
	if app.Status.Selector != "run=web" {
		t.Errorf("selector in the status is %s", app.Status.Selector)
	}
	if n := len(d.Spec.Template.Spec.Containers); n != 1 || containerOf(d).Name != "web" {
		t.Errorf("there are %d containers, the first is %q: one made by hand runs next to the App's", n, containerOf(d).Name)
	}
	if *d.Spec.Replicas != 2 || containerOf(d).Image != "nginx:1.16.1" || d.Spec.Template.Spec.NodeSelector["disk"] != "ssd" {
		t.Errorf("Deployment is %+v", d.Spec)
	}
	if got := portsOf(d, s); got != ":8080/TCP>80 | :80/TCP" {
		t.Errorf("ports are %s", got)
	}
}

// TestAdoptOrphans takes over what an App of the same name has left behind.
func TestAdoptOrphans(t *testing.T) {
	t.Parallel()
	// While the garbage collector may yet remove them, the App waits for that.
	waiting := []string{"Ready=False/Progressing", "Reconciling=True/Progressing", "Stalled=False/NotStalled"}
	for name, c := range map[string]struct {
		orphan func(*testing.T, client.Object)
		stands []string
		says   string
	}{
		// As the garbage collector leaves them after "kubectl delete --cascade=orphan".
		"orphaned": {func(t *testing.T, child client.Object) {
			plane.Read(t, child)
			plane.Change(t, child, func() { child.SetOwnerReferences(nil) })
		}, exists, "was applied by the operator but has lost its owner reference"},
		// As they come out of a backup.
		"dead owner": {func(*testing.T, client.Object) {}, waiting, "of an earlier App with this name"},
		// As they come out of a backup tool that makes them itself.
		"restored": {func(t *testing.T, child client.Object) {
			plane.Read(t, child)
			plane.Delete(t, child)
			child.SetUID("")
			child.SetResourceVersion("")
			child.SetManagedFields(nil)
			if err := plane.Client.Create(t.Context(), child, client.FieldOwner("velero-server")); err != nil {
				t.Fatal(err)
			}
		}, waiting, "of an earlier App with this name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			// An older release has made them, and its rendering must outlast the adoption.
			m := plane.Start(t, ns, harness.WithRendering(0))
			app := newFullApp(ns, "web")
			d, s := createInPlace(t, app)
			m.Stop(t)
			template := d.Spec.Template
			plane.Delete(t, app)
			c.orphan(t, d)
			c.orphan(t, s)
			uids := []types.UID{d.UID, s.UID}

			plane.Start(t, ns)
			again := newFullApp(ns, "web")
			plane.Create(t, again)
			plane.Stands(t, again, c.stands...)
			harness.Says(t, again, "Ready", c.says)
			setAnnotation(t, again, appv1.AnnotationAdopt, "true")
			for _, child := range []client.Object{d, s} {
				plane.Until(t, child, func() error {
					if owners := child.GetOwnerReferences(); len(owners) != 1 || !metav1.IsControlledBy(child, again) {
						return fmt.Errorf("owners of %T are %v", child, owners)
					}
					return nil
				})
			}
			plane.Stands(t, again, progressing...)
			sameTemplate(t, d, template)
			if diff := cmp.Diff(uids, []types.UID{d.UID, s.UID}); diff != "" {
				t.Errorf("the objects are others (-before +after):\n%s", diff)
			}
			plane.Change(t, again, func() { again.Spec.Envs, again.Spec.Args = again.Spec.Envs[:1], nil })
			plane.Stands(t, again, progressing...)
			plane.Read(t, d)
			if len(containerOf(d).Env) != 1 || containerOf(d).Args != nil {
				t.Errorf("what left the spec stays: %+v", containerOf(d))
			}
		})
	}
}

// TestAdoptLeavesOwnedObjects checks that the annotation takes nothing away from an owner who lives.
func TestAdoptLeavesOwnedObjects(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, apiVersion := range map[string]string{
		"config-map": "v1",
		// Another group's App of the same name, which may well live: nobody can tell without knowing that group.
		"another-app": "apps.example.com/v1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := controlled(t, newHandMade(ns, name))
			if apiVersion != "v1" {
				d.OwnerReferences[0] = metav1.OwnerReference{APIVersion: apiVersion, Kind: "App", Name: name, UID: "another", Controller: ptr.To(true)}
			}
			plane.Create(t, d)
			was := readWhole(t, d)
			app := newApp(ns, name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			plane.Create(t, app)
			plane.Stands(t, app, exists...)
			m.Idle(t)
			checkUntouched(t, d, was)
			plane.Read(t, service(app)) // What is wrong with one child holds up no other.
		})
	}
}
