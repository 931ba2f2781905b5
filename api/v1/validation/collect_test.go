package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// manyMounts returns an App with 24,000 mounts of volumes that there are not.
func manyMounts() *appv1.App {
	app := &appv1.App{}
	app.Name, app.Spec.Image = "web", "a:1"
	for i := range 60 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "a:1"}
		for j := range 400 {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "none", MountPath: fmt.Sprint("/", j)})
		}
		app.Spec.Containers = append(app.Spec.Containers, c)
	}
	return app
}

// TestManyErrors has 24,000 errors: the rules stop at MaxErrors and one more, List at MaxErrors, and what stands around the pods is
// checked all the same.
func TestManyErrors(t *testing.T) {
	app := manyMounts()
	if n := len(App(app)); n != MaxErrors+1 {
		t.Errorf("%d errors, want %d", n, MaxErrors+1)
	}
	app.Spec.Autoscaling = &appv1.AutoscalingSpec{MaxReplicas: -1}
	errs := App(app)
	if valid := ValidServing(&app.Spec.ServingSpec, errs, field.NewPath("spec")); valid.Autoscaling != nil {
		t.Error("the error of a block hides behind those of the pods")
	}
	listed := List(errs)
	if len(listed) != MaxErrors+1 || !strings.Contains(listed[MaxErrors].Error(), "more errors than the 100") {
		t.Errorf("%d errors are listed, the last one: %s", len(listed), listed[len(listed)-1])
	}
	work := testing.AllocsPerRun(1, func() { List(App(app)) })
	// An error takes dozens of allocations, for its path above all: work that ends at the limit takes fewer than there are mounts.
	if work > 24_000 {
		t.Errorf("%.0f allocations", work)
	}
}

// TestList has errors at the bounds and beyond them.
func TestList(t *testing.T) {
	of := func(n int, value any, detail string) field.ErrorList {
		var errs field.ErrorList
		for i := range n {
			errs = append(errs, field.Invalid(field.NewPath("spec").Index(i), value, detail))
		}
		return errs
	}
	for name, c := range map[string]struct {
		errs field.ErrorList
		want int
		more bool
	}{
		"none":           {nil, 0, false},
		"as many as may": {of(MaxErrors, "v", "d"), MaxErrors, false},
		"one more":       {of(MaxErrors+1, "v", "d"), MaxErrors + 1, true},
		"long details":   {of(20, "v", strings.Repeat("d", 10_000)), 16, true},
		"long values":    {of(20, strings.Repeat("é", 1<<20), "d"), 20, false},
		"long lists":     {of(2, make([]string, 10_000), "d"), 2, false},
		"a long path":    {field.ErrorList{field.Required(field.NewPath(strings.Repeat("p", 1<<20)), "d")}, 1, false},
	} {
		listed := List(c.errs)
		text := 0
		for _, err := range listed {
			text += len(err.Error())
		}
		more := len(listed) > 0 && strings.Contains(listed[len(listed)-1].Detail, "more errors")
		if len(listed) != c.want || more != c.more || text > MaxErrorText+maxDetail {
			t.Errorf("%s: %d errors (%t) with %d bytes, want %d (%t)", name, len(listed), more, text, c.want, c.more)
		}
	}
}

// TestListWarnings has warnings at the bounds and beyond them.
func TestListWarnings(t *testing.T) {
	for n, want := range map[int]int{0: 0, MaxWarnings: MaxWarnings, MaxWarnings + 1: MaxWarnings + 1, 1000: MaxWarnings + 1} {
		listed := ListWarnings(make([]string, n))
		if len(listed) != want {
			t.Errorf("%d of %d warnings are listed, want %d", len(listed), n, want)
		}
	}
	if n := len(ListWarnings([]string{strings.Repeat("é", 1000)})[0]); n > MaxWarning {
		t.Errorf("a warning has %d bytes", n)
	}
	app := &appv1.App{}
	app.Annotations = map[string]string{}
	for i := range 10_000 {
		app.Annotations[fmt.Sprint("app.huolala.cn/x", i)] = ""
	}
	if n := len(AppWarnings(app, nil)); n > 2*MaxWarnings {
		t.Errorf("%d warnings are collected", n)
	}
}
