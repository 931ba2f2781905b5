package workload

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// witness is what an adoption without a restart leaves as it is.
type witness struct {
	pods     []types.UID
	sets     []string
	address  string
	template corev1.PodTemplateSpec
	uids     []types.UID
}

func testify(t *testing.T, obj client.Object) witness {
	t.Helper()
	d, s := read(t, deployment(obj)), read(t, service(obj))
	return witness{
		pods: uids(t, obj.GetNamespace()), sets: replicaSetNames(t, obj.GetNamespace()), address: s.Spec.ClusterIP,
		template: d.Spec.Template, uids: []types.UID{d.UID, s.UID},
	}
}

// sameAsBefore checks that nothing has come of an adoption, or of its end, for the pods and for who reaches them.
func (w witness) sameAsBefore(t *testing.T, obj client.Object, after string) {
	t.Helper()
	samePods(t, obj.GetNamespace(), w.pods)
	if diff := cmp.Diff(w, testify(t, obj), cmp.AllowUnexported(witness{})); diff != "" {
		t.Errorf("after %s (-before +after):\n%s", after, diff)
	}
}

// handMade makes a Deployment and a Service by hand that a resource may take over, and waits for the pods.
func handMade(t *testing.T, obj client.Object) {
	t.Helper()
	d, s := deployment(obj), service(obj)
	labels := map[string]string{"run": obj.GetName()}
	d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](2), &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = map[string]string{"run": obj.GetName(), "team": "a"}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "main", Image: "httpd:2.4", Env: []corev1.EnvVar{{Name: "DEMO", Value: "hand"}}}, {Name: "sidecar", Image: "busybox:1"},
	}
	s.Spec.Selector, s.Spec.Ports = labels, []corev1.ServicePort{{Port: 8080}}
	plane.Create(t, d, s)
	untilAvailable(t, obj.GetNamespace(), obj.GetName())
}

// kept is how a resource stands whose pod template is that of before the adoption.
var kept = []string{"Applied=True/TemplateKept", "Ready=True/Ready", "Reconciling=False", "Stalled=False"}

func withoutRestart(obj client.Object) client.Object {
	obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart})
	return obj
}

// TestAdoptWithoutRestart adopts what others made, leaves it by a deletion that orphans it, and adopts it again: pods, ReplicaSets and
// the address of the Service are the same throughout. The next change of the spec replaces the pods by those that the spec means.
func TestAdoptWithoutRestart(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(string) harness.Resource{
		"App":      func(ns string) harness.Resource { return newApp(ns) },
		"ModelBox": func(ns string) harness.Resource { return newModelBox(ns) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			m := plane.Start(t, ns)
			obj := make(ns)
			handMade(t, obj)
			before := testify(t, obj)
			for _, time := range []string{"first", "second"} {
				obj = make(ns)
				plane.Create(t, withoutRestart(obj))
				plane.Stands(t, obj, kept...)
				harness.Says(t, obj, "Ready", "the pods are those of before the adoption")
				before.sameAsBefore(t, obj, "the "+time+" adoption")
				for _, child := range []client.Object{read(t, deployment(obj)), read(t, service(obj))} {
					if !metav1.IsControlledBy(child, obj) || child.GetLabels()[appv1.LabelManagedBy] != appv1.ManagedBy {
						t.Errorf("%T was not adopted: %v, %v", child, child.GetOwnerReferences(), child.GetLabels())
					}
				}
				m = plane.RestartAtRest(t, m, ns)
				if time == "second" {
					break
				}
				plane.Delete(t, obj, client.PropagationPolicy(metav1.DeletePropagationOrphan))
				plane.Gone(t, obj)
				m.Idle(t)
				before.sameAsBefore(t, obj, "the deletion that orphans")
				for _, child := range []client.Object{read(t, deployment(obj)), read(t, service(obj))} {
					if len(child.GetOwnerReferences()) != 0 {
						t.Errorf("%T still has owners: %v", child, child.GetOwnerReferences())
					}
				}
			}

			plane.Read(t, obj)
			plane.Change(t, obj, func() { specOf(obj).Image = "nginx:1.17.0" })
			plane.Stands(t, obj, "Applied=True/Applied", "Ready=True/Ready")
			readyPods(t, obj, 2)
			if n := shared(before.pods, uids(t, ns)); n > 0 {
				t.Errorf("%d pods are those of before the adoption", n)
			}
			runs(t, obj, nil, []string{read(t, deployment(obj)).Spec.Template.Spec.Containers[0].Name})
			if d := read(t, deployment(obj)); d.Spec.Template.Spec.Containers[0].Image != "nginx:1.17.0" || d.UID != before.uids[0] {
				t.Errorf("the Deployment is not what the spec means: %+v", d.Spec.Template)
			}
		})
	}
}

// TestReturnWithoutRestart has an App come back to what an App of its name has left: with the spec of then, all is as it was; with
// another, the pods stay until a refresh asks for the template that the spec means.
func TestReturnWithoutRestart(t *testing.T) {
	t.Parallel()
	ns, m, app := readyApp(t)
	before := testify(t, app)
	leave := func() {
		plane.Delete(t, app, client.PropagationPolicy(metav1.DeletePropagationOrphan))
		plane.Gone(t, app)
		m.Idle(t)
	}
	leave()
	app = newApp(ns)
	plane.Create(t, withoutRestart(app))
	plane.Stands(t, app, "Applied=True/Applied", "Ready=True/Ready")
	before.sameAsBefore(t, app, "the return with the same spec")
	leave()
	app = newApp(ns)
	app.Spec.Envs = []corev1.EnvVar{{Name: "NEW", Value: "1"}}
	app.Spec.Args = nil
	plane.Create(t, withoutRestart(app))
	plane.Stands(t, app, kept...)
	before.sameAsBefore(t, app, "the return with another spec")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Annotations[appv1.AnnotationRefresh] = "1" })
	plane.Stands(t, app, "Applied=True/Applied", "Ready=True/Ready")
	readyPods(t, app, 2)
	d := read(t, deployment(app))
	env := d.Spec.Template.Spec.Containers[0].Env
	if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == "NEW" }) || shared(before.pods, uids(t, ns)) > 0 {
		t.Errorf("the template is not what the spec means: %+v", d.Spec.Template.Spec)
	}
}
