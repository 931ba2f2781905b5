package view

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// driverFields are the fields of volumes that a driver alone gives a meaning.
var driverFields = []string{"volumeAttributes", "options"}

// freeTextFields returns how many fields of a type, at any depth, are free text, and gives each of them the value.
func freeTextFields(v reflect.Value, depth int, value string) int {
	if depth > 12 {
		return 0
	}
	filled := 0
	switch v.Kind() {
	case reflect.Pointer:
		made := reflect.New(v.Type().Elem())
		if filled = freeTextFields(made.Elem(), depth+1, value); filled > 0 {
			v.Set(made)
		}
	case reflect.Slice:
		made := reflect.MakeSlice(v.Type(), 1, 1)
		if filled = freeTextFields(made.Index(0), depth+1, value); filled > 0 {
			v.Set(made)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch of := v.Field(i); {
			case freeText.MatchString(name) && of.Type() == reflect.TypeFor[[]string]():
				of.Set(reflect.ValueOf([]string{value}))
				filled++
			case (strings.HasSuffix(strings.ToLower(name), "annotations") || slices.Contains(driverFields, name)) && of.Type() == reflect.TypeFor[map[string]string]():
				of.Set(reflect.ValueOf(map[string]string{"shop.example/key": value}))
				filled++
			case name == "name" && of.Kind() == reflect.String:
				of.SetString("web")
			default:
				filled += freeTextFields(of, depth+1, value)
			}
		}
	default:
	}
	return filled
}

// TestFreeTextIsHidden has a value in each field of each spec that is free text, at any depth: no output of a spec or of its changes has
// the value.
func TestFreeTextIsHidden(t *testing.T) {
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[appv1.AppSpec](), reflect.TypeFor[appv1.ModelBoxSpec](), reflect.TypeFor[appv1.UnitedDeploymentSpec](), reflect.TypeFor[appv1.CloudManagerSpec](),
		reflect.TypeFor[appv1.TaskSpec](), reflect.TypeFor[appv1.AppDefaultsSpec](),
	} {
		specOf := func(value string) map[string]any {
			made := reflect.New(typ)
			if n := freeTextFields(made.Elem(), 0, value); n < 5 {
				t.Fatalf("%s has only %d fields of free text", typ.Name(), n)
			}
			spec := map[string]any{}
			if err := json.Unmarshal([]byte(encode(made.Interface())), &spec); err != nil {
				t.Fatal(err)
			}
			return spec
		}
		before, after := specOf("S3CR3T-BEFORE"), specOf("S3CR3T-AFTER")
		texts := map[string]string{"spec": encode(RedactSpec(after))}
		for name, from := range map[string]map[string]any{"change": before, "addition": {}} {
			texts[name] = encode(RedactChanges(CompareSpecs(from, after)))
		}
		texts["removal"] = encode(RedactChanges(CompareSpecs(before, map[string]any{})))
		for name, text := range texts {
			if at := strings.Index(text, "S3CR3T"); at >= 0 {
				t.Errorf("%s, %s: …%s", typ.Name(), name, text[max(0, at-120):min(len(text), at+20)])
			}
		}
	}
}

// TestOddKeys compares maps whose keys Kubernetes takes in the settings of a volume's driver, or a file has that nothing has checked.
func TestOddKeys(t *testing.T) {
	for _, key := range []string{"", "[", "]", ".", "[]", "a[b]", "-", "é", "\x00"} {
		specOf := func(value string) map[string]any {
			driver := map[string]any{"driver": "d", "volumeAttributes": map[string]any{key: value, "a": value}}
			return map[string]any{
				"podLabels": map[string]any{key: value, "a": value}, key: map[string]any{key: value},
				"volumes": []any{map[string]any{"name": "v", "csi": driver}}, "envs": []any{map[string]any{"name": key, key: value}},
			}
		}
		before, after := specOf("x1"), specOf("x2")
		for _, c := range [][2]map[string]any{{before, after}, {before, {}}, {{}, after}} {
			changes := RedactChanges(CompareSpecs(c[0], c[1]))
			if len(changes) == 0 {
				t.Errorf("%q: no change", key)
			}
			for _, change := range changes {
				if text := change.String(); strings.Contains(text, "x1") && strings.Contains(text, "volumeAttributes") {
					t.Errorf("%q: %s", key, text)
				}
			}
			if rev := (&Revision{Spec: c[0]}); len(RollbackChanges(c[1], rev)) == 0 {
				t.Errorf("%q: no way back", key)
			}
			_ = RedactSpec(c[0])
		}
	}
}

// TestPasswordsInURLs hides the passwords in URLs whole, with an @ in them, too, and no port or path.
func TestPasswordsInURLs(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://app:p@ssw0rd@db/x":               "postgres://app:•••@db/x",
		"postgres://app:pw@db:5432/x":                "postgres://app:•••@db:5432/x",
		"postgres://app:@@@db/x":                     "postgres://app:•••@db/x",
		"smtp://me@shop.example:p@ss@mail":           "smtp://me@shop.example:•••@mail",
		"redis://:p@ss@cache":                        "redis://:•••@cache",
		"amqp://a:p@1@h1/,amqp://b:p@2@h2/ to me@at": "amqp://a:•••@h1/,amqp://b:•••@h2/ to me@at",
		"https://example.com:8080/a@b":               "https://example.com:8080/a@b",
		"https://me@example.com/x":                   "https://me@example.com/x",
	} {
		if got := redactText("envs[URL].value", text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
		var none values
		if got := none.newHider("")("of others: " + text); got != "of others: "+want {
			t.Errorf("in a text of others, %s becomes %s", text, got)
		}
	}
}
