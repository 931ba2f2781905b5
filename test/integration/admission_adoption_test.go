package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// createAdoptee makes a Deployment and a Service by hand that an App of the name takes over, with a sidecar and more that it does
// not state.
func createAdoptee(t *testing.T, ns, name string) *appsv1.Deployment {
	t.Helper()
	d := newHandMade(ns, name)
	pod := &d.Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "w", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Containers = []corev1.Container{
		{Name: name, Image: "nginx:old", Command: []string{"hunter2"}, Env: []corev1.EnvVar{{Name: "THEIRS", Value: "hunter2"}}},
		{Name: "helper", Image: "envoy"},
	}
	plane.Create(t, d, newHandMadeService(ns, name))
	return d
}

// aboutAdoption returns the warnings that speak of an adoption. None is longer than the API server lets through.
func aboutAdoption(t *testing.T, said []string) []string {
	t.Helper()
	var found []string
	for _, line := range said {
		if strings.Contains(line, "adopted") {
			found = append(found, line)
		}
		if strings.Contains(line, "hunter2") {
			t.Errorf("a warning repeats a value: %s", line)
		}
	}
	for _, line := range found {
		if len(line) > 256 {
			t.Errorf("a warning of %d characters may be cut: %s", len(line), line)
		}
	}
	return found
}

