// Package definitions checks the API as it is delivered: the generated CustomResourceDefinitions, and that its conditions and
// reasons are those of the operator's code and of docs/status.md. It is not in the API's module, which has neither.
package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// definitions returns the generated CustomResourceDefinitions.
func definitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions: %v; make manifests generates them", err)
	}
	crds := make([]apiextensionsv1.CustomResourceDefinition, len(paths))
	for i, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, &crds[i]); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return crds
}

// TestDefinitionNames checks the names that a user types: none may be another's, and "kubectl delete all --all" must not
// reach what holds data.
func TestDefinitionNames(t *testing.T) {
	taken := []string{"app", "apps", "cm", "ud"} // Argo CD's Application, its group's likeness, ConfigMap, and OpenKruise's UnitedDeployment.
	inAll := []string{"App", "ModelBox", "Task"}
	seen := map[string]string{}
	for _, crd := range definitions(t) {
		names := crd.Spec.Names
		if len(names.ShortNames) == 0 {
			t.Errorf("%s has no short name", names.Kind)
		}
		for _, short := range names.ShortNames {
			if slices.Contains(taken, short) {
				t.Errorf("%s has the short name %s, which is taken", names.Kind, short)
			}
			if other := seen[short]; other != "" {
				t.Errorf("%s and %s have the same short name %s", names.Kind, other, short)
			}
			seen[short] = names.Kind
		}
		if !slices.Contains(names.Categories, "app-operator") {
			t.Errorf("%s is not in the category app-operator", names.Kind)
		}
		if got, want := slices.Contains(names.Categories, "all"), slices.Contains(inAll, names.Kind); got != want {
			t.Errorf("%s is in the category all: %t, want %t", names.Kind, got, want)
		}
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
			t.Errorf("%s is not namespaced", names.Kind)
		}
	}
}

// explainedInFront are the tiers that have the fields of another, where these are explained: thrice, the texts would not fit into
// a definition.
var explainedInFront = []string{"CloudManager.spec.identity.deployment.", "CloudManager.spec.db.statefulSet."}

// TestFieldsAreExplained checks that "kubectl explain" says something of every field of ours, with its name first.
func TestFieldsAreExplained(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, crd := range definitions(t) {
		for _, version := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			obj, err := scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			explained := 0
			for _, problem := range unexplained(reflect.TypeOf(obj), version.Schema.OpenAPIV3Schema, kind.Kind, &explained) {
				t.Error(problem)
			}
			if explained < 10 {
				t.Errorf("%s has %d fields of ours; the test does not find them", kind.Kind, explained)
			}
		}
	}
}

// unexplained returns what is wrong with the texts of a type's fields, and of those of our types below it. The texts of
// Kubernetes' own types are left out of the definitions for their size.
func unexplained(typ reflect.Type, props *apiextensionsv1.JSONSchemaProps, at string, explained *int) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Kind() == reflect.Slice {
			props = props.Items.Schema
		}
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[appv1.App]().PkgPath() {
		return nil
	}
	var problems []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if options == "inline" || name == "" {
			problems = append(problems, unexplained(field.Type, props, at, explained)...)
			continue
		}
		if name == "metadata" {
			continue
		}
		path := at + "." + name
		prop, found := props.Properties[name]
		switch {
		case !found:
			problems = append(problems, fmt.Sprintf("%s is not in the definition; make manifests", path))
			continue
		case prop.Description == "" && slices.ContainsFunc(explainedInFront, func(tier string) bool { return strings.HasPrefix(path, tier) }):
		case !strings.HasPrefix(prop.Description, name+" "):
			problems = append(problems, fmt.Sprintf("%s is explained as %q, want a sentence that begins with %q", path, prop.Description, name))
		}
		*explained++
		problems = append(problems, unexplained(field.Type, &prop, path, explained)...)
	}
	return problems
}

// TestEachKindIsInstalled checks that what installs the operator has each kind: a role for those who administer its resources, edit and
// view them, a definition and a sample.
func TestEachKindIsInstalled(t *testing.T) {
	listed := func(folder string) string {
		data, err := os.ReadFile(filepath.Join(root, "config", folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, k := range resource.Kinds {
		name := strings.ToLower(k.Name)
		for file, folder := range map[string]string{
			name + "_admin_role.yaml": "rbac", name + "_editor_role.yaml": "rbac", name + "_viewer_role.yaml": "rbac",
			"bases/" + appv1.GroupVersion.Group + "_" + k.Plural + ".yaml": "crd", "app_v1_" + name + ".yaml": "samples",
		} {
			if !strings.Contains(listed(folder), "- "+file+"\n") {
				t.Errorf("config/%s/kustomization.yaml lacks %s", folder, file)
			}
			if _, err := os.Stat(filepath.Join(root, "config", folder, file)); err != nil {
				t.Error(err)
			}
		}
	}
}
