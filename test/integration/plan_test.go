package integration

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// planOf returns the plan of a change of an App, without the words that each line begins with. One that is refused has none.
func planOf(t *testing.T, u *user, app *appv1.App, change func(*appv1.App), opts ...client.UpdateOption) []string {
	t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		plane.Read(t, app)
		wanted := app.DeepCopy()
		change(wanted)
		u.plan()
		return u.Update(t.Context(), wanted, append(opts, client.DryRunAll)...)
	}); err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return withoutBegin(t, u.plan(), "App "+app.Namespace+"/"+app.Name+": ")
}

// withoutBegin returns lines of a plan without what each begins with. None may be one that the API server cuts.
func withoutBegin(t *testing.T, said []string, begin string) []string {
	t.Helper()
	var lines []string
	for _, line := range said {
		rest, ok := strings.CutPrefix(line, begin)
		if !ok {
			t.Errorf("a line does not begin with %q: %s", begin, line)
		}
		if len("plan: "+line) > 240 {
			t.Errorf("a line has %d bytes: %s", len(line), line)
		}
		lines = append(lines, rest)
	}
	return lines
}

// planCases are changes of an App, and what their plans say.
var planCases = map[string]struct {
	change func(*appv1.App)
	want   []string
}{
	"image": {func(a *appv1.App) { a.Spec.Image = "nginx:1.17.0" }, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Deployment web: template.containers[web].image: nginx:1.16.1 -> nginx:1.17.0",
	}},
	"a target port": {func(a *appv1.App) { a.Spec.Ports[0].TargetPort.IntVal = 81 }, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Service web: changed",
		"Deployment web: template.containers[web].ports[80/TCP]: removed",
		"Deployment web: template.containers[web].ports[81/TCP]: added",
		"Deployment web: template.containers[web].readinessProbe.tcpSocket.port: 80 -> 81",
		"Service web: ports[8080/TCP].targetPort: 80 -> 81",
	}},
	"fewer pods": {func(a *appv1.App) { a.Spec.Replicas = ptr.To[int32](1) }, []string{
		"Deployment web: changed, 2 pods become 1",
		"no pod is replaced",
		"Deployment web: replicas: 2 -> 1",
	}},
	"an argument": {func(a *appv1.App) { a.Spec.Args = []string{"hunter2"} }, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Deployment web: template.containers[web].args: added",
	}},
	"variables": {func(a *appv1.App) {
		a.Spec.Envs = []corev1.EnvVar{{Name: "OLD", Value: "hunter2"}, {Name: "NEW", Value: "hunter2"}}
	}, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Deployment web: template.containers[web].env[NEW]: added",
		"Deployment web: template.containers[web].env[OLD]: changed",
	}},
	"a patch": {func(a *appv1.App) {
		a.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec":{"hostAliases":[{"ip":"10.0.0.1","hostnames":["hunter2"]}],"containers":[{"name":"web","env":[{"name":"P","value":"hunter2"}]}]}}`)}
	}, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Deployment web: template.containers[web].env[P]: added",
		"Deployment web: template.hostAliases[10.0.0.1]: added",
	}},
	"no ports": {func(a *appv1.App) { a.Spec.Ports = nil }, []string{
		"Deployment web: changed, 2 pods are replaced, none is missing meanwhile",
		"Service web: deleted",
	}},
	"nothing but the pause": {func(a *appv1.App) { a.Spec.Paused = true }, []string{"nothing changes"}},
	"a refresh": {func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationRefresh: "2"} }, []string{
		"Deployment web: changed",
		"no pod is replaced",
		"Deployment web: its record annotations: changed",
	}},
	"a label": {func(a *appv1.App) { a.Spec.Labels = map[string]string{"team": "a"} }, []string{
		"Deployment web: changed",
		"Service web: changed",
		"no pod is replaced",
		"Deployment web: metadata.labels[team]: added",
		"Service web: metadata.labels[team]: added",
	}},
	"a note for others": {func(a *appv1.App) { a.Annotations = map[string]string{"example.com/note": "x"} }, nil},
	"a control sequence": {func(a *appv1.App) {
		a.Spec.Labels = map[string]string{"team": "a"}
		a.Spec.Image = "nginx:1.16.1\x1b[31m"
	}, nil},
}

