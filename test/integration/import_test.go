package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestImportRealApplications imports the applications in testdata/import, has the Apps take them over, refreshes them, deletes them, and applies the
// same files again. At each step the pod templates have all that they had, each Service selects the pods that it selected, and each
// ServiceMonitor the Services.
//
// IMPORT_MANIFESTS names a folder with more applications, a file each.
func TestImportRealApplications(t *testing.T) {
	t.Parallel()
	for _, file := range importedFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			monitors := createApplication(t, file, ns)
			before := outlineOf(t, ns, monitors)
			step := func(name string, same bool) {
				t.Helper()
				for _, lost := range outlineOf(t, ns, monitors).lacks(before, same) {
					t.Errorf("%s: %s", name, lost)
				}
			}
			files := plane.ImportAll(t, ns)
			apps := make([]*appv1.App, len(files))
			for i, file := range files {
				apps[i] = file.DeepCopy()
				plane.Create(t, apps[i])
			}
			for _, app := range apps {
				plane.Stands(t, app, "Applied=False/ResourceExists")
				setAnnotation(t, app, appv1.AnnotationAdopt, appv1.AdoptWithoutRestart)
			}
			for _, app := range apps {
				plane.Stands(t, app, "Applied=True/TemplateKept")
			}
			step("after the adoption", true)
			for _, app := range apps {
				setAnnotation(t, app, appv1.AnnotationRefresh, "1")
			}
			for _, app := range apps {
				untilApplied(t, app)
			}
			step("after the refresh", false)
			for _, app := range apps {
				deleteWithChildren(t, app)
			}
			for i, file := range files {
				apps[i] = file.DeepCopy()
				plane.Create(t, apps[i])
			}
			for _, app := range apps {
				untilApplied(t, app)
			}
			step("after the Apps were deleted and applied again", false)
		})
	}
}

// importedFiles are the files of the applications.
func importedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "import", "*.yaml"))
	if err != nil || len(files) < 12 {
		t.Fatalf("%d applications, %v", len(files), err)
	}
	if more := os.Getenv("IMPORT_MANIFESTS"); more != "" {
		further, err := filepath.Glob(filepath.Join(more, "*.yaml"))
		if err != nil || len(further) == 0 {
			t.Fatalf("IMPORT_MANIFESTS=%s has no applications: %v", more, err)
		}
		files = append(files, further...)
	}
	return files
}

// createApplication applies the objects of a file as kubectl does, and returns the selectors of its ServiceMonitors, whose kind the cluster lacks.
func createApplication(t *testing.T, file, ns string) map[string]labels.Selector {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	monitors := map[string]labels.Selector{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return monitors
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		obj.SetNamespace(ns)
		if obj.GetKind() == "ServiceMonitor" {
			selected, _, err := unstructured.NestedStringMap(obj.Object, "spec", "selector", "matchLabels")
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			monitors[obj.GetName()] = labels.SelectorFromSet(selected)
			continue
		}
		if err := plane.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// outline is what others see of an application.
type outline struct {
	// templates are the pod templates of the Deployments, labels those of Deployments and Services.
	templates map[string]any
	labels    map[string]map[string]string
	// selects are the Deployments that each Service selects the pods of, and the Services that each ServiceMonitor selects.
	selects map[string][]string
}

// outlineOf reads the outline of a namespace.
func outlineOf(t *testing.T, ns string, monitors map[string]labels.Selector) outline {
	t.Helper()
	seen := outline{templates: map[string]any{}, labels: map[string]map[string]string{}, selects: map[string][]string{}}
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&deployments, &services} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		seen.templates[d.Name], seen.labels["Deployment "+d.Name] = tree, d.Labels
	}
	for i := range services.Items {
		s := &services.Items[i]
		name := "Service " + s.Name
		seen.labels[name] = s.Labels
		for j := range deployments.Items {
			d := &deployments.Items[j]
			if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
				seen.selects[name] = append(seen.selects[name], d.Name)
			}
		}
		for monitor, selector := range monitors {
			if selector.Matches(labels.Set(s.Labels)) {
				seen.selects["ServiceMonitor "+monitor] = append(seen.selects["ServiceMonitor "+monitor], s.Name)
			}
		}
	}
	return seen
}

// lacks names what an earlier outline has and this one has not, or has otherwise. With the same, the pod templates have nothing else either.
func (o outline) lacks(before outline, same bool) (lost []string) {
	for name, was := range before.templates {
		lost = append(lost, missingFrom(o.templates[name], was, "Deployment "+name+" template")...)
		if same {
			lost = append(lost, missingFrom(was, o.templates[name], "Deployment "+name+" template, added:")...)
		}
	}
	for name, was := range before.labels {
		for key, value := range was {
			if key != appv1.LabelManagedBy && o.labels[name][key] != value {
				lost = append(lost, fmt.Sprintf("%s has %s=%q, and had %q", name, key, o.labels[name][key], value))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.selects)) {
		if !slices.Equal(before.selects[name], o.selects[name]) {
			lost = append(lost, fmt.Sprintf("%s selects %q, and selected %q", name, o.selects[name], before.selects[name]))
		}
	}
	return lost
}

// missingFrom names the values of a tree that another tree lacks. The items of a list are found by their name, and else by their place.
func missingFrom(is, was any, path string) (lost []string) {
	switch was := was.(type) {
	case map[string]any:
		is, _ := is.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if key == appv1.LabelManagedBy {
				continue
			}
			lost = append(lost, missingFrom(is[key], was[key], path+"."+key)...)
		}
		return lost
	case []any:
		is, _ := is.([]any)
		for i, item := range was {
			var found any
			if at := slices.IndexFunc(is, func(other any) bool { return keyOf(other) != nil && keyOf(other) == keyOf(item) }); at >= 0 {
				found = is[at]
			} else if i < len(is) {
				found = is[i]
			}
			lost = append(lost, missingFrom(found, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return lost
	}
	if is != was && was != nil {
		lost = append(lost, fmt.Sprintf("%s is %v, and was %v", path, is, was))
	}
	return lost
}

// keyOf returns what identifies an item of a list, nil if nothing does.
func keyOf(item any) any {
	fields, _ := item.(map[string]any)
	for _, key := range []string{"containerPort", "mountPath", "topologyKey", "name"} {
		if value, found := fields[key]; found {
			return value
		}
	}
	return nil
}

// untilApplied waits until all of an App is applied, also its pod template.
func untilApplied(t *testing.T, app *appv1.App) {
	t.Helper()
	plane.Until(t, app, func() error {
		for _, c := range app.Status.Conditions {
			if c.Type == appv1.ConditionApplied && c.Status == metav1.ConditionTrue && c.Reason != appv1.ReasonTemplateKept && c.ObservedGeneration == app.Generation {
				return nil
			}
		}
		return fmt.Errorf("App %s: %v", app.Name, app.Status.Conditions)
	})
}

// deleteWithChildren deletes an App, and what it controls, as the garbage collector does.
func deleteWithChildren(t *testing.T, app *appv1.App) {
	t.Helper()
	dead := app.DeepCopy()
	plane.Delete(t, app)
	plane.Gone(t, app)
	harness.Eventually(t, func() error {
		if n := collectChildren(context.WithoutCancel(t.Context()), dead); n > 0 {
			return fmt.Errorf("%d objects of %s are left", n, dead.Name)
		}
		return nil
	})
}
