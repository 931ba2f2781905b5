package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// sample is the file of the quick start.
const sample = "config/samples/app_v1_app.yaml"

// TestSample takes the sample through its life with kubectl, as the quick start does.
func TestSample(t *testing.T) {
	t.Parallel()
	app := readSample(t)
	collected(t, app.Namespace)
	plane.Start(t, app.Namespace)
	k := newKubectl(t, app.Namespace)
	t.Cleanup(func() { _ = plane.Client.Delete(context.Background(), app) })

	k.run("apply", "-f", sample)
	k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "app/nginx-app")
	ready(t, app)
	sampleStatus(t, app)
	sampleChildren(t, app)
	sampleColumns(t, k)

	k.run("scale", "app/nginx-app", "--replicas=3")
	k.run("wait", "--for=jsonpath={.status.ready}=3/3", "--timeout="+harness.Patience.String(), "app/nginx-app")
	if n := len(pods(t, app.Namespace)); n != 3 {
		t.Errorf("%d pods after scaling to 3", n)
	}
	if app = read(t, app); *app.Spec.Replicas != 3 {
		t.Errorf("spec.replicas is %d after scaling to 3", *app.Spec.Replicas)
	}
	if events := k.run("events", "--for", "app/nginx-app"); !strings.Contains(events, "Created Deployment nginx-app, Service nginx-app") {
		t.Errorf("kubectl events does not tell of the creation:\n%s", events)
	}

	k.run("delete", "-f", sample)
	plane.Gone(t, app)
	empty(t, app.Namespace)
}

func readSample(t testing.TB) *appv1.App {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(), sample))
	if err != nil {
		t.Fatal(err)
	}
	app := &appv1.App{}
	if err := yaml.UnmarshalStrict(data, app); err != nil {
		t.Fatal(err)
	}
	return app
}

// sampleStatus checks all that the status of the ready sample says.
func sampleStatus(t *testing.T, app *appv1.App) {
	t.Helper()
	want := appv1.WorkloadStatus{
		CommonStatus: appv1.CommonStatus{
			ObservedGeneration: app.Generation,
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: "True", Reason: "Ready", Message: "Deployment nginx-app: 2 pods available"},
				{Type: "Applied", Status: "True", Reason: "Applied"},
				{Type: "Reconciling", Status: "False", Reason: "Settled"},
				{Type: "Stalled", Status: "False", Reason: "NotStalled"},
			},
		},
		Ready: "2/2", Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
		Selector: "app.huolala.cn/app=nginx-app", Endpoint: "nginx-app.default.svc:8080", Rendering: 2,
	}
	got := app.DeepCopy().Status.WorkloadStatus
	for i := range got.Conditions {
		if got.Conditions[i].ObservedGeneration != app.Generation {
			t.Errorf("condition %s is of generation %d", got.Conditions[i].Type, got.Conditions[i].ObservedGeneration)
		}
		got.Conditions[i].ObservedGeneration, got.Conditions[i].LastTransitionTime = 0, metav1.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// sampleChildren checks that the pods run what the sample says, and that the Service leads to them.
func sampleChildren(t *testing.T, app *appv1.App) {
	t.Helper()
	running := pods(t, app.Namespace)
	if len(running) != 2 {
		t.Errorf("%d pods", len(running))
	}
	for i := range running {
		c := running[i].Spec.Containers[0]
		if c.Image != "nginx:1.16.1" || c.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("image %s, pulled %s", c.Image, c.ImagePullPolicy)
		}
		if diff := cmp.Diff([]corev1.EnvVar{{Name: "DEMO", Value: "app"}, {Name: "GOPATH", Value: "gopath"}}, c.Env); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(app.Spec.Resources, c.Resources); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
	}
	svc := read(t, service(app))
	if p := svc.Spec.Ports; len(p) != 1 || p[0].Port != 8080 || p[0].TargetPort.IntValue() != 80 {
		t.Errorf("ports of the Service: %+v", p)
	}
	for _, child := range []client.Object{svc, read(t, deployment(app))} {
		if !metav1.IsControlledBy(child, app) {
			t.Errorf("%T is not controlled by the App: %+v", child, child.GetOwnerReferences())
		}
	}
	harness.Eventually(t, func() error {
		var selected corev1.PodList
		err := plane.Client.List(t.Context(), &selected, client.InNamespace(app.Namespace), client.MatchingLabels(svc.Spec.Selector))
		if err != nil || len(selected.Items) != 2 {
			return fmt.Errorf("the Service selects %d pods (%w)", len(selected.Items), err)
		}
		return nil
	})
}

