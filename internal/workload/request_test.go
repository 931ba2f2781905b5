package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestNewApplyRequest checks what is asked for and what is pruned: at once under the workload's name, and under an earlier name once
// the pods of the workload are ready.
func TestNewApplyRequest(t *testing.T) {
	app := newWebApp()
	ready := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", "1")}
	ready.Spec.Replicas, ready.Spec.Selector = ptr.To[int32](1), &metav1.LabelSelector{}
	ready.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	pending := ready.DeepCopy()
	pending.Status = appsv1.DeploymentStatus{}
	foreign := ready.DeepCopy()
	foreign.OwnerReferences[0].UID = "7"
	service := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1")}
	formerService := &corev1.Service{ObjectMeta: controlledBy("former", "App", "web", "1")}
	formerSet := &appsv1.StatefulSet{ObjectMeta: controlledBy("web", "App", "web", "1")}
	for name, c := range map[string]struct {
		seen  Observed
		ports bool
		live  []string
		prune []string
	}{
		"nothing lives":              {Observed{}, true, []string{"", ""}, nil},
		"all lives":                  {Observed{Object: ready, Services: Services{Service: service}, Owned: children.Inventory{ready, service}}, true, []string{"web", "web"}, nil},
		"no ports any more":          {Observed{Object: pending, Services: Services{Service: service}, Owned: children.Inventory{pending, service}}, false, []string{"web"}, []string{"*v1.Service web"}},
		"a Service without a mark":   {Observed{Object: ready, Services: Services{Service: service}}, false, []string{"web"}, []string{"*v1.Service web"}},
		"an earlier name":            {Observed{Object: ready, Services: Services{Service: service}, Owned: children.Inventory{ready, service, formerService}}, true, []string{"web", "web"}, []string{"*v1.Service former"}},
		"an earlier name, not yet":   {Observed{Object: ready, Owned: children.Inventory{ready, formerService}}, true, []string{"web", ""}, nil},
		"an earlier name, not ready": {Observed{Object: pending, Owned: children.Inventory{pending, formerService}}, true, []string{"web", ""}, nil},
		"an earlier name, another's": {Observed{Object: foreign, Owned: children.Inventory{formerService}}, true, []string{"web", ""}, nil},
		"an earlier kind, not ready": {Observed{Object: pending, Owned: children.Inventory{pending, formerSet}}, true, []string{"web", ""}, []string{"*v1.StatefulSet web"}},
	} {
		spec := app.DeepCopy()
		if !c.ports {
			spec.Spec.Ports = nil
		}
		workload, errs := resource.App(spec, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		req, _, err := (&Reconciler{}).newApplyRequest(t.Context(), newAppInput(spec), workload, c.seen.WithObject(c.seen.Object))
		if err != nil {
			t.Fatal(err)
		}
		var live, prune []string
		for _, child := range req.Objects {
			name := ""
			if child.Live != nil {
				name = child.Live.GetName()
			}
			live = append(live, name)
		}
		for _, obj := range req.Prune {
			prune = append(prune, fmt.Sprintf("%T %s", obj, obj.GetName()))
		}
		if !slices.Equal(live, c.live) || !slices.Equal(prune, c.prune) {
			t.Errorf("%s: live are %q, want %q; pruned are %q, want %q", name, live, c.live, prune, c.prune)
		}
	}
}

// TestNewRequest checks what a request takes from the owner: its annotations, and what its status says of the last reconcile.
func TestNewRequest(t *testing.T) {
	overridden := metav1.Condition{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue, Reason: appv1.ReasonOverridden, Message: "spec.a"}
	for name, c := range map[string]struct {
		change                 func(*appv1.App, *Input)
		adopt, accept, existed bool
		overridden             string
	}{
		"new": {change: func(*appv1.App, *Input) {}},
		"to adopt": {
			change: func(app *appv1.App, _ *Input) { app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"} }, adopt: true,
		},
		"to adopt, in other words": {
			change: func(app *appv1.App, _ *Input) { app.Annotations = map[string]string{appv1.AnnotationAdopt: "yes"} },
		},
		"to accept": {
			change: func(app *appv1.App, _ *Input) {
				app.Annotations = map[string]string{appv1.AnnotationAcceptOverrides: "true"}
			}, accept: true,
		},
		"reconciled before": {
			change: func(app *appv1.App, _ *Input) { app.Status.ObservedGeneration = 1 }, existed: true,
		},
		"a tier that was not there before": {
			change: func(app *appv1.App, d *Input) { app.Status.ObservedGeneration, d.Tier = 1, resource.TierFront },
		},
		"a tier that was there before": {
			change: func(app *appv1.App, d *Input) {
				app.Status.ObservedGeneration, app.Status.Rendering, d.Tier = 1, 2, resource.TierFront
			}, existed: true,
		},
		"overridden": {
			change: func(app *appv1.App, _ *Input) { app.Status.Conditions = []metav1.Condition{overridden} }, overridden: "spec.a",
		},
		"another reason": {
			change: func(app *appv1.App, _ *Input) {
				app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionApplied, Reason: appv1.ReasonApplied, Message: "spec.a"}}
			},
		},
		"another condition": {
			change: func(app *appv1.App, _ *Input) {
				app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Reason: appv1.ReasonOverridden, Message: "spec.a"}}
			},
		},
	} {
		app := newWebApp()
		d := newAppInput(app)
		c.change(app, d)
		d.Before = statusOf(app)
		req := NewRequest(d)
		if req.Policy.Adopt != c.adopt || req.Policy.AcceptOverrides != c.accept || req.Before.Existed != c.existed || req.Before.Overridden != c.overridden {
			t.Errorf("%s: %+v", name, req)
		}
		if req.Manager != resource.KindApp.FieldManager() || req.Owner != client.Object(app) {
			t.Errorf("%s: it is written as %s for %v", name, req.Manager, req.Owner)
		}
	}
}

