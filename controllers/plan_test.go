package controllers

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestEveryKindIsPlanned checks that the row of each kind has the steps for a plan, and that a paused resource of it is planned as
// if it were not.
func TestEveryKindIsPlanned(t *testing.T) {
	paused := map[string]client.Object{
		"App":              &appv1.App{Spec: appv1.AppSpec{Paused: true}},
		"ModelBox":         &appv1.ModelBox{Spec: appv1.ModelBoxSpec{Paused: true}},
		"UnitedDeployment": &appv1.UnitedDeployment{Spec: appv1.UnitedDeploymentSpec{Paused: true}},
		"CloudManager":     &appv1.CloudManager{Spec: appv1.CloudManagerSpec{Paused: true}},
		"Task":             &appv1.Task{Spec: appv1.TaskSpec{Paused: true}},
	}
	planner := newPlanner(&Deps{})
	for _, k := range allKinds() {
		if k.plan == nil || planner.kinds[k.Name] == nil || planner.kinds[k.Name].Name != k.Name {
			t.Errorf("%s is not planned", k.Name)
		}
		obj := paused[k.Name]
		if obj == nil {
			t.Fatalf("%s is not tested", k.Name)
		}
		if !resumeResource(obj) || resumeResource(obj) {
			t.Errorf("%s is not resumed", k.Name)
		}
	}
}

// TestPendingCause checks that a plan of a paused resource is computed again after what changes it, and after nothing else.
func TestPendingCause(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1}}
	report := reconciler.Report{PendingKey: "Configured Deployment web: image; 2 false"}
	cause := func() [sha256.Size]byte { return pendingCause(app, &report) }
	for _, step := range []struct {
		does   string
		change func()
		again  bool
	}{
		{"the same is held back", func() { report.Pause = reconciler.Pending }, false},
		{"the rollout ends", func() { report.PendingKey = "Configured Deployment web: image; 2 true" }, true},
		{"the spec is changed", func() { app.Generation = 2 }, true},
		{"a foreign annotation is set", func() { app.Annotations = map[string]string{"a": "b"} }, false},
		{"it is to be adopted", func() { app.Annotations[appv1.AnnotationAdopt] = "true" }, true},
		{"its canary is to be promoted", func() { app.Annotations[appv1.AnnotationPromote] = "u" }, true},
		{"its canary is to be removed", func() { delete(app.Annotations, appv1.AnnotationPromote); app.Annotations[appv1.AnnotationAbort] = "u" }, true},
	} {
		before := cause()
		step.change()
		if again := cause() != before; again != step.again {
			t.Errorf("%s: computed again is %t", step.does, again)
		}
	}
}

// TestPendingAfterFailure has the steps of a paused App fail before they have compared anything: the status keeps what waits. It is
// removed once nothing waits, or the App is not paused.
func TestPendingAfterFailure(t *testing.T) {
	for name, c := range map[string]struct {
		paused bool
		report reconciler.Report
		err    error
		kept   bool
	}{
		"a read failed":              {true, reconciler.Report{}, errors.New("timeout"), true},
		"a read of the apply failed": {true, reconciler.Report{Pause: reconciler.Paused}, errors.New("timeout"), true},
		"another tier waits":         {true, reconciler.Report{Pause: reconciler.Pending}, errors.New("timeout"), true},
		"nothing waits":              {true, reconciler.Report{Pause: reconciler.Paused}, nil, false},
		"an invalid spec":            {true, reconciler.Report{Pause: reconciler.Paused}, reconciler.Stalled(appv1.ReasonInvalid, "wrong"), false},
		"resumed":                    {false, reconciler.Report{}, nil, false},
		"resumed, and a read failed": {false, reconciler.Report{}, errors.New("timeout"), false},
		"resumed, and fine":          {false, reconciler.Report{Pause: reconciler.NotPaused}, nil, false},
	} {
		app := &appv1.App{Spec: appv1.AppSpec{Paused: c.paused}}
		app.Status.Pending = []string{"1 object changes"}
		(&Deps{Pending: newPendingPlans()}).reportPending(t.Context(), &kind{}, app, &c.report, c.err)
		if kept := len(app.Status.Pending) == 1; kept != c.kept {
			t.Errorf("%s: what waits is kept is %t: %q", name, kept, app.Status.Pending)
		}
		if paused := c.report.Pause != reconciler.NotPaused; paused != c.paused {
			t.Errorf("%s: the report has the pause: %t, want %t", name, paused, c.paused)
		}
	}
}

