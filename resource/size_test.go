package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appv1 "huolala.cn/app-operator/api/v1"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// TestParseSizes reads ConfigMaps that are right: a size that is left out keeps its built-in amounts.
func TestParseSizes(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = quantity(pairs[i+1])
		}
		return l
	}
	for name, c := range map[string]struct {
		data map[string]string
		want Sizes
	}{
		"empty": {nil, nil},
		"one": {
			map[string]string{"small": "requests: {cpu: 50m}\nlimits:\n  cpu: 1\n  memory: 64Mi\n"},
			Sizes{appv1.SizeSmall: {Requests: list("cpu", "50m"), Limits: list("cpu", "1", "memory", "64Mi")}},
		},
		"all": {
			map[string]string{"small": "limits: {memory: 1Gi}", "medium": "requests: {cpu: 0}", "large": `{"requests": {"cpu": "3"}}`},
			Sizes{
				appv1.SizeSmall:  {Limits: list("memory", "1Gi")},
				appv1.SizeMedium: {Requests: list("cpu", "0")},
				appv1.SizeLarge:  {Requests: list("cpu", "3")},
			},
		},
		"further resources": {
			map[string]string{"large": "limits: {cpu: 1, ephemeral-storage: 1Gi, hugepages-2Mi: 4Mi, example.com/gpu: 1}\nrequests: {example.com/gpu: 1}"},
			Sizes{appv1.SizeLarge: {
				Requests: list("example.com/gpu", "1"),
				Limits:   list("cpu", "1", "ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi", "example.com/gpu", "1"),
			}},
		},
		"rounded as the API server does": {
			map[string]string{"small": "requests: {cpu: 100u}"}, Sizes{appv1.SizeSmall: {Requests: list("cpu", "1m")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSizes(&corev1.ConfigMap{Data: c.data})
			if err != nil {
				t.Fatal(err)
			}
			for size, builtIn := range BuiltInSizes() {
				want, stated := c.want[size]
				if !stated {
					want = builtIn
				}
				if diff := cmp.Diff(want, got[size]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", size, diff)
				}
			}
			if len(got) != len(BuiltInSizes()) {
				t.Errorf("there are %d sizes", len(got))
			}
		})
	}
}

// TestParseSizesRefuses reads ConfigMaps with one mistake next to a size that is right. All is refused, and the error says
// where and why.
func TestParseSizesRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		key, text string
		says      []string
	}{
		"unknown size":        {"huge", "requests: {cpu: 1}", []string{"data[huge]", "large", "medium", "small"}},
		"custom":              {"custom", "requests: {cpu: 1}", []string{"data[custom]"}},
		"empty":               {"small", "", []string{"data[small]", "requests or limits"}},
		"null":                {"small", "null", []string{"data[small]", "requests or limits"}},
		"empty lists":         {"small", "requests: {}\nlimits: {}", []string{"data[small]", "requests or limits"}},
		"no YAML":             {"small", "requests: {cpu", []string{"data[small]", "YAML"}},
		"no object":           {"small", "cpu", []string{"data[small]", "YAML"}},
		"no quantity":         {"small", "requests: {cpu: many}", []string{"data[small]", "quantit"}},
		"unknown field":       {"small", "request: {cpu: 1}", []string{"data[small]", "request"}},
		"claims":              {"small", "requests: {cpu: 1}\nclaims: [{name: a}]", []string{"data[small]", "claims"}},
		"given twice":         {"small", "requests: {cpu: 1}\nrequests: {cpu: 2}", []string{"data[small]", "requests"}},
		"resource twice":      {"small", "requests: {cpu: 1, cpu: 2}", []string{"data[small]", "cpu"}},
		"above the limit":     {"small", "requests: {cpu: 2}\nlimits: {cpu: 1}", []string{"data[small].requests[cpu]", "limit of 1"}},
		"negative request":    {"small", "requests: {cpu: -1}", []string{"data[small].requests[cpu]", "negative"}},
		"negative limit":      {"small", "limits: {memory: -1}", []string{"data[small].limits[memory]", "negative"}},
		"misspelt request":    {"small", "requests: {memroy: 1Gi}", []string{"data[small].requests[memroy]", "memory"}},
		"misspelt limit":      {"small", "limits: {CPU: 1}", []string{"data[small].limits[CPU]", "cpu"}},
		"not a domain":        {"small", "limits: {a b/c: 1}", []string{"data[small].limits[a b/c]"}},
		"device not limited":  {"small", "requests: {example.com/gpu: 1}", []string{"data[small].limits[example.com/gpu]"}},
		"device overcommited": {"small", "requests: {example.com/gpu: 1}\nlimits: {example.com/gpu: 2}", []string{"data[small].requests[example.com/gpu]"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSizes(&corev1.ConfigMap{Data: map[string]string{c.key: c.text, "large": "requests: {cpu: 1}"}})
			if err == nil || got != nil {
				t.Fatalf("read as %+v, %v; want an error", got, err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %q: %v", word, err)
				}
			}
		})
	}
	if _, err := ParseSizes(&corev1.ConfigMap{BinaryData: map[string][]byte{"small": {0xff}}}); err == nil {
		t.Error("bytes are taken")
	}
}

