package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// quantityFields returns where a schema has a quantity, by the names of the fields: "[]" is an item of a list, "{}" a value of a map.
func quantityFields(schema *apiextensionsv1.JSONSchemaProps, path []string) [][]string {
	var found [][]string
	below := func(name string, node *apiextensionsv1.JSONSchemaProps) {
		found = append(found, quantityFields(node, append(slices.Clone(path), name))...)
	}
	// A quantity of a pod template's patch has a pattern for its exponent alone.
	if schema.Pattern == appv1.QuantityPattern || strings.Contains(schema.Pattern, "[eE]") {
		found = append(found, path)
	}
	for name, node := range schema.Properties {
		below(name, &node)
	}
	if schema.Items != nil {
		below("[]", schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		below("{}", schema.AdditionalProperties.Schema)
	}
	return found
}

// treeWith returns a tree with the value at a path. A map has it under the names that rules look at.
func treeWith(path []string, value any) any {
	for _, name := range slices.Backward(path) {
		switch name {
		case "[]":
			value = []any{value}
		case "{}":
			value = map[string]any{"cpu": value, "memory": value, "ephemeral-storage": value, "storage": value}
		case "requests", "limits": // A rule compares the two.
			value = map[string]any{"requests": value, "limits": value}
		default:
			value = map[string]any{name: value}
		}
	}
	return value
}

// mergeTrees puts one tree into another.
func mergeTrees(into, from map[string]any) {
	for name, value := range from {
		inner, both := into[name].(map[string]any)
		if outer, isMap := value.(map[string]any); both && isMap {
			mergeTrees(inner, outer)
		} else {
			into[name] = value
		}
	}
}

// TestQuantitiesAreRefusedAtOnce sends each quantity of each kind one that would take the API server seconds to read, and demands
// that it refuses it without that.
func TestQuantitiesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plurals := map[string]string{"AppDefaults": "appdefaults"}
	for _, k := range fixture.Kinds {
		plurals[k.Name] = k.Plural
	}
	for _, least := range eachLeast(t, ns) {
		kind := least.GetKind()
		root := presentDefinition(t, plurals[kind]).Spec.Versions[0].Schema.OpenAPIV3Schema
		fields := quantityFields(root, nil)
		if len(fields) < 10 {
			t.Errorf("%s: only %d quantities", kind, len(fields))
		}
		if _, err := answeredAfter(t, least); err != nil {
			t.Errorf("%s: refused without a quantity: %v", kind, err)
		}
		for _, path := range fields {
			obj := least.DeepCopy()
			mergeTrees(obj.Object, treeWith(path, "1e-20000000").(map[string]any))
			took, err := answeredAfter(t, obj)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"1e-20000000"`) {
				t.Errorf("%s: %s: want it refused, got %v", kind, strings.Join(path, "."), err)
			}
			if took < atOnce {
				continue
			}
			// A machine that is busy takes as long for a text that is no quantity, which some schemas leave to the webhook.
			mergeTrees(obj.Object, treeWith(path, "none").(map[string]any))
			if usual, _ := answeredAfter(t, obj); took > 10*usual {
				t.Errorf("%s: %s: refused after %v, what is no quantity is answered after %v", kind, strings.Join(path, "."), took, usual)
			}
		}
	}
}

// atOnce is a time in which the API server refuses what it does not read.
const atOnce = 500 * time.Millisecond

// answeredAfter sends an object as a dry run, and returns the answer and how long it takes: the shortest of ten times, unless one is
// short at once. The machine may have had something else to do; what the API server reads takes long each time. A stream that
// breaks on a busy machine is no answer.
func answeredAfter(t *testing.T, obj *unstructured.Unstructured) (took time.Duration, err error) {
	t.Helper()
	for range 10 {
		began := time.Now()
		err = plane.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll)
		if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			continue
		}
		if once := time.Since(began); took == 0 || once < took {
			took = once
		}
		if took < atOnce {
			break
		}
	}
	return took, err
}
