package stored

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"huolala.cn/app-operator/api/v1/bounds"
)

// decodeInto decodes the spec into a spec of api/v1. Its error is a *field.Error that names the field and the rule, and never the value,
// which may be a secret.
func (s Spec) decodeInto(into any) error {
	path := field.NewPath("spec")
	switch {
	case s.dropped != nil:
		return invalidField(path.String(), "was not cached; it must be read from the API server")
	case s.excess > 0:
		return invalidField(path.String(), fmt.Sprintf("must be at most %d KiB long as JSON; it has %d KiB", bounds.MaxSpec>>10, (s.excess+1023)>>10))
	case s.json == nil:
		return field.Required(path, "must be an object")
	}
	t := reflect.TypeOf(into).Elem()
	if err := bounds.Check(s.json, t, "spec"); err != nil {
		return err
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(s.json, into)
	if err == nil {
		return nil
	}
	if found := bounds.Explain(s.json, t, "spec"); found != nil {
		return found
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return invalidField(path.Child(wrong.Field).String(), "must be of the type "+wrong.Type.String())
	}
	return invalidField(path.String(), "must match the API reference for "+t.Name())
}

// isPaused reports whether a spec that cannot be decoded as a whole has the field paused set.
func (s Spec) isPaused() bool {
	var spec struct {
		Paused bool `json:"paused"`
	}
	return len(s.json) > 0 && kjson.UnmarshalCaseSensitivePreserveInts(s.json, &spec) == nil && spec.Paused
}

func invalidField(path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: detail}
}
