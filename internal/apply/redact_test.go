package apply

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/secrecy"
)

// TestRedaction checks that no value of a variable, an argument, a header or an annotation gets on with what the API server
// says, however it says it, and that what helps does.
func TestRedaction(t *testing.T) {
	const secret = `s3cr3t "quoted"`
	wanted := fieldtest.Deployment()
	pod := &wanted.Spec.Template
	pod.Annotations = map[string]string{"a": secret}
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: secret}, {Name: "N", Value: "1"}}
	c.Args, c.Command = []string{"--token=" + secret}, []string{secret}
	p := newKnownPlan(&Object{Desired: wanted}, schema.GroupVersionKind{}, Created)
	p.gvk.Kind = "Deployment"
	at := field.NewPath("spec", "template", "spec", "containers").Index(0)
	for name, err := range map[string]error{
		"value":      invalid(field.Invalid(at.Child("env").Index(0).Child("value"), secret, "is bad")),
		"short":      invalid(field.Invalid(at.Child("env").Index(0).Child("value"), "s3", "is bad")),
		"other":      invalid(field.Invalid(at.Child("args").Index(0), "s3cr3t of another", "is bad")),
		"duplicate":  invalid(field.Duplicate(at.Child("command").Index(0), "s3cr3t")),
		"whole":      invalid(field.Invalid(at, map[string]any{"env": []string{"s3cr3t"}}, "is bad")),
		"annotation": invalid(field.Invalid(field.NewPath("spec", "template", "metadata", "annotations"), "s3cr3t", "is bad")),
		"webhook":    statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `denied: PASSWORD=` + secret}},
		"quoted":     statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `denied: "s3cr3t \"quoted\""`}},
		"failure":    statusError{metav1.Status{Reason: metav1.StatusReasonInternalError, Message: secret}},
	} {
		got := (&Engine{}).classifyError(p, err)
		text := got.Error() + outcomeOf(t, got).message
		if strings.Contains(text, "s3") {
			t.Errorf("%s: %s", name, text)
		}
	}
	err := (&Engine{}).classifyError(p, invalid(field.Invalid(at.Child("image"), "nginx latest", "is bad")))
	if !strings.Contains(err.Error(), `image: Invalid value: "nginx latest": is bad`) {
		t.Errorf("the value of an image is not shown: %v", err)
	}
}

// TestRedactionOfLongValues is TestRedaction for values that are cut off in an answer; no more than its beginning is
// read, before the value, within it, or in the middle of an escape.
func TestRedactionOfLongValues(t *testing.T) {
	for _, before := range []int{0, 200, secrecy.MaxAnswer - 3, secrecy.MaxAnswer - 2000, 2 * secrecy.MaxAnswer} {
		for _, unit := range []string{"s3cr3t ", `s3cr3t"`, `\s3cr3t`, "s3cr3t\n", "s3cr3t界"} {
			secret := strings.Repeat(unit, 8000)
			wanted := fieldtest.Deployment()
			wanted.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}
			p := newKnownPlan(&Object{Desired: wanted}, schema.GroupVersionKind{}, Created)
			p.gvk.Kind = "Deployment"
			filler := strings.Repeat("x", before)
			at := field.NewPath("spec", "template", "spec", "containers").Index(0)
			for name, err := range map[string]error{
				"value":   invalid(field.Invalid(at.Child("env").Index(0).Child("value"), filler+secret, "is bad")),
				"whole":   invalid(field.Invalid(at, map[string]any{"env": []string{filler, secret}}, "is bad")),
				"other":   invalid(field.Invalid(at.Child("args").Index(0), strings.Repeat("s3cr3t of another ", 8000), "is bad")),
				"webhook": statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: filler + `denied: PASSWORD=` + secret}},
				"quoted":  statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: fmt.Sprintf("%s denied: %q", filler, secret)}},
			} {
				got := (&Engine{}).classifyError(p, err)
				if _, shown, found := strings.Cut(got.Error()+outcomeOf(t, got).message, "s3cr"); found {
					t.Errorf("%s of %q after %d bytes: %.300s", name, unit, before, shown)
				}
			}
		}
	}
}

// TestTooLargeIsPermanent checks that an object that can never be stored is not tried again and again.
func TestTooLargeIsPermanent(t *testing.T) {
	for _, words := range []string{
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)", "etcdserver: request is too large",
	} {
		err := (&Engine{}).classifyError(planned(Created), statusError{metav1.Status{Reason: metav1.StatusReasonInternalError, Message: words}})
		if got := outcomeOf(t, err); got.class != "stalled" {
			t.Errorf("%q: %+v", words, got)
		}
	}
}

// TestQuotaFreed has refusals of a quota, and whether they end with the deletion of the object that counts.
func TestQuotaFreed(t *testing.T) {
	const counted = "count/statefulsets.apps"
	for words, want := range map[string]bool{
		`statefulsets.apps "db" is forbidden: exceeded quota: q, requested: count/statefulsets.apps=1, used: count/statefulsets.apps=1, limited: count/statefulsets.apps=1`: true,
		`statefulsets.apps "db" is forbidden: exceeded quota: q, requested: count/statefulsets.apps=1, used: count/statefulsets.apps=2, limited: count/statefulsets.apps=1`: false,
		`statefulsets.apps "db" is forbidden: exceeded quota: q, requested: cpu=1, used: cpu=1, limited: cpu=1`:                                                             false,
		`denied by policy`: false,
	} {
		err := statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: words}}
		if got := quotaFreed(err, counted); got != want {
			t.Errorf("%s: %t, want %t", words, got, want)
		}
	}
}
