package webhooks

import (
	"context"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
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
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &obj.Object); err != nil || obj.GetName() == "" {
		// With generateName there is no name yet.
		return admission.Allowed("")
	}
	var patches []webhook.JSONPatchOp
	for field, value := range d.names(obj.GetName()) {
		path := append([]string{"spec"}, strings.Split(field, "/")...)
		within, found, err := unstructured.NestedFieldNoCopy(obj.Object, path[:len(path)-1]...)
		if parent, ok := within.(map[string]any); err != nil || !found || !ok || parent[path[len(path)-1]] != nil {
			continue
		}
		patches = append(patches, webhook.JSONPatchOp{Operation: "add", Path: "/" + strings.Join(path, "/"), Value: value})
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Defaulted", "fields", len(patches))
	return admission.Patched("", patches...)
}
