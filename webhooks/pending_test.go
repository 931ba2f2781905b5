package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// reviewSpec returns the answer to the creation of a resource of the namespace shop, or to the change of its spec from old.
func reviewSpec(t *testing.T, s *validators, kind, old, spec string) admission.Response {
	t.Helper()
	object := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":"web"},"spec":%s}`, spec)}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Name: "web", Object: object(spec),
	}}
	if old != "" {
		req.Operation, req.OldObject = admissionv1.Update, object(old)
	}
	return handlersOf(s)[validatorPath(kind)].Handle(t.Context(), req)
}

// TestErrorsOfDefaultsWarn creates resources that depend on AppDefaults which do not exist, one of each kind: a sync can have both, and a refusal
// would prevent the AppDefaults too. An error that no AppDefaults remove is a refusal that has both. Where the AppDefaults are not known, nothing
// is said.
func TestErrorsOfDefaultsWarn(t *testing.T) {
	const route, size = "spec.httpRoute.parentRefs: Required", `Invalid value: "huge"`
	for name, c := range map[string]struct{ kind, spec, wrong, says string }{
		"the size of an App":           {"App", `{"image":"a:1","size":"huge"}`, `{"image":"a:1","size":"huge","minReadySeconds":600}`, "spec.size: " + size},
		"the Gateway of an App":        {"App", `{"image":"a:1","ports":[{"port":80}],"httpRoute":{}}`, `{"image":"a:1","ports":[{"port":80}],"httpRoute":{},"minReadySeconds":600}`, route},
		"the size of a ModelBox":       {"ModelBox", `{"image":"a:1","size":"huge"}`, `{"image":"a:1","size":"huge","minReadySeconds":600}`, "spec.size: " + size},
		"the Gateway of a ModelBox":    {"ModelBox", `{"image":"a:1","ports":[{"port":80}],"httpRoute":{}}`, `{"image":"a:1","ports":[{"port":80}],"httpRoute":{},"minReadySeconds":600}`, route},
		"the size of a Deployment":     {"UnitedDeployment", `{"replicas":1,"template":{"image":"a:1","size":"huge"}}`, `{"replicas":1,"template":{"image":"a:1","size":"huge","minReadySeconds":600}}`, "spec.template.size: " + size},
		"the size of a Task":           {"Task", `{"image":"a:1","schedule":"0 5 * * *","size":"huge"}`, `{"image":"a:1","size":"huge","schedule":"every day"}`, "spec.size: " + size},
		"the size of a front":          {"CloudManager", cloudSizes("huge", "", ""), cloudSizes("huge", "", `,"minReadySeconds":600`), "spec.front.deployment.size: " + size},
		"the size of a database":       {"CloudManager", cloudSizes("", "huge", ""), cloudSizes("", "huge", `,"minReadySeconds":600`), "spec.db.statefulSet.size: " + size},
		"the default size of a tenant": {kindAppDefaults, `{"defaults":{"size":"huge"}}`, `{"defaults":{"size":"huge"},"sizes":{"custom":{"limits":{"cpu":"1"}}}}`, "spec.defaults.size: " + size},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := secretWorld(t)
			s.ownNamespace = "system"
			answer := reviewSpec(t, s, c.kind, "", c.spec)
			if said := strings.Join(answer.Warnings, "\n"); !answer.Allowed || !strings.Contains(said, c.says) {
				t.Errorf("allowed is %t: %+v", answer.Allowed, answer)
			}
			answer = reviewSpec(t, s, c.kind, "", c.wrong)
			if answer.Allowed || !strings.Contains(answer.Result.Message, "spec.") {
				t.Errorf("another error is allowed: %+v", answer)
			}
			s.limits.looks = newPaces(0, 0, rate{time.Hour, 0})
			answer = reviewSpec(t, s, c.kind, "", c.spec)
			if said := strings.Join(answer.Warnings, "\n"); !answer.Allowed || strings.Contains(said, c.says) {
				t.Errorf("with AppDefaults that are not known, allowed is %t: %q", answer.Allowed, said)
			}
		})
	}
}

