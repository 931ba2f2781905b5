package validation

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors are bounded where they are collected. Each rule that ranges over a list stops once its errors are full, so that a spec in
// which everything is wrong costs no more than one in which all is right. A rule stops for itself: a list that is full hides no
// error of another field, and ValidServing still finds each block that has one.

const (
	// MaxErrors is how many errors List returns. A rule finds one more at most of each list, the sign that there are more.
	MaxErrors = 100
	// MaxErrorText is how many bytes the texts of these errors have in all, unless the first one alone has more.
	MaxErrorText = 16 << 10
	// MaxWarnings is how many warnings ListWarnings returns.
	MaxWarnings = 32
	// MaxWarning is the length of one of these warnings, in bytes.
	MaxWarning = 512
)

const (
	// maxField, maxValue and maxDetail are the lengths, in bytes, of the parts of an error.
	maxField  = 512
	maxValue  = 256
	maxDetail = 1024
	// maxKey is how many bytes of a key a path repeats. The longest valid key of a label has 317.
	maxKey = 320
)

// full reports whether a rule has found enough errors to stop.
func full(errs field.ErrorList) bool { return len(errs) > MaxErrors }

// crowded is full for warnings.
func crowded(said []string) bool { return len(said) > MaxWarnings }

// collected returns errors as a rule for a whole spec returns them: at most one more than MaxErrors, each within bounds, and none
// with a value that may be a secret.
func collected(errs field.ErrorList) field.ErrorList {
	if full(errs) {
		errs = errs[:MaxErrors+1]
	}
	errs = withoutValues(errs)
	for i, err := range errs {
		errs[i] = clip(err)
	}
	return errs
}

// List returns errors for a user: at most MaxErrors with MaxErrorText, and an error about the omission of others. Webhooks,
// conditions and tools show only errors from List.
func List(errs field.ErrorList) field.ErrorList {
	var listed field.ErrorList
	text := 0
	for _, err := range errs {
		err = clip(err)
		text += len(err.Error())
		if len(listed) == MaxErrors || len(listed) > 0 && text > MaxErrorText {
			return append(listed, &field.Error{
				Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{},
				Detail: fmt.Sprintf(messageMoreErrors, len(listed)),
			})
		}
		listed = append(listed, err)
	}
	return listed
}

// ListWarnings is List for warnings.
func ListWarnings(said []string) []string {
	var listed []string
	for _, line := range said {
		if len(listed) == MaxWarnings {
			return append(listed, fmt.Sprintf(messageMoreWarnings, MaxWarnings))
		}
		listed = append(listed, cut(line, MaxWarning))
	}
	return listed
}

// clip returns an error whose parts are within bounds.
func clip(err *field.Error) *field.Error {
	value := clipValue(err.BadValue)
	if len(err.Field) <= maxField && len(err.Detail) <= maxDetail && value == nil {
		return err
	}
	short := *err
	short.Field, short.Detail = cut(err.Field, maxField), cut(err.Detail, maxDetail)
	if value != nil {
		short.BadValue = value
	}
	return &short
}

// clipValue returns the replacement of a value that is too long for an error, nil for other values. It cuts texts, and omits
// lists and maps.
func clipValue(value any) any {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		if v.Len() > maxValue {
			return cut(v.String(), maxValue)
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		if v.Len() > MaxErrors {
			return field.OmitValueType{}
		}
	}
	return nil
}

// cut returns at most so many bytes of a text, with a mark at the end if it is cut.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// keyIn returns the path of an item that its key names, with a key that is cut if no valid one is as long: each error below repeats it.
func keyIn[T ~string](at *field.Path, key T) *field.Path { return at.Key(cut(string(key), maxKey)) }