// sampleColumns checks what "kubectl get" shows of the ready sample.
func sampleColumns(t *testing.T, k *kubectl) {
	t.Helper()
	narrow := []string{"NAME", "READY", "UPDATED", "STATUS", "IMAGE", "AGE"}
	row := []string{"nginx-app", "2/2", "2", "Ready", "nginx:1.16.1"}
	for _, name := range []string{"app", "happ", "apps.app.huolala.cn"} {
		rows := k.table("get", name)
		if len(rows) != 2 || !slices.Equal(rows[0], narrow) || len(rows[1]) != 6 || !slices.Equal(rows[1][:5], row) {
			t.Errorf("kubectl get %s: %q", name, rows)
		}
	}
	rows := k.table("get", "app", "nginx-app", "-o", "wide")
	// The cell of HOSTS is empty.
	if len(rows) != 2 || !slices.Equal(rows[0], append(narrow, "APPLIED", "ENDPOINT", "HOSTS", "SELECTOR", "MESSAGE")) || len(rows[1]) < 10 ||
		!slices.Equal(rows[1][:5], row) ||
		!slices.Equal(rows[1][6:9], []string{"Applied", "nginx-app.default.svc:8080", "app.huolala.cn/app=nginx-app"}) {
		t.Errorf("kubectl get app -o wide: %q", rows)
	}
	if shown := k.run("get", "app-operator"); !strings.Contains(shown, "app.app.huolala.cn/nginx-app ") {
		t.Errorf("kubectl get app-operator does not show the App:\n%s", shown)
	}
	all := k.run("get", "all")
	for _, object := range []string{"pod/nginx-app-", "service/nginx-app ", "deployment.apps/nginx-app ", "replicaset.apps/nginx-app-", "app.app.huolala.cn/nginx-app "} {
		if !strings.Contains(all, object) {
			t.Errorf("kubectl get all does not show %s:\n%s", object, all)
		}
	}
}

// empty waits until nothing of ours is left in a namespace: no workload, no Service of ours and no pod.
func empty(t testing.TB, namespace string) {
	t.Helper()
	ours := client.MatchingLabels{appv1.LabelManagedBy: appv1.ManagedBy}
	harness.Eventually(t, func() error {
		for _, list := range []client.ObjectList{
			&corev1.ServiceList{}, &corev1.PodList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{},
		} {
			left := &metav1.PartialObjectMetadataList{}
			gvk, err := plane.Client.GroupVersionKindFor(list)
			if err != nil {
				return err
			}
			left.SetGroupVersionKind(gvk)
			if err := plane.Client.List(t.Context(), left, client.InNamespace(namespace), ours); err != nil {
				return err
			}
			if len(left.Items) > 0 {
				return fmt.Errorf("%s %s is still there", gvk.Kind, left.Items[0].Name)
			}
		}
		return nil
	})
}

// TestExplain checks that "kubectl explain" has a text on every field of ours.
func TestExplain(t *testing.T) {
	t.Parallel()
	for plural, name := range map[string]string{"apps": "app", "modelboxes": "mbox"} {
		crd := read(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".app.huolala.cn"}})
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		spec := root.Properties["spec"]
		explains(t, map[string]apiextensionsv1.JSONSchemaProps{
			name:                   *root,
			name + ".spec":         spec,
			name + ".spec.ports":   *spec.Properties["ports"].Items.Schema,
			name + ".spec.probes":  spec.Properties["probes"],
			name + ".spec.service": spec.Properties["service"],
			name + ".status":       root.Properties["status"],
		})
	}
}

// explains checks that "kubectl explain" has a text on every field of these.
func explains(t *testing.T, schemas map[string]apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	k := newKubectl(t, "default")
	for path, schema := range schemas {
		// The definition is published some time after it has been established.
		var page string
		harness.Eventually(t, func() (err error) {
			page, err = k.try("explain", path)
			return err
		})
		page = strings.Join(strings.Fields(page), " ")
		for field, props := range schema.Properties {
			text := strings.Join(strings.Fields(props.Description), " ")
			if field == "metadata" {
				text = "Standard object's metadata." // The API server's own.
			}
			if len(text) < 10 || !strings.Contains(page, text) {
				t.Errorf("kubectl explain %s has no text on %s:\n%s", path, field, page)
			}
		}
		if len(schema.Properties) == 0 {
			t.Errorf("%s has no fields", path)
		}
	}
}

// TestApplyDefinitions checks that the definitions can be applied by plain "kubectl apply", which keeps a copy of them
// in an annotation of limited size. It is not parallel: another test applies them in another way.
func TestApplyDefinitions(t *testing.T) {
	k := newKubectl(t, "default")
	k.run("apply", "-f", "config/crd/bases")
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := plane.Client.List(t.Context(), &crds); err != nil {
		t.Fatal(err)
	}
	for i := range crds.Items {
		size := len(crds.Items[i].Annotations["kubectl.kubernetes.io/last-applied-configuration"])
		t.Logf("%s: %d bytes as JSON", crds.Items[i].Name, size)
		if size == 0 {
			t.Errorf("%s was not applied", crds.Items[i].Name)
		}
	}
}
