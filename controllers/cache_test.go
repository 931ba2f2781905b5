package controllers

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/stored"
)

// heavyMetadata are parts of the metadata of a custom resource that users may make as long as the API server stores them: 400 KB
// of labels, owners, finalizers and managed fields, and 200 KB of annotations, which have a limit of 256 KiB.
var heavyMetadata = map[string]func(*metav1.ObjectMeta){
	"labels": func(m *metav1.ObjectMeta) {
		m.Labels = map[string]string{}
		for i := range 4000 {
			m.Labels[fmt.Sprintf("example.com/%060d", i)] = strings.Repeat("v", 28)
		}
	},
	"long annotation": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{"example.com/a": strings.Repeat("v", 200<<10)}
	},
	"many annotations": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{}
		for i := range 4000 {
			m.Annotations[fmt.Sprintf("example.com/%036d", i)] = "v"
		}
	},
	"annotation of kubectl": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("v", 200<<10)}
	},
	"annotation with the operator's prefix": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{"app.huolala.cn/unknown": strings.Repeat("v", 200<<10)}
	},
	"record of a tutorial, on another kind": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{appv1.AnnotationTutorialSpec: strings.Repeat("v", 200<<10)}
	},
	"refresh": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{appv1.AnnotationRefresh: strings.Repeat("v", 200<<10)}
	},
	"adopt": func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{appv1.AnnotationAdopt: strings.Repeat("v", 200<<10)}
	},
	"finalizers": func(m *metav1.ObjectMeta) {
		for i := range 4000 {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.com/%084d", i))
		}
	},
	"owners": func(m *metav1.ObjectMeta) {
		for i := range 2000 {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprintf("%0100d", i), UID: "u"})
		}
	},
	"managed fields": func(m *metav1.ObjectMeta) {
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":"` + strings.Repeat("v", 400<<10) + `"}`)}}
	},
}

// TestCacheKeepsLittleMetadata decodes UnitedDeployments with long metadata, as a watch does, and measures the heap that each of
// them takes in the cache.
func TestCacheKeepsLittleMetadata(t *testing.T) {
	const objects, most = 40, 8 << 10
	for _, name := range slices.Sorted(maps.Keys(heavyMetadata)) {
		ud := appv1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "holder"}}
		ud.Spec.DeploymentName = "web"
		heavyMetadata[name](&ud.ObjectMeta)
		data, err := json.Marshal(&ud)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) < 150<<10 {
			t.Fatalf("%s: %d bytes show nothing", name, len(data))
		}
		cached := make([]any, objects)
		before := heapInUse()
		for i := range cached {
			obj := &stored.UnitedDeployment{}
			if err := json.Unmarshal(data, obj); err != nil {
				t.Fatal(err)
			}
			if cached[i], err = CacheOptions(nil, &watchSet{}, budget.New(budget.NewLimits(DefaultNamespaceCache))).DefaultTransform(obj); err != nil {
				t.Fatal(err)
			}
		}
		if each := (heapInUse() - before) / objects; each > most {
			t.Errorf("%s: %d bytes of %d are kept of each, at most %d are right", name, each, len(data), most)
		}
		runtime.KeepAlive(cached)
	}
}

// heapInUse is how many bytes live on the heap.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // What finalizers have let go.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc) //nolint:gosec // It is far from the limit.
}

// TestCacheKeepsWhatIsRead checks that the cache keeps of the metadata what reconciles read: short annotations, and of a long
// refresh that it is another one.
func TestCacheKeepsWhatIsRead(t *testing.T) {
	trim := func(obj client.Object) map[string]string {
		t.Helper()
		kept, ok := trimResource(obj).(client.Object)
		if !ok || kept.GetName() != "web" || kept.GetUID() != "u" || kept.GetGeneration() != 3 || kept.GetResourceVersion() != "7" {
			t.Fatalf("%+v", obj)
		}
		return kept.GetAnnotations()
	}
	meta := metav1.ObjectMeta{Name: "web", UID: "u", Generation: 3, ResourceVersion: "7"}
	short := map[string]string{
		appv1.AnnotationAdopt: "true", appv1.AnnotationAcceptOverrides: "true", appv1.AnnotationRefresh: "1", "example.com/a": "b",
	}
	app := &stored.App{}
	app.ObjectMeta, app.Annotations = meta, maps.Clone(short)
	app.Annotations[appv1.AnnotationTutorialSpec] = strings.Repeat("v", 100<<10)
	want := maps.Clone(app.Annotations)
	if got := trim(app); !maps.Equal(got, want) {
		t.Errorf("annotations are %v, want %v", got, want)
	}

	refreshes := map[string]bool{}
	for _, last := range []string{"a", "b"} {
		box := &stored.ModelBox{}
		box.ObjectMeta = meta
		box.Annotations = map[string]string{appv1.AnnotationRefresh: strings.Repeat("v", 100<<10) + last, appv1.AnnotationAdopt: "true"}
		got := trim(box)
		refreshes[got[appv1.AnnotationRefresh]] = true
		if got[appv1.AnnotationAdopt] != "true" {
			t.Errorf("annotations are %v", got)
		}
	}
	if len(refreshes) != 2 || refreshes[""] {
		t.Errorf("%d refreshes can be told apart, want 2", len(refreshes))
	}
}

