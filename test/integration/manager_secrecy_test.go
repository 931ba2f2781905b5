package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// marked stands for what users put into variables, arguments and templates: nobody but who reads the spec may see it.
const marked = "m4rked.V4lue"

// markedSpecs are specs with the marked value wherever one may stand. Most of them are wrong, each in another way.
var markedSpecs = map[string]string{
	"right":                 `{image: a, envs: [{name: A, value: MARK}], args: [MARK], command: [MARK]}`,
	"nameless-container":    `{image: a, podTemplatePatch: {spec: {containers: [{image: MARK, env: [{name: A, value: MARK}]}]}}}`,
	"nameless-init":         `{image: a, podTemplatePatch: {spec: {initContainers: [{args: [MARK]}]}}}`,
	"nameless-env":          `{image: a, podTemplatePatch: {spec: {containers: [{name: nameless-env, env: [{value: MARK}]}]}}}`,
	"nameless-volume":       `{image: a, podTemplatePatch: {spec: {volumes: [{configMap: {name: MARK}}]}}}`,
	"text-for-a-pod":        `{image: a, podTemplatePatch: {spec: MARK}}`,
	"text-for-a-list":       `{image: a, podTemplatePatch: {spec: {containers: MARK}}}`,
	"text-for-a-number":     `{image: a, podTemplatePatch: {spec: {terminationGracePeriodSeconds: MARK}}}`,
	"list-for-a-map":        `{image: a, podTemplatePatch: {metadata: {annotations: [MARK]}}}`,
	"unknown-field":         `{image: a, podTemplatePatch: {spec: {unknown: MARK}}}`,
	"bad-directive":         `{image: a, podTemplatePatch: {spec: {$patch: MARK}}}`,
	"bad-order":             `{image: a, podTemplatePatch: {spec: {"$setElementOrder/containers": [{name: MARK}], containers: [{name: x, image: a}]}}}`,
	"bad-quantity":          `{image: a, podTemplatePatch: {spec: {containers: [{name: bad-quantity, resources: {limits: {cpu: MARK}}}]}}}`,
	"two-sources":           `{image: a, envs: [{name: A, value: MARK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
	"two-sources-patched":   `{image: a, podTemplatePatch: {spec: {containers: [{name: two-sources-patched, env: [{name: A, value: MARK, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}}}`,
	"bad-name":              `{image: a, envs: [{name: "=", value: MARK}]}`,
	"bad-field-path":        `{image: a, envs: [{name: A, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: MARK}}}]}`,
	"bad-exec":              `{image: a, probes: {readiness: {exec: {command: [MARK]}, httpGet: {port: 80}}}}`,
	"bad-header":            `{image: a, probes: {readiness: {httpGet: {port: 80, httpHeaders: [{name: "a b", value: MARK}]}}}}`,
	"bad-lifecycle":         `{image: a, lifecycle: {preStop: {exec: {command: [MARK]}, sleep: {seconds: 1}}}}`,
	"bad-mount":             `{image: a, envs: [{name: A, value: MARK}], volumeMounts: [{name: none, mountPath: /a}]}`,
	"bad-annotation":        `{image: a, podAnnotations: {"a b": MARK}, annotations: {"c d": MARK}}`,
	"bad-sidecar":           `{image: a, containers: [{name: bad-sidecar, image: b, env: [{name: A, value: MARK}]}]}`,
	"refused-as-invalid":    `{image: a, envs: [{name: A, value: MARK}], args: ["--token=MARK"]}`,
	"refused-as-forbidden":  `{image: a, envs: [{name: A, value: MARK}]}`,
	"refused-as-bad":        `{image: a, command: [MARK]}`,
	"refused-by-a-webhook":  `{image: a, envs: [{name: A, value: MARK}]}`,
	"failed":                `{image: a, envs: [{name: A, value: MARK}]}`,
	"refused-as-too-large":  `{image: a, envs: [{name: A, value: MARK}]}`,
	"refused-as-undeclared": `{image: a, podTemplatePatch: {spec: {containers: [{name: refused-as-undeclared, env: [{name: A, value: MARK}]}]}}}`,
}

// quotes are the answers of the API server to the Deployments of some Apps. Each repeats a value.
var quotes = map[string]func(name string) *apierrors.StatusError{
	"refused-as-invalid": func(name string) *apierrors.StatusError {
		at := field.NewPath("spec", "template", "spec", "containers").Index(0)
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, name, field.ErrorList{
			field.Invalid(at.Child("env").Index(0).Child("value"), marked, "must be something else"),
			field.Invalid(at.Child("args").Index(0), "--token="+marked, "must not be "+marked),
		})
	},
	"refused-as-forbidden": func(name string) *apierrors.StatusError {
		return apierrors.NewForbidden(appsv1.Resource("deployments"), name, errors.New("the value "+marked+" is forbidden"))
	},
	"refused-as-bad": func(string) *apierrors.StatusError { return apierrors.NewBadRequest("cannot read " + marked) },
	"refused-by-a-webhook": func(string) *apierrors.StatusError {
		return apierrors.NewBadRequest(`admission webhook "w" denied the request: A is "` + marked + `"`)
	},
	"failed": func(string) *apierrors.StatusError {
		return apierrors.NewInternalError(errors.New("no room for " + marked))
	},
	"refused-as-too-large": func(string) *apierrors.StatusError { return apierrors.NewRequestEntityTooLargeError("with " + marked) },
	"refused-as-undeclared": func(string) *apierrors.StatusError {
		return apierrors.NewInternalError(errors.New(`field not declared in schema: .spec.x, value "` + marked + `"`))
	},
}

// TestNoValueIsReported drives the operator through all ways in which a spec is refused, by itself and by the API server, and
// through repairs. No value that a spec or an edit has may stand in a condition, an event, the log or a metric.
func TestNoValueIsReported(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	l := &harness.Log{}
	plane.Start(t, ns, harness.WithLog(l), harness.WithForbidden(), harness.WithFault(
		func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if quote, ok := quotes[q.Name]; ok && q.Resource == "deployments" && q.Verb == "patch" {
				return harness.Answer(quote(q.Name)), nil
			}
			return send()
		}))
	for name, spec := range markedSpecs {
		app := parseApp(t, ns, name, strings.ReplaceAll(spec, "MARK", marked))
		if err := plane.Client.Create(t.Context(), app); err != nil {
			if apierrors.IsInvalid(err) {
				continue // The schema refuses it: the answer goes to who has written it.
			}
			t.Fatalf("%s: %v", name, err)
		}
		seen := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		plane.Until(t, seen, func() error {
			if len(seen.Status.Conditions) == 0 || seen.Status.ObservedGeneration != seen.Generation {
				return fmt.Errorf("%s was not looked at", name)
			}
			return nil
		})
	}
	repairMarkedEdits(t, ns)
	plane.Unreported(t, ns, marked, l)
}

// repairMarkedEdits edits a Deployment by hand, with the marked value, until the operator says that it is fought with.
func repairMarkedEdits(t *testing.T, ns string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "right"}}
	for i := range 7 {
		plane.Read(t, d)
		plane.Change(t, d, func() {
			c := &d.Spec.Template.Spec.Containers[0]
			c.Args, c.Command = []string{marked, fmt.Sprint(i)}, nil
			c.Env = []corev1.EnvVar{{Name: "A", Value: marked + fmt.Sprint(i)}}
		})
		if i < 5 {
			plane.Until(t, d, func() error {
				if got := d.Spec.Template.Spec.Containers[0].Env[0].Value; got != marked {
					return errors.New("the variable is not restored")
				}
				return nil
			})
		}
	}
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "right"}}
	plane.Stands(t, app, "Stalled=True/FieldConflict")
}
