// Package examples tests the Apps in the folder examples/: applications that others wrote, one App a workload. An API server
// accepts them without a warning, they mean the objects in testdata, and those differ from the originals' in nothing but what
// wanted_test.go lists.
//
// The originals are not part of this repository. What they mean is in testdata/<application>.facts.json. Where they are at hand,
// in ../shared/examples/<application>/original.yaml next to the repository, the facts are compared with them, and -update
// writes them.
package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

var update = flag.Bool("update", false, "write what the examples mean, and the originals if they are at hand, to testdata")

// applications are the folders of examples.
func applications(t testing.TB) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(harness.Root(), "examples", "*", "*.yaml"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for i := range folders {
		folders[i] = filepath.Base(filepath.Dir(folders[i]))
	}
	return slices.Compact(folders)
}

// application is what the files of one application have.
type application struct {
	apps        []*appv1.App
	deployments []*appsv1.Deployment
	services    []*corev1.Service
	others      []client.Object
}

// read reads YAML files.
func read(t testing.TB, files ...string) application {
	t.Helper()
	var found application
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(data, []byte("\n---")) {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if obj := found.object(kind.Kind); obj != nil {
				if err := yaml.UnmarshalStrict(document, obj); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			}
		}
	}
	return found
}

// object returns an object of a kind to be read into, nil for a kind that is of no interest.
func (a *application) object(kind string) client.Object {
	switch kind {
	case "App":
		a.apps = append(a.apps, &appv1.App{})
		return a.apps[len(a.apps)-1]
	case "Deployment":
		a.deployments = append(a.deployments, &appsv1.Deployment{})
		return a.deployments[len(a.deployments)-1]
	case "Service":
		a.services = append(a.services, &corev1.Service{})
		return a.services[len(a.services)-1]
	case "HorizontalPodAutoscaler":
		a.others = append(a.others, &autoscalingv2.HorizontalPodAutoscaler{})
	case "ServiceAccount":
		a.others = append(a.others, &corev1.ServiceAccount{})
	case "PersistentVolumeClaim":
		a.others = append(a.others, &corev1.PersistentVolumeClaim{})
	default:
		return nil
	}
	return a.others[len(a.others)-1]
}

// example reads an application of the folder examples/.
func example(t testing.TB, name string) application {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root(), "examples", name, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, files...)
}

// build returns the workload that an App means.
func build(t testing.TB, app *appv1.App) *resource.Workload {
	t.Helper()
	errs := validation.App(app)
	w, wrong := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{
		Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve(app.Spec.Size),
	}})
	if errs = append(errs, wrong...); len(errs) > 0 {
		t.Fatalf("App %s: %v", app.Name, errs)
	}
	return w
}

// facts returns what each Deployment means, by its name, with the Services that lead to its pods. A Service that leads to no pods is
// an error.
func (a *application) facts(t testing.TB) map[string]facts {
	t.Helper()
	found, leads := map[string]facts{}, map[string]bool{}
	for _, d := range a.deployments {
		var services []*corev1.Service
		for _, s := range a.services {
			if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
				services = append(services, s)
				leads[s.Name] = true
			}
		}
		found[d.Name] = meaning(t, d, services)
	}
	for _, s := range a.services {
		if !leads[s.Name] {
			t.Errorf("Service %s leads to no pods", s.Name)
		}
	}
	return found
}

// render adds the objects that the Apps mean.
func (a *application) render(t testing.TB) {
	t.Helper()
	for _, app := range a.apps {
		for _, obj := range build(t, app).Objects() {
			switch obj := obj.(type) {
			case *appsv1.Deployment:
				a.deployments = append(a.deployments, obj)
			case *corev1.Service:
				a.services = append(a.services, obj)
			}
		}
	}
}

// kept compares a text with the file of testdata, or writes it.
func kept(t *testing.T, file, got, otherwise string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got): %s\n%s", file, otherwise, diff)
	}
}