// TestCacheKeepsUsersAnnotations checks that the cache keeps each of the annotations by which users ask for something, with the longest
// value that it can have, next to annotations of others that are too long to be kept.
func TestCacheKeepsUsersAnnotations(t *testing.T) {
	longest := map[string]string{
		appv1.AnnotationAdopt: appv1.AdoptWithoutRestart, appv1.AnnotationAcceptOverrides: "false",
		appv1.AnnotationRefresh: strings.Repeat("r", 64<<10), appv1.AnnotationHold: strings.Repeat("h", 253),
		appv1.AnnotationPromote: strings.Repeat("1", 36), appv1.AnnotationAbort: strings.Repeat("2", 36),
	}
	notRead := []string{"AnnotationPlan"} // By admission alone.
	users := annotationsOfUsers(t)
	for name, key := range users {
		value, known := longest[key]
		if slices.Contains(notRead, name) {
			continue
		}
		if !known {
			t.Errorf("%s: the test does not know its longest value", name)
		}
		app := &stored.App{}
		app.Annotations = map[string]string{key: value, "example.com/long": strings.Repeat("v", 100<<10)}
		if kept := trimResource(app).(client.Object).GetAnnotations(); len(kept) != 1 || kept[key] != value {
			t.Errorf("%s: %d annotations are kept, and %d bytes of its %d", name, len(kept), len(kept[key]), len(value))
		}
	}
	if len(users) < len(longest)+len(notRead) {
		t.Errorf("%d annotations of users are declared: %v", len(users), users)
	}
}

// annotationsOfUsers returns the values of the constants in the first block of the annotations' declaration, which is of those that a user
// sets, by name.
func annotationsOfUsers(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../api/v1/annotations.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	block, ok := file.Decls[0].(*ast.GenDecl)
	if !ok || !strings.Contains(block.Doc.Text(), "that a user sets") {
		t.Fatal("the first declaration is not that of the annotations that a user sets")
	}
	values := map[string]string{}
	for _, spec := range block.Specs {
		constant := spec.(*ast.ValueSpec)
		value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values[constant.Names[0].Name] = value
	}
	return values
}

// TestReducedAnnotations drops the spec of an App with each annotation that reconciles read, at the length that is kept as it is and beyond:
// a longer value is kept as its sum, which tells two values apart, and annotations of others are not kept.
func TestReducedAnnotations(t *testing.T) {
	reduce := CacheOptions(nil, &watchSet{}, budget.New(budget.NewLimits(1))).DefaultTransform
	keep := func(key, value string) string {
		t.Helper()
		app := &stored.App{}
		app.Namespace, app.Name, app.UID = "shop", "web", "u"
		app.Annotations = map[string]string{key: value, "example.com/a": "b"}
		if err := app.Spec.UnmarshalJSON([]byte(`{"image":"` + strings.Repeat("i", 100<<10) + `"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := reduce(app); err != nil {
			t.Fatal(err)
		}
		if !app.Reduced() || app.Annotations["example.com/a"] != "" {
			t.Fatalf("without its spec: %t; its annotations are %v", app.Reduced(), app.Annotations)
		}
		return app.Annotations[key]
	}
	for _, key := range append(stored.ReadAnnotations(), appv1.AnnotationTutorialSpec) {
		most := stored.MaxReducedAnnotation
		if limit, read := stored.AnnotationLimit(key); read {
			most = min(most, limit)
		}
		if longest := strings.Repeat("v", most); keep(key, longest) != longest {
			t.Errorf("%s: a value of %d bytes became %q", key, most, keep(key, longest))
		}
		tooLong := strings.Repeat("v", most+1)
		first, second := keep(key, tooLong), keep(key, tooLong[1:]+"w")
		if first == "" || first == second || len(first) > stored.MaxReducedAnnotation {
			t.Errorf("%s: values of %d bytes became %q and %q", key, most+1, first, second)
		}
		if short := keep(key, "true"); short != "true" {
			t.Errorf("%s: true became %q", key, short)
		}
	}
}
