package apply

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
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

// TestClassOfWordsThatAreHidden has each class that is read from words, about an object whose values are in these words, and about one with more values than
// are looked for, so that no words are shown. The class is that of the answer, and no value is in the message.
func TestClassOfWordsThatAreHidden(t *testing.T) {
	spec := field.NewPath("spec")
	forbidden := func(words string) error {
		return statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: words}}
	}
	failure := func(words string) error {
		return statusError{metav1.Status{Reason: metav1.StatusReasonInternalError, Message: words}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for name, c := range map[string]struct {
		wanted        client.Object
		kind, value   string
		err           error
		class, reason string
	}{
		"a message that is too large": {fieldtest.Deployment(), "Deployment", "larger", failure("grpc: trying to send message larger than max"), "stalled", appv1.ReasonInvalid},
		"a request that is too large": {fieldtest.Deployment(), "Deployment", "large", failure("etcdserver: request is too large"), "stalled", appv1.ReasonInvalid},
		"denied by a webhook": {
			fieldtest.Deployment(), "Deployment", "denied", apierrors.NewBadRequest(`admission webhook "policy.example" denied the request: no`), "failed", appv1.ReasonForbidden,
		},
		"denied by a policy": {
			fieldtest.Deployment(), "Deployment", "denied", statusError{metav1.Status{
				Reason: metav1.StatusReasonInvalid, Message: "ValidatingAdmissionPolicy 'small' with binding 'small' denied request: no",
			}}, "failed", appv1.ReasonForbidden,
		},
		"immutable": {fieldtest.Deployment(), "Deployment", "immutable", invalid(field.Invalid(spec.Child("selector"), "{…}", "field is immutable")), "stalled", appv1.ReasonImmutableField},
		"port taken": {
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, "Service", "provided",
			invalid(field.Invalid(spec.Child("ports").Index(1).Child("nodePort"), 30010, "provided port is already allocated")), "stalled", appv1.ReasonNodePortTaken,
		},
		"unknown field":          {fieldtest.Deployment(), "Deployment", "schema", failure(".spec.x: field not declared in schema"), "stalled", appv1.ReasonInvalid},
		"claim that cannot grow": {claim, "PersistentVolumeClaim", "resized", forbidden("only dynamically provisioned pvc can be resized"), "stalled", appv1.ReasonVolumeResizeFailed},
	} {
		many := map[string]string{"shop.example/key": c.value}
		for i := range 10_001 {
			many[fmt.Sprintf("shop.example/key-%d", i)] = fmt.Sprintf("%08d", i)
		}
		for about, annotations := range map[string]map[string]string{
			"no value": nil, "a value": {"shop.example/key": c.value}, "many values": many,
		} {
			wanted, _ := c.wanted.DeepCopyObject().(client.Object)
			wanted.SetAnnotations(annotations)
			p := &objectPlan{subject: subject{object: &Object{Desired: wanted}}, comparison: comparison{action: Configured}}
			p.gvk.Kind = c.kind
			err := (&Engine{}).classifyError(p, c.err)
			got := outcomeOf(t, err)
			if got.class != c.class || got.reason != c.reason {
				t.Errorf("%s, %s: %v", name, about, got)
			}
			if annotations != nil && strings.Contains(err.Error()+got.message, c.value) {
				t.Errorf("%s, %s, the value is shown: %v", name, about, got)
			}
			if about == "many values" && !strings.Contains(got.message, "more values that may be private") {
				t.Errorf("%s, %s: %v", name, about, got)
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
