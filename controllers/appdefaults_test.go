package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/stored"
)

// newAppDefaults returns the AppDefaults of a namespace.
func newAppDefaults(t *testing.T, namespace, spec string) *stored.AppDefaults {
	t.Helper()
	obj := &stored.AppDefaults{}
	text := fmt.Sprintf(`{"apiVersion":"app.huolala.cn/v1","kind":"AppDefaults","metadata":{"name":"default","namespace":%q,"uid":"d-%s","generation":1},"spec":%s}`,
		namespace, namespace, spec)
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// setDefaults creates or changes the AppDefaults of a namespace, as another client does.
func (w *world) setDefaults(namespace, spec string) {
	w.t.Helper()
	live, changed := &stored.AppDefaults{}, newAppDefaults(w.t, namespace, spec)
	switch err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(changed), live); {
	case client.IgnoreNotFound(err) != nil:
		w.t.Fatal(err)
	case err != nil:
		w.create(changed)
	default:
		changed.Status, changed.ResourceVersion, changed.Generation = live.Status, live.ResourceVersion, live.Generation+1
		w.update(changed)
	}
	w.requests = nil
}

// defaultsStatus reconciles the AppDefaults of a namespace, and returns their status.
func (w *world) defaultsStatus(namespace string) appv1.AppDefaultsStatus {
	w.t.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: appv1.AppDefaultsName}
	if _, err := (&AppDefaultsReconciler{Deps: *w.Deps}).Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	live := &stored.AppDefaults{}
	if err := client.IgnoreNotFound(w.Client.Get(w.t.Context(), key, live)); err != nil {
		w.t.Fatal(err)
	}
	return live.Status.Value
}

// gaugeOf returns the value of a gauge that has a label value, and whether there is one.
func gaugeOf(t *testing.T, name, label string) (float64, bool) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if family.GetName() == name && pair.GetValue() == label {
					return metric.GetGauge().GetValue(), true
				}
			}
		}
	}
	return 0, false
}

// annotationsOfPods returns the annotations of the pod template.
func (w *world) annotationsOfPods() string {
	w.t.Helper()
	return fmt.Sprint(w.deployment().Spec.Template.Annotations)
}

// defaultsInUse returns what the status of the App says of its defaults.
func (w *world) defaultsInUse() string {
	w.t.Helper()
	app := &stored.App{}
	w.read(app)
	used := app.Status.Value.Defaults
	switch {
	case used == nil:
		return "none"
	case used.Invalid != "":
		return "invalid: " + used.Invalid
	}
	return fmt.Sprint(used.Current)
}

