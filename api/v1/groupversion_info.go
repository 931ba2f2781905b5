package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "app.huolala.cn", Version: "v1"}

	// SchemeGroupVersion is GroupVersion, by the name that the generated client uses.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the functions that add this group's kinds to a scheme. Each kind's file registers its own.
	SchemeBuilder = runtime.NewSchemeBuilder(addGroupVersion)

	// AddToScheme adds this group's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource returns the resource of that name, such as "apps", in this group.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

// addGroupVersion adds the types that all groups share, such as ListOptions.
func addGroupVersion(scheme *runtime.Scheme) error {
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// register adds a kind and its list type to SchemeBuilder.
func register(kind, list runtime.Object) {
	SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(GroupVersion, kind, list)
		return nil
	})
}
