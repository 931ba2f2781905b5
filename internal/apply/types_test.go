package apply

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// TestHashedIsAllButUnhashed compares the two ways in which a type says what its hash covers: what Hashed leaves out are the
// fields of Unhashed.
func TestHashedIsAllButUnhashed(t *testing.T) {
	two, secret := int32(2), map[string][]byte{"a": []byte("b")}
	for _, obj := range []client.Object{
		&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &two}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &two}},
		&corev1.Secret{Data: secret},
	} {
		row := children.TypeOf(obj)
		full, err := fields.Literal(obj)
		if err != nil {
			t.Fatal(err)
		}
		row.Unhashed.Iterate(func(path fieldpath.Path) {
			if _, ok := full[*path[0].FieldName]; !ok {
				t.Errorf("%T has no field %s", obj, path)
			}
		})
		before, err := hashObject(obj, "")
		if err != nil {
			t.Fatal(err)
		}
		switch obj := obj.(type) {
		case *appsv1.Deployment:
			obj.Spec.Replicas = nil
		case *appsv1.StatefulSet:
			obj.Spec.Replicas = nil
		case *corev1.Secret:
			obj.Data["a"] = []byte("c")
		}
		if after, err := hashObject(obj, ""); err != nil || after != before {
			t.Errorf("%T: the hash covers what it must not: %s, %s, %v", obj, before, after, err)
		}
	}
}

// childOfAnother makes an object one that was applied for another owner.
func childOfAnother(obj client.Object) client.Object {
	obj.GetLabels()[appv1.LabelInstance] = "another"
	return obj
}

// TestObserve finds what the operator has applied for an owner, and nothing else.
func TestObserve(t *testing.T) {
	owner := request(nil).Owner
	child := func(obj client.Object, name string, uid types.UID, applied bool) client.Object {
		obj.SetNamespace(owner.GetNamespace())
		obj.SetName(name)
		obj.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: owner.GetName(), UID: uid, Controller: ptr.To(true),
		}})
		obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelInstance: owner.GetName()})
		obj.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedHash: "sum"})
		if applied {
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "", `{"f:metadata":{"f:annotations":{"f:`+appv1.AnnotationLastAppliedHash+`":{}}}}`)})
		}
		return obj
	}
	bare := func(name string, applied types.UID) client.Object {
		obj := child(&corev1.Service{}, name, owner.GetUID(), false)
		obj.SetLabels(nil)
		obj.SetAnnotations(nil)
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{
			fieldtest.Entry("me", apply, "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"`+string(applied)+`\"}":{}}}}`),
			fieldtest.Entry("kubectl", apply, "", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"`+string(owner.GetUID())+`\"}":{}}}}`),
		})
		return obj
	}
	builder := fake.NewClientBuilder().WithScheme(kinds()).WithReturnManagedFields().WithObjects(
		bare("bare", owner.GetUID()), bare("bare and given", "uid-2"),
		child(&corev1.Service{}, "web", owner.GetUID(), true), child(&corev1.Service{}, "former", owner.GetUID(), true),
		child(&appsv1.Deployment{}, "web", owner.GetUID(), true), child(&corev1.Service{}, "theirs", owner.GetUID(), false),
		child(&corev1.Service{}, "another", "uid-2", true), childOfAnother(child(&corev1.Service{}, "given", owner.GetUID(), true)),
	)
	for i := range children.Types {
		if children.Types[i].Role.Has(children.RoleChild) && children.Types[i].Scope != children.ScopeLive {
			builder.WithIndex(children.Types[i].Object, children.IndexOwner, children.OwnerKey)
		}
	}
	c := builder.Build()
	e := New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time))
	found, err := e.Observe(t.Context(), owner, "me")
	if err != nil {
		t.Fatal(err)
	}
	names := func(objects []client.Object) (names []string) {
		for _, obj := range objects {
			names = append(names, fmt.Sprintf("%T %s", obj, obj.GetName()))
		}
		return names
	}
	if got, want := names(found), []string{"*v1.Deployment web", "*v1.Service bare", "*v1.Service former", "*v1.Service web"}; !slices.Equal(got, want) {
		t.Errorf("the inventory is %q, want %q", got, want)
	}
	wanted := []client.Object{fieldtest.Deployment(), fieldtest.Service()}
	if got := names(found.Without(wanted...)); !slices.Equal(got, []string{"*v1.Service bare", "*v1.Service former"}) {
		t.Errorf("what is not wanted is %q", got)
	}
}