// TestLastValidDefaultsStayInForce creates, breaks, fixes and deletes AppDefaults: the last valid ones count, and the status and the metric
// say so.
func TestLastValidDefaultsStayInForce(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		what, spec, seconds string
		valid               metav1.ConditionStatus
	}{
		{"there is none", "", "", ""},
		{"invalid from the start", `{"defaults":{"envs":[{"name":""}]}}`, "", metav1.ConditionFalse},
		{"fixed", `{"defaults":{"minReadySeconds":5}}`, "5", metav1.ConditionTrue},
		{"broken", `{"defaults":{"minReadySeconds":700}}`, "5", metav1.ConditionFalse},
		{"out of bounds", `{"defaults":{"resources":{"limits":{"cpu":"1e-100000000"}}}}`, "5", metav1.ConditionFalse},
		{"too long", `{"defaults":{"podAnnotations":{"a":"` + strings.Repeat("x", 64<<10) + `"}}}`, "5", metav1.ConditionFalse},
		{"changed", `{"defaults":{"minReadySeconds":6}}`, "6", metav1.ConditionTrue},
		{"empty", `{}`, "nil", metav1.ConditionTrue},
		{"no object", `null`, "nil", metav1.ConditionTrue},
	} {
		if c.spec != "" {
			w.setDefaults(namespace, c.spec)
		}
		status := w.defaultsStatus(namespace)
		present, err := w.defaults.Present(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		seconds := ""
		switch {
		case present.Fields != nil && present.Fields.MinReadySeconds != nil:
			seconds = fmt.Sprint(*present.Fields.MinReadySeconds)
		case present.Fields != nil:
			seconds = "nil"
		}
		if seconds != c.seconds {
			t.Errorf("%s: minReadySeconds is %q, want %q", c.what, seconds, c.seconds)
		}
		if valid := meta.FindStatusCondition(status.Conditions, appv1.ConditionValid); c.valid != "" && (valid == nil || valid.Status != c.valid || len(valid.Message) > 400) {
			t.Errorf("%s: the condition is %+v", c.what, valid)
		}
		for condition, want := range map[string]bool{appv1.ConditionReady: true, appv1.ConditionStalled: false} {
			if is := meta.IsStatusConditionTrue(status.Conditions, condition); c.valid != "" && is != (want == (c.valid == metav1.ConditionTrue)) {
				t.Errorf("%s: %s is %t", c.what, condition, is)
			}
		}
		if gauge, ok := gaugeOf(t, "app_operator_defaults_valid", namespace); ok != (c.valid != "") || ok && (gauge == 1) != (c.valid == metav1.ConditionTrue) {
			t.Errorf("%s: the metric is %g, %t", c.what, gauge, ok)
		}
		w.requests = nil
		if w.defaultsStatus(namespace); len(w.requests) > 0 {
			t.Errorf("%s: looked at again, it writes %q", c.what, w.requests)
		}
	}
	w.setDefaults(namespace, `{"defaults":{"minReadySeconds":700}}`)
	w.remove(newAppDefaults(t, namespace, "{}"))
	w.defaultsStatus(namespace)
	if _, ok := gaugeOf(t, "app_operator_defaults_valid", namespace); ok {
		t.Error("the metric is there after the deletion")
	}
}

// TestDefaultsReachAnAppWithItsNextChange edits AppDefaults: an App has what counted when it was built, until it changes or a refresh is asked
// for.
func TestDefaultsReachAnAppWithItsNextChange(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	has := func(what, annotations, current string, budget bool) {
		t.Helper()
		w.settle("App")
		w.settle("App")
		if got := w.annotationsOfPods(); got != "map["+annotations+"]" {
			t.Errorf("%s: the pods have %s", what, got)
		}
		if got := w.defaultsInUse(); got != current {
			t.Errorf("%s: current is %s, want %s", what, got, current)
		}
		if got := w.read(&policyv1.PodDisruptionBudget{}); got != budget {
			t.Errorf("%s: there is a PodDisruptionBudget: %t", what, got)
		}
	}
	has("without", "", "none", false)
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"},"disruptionBudget":{}}}`)
	has("created", "", "false", false)
	w.wrote("created", "status App web")
	w.setSpec("App", `{"image":"nginx:2","replicas":1}`)
	has("with the next change", "a:1", "true", true)
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"2"}}}`)
	has("changed", "a:1", "false", true)
	w.wrote("changed", "status App web")
	w.setSpec("App", `{"image":"nginx:2","replicas":2}`)
	has("another number of pods", "a:1", "false", true)
	w.restart()
	has("after a restart", "a:1", "false", true)
	w.annotate("App", appv1.AnnotationRefresh, "1")
	has("with a refresh", "a:2", "true", false)
	w.setDefaults(namespace, `{"defaults":{"podAnnotations":{"a":"3"},"minReadySeconds":700}}`)
	has("invalid", "a:2", "invalid: spec: Forbidden: the AppDefaults of namespace default are invalid, and no valid ones are known. Fix them; until then the pods stay as they are", false)
	w.setDefaults(namespace, `{"defaults":{"podAnnotations":{"a":"3","b":"3"}}}`)
	has("of its namespace", "a:2", "false", false)
	w.setSpec("App", `{"image":"nginx:3","replicas":2,"podAnnotations":{"b":"own"}}`)
	has("the App's own", "a:3 b:own", "true", false)
	w.setDefaults(namespace, `{"defaults":{"podAnnotations":{"a":"3","b":"4"}}}`)
	has("a value that the App states", "a:3 b:own", "true", false)
	w.setSpec("App", `{"image":"nginx:3","replicas":2,"podAnnotations":{"b":"own"},"withoutDefaults":["podAnnotations"]}`)
	has("without", "b:own", "true", false)
	w.setSpec("App", `{"image":"nginx:3","replicas":2,"podAnnotations":{"b":"own"}}`)
	has("with again", "a:3 b:own", "true", false)
	w.remove(newAppDefaults(t, namespace, "{}"))
	w.remove(newAppDefaults(t, "platform", "{}"))
	has("deleted", "a:3 b:own", "false", false)
	w.annotate("App", appv1.AnnotationRefresh, "2")
	has("deleted, with a refresh", "b:own", "none", false)
}

// TestDefaultsThatMakeAnAppInvalid has the status name the reason, and keeps the pods.
func TestDefaultsThatMakeAnAppInvalid(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1,"revisionHistoryLimit":0}`))
	w.settle("App")
	w.setDefaults("platform", `{"defaults":{"rollback":"OnStall"}}`)
	w.settle("App")
	if got := w.defaultsInUse(); !strings.Contains(got, "spec.rollback") || !strings.Contains(got, "withoutDefaults") {
		t.Errorf("the status says %s", got)
	}
	status := w.defaultsStatus("platform")
	if status.Apps != 1 || status.Pending != 1 || len(status.Failed) != 1 || status.Failed[0].Name != "web" || !strings.Contains(status.Failed[0].Message, "spec.rollback") {
		t.Errorf("the status is %+v", status)
	}
	w.setSpec("App", `{"image":"nginx:2","replicas":1,"revisionHistoryLimit":0}`)
	w.requests = nil
	if _, err := w.reconcile("App"); err != nil {
		t.Fatal(err)
	}
	if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
		t.Errorf("the pods have %s", got)
	}
	w.setSpec("App", `{"image":"nginx:2","replicas":1,"revisionHistoryLimit":0,"withoutDefaults":["rollback"]}`)
	w.settle("App")
	if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:2" || w.defaultsInUse() != "true" {
		t.Errorf("without the default: %s, %s", got, w.defaultsInUse())
	}
}

