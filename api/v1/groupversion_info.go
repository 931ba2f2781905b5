// Package v1 contains the API of app-operator: what a user writes.
//
// The types carry no behaviour. What they mean in Kubernetes objects is said by package resource, and the rules that
// a schema cannot hold are in package validation.
//
// +kubebuilder:object:generate=true
// +groupName=app.huolala.cn
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "app.huolala.cn", Version: "v1"}

	// SchemeBuilder collects the functions that add this group's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this group's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&App{}, &AppList{},
		&ModelBox{}, &ModelBoxList{},
		&UnitedDeployment{}, &UnitedDeploymentList{},
		&CloudManager{}, &CloudManagerList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
