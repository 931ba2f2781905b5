package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// specPointer is a pointer to a spec.
type specPointer[T any] interface {
	*T
	DeepCopyInto(out *T)
}

// specChanged reports whether a spec differs from a record of an earlier spec. It ignores the number of pods, which does not
// shape the pods and which an autoscaler of the custom resource changes all the time. workload returns the workload in a spec; it
// gets copies, and may clear fields in them that do not shape the pods.
func specChanged[T any, P specPointer[T]](spec P, record string, workload func(*T) *appv1.WorkloadSpec) (bool, error) {
	if record == string(canonicalJSON(spec)) {
		return false, nil // The most frequent case.
	}
	now := identityMeta(spec, workload)
	var then T
	switch err := DecodeSpec(record, &then); {
	case errors.Is(err, ErrNoSpec):
		return record != hashSpec(now), nil
	case err != nil:
		return false, err
	case workload(&then).Image == "":
		// "null" and "{}" decode without an error, but every spec has an image.
		return false, errors.New("unreadable spec: no image")
	}
	return !bytes.Equal(now, identityMeta(P(&then), workload)), nil
}

// identityMeta returns the part of a spec that shapes the pods, as JSON. Defaults of the operator are stated; the number of pods
// and paused are cleared. Empty lists are left out, as a record does not preserve them.
func identityMeta[T any, P specPointer[T]](spec P, workload func(*T) *appv1.WorkloadSpec) json.RawMessage {
	var copied T
	spec.DeepCopyInto(&copied)
	if paused := reflect.ValueOf(&copied).Elem().FieldByName("Paused"); paused.IsValid() {
		paused.SetZero()
	}
	w := workload(&copied)
	w.Replicas = nil
	w.ImagePullPolicy = pullPolicy(w)
	w.Resources = storedResources(w.Resources)
	for i := range w.Ports {
		w.Ports[i].Protocol = portProtocol(w.Ports[i])
		w.Ports[i].TargetPort = ptr.To(targetPort(w.Ports[i]))
	}
	return canonicalJSON(&copied)
}

// identityOf returns a function that calls identityMeta when the result is needed.
func identityOf[T any, P specPointer[T]](spec P, workload func(*T) *appv1.WorkloadSpec) func() json.RawMessage {
	return func() json.RawMessage { return identityMeta(spec, workload) }
}