// TestLostRecordOfDefaults loses the record of an App with defaults: with the present ones it is recovered, with others the pods stay.
func TestLostRecordOfDefaults(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
	w.settle("App")
	lose := func() {
		d := w.deployment()
		delete(d.Annotations, appv1.AnnotationLastAppliedInputs)
		w.update(d)
		w.requests = nil
	}
	lose()
	w.settle("App")
	if got, used := w.annotationsOfPods(), w.defaultsInUse(); got != "map[a:1]" || used != "true" {
		t.Errorf("recovered: %s, %s", got, used)
	}
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"2"}}}`)
	lose()
	if _, err := w.reconcile("App"); err != nil {
		t.Fatal(err)
	}
	if got := w.annotationsOfPods(); got != "map[a:1]" {
		t.Errorf("the pods have %s", got)
	}
	if reason := w.reason("App"); reason != appv1.ReasonTemplateKept {
		t.Errorf("the reason is %s", reason)
	}
	w.setSpec("App", `{"image":"nginx:2","replicas":1}`)
	w.settle("App")
	if got, used := w.annotationsOfPods(), w.defaultsInUse(); got != "map[a:2]" || used != "true" {
		t.Errorf("with the next change: %s, %s", got, used)
	}
}

// TestLostRecordOfFormerDefaults loses the record of pods whose AppDefaults are gone: the template is kept, and no pod is replaced.
func TestLostRecordOfFormerDefaults(t *testing.T) {
	for name, next := range map[string]string{"empty": `{}`, "sizes alone": `{"sizes":{"tiny":{"requests":{"cpu":"10m"}}}}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
			w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
			w.settle("App")
			w.setDefaults("platform", next)
			d := w.deployment()
			delete(d.Annotations, appv1.AnnotationLastAppliedInputs)
			w.update(d)
			w.settle("App")
			if got, reason := w.annotationsOfPods(), w.reason("App"); got != "map[a:1]" || reason != appv1.ReasonTemplateKept {
				t.Errorf("the pods have %s, and the reason is %s", got, reason)
			}
		})
	}
}