// TestPlan has a dry run of each change: it says what would happen, in lines that the API server lets through, and happens not.
func TestPlan(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	u := newUser(t)
	app := newApp(ns, "web")
	app.Spec.Envs = []corev1.EnvVar{{Name: "OLD", Value: "old-hunter2"}}
	if err := u.Create(t.Context(), app.DeepCopy(), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Deployment web: created", "Service web: created"}, withoutBegin(t, u.plan(), "App "+ns+"/web: ")); diff != "" {
		t.Errorf("the plan of the creation (-want +got):\n%s", diff)
	}
	d, s := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	was, wasService := readWhole(t, d), readWhole(t, s)
	m.Requests.Reset()
	for name, c := range planCases {
		got := planOf(t, u, app, c.change)
		if len(c.want) < len(got) && len(c.want) > 0 && name == "no ports" {
			got = got[:len(c.want)] // What goes with a port in the template is not of interest here.
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, line := range got {
			if strings.Contains(line, "hunter2") || strings.Contains(line, "\x1b") {
				t.Errorf("%s: a line has a value: %s", name, line)
			}
		}
	}
	if got := m.Requests.Stored(); len(got) > 0 {
		t.Errorf("plans have written %v", got)
	}
	checkUntouched(t, d, was)
	checkUntouched(t, s, wasService)
}

// askPlan sends a dry run that asks for the plan as data.
func askPlan(t *testing.T, c client.Client, obj client.Object) *plan.Plan {
	t.Helper()
	annotations := map[string]string{appv1.AnnotationPlan: plan.Request}
	for key, value := range obj.GetAnnotations() {
		annotations[key] = value
	}
	obj.SetAnnotations(annotations)
	stored := obj.GetResourceVersion() != ""
	ask := func() error {
		if !stored {
			return c.Create(t.Context(), obj, client.DryRunAll)
		}
		live := &metav1.PartialObjectMetadata{} // Its status may be written meanwhile.
		live.SetGroupVersionKind(kindOf(t, obj))
		live.SetNamespace(obj.GetNamespace())
		live.SetName(obj.GetName())
		plane.Read(t, live)
		obj.SetResourceVersion(live.ResourceVersion)
		return c.Update(t.Context(), obj, client.DryRunAll)
	}
	var err error
	var made *plan.Plan
	harness.Eventually(t, func() (wrong error) {
		if err = ask(); err == nil { // The answer to such a request is an error.
			obj.SetResourceVersion("")
			return errors.New("the API server did not wait for the webhook, as on a busy machine")
		}
		if apierrors.IsConflict(err) {
			return err
		}
		if made, wrong = plan.Decode(err); wrong == nil && made.Incomplete {
			return errors.New("not all was answered in time, as on a busy machine")
		}
		return wrong
	})
	var status apierrors.APIStatus
	if status, _ = err.(apierrors.APIStatus); status == nil || status.Status().Code != http.StatusUnprocessableEntity {
		t.Errorf("the answer is %v", err)
	}
	return made
}

// TestPlanAsData asks for plans of each kind as data: a new one names its objects, and a change of one says what changes.
func TestPlanAsData(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	yearly := func(image string) string {
		return fmt.Sprintf(`{image: %q, command: [a], schedule: %q}`, image, fixture.Schedule)
	}
	const cloudManager = `{front: {deployment: {image: a, ports: [{port: 80}]}}, identity: {deployment: {image: a, ports: [{port: 80}]}},
		db: {statefulSet: {image: a, storage: {size: 1Gi}, ports: [{port: 3306}]}}}`
	for kind, c := range map[string]struct{ spec, change, created, changed string }{
		"App":              {`{image: "a:1", ports: [{port: 80}]}`, `{image: "a:2", ports: [{port: 80}]}`, "Deployment x-app, Service x-app", "Deployment x-app"},
		"ModelBox":         {`{image: "a:1"}`, `{image: "a:2"}`, "Deployment x-modelbox", "Deployment x-modelbox"},
		"UnitedDeployment": {`{deploymentName: ud, replicas: 1, template: {image: "a:1"}}`, `{deploymentName: ud, replicas: 2, template: {image: "a:1"}}`, "Deployment ud", "Deployment ud"},
		"Task":             {yearly("a:1"), yearly("a:2"), "CronJob x-task", "CronJob x-task"},
		"CloudManager": {
			cloudManager, strings.Replace(cloudManager, "image: a,", `image: "a:2",`, 1),
			"StatefulSet x-cloudmanager-db, Service x-cloudmanager-db-headless, Service x-cloudmanager-db, Deployment x-cloudmanager-identity, Service x-cloudmanager-identity, Deployment x-cloudmanager-front, Service x-cloudmanager-front", "",
		},
	} {
		name := "x-" + strings.ToLower(kind)
		made := askPlan(t, plane.Client, parseResource(t, ns, name, kind, c.spec))
		if got := namesOf(made); !sameNames(got, c.created) || !made.Created || made.Kind != kind || made.Name != name || made.Version != plan.Version {
			t.Errorf("%s: the plan of the creation is %+v: %s", kind, made, got)
		}
		obj := parseResource(t, ns, name, kind, c.spec)
		plane.Create(t, obj)
		m.Idle(t)
		plane.Read(t, obj)
		obj.Object["spec"] = parseResource(t, ns, name, kind, c.change).Object["spec"]
		made = askPlan(t, plane.Client, obj)
		if got := namesOf(made); c.changed != "" && !sameNames(got, c.changed) || made.Created || made.Incomplete {
			t.Errorf("%s: the plan of the change is %+v: %s", kind, made, got)
		}
	}
	made := askPlan(t, plane.Client, parseResource(t, ns, "of-an-app", "Task", `{app: x-app, command: [a], schedule: "`+fixture.Schedule+`"}`))
	if got := namesOf(made); got != "CronJob of-an-app" {
		t.Errorf("the plan of the creation of a Task of an App is %+v: %s", made, got)
	}
}

// TestStoredPlanAsksNothing stores the annotation that asks for a plan: it denies no dry run of others, and the user is told.
func TestStoredPlanAsksNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	app := newApp(ns, "web")
	app.Annotations = map[string]string{plan.Annotation: plan.Request}
	plane.Create(t, app)
	app.Spec.Image = "nginx:1.17"
	if err := plane.Client.Update(t.Context(), app.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run of an App with a stored annotation: %v", err)
	}
	if said := validation.AnnotationWarnings(app); len(said) != 1 || !strings.Contains(said[0], "remove it") {
		t.Errorf("warnings are %q", said)
	}
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Annotations = nil })
	askPlan(t, plane.Client, app)
}

