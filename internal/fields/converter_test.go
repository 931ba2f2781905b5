package fields_test

import (
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayapply "sigs.k8s.io/gateway-api/applyconfiguration"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"huolala.cn/app-operator/internal/fields"
)

// TestSchemaOfCustomResources compares what the operator takes for the schema of an HTTPRoute with the one of the Gateway API: all
// lists that can be met before another list are one unit, so that both give the same fields.
func TestSchemaOfCustomResources(t *testing.T) {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(runtimeschema.GroupVersion(gatewayv1.GroupVersion).WithKind("HTTPRoute"))
	theirs, err := gatewayapply.NewTypeConverter(kinds()).ObjectToTyped(route)
	if err != nil {
		t.Fatal(err)
	}
	root, ok := theirs.Schema().Resolve(theirs.TypeRef())
	if !ok || root.Map == nil {
		t.Fatal("the Gateway API has no schema of an HTTPRoute")
	}
	lists := 0
	var walk func(path string, ref schema.TypeRef)
	walk = func(path string, ref schema.TypeRef) {
		atom, ok := theirs.Schema().Resolve(ref)
		switch {
		case !ok:
			t.Errorf("%s has no schema", path)
		case atom.List != nil:
			if lists++; atom.List.ElementRelationship != schema.Atomic {
				t.Errorf("%s is a list with %s items", path, atom.List.ElementRelationship)
			}
		case atom.Map != nil:
			if atom.Map.ElementRelationship == schema.Atomic {
				t.Errorf("%s is a map that is one unit", path)
			}
			for _, field := range atom.Fields {
				walk(path+"."+field.Name, field.Type)
			}
		}
	}
	spec, _ := root.FindField("spec")
	walk("spec", spec.Type)
	if lists < 3 {
		t.Errorf("%d lists were compared", lists)
	}
}

// TestFieldsOfCustomResources has the converter name the fields of objects of both types, as the API server does.
func TestFieldsOfCustomResources(t *testing.T) {
	c := fields.NewTypeConverter(kinds())
	meta := metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{UID: "1", Name: "web"}},
	}
	unstated := fieldpath.NewSet(fieldpath.MakePathOrDie("status"), fieldpath.MakePathOrDie("status", "parents"))
	for name, test := range map[string]struct {
		obj  client.Object
		want []fieldpath.Path
	}{
		"HTTPRoute": {&gatewayv1.HTTPRoute{
			TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
			ObjectMeta: meta,
			Spec:       gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a"}, Rules: []gatewayv1.HTTPRouteRule{{}}},
		}, []fieldpath.Path{fieldpath.MakePathOrDie("spec", "hostnames"), fieldpath.MakePathOrDie("spec", "rules")}},
		"PodMonitor": {&monitoringv1.PodMonitor{
			TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: "PodMonitor"},
			ObjectMeta: meta,
			Spec: monitoringv1.PodMonitorSpec{
				Selector:            metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{{}},
			},
		}, []fieldpath.Path{fieldpath.MakePathOrDie("spec", "podMetricsEndpoints"), fieldpath.MakePathOrDie("spec", "selector")}},
	} {
		typedObj, err := c.ObjectToTyped(test.obj)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		set, err := typedObj.ToFieldSet()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		owner := fieldpath.MakePathOrDie("metadata", "ownerReferences", fieldpath.KeyByFields("uid", "1"))
		for _, path := range append(test.want, owner, fieldpath.MakePathOrDie("metadata", "labels", "a")) {
			if !set.Has(path) {
				t.Errorf("%s: %s is no field of its own in %s", name, path, set)
			}
		}
		fields, err := fields.Literal(test.obj)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.ObjectToTyped(&unstructured.Unstructured{Object: fields})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff, err := typedObj.Compare(again); err != nil || !diff.Removed.Difference(unstated).Empty() || !diff.Added.Empty() || !diff.Modified.Empty() {
			t.Errorf("%s: typed and untyped differ: %v %v", name, diff, err)
		}
	}
}
