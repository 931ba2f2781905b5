package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// patchQuantity matches any text whose exponent, if it is a quantity with one, is short. Whether it is one at all is left to
// the code that reads the patch. The values of a map may be directives: delete is as short, replace is not.
const patchQuantity = "^([^eE]*([eE].{0,4})?|replace)$"

// templateProperties returns the part of the schema of a patch for the pod template that keeps its lists and its quantities
// within bounds. All else is left to the code that reads the patch. Each value except an item may be null, which removes the field: the
// API server drops a null that the schema does not allow. An item may be an instruction, such as {$patch: replace}.
func templateProperties() map[string]any {
	container := func() map[string]any {
		return openItem(map[string]any{
			"env":       openList[corev1.EnvVar](openItem(nil)),
			"resources": open(map[string]any{"limits": openQuantities(), "requests": openQuantities()}),
		})
	}
	return map[string]any{"spec": open(map[string]any{
		"containers":          openList[corev1.Container](container()),
		"initContainers":      openList[corev1.Container](container()),
		"ephemeralContainers": openList[corev1.Container](openItem(nil)),
		"volumes": openList[corev1.Volume](openItem(map[string]any{
			"emptyDir": open(map[string]any{"sizeLimit": openQuantity()}),
		})),
	})}
}

// open is any value, null included; if it is an object, some of its properties are known.
func open(properties map[string]any) map[string]any {
	node := openItem(properties)
	node["nullable"] = true
	return node
}

// openItem is open for an item of a list.
func openItem(properties map[string]any) map[string]any {
	node := map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	if properties != nil {
		node["properties"] = properties
	}
	return node
}

func openList[T any](items map[string]any) map[string]any {
	most := itemLimits[reflect.TypeFor[T]()]
	return map[string]any{"type": "array", "nullable": true, "maxItems": json.Number(fmt.Sprint(most)), "items": items}
}

func openQuantities() map[string]any {
	return map[string]any{"type": "object", "nullable": true, "additionalProperties": openQuantity()}
}

func openQuantity() map[string]any {
	return map[string]any{
		"x-kubernetes-preserve-unknown-fields": true, "nullable": true,
		"pattern": patchQuantity, "maxLength": json.Number(fmt.Sprint(quantityLength)),
	}
}
