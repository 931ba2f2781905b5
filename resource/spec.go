package resource

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Spec is the spec of one workload, current or recorded: the spec of a custom resource, or of a tier of a CloudManager. Its
// methods change neither the Spec nor the custom resource.
type Spec interface {
	// Workload returns the spec of the workload. Callers must not change it.
	Workload() *appv1.WorkloadSpec
	// Serving returns the fields of the auxiliary objects, nil for a kind without auxiliary objects. Callers must not change it.
	Serving() *appv1.ServingSpec
	// Release returns the fields of a release, nil for a kind without them. Callers must not change it.
	Release() *appv1.ReleaseSpec
	// Without returns the fields of AppDefaults that do not count for the spec. Callers must not change it.
	Without() []string
	// WithDefaults returns the spec with recorded defaults in Workload, Serving and Validate. All other methods are about the spec
	// without defaults: Build takes them from the inputs. A kind without defaults returns the spec itself.
	WithDefaults(record DefaultsRecord) Spec
	// Validate checks the rules beyond the CRD's schema.
	Validate() field.ErrorList
	// Build maps the spec to its workload. The errors are about the patch of the pod template and the ports.
	Build(seen BuildOptions) (*Workload, field.ErrorList)
	// Past returns the spec of the same custom resource from a record. It returns ErrNoSpec for a record with only a hash.
	Past(record string) (Spec, error)
	// Changed reports whether the spec differs from a record in a scope. It can compare with a record that holds only a hash.
	Changed(record string, scope Scope) (bool, error)
	// Identity returns a hash of the spec, a record for Changed in ScopePods.
	Identity() string
}

// Scope is a part of a spec.
type Scope int

const (
	// ScopePods is the part that shapes the pods. It excludes the number of pods.
	ScopePods Scope = iota
	// ScopeVolumes is the storage of a database. It is empty for other specs.
	ScopeVolumes
)

// BuildRecorded builds the workload of a recorded spec. The workload keeps the record unchanged, so that a reconcile without a
// change writes nothing. BuildRecorded ignores validation errors, as the pods of the spec already run. It returns an error if the
// recorded patch cannot be applied or would give the pods another resource's labels.
func BuildRecorded(spec Spec, record string, seen BuildOptions) (*Workload, error) {
	past, err := spec.Past(record)
	if err != nil {
		return nil, err
	}
	w, _ := past.Build(seen)
	return w.recordedAs(record)
}
