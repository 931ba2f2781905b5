package resource

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Spec is the spec of one workload, present or recorded: that of a custom resource, or of a tier of a CloudManager. It is a
// value: no method changes it, or what it was made from.
type Spec interface {
	// Workload returns the workload in the spec. Callers must not change it.
	Workload() *appv1.WorkloadSpec
	// Serving returns the fields of the auxiliary objects, nil for a kind without such fields. Callers must not change it.
	Serving() *appv1.ServingSpec
	// Validate returns the rules beyond the schema that the spec breaks.
	Validate() field.ErrorList
	// Build returns the workload that the spec means, and what is wrong with the patch of its pod template.
	Build(seen BuildOptions) (*Workload, field.ErrorList)
	// Past returns the spec of the same custom resource as a record has it. A record without the spec itself is ErrNoSpec.
	Past(record string) (Spec, error)
	// Changed reports whether the spec differs from a record in a scope. The record may be a hash, which Past cannot read.
	Changed(record string, scope Scope) (bool, error)
	// Identity returns a short record of the spec, for Changed in the scope of the pods.
	Identity() string
}

// Scope is a part of a spec.
type Scope int

const (
	// ScopePods is the part that shapes the pods. The number of pods is not in it.
	ScopePods Scope = iota
	// ScopeVolumes is the storage of a database. Other specs have nothing in it.
	ScopeVolumes
)

// BuildRecorded returns the workload that a spec meant when a record was written. The workload has the record as it was given, so
// that nothing is written where nothing has changed. A spec that newer rules refuse is built all the same, as its pods run
// already; but a record whose patch cannot be applied, or states labels that would make the pods another resource's, is an error.
func BuildRecorded(spec Spec, record string, seen BuildOptions) (*Workload, error) {
	past, err := spec.Past(record)
	if err != nil {
		return nil, err
	}
	w, _ := past.Build(seen)
	return w.recordedAs(record)
}
