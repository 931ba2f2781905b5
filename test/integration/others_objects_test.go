package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// controlled makes an object belong to a ConfigMap that lives.
func controlled[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: "owner-of-" + obj.GetName()}}
	plane.Create(t, owner)
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}})
	return obj
}

// foreigners are objects of other people that are in the way of an App of the name.
var foreigners = map[string]func(t *testing.T, namespace, name string) client.Object{
	"deployment": func(_ *testing.T, ns, name string) client.Object { return newHandMade(ns, name) },
	"service":    func(_ *testing.T, ns, name string) client.Object { return newHandMadeService(ns, name) },
	"controlled-deployment": func(t *testing.T, ns, name string) client.Object {
		return controlled(t, newHandMade(ns, name))
	},
	"controlled-service": func(t *testing.T, ns, name string) client.Object {
		return controlled(t, newHandMadeService(ns, name))
	},
	// Nothing in these contradicts what an App means, so that nothing but their being there is in the way.
	"service-without-selector": func(_ *testing.T, ns, name string) client.Object {
		s := newHandMadeService(ns, name)
		s.Spec.Selector = nil
		return s
	},
	"deployment-that-looks-like-ours": func(_ *testing.T, ns, name string) client.Object {
		d := newHandMade(ns, name)
		d.Labels = childLabels(name)
		d.Spec.Replicas = ptr.To[int32](2)
		d.Spec.Selector.MatchLabels = map[string]string{appv1.LabelApp: name}
		d.Spec.Template.Labels = map[string]string{appv1.LabelApp: name}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: name, Image: "nginx:1.16.1", ImagePullPolicy: "IfNotPresent"}}
		return d
	},
}

// TestForeignObject puts an object of another owner's in the way of an App. It must stay as it is to the last field, and
// the App must proceed once it goes.
func TestForeignObject(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, foreign := range foreigners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := foreign(t, ns, name)
			plane.Create(t, obj)
			was := readWhole(t, obj)

			app := newApp(ns, name)
			plane.Create(t, app)
			plane.Stands(t, app, exists...)
			kind := "Deployment"
			other := client.Object(service(app))
			if _, isService := obj.(*corev1.Service); isService {
				kind, other = "Service", deployment(app)
			}
			harness.Says(t, app, "Stalled", kind+" "+name+" exists")
			plane.Read(t, other) // What is in the way of the one is not in the way of the other.
			setImage(t, app, "nginx:1.17")
			plane.Stands(t, app, exists...)
			checkUntouched(t, obj, was)
			if (app.Status.Endpoint != "") != (kind == "Deployment") || (app.Status.Selector != "") != (kind == "Service") || app.Status.Ready != "0/2" {
				t.Errorf("the status is that of the foreign object: %+v", app.Status)
			}
			m.Idle(t)
			warning := fmt.Sprintf("Warning ErrResourceExists: %s (Created %T %s)", harness.Message(app, "Stalled"), other, name)
			if said := listEvents(t, app); !slices.Contains(said, strings.Replace(warning, "*v1.", "", 1)) {
				t.Errorf("events %q lack %q", said, warning)
			}

			plane.Delete(t, obj)
			plane.Stands(t, app, progressing...)
			d, s := readChildren(t, app)
			if !metav1.IsControlledBy(d, app) || !metav1.IsControlledBy(s, app) || d.UID == obj.GetUID() || s.UID == obj.GetUID() {
				t.Error("a child does not belong to the App, or is the foreign object")
			}
		})
	}
}

