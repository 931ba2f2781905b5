package specs

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// TestEveryFieldIsMade fails when a field is added to WorkloadSpec, or to a type within it, that no random spec has: it
// would be fuzzed in name only.
func TestEveryFieldIsMade(t *testing.T) {
	refused := []string{
		"resources.claims", // Of a claim of the pod, and a spec has no field for those.
		"readinessProbe.terminationGracePeriodSeconds",   // Such a probe ends nothing.
		"probes.readiness.terminationGracePeriodSeconds", // The same.
		"lifecycle.stopSignal",                           // It goes with the operating system in the pod's spec.
	}
	for name, c := range map[string]struct {
		generate func(Source) map[string]any
		of       reflect.Type
		never    []string
	}{
		"Workload": {Workload, reflect.TypeFor[appv1.WorkloadSpec](), refused},
		"Accepted": {Accepted, reflect.TypeFor[appv1.WorkloadSpec](), refused},
		"Task":     {Task, reflect.TypeFor[appv1.TaskSpec](), refused},
		"Served": {Served, reflect.TypeFor[appv1.ServingSpec](), []string{ // A metric of such a type has no such target.
			"object.target.averageUtilization", "pods.target.value", "pods.target.averageUtilization", "resource.target.value",
			"containerResource.target.value", "external.target.averageUtilization",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			made := map[string]bool{}
			src := rand.New(rand.NewPCG(1, 2))
			for range 1500 {
				collect(made, "", c.generate(src))
			}
			// A Task with an App needs a live Deployment, and a Task with further containers is refused.
			skip := append(slices.Clone(newer), "TaskSpec.app", "TaskSpec.paused")
			if name == "Task" {
				skip = append(skip, "PodFields.containers")
			}
			if name != "Workload" {
				skip = append(skip, gated...)
			}
			for _, field := range fields(c.of, "", skip) {
				never := slices.ContainsFunc(c.never, func(part string) bool { return strings.Contains(field, part) })
				if made[field] == never {
					t.Errorf("%s: made is %t, want %t", field, made[field], !never)
				}
			}
		})
	}
}

// TestSpecsAreValid checks what can be checked without an API server; the integration tests have the schema.
func TestSpecsAreValid(t *testing.T) {
	for name, generate := range map[string]func(Source) map[string]any{"Workload": Workload, "Accepted": Accepted, "Served": Served} {
		t.Run(name, func(t *testing.T) {
			src := rand.New(rand.NewPCG(3, 4))
			for range 300 {
				data, err := json.Marshal(map[string]any{"spec": generate(src)})
				if err != nil {
					t.Fatal(err)
				}
				var app appv1.App
				if err := json.Unmarshal(data, &app); err != nil {
					t.Fatalf("%v in %s", err, data)
				}
				if errs := validation.App(&app); len(errs) > 0 {
					t.Fatalf("%v in %s", errs, data)
				}
			}
		})
	}
}

// TestSpecsFollowTheirBytes checks that the bytes alone decide, and that without any the spec is the smallest one.
func TestSpecsFollowTheirBytes(t *testing.T) {
	data := []byte("what a fuzzer comes up with, long enough to set some of the fields")
	if diff := cmp.Diff(Workload(FromBytes(data)), Workload(FromBytes(data))); diff != "" {
		t.Errorf("the same bytes make two specs:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"image": "nginx"}, Workload(FromBytes(nil))); diff != "" {
		t.Errorf("no bytes (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	src := rand.New(rand.NewPCG(5, 6))
	seen := map[string]bool{}
	for i := range 200 {
		name := Name(src, i)
		if seen[name] || len(name) > 63 {
			t.Errorf("%q is too long, or was there before", name)
		}
		seen[name] = true
	}
}

// fields returns the JSON paths of all fields that hold a value, without the indexes of lists and the keys of maps, and
// without those to skip, each as "<Go type>.<JSON name>".
func fields(typ reflect.Type, at string, skip []string) []string {
	switch typ {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[runtime.RawExtension]():
		return []string{at}
	case reflect.TypeFor[metav1.ObjectMeta]():
		return []string{at + ".labels", at + ".annotations"}
	}
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return fields(typ.Elem(), at, skip)
	case reflect.Struct:
	default:
		return []string{at}
	}
	var all []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := jsonName(f)
		switch {
		case slices.Contains(skip, typ.Name()+"."+name):
		case name == "":
			all = append(all, fields(f.Type, at, skip)...)
		case at == "":
			all = append(all, fields(f.Type, name, skip)...)
		default:
			all = append(all, fields(f.Type, at+"."+name, skip)...)
		}
	}
	return all
}

// collect notes the paths of a tree's values, as fields writes them, and those of all that is not empty.
func collect(made map[string]bool, at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		made[at] = made[at] || len(v) > 0
		for key, inner := range v {
			if at == "" {
				collect(made, key, inner)
			} else {
				collect(made, at+"."+key, inner)
			}
		}
	case []any:
		for _, inner := range v {
			collect(made, at, inner)
		}
	default:
		made[at] = true
	}
}
