// Package bounds keeps what others write into the cluster from costing the manager more time or memory than its length is worth.
//
// Some values take far more to decode than to write: a quantity of twelve characters takes 44 s and 300 MB. The API server checks
// neither the annotations of any object nor what has no schema, so that nothing of these is decoded before it is within bounds.
package bounds

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// MaxSpec is the length of a spec, in bytes.
	MaxSpec = 1 << 20
	// MaxStatus is the length of a status, in bytes.
	MaxStatus = 256 << 10
	// MaxPatch is the length of a pod template patch, in bytes.
	MaxPatch = 64 << 10
	// MaxDepth is how many objects and lists may be within each other.
	MaxDepth = 100
	// MaxLiteral is the length of a quantity, and of a number or text where either may be. To parse one of many digits takes
	// time that grows with the square of their number.
	MaxLiteral = 64
	// MaxExponent is the number of digits of a quantity's exponent. The time and the memory that a quantity takes to parse grow
	// with the value of its exponent: 44 s and 300 MB for 1e-100000000.
	MaxExponent = 3
	// MaxQuantities is the number of quantities in all. Each of those that are allowed takes up to 3 KB to parse.
	MaxQuantities = 10_000
	// MaxItems is the length of a list, and the number of entries of a map: each takes far more memory than its two or three bytes of JSON.
	MaxItems = 2000
)

// mostOf is the length of lists that are merged by comparing each item with each other, by their names.
var mostOf = map[string]int{
	"containers":          100,
	"initContainers":      100,
	"ephemeralContainers": 100,
	"volumes":             500,
}

// Check returns what keeps the JSON of a type from being decoded: what would cost time or memory beyond its length. Its error is
// a *field.Error that names the field, below root, and never the value, which may be a secret. The JSON must then be decoded by
// names that are case-sensitive, as those that Check goes by are.
func Check(data []byte, t reflect.Type, root string) error { return walk(data, t, root, false) }

// Explain is Check that finds what decoding fails at, too.
func Explain(data []byte, t reflect.Type, root string) error { return walk(data, t, root, true) }

// Decode decodes the JSON of what root names, if it is no longer than so many bytes and within bounds. Names are case-sensitive.
func Decode(data []byte, into any, most int, root string) error {
	if len(data) > most {
		return invalid(root, fmt.Sprintf("must be at most %d KiB long as JSON; it has %d KiB", most>>10, (len(data)+1023)>>10))
	}
	if err := Check(data, reflect.TypeOf(into).Elem(), root); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// ParseQuantity parses a quantity within bounds.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > MaxLiteral || exponent([]byte(text)) > MaxExponent {
		return resource.Quantity{}, errors.New("a quantity must have few characters and a short exponent")
	}
	return resource.ParseQuantity(text)
}
