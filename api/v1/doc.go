// The generators of the typed client read the markers of a package from a file called doc.go and from no other. Without
// them they generate a client of another group, and report no error.

// Package v1 contains the API of app-operator: what a user writes.
//
// The types carry no behaviour. What they mean in Kubernetes objects is said by package resource, and the rules that
// a schema cannot hold are in package validation.
//
// +kubebuilder:object:generate=true
// +groupName=app.huolala.cn
// +groupGoName=App
package v1
