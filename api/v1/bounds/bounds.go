// Package bounds limits the time and memory that the manager spends on input of other writers.
//
// Some values are far more expensive to decode than to write: a quantity of twelve characters takes 44 s and 300 MB. As the API
// server validates neither annotations nor fields without a schema, the operator decodes them only after a check of these bounds.
package bounds

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// MaxSpec is the maximum length of a spec, in bytes.
	MaxSpec = 1 << 20
	// MaxStatus is the maximum length of a status, in bytes.
	MaxStatus = 256 << 10
	// MaxPatch is the maximum length of a pod template patch, in bytes.
	MaxPatch = 64 << 10
	// MaxDepth is the maximum nesting of objects and lists.
	MaxDepth = 100
	// MaxLiteral is the maximum length of a quantity or int-or-string, in characters. The time to parse a number grows with the
	// square of its digits.
	MaxLiteral = 64
	// MaxExponent is the maximum number of digits of a quantity's exponent. The time and the memory to parse a quantity grow with
	// the value of its exponent: 44 s and 300 MB for 1e-100000000.
	MaxExponent = 3
	// MaxQuantities is the maximum number of quantities in all. Each takes up to 3 KB to parse.
	MaxQuantities = 10_000
	// MaxItems is the maximum number of items of a list, and of entries of a map. Each takes far more memory than its two or
	// three bytes of JSON.
	MaxItems = 2000
)

// mostOf has lower limits for lists, by field name: a merge compares each item of such a list with each other item.
var mostOf = map[string]int{
	"containers":          100,
	"initContainers":      100,
	"ephemeralContainers": 100,
	"volumes":             500,
}

// Check returns an error if the JSON of a type would be too expensive to decode. The error is a *field.Error with the path of the
// field below root and without the value, which may be a secret. The caller must then decode with case-sensitive names, as Check
// compares names by case.
func Check(data []byte, t reflect.Type, root string) error { return walk(data, t, root, false) }

// Explain is Check, and also reports the errors that a decoder would report.
func Explain(data []byte, t reflect.Type, root string) error { return walk(data, t, root, true) }

// Decode decodes JSON within bounds. The limit of the JSON is most, in bytes. Names are case-sensitive. root is the name of the value in errors.
func Decode(data []byte, into any, most int, root string) error {
	if len(data) > most {
		return invalid(root, fmt.Sprintf("must be at most %d KiB long as JSON; it has %d KiB", most>>10, (len(data)+1023)>>10))
	}
	if err := Check(data, reflect.TypeOf(into).Elem(), root); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// ParseQuantity parses a quantity, or returns an error if it is out of bounds.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > MaxLiteral || exponent([]byte(text)) > MaxExponent {
		return resource.Quantity{}, errors.New("a quantity must have few characters and a short exponent")
	}
	return resource.ParseQuantity(text)
}
