package resource

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// hostileQuantities are quantities that take seconds, or hundreds of megabytes, to parse.
func hostileQuantities(digits int) map[string]string {
	return map[string]string{
		"a small exponent":      `"1e-100000000"`,
		"a number":              `1e-100000000`,
		"a great exponent":      `"1E100000000"`,
		"an exponent with sign": `"-1.5e+0030000000"`,
		"many digits":           `"` + strings.Repeat("9", digits) + `m"`,
		"a number of many":      strings.Repeat("9", digits),
	}
}

// hostileSpecs are specs of a workload with a quantity in any place, and others that cost more than their length. The digits
// are those of quantities with many.
func hostileSpecs(digits int) map[string]string {
	repeated := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	specs := map[string]string{
		"many containers":        `{"image":"a","containers":[` + repeated(`{"name":"a"}`, 10_000) + `]}`,
		"a long patch":           `{"image":"a","podTemplatePatch":{"x":"` + strings.Repeat("x", bounds.MaxPatch) + `"}}`,
		"many items in a patch":  `{"image":"a","podTemplatePatch":{"spec":{"containers":[` + repeated(`{"name":"a"}`, 2000) + `]}}}`,
		"a deep field":           `{"image":"a","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"more than any spec has": `{"image":"` + strings.Repeat("x", bounds.MaxSpec) + `"}`,
	}
	for what, quantity := range hostileQuantities(digits) {
		for where, spec := range map[string]string{
			"resources":            `{"image":"a","resources":{"limits":{"cpu":%s}}}`,
			"resources of another": `{"image":"a","containers":[{"name":"b","resources":{"requests":{"example.com/gpu":%s}}}]}`,
			"a divisor":            `{"image":"a","envs":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":%s}}}]}`,
			"a volume":             `{"image":"a","volumes":[{"name":"a","emptyDir":{"sizeLimit":%s}}]}`,
			"a patch":              `{"image":"a","podTemplatePatch":{"spec":{"containers":[{"name":"b","resources":{"limits":{"cpu":%s}}}]}}}`,
		} {
			specs[where+": "+what] = fmt.Sprintf(spec, quantity)
		}
	}
	return specs
}

// otherCase are specs with quantities under names that are no fields but for their case.
var otherCase = []string{
	`{"image":"a","Resources":{"limits":{"cpu":"1e-100000000"}}}`,
	`{"image":"a","resources":{"LIMITS":{"cpu":"1e-100000000"}}}`,
	`{"image":"a","podTemplatePatch":{"spec":{"Containers":[{"name":"b","resources":{"limits":{"cpu":"1e-100000000"}}}]}}}`,
	`{"image":"a","podTemplatePatch":{"Spec":{"overhead":{"cpu":"1e-100000000"}}}}`,
}

// allowance is what a call may allocate: some times the greatest length that is read, and a small part of what one of the hostile
// quantities takes.
const allowance = 16 << 20

// costsLittle calls a function, and fails the test if it allocates more than the allowance.
func costsLittle(t *testing.T, what string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; cost > allowance {
		t.Errorf("%s: it takes %d bytes", what, cost)
	}
}

// readers are all that reads a recorded spec.
var readers = map[string]func(record string) error{
	"App":              func(r string) error { return DecodeSpec(r, &appv1.AppSpec{}) },
	"ModelBox":         func(r string) error { return DecodeSpec(r, &appv1.ModelBoxSpec{}) },
	"UnitedDeployment": func(r string) error { return DecodeSpec(r, &appv1.WorkloadSpec{}) },
	"database":         func(r string) error { return DecodeSpec(r, &appv1.Database{}) },
	"component":        func(r string) error { return DecodeSpec(r, &appv1.Component{}) },
	"Task": func(r string) error {
		_, err := PastTask(&appv1.Task{}, r)
		return err
	},
	"comparison of an App": func(r string) error {
		_, err := appChanged(&appv1.AppSpec{}, r)
		return err
	},
	"comparison of a ModelBox": func(r string) error {
		_, err := ModelBoxSpec(&appv1.ModelBox{}).Changed(r, ScopePods)
		return err
	},
	"App from record": func(r string) error {
		_, err := BuildRecorded(AppSpec(&appv1.App{}), r, BuildOptions{})
		return err
	},
	"ModelBox from record": func(r string) error {
		_, err := BuildRecorded(ModelBoxSpec(&appv1.ModelBox{}), r, BuildOptions{})
		return err
	},
	"UnitedDeployment from record": func(r string) error {
		_, err := BuildRecorded(UnitedDeploymentSpec(&appv1.UnitedDeployment{}), r, BuildOptions{})
		return err
	},
}

