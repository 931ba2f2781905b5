package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// laxPlane starts a control plane whose definitions let any spec and status of our kinds in, as those of other releases may.
func laxPlane(t *testing.T) *harness.Plane {
	t.Helper()
	p, err := harness.StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := p.Client.List(t.Context(), &definitions); err != nil {
		t.Fatal(err)
	}
	anything := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: ptr.To(true)}
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		for v := range definition.Spec.Versions {
			definition.Spec.Versions[v].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
			}
		}
		if err := p.Client.Update(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// nasty are specs that the lax definitions let in, and what their status says of each.
var nasty = []struct{ kind, name, spec, says string }{
	{"App", "surge", `{"image":"a","rollingUpdate":99999999999}`, "spec.rollingUpdate: "},
	{"App", "probe", `{"image":"a","probes":{"liveness":{"httpGet":{"port":99999999999}}}}`, "spec.probes.liveness.httpGet.port: "},
	{"App", "hook", `{"image":"a","lifecycle":{"preStop":{"httpGet":{"port":99999999999}}}}`, "spec.lifecycle.preStop.httpGet.port: "},
	{"App", "gpu", `{"image":"a","resources":{"limits":{"example.com/gpu":"1e1.5"}}}`, "spec.resources.limits[example.com/gpu]: "},
	{"App", "divisor", `{"image":"a","envs":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"x"}}}]}`, "spec.envs[0].valueFrom.resourceFieldRef.divisor: "},
	{"App", "volume", `{"image":"a","volumes":[{"name":"a","emptyDir":{"sizeLimit":"1e1.5"}}]}`, "spec.volumes[0].emptyDir.sizeLimit: "},
	{"App", "minutes", `{"image":"a","resources":{"limits":{"x.y/z":"1e-100000000"}}}`, "spec.resources.limits[x.y/z]: "},
	{"App", "patch", `{"image":"a","podTemplatePatch":{"spec":{"containers":[{"name":"a","resources":{"limits":{"x.y/z":"1e-100000000"}}}]}}}`,
		"spec.podTemplatePatch.spec.containers[0].resources.limits[x.y/z]: "},
	{"App", "crowd", `{"image":"a","podTemplatePatch":{"spec":{"containers":[` + repeatItem(`{"name":"a","image":"registry.example.com/a:1"}`, 10_000) + `]}}}`, "spec.podTemplatePatch: "},
	{"App", "pods", `{"image":"a","containers":[` + repeatItem(`{"name":"a"}`, 15_000) + `]}`, "spec.containers: "},
	{"App", "long", `{"image":"` + strings.Repeat("x", 1100<<10) + `"}`, "spec: "},
	{"CloudManager", "text", `"text"`, "spec: "},
	{"App", "deep", `{"image":"a","podTemplatePatch":{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}`, "spec.podTemplatePatch"},
	{"ModelBox", "number", `{"image":5}`, "spec.image: "},
	{"UnitedDeployment", "held", `{"deploymentName":"web","template":{"minReadySeconds":99999999999}}`, "spec.template.minReadySeconds: "},
	{"CloudManager", "tier", `{"front":{"deployment":{"rollingUpdate":99999999999}}}`, "spec.front.deployment.rollingUpdate: "},
}

func repeatItem(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

// newRaw returns a resource with a spec as JSON.
func newRaw(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	var fields any
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	obj.Object["spec"] = fields
	obj.SetGroupVersionKind(appv1.GroupVersion.WithKind(kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// statusOf returns what a resource's status says, whatever its spec.
func statusOf(ctx context.Context, p *harness.Plane, obj *unstructured.Unstructured) (*appv1.CommonStatus, error) {
	if err := p.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return nil, err
	}
	data, err := json.Marshal(obj.Object["status"])
	if err != nil {
		return nil, err
	}
	status := &appv1.CommonStatus{}
	return status, json.Unmarshal(data, status)
}

// refusedFor waits until a resource is stalled for its spec, with words that name the field.
func refusedFor(t *testing.T, p *harness.Plane, obj *unstructured.Unstructured, says string) {
	t.Helper()
	harness.Eventually(t, func() error {
		status, err := statusOf(t.Context(), p, obj)
		if err != nil {
			return err
		}
		stalled := meta.FindStatusCondition(status.Conditions, appv1.ConditionStalled)
		ready := meta.FindStatusCondition(status.Conditions, appv1.ConditionReady)
		if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != appv1.ReasonInvalid ||
			ready == nil || ready.Status != metav1.ConditionFalse || status.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("%s: conditions %+v", obj.GetName(), status.Conditions)
		}
		if !strings.HasPrefix(stalled.Message, says) || len(stalled.Message) > 500 {
			return fmt.Errorf("%s: it says %q, want %q", obj.GetName(), stalled.Message, says)
		}
		return nil
	})
}

// awaitServed waits until a new App has its children.
func awaitServed(t *testing.T, p *harness.Plane, ns, name string) {
	t.Helper()
	app := newApp(ns, name)
	p.Create(t, app)
	p.Until(t, &appsv1.Deployment{ObjectMeta: app.ObjectMeta}, func() error { return nil })
	p.Until(t, &corev1.Service{ObjectMeta: app.ObjectMeta}, func() error { return nil })
}

// replaceSpec replaces a resource's spec.
func replaceSpec(ctx context.Context, p *harness.Plane, obj *unstructured.Unstructured, spec string) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec","value":%s}]`, spec)
	return p.Client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, []byte(patch)))
}

