package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// reviewDefaults returns the answer to a review of AppDefaults of the namespace shop.
func reviewDefaults(t *testing.T, s *validators, operation admissionv1.Operation, uid, old, spec string, dryRun bool) admission.Response {
	t.Helper()
	object := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"default","uid":%q},"spec":%s}`, uid, spec)}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "shop", Name: "default", Object: object(spec), DryRun: ptr.To(dryRun),
	}}
	if operation == admissionv1.Update {
		req.OldObject = object(old)
	}
	return (&defaultsHandler{s}).Handle(t.Context(), req)
}

// TestReviewOfDefaults refuses invalid AppDefaults, lets others pass, and plans in a dry run alone. To an author without proof it names no
// resource.
func TestReviewOfDefaults(t *testing.T) {
	s, _ := secretWorld(t)
	for name, c := range map[string]struct {
		operation  admissionv1.Operation
		uid        string
		old, spec  string
		dryRun     bool
		refused    bool
		says, hide string
	}{
		"valid":                    {admissionv1.Create, "", "", `{}`, false, false, "", "plan"},
		"invalid":                  {admissionv1.Create, "", "", `{"sizes":{"custom":{"limits":{"cpu":"1"}}}}`, false, true, "custom", ""},
		"out of bounds":            {admissionv1.Create, "", "", `{"defaults":{"resources":{"limits":{"cpu":"1e-100000000"}}}}`, false, true, "spec.defaults", ""},
		"too long":                 {admissionv1.Create, "", "", `{"defaults":{"labels":{"a":"` + strings.Repeat("x", 64<<10) + `"}}}`, false, true, "spec", ""},
		"an unknown size":          {admissionv1.Create, "", "", `{"defaults":{"size":"huge"}}`, false, true, "large, medium, small", ""},
		"blocks":                   {admissionv1.Create, "", "", `{"whenStated":{"httpRoute":{"annotations":{"a":"b"}},"ingress":{"className":"a"},"podMonitor":{"labels":{"a":"b"}}}}`, false, false, "", ""},
		"a parent twice":           {admissionv1.Create, "", "", `{"whenStated":{"httpRoute":{"parentRefs":[{"name":"a"},{"name":"a"}]}}}`, false, true, "spec.whenStated.httpRoute.parentRefs[1]", ""},
		"a label of a block":       {admissionv1.Create, "", "", `{"whenStated":{"podMonitor":{"labels":{"a":"b c"}}}}`, false, true, "spec.whenStated.podMonitor.labels", ""},
		"an annotation of a block": {admissionv1.Create, "", "", `{"whenStated":{"ingress":{"annotations":{"a b":"c"}}}}`, false, true, "spec.whenStated.ingress.annotations", ""},
		"a probe of a port that its container lacks": {admissionv1.Create, "", "", `{"defaults":{"containers":[{"name":"proxy","image":"a:1","ports":[{"name":"admin","containerPort":1}],"readinessProbe":{"httpGet":{"port":"metrics"}}}]}}`,
			false, true, "spec.defaults.containers[0].readinessProbe.httpGet.port", ""},
		"a root that must not be one": {admissionv1.Create, "", "", `{"defaults":{"podSecurityContext":{"runAsNonRoot":true},"containers":[{"name":"log","image":"a:1","securityContext":{"runAsUser":0}}]}}`,
			false, true, "spec.defaults.containers[0].securityContext.runAsUser", ""},
		"a port that each App declares":   {admissionv1.Create, "", "", `{"defaults":{"probes":{"readiness":{"httpGet":{"port":"http"}}},"lifecycle":{"preStop":{"httpGet":{"port":"admin"}}}}}`, false, false, "", ""},
		"a profile of the main container": {admissionv1.Create, "", "", `{"defaults":{"podAnnotations":{"container.apparmor.security.beta.kubernetes.io/main":"unconfined"}}}`, false, false, "", ""},
		"a profile of no container": {admissionv1.Create, "", "", `{"defaults":{"containerName":"app","podAnnotations":{"container.apparmor.security.beta.kubernetes.io/main":"unconfined"}}}`,
			false, true, "spec.defaults.podAnnotations", ""},
		"a container called main":        {admissionv1.Create, "", "", `{"defaults":{"containers":[{"name":"main","image":"a:1"}]}}`, false, false, "", ""},
		"a root that each App overrides": {admissionv1.Create, "", "", `{"defaults":{"podSecurityContext":{"runAsNonRoot":true,"runAsUser":0}}}`, false, false, "", ""},
		"invalid, as before":             {admissionv1.Update, "x", `{"defaults":{"size":"custom"}}`, `{"defaults":{"size":"custom"}}`, false, false, "", ""},
		"a dry run":                      {admissionv1.Create, "", "", `{}`, true, false, "with an empty spec", "17 Apps"},
		"a dry run without proof":        {admissionv1.Update, "guessed", `{"sizes":{}}`, `{}`, true, false, "with an empty spec", "17 Apps"},
		"a dry run with proof":           {admissionv1.Update, string(trueUID), `{"sizes":{}}`, `{}`, true, false, "secret-example", ""},
		"a deletion":                     {admissionv1.Delete, "", "", `{"sizes":{"custom":{}}}`, false, false, "", ""},
	} {
		answer := reviewDefaults(t, s, c.operation, c.uid, c.old, c.spec, c.dryRun)
		said := strings.Join(answer.Warnings, "\n")
		if answer.Result != nil {
			said += answer.Result.Message
		}
		if answer.Allowed == c.refused || !strings.Contains(said, c.says) || c.hide != "" && strings.Contains(said, c.hide) || len(said) > 4096 {
			t.Errorf("%s: allowed is %t: %.500s", name, answer.Allowed, said)
		}
	}
	s.limits.looks = newPaces(0, 0, rate{time.Hour, 0})
	const unknown = `{"defaults":{"size":"huge"}}`
	if answer := reviewDefaults(t, s, admissionv1.Create, "", "", unknown, false); !answer.Allowed {
		t.Errorf("a review without proof gets the names of sizes beyond the rate: %+v", answer.Result)
	}
	if answer := reviewDefaults(t, s, admissionv1.Update, string(trueUID), `{}`, unknown, false); answer.Allowed {
		t.Error("an update with proof is not refused beyond the rate")
	}
}