func sameNames(got, want string) bool {
	a, b := strings.Split(got, ", "), strings.Split(want, ", ")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// namesOf are the kinds and names of the objects of a plan.
func namesOf(made *plan.Plan) string {
	var names []string
	for _, o := range made.Objects {
		names = append(names, o.Kind+" "+o.Name)
	}
	return strings.Join(names, ", ")
}

// TestPlanCostsNothingElse changes an App as users do: without a dry run nothing is asked, also not with the annotation, and tools
// that make dry runs all the time are not answered.
func TestPlanCostsNothingElse(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	u := newUser(t)
	app := newApp(ns, "web")
	app.Spec.PodSecurityContext, app.Spec.SecurityContext = restrictedContexts()
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	m.Idle(t)
	m.Requests.Reset()
	for _, manager := range []string{"argocd-controller", "kustomize-controller"} {
		if lines := planOf(t, u, app, func(a *appv1.App) { a.Spec.Image = "nginx:2" }, client.FieldOwner(manager)); len(lines) > 0 {
			t.Errorf("%s is told %q", manager, lines)
		}
	}
	if got := m.Requests.Counts(); len(got) > 0 {
		t.Errorf("their dry runs cost %v", got)
	}
	if err := updateWithRetry(t, u, app, func() {
		app.Annotations = map[string]string{appv1.AnnotationPlan: plan.Request}
		app.Spec.Image = "nginx:3"
	}); err != nil {
		t.Fatal(err)
	}
	awaitImage(t, d, "nginx:3")
	m.Idle(t)
	if lines := u.plan(); len(lines) > 0 {
		t.Errorf("a change is answered with %q", lines)
	}
	if diff := cmp.Diff(map[string]int{"patch deployments": 1, "patch apps/status": 1}, m.Requests.Writes()); diff != "" || m.Requests.Reads() > 0 {
		t.Errorf("a change costs other requests (-want +got):\n%s and %d reads", diff, m.Requests.Reads())
	}
}

// TestForgedPlan posts dry runs straight to the webhooks' port, as any pod can. Without the UID of the App as it is stored they
// cause no request to the API server and learn no value.
func TestForgedPlan(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	opts := plane.Webhooks(t, ns)
	m := plane.Start(t, ns, harness.WithWebhooks(opts))
	awaitWebhooks(t, ns)
	app := newApp(ns, "web")
	app.Spec.PodSecurityContext, app.Spec.SecurityContext = restrictedContexts()
	app.Spec.Envs = []corev1.EnvVar{{Name: "SECRET_NAME", Value: "hunter2"}}
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	m.Idle(t)
	plane.Read(t, app)
	for name, c := range map[string]struct {
		operation admissionv1.Operation
		change    func(app, old *appv1.App)
	}{
		"create":                      {admissionv1.Create, func(*appv1.App, *appv1.App) {}},
		"create of another name":      {admissionv1.Create, func(app, _ *appv1.App) { app.UID, app.Name = "", "web2" }},
		"update, no uid":              {admissionv1.Update, func(app, old *appv1.App) { app.UID, old.UID = "", "" }},
		"update, a uid of its own":    {admissionv1.Update, func(app, old *appv1.App) { app.UID, old.UID = "x", "x" }},
		"update, the old uid forged":  {admissionv1.Update, func(_, old *appv1.App) { old.UID = "x" }},
		"update, the new uid forged":  {admissionv1.Update, func(app, _ *appv1.App) { app.UID = "x" }},
		"update of an App not stored": {admissionv1.Update, func(app, old *appv1.App) { app.Name, old.Name = "other", "other" }},
		"update of another namespace": {admissionv1.Update, func(app, old *appv1.App) { app.Namespace, old.Namespace = "default", "default" }},
	} {
		for _, asks := range []string{"", plan.Request} {
			m.Requests.Reset()
			wanted, old := app.DeepCopy(), app.DeepCopy()
			wanted.Annotations = map[string]string{appv1.AnnotationPlan: asks}
			wanted.Spec.Image, wanted.Spec.Envs = "forged:1", nil
			c.change(wanted, old)
			if c.operation == admissionv1.Create {
				old = nil
			}
			said := fmt.Sprint(postReviewAs(t, opts.Port, c.operation, wanted, old, true))
			for _, secret := range []string{"hunter2", "SECRET_NAME", "nginx", "1.16.1", "8080", string(d.UID)} {
				if strings.Contains(said, secret) {
					t.Errorf("%s %s: the answer has %q: %s", name, asks, secret, said)
				}
			}
			if got := m.Requests.Counts(); len(got) > 0 {
				t.Errorf("%s %s: requests are %v", name, asks, got)
			}
		}
	}
	m.Requests.Reset()
	wanted := app.DeepCopy()
	wanted.Spec.Image = "nginx:2"
	said := postReviewAs(t, opts.Port, admissionv1.Update, wanted, app, true)
	if !strings.Contains(fmt.Sprint(said.Warnings), "nginx:1.16.1 -> nginx:2") {
		t.Errorf("who knows the App is answered %v", said)
	}
	if got := m.Requests.Counts(); got["patch deployments"] != 1 || len(got) != 1 || len(m.Requests.Stored()) > 0 {
		t.Errorf("requests are %v, want one dry run", got)
	}
}

// TestPlanOfOthersObjects plans next to objects of others: they are named with who owns them, and, where they would be taken over,
// with the fields that change, and never with values.
func TestPlanOfOthersObjects(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	u := newUser(t)
	createAdoptee(t, ns, "web")
	app := newApp(ns, "web")
	if err := u.Create(t.Context(), app.DeepCopy(), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(u.plan(), "\n"); !strings.Contains(said, "ResourceExists: ") {
		t.Errorf("a creation is told %q", said)
	}
	plane.Create(t, app)
	plane.Stands(t, app, exists...)
	m.Idle(t)
	said := planOf(t, u, app, func(a *appv1.App) { a.Spec.Image = "nginx:2" })
	if len(said) != 1 || !strings.HasPrefix(said[0], "ResourceExists: Deployment web exists") {
		t.Errorf("a change is told %q", said)
	}
	said = planOf(t, u, app, func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} })
	all := strings.Join(said, "\n")
	if !strings.Contains(all, "Deployment web: exists and is taken over") || !strings.Contains(all, "template.containers[helper]: removed") ||
		!strings.Contains(all, "template.containers[web].image: changed") {
		t.Errorf("an adoption is told:\n%s", all)
	}
	for _, value := range []string{"hunter2", "nginx:old", "->", "envoy"} {
		if strings.Contains(all, value) {
			t.Errorf("an adoption is told the value %q:\n%s", value, all)
		}
	}
}

