package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// TestNewSizes reads the name of the ConfigMap.
func TestNewSizes(t *testing.T) {
	for _, c := range []struct{ name, own, want, wrong string }{
		{"", "", "/", ""},
		{"", "system", "/", ""},
		{"sizes", "system", "system/sizes", ""},
		{"other/sizes", "system", "other/sizes", ""},
		{"other/sizes", "", "other/sizes", ""},
		{"sizes", "", "", "set POD_NAMESPACE"},
		{"/sizes", "system", "", "must be a name or namespace/name"},
		{"other/", "system", "", "must be a name or namespace/name"},
		{"a/b/c", "system", "", "must be a name or namespace/name"},
		{"Sizes", "system", "", "must be a name or namespace/name"},
	} {
		s, err := newSizes(c.name, c.own)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q in %q: %v, want %q in it", c.name, c.own, err, c.wrong)
			}
		case err != nil || s.key.String() != c.want:
			t.Errorf("%q in %q: %v, want %s", c.name, c.own, err, c.want)
		case s.watchesConfigMap() != (c.name != ""):
			t.Errorf("%q in %q: a ConfigMap is watched: %t", c.name, c.own, s.watchesConfigMap())
		}
	}
}

// TestSizesCacheOptions has the cache hold the one ConfigMap.
func TestSizesCacheOptions(t *testing.T) {
	s, err := newSizes("other/sizes", "system")
	if err != nil {
		t.Fatal(err)
	}
	namespaces := s.cacheOptions().Namespaces
	if len(namespaces) != 1 || namespaces["other"].FieldSelector.String() != "metadata.name=sizes" {
		t.Errorf("%+v", namespaces)
	}
}

func newSizesConfig(definition string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sizes"}, Data: map[string]string{"small": definition},
	}
}

const (
	smallRequests  = "requests: {cpu: 1, memory: 1Gi}\nlimits: {cpu: 1, memory: 1Gi}\n"
	biggerRequests = "requests: {cpu: 2, memory: 2Gi}\nlimits: {cpu: 2, memory: 2Gi}\n"
)

// worldWithSizes is a world whose sizes are those of a ConfigMap.
func worldWithSizes(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := newWorld(t, objects...)
	sizes, err := newSizes("sizes", namespace)
	if err != nil {
		t.Fatal(err)
	}
	sizes.cache, sizes.recorder = w.Client, scripted{w, w.events}
	w.Sizes, w.sizes = sizes, sizes
	return w
}

// processors returns how much of a processor a size requests.
func processors(size resource.ResolvedSize) string {
	cpu := size.Requests[corev1.ResourceCPU]
	return cpu.String()
}

