package integration

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// documentedBlocks are a block of YAML of a page, and a manifest that a block of commands pipes to kubectl.
var documentedBlocks = []*regexp.Regexp{
	regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```"),
	regexp.MustCompile(`(?s)<<'?EOF'?\n(.*?)\nEOF\n`),
}

// TestDocumentedExamples creates, in a dry run with the webhooks, each resource that a page shows. A block that has spec alone is the spec of an
// App, or of the kind of its page. The fields that such a block leaves out are added.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	created := 0
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("no page matches %s: %v", pattern, err)
		}
		for _, page := range pages {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, blocks := range documentedBlocks {
				for _, block := range blocks.FindAllStringSubmatch(string(data), -1) {
					for _, text := range strings.Split(block[1], "\n---") {
						created += createDocumented(t, ns, page, text)
					}
				}
			}
		}
	}
	if created < 20 {
		t.Errorf("the pages have %d resources, so the search for blocks is broken", created)
	}
}

// createDocumented creates a resource of the operator's kinds in a dry run, and returns how many it has created. Objects of other kinds are left
// out.
func createDocumented(t *testing.T, ns, page, text string) int {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Errorf("%s: %v\n%s", page, err, text)
		return 0
	}
	if _, isSpec := obj.Object["spec"]; isSpec && obj.GetKind() == "" {
		completeDocumented(obj, filepath.Base(page))
	}
	if obj.GroupVersionKind().Group != appv1.GroupVersion.Group {
		return 0
	}
	obj.SetNamespace(ns)
	strict := client.FieldValidation("Strict")
	if err := plane.Client.Create(t.Context(), obj, client.DryRunAll, strict); err != nil {
		t.Errorf("%s: %v\n%s", page, err, text)
	}
	return 1
}

// completeDocumented adds to a block with a part of a spec what the block leaves out.
func completeDocumented(obj *unstructured.Unstructured, page string) {
	kind := cmp.Or(map[string]string{"uniteddeployment.md": "UnitedDeployment", "task.md": "Task"}[page], "App")
	obj.SetAPIVersion(appv1.GroupVersion.String())
	obj.SetKind(kind)
	obj.SetName("nginx-app")
	if _, stated, _ := unstructured.NestedString(obj.Object, "spec", "image"); !stated && kind == "App" {
		_ = unstructured.SetNestedField(obj.Object, "nginx:1.16.1", "spec", "image")
	}
}