// TestPlanHidesValues plans every spec that has a marked value where one may stand, and its removal.
func TestPlanHidesValues(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns, harness.WithForbidden())
	for name := range markedSpecs {
		plane.Create(t, parseApp(t, ns, "v-"+name, "{image: a}"))
	}
	m.Idle(t)
	seen := 0
	for _, removed := range []bool{false, true} {
		for name, spec := range markedSpecs {
			now := strings.ReplaceAll(spec, "MARK", marked)
			if removed {
				now = "{image: b}"
			}
			app := parseApp(t, ns, "v-"+name, now)
			live := app.DeepCopy()
			plane.Read(t, live)
			live.Object["spec"] = app.Object["spec"]
			live.SetAnnotations(map[string]string{appv1.AnnotationPlan: plan.Request})
			made, wrong := plan.Decode(plane.Client.Update(t.Context(), live.DeepCopy(), client.DryRunAll))
			if wrong != nil {
				continue // The schema or a rule refuses it: the answer goes to who has written it.
			}
			seen++
			if said := fmt.Sprintf("%s %q", marshalJSON(t, made), made.Lines(1000, 1000)); strings.Contains(said, marked) {
				t.Errorf("%s: the plan has the value: %s", name, said)
			}
			if err := updateWithRetry(t, plane.Client, live, func() {
				live.Object["spec"] = app.Object["spec"]
				live.SetAnnotations(nil)
			}); err != nil && !apierrors.IsInvalid(err) {
				t.Fatal(err)
			}
		}
		m.Idle(t)
	}
	if seen < 5 {
		t.Errorf("only %d plans were made", seen)
	}
}