// reason returns the reason of the condition Applied of the resource web.
func (w *world) reason(kindName string) string {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.status(kindName).Conditions, appv1.ConditionApplied); c != nil {
		return c.Reason
	}
	return ""
}

// TestDefaultsThatCannotBeRead fails a reconcile rather than take AppDefaults for none.
func TestDefaultsThatCannotBeRead(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"small","replicas":1}`))
	broken := errors.New("no cache")
	w.defaults.reader = interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if _, err := w.reconcile("App"); !errors.Is(err, broken) {
		t.Errorf("the error of the App is %v", err)
	}
	if requests := withoutStatus(w.requests); len(requests) > 0 {
		t.Errorf("without AppDefaults: %q", requests)
	}
	r := &AppDefaultsReconciler{Deps: *w.Deps}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if requests := r.onChange(t.Context(), newAppDefaults(t, namespace, "{}")); fmt.Sprint(requests) != fmt.Sprintf("[%s/default %s/default]", namespace, r.defaults.own) {
		t.Errorf("what cannot be read is not tried again, or the AppDefaults whose rollout may count are not: %v", requests)
	}
}

// TestAnotherDefinitionRestartsNothing changes the meaning of a size: pods keep what they have until a refresh is asked for, or the spec
// changes, and the status says so. A size that is gone stays with its pods, and is refused in a new spec.
func TestAnotherDefinitionRestartsNothing(t *testing.T) {
	sizes := func(name, cpu string) string {
		return fmt.Sprintf(`{"sizes":{%q:{"requests":{"cpu":%q},"limits":{"cpu":%q}}}}`, name, cpu, cpu)
	}
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"huge","replicas":1}`))
	cpu := func() string {
		return w.deployment().Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
	}
	w.setDefaults("platform", sizes("huge", "1"))
	w.settle("App")
	if got := cpu(); got != "1" {
		t.Fatalf("a new App has %s", got)
	}
	w.setDefaults("platform", sizes("huge", "2"))
	w.settle("App")
	w.wrote("another definition", "status App web")
	if got := w.status("App"); cpu() != "1" || got.LatestSize == "" || got.LatestSize == got.Size || w.defaultsInUse() != "false" {
		t.Errorf("another definition: %s, %q, %q, %s", cpu(), got.Size, got.LatestSize, w.defaultsInUse())
	}
	w.annotate("App", appv1.AnnotationRefresh, "1")
	w.settle("App")
	if got := w.status("App"); cpu() != "2" || got.LatestSize != "" || w.defaultsInUse() != "true" {
		t.Errorf("after a refresh: %s, %q, %s", cpu(), got.LatestSize, w.defaultsInUse())
	}
	w.setDefaults("platform", sizes("other", "3"))
	w.settle("App")
	if got := cpu(); got != "2" || !strings.Contains(w.defaultsInUse(), "other") {
		t.Errorf("a size that is gone: %s, %s", got, w.defaultsInUse())
	}
	w.setSpec("App", `{"image":"nginx:2","size":"huge","replicas":1}`)
	if _, err := w.reconcile("App"); err != nil {
		t.Fatal(err)
	}
	if got := w.reason("App"); got != appv1.ReasonInvalid || cpu() != "2" {
		t.Errorf("a size that does not exist: %s, %s", got, cpu())
	}
	w.setSpec("App", `{"image":"nginx:2","size":"other","replicas":1}`)
	w.settle("App")
	if got := cpu(); got != "3" {
		t.Errorf("another size: %s", got)
	}
}

