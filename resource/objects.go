package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a custom resource or an object of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects returns the objects of the workload in the order in which the operator applies them: the ServiceAccount and the
// NetworkPolicy, the workload object and its canary, its Services, and the other auxiliary objects. It excludes two objects of a workload with
// data. Secret needs a password, which is not in the spec; Claim is for each live claim, as the StatefulSet controller creates
// the claims.
func (w *Workload) Objects() []Object {
	objects := w.objectsBefore()
	if w.RetainedFor != "" {
		objects = append(objects, buildStatefulSet(w), buildHeadless(w))
	} else {
		objects = append(objects, buildDeployment(w))
	}
	if canary := buildCanary(w); canary != nil {
		objects = append(objects, canary)
	}
	if service := buildService(w); service != nil {
		objects = append(objects, service)
	}
	return append(objects, w.objectsAround()...)
}