// TestPlanOfStandby asks a manager that is not the leader.
func TestPlanOfStandby(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	leader := plane.Start(t, ns, harness.WithElection("plan-"+ns))
	app := newApp(ns, "web")
	<-leader.Elected()
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	leader.Idle(t)
	standby := plane.Start(t, ns, harness.WithElection("plan-"+ns), harness.WithWebhooks(plane.Webhooks(t, ns)))
	awaitWebhooks(t, ns)
	u := newUser(t)
	said := planOf(t, u, app, func(a *appv1.App) { a.Spec.Image = "nginx:2" })
	if len(said) != 2 || !strings.HasSuffix(said[1], "image: nginx:1.16.1 -> nginx:2") {
		t.Errorf("the stand-by says %q", said)
	}
	select {
	case <-standby.Elected():
		t.Error("the stand-by is the leader")
	default:
	}
	if got := standby.Requests.Counts(); got["patch deployments"] != 1 || len(standby.Requests.Stored()) > 0 {
		t.Errorf("the stand-by has sent %v", got)
	}
}

// TestPlanOutOfTime has an API server that is slow: the plan says so in time, and what it knows.
func TestPlanOutOfTime(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	opts := plane.Webhooks(t, ns)
	opts.Patience = 5 * time.Second // What is known is computed in that time also on a busy machine.
	var slow atomic.Bool
	m := plane.Start(t, ns, harness.WithWebhooks(opts), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if slow.Load() && q.DryRun && q.Resource == "deployments" {
			select {
			case <-time.After(opts.Patience + time.Second): // The answer comes when the time for the plan is over.
			case <-t.Context().Done():
			}
			return nil, fmt.Errorf("no answer in time")
		}
		return send()
	}))
	awaitWebhooks(t, ns)
	u := newUser(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	m.Idle(t)
	slow.Store(true)
	said := planOf(t, u, app, func(a *appv1.App) { a.Spec.Image = "nginx:2" })
	if len(said) == 0 || !strings.Contains(said[0], "Deployment web: changed (not asked in time; run it again)") {
		t.Errorf("it says %q", said)
	}
}

