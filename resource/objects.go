package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of Kubernetes' own.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects returns the objects that the workload means: the workload object first, then its Services. The Secret of a workload
// that keeps data is not among them, as its values are not in the spec; see Secret.
func (w *Workload) Objects() []Object {
	var objects []Object
	if w.RetainedFor != "" {
		objects = append(objects, StatefulSet(w), Headless(w))
	} else {
		objects = append(objects, Deployment(w))
	}
	if service := Service(w); service != nil {
		objects = append(objects, service)
	}
	return objects
}