// TestErrorsBelowDefaults has AppDefaults with lists whose items come before those of an App: the errors of the App stay refusals, at the positions
// of the App.
func TestErrorsBelowDefaults(t *testing.T) {
	s, _ := secretWorld(t)
	app := &appv1.App{}
	app.Name, app.Namespace, app.Spec.Image = "web", "shop", "a:1"
	app.Spec.Envs = []corev1.EnvVar{{Name: "A", Value: "1", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	present := resource.LayerDefaults(&appv1.AppDefaultsSpec{Defaults: appv1.Defaults{Envs: []corev1.EnvVar{{Name: "REGION", Value: "a"}}}})
	seen, spec := s.today, resource.AppSpec(app)
	seen.Sizes, seen.Inputs.Defaults = present.Sizes, resource.TakeDefaults(&present, spec)
	built := buildWithDefaults(seen, spec, app.Name, func(with resource.BuildOptions) (*resource.Workload, field.ErrorList) {
		return s.buildServed(spec, with)
	})
	if len(built.errors) != 1 || built.errors[0].Field != "spec.envs[0].valueFrom" || len(built.pending) > 0 {
		t.Errorf("refused is %v, pending %v", built.errors, built.pending)
	}
}

// TestPendingErrorsOfKeptPods changes resources whose size is defined no longer. A change that leaves the pods as they are warns of nothing, as the
// pods keep their size.
func TestPendingErrorsOfKeptPods(t *testing.T) {
	const says = "Invalid until the AppDefaults or the spec have changed"
	for name, c := range map[string]struct {
		kind, old, spec string
		warns           bool
	}{
		"an App":                    {"App", `{"image":"a:1","size":"huge"}`, `{"image":"a:1","size":"huge","replicas":3}`, false},
		"an App with another image": {"App", `{"image":"a:1","size":"huge"}`, `{"image":"a:2","size":"huge"}`, true},
		"a ModelBox":                {"ModelBox", `{"image":"a:1","size":"huge"}`, `{"image":"a:1","size":"huge","paused":true}`, false},
		"a UnitedDeployment":        {"UnitedDeployment", `{"replicas":1,"template":{"image":"a:1","size":"huge"}}`, `{"replicas":2,"template":{"image":"a:1","size":"huge"}}`, false},
		"a CloudManager":            {"CloudManager", cloudSizes("huge", "huge", ""), strings.Replace(cloudSizes("huge", "huge", ""), "{", `{"paused":true,`, 1), false},
		"a CloudManager's image":    {"CloudManager", cloudSizes("huge", "huge", ""), strings.Replace(cloudSizes("huge", "huge", ""), "a:1", "a:2", 1), true},
		"an App with another field": {"App", `{"image":"a:1","ports":[{"port":80}]}`, `{"image":"a:1","ports":[{"port":80}],"httpRoute":{}}`, true},
		"another Deployment": {"UnitedDeployment", `{"replicas":1,"template":{"image":"a:1","size":"huge"}}`,
			`{"replicas":1,"deploymentName":"other","template":{"image":"a:1","size":"huge"}}`, true},
		"a Task": {"Task", `{"image":"a:1","schedule":"0 5 * * *","size":"huge"}`, `{"image":"a:1","schedule":"0 5 * * *","size":"huge","suspended":true}`, true},
	} {
		s, _ := secretWorld(t)
		answer := reviewSpec(t, s, c.kind, c.old, c.spec)
		if said := strings.Join(answer.Warnings, "\n"); !answer.Allowed || strings.Contains(said, says) != c.warns {
			t.Errorf("%s: allowed is %t, and says %q", name, answer.Allowed, said)
		}
	}
}

// cloudSizes returns a CloudManager with sizes, "" for none, and more fields of its front.
func cloudSizes(front, db, more string) string {
	size := func(name string) string {
		if name == "" {
			return ""
		}
		return fmt.Sprintf(`,"size":%q`, name)
	}
	return fmt.Sprintf(`{"front":{"deployment":{"image":"a:1"%s%s}},"identity":{"deployment":{"image":"a:1"}},`+
		`"db":{"statefulSet":{"image":"a:1","storage":{"size":"1Gi"}%s}}}`, size(front), more, size(db))
}

// TestErrorsOfThePreviousSpecWarn changes resources that were stored with an error. What has this error alone is allowed, such as a pause, a
// suspension or another number of pods; an additional error, or another value that is wrong, is refused.
func TestErrorsOfThePreviousSpecWarn(t *testing.T) {
	for name, c := range map[string]struct{ kind, old, spec, refusal string }{
		"a pause":               {"App", `{"image":"a:1","minReadySeconds":600}`, `{"image":"a:1","minReadySeconds":600,"paused":true}`, ""},
		"a number of pods":      {"ModelBox", `{"image":"a:1","minReadySeconds":600}`, `{"image":"a:1","minReadySeconds":600,"replicas":0}`, ""},
		"a number of a scaler":  {"UnitedDeployment", `{"template":{"image":"a:1","minReadySeconds":600},"replicas":1}`, `{"template":{"image":"a:1","minReadySeconds":600},"replicas":0}`, ""},
		"a suspension":          {"Task", `{"image":"a:1","schedule":"every day"}`, `{"image":"a:1","schedule":"every day","suspended":true}`, ""},
		"a pause of a database": {"CloudManager", cloudSizes("", "", `,"minReadySeconds":600`), strings.Replace(cloudSizes("", "", `,"minReadySeconds":600`), "{", `{"paused":true,`, 1), ""},
		"another wrong value":   {"App", `{"image":"a:1","minReadySeconds":600}`, `{"image":"a:1","minReadySeconds":700}`, "spec.minReadySeconds"},
		"an additional error":   {"App", `{"image":"a:1","minReadySeconds":600}`, `{"image":"a:1","minReadySeconds":600,"volumeMounts":[{"name":"a","mountPath":"/a"}]}`, "spec.volumeMounts"},
		"a fix of one error":    {"App", `{"image":"a:1","minReadySeconds":600,"volumeMounts":[{"name":"a","mountPath":"/a"}]}`, `{"image":"a:1","minReadySeconds":600}`, ""},
		"an item before the error": {"App", `{"image":"a:1","envs":[{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`,
			`{"image":"a:1","envs":[{"name":"B","value":"1"},{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`, ""},
		"the error once more": {"App", `{"image":"a:1","envs":[{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`,
			`{"image":"a:1","envs":[{"name":"B","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"A","value":"1","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}`, "spec.envs"},
		"a fix, and a new error":  {"App", `{"image":"a:1","minReadySeconds":600}`, `{"image":"a:1","volumeMounts":[{"name":"a","mountPath":"/a"}]}`, "spec.volumeMounts"},
		"an error that was right": {"App", `{"image":"a:1"}`, `{"image":"a:1","minReadySeconds":600}`, "spec.minReadySeconds"},
	} {
		s, _ := secretWorld(t)
		answer := reviewSpec(t, s, c.kind, c.old, c.spec)
		said := strings.Join(answer.Warnings, "\n")
		switch {
		case c.refusal != "":
			if answer.Allowed || !strings.Contains(answer.Result.Message, c.refusal) {
				t.Errorf("%s: allowed is %t: %+v", name, answer.Allowed, answer.Result)
			}
		case !answer.Allowed || !strings.Contains(said, "The previous spec has this error too"):
			t.Errorf("%s: allowed is %t: %+v, %q", name, answer.Allowed, answer.Result, said)
		}
	}
}