// TestPending pauses an App, changes it and reads what waits: it is computed once for what is held back, and gone with the pause.
func TestPending(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	setPaused(t, app, true)
	plane.Stands(t, app, "Applied=True/Applied", "Reconciling=False/Paused")
	m.Idle(t)
	if len(app.Status.Pending) > 0 {
		t.Errorf("nothing waits, and the status says %q", app.Status.Pending)
	}
	m.Requests.Reset()
	plane.Change(t, app, func() {
		app.Spec.Image, app.Spec.Ports[0].TargetPort.IntVal = "nginx:2", 81
		app.Spec.Args = []string{marked}
	})
	plane.Stands(t, app, "Applied=False/Paused", "Reconciling=False/Paused")
	plane.Until(t, app, func() error {
		if len(app.Status.Pending) == 0 {
			return fmt.Errorf("nothing is pending")
		}
		return nil
	})
	m.Idle(t)
	plane.Read(t, app)
	const summary = "2 objects wait, 2 pods would be replaced"
	if harness.Message(app, "Reconciling") != summary || app.Status.Pending[0] != summary || len(app.Status.Pending) > 20 ||
		!slices.Contains(app.Status.Pending, "Deployment web: template.containers[web].image: nginx:1.16.1 -> nginx:2") ||
		strings.Contains(fmt.Sprint(app.Status), marked) {
		t.Errorf("it says %q and %q", harness.Message(app, "Reconciling"), app.Status.Pending)
	}
	if got := m.Requests.Counts(); got["patch deployments"] != 1 || got["patch services"] != 1 || len(m.Requests.Stored()) != 1 {
		t.Errorf("it has cost %v", got)
	}
	// Time does not have it computed again, and another process does so once: what it would apply may be another thing.
	m.Requests.Reset()
	plane.ChangeStatus(t, d, func() { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1 })
	plane.Until(t, app, func() error {
		if app.Status.Ready != "1/2" {
			return fmt.Errorf("the figures are %s", app.Status.Ready)
		}
		return nil
	})
	m.Idle(t)
	m.Stop(t)
	next := plane.Start(t, ns)
	next.Idle(t)
	plane.Read(t, app)
	if got := m.Requests.Counts(); got["patch deployments"]+got["patch services"] > 0 {
		t.Errorf("it was computed again: %v", got)
	}
	if got := next.Requests.Counts(); got["patch deployments"] != 1 || got["patch services"] != 1 || len(next.Requests.Stored()) > 0 {
		t.Errorf("the next manager has sent %v, and stored %v", got, next.Requests.Stored())
	}
	if harness.Message(app, "Reconciling") != summary || len(app.Status.Pending) < 3 {
		t.Errorf("the next manager says %q and %q", harness.Message(app, "Reconciling"), app.Status.Pending)
	}
	// What another writer does meanwhile belongs to it.
	plane.Delete(t, namedService(ns, "web"))
	plane.Until(t, app, func() error {
		if !slices.Contains(app.Status.Pending, "Service web: created") {
			return fmt.Errorf("pending is %q", app.Status.Pending)
		}
		return nil
	})
	setPaused(t, app, false)
	awaitImage(t, d, "nginx:2")
	plane.Until(t, app, func() error {
		if len(app.Status.Pending) > 0 {
			return fmt.Errorf("pending is %q", app.Status.Pending)
		}
		return nil
	})
}