// TestAdoptionIsAnnounced creates an App that takes over what others made, first paused: the creation says in general what an
// adoption does, a change says it of each object, and the adoption then does just that.
func TestAdoptionIsAnnounced(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	d := createAdoptee(t, ns, "web")
	m.Idle(t)
	m.Requests.Reset()
	u := newUser(t)
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	app.Spec.Paused = true
	if err := u.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	said := aboutAdoption(t, u.warnings())
	if len(said) != 2 || !strings.HasPrefix(said[1], "Service web exists and will be adopted unless it serves pods of others: ports not in") ||
		!strings.HasPrefix(said[0], "Deployment web exists and will be adopted: containers not in the spec are removed") ||
		!strings.HasSuffix(said[0], "apply it paused and dry-run a change") {
		t.Errorf("a creation warns of %q", said)
	}
	m.Idle(t)
	if got := m.Requests.Counts(); got["get deployments"] != 1 || got["get services"] != 1 {
		t.Errorf("objects of others are read for more, or less, than the status of what is paused: %v", got)
	}

	plane.Read(t, app)
	resumed := app.DeepCopy()
	resumed.Spec.Paused = false
	if err := u.Update(t.Context(), resumed, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	said = aboutAdoption(t, u.warnings())
	const want = "Deployment web exists and will be adopted: removes containers[helper]; keeps command, env[THEIRS], volumes[w]; changes "
	if len(said) != 2 || !strings.HasPrefix(said[0], want) || !strings.Contains(said[0], "image") || !strings.HasSuffix(said[0], "; replaces its pods") {
		t.Errorf("a change warns of %q\nwant %q", said, want)
	}
	// While it stays paused, nothing is taken over yet.
	plane.Read(t, app)
	still := app.DeepCopy()
	still.Spec.Image = "nginx:2"
	if err := u.Update(t.Context(), still, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said = aboutAdoption(t, u.warnings()); len(said) != 2 || !strings.Contains(said[0], "will be adopted once spec.paused is false: removes containers[helper]") {
		t.Errorf("a change of a paused App warns of %q", said)
	}

	plane.Change(t, app, func() { app.Spec.Paused = false })
	plane.Stands(t, app, progressing...)
	plane.Read(t, d)
	if c := containerOf(d); len(d.Spec.Template.Spec.Containers) != 1 || len(c.Command) != 1 || len(c.Env) != 1 || len(d.Spec.Template.Spec.Volumes) != 1 {
		t.Errorf("the adoption does otherwise: %+v", d.Spec.Template.Spec)
	}
	plane.Read(t, app)
	app.Spec.Image = "nginx:3"
	if err := u.Update(t.Context(), app, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said = aboutAdoption(t, u.warnings()); len(said) > 0 {
		t.Errorf("what is taken over is warned of: %q", said)
	}
}

// TestAdoptionByAnnotationIsAnnounced annotates an App that stands in its own way. The spec stays as it is.
func TestAdoptionByAnnotationIsAnnounced(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	createAdoptee(t, ns, "web")
	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, exists...)
	u := newUser(t)
	plane.Read(t, app)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	if err := u.Update(t.Context(), app, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said := aboutAdoption(t, u.warnings()); len(said) != 2 || !strings.Contains(said[0], "removes containers[helper]") {
		t.Errorf("the annotation warns of %q", said)
	}
	plane.Read(t, app)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "yes"}
	if err := u.Update(t.Context(), app, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said := u.warnings(); len(said) != 1 || !strings.Contains(said[0], "has no effect") {
		t.Errorf("an annotation without effect warns of %q", said)
	}
}

// TestAdoptionByUnitedDeploymentIsAnnounced annotates a UnitedDeployment with a template whose Deployment others made. Without a template, and
// without the annotation, the Deployment is scaled alone, and there is no warning.
func TestAdoptionByUnitedDeploymentIsAnnounced(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	createAdoptee(t, ns, "web")
	ud := fixture.NewUnitedDeployment(ns, "united", "web")
	plane.Create(t, ud)
	m.Idle(t)
	u := newUser(t)
	for name, c := range map[string]struct {
		change func(ud *appv1.UnitedDeployment)
		most   int
		says   string
	}{
		"annotation alone": {func(ud *appv1.UnitedDeployment) { ud.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} }, 0, ""},
		"template alone":   {func(ud *appv1.UnitedDeployment) { ud.Spec.Template = &appv1.WorkloadSpec{Image: "nginx:1.17"} }, 0, ""},
		"both": {func(ud *appv1.UnitedDeployment) {
			ud.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			ud.Spec.Template = &appv1.WorkloadSpec{Image: "nginx:1.17"}
		}, 1, "Deployment web exists and will be adopted: removes containers[helper]"},
	} {
		plane.Read(t, ud)
		changed := ud.DeepCopy()
		c.change(changed)
		if err := u.Update(t.Context(), changed, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		said := aboutAdoption(t, u.warnings())
		if len(said) != c.most || c.most > 0 && !strings.Contains(said[0], c.says) {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestAdoptionKnowsTheSizesOfTheCluster annotates a resource of each kind that warns of the adoption of a Deployment. Its size means in the
// cluster what the Deployment in its way has: the warning names no resources. Of another size, it does.
func TestAdoptionKnowsTheSizesOfTheCluster(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	small, _ := newCPUSize("small", "3")
	medium, _ := newCPUSize("medium", "4")
	newSizes(t, ns, map[string]string{"small": small, "medium": medium})
	startGuarded(t, ns)
	amounts := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("3")}
	for kind, c := range map[string]struct {
		spec, child string
		size        []string
	}{
		"App":      {`{image: 'nginx:1', size: small}`, "app", []string{"spec", "size"}},
		"ModelBox": {`{image: 'nginx:1', size: small}`, "modelbox", []string{"spec", "size"}},
	} {
		d := newHandMade(ns, c.child)
		d.Spec.Template.Spec.Containers = []corev1.Container{{
			Name: c.child, Image: "nginx:old", Resources: corev1.ResourceRequirements{Requests: amounts},
		}}
		plane.Create(t, d)
		obj := parseApp(t, ns, strings.ToLower(kind), strings.ReplaceAll(c.spec, "\t", " "))
		obj.SetKind(kind)
		plane.Create(t, obj)
		warnings := map[string]string{}
		for _, size := range []string{"small", "medium"} {
			u := newUser(t)
			if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The manager writes the status.
				plane.Read(t, obj)
				changed := obj.DeepCopy()
				changed.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
				if err := unstructured.SetNestedField(changed.Object, size, c.size...); err != nil {
					return err
				}
				return u.Update(t.Context(), changed, client.DryRunAll)
			}); err != nil {
				t.Fatal(err)
			}
			said := slices.DeleteFunc(aboutAdoption(t, u.warnings()), func(line string) bool { return !strings.HasPrefix(line, "Deployment "+c.child+" ") })
			if len(said) != 1 {
				t.Fatalf("%s, %s: the annotation warns of %q", kind, size, said)
			}
			warnings[size] = said[0]
		}
		// A long list of fields ends with how many more there are.
		if strings.Contains(warnings["small"], "resources") || warnings["small"] == warnings["medium"] {
			t.Errorf("%s: the annotation warns of %q", kind, warnings)
		}
	}
}

// postReview sends a review straight to the webhooks' port and returns the answer.
func postReview(t *testing.T, port int, operation admissionv1.Operation, app, old *appv1.App) *admissionv1.AdmissionResponse {
	t.Helper()
	return postReviewAs(t, port, operation, app, old, false)
}

// postReviewAs is post for a dry run, or not.
func postReviewAs(t *testing.T, port int, operation admissionv1.Operation, app, old *appv1.App, dryRun bool) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "forged", Operation: operation, Namespace: app.Namespace, Name: app.Name,
			Kind:     metav1.GroupVersionKind{Group: appv1.GroupVersion.Group, Version: "v1", Kind: "App"},
			Resource: metav1.GroupVersionResource{Group: appv1.GroupVersion.Group, Version: "v1", Resource: "apps"},
			Object:   runtime.RawExtension{Raw: marshalJSON(t, app)}, DryRun: &dryRun,
		},
	}
	if old != nil {
		review.Request.OldObject = runtime.RawExtension{Raw: marshalJSON(t, old)}
	}
	poster := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // Who posts is the attacker.
	answer, err := poster.Post(fmt.Sprintf("https://127.0.0.1:%d/validate-app-huolala-cn-v1-app", port), "application/json", bytes.NewReader(marshalJSON(t, review)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // It was only read.
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	review = admissionv1.AdmissionReview{}
	if err := json.Unmarshal(data, &review); err != nil || review.Response == nil {
		t.Fatalf("answer %d: %s", answer.StatusCode, data)
	}
	return review.Response
}

// TestForgedReviewLearnsNothing posts reviews straight to the webhooks' port, as any pod can. Without the UID of the App as it
// is stored, they cause no request to the API server and learn no field of what the App does not control.
func TestForgedReviewLearnsNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	opts := plane.Webhooks(t, ns)
	m := plane.Start(t, ns, harness.WithWebhooks(opts))
	awaitWebhooks(t, ns)
	createAdoptee(t, ns, "web")
	createAdoptee(t, ns, "other")
	app := newApp(ns, "web")
	app.Spec.Paused = true
	app.Spec.PodSecurityContext, app.Spec.SecurityContext = restrictedContexts()
	plane.Create(t, app)
	m.Idle(t)
	plane.Read(t, app)

	forge := func(change func(app, old *appv1.App)) (*appv1.App, *appv1.App) {
		wanted, old := app.DeepCopy(), app.DeepCopy()
		wanted.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
		change(wanted, old)
		return wanted, old
	}
	uid := func(obj *appv1.App, id types.UID) { obj.UID = id }
	for name, c := range map[string]struct {
		operation admissionv1.Operation
		change    func(app, old *appv1.App)
	}{
		"create":                      {admissionv1.Create, func(*appv1.App, *appv1.App) {}},
		"create without a uid":        {admissionv1.Create, func(app, _ *appv1.App) { uid(app, "") }},
		"update, no uid":              {admissionv1.Update, func(app, old *appv1.App) { uid(app, ""); uid(old, "") }},
		"update, a uid of its own":    {admissionv1.Update, func(app, old *appv1.App) { uid(app, "x"); uid(old, "x") }},
		"update, the old uid forged":  {admissionv1.Update, func(_, old *appv1.App) { uid(old, "x") }},
		"update, the new uid forged":  {admissionv1.Update, func(app, _ *appv1.App) { uid(app, "x") }},
		"update of an App not stored": {admissionv1.Update, func(app, old *appv1.App) { app.Name, old.Name = "other", "other" }},
		"update with a changed spec":  {admissionv1.Update, func(app, old *appv1.App) { uid(old, "x"); app.Spec.Image = "a:1" }},
	} {
		m.Requests.Reset()
		wanted, old := forge(c.change)
		if c.operation == admissionv1.Create {
			old = nil
		}
		said := postReview(t, opts.Port, c.operation, wanted, old)
		if !said.Allowed || len(aboutAdoption(t, said.Warnings)) != 2 {
			t.Errorf("%s: the answer is %v", name, said)
		}
		for _, secret := range []string{"helper", "THEIRS", "[w]", "hunter2", "command"} {
			if answer := fmt.Sprint(said); strings.Contains(answer, secret) {
				t.Errorf("%s: the answer says %q: %s", name, secret, answer)
			}
		}
		if got := m.Requests.Counts(); len(got) > 0 {
			t.Errorf("%s: requests are %v", name, got)
		}
	}
	m.Requests.Reset()
	wanted, old := forge(func(*appv1.App, *appv1.App) {})
	if said := postReview(t, opts.Port, admissionv1.Update, wanted, old); !strings.Contains(fmt.Sprint(said.Warnings), "containers[helper]") {
		t.Errorf("who knows the App is answered %v", said)
	}
	want := map[string]int{"get deployments": 1, "get services": 1, "patch deployments": 1, "patch services": 1}
	if got := m.Requests.Counts(); !maps.Equal(got, want) {
		t.Errorf("requests are %v, want one read and one dry run of each object", got)
	}
}

// TestAdoptionIsAnnouncedInTime asks what an adoption does of an API server that answers no read, or no dry run. The general answer comes.
func TestAdoptionIsAnnouncedInTime(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "patch"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			var broken atomic.Bool
			startGuarded(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if broken.Load() && q.Verb == verb && (q.Resource == "deployments" || q.Resource == "services") {
					return nil, fmt.Errorf("no answer in time")
				}
				return send()
			}))
			createAdoptee(t, ns, "web")
			app := newApp(ns, "web")
			app.Spec.Paused = true
			plane.Create(t, app)
			plane.Stands(t, app, "Stalled=True/ResourceExists")
			plane.Read(t, app)
			broken.Store(true)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			u := newUser(t)
			if err := u.Update(t.Context(), app, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if said := aboutAdoption(t, u.warnings()); len(said) != 2 || !strings.Contains(said[0], "containers not in the spec are removed") {
				t.Errorf("without an answer it warns of %q", said)
			}
		})
	}
}
