package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

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
		"of a ModelBox, to be adopted": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				leftBy(d, app, resource.KindModelBox)
			},
			resource.Provenance{},
		},
		"of a ModelBox, and half adopted": {
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				leftBy(d, app, resource.KindModelBox)
				d.ManagedFields = append(d.ManagedFields, markOf(resource.KindApp, appv1.AnnotationLastAppliedInputs))
			},
			resource.Provenance{},
		},
		"of a UnitedDeployment, to be adopted by a ModelBox": {
			func(d *appsv1.Deployment, app *appv1.App, in *Input) {
				leftBy(d, app, resource.KindUnitedDeployment)
				in.Kind = resource.KindModelBox
			},
			resource.Provenance{},
		},
		"of an App, to be adopted by a ModelBox": {
			func(d *appsv1.Deployment, app *appv1.App, in *Input) {
				leftBy(d, app, resource.KindApp)
				in.Kind = resource.KindModelBox
			},
			resource.Provenance{},
		},
		"of an App again after a ModelBox": { // The ModelBox may still have fields of the template that an adoption has kept.
			func(d *appsv1.Deployment, app *appv1.App, _ *Input) {
				leftBy(d, app, resource.KindModelBox)
				d.ManagedFields = []metav1.ManagedFieldsEntry{markOf(resource.KindModelBox, "other"), markOf(resource.KindApp, appv1.AnnotationLastAppliedHash)}
			},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
		"of a ModelBox by the mark alone, which any client can forge, and the App's": {
			func(d *appsv1.Deployment, _ *appv1.App, _ *Input) {
				d.ManagedFields = []metav1.ManagedFieldsEntry{markOf(resource.KindModelBox, appv1.AnnotationLastAppliedHash)}
			},
			resource.Provenance{Exists: true, Ours: true, Inputs: "{}"},
		},
	} {
		app := newWebApp()
		d := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", "1")}
		d.Annotations = map[string]string{
			appv1.AnnotationLastAppliedHash: "5", appv1.AnnotationLastAppliedInputs: "{}", appv1.AnnotationLastAppliedSpec: same,
		}
		in := newAppInput(app)
		c.change(d, app, in)
		if got := (decider{in: in, seen: &Observed{Object: d}}).liveProvenance(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	in := newAppInput(newWebApp())
	if got := (decider{in: in, seen: &Observed{}}).liveProvenance(); got != (resource.Provenance{}) {
		t.Errorf("nothing: %+v", got)
	}
	lost := &Observed{Data: lostInputs("{}")}
	if got := (decider{in: in, seen: lost}).liveProvenance(); got != (resource.Provenance{Exists: true, Ours: true, Inputs: "{}"}) {
		t.Errorf("to be recreated as it was: %+v", got)
	}
}

// leftBy makes a Deployment one that a resource of a kind has left behind, and has the App adopt it.
func leftBy(d *appsv1.Deployment, app *appv1.App, kind resource.Kind) {
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	d.OwnerReferences, d.Labels = nil, map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
	d.ManagedFields = []metav1.ManagedFieldsEntry{markOf(kind, appv1.AnnotationLastAppliedHash)}
}

// markOf returns the managed fields of a kind that has applied an annotation.
func markOf(kind resource.Kind, annotation string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: kind.FieldManager(), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:` + annotation + `":{}}}}`)},
	}
}

// newComparer returns the comparer of the engine.
func newComparer(t *testing.T) comparer {
	t.Helper()
	return fields.NewComparer(newScheme(t))
}

// appliedByOthers returns the Deployment of an App as the API server has it after the operator has applied it and another client has
// changed it.
func appliedByOthers(t *testing.T, app *appv1.App, inputs resource.BuildInputs, change func(*appsv1.Deployment)) *appsv1.Deployment {
	t.Helper()
	wanted := appliedDeployment(t, app, inputs)
	wanted.ManagedFields, wanted.UID, wanted.Generation = nil, "", 0
	wanted.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	cluster, live := newClient(t), &appsv1.Deployment{}
	//nolint:staticcheck // The typed object states all that the operator applies.
	if err := cluster.Patch(t.Context(), wanted, client.Apply, client.FieldOwner(resource.KindApp.FieldManager()), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(wanted), live); err != nil {
		t.Fatal(err)
	}
	change(live)
	if err := cluster.Update(t.Context(), live, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	return live
}

// TestCheckInputs lets others write the record of the inputs and what it speaks of, and checks which parts count.
func TestCheckInputs(t *testing.T) {
	small := resource.BuiltInSizes().Resolve("small")
	recorded := resource.BuildInputs{Rendering: resource.RenderingLatest, Size: small}.Encode()
	largeSize := resource.BuiltInSizes().Resolve("large")
	large := resource.BuildInputs{Rendering: resource.RenderingLatest, Size: largeSize}.Encode()
	resize := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: largeSize.Requests, Limits: largeSize.Limits}
	}
	type row struct {
		change func(*appsv1.Deployment)
		inputs string
		size   resource.ResolvedSize
	}
	for name, c := range map[string]row{
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
	} {
		app := newWebApp()
		app.Spec.Size, app.Spec.Ports, app.Spec.Replicas = "small", nil, ptr.To[int32](1)
		live := appliedByOthers(t, app, resource.BuildInputs{Rendering: resource.RenderingLatest, Size: small}, c.change)
		decide := decider{compare: newComparer(t), in: newAppInput(app), seen: &Observed{Object: live}}
		h, size, err := decide.checkInputs(decide.liveProvenance())
		if err != nil || h.Inputs != c.inputs || !size.Equal(c.size) {
			t.Errorf("%s: the inputs are %q and %s, want %q and %s", name, h.Inputs, size, c.inputs, c.size)
		}
	}
}

// TestRecoverInputs gives up on a template that no rendering makes, and does not look at what is not the operator's.
func TestRecoverInputs(t *testing.T) {
	app := newWebApp()
	workload, _ := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
	built := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: workload.Template}}
	other := built.DeepCopy()
	other.Spec.Template.Spec.Containers[0].Image = "evil:1"
	latest := resource.BuildInputs{Rendering: resource.RenderingLatest}.Encode()
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
		h, err := (decider{compare: newComparer(t), in: newAppInput(app), seen: &Observed{Object: c.live}}).recoverInputs(c.history, "", resource.ResolvedSize{})
		if err != nil || h.Inputs != c.want {
			t.Errorf("%s: %q, %v; want %q", name, h.Inputs, err, c.want)
		}
	}
	small := resource.BuiltInSizes().Resolve("small")
	c := decider{compare: newComparer(t), in: newAppInput(app), seen: &Observed{Object: built}}
	h, err := c.recoverInputs(resource.Provenance{Exists: true, Ours: true}, "5", small)
	if err != nil {
		t.Fatal(err)
	}
	want := resource.BuildInputs{Rendering: resource.RenderingLatest, Refresh: "5", Size: small}
	if h.Inputs != want.Encode() {
		t.Errorf("with a size and a refresh: %q, want %q", h.Inputs, want.Encode())
	}
}

// lostInputs is the observation of a database with a record of its inputs, and with nothing else.
type lostInputs string

func (l lostInputs) LostInputs() string { return string(l) }

func (lostInputs) LostReplicas() *int32 { return nil }

func (lostInputs) Volume(*Observed) *corev1.PersistentVolumeClaim { return nil }

func (lostInputs) Note() reconciler.ReasonAndMessage { return reconciler.ReasonAndMessage{} }

func (lostInputs) LiveObject(client.Object) (client.Object, bool) { return nil, false }

func (l lostInputs) After(client.Object) (Data, bool) { return l, false }
