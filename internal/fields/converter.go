package fields

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// typeConverter gives objects the schemas that the API server merges them by: for Kubernetes' own types the schemas of client-go, and
// one schema for all others.
type typeConverter struct {
	managedfields.TypeConverter
	custom typed.ParseableType
}

// newTypeConverter returns the converter for the types of a scheme.
func newTypeConverter(scheme *runtime.Scheme) typeConverter {
	builtIn := applyconfigurations.NewTypeConverter(scheme)
	custom, err := customResource(builtIn)
	if err != nil {
		panic(err) // The libraries that are built in do not fit each other.
	}
	return typeConverter{builtIn, custom}
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() || clientgoscheme.Scheme.Recognizes(gvk) {
		return c.TypeConverter.ObjectToTyped(obj, opts...)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return c.custom.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	return c.custom.FromStructured(obj, opts...)
}

// customResource returns the schema of the objects of a CustomResourceDefinition whose own schema is not known here: the metadata
// that all objects have, and below everything else a list is one unit, the default of definitions. So is
// spec.selector, which is one of labels. It fits the fields that the operator states of them.
func customResource(builtIn managedfields.TypeConverter) (typed.ParseableType, error) {
	known := &unstructured.Unstructured{}
	known.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	value, err := builtIn.ObjectToTyped(known)
	if err != nil {
		return typed.ParseableType{}, fmt.Errorf("schema of Kubernetes' types: %w", err)
	}
	atom, ok := value.Schema().Resolve(value.TypeRef())
	if !ok || atom.Map == nil {
		return typed.ParseableType{}, fmt.Errorf("the schema of a Deployment is no map")
	}
	fields := []schema.StructField{}
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		field, ok := atom.FindField(name)
		if !ok {
			return typed.ParseableType{}, fmt.Errorf("the schema of a Deployment has no %s", name)
		}
		fields = append(fields, field)
	}
	name, spec, deduced := "customResource", "customResourceSpec", "__untyped_deduced_"
	fields = append(fields, schema.StructField{Name: "spec", Type: schema.TypeRef{NamedType: &spec}})
	selector := schema.StructField{Name: "selector", Type: schema.TypeRef{NamedType: ptr.To(labelSelector)}}
	types := &schema.Schema{Types: []schema.TypeDef{
		openStruct(name, deduced, fields...), openStruct(spec, deduced, selector),
	}}
	for i := range value.Schema().Types {
		def := &value.Schema().Types[i]
		if strings.HasPrefix(def.Name, "__untyped") || strings.Contains(def.Name, ".meta.v1.") {
			types.Types = append(types.Types, schema.TypeDef{Name: def.Name, Atom: def.Atom})
		}
	}
	return typed.ParseableType{Schema: types, TypeRef: schema.TypeRef{NamedType: &name}}, nil
}

// labelSelector is the schema of a selector of labels in Kubernetes: it is one unit.
const labelSelector = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"

// openStruct returns a type with some fields that are known, and others of a type.
func openStruct(name, others string, fields ...schema.StructField) schema.TypeDef {
	return schema.TypeDef{Name: name, Atom: schema.Atom{Map: &schema.Map{
		Fields: fields, ElementType: schema.TypeRef{NamedType: &others}, ElementRelationship: schema.Separable,
	}}}
}