// TestUndecodableResources has resources that cannot be decoded, or only at a great expense, next to others: these are served, by
// a manager that sees the former come and by one that starts with them; the former say what is wrong, and leave their children.
func TestUndecodableResources(t *testing.T) {
	t.Parallel()
	p := laxPlane(t)
	ns := p.Namespace(t)
	first := p.Start(t, ns)
	awaitServed(t, p, ns, "kept")
	awaitServed(t, p, ns, "deleted")
	kept := newRaw(t, "App", ns, "kept", `{}`)
	p.Read(t, kept)
	first.Idle(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "kept"}}
	p.Read(t, deployment)
	version := deployment.ResourceVersion

	var all []*unstructured.Unstructured
	for _, c := range nasty {
		obj := newRaw(t, c.kind, ns, c.name, c.spec)
		if err := p.Client.Create(t.Context(), obj); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		all = append(all, obj)
	}
	if err := replaceSpec(t.Context(), p, kept, nasty[0].spec); err != nil {
		t.Fatal(err)
	}
	awaitServed(t, p, ns, "second")
	for i, obj := range all {
		refusedFor(t, p, obj, nasty[i].says)
	}
	refusedFor(t, p, kept, nasty[0].says)

	t.Run("a deleted App is not made again", func(t *testing.T) {
		meta := metav1.ObjectMeta{Namespace: ns, Name: "deleted"}
		gone := []client.Object{&appv1.App{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}}
		p.Delete(t, gone[0])
		first.Idle(t)
		for _, obj := range gone[1:] {
			p.Delete(t, obj)
		}
		first.Idle(t)
		for _, obj := range gone {
			p.Absent(t, obj)
		}
	})
	t.Run("a status that nobody can read is replaced", func(t *testing.T) {
		app := newRaw(t, "App", ns, "second", `{}`)
		patch := `{"status":{"ready":5,"conditions":{"a":5}}}`
		if err := p.Client.Status().Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		p.Read(t, app)
		if err := replaceSpec(t.Context(), p, app, `{"image":"nginx:2"}`); err != nil {
			t.Fatal(err)
		}
		p.Until(t, &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "second"}}, func() error { return nil })
	})
	first.Stop(t)

	again := p.Start(t, ns, harness.WithWebhooks(p.Webhooks(t, ns)))
	awaitServed(t, p, ns, "third")
	again.Idle(t)
	p.Read(t, deployment)
	if deployment.ResourceVersion != version {
		t.Error("the Deployment of an App that cannot be decoded was written to")
	}
	t.Run("repair", func(t *testing.T) { checkRepairs(t, p, ns, all) })
}

// checkRepairs changes resources that cannot be decoded, with the webhooks on.
func checkRepairs(t *testing.T, p *harness.Plane, ns string, all []*unstructured.Unstructured) {
	good := newRaw(t, "App", ns, "third", `{}`)
	for i, obj := range all {
		if obj.GetKind() != "App" {
			continue
		}
		harness.Eventually(t, func() error {
			err := replaceSpec(t.Context(), p, good, nasty[i].spec)
			if err == nil {
				return errors.New(nasty[i].name + ": the webhook lets it in")
			}
			if want := strings.TrimSpace(nasty[i].says); !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
				return fmt.Errorf("%s: refused with %.1000q, want %q", nasty[i].name, err.Error(), want)
			}
			return nil
		})
		label := `{"metadata":{"labels":{"team":"a"}}}`
		if err := p.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(label))); err != nil {
			t.Errorf("%s: a label is rejected by the API server: %v", nasty[i].name, err)
		}
		if err := replaceSpec(t.Context(), p, obj, `{"image":"nginx:1"}`); err != nil {
			t.Errorf("%s: the repair is rejected by the API server: %.300v", nasty[i].name, err)
			continue
		}
		p.Until(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: obj.GetName()}}, func() error { return nil })
	}
}