// TestRefuseHeadlessChange refuses to give a headless Service an address, and nothing else.
func TestRefuseHeadlessChange(t *testing.T) {
	headless := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
	nobodys := headless.DeepCopy()
	nobodys.OwnerReferences = nil
	for name, c := range map[string]struct {
		live   *corev1.Service
		adopt  bool
		wanted string
		says   string
	}{
		"there is none":                  {nil, false, "", ""},
		"it has an address":              {&corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1")}, false, "", ""},
		"it is to be given an address":   {headless, false, "", "again"},
		"it is to stay headless":         {headless, false, corev1.ClusterIPNone, ""},
		"nobody's, to be adopted":        {nobodys, true, "", "None, or delete"},
		"nobody's, and not to be":        {nobodys, false, "", ""},
		"another's, and cannot be":       {&corev1.Service{ObjectMeta: controlledBy("web", "App", "x", "7"), Spec: headless.Spec}, true, "", ""},
		"one of another name is no help": {&corev1.Service{ObjectMeta: controlledBy("other", "App", "web", "1"), Spec: headless.Spec}, false, "", ""},
	} {
		wanted := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: c.wanted}}
		req := &apply.Request{Policy: apply.Policy{Adopt: c.adopt}, Objects: []apply.Object{{Desired: &appsv1.Deployment{}}, {Desired: wanted}}}
		err := RefuseHeadlessChange(newAppInput(newWebApp()), newScheme(t), req, c.live)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q in it", name, err, c.says)
		}
		if got := len(req.Objects); (got == 1) != (err != nil) {
			t.Errorf("%s: %d children are left", name, got)
		}
		if err == nil {
			continue
		}
		if reason, _ := reconciler.ReasonAndMessageOf(err); reason != appv1.ReasonImmutableField {
			t.Errorf("%s: the reason is %s", name, reason)
		}
	}
}

// TestAdoptsObject reports an adoption only for an object that lives and that the owner is to control.
func TestAdoptsObject(t *testing.T) {
	nobodys := &corev1.Service{ObjectMeta: controlledBy("web", "", "", "")}
	ours := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1")}
	for name, c := range map[string]struct {
		child apply.Object
		want  bool
	}{
		"a new one":  {apply.Object{}, false},
		"ours":       {apply.Object{Live: ours}, false},
		"nobody's":   {apply.Object{Live: nobodys}, true},
		"a claim":    {apply.Object{Live: &corev1.PersistentVolumeClaim{}}, false},
		"a retained": {apply.Object{Live: nobodys, Retained: true}, false},
	} {
		req := &apply.Request{Owner: newWebApp(), Policy: apply.Policy{Adopt: true}, Objects: []apply.Object{{Live: ours}, c.child}}
		if got := AdoptsObject(req); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if req.Policy.Adopt = false; AdoptsObject(req) {
			t.Errorf("%s: it is not to be adopted", name)
		}
	}
}

// TestNewChild keeps a nil pointer from looking like an object.
func TestNewChild(t *testing.T) {
	var none *corev1.Service
	if child := NewChild(&corev1.Service{}, none); child.Live != nil {
		t.Errorf("a nil pointer lives: %v", child.Live)
	}
	if child := NewChild(&corev1.Service{}, &corev1.Service{}); child.Live == nil {
		t.Error("what lives is lost")
	}
	for _, wanted := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.Secret{}} {
		if live := (&Observed{}).LiveObject(wanted); live != nil {
			t.Errorf("%T: %v lives", wanted, live)
		}
	}
}