// TestForeignObjectUnseen creates the foreign object after the manager has looked and before it writes.
func TestForeignObjectUnseen(t *testing.T) {
	t.Parallel()
	for name, foreign := range foreigners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			obj := foreign(t, ns, "web")
			resource := "deployments"
			if _, isService := obj.(*corev1.Service); isService {
				resource = "services"
			}
			var was map[string]any
			create := sync.OnceFunc(func() {
				err := plane.Client.Create(t.Context(), obj)
				if err == nil {
					was, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
				}
				if err != nil {
					t.Error(err)
				}
			})
			m := plane.Start(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if q.Verb == "patch" && q.Resource == resource {
					create()
				}
				return send()
			}))
			app := newApp(ns, "web")
			plane.Create(t, app)
			plane.Stands(t, app, exists...)
			m.Idle(t)
			checkUntouched(t, obj, was)
			setImage(t, app, "nginx:1.17")
			plane.Stands(t, app, exists...)
			m.Idle(t)
			checkUntouched(t, obj, was)

			plane.Delete(t, obj)
			plane.Stands(t, app, progressing...)
			awaitImage(t, deployment(app), "nginx:1.17")
		})
	}
}

// TestForeignObjectTakesOver gives a child of ours to another owner, who is not fought.
func TestForeignObjectTakesOver(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	plane.Change(t, d, func() { controlled(t, d) })
	plane.Stands(t, app, exists...)
	harness.Says(t, app, "Stalled", "Deployment web exists and is owned by ConfigMap owner-of-web")
	was := readWhole(t, d)
	setImage(t, app, "nginx:1.17")
	plane.Stands(t, app, exists...)
	checkUntouched(t, d, was)
}

// TestStrippedChild replaces a child as "kubectl replace" does with a file that has neither labels, annotations nor an owner: only
// its managed fields tell that the operator has applied it. The App says so and what to do, also to a manager that has never
// seen the child otherwise, and either way out works.
func TestStrippedChild(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "Service"} {
		for _, way := range []string{"adopt", "delete"} {
			t.Run(kind+"-"+way, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				m := plane.Start(t, ns)
				app := newApp(ns, "web")
				d, s := createInPlace(t, app)
				child := map[string]client.Object{"Deployment": d, "Service": s}[kind]
				template, uid := d.Spec.Template, child.GetUID()
				editWithRetry(t, child, func() {
					child.SetLabels(nil)
					child.SetAnnotations(nil)
					child.SetOwnerReferences(nil)
				})
				message := kind + ` web was applied by the operator but has lost its owner reference. Possible causes are kubectl replace, an edit, or the deletion of an earlier App with --cascade=orphan. The operator does not modify the object. To restore the object in place, run "kubectl annotate app/web -n ` + ns + ` app.huolala.cn/adopt=true", or delete the ` + kind + ` to recreate it`
				plane.Stands(t, app, exists...)
				harness.Says(t, app, "Stalled", message)
				m.Idle(t)
				if said := listEvents(t, app); !slices.Contains(said, "Warning ErrResourceExists: "+message) {
					t.Errorf("events %q lack a warning", said)
				}
				m.Stop(t)
				was := readWhole(t, child)
				m = plane.Start(t, ns)
				setAnnotation(t, app, "again", "x")
				m.Idle(t)
				plane.Stands(t, app, exists...)
				harness.Says(t, app, "Stalled", message)
				checkUntouched(t, child, was)

				if way == "delete" {
					plane.Delete(t, child)
				} else {
					setAnnotation(t, app, appv1.AnnotationAdopt, "true")
				}
				plane.Stands(t, app, progressing...)
				d, s = readChildren(t, app)
				child = map[string]client.Object{"Deployment": d, "Service": s}[kind]
				if !metav1.IsControlledBy(child, app) || (child.GetUID() == uid) != (way == "adopt") {
					t.Errorf("%s %s, before %s, belongs to %v", kind, child.GetUID(), uid, child.GetOwnerReferences())
				}
				sameTemplate(t, d, template)
			})
		}
	}
}

// TestNamespaceTerminates deletes the namespace under an App. Nothing can be made in it any more, which is no error.
func TestNamespaceTerminates(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithForbidden())
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	plane.Delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	plane.Delete(t, d)
	plane.Stands(t, app, "Ready=False/NamespaceTerminating", "Reconciling=True/NamespaceTerminating", "Stalled=False")
	harness.Says(t, app, "Ready", "the namespace is being deleted")
}