// TestPlanOfRendering plans a change of an App whose pods are of an earlier rendering, and a size that stands for something else.
func TestPlanOfRendering(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	old := plane.Start(t, ns, harness.WithRendering(resource.RenderingTutorial))
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	completeRollout(t, d)
	old.Idle(t)
	old.Stop(t)
	startGuarded(t, ns)
	u := newUser(t)
	for name, change := range map[string]func(*appv1.App){
		"another image": func(a *appv1.App) { a.Spec.Image = "nginx:2" },
		"a refresh":     func(a *appv1.App) { a.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} },
	} {
		if said := planOf(t, u, app, change); !slices.Contains(said, "Deployment web: rendering 0 -> 2 comes with the change") {
			t.Errorf("%s: the plan is %q", name, said)
		}
	}
	var live appsv1.Deployment
	if err := plane.Client.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: "web"}, &live); err != nil || live.Generation != d.Generation {
		t.Errorf("the Deployment has changed: %v", err)
	}
}

// latencyVariable is the environment variable that has the latency of plans measured, over as many Apps.
const latencyVariable = "PLAN_LATENCY_APPS"

// TestPlanLatency measures what a plan adds to a dry run. It says how long that takes, and judges nothing.
func TestPlanLatency(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(latencyVariable))
	if err != nil {
		t.Skip("set " + latencyVariable + " to measure, for example to 200")
	}
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	for i := range n {
		plane.Create(t, newApp(ns, fmt.Sprint("web-", i)))
	}
	m.Idle(t)
	took := map[string][]time.Duration{}
	for i := range n {
		app := newApp(ns, fmt.Sprint("web-", i))
		plane.Read(t, app)
		app.Spec.Image, app.Spec.Ports[0].TargetPort.IntVal = "nginx:2", 81
		for _, manager := range []string{"user", "argocd-controller"} {
			began := time.Now()
			if err := plane.Client.Update(t.Context(), app.DeepCopy(), client.DryRunAll, client.FieldOwner(manager)); err != nil {
				t.Fatal(err)
			}
			took[manager] = append(took[manager], time.Since(began))
		}
		<-time.After(250 * time.Millisecond) // So that none waits for its turn.
	}
	for manager, times := range took {
		slices.Sort(times)
		t.Logf("%d dry runs of %s: p50 %s, p99 %s, most %s", n, manager, times[n/2], times[n*99/100], times[n-1])
	}
}
