package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// step is a change of a resource of the stage, and the reason that a condition of the resource has afterwards.
type step struct {
	kind, namespace, name, patch, reason string
}

// settled are the first steps. All pods run the new spec after them, but those of basket, whose hold follows.
var settled = []step{
	{"App", "shop", "checkout", `{"spec":{"image":"registry.example.com/shop/checkout:5.1.1","envs":[{"name":"LOG_LEVEL","value":"info"}]}}`, appv1.ReasonReady},
	{"App", "shop", "web", `{"spec":{"image":"registry.example.com/shop/web:2026.11.4"}}`, appv1.ReasonReady},
	{"App", "shop", "basket", `{"spec":{"image":"imagepullbackoff.test/shop/basket:4.5.0"}}`, appv1.ReasonImagePullBackOff},
	{"App", "shop", "fleet", `{"spec":{"image":"registry.example.com/shop/fleet:1.1.0","minReadySeconds":0}}`, appv1.ReasonReady},
}

// troubled are the steps into the states in which a user looks at a resource.
var troubled = []step{
	{"App", "shop", "checkout", `{"spec":{"image":"imagepullbackoff.test/shop/checkout:5.2.0"}}`, appv1.ReasonImagePullBackOff},
	{"App", "shop", "recommend", `{"spec":{"image":"crashloopbackoff.test/shop/recommend:1.0.0"}}`, appv1.ReasonCrashLoopBackOff},
	{
		"App", "shop", "reviews", `{"spec":{"image":"registry.example.com/shop/reviews:2.3.0","resources":{"requests":{"cpu":"3000"},"limits":{"cpu":"4000"}}}}`,
		appv1.ReasonUnschedulable,
	},
	{"App", "shop", "coupons", `{"spec":{"paused":true,"image":"registry.example.com/shop/coupons:1.2.0"}}`, appv1.ReasonPaused},
	{"App", "shop", "basket", `{"metadata":{"annotations":{"app.huolala.cn/hold":"last-good"}}}`, appv1.ReasonHeld},
	{"App", "shop", "inventory", `{"spec":{"image":"imagepullbackoff.test/shop/inventory:7.1.0"}}`, appv1.ReasonRolledBack},
	{"App", "shop", "offers", `{"spec":{"image":"registry.example.com/shop/offers:3.5.0"}}`, appv1.ReasonCanary},
	{"App", "shop", "orders", `{"spec":{"image":"jobfails.test/shop/orders:2.2.0"}}`, appv1.ReasonBeforeRolloutFailed},
	{"App", "shop", "shipping", `{"spec":{"image":"jobruns.test/shop/shipping:1.5.0"}}`, appv1.ReasonBeforeRollout},
	{"App", "pay", "fraud", `{"spec":{"image":"oomkilled.test/pay/fraud:0.4.0"}}`, appv1.ReasonOOMKilled},
	{"App", "shop", "fleet", `{"spec":{"image":"registry.example.com/shop/fleet:1.2.0","minReadySeconds":60}}`, appv1.ReasonProgressing},
	{"App", "legacy", "wiki", "", appv1.ReasonResourceExists},
	{"UnitedDeployment", "legacy", "erp", "", appv1.ReasonDeploymentNotFound},
	{"ModelBox", "search", "speller", "", appv1.ReasonNodePortTaken},
	{"CloudManager", "media", "office", "", appv1.ReasonDependencyNotReady},
	{"Task", "shop", "newsletter", "", appv1.ReasonSuspended},
}

// runs are the Tasks whose runs the stage starts, and the reasons afterwards.
var runs = []step{
	{"Task", "shop", "cart-report", "", appv1.ReasonSucceeded},
	{"Task", "shop", "cleanup", "", appv1.ReasonRunFailed},
	{"Task", "search", "reindex", "", appv1.ReasonRunning},
}

// unsettled are the resources of the stage that are not ready before any change.
var unsettled = []string{"wiki", "erp", "speller", "office", "thumbs", "batch", "newsletter"}

// stage makes the resources of testdata/scene.yaml, and brings them into their states. Its namespaces are those of a shop: one test of a run
// has them.
func stage(t testing.TB) {
	t.Helper()
	objects := sceneObjects(t)
	var namespaces []string
	for _, obj := range objects {
		if obj.GetKind() == "Namespace" {
			plane.Create(t, obj)
			namespaces = append(namespaces, obj.GetName())
		}
	}
	plane.Start(t, "shop", harness.WithNamespaces(namespaces...), harness.WithWebhooks(plane.Webhooks(t, "shop")))
	create := func(obj *unstructured.Unstructured) {
		harness.Eventually(t, func() error { return client.IgnoreAlreadyExists(plane.Client.Create(t.Context(), obj.DeepCopy())) })
	}
	var resources, later []*unstructured.Unstructured
	for _, obj := range objects {
		switch isOurs := obj.GroupVersionKind().Group == appv1.GroupVersion.Group; {
		case obj.GetKind() == "Namespace":
			continue
		case isOurs && slices.Contains(unsettled, obj.GetName()): // It must not take what another one has, such as a port of the nodes.
			later = append(later, obj)
			continue
		case isOurs:
			resources = append(resources, obj)
		}
		create(obj)
	}
	for _, obj := range resources {
		reason := appv1.ReasonReady
		if obj.GetKind() == "Task" {
			reason = appv1.ReasonNoRun
		}
		reaches(t, obj, reason)
	}
	for _, obj := range later {
		create(obj)
	}
	for _, steps := range [][]step{settled, troubled} {
		for _, s := range steps {
			if s.patch != "" {
				patched := client.RawPatch(types.MergePatchType, []byte(s.patch))
				if err := plane.Client.Patch(t.Context(), s.object(), patched, client.FieldOwner("kubectl-patch")); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
			}
		}
		for _, s := range steps {
			reaches(t, s.object(), s.reason)
		}
	}
	for _, s := range runs {
		startRun(t, s.namespace, s.name)
	}
	for _, s := range runs {
		reaches(t, s.object(), s.reason)
	}
}

// startRun starts a run of a Task, as kubectl create job --from does.
func startRun(t testing.TB, namespace, name string) {
	t.Helper()
	cron := &batchv1.CronJob{}
	if err := plane.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, cron); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: cron.Spec.JobTemplate.ObjectMeta, Spec: cron.Spec.JobTemplate.Spec}
	job.Namespace, job.Name = namespace, name+"-again"
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: name, UID: cron.UID, Controller: ptr.To(true)}}
	plane.Create(t, job)
}

// sceneObjects returns the objects of the file. Its Tasks are due in another month: no run starts while the stage is made.
func sceneObjects(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/scene.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if obj.GetKind() == "Task" {
			if err := unstructured.SetNestedField(obj.Object, fixture.Schedule, "spec", "schedule"); err != nil {
				t.Fatal(err)
			}
		}
		objects = append(objects, obj)
	}
}

func (s *step) object() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(appv1.GroupVersion.WithKind(s.kind))
	obj.SetNamespace(s.namespace)
	obj.SetName(s.name)
	return obj
}

// reaches waits until a condition of a resource has a reason, of the latest generation.
func reaches(t testing.TB, obj *unstructured.Unstructured, reason string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["reason"] == reason && c["observedGeneration"] == obj.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("%s does not report %s: %v", obj.GetName(), reason, conditions)
	})
}
