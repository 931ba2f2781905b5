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

// Objects returns the objects that the workload means, in the order in which they are applied: what must be there before the
// first pod, the workload object, its Services, and what stands around them. It is the only way from a workload to them. Two
// objects of a workload that keeps data are not among them. Secret is built of a password, which is in no spec, or in that of
// another Secret; and Claim is built for each claim that lives, as the StatefulSet's controller creates them.
func (w *Workload) Objects() []Object {
	objects := w.before()
	if w.RetainedFor != "" {
		objects = append(objects, buildStatefulSet(w), buildHeadless(w))
	} else {
		objects = append(objects, buildDeployment(w))
	}
	if service := buildService(w); service != nil {
		objects = append(objects, service)
	}
	return append(objects, w.around()...)
}
