package workload

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// entryOf returns an entry of managed fields of a manager's apply requests.
func entryOf(manager, raw string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)},
	}
}

// TestKeptPortsAtAdoption adopts without a restart a Deployment that lacks a named port, and that a resource has kept before. Only the record of the
// same kind proves that the Deployment is returned.
func TestKeptPortsAtAdoption(t *testing.T) {
	const hash = `{"f:metadata":{"f:annotations":{"f:` + appv1.AnnotationLastAppliedHash + `":{}}}}`
	const left = `{"f:metadata":{"f:labels":{"f:former":{}}}}`
	ours, theirs := resource.KindApp.FieldManager(), resource.KindModelBox.FieldManager()
	kept := resource.BuildInputs{Rendering: resource.RenderingLatest, Kept: true}
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		record  string
		refused bool
	}{
		"kept by an App":                  {[]metav1.ManagedFieldsEntry{entryOf(ours, hash)}, kept.Encode(), false},
		"kept by an App after a ModelBox": {[]metav1.ManagedFieldsEntry{entryOf(theirs, left), entryOf(ours, hash)}, kept.Encode(), false},
		"restored without managed fields": {nil, kept.Encode(), false},
		"kept by a ModelBox":              {[]metav1.ManagedFieldsEntry{entryOf(theirs, hash)}, kept.Encode(), true},
		"kept by a ModelBox after an App": {[]metav1.ManagedFieldsEntry{entryOf(ours, left), entryOf(theirs, hash)}, kept.Encode(), true},
		"not kept":                        {[]metav1.ManagedFieldsEntry{entryOf(ours, hash)}, "", true},
	} {
		app := newWebApp()
		app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
		app.Spec.Ports = []appv1.Port{{Name: "main", Port: 80, TargetPort: ptr.To(intstr.FromString("main"))}}
		app.Spec.ContainerPorts = []appv1.ContainerPort{{Name: "main", ContainerPort: 8080}}
		live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", ManagedFields: c.entries}}
		live.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: c.record}
		live.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
		w, errs := resource.App(app, resource.BuildOptions{Inputs: kept})
		if len(errs) > 0 || !w.NamesTemplate() {
			t.Fatal(errs)
		}
		_, err := (&Reconciler{}).keepLiveTemplate(t.Context(), newAppInput(app), w, &Observed{Object: live})
		var stalled *reconciler.StalledError
		if refused := errors.As(err, &stalled) && stalled.Reason == appv1.ReasonAdoptionRestarts; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v, want refused %t", name, err, c.refused)
		}
	}
}

// TestChangesKept compares a spec with a kept template that has all that the spec states, and a variable. The next apply removes the variable if the operator
// has applied it.
func TestChangesKept(t *testing.T) {
	const variable = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:env":{"k:{\"name\":\"LEFT\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}}`
	for manager, want := range map[string]bool{
		apply.HandoverManager:                true,
		resource.KindModelBox.FieldManager(): true,
		"kubectl":                            false,
	} {
		app := newWebApp()
		w, errs := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		live := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: *w.Template.DeepCopy()}}
		main := &live.Spec.Template.Spec.Containers[0]
		main.Env = append(main.Env, corev1.EnvVar{Name: "LEFT", Value: "1"})
		live.ManagedFields = []metav1.ManagedFieldsEntry{entryOf(manager, variable)}
		decide := decider{compare: newComparer(t), in: newAppInput(app), seen: &Observed{Object: live}}
		if changes, err := decide.changesKept(w, live); err != nil || changes != want {
			t.Errorf("%s: changes %t, %v", manager, changes, err)
		}
	}
}
