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

// defaulter states in a new resource what follows from its name, which never changes. It states that and nothing else: one
// that writes a typed resource back would also write quantities otherwise than the user has, and empty fields that he has
// not. What cannot be read passes: the schema says better what is wrong with it.
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
		if !lacks(obj.Spec, path[1:]) {
			continue
		}
		patches = append(patches, webhook.JSONPatchOp{Operation: "add", Path: "/" + strings.Join(path, "/"), Value: value})
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Defaulted", "fields", len(patches))
	return admission.Patched("", patches...)
}

// lacks reports whether an object is there but for the last field of a path. It decodes nothing but the objects on the way: a decoded JSON value
// takes up to twenty times the memory of its text.
func lacks(object json.RawMessage, path []string) bool {
	var fields map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(object, &fields); err != nil || fields == nil {
		return false
	}
	value, ok := fields[path[0]]
	if len(path) > 1 {
		return ok && lacks(value, path[1:])
	}
	return !ok || string(value) == "null"
}
