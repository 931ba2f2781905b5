package controllers

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// forgeRecord states other defaults in the record of the Deployment, under the name of the operator's field manager.
func (w *world) forgeRecord(forged string) {
	w.t.Helper()
	d, fields := w.deployment(), &appv1.Defaults{}
	if err := json.Unmarshal([]byte(forged), fields); err != nil {
		w.t.Fatal(err)
	}
	inputs, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		w.t.Fatal(err)
	}
	inputs.Defaults = resource.TakeDefaults(&resource.PresentDefaults{Fields: fields}, resource.AppSpec(&appv1.App{}))
	d.Annotations[appv1.AnnotationLastAppliedInputs] = inputs.Encode()
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	d.ManagedFields, d.ResourceVersion = nil, ""
	//nolint:staticcheck // The object states all that the operator applies.
	if err := w.base.Patch(w.t.Context(), d, client.Apply, client.FieldOwner(resource.KindApp.FieldManager()), client.ForceOwnership); err != nil {
		w.t.Fatal(err)
	}
	if got := w.deployment().Annotations[appv1.AnnotationLastAppliedInputs]; got != inputs.Encode() {
		w.t.Fatalf("the record is %s", got)
	}
}

// TestForgedDefaults forges the recorded defaults under the operator's name, while the record has the present defaults and while it has former ones:
// neither the pods nor the objects around them get what AppDefaults never had, and no pod is replaced. A forgery while the App is paused
// does not count afterwards.
func TestForgedDefaults(t *testing.T) {
	const had = `{"podAnnotations":{"a":"1"},"disruptionBudget":{"maxUnavailable":2}}`
	for name, forged := range map[string]string{
		"a container":       `{"podAnnotations":{"a":"1"},"disruptionBudget":{"maxUnavailable":2},"containers":[{"name":"miner","image":"miner"}]}`,
		"another value":     `{"podAnnotations":{"a":"2"},"disruptionBudget":{"maxUnavailable":2}}`,
		"less":              `{"disruptionBudget":{"maxUnavailable":2}}`,
		"nothing":           `{}`,
		"around the pods":   `{"podAnnotations":{"a":"1"},"disruptionBudget":{"maxUnavailable":3}}`,
		"less around them":  `{"podAnnotations":{"a":"1"}}`,
		"an account's role": `{"podAnnotations":{"a":"1"},"serviceAccount":{"annotations":{"role":"admin"}}}`,
	} {
		for _, edited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, edited %t", name, edited), func(t *testing.T) { checkForgedDefaults(t, had, forged, edited, "") })
		}
		for how, spec := range map[string]string{"paused": `"paused":true`, "invalid": `"size":"none"`} {
			if name == "a container" || name == "around the pods" {
				t.Run(name+", "+how, func(t *testing.T) { checkForgedDefaults(t, had, forged, true, spec) })
			}
		}
	}
}

// checkForgedDefaults has defaults that an App had, and forges its record. edited AppDefaults have another value by then. With spec, the App has
// this part of a spec during the forgery.
func checkForgedDefaults(t *testing.T, had, forged string, edited bool, spec string) {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	w.setDefaults("platform", `{"defaults":`+had+`}`)
	w.settle("App")
	if edited {
		w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"3"},"disruptionBudget":{"maxUnavailable":2}}}`)
		w.settle("App")
	}
	before := w.deployment()
	if spec != "" {
		w.setSpec("App", `{"image":"nginx:1","replicas":1,`+spec+`}`)
		if _, err := w.reconcile("App"); err != nil {
			t.Fatal(err)
		}
	}
	w.forgeRecord(forged)
	if spec != "" {
		for range 3 {
			if _, err := w.reconcile("App"); err != nil {
				t.Fatal(err)
			}
		}
		w.setSpec("App", `{"image":"nginx:1","replicas":1}`)
	}
	w.settle("App")
	if diff := cmp.Diff(before.Spec.Template, w.deployment().Spec.Template); diff != "" {
		t.Errorf("the pods (-before +after):\n%s", diff)
	}
	budget, account := &policyv1.PodDisruptionBudget{}, &corev1.ServiceAccount{}
	if !w.read(budget) || budget.Spec.MaxUnavailable == nil || budget.Spec.MaxUnavailable.IntValue() != 2 {
		t.Errorf("the PodDisruptionBudget is %+v", budget.Spec)
	}
	if w.read(account) {
		t.Errorf("there is a ServiceAccount with %v", account.Annotations)
	}
}