// TestPendingIsComputedAgain has a dry run of a paused App fail: the status has no plan rather than one without the change, and has it once the
// request succeeds, although nothing else has changed. A refusal that may end without an event is stated, and looked at again.
func TestPendingIsComputedAgain(t *testing.T) {
	forNames(t, []string{"a failed webhook", "a quota", "of an object around the pods"}, func(t *testing.T, name string) {
		failure, stated := apierrors.NewInternalError(errors.New("failed calling webhook")), 0
		fails := func(obj client.Object) bool { _, ok := obj.(*appsv1.Deployment); return ok }
		spec, after := `{"image":"nginx:2","replicas":1,"paused":true}`, "1 object waits, 1 pod would be replaced"
		switch name {
		case "a quota":
			failure, stated = apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New("exceeded quota")), 1
		case "of an object around the pods":
			fails = func(obj client.Object) bool { _, ok := obj.(*networkingv1.NetworkPolicy); return ok }
			stated, spec, after = 1, `{"image":"nginx:2","replicas":1,"paused":true,"networkPolicy":{"ingress":[]}}`, "2 objects wait, 1 pod would be replaced"
		}
		w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","replicas":1}`))
		w.settle("App")
		w.makeAvailable()
		w.settle("App")
		w.fail = func(verb string, obj client.Object) error {
			if verb == "try" && fails(obj) {
				return failure
			}
			return nil
		}
		w.setSpec("App", spec)
		w.settle("App")
		result, err := w.reconcile("App")
		pending := w.status("App").Pending
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > workload.Unwatched || min(len(pending), 1) != stated ||
			strings.Contains(strings.Join(pending, "\n"), "no pod would be replaced") {
			t.Errorf("after a failure: %v, %v, %q", result, err, pending)
		}
		w.fail = nil
		w.settle("App")
		if pending := w.status("App").Pending; len(pending) == 0 || pending[0] != after {
			t.Errorf("after a success: %q", pending)
		}
	})
}

// TestPendingPlans keeps plans: one counts until its cause changes, or for a time where an obstacle may end without an event.
func TestPendingPlans(t *testing.T) {
	plans, now, key := newPendingPlans(), time.Unix(1e9, 0), pendingKey{manager: "app"}
	cause, other := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	check := func(what string, cause [sha256.Size]byte, now time.Time, left time.Duration, ok bool) {
		t.Helper()
		if gotLeft, got := plans.remaining(key, cause, now); got != ok || ok && gotLeft != left {
			t.Errorf("%s: counts is %t, for %s", what, got, gotLeft)
		}
	}
	check("none", cause, now, 0, false)
	plans.set(key, cause, now, 0)
	check("without an end", cause, now.Add(time.Hour), 0, true)
	check("another cause", other, now, 0, false)
	plans.set(key, cause, now, time.Minute)
	check("with an end", cause, now.Add(time.Second), 59*time.Second, true)
	check("after its end", cause, now.Add(time.Minute), 0, false)
	plans.forget(key)
	check("forgotten", cause, now, 0, false)
}

// TestMissingPods counts as the Deployment controller does.
func TestMissingPods(t *testing.T) {
	rolling := func(unavailable, surge string) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.Parse(unavailable)), MaxSurge: ptr.To(intstr.Parse(surge)),
		}}
	}
	for _, c := range []struct {
		strategy     appsv1.DeploymentStrategy
		wanted, want int32
	}{
		{rolling("0", "1"), 4, 0},
		{rolling("25%", "25%"), 2, 0},
		{rolling("25%", "25%"), 4, 1},
		{rolling("25%", "25%"), 7, 1},
		{rolling("100%", "0"), 3, 3},
		{rolling("5", "0"), 3, 3},
		{rolling("10%", "0"), 3, 1},
		{appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, 3, 3},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &c.wanted, Strategy: c.strategy}}
		if got := missingPods(d); got != c.want {
			t.Errorf("%+v with %d pods: %d, want %d", c.strategy, c.wanted, got, c.want)
		}
	}
}

// TestPlanPods has changes of a Deployment: pods are replaced if the template changes, some run, some are wanted and the rollout is
// not stopped.
func TestPlanPods(t *testing.T) {
	deployment := func(image string, running, wanted int32) *appsv1.Deployment {
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
		d.ObjectMeta = metav1.ObjectMeta{Name: "web"}
		d.Spec.Template.Annotations = map[string]string{"image": image}
		d.Spec.Replicas, d.Status.Replicas = &wanted, running
		return d
	}
	stopped := deployment("b", 0, 2)
	stopped.Spec.Paused = true
	for name, c := range map[string]struct {
		action        apply.Action
		before, after *appsv1.Deployment
		want          bool
	}{
		"another template": {apply.Configured, deployment("a", 2, 2), deployment("b", 0, 2), true},
		"the same":         {apply.Configured, deployment("a", 2, 2), deployment("a", 0, 3), false},
		"none ran":         {apply.Configured, deployment("a", 0, 2), deployment("b", 0, 2), false},
		"none is wanted":   {apply.Configured, deployment("a", 2, 2), deployment("b", 0, 0), false},
		"stopped":          {apply.Configured, deployment("a", 2, 2), stopped, false},
		"only scaled":      {apply.Scaled, deployment("a", 2, 2), deployment("b", 0, 2), false},
	} {
		pods := newPlanPods(&apply.Outcome{Change: apply.Change{Action: c.action}, Before: c.before, After: c.after})
		if pods == nil || pods.Replaced != c.want {
			t.Errorf("%s: %+v", name, pods)
		}
	}
	if pods := newPlanPods(&apply.Outcome{Change: apply.Change{Action: apply.Deleted}, Before: deployment("a", 2, 2)}); pods == nil || pods.Running != 2 || pods.Wanted != 0 {
		t.Errorf("deleted: %+v", pods)
	}
}
