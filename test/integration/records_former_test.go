package integration

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestFormerChildren gives an App a Deployment and a Service by another name, as another release of the operator would have
// applied them. They stay until the pods of the App are ready, and are deleted then. A copy of a child, which nothing but its
// field owners tells from one, and the child of another App that was given to this one, stay.
func TestFormerChildren(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	formerDeployment, formerService, theirs := newHandMade(ns, "former"), newHandMadeService(ns, "former"), newHandMadeService(ns, "theirs")
	for _, obj := range []client.Object{formerDeployment, formerService, theirs} {
		obj.SetOwnerReferences(s.OwnerReferences)
		obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelInstance: app.Name})
		obj.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedHash: "of another release"})
		if obj == client.Object(theirs) {
			plane.Create(t, obj)
			continue
		}
		gvk, err := plane.Client.GroupVersionKindFor(obj)
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if err := plane.Client.Patch(t.Context(), obj, client.Apply, client.FieldOwner("app-operator/app")); err != nil { //nolint:staticcheck // Typed objects are what another release applied.
			t.Fatal(err)
		}
	}
	other := newApp(ns, "other")
	otherDeployment, _ := createInPlace(t, other)
	plane.Change(t, otherDeployment, func() { otherDeployment.OwnerReferences = s.OwnerReferences })
	m.Idle(t)
	plane.Read(t, formerDeployment)
	plane.Read(t, formerService)

	playDeployments(t.Context(), ns)
	for _, obj := range []client.Object{formerDeployment, formerService} {
		harness.Eventually(t, func() error {
			err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
			if err == nil {
				return fmt.Errorf("%T %s is there", obj, obj.GetName())
			}
			return client.IgnoreNotFound(err)
		})
	}
	m.Idle(t)
	for _, obj := range []client.Object{theirs, d, s, otherDeployment} {
		plane.Read(t, obj)
	}
}
