package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Compare returns the differences of two specs, as JSON, by path. Items of lists with names are matched by name.
func Compare(before, after map[string]any) []Change {
	var changes []Change
	compare("", before, after, &changes)
	return changes
}

func compare(path string, before, after any, changes *[]Change) {
	if reflect.DeepEqual(before, after) {
		return
	}
	if a, ok := asObject(before); ok {
		if b, ok := asObject(after); ok {
			for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
				below := key
				if path != "" && key[0] != '[' {
					below = "." + key
				}
				compare(path+below, a[key], b[key], changes)
			}
			return
		}
	}
	*changes = append(*changes, Change{Path: path, Old: before, New: after})
}

// asObject returns an object, or a list of items that have names, each under its name in brackets.
func asObject(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case []any:
		named := map[string]any{}
		for _, item := range v {
			object, ok := item.(map[string]any)
			if !ok {
				return nil, false
			}
			name, ok := object["name"].(string)
			if !ok || named["["+name+"]"] != nil {
				return nil, false
			}
			named["["+name+"]"] = object
		}
		return named, len(v) > 0
	}
	return nil, false
}

// hidden replaces a value that may be secret.
const hidden = "•••"

var (
	// secretName matches the names of variables whose values may be secret.
	secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|cred|auth(?:[^o]|oriz|$)|jwt|dsn|salt|cookie|signature|` +
		`conn(?:ection)?_?str|(?:^|[_.-])p(?:w|at)(?:[_.-]|$)|(?-i:[a-z]P(?:w|at)(?:[A-Z]|$))`)
	// variableValue matches the path of a variable's value, headerValue the path of an HTTP header's value, and httpPath the path of a
	// request.
	variableValue = regexp.MustCompile(`(?:^|\.)envs?\[([^\]]*)\]\.value$`)
	headerValue   = regexp.MustCompile(`(?:^|\.)httpHeaders(?:\[[^\]]*\])?\.value$`)
	httpPath      = regexp.MustCompile(`(?:^|\.)httpGet\.path$`)
	// userPassword matches the password in a URL.
	userPassword = regexp.MustCompile(`(://[^/@:\s]*:)[^/@\s]+@`)
)

// freeText matches the fields whose values may be secret whatever their names are: they are free text.
var freeText = regexp.MustCompile(`(?:^|\.)(args|command|podTemplatePatch|\w*[aA]nnotations)([.\[]|$)`)

// Redact hides the values of changes that may be secret.
func Redact(changes []Change) []Change {
	redacted := slices.Clone(changes)
	for i := range redacted {
		c := &redacted[i]
		if freeText.MatchString(c.Path) {
			c.Old, c.New = hide(c.Old), hide(c.New)
			continue
		}
		c.Old, c.New = redact(c.Path, c.Old), redact(c.Path, c.New)
	}
	return redacted
}

// RedactSpec returns a spec in which values that may be secret are hidden.
func RedactSpec(spec map[string]any) map[string]any {
	shown := map[string]any{}
	for key, value := range spec {
		if freeText.MatchString(key) {
			shown[key] = hide(value)
			continue
		}
		shown[key] = redact(key, value)
	}
	return shown
}

func hide(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}

// redact hides the values of variables with a secret name, the values of all HTTP headers, and passwords in URLs. References to Secrets are
// names, and stay.
func redact(path string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		shown := map[string]any{}
		name, _ := v["name"].(string)
		for key, below := range v {
			if key == "value" && secretName.MatchString(name) {
				shown[key] = hidden
				continue
			}
			if freeText.MatchString(key) {
				shown[key] = hide(below)
				continue
			}
			shown[key] = redact(path+"."+key, below)
		}
		return shown
	case []any:
		var shown []any
		for _, item := range v {
			shown = append(shown, redact(path, item))
		}
		return shown
	case string:
		return redactText(path, v)
	}
	return value
}

// redactText returns a text of a spec without its possibly secret parts.
func redactText(path, text string) string {
	variable := variableValue.FindStringSubmatch(path)
	switch {
	case len(variable) == 2 && secretName.MatchString(variable[1]), headerValue.MatchString(path), strings.HasSuffix(path, "rootPass"):
		return hidden
	case httpPath.MatchString(path):
		if before, _, found := strings.Cut(text, "?"); found {
			return before + "?" + hidden
		}
	}
	return userPassword.ReplaceAllString(text, "${1}"+hidden+"@")
}

// String is the change in a few words.
func (c Change) String() string {
	switch {
	case c.Old == nil && isText(c.New):
		return "+" + c.Path + " " + words(c.New)
	case c.Old == nil:
		return "+" + c.Path
	case c.New == nil:
		return "-" + c.Path
	case isText(c.Old) && isText(c.New):
		return c.Path + " " + words(c.Old) + " → " + words(c.New)
	}
	return "~" + c.Path
}

func isText(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// words returns a value as text, quoted only where it would not be seen otherwise.
func words(v any) string {
	switch v := v.(type) {
	case string:
		if v == "" {
			return `""`
		}
		return v
	case json.Number:
		return v.String()
	}
	return fmt.Sprint(v)
}