// TestHostileSpecRecords has records that would take minutes to decode, plain and compressed: each is unreadable, and at once.
func TestHostileSpecRecords(t *testing.T) {
	plain, compressed := hostileSpecs(100_000), hostileSpecs(4_000_000)
	for kind, read := range readers {
		for name, spec := range plain {
			for form, record := range map[string]string{"plain": spec, "compressed": zip(t, []byte(compressed[name]))} {
				what := kind + ", " + name + ", " + form
				costsLittle(t, what, func() {
					if err := read(record); err == nil || errors.Is(err, ErrNoSpec) || len(err.Error()) > 1000 {
						t.Errorf("%s: error is %.1100v, want one that says why it is unreadable", what, err)
					}
				})
			}
		}
		for _, spec := range otherCase {
			costsLittle(t, kind+", "+spec, func() { _ = read(spec) })
		}
	}
}

// TestHostileInputs is TestHostileSpecRecords for the record of the inputs.
func TestHostileInputs(t *testing.T) {
	inputs := map[string]string{
		"a long refresh": `{"rendering":2,"refresh":"` + strings.Repeat("x", maxInputs) + `"}`,
		"a deep field":   `{"rendering":2,"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"another case":   `{"rendering":2,"Size":{"name":"small","Requests":{"cpu":"1e-100000000"}}}`,
		"small pages":    `{"rendering":2,"size":{"name":"small","limits":{"hugepages-1e-100000000":"1"}}}`,
		"great pages":    `{"rendering":2,"size":{"name":"small","limits":{"hugepages-1E100000000":"1"}}}`,
		"many resources": `{"rendering":2,"size":{"name":"small","limits":{` + strings.Repeat(`"x.y/z":"1e-999",`, 15_000) + `"x.y/z":"1e-999"}}}`,
	}
	for _, digits := range []int{1000, 200_000} {
		for what, quantity := range hostileQuantities(digits) {
			inputs[fmt.Sprintf("requests: %s, %d", what, digits)] = `{"rendering":2,"size":{"name":"small","requests":{"cpu":` + quantity + `}}}`
			inputs[fmt.Sprintf("limits: %s, %d", what, digits)] = `{"rendering":2,"size":{"name":"small","limits":{"cpu":` + quantity + `}}}`
		}
	}
	for name, recorded := range inputs {
		costsLittle(t, name, func() {
			if _, err := DecodeInputs(recorded); err == nil || len(err.Error()) > 1000 {
				t.Errorf("%s: error is %.1100v, want one that says why it is unreadable", name, err)
			}
		})
	}
}

// TestHostileNames checks that the rules parse no quantity out of a name, or out of a patch, that costs more than its length.
func TestHostileNames(t *testing.T) {
	for _, name := range []corev1.ResourceName{"hugepages-1e-100000000", "hugepages-1E100000000", corev1.ResourceName("hugepages-" + strings.Repeat("9", 100_000))} {
		app := &appv1.App{}
		app.Spec.Image = "a"
		app.Spec.Resources.Limits = corev1.ResourceList{name: quantity("1")}
		costsLittle(t, string(name[:20]), func() {
			if len(rules.App(app)) == 0 {
				t.Errorf("%.30s is allowed", name)
			}
		})
	}
	for _, patch := range []string{
		`{"spec":{"Containers":[{"name":"b","resources":{"limits":{"cpu":"1e-100000000"}}}]}}`,
		`{"spec":{"containers":[{"name":"b","resources":{"limits":{"cpu":"1e-100000000"}}}]}}`,
	} {
		app := &appv1.App{}
		app.Spec.Image, app.Spec.PodTemplatePatch = "a", &k8sruntime.RawExtension{Raw: []byte(patch)}
		costsLittle(t, patch, func() { rules.App(app) })
	}
}

// TestLongSpecIsNotRecorded checks that what is recorded of a spec can be read again: of one that is out of bounds it is the hash.
func TestLongSpecIsNotRecorded(t *testing.T) {
	for length, want := range map[int]bool{bounds.MaxSpec - 100: true, bounds.MaxSpec: false} {
		spec := &appv1.AppSpec{}
		spec.Image = strings.Repeat("x", length)
		record, whole := EncodeSpec(spec, identityOf(spec, appWorkload), nil)
		err := DecodeSpec(record, &appv1.AppSpec{})
		if whole != want || whole != (err == nil) || !whole && !errors.Is(err, ErrNoSpec) {
			t.Errorf("a spec of %d bytes is recorded as %.20s, whole: %t, and read with %v", length, record, whole, err)
		}
	}
}
