package resource

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestKinds compares each row with the types of the API: what a kind can do follows from what its spec and status have.
func TestKinds(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Kinds {
		for _, name := range slices.Concat([]string{k.Name, k.Plural, k.PodLabel}, k.ShortNames) {
			if other := seen[name]; name == "" || other != "" {
				t.Errorf("%s: %q is empty, or a name of %q", k.Name, name, other)
			}
			seen[name] = k.Name
		}
		obj := k.New()
		if got := KindOf(obj); got.Name != k.Name {
			t.Errorf("%T is of the kind %q", obj, got.Name)
		}
		folder := strings.ToLower(k.Name)
		golden := slices.ContainsFunc(slices.Collect(maps.Keys(kinds)), func(name string) bool { return name == folder || strings.HasPrefix(name, folder+"-") })
		recorded := slices.ContainsFunc(slices.Collect(maps.Keys(recordedKinds)), func(name string) bool { return name == folder || strings.HasPrefix(name, folder+"-") })
		if k.Scheduled { // TestTaskGolden and TestTaskFromRecord have them.
			golden, recorded = len(cases(t, folder)) > 0, true
		}
		if !golden || !recorded {
			t.Errorf("%s has golden files: %t; is built from records: %t. Without them, an upgrade may restart its pods unnoticed", k.Name, golden, recorded)
		}
		if _, read := readers[k.Name]; !read && k.Holds {
			t.Errorf("no hostile record of a %s is read", k.Name)
		}
		spec, ok := reflect.TypeOf(obj).Elem().FieldByName("Spec")
		if !ok {
			t.Fatalf("%T has no spec", obj)
		}
		if serving, found := spec.Type.FieldByName("ServingSpec"); k.Serves != (found && serving.Anonymous) {
			t.Errorf("%s: Serves is %t", k.Name, k.Serves)
		}
		if _, held := obj.(interface{ History() *appv1.HistoryStatus }); k.Holds != held {
			t.Errorf("%s: Holds is %t", k.Name, k.Holds)
		}
	}
	if got := KindOf(&appv1.AppList{}); got.Name != "" {
		t.Errorf("a list is of the kind %q", got.Name)
	}
}