// TestBuiltInSizes writes the built-in sizes into a ConfigMap and reads them back: they keep the rules themselves.
func TestBuiltInSizes(t *testing.T) {
	data := map[string]string{}
	for size, amounts := range BuiltInSizes() {
		data[string(size)] = string(canonical(amounts))
	}
	got, err := ParseSizes(&corev1.ConfigMap{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(BuiltInSizes(), got); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
}

func TestResolvedSizeString(t *testing.T) {
	for want, size := range map[string]ResolvedSize{
		"": BuiltInSizes().Resolve(appv1.SizeCustom),
		"small (cpu 100m/500m, memory 128Mi/256Mi)": BuiltInSizes().Resolve(appv1.SizeSmall),
		"medium (cpu 250m/1, memory 512Mi/1Gi)":     BuiltInSizes().Resolve(appv1.SizeMedium),
		"large (cpu 1/2, memory 2Gi/4Gi)":           BuiltInSizes().Resolve(appv1.SizeLarge),
		"small (cpu -/1, memory 1Gi/-)": {Name: appv1.SizeSmall, Amounts: Amounts{
			Requests: corev1.ResourceList{"memory": quantity("1Gi")}, Limits: corev1.ResourceList{"cpu": quantity("1")},
		}},
		"small (cpu -/1)": {Name: appv1.SizeSmall, Amounts: Amounts{Limits: corev1.ResourceList{"cpu": quantity("1")}}},
	} {
		if got := fmt.Sprint(size); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// TestSizeOfTheContainer builds with and without a size: it is the main container's alone, in every rendering.
func TestSizeOfTheContainer(t *testing.T) {
	small := BuiltInSizes().Resolve(appv1.SizeSmall)
	for _, rendering := range Renderings() {
		app := &appv1.App{}
		app.Name, app.Spec.Image, app.Spec.Size = "web", "nginx", appv1.SizeSmall
		app.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "nginx"}}
		w, errs := App(app, BuildOptions{Inputs: Inputs{Rendering: rendering, Size: small}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		containers := w.Template.Spec.Containers
		want := corev1.ResourceRequirements{Requests: small.Requests, Limits: small.Limits}
		if diff := cmp.Diff(want, containers[0].Resources); diff != "" {
			t.Errorf("resources of the main container (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(corev1.ResourceRequirements{}, containers[1].Resources); diff != "" {
			t.Errorf("resources of the sidecar (-want +got):\n%s", diff)
		}

		app.Spec.Size, app.Spec.Resources = appv1.SizeCustom, corev1.ResourceRequirements{Limits: small.Limits}
		w, _ = App(app, BuildOptions{Inputs: Inputs{Rendering: rendering}})
		if diff := cmp.Diff(app.Spec.Resources, w.Template.Spec.Containers[0].Resources); diff != "" {
			t.Errorf("custom resources (-want +got):\n%s", diff)
		}
	}
}