// TestObjectsAboutPodsAreNotTakenFromThem finds each type of children whose objects select pods, or name what they scale: an object
// about other pods is never adopted. A Deployment and a StatefulSet keep their selectors, and a Service leads to its owner's pods.
func TestObjectsAboutPodsAreNotTakenFromThem(t *testing.T) {
	owner, found := request(nil).Owner, 0
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild) || fields.PodSpec(row.Object) != nil {
			continue
		}
		spec := reflect.Indirect(reflect.ValueOf(row.Object)).FieldByName("Spec")
		if !spec.IsValid() {
			continue
		}
		for j := range spec.NumField() {
			set := selecting(spec.Type().Field(j).Type)
			if !set.IsValid() {
				continue
			}
			found++
			wanted, live := row.Object, row.Object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // It is the copy of one.
			reflect.Indirect(reflect.ValueOf(live)).FieldByName("Spec").Field(j).Set(set)
			if !claim.ConcernsOthers(wanted, live) || claim.ConcernsOthers(live, live) {
				t.Errorf("%T: an object with another %s would be adopted", live, spec.Type().Field(j).Name)
			}
			live.SetNamespace("shop")
			if err := Taken(kinds(), owner, wanted, live, true); err == nil {
				t.Errorf("%T: a warning says that an object with another %s is adopted", live, spec.Type().Field(j).Name)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d types: the search does not work", found)
	}
}

// TestObjectsOfTheClusterAreNotAdopted has the names of what Kubernetes itself creates and all pods use: no resource takes such an object
// over, and one of the operator's by that name is restored as any other.
func TestObjectsOfTheClusterAreNotAdopted(t *testing.T) {
	named := func(obj client.Object, namespace, name string, ours bool) client.Object {
		obj.SetNamespace(namespace)
		obj.SetName(name)
		if ours {
			obj.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy})
		}
		return obj
	}
	for name, c := range map[string]struct {
		empty           func() client.Object
		namespace, name string
		others          bool
	}{
		"the API server's Service":         {func() client.Object { return &corev1.Service{} }, "default", "kubernetes", true},
		"a Service of the name elsewhere":  {func() client.Object { return &corev1.Service{} }, "shop", "kubernetes", false},
		"another Service":                  {func() client.Object { return &corev1.Service{} }, "default", "web", false},
		"the account of pods without one":  {func() client.Object { return &corev1.ServiceAccount{} }, "shop", "default", true},
		"another account":                  {func() client.Object { return &corev1.ServiceAccount{} }, "shop", "web", false},
		"a Deployment by one of the names": {func() client.Object { return &appsv1.Deployment{} }, "default", "kubernetes", false},
	} {
		wanted := named(c.empty(), c.namespace, c.name, true)
		if got := claim.ConcernsOthers(wanted, named(c.empty(), c.namespace, c.name, false)); got != c.others {
			t.Errorf("%s: %t, want %t", name, got, c.others)
		}
		if claim.ConcernsOthers(wanted, named(c.empty(), c.namespace, c.name, true)) {
			t.Errorf("%s: one of the operator's is not restored", name)
		}
	}
}

// selecting returns a value of a type that selects pods or names a workload, an invalid one for all other types.
func selecting(of reflect.Type) reflect.Value {
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"of": "others"}}
	for _, v := range []any{selector, &selector, autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "others"}} {
		if reflect.TypeOf(v) == of {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Value{}
}
