package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// newWebApp returns the App web.
func newWebApp() *appv1.App {
	app := &appv1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: "App"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "1", Generation: 3},
	}
	app.Spec.Image = "nginx:1"
	app.Spec.Replicas = ptr.To[int32](2)
	app.Spec.Ports = []appv1.Port{{Port: 80}}
	return app
}

// newAppInput returns the input of an App as its steps make it.
func newAppInput(app *appv1.App) *Input {
	return &Input{Owner: app, Kind: resource.KindApp, Name: app.Name, Spec: resource.AppSpec(app), Before: statusOf(app)}
}

// statusOf returns the status of an App as the input has it.
func statusOf(app *appv1.App) Status {
	return Status{Workload: app.Status.WorkloadStatus, Serving: app.Status.ServingStatus, History: app.Status.HistoryStatus, Release: app.Status.ReleaseStatus}
}

// TestProvenanceOf tells how a live Deployment was made by its controller, labels and records.
func TestProvenanceOf(t *testing.T) {
	same := `{"replicas":2,"image":"nginx:1","ports":[{"port":80}]}`
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment, *appv1.App, *Input)
		want   resource.Provenance
	}{
		"as it was applied": {
			func(*appsv1.Deployment, *appv1.App, *Input) {},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"the spec has changed": {
			func(_ *appsv1.Deployment, app *appv1.App, _ *Input) { app.Spec.Image = "nginx:2" },
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}", SpecChanged: true},
		},
		"only the number of pods has changed": {
			func(_ *appsv1.Deployment, app *appv1.App, _ *Input) { app.Spec.Replicas = ptr.To[int32](9) },
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"the record cannot be read": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				d.Annotations[appv1.AnnotationLastAppliedSpec] = "{"
				app.Spec.Image = "nginx:2"
			},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"another's": {
			func(d *appsv1.Deployment, _ *appv1.App, _ *Input) { d.OwnerReferences[0].UID = "7" },
			resource.Provenance{Ours: true, Inputs: "{}"},
		},
		"another's, to be adopted": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				d.OwnerReferences[0].UID = "7"
				app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"nobody's any more": {
			func(d *appsv1.Deployment, _ *appv1.App, _ *Input) { d.OwnerReferences = nil },
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"ours by the label alone": {
			func(d *appsv1.Deployment, _ *appv1.App, _ *Input) {
				d.Annotations = nil
				d.Labels = map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
			},
			resource.Provenance{Exists: true, Ours: true},
		},
		"of a tutorial": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				d.Annotations, d.Labels = nil, nil
				app.Annotations = map[string]string{appv1.AnnotationTutorialSpec: same}
			},
			resource.Provenance{Exists: true},
		},
		"of a tutorial, and changed since": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				d.Annotations, d.Labels = nil, nil
				app.Annotations = map[string]string{appv1.AnnotationTutorialSpec: same}
				app.Spec.Image = "nginx:2"
			},
			resource.Provenance{Exists: true, SpecChanged: true},
		},
		"ours, whatever a tutorial has recorded": {
			func(_ *appsv1.Deployment, app *appv1.App, _ *Input) {
				app.Annotations = map[string]string{appv1.AnnotationTutorialSpec: `{"image":"other"}`}
			},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"a foreign one": {
			func(d *appsv1.Deployment, _ *appv1.App, _ *Input) {
				d.Annotations, d.OwnerReferences = nil, nil
			},
			resource.Provenance{},
		},
	} {
		app := newWebApp()
		d := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", "1")}
		d.Annotations = map[string]string{
			appv1.AnnotationLastAppliedHash: "5", appv1.AnnotationLastAppliedInputs: "{}", appv1.AnnotationLastAppliedSpec: same,
		}
		in := newAppInput(app)
		c.change(d, app, in)
		if got := (decider{in: in, seen: &Observed{Object: d}}).historyOf(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	in := newAppInput(newWebApp())
	if got := (decider{in: in, seen: &Observed{}}).historyOf(); got != (resource.Provenance{}) {
		t.Errorf("nothing: %+v", got)
	}
	lost := &Observed{Data: lostInputs("{}")}
	if got := (decider{in: in, seen: lost}).historyOf(); got != (resource.Provenance{Exists: true, Ours: true, Inputs: "{}"}) {
		t.Errorf("to be recreated as it was: %+v", got)
	}
}

// sizedWorld is a world with an App of the size small that has been reconciled.
func sizedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"small","replicas":1}`))
	w.settle("App")
	w.requests = nil
	return w
}

// checkedInputs runs checkInputs on the Deployment web as the App's reconcile does.
func (w *world) checkedInputs(app *appv1.App) (resource.Provenance, resource.ResolvedSize) {
	w.t.Helper()
	c := decider{compare: w.Engine, in: newAppInput(app), seen: &Observed{Object: w.deployment()}}
	h, size, err := c.checkInputs(c.historyOf())
	if err != nil {
		w.t.Fatal(err)
	}
	return h, size
}

// TestCheckInputs lets others write the record of the inputs and what it speaks of, and checks what is believed of it.
func TestCheckInputs(t *testing.T) {
	small := resource.BuiltInSizes().Resolve("small")
	recorded := resource.Inputs{Rendering: resource.RenderingLatest, Size: small}.Encode()
	largeSize := resource.BuiltInSizes().Resolve("large")
	large := resource.Inputs{Rendering: resource.RenderingLatest, Size: largeSize}.Encode()
	resize := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: largeSize.Requests, Limits: largeSize.Limits}
	}
	type row struct {
		change func(*appsv1.Deployment)
		inputs string
		size   resource.ResolvedSize
	}
	forEach(t, map[string]row{
		"nobody has": {func(*appsv1.Deployment) {}, recorded, small},
		"another record": {
			func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedInputs] = large }, "", resource.ResolvedSize{},
		},
		"another record, with a template to match": {
			func(d *appsv1.Deployment) {
				d.Annotations[appv1.AnnotationLastAppliedInputs] = large
				resize(d)
			}, "", resource.ResolvedSize{},
		},
		"a record that cannot be read": {
			func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedInputs] = "{" }, "{", resource.ResolvedSize{},
		},
		"restored without managed fields": { // The rendering is found again by the template.
			func(d *appsv1.Deployment) { d.ManagedFields = []metav1.ManagedFieldsEntry{{}} }, "", small,
		},
		"restored without managed fields, with another size": {
			func(d *appsv1.Deployment) {
				d.ManagedFields = []metav1.ManagedFieldsEntry{{}}
				d.Annotations[appv1.AnnotationLastAppliedInputs] = large
			}, "", resource.ResolvedSize{},
		},
	}, func(t *testing.T, name string, c row) {
		w := sizedWorld(t)
		d := w.deployment()
		c.change(d)
		w.update(d)
		app := newWebApp()
		app.Spec.Size, app.Spec.Ports, app.Spec.Replicas = "small", nil, ptr.To[int32](1)
		h, size := w.checkedInputs(app)
		if h.Inputs != c.inputs || !size.Equal(c.size) {
			t.Errorf("%s: believed are %q and %s, want %q and %s", name, h.Inputs, size, c.inputs, c.size)
		}
	})
}

// TestEditedInputsDoNotRestart lets others write each record of a Deployment: the pod template stays as it is, and the record is
// restored.
func TestEditedInputsDoNotRestart(t *testing.T) {
	forEach(t, map[string]string{
		"no record": "", "no JSON": "{", "no rendering": `{"rendering":0}`, "an unknown rendering": `{"rendering":1}`, "a later rendering": `{"rendering":99}`,
		"a refresh":    resource.Inputs{Rendering: resource.RenderingLatest, Refresh: "1"}.Encode(),
		"another size": resource.Inputs{Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve("large")}.Encode(),
	}, func(t *testing.T, _, value string) {
		w := sizedWorld(t)
		before := w.deployment()
		edited := w.deployment()
		edited.Annotations[appv1.AnnotationLastAppliedInputs] = value
		if value == "" {
			delete(edited.Annotations, appv1.AnnotationLastAppliedInputs)
		}
		w.update(edited)
		w.restart()
		w.settle("App")
		after := w.deployment()
		if fmt.Sprint(after.Spec.Template) != fmt.Sprint(before.Spec.Template) {
			t.Errorf("the record %q restarts the pods", value)
		}
		if got, want := after.Annotations[appv1.AnnotationLastAppliedInputs], before.Annotations[appv1.AnnotationLastAppliedInputs]; got != want {
			t.Errorf("the record %q became %q, want %q", value, got, want)
		}
	})
}

// TestUpgradeKeepsTheTemplate reconciles Apps of earlier renderings with today's operator, with their record and without it: no
// pod restarts until a refresh is asked for, or the spec changes.
func TestUpgradeKeepsTheTemplate(t *testing.T) {
	for _, rendering := range resource.Renderings()[1:] {
		for _, lost := range []bool{false, true} {
			what := fmt.Sprintf("rendering %d, record lost: %t", rendering, lost)
			t.Run(what, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", `[{"name":"http","port":80,"targetPort":8080}]`)))
				w.Today.Rendering = rendering
				w.settle("App")
				before := w.deployment()
				if lost {
					edited := w.deployment()
					delete(edited.Annotations, appv1.AnnotationLastAppliedInputs)
					w.update(edited)
				}
				w.Today.Rendering = resource.RenderingLatest
				w.restart()
				w.settle("App")
				if after := w.deployment(); fmt.Sprint(after.Spec.Template) != fmt.Sprint(before.Spec.Template) {
					t.Errorf("%s: the pods restart", what)
				}
				if got := w.status("App"); got.Rendering != rendering || got.LatestRendering != resource.RenderingLatest {
					t.Errorf("%s: the status says %d, and %d is the latest", what, got.Rendering, got.LatestRendering)
				}
				w.annotate("App", appv1.AnnotationRefresh, "now")
				w.settle("App")
				if got := w.status("App"); got.Rendering != resource.RenderingLatest || got.LatestRendering != 0 {
					t.Errorf("%s, after a refresh: the status says %d, and %d is the latest", what, got.Rendering, got.LatestRendering)
				}
			})
		}
	}
}

// TestRecoverInputs gives up on a template that no rendering makes, and does not look at what is not the operator's.
func TestRecoverInputs(t *testing.T) {
	w := sizedWorld(t)
	app := newWebApp()
	workload, _ := resource.App(app, resource.BuildOptions{Inputs: resource.Inputs{Rendering: resource.RenderingLatest}})
	built := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: workload.Template}}
	other := built.DeepCopy()
	other.Spec.Template.Spec.Containers[0].Image = "evil:1"
	latest := resource.Inputs{Rendering: resource.RenderingLatest}.Encode()
	for name, c := range map[string]struct {
		history resource.Provenance
		live    client.Object
		want    string
	}{
		"made by the latest":  {resource.Provenance{Exists: true, Ours: true}, built, latest},
		"made by no other":    {resource.Provenance{Exists: true, Ours: true}, other, ""},
		"a readable record":   {resource.Provenance{Exists: true, Ours: true, Inputs: `{"rendering":0}`}, built, `{"rendering":0}`},
		"an unreadable one":   {resource.Provenance{Exists: true, Ours: true, Inputs: `{`}, built, latest},
		"a foreign object":    {resource.Provenance{Exists: true}, built, ""},
		"nothing":             {resource.Provenance{Exists: true, Ours: true}, nil, ""},
		"another's, to avoid": {resource.Provenance{Ours: true}, built, ""},
	} {
		h, err := (decider{compare: w.Engine, in: newAppInput(app), seen: &Observed{Object: c.live}}).recoverInputs(c.history, "", resource.ResolvedSize{})
		if err != nil || h.Inputs != c.want {
			t.Errorf("%s: %q, %v; want %q", name, h.Inputs, err, c.want)
		}
	}
	small := resource.BuiltInSizes().Resolve("small")
	c := decider{compare: w.Engine, in: newAppInput(app), seen: &Observed{Object: built}}
	h, err := c.recoverInputs(resource.Provenance{Exists: true, Ours: true}, "5", small)
	if err != nil {
		t.Fatal(err)
	}
	want := resource.Inputs{Rendering: resource.RenderingLatest, Refresh: "5", Size: small}
	if h.Inputs != want.Encode() {
		t.Errorf("with a size and a refresh: %q, want %q", h.Inputs, want.Encode())
	}
}

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
		"all lives":                  {Observed{Object: ready, Service: service, Owned: apply.Inventory{ready, service}}, true, []string{"web", "web"}, nil},
		"no ports any more":          {Observed{Object: pending, Service: service, Owned: apply.Inventory{pending, service}}, false, []string{"web"}, []string{"*v1.Service web"}},
		"a Service without a mark":   {Observed{Object: ready, Service: service}, false, []string{"web"}, []string{"*v1.Service web"}},
		"an earlier name":            {Observed{Object: ready, Service: service, Owned: apply.Inventory{ready, service, formerService}}, true, []string{"web", "web"}, []string{"*v1.Service former"}},
		"an earlier name, not yet":   {Observed{Object: ready, Owned: apply.Inventory{ready, formerService}}, true, []string{"web", ""}, nil},
		"an earlier name, not ready": {Observed{Object: pending, Owned: apply.Inventory{pending, formerService}}, true, []string{"web", ""}, nil},
		"an earlier name, another's": {Observed{Object: foreign, Owned: apply.Inventory{formerService}}, true, []string{"web", ""}, nil},
		"an earlier kind, not ready": {Observed{Object: pending, Owned: apply.Inventory{pending, formerSet}}, true, []string{"web", ""}, []string{"*v1.StatefulSet web"}},
	} {
		spec := app.DeepCopy()
		if !c.ports {
			spec.Spec.Ports = nil
		}
		workload, errs := resource.App(spec, resource.BuildOptions{Inputs: resource.Inputs{Rendering: resource.RenderingLatest}})
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
		err := RefuseHeadlessChange(newAppInput(newWebApp()), testScheme(t), req, c.live)
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

// TestReportStatus states what lives in the status, for an owner that has it and for one that has not.
func TestReportStatus(t *testing.T) {
	live := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", "1")}
	live.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: `{"rendering":0}`}
	live.Spec.Replicas, live.Spec.Selector = ptr.To[int32](3), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	live.Status = appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 2, AvailableReplicas: 1, UnavailableReplicas: 7}
	service := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1")}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	another := live.DeepCopy()
	another.OwnerReferences[0].UID = "7"
	full := appv1.WorkloadStatus{
		Ready: "2/3", Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 2, AvailableReplicas: 1, UnavailableReplicas: 7,
		Selector: "a=b", LatestRendering: 2,
	}
	withEndpoint := full
	withEndpoint.Endpoint = "web.default.svc:80"
	type rules struct {
		lost, foreign bool
		tier          resource.Tier
	}
	for name, c := range map[string]struct {
		seen   Observed
		change func(*rules)
		want   appv1.WorkloadStatus
		reason string
	}{
		"nothing lives":         {Observed{}, nil, appv1.WorkloadStatus{Ready: "0/2"}, appv1.ReasonProgressing},
		"ours":                  {Observed{Object: live}, nil, full, appv1.ReasonProgressing},
		"ours, with a Service":  {Observed{Object: live, Service: service}, nil, withEndpoint, appv1.ReasonProgressing},
		"another's":             {Observed{Object: another}, nil, appv1.WorkloadStatus{Ready: "0/2"}, appv1.ReasonProgressing},
		"another's, to report":  {Observed{Object: another}, func(how *rules) { how.foreign = true }, full, appv1.ReasonProgressing},
		"gone, and was there":   {Observed{}, func(how *rules) { how.lost = true }, appv1.WorkloadStatus{Ready: "0/2", Selector: "old=1", Rendering: 1}, appv1.ReasonProgressing},
		"a tier that is missed": {Observed{}, func(how *rules) { how.tier = resource.TierFront }, appv1.WorkloadStatus{Ready: "0/2", Selector: "old=1", Rendering: 1}, appv1.ReasonProgressing},
	} {
		d := newAppInput(newWebApp())
		d.Before.Workload = appv1.WorkloadStatus{Selector: "old=1", Rendering: 1, Ready: "9/9", Replicas: 9, Endpoint: "old", Size: "old", LatestSize: "old"}
		d.Before.Workload.Conditions = []metav1.Condition{{Type: "Kept"}}
		var how rules
		if c.change != nil {
			c.change(&how)
		}
		d.Tier = how.tier
		got, pods, _ := StatusOf(d, c.seen.WithObject(c.seen.Object), resource.Inputs{Rendering: 2}, how.lost, how.foreign)
		if len(got.Conditions) != 1 {
			t.Errorf("%s: the conditions are %v", name, got.Conditions)
		}
		got.CommonStatus = appv1.CommonStatus{}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
		if pods.Ready || pods.Reason != c.reason {
			t.Errorf("%s: the pods are %+v", name, pods)
		}
	}
}

// TestReportVerdict has a Service count only once the pods are ready.
func TestReportVerdict(t *testing.T) {
	waiting := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	plain := &corev1.Service{}
	ready, failing := health.Verdict{Ready: true, Reason: "Ready"}, health.Verdict{Stalled: true, Reason: "Failing", Message: "why"}
	for name, c := range map[string]struct {
		verdict health.Verdict
		service *corev1.Service
		ready   bool
		stalled bool
	}{
		"no Service":                        {ready, nil, true, false},
		"a Service with an address":         {ready, plain, true, false},
		"a Service that waits for one":      {ready, waiting, false, false},
		"pods that fail, and a Service too": {failing, waiting, false, true},
	} {
		pods := podsOf(c.verdict, c.service)
		if pods.Ready != c.ready || pods.Stalled != c.stalled || (pods.Reason == c.verdict.Reason) == (name == "a Service that waits for one") {
			t.Errorf("%s: %+v", name, pods)
		}
	}
}

// TestReportInputs tells newer inputs from those in use, and other sizes from changed ones.
func TestReportInputs(t *testing.T) {
	small, large := resource.BuiltInSizes().Resolve("small"), resource.BuiltInSizes().Resolve("large")
	changed := small
	changed.Amounts = large.Amounts
	for name, c := range map[string]struct {
		record string
		today  resource.Inputs
		want   appv1.WorkloadStatus
	}{
		"unreadable": {"{", resource.Inputs{Rendering: 2}, appv1.WorkloadStatus{}},
		"the latest": {resource.Inputs{Rendering: 2}.Encode(), resource.Inputs{Rendering: 2}, appv1.WorkloadStatus{Rendering: 2}},
		"an earlier rendering": {
			resource.Inputs{Rendering: resource.RenderingTutorial}.Encode(), resource.Inputs{Rendering: 2}, appv1.WorkloadStatus{LatestRendering: 2},
		},
		"a later one, after a downgrade": {
			resource.Inputs{Rendering: 2}.Encode(), resource.Inputs{Rendering: resource.RenderingTutorial}, appv1.WorkloadStatus{Rendering: 2},
		},
		"the size": {
			resource.Inputs{Rendering: 2, Size: small}.Encode(), resource.Inputs{Rendering: 2, Size: small},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String()},
		},
		"another definition of the size": {
			resource.Inputs{Rendering: 2, Size: small}.Encode(), resource.Inputs{Rendering: 2, Size: changed},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String(), LatestSize: changed.String()},
		},
		"another size": {
			resource.Inputs{Rendering: 2, Size: small}.Encode(), resource.Inputs{Rendering: 2, Size: large},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String()},
		},
	} {
		live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appv1.AnnotationLastAppliedInputs: c.record}}}
		got := withInputs(appv1.WorkloadStatus{}, live, c.today)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// TestNoteIgnoredReplicas tells of replicas that an autoscaler overrules, unless there is something graver to tell.
func TestNoteIgnoredReplicas(t *testing.T) {
	overridden := reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: "spec.a"}
	for name, c := range map[string]struct {
		autoscaler string
		replicas   *int32
		note       reconciler.ReasonAndMessage
		want       string
	}{
		"no autoscaler":        {"", ptr.To[int32](2), reconciler.ReasonAndMessage{}, ""},
		"no number":            {"scaler", nil, reconciler.ReasonAndMessage{}, ""},
		"both":                 {"scaler", ptr.To[int32](2), reconciler.ReasonAndMessage{}, appv1.ReasonReplicasIgnored},
		"both, and overridden": {"scaler", ptr.To[int32](2), overridden, appv1.ReasonOverridden},
	} {
		app := newWebApp()
		app.Spec.Replicas = c.replicas
		note := firstNote(c.note, ignoredReplicas(newAppInput(app), &decision{}, c.autoscaler))
		if note.Reason != c.want {
			t.Errorf("%s: %+v", name, note)
		}
		if c.want == appv1.ReasonReplicasIgnored && !containsAll(note.Message, "scaler", "Deployment web") {
			t.Errorf("%s: %s", name, note.Message)
		}
	}
}

// TestReportUnstatedReplicas sets the condition while an autoscaler cannot read the scale, and removes it after that.
func TestReportUnstatedReplicas(t *testing.T) {
	app := newWebApp()
	d := newAppInput(app)
	for _, c := range []struct {
		what       string
		autoscaler string
		replicas   *int32
		want       bool
	}{
		{"stated, no autoscaler", "", ptr.To[int32](2), false},
		{"unstated, no autoscaler", "", nil, false},
		{"unstated", "scaler", nil, true},
		{"stated", "scaler", ptr.To[int32](2), false},
		{"unstated once more", "scaler", nil, true},
		{"the autoscaler is gone", "", nil, false},
	} {
		d.Spec.Workload().Replicas = c.replicas
		report := reconciler.Report{Conditions: []metav1.Condition{unstatedReplicas(d, &Observed{ownerAutoscaler: c.autoscaler})}}
		report.SetConditions(&app.Status.Conditions)
		found := slices.ContainsFunc(app.Status.Conditions, func(condition metav1.Condition) bool {
			return condition.Type == appv1.ConditionReplicasUnstated && condition.Status == metav1.ConditionTrue &&
				condition.ObservedGeneration == 3 && containsAll(condition.Message, "scaler", "App")
		})
		if found != c.want || !found && len(app.Status.Conditions) > 0 {
			t.Errorf("%s: %v", c.what, app.Status.Conditions)
		}
	}
}

// TestInvalidSpec says what is wrong with a spec in few words.
func TestInvalidSpec(t *testing.T) {
	if err := invalidSpec(nil); err != nil {
		t.Errorf("a valid spec: %v", err)
	}
	var errs field.ErrorList
	for i := range 7 {
		errs = append(errs, field.Required(field.NewPath("spec", fmt.Sprintf("f%d", i)), "say so"))
	}
	for n, c := range map[int]struct{ last, not, more string }{
		1: {"spec.f0", "spec.f1", ""}, 5: {"spec.f4", "spec.f5", ""}, 6: {"spec.f4", "spec.f5", "and 1 more"}, 7: {"spec.f4", "spec.f5", "and 2 more"},
	} {
		reason, message := reconciler.ReasonAndMessageOf(invalidSpec(errs[:n]))
		if reason != appv1.ReasonInvalid || !strings.Contains(message, c.last) || strings.Contains(message, c.not) ||
			!strings.HasSuffix(message, c.more) || c.more == "" && strings.Contains(message, "more") {
			t.Errorf("%d errors: %s, %s", n, reason, message)
		}
	}
	if reason, message := reconciler.ReasonAndMessageOf(InvalidResource(errors.New("spec.a: 5"))); reason != appv1.ReasonInvalid || message != "spec.a: 5" {
		t.Errorf("undecodable: %s, %s", reason, message)
	}
}

// TestSummarizeChanges has the changes of each apply in words.
func TestSummarizeChanges(t *testing.T) {
	created := apply.ChangeSet{{Action: apply.Created, Kind: "Deployment", Name: "web"}}
	repaired := apply.ChangeSet{{Action: apply.Repaired, Kind: "Service", Name: "web"}}
	for name, c := range map[string]struct {
		changes []apply.ChangeSet
		want    reconciler.Event
	}{
		"nothing":     {nil, reconciler.Event{}},
		"no change":   {[]apply.ChangeSet{nil}, reconciler.Event{}},
		"one apply":   {[]apply.ChangeSet{created}, reconciler.Event{Action: "Created", Changes: "Created Deployment web"}},
		"two applies": {[]apply.ChangeSet{created, repaired}, reconciler.Event{Action: "Created", Changes: "Created Deployment web; Repaired Service web"}},
	} {
		if got := summarizeChanges(c.changes); got.event != c.want || got.note.Reason != "" || got.retry != 0 {
			t.Errorf("%s: %+v", name, got)
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

// TestListPods lists the pods of an owner that a selector selects.
func TestListPods(t *testing.T) {
	pod := func(name, instance, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{appv1.LabelInstance: instance, "app": app}}}
	}
	elsewhere := pod("elsewhere", "web", "a")
	elsewhere.Namespace = "other"
	stated := pod("stated", "main", "c") // A spec may state the label of the index for its pods. They have the label of the kind, too.
	stated.Labels[appv1.LabelApp] = "web"
	w := newWorld(t, pod("ours", "web", "a"), pod("former", "web", "b"), pod("others", "x", "a"), elsewhere, stated)
	pods, err := ListPods(t.Context(), w.Client, newWebApp(), map[string]string{"app": "a"})
	if err != nil || len(pods) != 1 || pods[0].Name != "ours" {
		t.Errorf("%v, %v", pods, err)
	}
	pods, err = ListPods(t.Context(), w.Client, newWebApp(), map[string]string{"app": "c"})
	if err != nil || len(pods) != 1 || pods[0].Name != "stated" {
		t.Errorf("with the label of the index stated: %v, %v", pods, err)
	}
	// The selector of an adopted Deployment may have the label of the index, and its pods have it.
	pods, err = ListPods(t.Context(), w.Client, newWebApp(), map[string]string{appv1.LabelInstance: "x", "app": "a"})
	if err != nil || len(pods) != 1 || pods[0].Name != "others" {
		t.Errorf("by a selector with the label of the index: %v, %v", pods, err)
	}
}

// TestFindAutoscaler finds the first by name of those that scale a workload.
func TestFindAutoscaler(t *testing.T) {
	elsewhere := newScaler("0", "Deployment", "web")
	elsewhere.Namespace = "other"
	w := newWorld(t, elsewhere, newScaler("c", "Deployment", "web"), newScaler("b", "Deployment", "web"), newScaler("a", "App", "web"))
	for _, c := range []struct{ kind, name, want string }{
		{"Deployment", "web", "b"}, {"App", "web", "a"}, {"Deployment", "other", ""}, {"ModelBox", "web", ""},
	} {
		got, err := FindAutoscaler(t.Context(), w.Client, c.kind, types.NamespacedName{Namespace: namespace, Name: c.name})
		if err != nil || got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.kind, c.name, got, err, c.want)
		}
	}
}

// lostInputs is the observation of a database with a record of its inputs, and with nothing else.
type lostInputs string

func (l lostInputs) LostInputs() string                           { return string(l) }
func (lostInputs) Volume(*Observed) *corev1.PersistentVolumeClaim { return nil }
func (lostInputs) LiveObject(client.Object) (client.Object, bool) { return nil, false }
func (l lostInputs) After(client.Object) (Data, bool)             { return l, false }
