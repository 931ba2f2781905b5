package validation

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hidden are the fields whose values no error repeats, in addition to annotations: paths and addresses, which may have a secret in
// them. Names, numbers and words of a fixed set are repeated. Errors end in conditions, events and logs, which more
// people can read than the resource itself.
var hidden = sets.New("path", "subPath", "subPathExpr", "mountPath", "devicePath", "directory", "diskURI", "localhostProfile", "fieldPath")

// withoutValues returns errors that repeat no value of a field that may have a secret in it.
func withoutValues(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		name := err.Field[strings.LastIndex(err.Field, ".")+1:]
		text := reflect.ValueOf(err.BadValue).Kind() == reflect.String // Of whatever type it is.
		if text && (hidden.Has(name) || strings.Contains(err.Field, "nnotations[") || strings.Contains(err.Field, ".podTemplatePatch")) {
			err.BadValue = "…"
		}
	}
	return errs
}
