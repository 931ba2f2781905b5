package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// specChanged compares a spec with a record of an earlier one. The number of pods does not count: it does not shape the
// pods, and an autoscaler that targets the custom resource changes it all the time. workload returns the workload in a
// spec; it is called with copies, and may take out of them what does not tell one from another.
func specChanged[T any](spec *T, record string, workload func(*T) *appv1.WorkloadSpec) (bool, error) {
	if record == string(canonical(spec)) {
		return false, nil // The same in every letter, as it nearly always is.
	}
	now := identityMeta(spec, workload)
	var then T
	switch err := DecodeSpec(record, &then); {
	case errors.Is(err, ErrNoSpec):
		return record != hashSpec(now), nil
	case err != nil:
		return false, err
	case workload(&then).Image == "":
		// "null" and "{}" have the right shape, but a workload without an image there never was.
		return false, errors.New("unreadable spec: no image")
	}
	return !bytes.Equal(now, identityMeta(&then, workload)), nil
}

// identityMeta returns the part of a spec that tells one from another, as JSON: with the operator's defaults stated, and without the
// number of pods and whether they are paused. Lists that are there and empty, which do not come back from a record, are left out.
func identityMeta[T any](spec *T, workload func(*T) *appv1.WorkloadSpec) json.RawMessage {
	var copied T
	// A copy by way of JSON, as not every T has a DeepCopy that a function of any T could call.
	_ = json.Unmarshal(canonical(spec), &copied)
	if paused := reflect.ValueOf(&copied).Elem().FieldByName("Paused"); paused.IsValid() {
		paused.SetZero()
	}
	w := workload(&copied)
	w.Replicas = nil
	w.ImagePullPolicy = pullPolicy(w)
	w.Resources = resources(w.Resources)
	for i := range w.Ports {
		w.Ports[i].Protocol = portProtocol(w.Ports[i])
		w.Ports[i].TargetPort = ptr.To(targetPort(w.Ports[i]))
	}
	return canonical(&copied)
}

// identityOf is identity for who asks for it later, or never.
func identityOf[T any](spec *T, workload func(*T) *appv1.WorkloadSpec) func() json.RawMessage {
	return func() json.RawMessage { return identityMeta(spec, workload) }
}
