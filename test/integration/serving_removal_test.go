package integration

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestRemovedObjectsWithFinalizers removes what asks for an object that a finalizer keeps: the condition Applied names the
// object until it is gone. Another change of the spec is applied meanwhile.
func TestRemovedObjectsWithFinalizers(t *testing.T) {
	t.Parallel()
	type removal struct {
		object client.Object
		clear  func(*appv1.AppSpec)
	}
	removals := map[string]removal{
		"Service": {&corev1.Service{}, func(s *appv1.AppSpec) { s.Ports, s.Ingress = nil, nil }},
	}
	for name, b := range blocks {
		removals[name] = removal{b.object, func(s *appv1.AppSpec) { b.clear(&s.ServingSpec) }}
	}
	for name, r := range removals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			app := newServed(ns, "web", blockNames...)
			d, _ := createInPlace(t, app)
			completeRollout(t, d)
			plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
			obj := r.object.DeepCopyObject().(client.Object)
			obj.SetNamespace(ns)
			obj.SetName("web")
			plane.Read(t, obj)
			plane.Change(t, obj, func() { obj.SetFinalizers([]string{"example.com/keep"}) })
			t.Cleanup(func() { removeFinalizers(t, obj) })

			plane.Change(t, app, func() { r.clear(&app.Spec) })
			if name == "Service" || name == "serviceAccount" { // The template changes.
				completeNextRollout(t, d)
			}
			plane.Stands(t, app, "Ready=True", "Applied=False/Progressing", "Stalled=False")
			harness.Says(t, app, "Applied", kindOf(t, obj).Kind+" web", "finalizers")
			setImage(t, app, "nginx:1.17")
			awaitImage(t, d, "nginx:1.17")
			completeRollout(t, d)
			plane.Stands(t, app, "Ready=True", "Applied=False/Progressing")
			m.Idle(t)

			removeFinalizers(t, obj)
			plane.Absent(t, obj)
			plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
		})
	}
}

// TestFormerServiceOfARefusedIngress renames the Service while the API server refuses all changes of the Ingress, which leads to the
// former one: that stays until the Ingress leads to its successor.
func TestFormerServiceOfARefusedIngress(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	var refuse switchable
	m := plane.Start(t, ns, harness.WithForbidden(), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if q.Write() && q.Resource == "ingresses" && refuse.is() {
				var status apierrors.APIStatus
				errors.As(troubles["forbidden"].answer(blocks["ingress"]), &status)
				return harness.Answer(status), nil
			}
			return send()
		}))
	app := newServed(ns, "web", "ingress")
	d, former := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
	refuse.set(true)
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Service.Name = "shop" })
	giveEndpoint(t, ns, "shop", true)
	completeNextRollout(t, d)
	plane.Stands(t, app, "Ready=True", "Applied=False/Forbidden")
	successor := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"}}
	plane.Read(t, successor)
	m.Idle(t)
	plane.Read(t, former)
	if former.DeletionTimestamp != nil {
		t.Error("the former Service is being deleted")
	}

	refuse.set(false)
	setAnnotation(t, app, "example.com/again", "1")
	plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
	plane.Absent(t, former)
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	plane.Read(t, ingress)
	if to := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name; to != "shop" {
		t.Errorf("the Ingress leads to Service %s", to)
	}
}

// removeFinalizers removes the finalizers of an object, if it is still there.
func removeFinalizers(t *testing.T, obj client.Object) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(plane.Client.Patch(context.WithoutCancel(t.Context()), obj, patch)); err != nil {
		t.Error(err)
	}
}
