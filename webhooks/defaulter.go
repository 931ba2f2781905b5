package webhooks

import (
	"context"
	"encoding/json"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"
)

// defaulter sets fields of a new resource that follow from its name, which never changes. It patches these fields only: a defaulter that
// writes a typed resource back would also rewrite the user's quantities and add empty fields. An object that cannot be decoded passes: the
// error of the schema is better.
type defaulter struct {
	// names returns the value of each field, by its path below spec, for a resource of a name.
	names func(name string) map[string]string
}

// Handle implements admission.Handler.
func (d *defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	var obj struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &obj); err != nil || obj.Metadata.Name == "" {
		// With generateName there is no name yet.
		return admission.Allowed("")
	}
	var patches []webhook.JSONPatchOp
	for field, value := range d.names(obj.Metadata.Name) {
		path := append([]string{"spec"}, strings.Split(field, "/")...)
		if !lacksField(obj.Spec, path[1:]) {
			continue
		}
		patches = append(patches, webhook.JSONPatchOp{Operation: "add", Path: "/" + strings.Join(path, "/"), Value: value})
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Defaulted", "fields", len(patches))
	return admission.Patched("", patches...)
}

// lacksField reports whether an object is there but for the last field of a path. It decodes nothing but the objects on the way: a decoded JSON value
// takes up to twenty times the memory of its text.
func lacksField(object json.RawMessage, path []string) bool {
	var fields map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(object, &fields); err != nil || fields == nil {
		return false
	}
	value, ok := fields[path[0]]
	if len(path) > 1 {
		return ok && lacksField(value, path[1:])
	}
	return !ok || string(value) == "null"
}
