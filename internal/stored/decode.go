package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// The bounds of what is decoded. The schemas and the API server admit more: it stores up to 1.5 MiB, and a pod template patch
// has no schema.
const (
	// maxSpec is the length of a spec, in bytes.
	maxSpec = 1 << 20
	// maxStatus is the length of a status, in bytes.
	maxStatus = 256 << 10
	// maxPatch is the length of a pod template patch, in bytes.
	maxPatch = 64 << 10
	// maxDepth is how many objects and lists may be within each other.
	maxDepth = 100
	// maxLiteral is the length of a quantity, and of a number or text where either may be. To parse one of many digits takes
	// time that grows with the square of their number.
	maxLiteral = 64
	// maxExponent is the number of digits of a quantity's exponent. The time and the memory that a quantity takes to parse grow
	// with the value of its exponent: 44 s and 300 MB for 1e-100000000.
	maxExponent = 3
	// maxItems is the length of a list of objects.
	maxItems = 2000
)

// mostOf is the length of lists that are merged by comparing each item with each other, by their names.
var mostOf = map[string]int{
	"containers":          100,
	"initContainers":      100,
	"ephemeralContainers": 100,
	"volumes":             500,
}

// decode decodes the spec into one of api/v1. Its error is a *field.Error that names the field and what would be right, and
// never the value, which may be a secret.
func (s Spec) decode(into any) error {
	path := field.NewPath("spec")
	switch {
	case s.excess > 0:
		return invalid(path.String(), fmt.Sprintf("must be at most %d KiB long as JSON; it has %d KiB", maxSpec>>10, (s.excess+1023)>>10))
	case s.json == nil:
		return field.Required(path, "must be an object")
	}
	t := reflect.TypeOf(into).Elem()
	if err := check(s.json, t, false); err != nil {
		return err
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(s.json, into)
	if err == nil {
		return nil
	}
	if found := check(s.json, t, true); found != nil {
		return found
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return invalid(path.Child(wrong.Field).String(), "must be of the type "+wrong.Type.String())
	}
	return invalid(path.String(), "must have the form that the API reference gives for "+t.Name())
}

// paused reports whether a spec that cannot be decoded as a whole says that it is paused.
func (s Spec) paused() bool {
	var spec struct {
		Paused bool `json:"paused"`
	}
	return len(s.json) > 0 && kjson.UnmarshalCaseSensitivePreserveInts(s.json, &spec) == nil && spec.Paused
}

func invalid(path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: detail}
}