// TestDefaultsKeepToTheirNamespace has AppDefaults of another namespace count for nothing here.
func TestDefaultsKeepToTheirNamespace(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	w.setDefaults("hostile", `{"defaults":{"podAnnotations":{"a":"1"},"hostAliases":[{"ip":"10.0.0.1","hostnames":["bank.example.com"]}]}}`)
	w.settle("App")
	if got, used := w.annotationsOfPods(), w.defaultsInUse(); got != "map[]" || used != "none" {
		t.Errorf("the pods have %s, %s", got, used)
	}
	if status := w.defaultsStatus("hostile"); status.Apps != 0 {
		t.Errorf("they count for %d Apps", status.Apps)
	}
	if list := newDefaults("platform", nil).cacheOptions([]string{"a"}, budget.New(budget.NewLimits(0))).Namespaces; len(list) != 2 {
		t.Errorf("the cache has %v", list)
	}
}

// TestFailedDefaultsAreFew counts more Apps that cannot take the defaults than the status names.
func TestFailedDefaultsAreFew(t *testing.T) {
	w := newWorld(t)
	w.setDefaults("platform", "{}")
	for i := range maxFailedDefaults + 5 {
		app, ok := newStored(t, kindNamed(t, "App"), `{"image":"nginx:1"}`).(*stored.App)
		if !ok {
			t.Fatal("no App")
		}
		app.Name, app.UID = fmt.Sprintf("web-%02d", i), types.UID(fmt.Sprint(i))
		app.Status.Value.Defaults = &appv1.DefaultsInUse{Invalid: strings.Repeat("x", 1000)}
		w.create(app)
		if err := w.base.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	status := w.defaultsStatus("platform")
	if len(status.Failed) != maxFailedDefaults || status.Failed[0].Name != "web-00" || status.Pending != maxFailedDefaults+5 || len(status.Failed[0].Message) > 300 {
		t.Errorf("the status is %+v", status)
	}
}

// TestPlanOfDefaults plans AppDefaults over more Apps than a plan looks at, and the refresh of an App that takes them. Nothing is written.
func TestPlanOfDefaults(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
	w.settle("App")
	w.requests = nil
	spec := &appv1.AppDefaultsSpec{Defaults: appv1.Defaults{PodAnnotations: map[string]string{"a": "1"}, DisruptionBudget: &appv1.DisruptionBudgetSpec{}}}
	line := func() string {
		made, err := newPlanner(w.Deps).PlanDefaults(t.Context(), "platform", spec)
		if err != nil {
			t.Fatal(err)
		}
		return made.Line(500)
	}
	const one = "1 App: 1 pod template changes, 0 pods would be replaced, 1 get a PodDisruptionBudget, 0 would be invalid"
	if got := line(); got != one {
		t.Errorf("%s, want %s", got, one)
	}
	if len(w.requests) > 0 {
		t.Errorf("a plan sends %q", w.requests)
	}
	foreign := newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`)
	foreign.SetName("foreign")
	theirs := w.deployment().DeepCopy()
	theirs.Name, theirs.UID, theirs.ResourceVersion, theirs.OwnerReferences, theirs.Status.Replicas = "foreign", "theirs", "", nil, 30
	w.create(foreign, theirs)
	if got, want := line(), strings.NewReplacer("1 App:", "2 Apps:", "1 pod template changes", "2 pod templates change", "1 get", "2 get").Replace(one); got != want {
		t.Errorf("next to a Deployment of others: %s, want %s", got, want)
	}
	w.remove(foreign)
	w.remove(theirs)
	w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
	app := newStored(t, kindNamed(t, "App"), `{"image":"nginx:2","replicas":1}`).(*stored.App) //nolint:forcetypeassert // It is one.
	typed, err := app.Decode()
	if err != nil {
		t.Fatal(err)
	}
	made, err := newPlanner(w.Deps).Plan(t.Context(), "App", typed)
	if err != nil || !slices.ContainsFunc(made.Lines(20, 200), func(line string) bool { return strings.Contains(line, "the present defaults of AppDefaults come") }) {
		t.Errorf("the plan of a change: %v, %+v", err, made)
	}
	for i := range maxPlannedApps + 4 {
		other := app.DeepCopyObject().(*stored.App) //nolint:forcetypeassert // It is one.
		other.Name, other.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprint(i))
		if err := w.base.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	if got := line(); !strings.HasPrefix(got, "1005 Apps, the first 1000 were looked at: 1000 pod templates change") {
		t.Errorf("of many: %s", got)
	}
}