// gaugeValue returns the value of a gauge that has a label value.
func gaugeValue(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if family.GetName() == name && pair.GetValue() == label {
					return metric.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}

// resolved returns what the size small stands for.
func (w *world) resolved() resource.ResolvedSize {
	w.t.Helper()
	size, err := w.Sizes.Resolve(w.t.Context(), "small")
	if err != nil {
		w.t.Fatal(err)
	}
	return size
}

// reconcileSizes reconciles the ConfigMap, and returns the events of it.
func (w *world) reconcileSizes() []string {
	w.t.Helper()
	if _, err := w.sizes.Reconcile(w.t.Context(), ctrl.Request{}); err != nil {
		w.t.Fatal(err)
	}
	return w.sent()
}

// TestSizesFollowTheConfigMap creates, breaks, fixes and deletes the ConfigMap: the last valid sizes stay in use, the metric and one
// event tell of it.
func TestSizesFollowTheConfigMap(t *testing.T) {
	w := worldWithSizes(t)
	builtIn := processors(resource.BuiltInSizes().Resolve("small"))
	config := newSizesConfig(smallRequests)
	for _, c := range []struct {
		what  string
		do    func()
		cpu   string
		valid float64
		event string
	}{
		{"there is none", func() {}, builtIn, 1, ""},
		{"it is created", func() { w.create(config) }, "1", 1, ""},
		{"it is read again", func() {}, "1", 1, ""},
		{"it is broken", func() { config.Data["small"] = "requests: {cpu: many}"; w.update(config) }, "1", 0, "Warning ErrInvalidSizes"},
		{"it stays broken", func() {}, "1", 0, ""},
		{"it is broken otherwise", func() { config.Data["small"] = "requests: 5"; w.update(config) }, "1", 0, "Warning ErrInvalidSizes"},
		{"it is fixed", func() { config.Data["small"] = biggerRequests; w.update(config) }, "2", 1, "Normal SizesValid"},
		{"it is broken once more", func() { config.Data["small"] = "requests: 5"; w.update(config) }, "2", 0, "Warning ErrInvalidSizes"},
		{"it is deleted", func() { w.remove(config) }, builtIn, 1, ""},
	} {
		c.do()
		events := w.reconcileSizes()
		if got := processors(w.resolved()); got != c.cpu {
			t.Errorf("%s: small has %s of a processor, want %s", c.what, got, c.cpu)
		}
		if got := gaugeValue(t, "app_operator_size_config_valid", "sizes"); got != c.valid {
			t.Errorf("%s: the metric is %g, want %g", c.what, got, c.valid)
		}
		if (c.event == "") != (len(events) == 0) || len(events) > 1 || len(events) == 1 && !strings.HasPrefix(events[0], c.event) {
			t.Errorf("%s: the events are %q, want %q", c.what, events, c.event)
		}
	}
}

// TestSizesThatCannotBeRead fails a reconcile rather than take a ConfigMap for none.
func TestSizesThatCannotBeRead(t *testing.T) {
	w := worldWithSizes(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"small","replicas":1}`))
	broken := errors.New("no cache")
	w.sizes.cache = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if _, err := w.sizes.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if requests := w.sizes.onConfigMapChange(t.Context(), nil); len(requests) != 1 {
		t.Errorf("what cannot be read is not tried again: %v", requests)
	}
	if _, err := w.reconcile("App"); !errors.Is(err, broken) {
		t.Errorf("the error of the App is %v", err)
	}
	if requests := withoutStatus(w.requests); len(requests) > 0 {
		t.Errorf("without a size: %q", requests)
	}
	if size, err := w.Sizes.Resolve(t.Context(), appv1.Size("")); err != nil || size.Name != "" {
		t.Errorf("a spec without a size: %v, %v", size, err)
	}
}

// TestAnotherDefinitionRestartsNothing changes what a size stands for: pods keep what they have until a refresh is asked for, or
// the spec changes, and the status tells of it.
func TestAnotherDefinitionRestartsNothing(t *testing.T) {
	config := newSizesConfig(smallRequests)
	w := worldWithSizes(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"small","replicas":1}`), config)
	cpu := func() string {
		return w.deployment().Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
	}
	w.settle("App")
	if got := cpu(); got != "1" {
		t.Fatalf("a new App has %s", got)
	}
	w.read(config)
	config.Data["small"] = biggerRequests
	w.update(config)
	w.requests = nil
	w.settle("App")
	w.wrote("another definition", "status App web")
	if got := w.status("App"); cpu() != "1" || got.LatestSize == "" || got.LatestSize == got.Size {
		t.Errorf("another definition: %s, %q, %q", cpu(), got.Size, got.LatestSize)
	}
	w.annotate("App", appv1.AnnotationRefresh, "1")
	w.settle("App")
	if got := w.status("App"); cpu() != "2" || got.LatestSize != "" {
		t.Errorf("after a refresh: %s, %q", cpu(), got.LatestSize)
	}
	config.Data["small"] = smallRequests
	w.update(config)
	w.setSpec("App", `{"image":"nginx:2","size":"small","replicas":1}`)
	w.settle("App")
	if got := cpu(); got != "1" {
		t.Errorf("with another spec: %s", got)
	}
	w.setSpec("App", `{"image":"nginx:2","size":"large","replicas":1}`)
	w.settle("App")
	if got, want := cpu(), processors(resource.BuiltInSizes().Resolve("large")); got != want {
		t.Errorf("another size: %s, want %s", got, want)
	}
}

// TestOnConfigMapChange asks for the ConfigMap, whatever changed.
func TestOnConfigMapChange(t *testing.T) {
	w := worldWithSizes(t, newSizesConfig(smallRequests))
	requests := w.sizes.onConfigMapChange(t.Context(), nil)
	if len(requests) != 1 || requests[0].NamespacedName != (types.NamespacedName{Namespace: namespace, Name: "sizes"}) {
		t.Errorf("%v", requests)
	}
	if w.sizes.last.config == nil {
		t.Error("a stand-by does not know the sizes")
	}
}
