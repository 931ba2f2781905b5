// Package stored has the custom resources as the API server stores them: metadata and status decoded, the spec as JSON.
//
// The manager lists, watches and caches these types, so that a spec that does not decode into api/v1 affects its own resource only: decoded
// in the list, it would end the watch of its kind for all namespaces. Decode returns the types of api/v1, within bounds that keep one
// resource from costing all others time or memory.
package stored

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
)

// builder collects the functions that add the stored kinds to a scheme. Each kind's file registers its own.
var builder runtime.SchemeBuilder

// AddToScheme adds the stored kinds to a scheme, in place of the kinds of api/v1.
func AddToScheme(scheme *runtime.Scheme) error {
	metav1.AddToGroupVersion(scheme, appv1.GroupVersion)
	return builder.AddToScheme(scheme)
}

// registerKind has a kind and its list be added to schemes.
func registerKind(kind, list runtime.Object) {
	builder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(appv1.GroupVersion, kind, list)
		return nil
	})
}

// Spec is the JSON of a spec. Its bytes are never written to, so copies share them.
type Spec struct {
	// json is the spec, nil for a missing one; of a spec that is too long, it is the sum, and excess is the length.
	json   []byte
	excess int
	// dropped has the parts of a dropped spec that indexes read, nil for a spec that was not dropped; see Reduce.
	dropped *dropped
}

// dropped has the parts of a spec that indexes read.
type dropped struct {
	names   []string
	service string
}

// UnmarshalJSON keeps the JSON unchanged, or its checksum if the JSON is too long for Decode.
func (s *Spec) UnmarshalJSON(data []byte) error {
	*s = Spec{}
	switch {
	case bytes.Equal(data, []byte("null")):
	case len(data) > bounds.MaxSpec:
		sum := sha256.Sum256(data)
		s.json, s.excess = sum[:], len(data)
	default:
		s.json = bytes.Clone(data)
	}
	return nil
}

// MarshalJSON returns the JSON as it was.
func (s Spec) MarshalJSON() ([]byte, error) {
	switch {
	case s.excess > 0 || s.dropped != nil:
		return nil, errors.New("the spec is too long and was not cached")
	case s.json == nil:
		return []byte("null"), nil
	}
	return s.json, nil
}

// Equal reports whether two specs are the same, byte by byte.
func (s Spec) Equal(other Spec) bool {
	return s.excess == other.excess && s.dropped == nil && other.dropped == nil && bytes.Equal(s.json, other.json)
}

// Len returns the length of the JSON of the spec, in bytes; 0 for a spec that was dropped.
func (s Spec) Len() int {
	if s.excess > 0 {
		return s.excess
	}
	return len(s.json)
}

// Status is a status. A status that cannot be decoded, or is too long, becomes empty: the next status write replaces it.
type Status[S any] struct{ Value S }

// UnmarshalJSON decodes the status. It never fails.
func (s *Status[S]) UnmarshalJSON(data []byte) error {
	var empty S
	s.Value = empty
	if len(data) > bounds.MaxStatus || kjson.UnmarshalCaseSensitivePreserveInts(data, &s.Value) != nil {
		s.Value = empty
	}
	return nil
}

// MarshalJSON encodes the status.
func (s Status[S]) MarshalJSON() ([]byte, error) { return json.Marshal(s.Value) }

// base has the fields of all kinds.
type base[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec      `json:"spec"`
	Status            Status[S] `json:"status,omitzero"`
}

// Raw returns the spec as stored.
func (r *base[S]) Raw() Spec { return r.Spec }

// copyTo copies all but the status's value.
func (r *base[S]) copyTo(out *base[S]) {
	out.TypeMeta, out.Spec = r.TypeMeta, r.Spec
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta) //nolint:staticcheck // The type itself has another DeepCopyInto.
}

// list is a list of resources of one kind.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// copyTo copies the list, each item by a function.
func (l *list[T]) copyTo(out *list[T], item func(in, out *T)) {
	out.TypeMeta = l.TypeMeta
	l.ListMeta.DeepCopyInto(&out.ListMeta) //nolint:staticcheck // The type itself has another DeepCopyInto.
	if l.Items == nil {
		return
	}
	out.Items = make([]T, len(l.Items))
	for i := range l.Items {
		item(&l.Items[i], &out.Items[i])
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: kind}
}

// serviceName returns the name that a workload's spec states for its Service, empty if there is none. Of most specs nothing is
// decoded.
func (s Spec) serviceName(template bool) string {
	if s.dropped != nil {
		return s.dropped.service
	}
	if s.excess > 0 || !bytes.Contains(s.json, []byte(`"service"`)) {
		return ""
	}
	type workload struct {
		Service struct {
			Name string `json:"name"`
		} `json:"service"`
	}
	var spec struct {
		workload `json:",inline"`
		Template workload `json:"template"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(s.json, &spec) != nil {
		return ""
	}
	if template {
		return spec.Template.Service.Name
	}
	return spec.Service.Name
}
