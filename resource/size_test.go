package resource

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// TestBuiltInSizes checks the built-in sizes by the rules of the sizes that AppDefaults define.
func TestBuiltInSizes(t *testing.T) {
	spec := &appv1.AppDefaultsSpec{Sizes: map[appv1.Size]appv1.SizeAmounts{}}
	for size, amounts := range BuiltInSizes() {
		spec.Sizes[size] = appv1.SizeAmounts{Requests: amounts.Requests, Limits: amounts.Limits}
	}
	if errs := rules.AppDefaults(spec, 0, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(BuiltInSizes(), LayerDefaults(spec).Sizes); diff != "" {
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
		w, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: rendering, Size: small}})
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
		w, _ = App(app, BuildOptions{Inputs: BuildInputs{Rendering: rendering}})
		if diff := cmp.Diff(app.Spec.Resources, w.Template.Spec.Containers[0].Resources); diff != "" {
			t.Errorf("custom resources (-want +got):\n%s", diff)
		}
	}
}
