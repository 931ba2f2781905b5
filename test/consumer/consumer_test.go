package main

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"huolala.cn/app-operator/api/client/applyconfiguration"
	applyv1 "huolala.cn/app-operator/api/client/applyconfiguration/api/v1"
	"huolala.cn/app-operator/api/client/clientset/versioned/fake"
	listers "huolala.cn/app-operator/api/client/listers/api/v1"
	appv1 "huolala.cn/app-operator/api/v1"
)

// output returns the lines that a command of Go prints.
func output(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestDependencies checks that a program with this client compiles no package of the operator, and that no module of the
// operator's is among the versions that its go.mod has to satisfy.
func TestDependencies(t *testing.T) {
	packages := output(t, "list", "-buildvcs=false", "-deps", ".")
	if !slices.Contains(packages, "huolala.cn/app-operator/api/client/clientset/versioned") {
		t.Error("the program does not use the client; the test would find nothing")
	}
	for _, name := range packages {
		rest, ours := strings.CutPrefix(name, "huolala.cn/app-operator/")
		if ours && !strings.HasPrefix(rest, "api/") && rest != "test/consumer" {
			t.Errorf("the program compiles %s", name)
		}
		rejectForeign(t, name)
	}
	modules := output(t, "mod", "graph")
	if !slices.ContainsFunc(modules, func(edge string) bool { return strings.Contains(edge, " k8s.io/client-go@") }) {
		t.Error("client-go is not in the graph of modules; the test would find nothing")
	}
	for _, edge := range modules {
		rejectForeign(t, edge)
		if strings.HasPrefix(edge, "huolala.cn/app-operator ") || strings.Contains(edge, " huolala.cn/app-operator@") {
			t.Errorf("the operator's module is in the graph: %s", edge)
		}
	}
}

// rejectForeign fails for a package or module that the operator is made of and a client needs not.
func rejectForeign(t *testing.T, name string) {
	t.Helper()
	for _, foreign := range []string{"controller-runtime", "prometheus", "go.uber.org/zap", "apiextensions-apiserver"} {
		if strings.Contains(name, foreign) {
			t.Errorf("a program with this client needs %s: %s", foreign, name)
		}
	}
}

// TestIdentityOfConfigurations checks the group, version and kind that an apply configuration states by itself.
func TestIdentityOfConfigurations(t *testing.T) {
	app, box := applyv1.App("x", "y"), applyv1.ModelBox("x", "y")
	united, manager := applyv1.UnitedDeployment("x", "y"), applyv1.CloudManager("x", "y")
	for kind, got := range map[string][]*string{
		"App":              {app.APIVersion, app.Kind, app.Name, app.Namespace},
		"ModelBox":         {box.APIVersion, box.Kind, box.Name, box.Namespace},
		"UnitedDeployment": {united.APIVersion, united.Kind, united.Name, united.Namespace},
		"CloudManager":     {manager.APIVersion, manager.Kind, manager.Name, manager.Namespace},
	} {
		for i, want := range []string{"app.huolala.cn/v1", kind, "x", "y"} {
			if got[i] == nil || *got[i] != want {
				t.Errorf("%s: field %d of its identity is not %q", kind, i, want)
			}
		}
	}
}

// TestEmptyDirections checks that a direction of a network policy without rules, which allows nothing, is sent.
func TestEmptyDirections(t *testing.T) {
	assigned := applyv1.NetworkPolicySpec()
	assigned.Ingress = []networkingv1.NetworkPolicyIngressRule{}
	for name, c := range map[string]struct {
		policy *applyv1.NetworkPolicySpecApplyConfiguration
		want   string
	}{
		"not set":    {applyv1.NetworkPolicySpec(), `{}`},
		"assigned":   {assigned, `{"ingress":[]}`},
		"no ingress": {applyv1.NetworkPolicySpec().WithIngress(), `{"ingress":[]}`},
		"no egress":  {applyv1.NetworkPolicySpec().WithEgress(), `{"egress":[]}`},
		"a rule":     {applyv1.NetworkPolicySpec().WithIngress().WithIngress(networkingv1.NetworkPolicyIngressRule{}), `{"ingress":[{}]}`},
	} {
		if got, err := json.Marshal(c.policy); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}

// TestEmptyListsAndMaps checks for each type of the API that the apply configuration keeps an empty list or map if the type does.
func TestEmptyListsAndMaps(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	for _, kind := range scheme.KnownTypes(appv1.GroupVersion) {
		collectTypes(kind, seen)
	}
	kept := 0
	for typ := range seen {
		configuration := applyconfiguration.ForKind(appv1.GroupVersion.WithKind(typ.Name()))
		for _, f := range reflect.VisibleFields(typ) {
			name, kind := f.Tag.Get("json"), f.Type.Kind()
			if !strings.Contains(name, ",omitzero") || kind != reflect.Slice && kind != reflect.Map {
				continue
			}
			kept++
			if configuration == nil {
				t.Errorf("%s has no apply configuration", typ)
				continue
			}
			checkEmptyKept(t, configuration, f.Name, name)
		}
	}
	if kept < 2 {
		t.Errorf("%d of %d types have such a field; the test does not find them", kept, len(seen))
	}
}

// collectTypes adds a type and the types below it that are of the API's package.
func collectTypes(typ reflect.Type, seen map[reflect.Type]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectTypes(typ.Elem(), seen)
	case reflect.Struct:
		if seen[typ] || typ.PkgPath() != reflect.TypeFor[appv1.App]().PkgPath() {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			collectTypes(typ.Field(i).Type, seen)
		}
	}
}

// checkEmptyKept fails for a field of an apply configuration without omitzero, or whose With function leaves the field nil without arguments.
func checkEmptyKept(t *testing.T, configuration any, field, tag string) {
	t.Helper()
	value := reflect.ValueOf(configuration)
	f, found := value.Elem().Type().FieldByName(field)
	if !found || f.Tag.Get("json") != tag {
		t.Errorf("%T.%s has the tag %q, want %q", configuration, field, f.Tag.Get("json"), tag)
		return
	}
	if with := value.MethodByName("With" + field); with.Type().IsVariadic() {
		with.Call(nil)
	} else {
		with.Call([]reflect.Value{reflect.Zero(f.Type)})
	}
	if value.Elem().FieldByName(field).IsNil() {
		t.Errorf("%T.With%s leaves the field nil", configuration, field)
	}
}

// TestReadyWithoutApp checks that the program waits on if its cache does not have the App yet.
func TestReadyWithoutApp(t *testing.T) {
	empty := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if done, err := isReady(listers.NewAppLister(empty).Apps("shop"), 1); done || err != nil {
		t.Errorf("without the App the condition is %t and %v, want it to be tried again", done, err)
	}
}

// TestFake checks that the fake client that docs/client.md names takes our kinds: creating, listing, watching and applying.
func TestFake(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Name: "cart", Namespace: "shop"}}
	app.Spec.Image = "nginx:1.27"
	apps := fake.NewSimpleClientset(app).AppV1().Apps("shop") // Not NewClientset, which knows no custom resources.
	watcher, err := apps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	more := app.DeepCopy()
	more.Name = "search"
	if _, err := apps.Create(t.Context(), more, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cart", "search"} {
		if event := <-watcher.ResultChan(); event.Object.(*appv1.App).Name != want {
			t.Errorf("the watch sees %v, want %s", event.Object, want)
		}
	}
	list, err := apps.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("the list has %d Apps, want 2 (%v)", len(list.Items), err)
	}
	change := applyv1.App("cart", "shop").WithSpec(applyv1.AppSpec().WithImagePullPolicy(corev1.PullAlways))
	applied, err := apps.Apply(t.Context(), change, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if applied.Spec.Image != app.Spec.Image || applied.Spec.ImagePullPolicy != corev1.PullAlways {
		t.Errorf("applying a part has made %+v", applied.Spec)
	}
}