// TestExamplesRender compares the objects that the examples mean with those in testdata, which were read when they were written.
func TestExamplesRender(t *testing.T) {
	for _, name := range applications(t) {
		var text strings.Builder
		for _, app := range example(t, name).apps {
			for _, obj := range build(t, app).Objects() {
				obj.SetAnnotations(withoutRecord(obj.GetAnnotations()))
				obj.SetOwnerReferences(nil)
				data, err := yaml.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&text, "---\n%s", bytes.ReplaceAll(data, []byte("status: {}\n"), nil))
			}
		}
		kept(t, name+".golden.yaml", text.String(), "once it is right, write it with: go test ./test/examples -run Render -update")
	}
}

func withoutRecord(annotations map[string]string) map[string]string {
	left := map[string]string{}
	for key, value := range annotations {
		if !strings.HasPrefix(key, appv1.GroupVersion.Group+"/") {
			left[key] = value
		}
	}
	return left
}

// TestFactsAreTheOriginals compares the facts in testdata with the originals, where these are at hand.
func TestFactsAreTheOriginals(t *testing.T) {
	for _, name := range applications(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(harness.Root(), "..", "shared", "examples", name, "original.yaml")
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				t.Skipf("%s is not there: the examples are compared with the facts in testdata alone. docs/examples.md says where the originals are from", file)
			}
			original := read(t, file)
			data, err := json.MarshalIndent(original.facts(t), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			kept(t, name+".facts.json", string(data)+"\n", "the original has changed; write its facts with: go test ./test/examples -run Facts -update")
		})
	}
}

// TestExamplesMeanTheOriginals compares what the Apps mean with what the originals mean, field by field.
func TestExamplesMeanTheOriginals(t *testing.T) {
	used := make([]bool, len(wanted))
	for _, name := range applications(t) {
		data, err := os.ReadFile(filepath.Join("testdata", name+".facts.json"))
		if err != nil {
			t.Fatal(err)
		}
		var originals map[string]facts
		if err := json.Unmarshal(data, &originals); err != nil {
			t.Fatal(err)
		}
		ours := example(t, name)
		ours.render(t)
		means := ours.facts(t)
		for workload, original := range originals {
			if means[workload] == nil {
				t.Errorf("%s: %s has no App", name, workload)
				continue
			}
			for _, d := range differences(original, means[workload]) {
				i := slices.IndexFunc(wanted, func(w want) bool { return w.covers(name+"/"+workload, d) })
				if i < 0 {
					t.Errorf("%s/%s: %s", name, workload, d)
					continue
				}
				used[i] = true
			}
		}
		for workload := range means {
			if originals[workload] == nil {
				t.Errorf("%s: the original has no %s", name, workload)
			}
		}
	}
	for i, w := range wanted {
		if !used[i] {
			t.Errorf("no example differs in %s of %s; remove the row", w.path, w.workloads)
		}
	}
}

// TestExamplesAreAccepted applies all examples to an API server: the rules of the webhooks have neither an error nor a warning, and
// the manager makes the objects of each App.
func TestExamplesAreAccepted(t *testing.T) {
	plane, err := harness.StartAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range applications(t) {
		t.Run(name, func(t *testing.T) {
			ns := plane.Namespace(t)
			plane.Start(t, ns)
			a := example(t, name)
			objects := slices.Clone(a.others)
			for _, s := range a.services {
				objects = append(objects, s)
			}
			for _, obj := range objects {
				obj.SetNamespace(ns)
				plane.Create(t, obj)
			}
			for _, app := range a.apps {
				if said := validation.AppWarnings(app, nil); len(said) > 0 {
					t.Errorf("%s: %q", app.Name, said)
				}
				app.Namespace = ns
				plane.Create(t, app)
			}
			for _, app := range a.apps {
				plane.Stands(t, app, "Applied=True", "Stalled=False")
				for _, obj := range build(t, app).Objects() {
					live, ok := obj.DeepCopyObject().(client.Object)
					if !ok {
						t.Fatalf("%T", obj)
					}
					plane.Read(t, live)
				}
			}
		})
	}
}
