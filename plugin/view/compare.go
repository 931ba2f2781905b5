package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Comparison is the differences between the specs of two revisions.
type Comparison struct {
	Meta      `json:",inline"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// From and To are the numbers of the revisions.
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Changes []Change `json:"changes"`
}

// CompareRevisions returns the differences between the specs of two revisions of a history, by their numbers.
func (h *History) CompareRevisions(from, to int64) (*Comparison, error) {
	before, err := h.FindRevision(from)
	after, err2 := h.FindRevision(to)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	changes := CompareSpecs(before.Spec, after.Spec)
	if changes == nil {
		changes = []Change{}
	}
	return &Comparison{
		Meta: newMeta("Comparison"), Resource: h.Resource, Namespace: h.Namespace, Name: h.Name, From: from, To: to, Changes: changes,
	}, nil
}

// CompareSpecs returns the differences of two specs, as JSON, by path. Items of lists with names are matched by name.
func CompareSpecs(before, after map[string]any) []Change {
	var changes []Change
	appendChanges("", before, after, &changes)
	return changes
}

func appendChanges(path string, before, after any, changes *[]Change) {
	if reflect.DeepEqual(before, after) {
		return
	}
	if a, ok := asObject(before); ok {
		if b, ok := asObject(after); ok {
			for _, key := range slices.Sorted(maps.Keys(unionOf(a, b))) {
				below := key
				if path != "" && !strings.HasPrefix(key, "[") {
					below = "." + key
				}
				appendChanges(path+below, a[key], b[key], changes)
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
	// userPassword matches the password in a URL, up to the last @ before the path: programs accept passwords and users with an @ in them.
	userPassword = regexp.MustCompile(`(://[^/:\s]*:)[^/\s]+@`)
)

// freeText matches the paths of the fields whose values may be secret whatever their names are: they are free text.
var freeText = regexp.MustCompile(`(?:^|\.)(args|command|podTemplatePatch|volumeAttributes|flexVolume\.options|\w*[aA]nnotations)([.\[]|$)`)

// RedactChanges hides the values of changes that may be secret.
func RedactChanges(changes []Change) []Change {
	redacted := slices.Clone(changes)
	for i := range redacted {
		c := &redacted[i]
		if freeText.MatchString(c.Path) {
			c.Old, c.New = hideValue(c.Old), hideValue(c.New)
			continue
		}
		c.Old, c.New = redactValue(c.Path, c.Old), redactValue(c.Path, c.New)
	}
	return redacted
}

// RedactSpec returns a spec in which values that may be secret are hidden.
func RedactSpec(spec map[string]any) map[string]any {
	shown := map[string]any{}
	for key, value := range spec {
		if freeText.MatchString(key) {
			shown[key] = hideValue(value)
			continue
		}
		shown[key] = redactValue(key, value)
	}
	return shown
}

func hideValue(value any) any {
	if value == nil {
		return nil
	}
	return hidden
}

// redactValue hides the values of variables with a secret name, the values of all HTTP headers, and passwords in URLs. References to Secrets are
// names, and stay.
func redactValue(path string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		shown := map[string]any{}
		name, _ := v["name"].(string)
		for key, below := range v {
			if key == "value" && secretName.MatchString(name) {
				shown[key] = hidden
				continue
			}
			at := path + "." + key
			if freeText.MatchString(at) {
				shown[key] = hideValue(below)
				continue
			}
			shown[key] = redactValue(at, below)
		}
		return shown
	case []any:
		shown := make([]any, 0, len(v)) // An empty list is another value than none.
		for _, item := range v {
			shown = append(shown, redactValue(path, item))
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
		return "+" + c.Path + " " + valueText(c.New)
	case c.Old == nil:
		return "+" + c.Path
	case c.New == nil:
		return "-" + c.Path
	case isText(c.Old) && isText(c.New):
		return c.Path + " " + valueText(c.Old) + " → " + valueText(c.New)
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

// valueText returns a value as text, quoted only where it would not be seen otherwise.
func valueText(v any) string {
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
