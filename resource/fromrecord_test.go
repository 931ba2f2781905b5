package resource

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// recordedKinds has, by kind, how to build a case with a change of its present spec that is not in the record: from the spec, and
// from a record.
var recordedKinds = map[string]func(testing.TB, string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)){
	"app": func(t testing.TB, path string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)) {
		var app appv1.App
		c := readCase(t, path, &app)
		present := app.DeepCopy()
		present.Spec = appv1.AppSpec{WorkloadSpec: appv1.WorkloadSpec{Image: "present"}}
		return c, kindBuilder(App, &app), kindFromRecord(AppSpec(present))
	},
	"modelbox": func(t testing.TB, path string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)) {
		var box appv1.ModelBox
		c := readCase(t, path, &box)
		present := box.DeepCopy()
		present.Spec = appv1.ModelBoxSpec{WorkloadSpec: appv1.WorkloadSpec{Image: "present"}}
		return c, kindBuilder(ModelBox, &box), kindFromRecord(ModelBoxSpec(present))
	},
	"uniteddeployment": func(t testing.TB, path string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)) {
		var ud appv1.UnitedDeployment
		c := readCase(t, path, &ud)
		present := ud.DeepCopy()
		present.Spec.Template = &appv1.WorkloadSpec{Image: "present"}
		return c, kindBuilder(UnitedDeployment, &ud), kindFromRecord(UnitedDeploymentSpec(present))
	},
	"cloudmanager-db":       recordedTier(TierDatabase),
	"cloudmanager-identity": recordedTier(TierIdentity),
	"cloudmanager-front":    recordedTier(TierFront),
}

func kindBuilder[T any](build func(T, BuildOptions) (*Workload, field.ErrorList), obj T) builder {
	return func(seen BuildOptions) (*Workload, field.ErrorList) { return build(obj, seen) }
}

func kindFromRecord(spec Spec) func(string, BuildOptions) (*Workload, error) {
	return func(record string, seen BuildOptions) (*Workload, error) { return BuildRecorded(spec, record, seen) }
}

func recordedTier(tier Tier) func(testing.TB, string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)) {
	return func(t testing.TB, path string) (goldenCase, builder, func(string, BuildOptions) (*Workload, error)) {
		var cm appv1.CloudManager
		c := readCase(t, path, &cm)
		cm.DefaultNames()
		present := cm.DeepCopy()
		*tier.Component(present) = appv1.Component{Name: tier.Component(&cm).Name, WorkloadSpec: appv1.WorkloadSpec{Image: "present"}}
		build := func(seen BuildOptions) (*Workload, field.ErrorList) { return CloudManagerTier(&cm, tier, seen) }
		return c, build, func(record string, seen BuildOptions) (*Workload, error) {
			return BuildRecorded(TierSpec(present, tier), record, seen)
		}
	}
}

// TestFromRecord builds each golden case from its own record, by a resource with another spec: the objects must be the same, byte
// by byte, in every rendering.
func TestFromRecord(t *testing.T) {
	for kind, read := range recordedKinds {
		for name, path := range cases(t, kind) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				c, build, fromRecord := read(t, path)
				seen := c.observed()
				for _, seen.Inputs.Rendering = range Renderings() {
					w, errs := build(seen)
					if w.refused {
						continue
					}
					present := seen // What stands around the pods is in no record: it comes from the present spec.
					present.Serving = w.Serving
					again, err := fromRecord(w.Record[appv1.AnnotationLastAppliedSpec], present)
					if !w.Recorded {
						if !errors.Is(err, ErrNoSpec) {
							t.Errorf("from a hash: %v, want ErrNoSpec", err)
						}
						continue
					}
					if err != nil {
						t.Fatalf("rendering %d: %v, %v", seen.Inputs.Rendering, err, errs)
					}
					if diff := cmp.Diff(objects(t, w), objects(t, again)); diff != "" {
						t.Errorf("rendering %d (-from the spec +from its record):\n%s", seen.Inputs.Rendering, diff)
					}
				}
				for _, record := range []string{"", "{}", "null", "gzip:", "[]", `{"replicas":1}`} {
					if w, err := fromRecord(record, seen); err == nil || w != nil {
						t.Errorf("record %q is built", record)
					}
				}
			})
		}
	}
}

// TestFromRefusedRecord checks which of a record's faults are in the way: not what newer rules refuse, as that runs already, but
// labels of another resource, and a patch that cannot be applied.
func TestFromRefusedRecord(t *testing.T) {
	for patch, want := range map[string]bool{
		`{spec: {hostNetwork: true}}`:                              true,
		`{spec: {restartPolicy: Never}}`:                           true,
		`{metadata: {labels: {app.huolala.cn/modelbox: other}}}`:   false,
		`{spec: {containers: [{image: a}]}}`:                       false,
		`{metadata: {labels: {app.kubernetes.io/component: web}}}`: false,
	} {
		app := patchedApp(t, patch)
		record, _ := recordOf(&app.Spec)
		w, err := BuildRecorded(AppSpec(app), record, latest)
		if (err == nil) != want {
			t.Errorf("%s: %v, want it to be built: %t", patch, err, want)
		}
		if want && w.Template.Labels[appv1.LabelComponent] != "app" {
			t.Errorf("%s: the labels are %v", patch, w.Template.Labels)
		}
	}
	cm := &appv1.CloudManager{}
	cm.Name = "cm"
	cm.DefaultNames()
	if _, err := BuildRecorded(TierSpec(cm, TierFront), `{"name":"other","image":"a"}`, latest); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("the record of another component: %v", err)
	}
}

// TestPausedIsNotRecorded checks that to pause a resource, and to resume it, changes neither its record nor what is built.
func TestPausedIsNotRecorded(t *testing.T) {
	app, box := appOf(t, "{image: a}"), &appv1.ModelBox{}
	box.Spec.Image = "a"
	running := []*Workload{built(t)(App(app, latest)), built(t)(ModelBox(box, latest))}
	app.Spec.Paused, box.Spec.Paused = true, true
	for i, paused := range []*Workload{built(t)(App(app, latest)), built(t)(ModelBox(box, latest))} {
		if diff := cmp.Diff(objects(t, running[i]), objects(t, paused)); diff != "" {
			t.Errorf("objects (-running +paused):\n%s", diff)
		}
	}
	if changed, err := appChanged(&app.Spec, running[0].Record[appv1.AnnotationLastAppliedSpec]); changed || err != nil {
		t.Errorf("the App has changed: %t, %v", changed, err)
	}
	if changed, err := ModelBoxSpec(box).Changed(running[1].Record[appv1.AnnotationLastAppliedSpec], ScopePods); changed || err != nil {
		t.Errorf("the ModelBox has changed: %t, %v", changed, err)
	}
	if !app.Spec.Paused || !box.Spec.Paused {
		t.Error("building has changed the spec")
	}
}

func TestReliableInputs(t *testing.T) {
	small := BuiltInSizes().Resolve(appv1.SizeSmall)
	template := func(name string, requests, limits corev1.ResourceList) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidecar"}, {Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
		}}}
	}
	more := corev1.ResourceList{"cpu": apiresource.MustParse("0.1"), "memory": small.Requests["memory"], "example.com/gpu": apiresource.MustParse("1")}
	for name, c := range map[string]struct {
		recorded  BuildInputs
		live      *corev1.PodTemplateSpec
		keepsSize bool
	}{
		"no size":                 {BuildInputs{Rendering: RenderingLatest}, template("main", nil, nil), true},
		"as recorded":             {BuildInputs{Rendering: RenderingLatest, Size: small}, template("main", small.Requests, small.Limits), true},
		"in other words, or more": {BuildInputs{Rendering: RenderingLatest, Size: small}, template("main", more, small.Limits), true},
		"other requests":          {BuildInputs{Rendering: RenderingLatest, Size: small}, template("main", small.Limits, small.Limits), false},
		"no limits":               {BuildInputs{Rendering: RenderingLatest, Size: small}, template("main", small.Requests, nil), false},
		"in another container":    {BuildInputs{Rendering: RenderingLatest, Size: small}, template("other", small.Requests, small.Limits), false},
	} {
		want := c.recorded
		if got := ReliableInputs(c.recorded, true, c.live, "main"); !cmp.Equal(got, want) {
			t.Errorf("%s, our own: %+v", name, got)
		}
		if !c.keepsSize {
			want.Size = ResolvedSize{}
		}
		if got := ReliableInputs(c.recorded, false, c.live, "main"); !cmp.Equal(got, want) {
			t.Errorf("%s, another manager's: %+v; want %+v", name, got, want)
		}
	}
}

// TestReplicas has the three values that the number of pods has: unstated, stated, and an autoscaler's.
func TestReplicas(t *testing.T) {
	for _, stated := range []*int32{nil, ptr.To[int32](0), ptr.To[int32](1), ptr.To[int32](5)} {
		app, box, cm := appOf(t, "{image: a}"), &appv1.ModelBox{}, &appv1.CloudManager{}
		app.Spec.Replicas, box.Spec.Replicas = stated, stated
		cm.Spec.DB.StatefulSet.Replicas, cm.Spec.Identity.Deployment.Replicas, cm.Spec.Front.Deployment.Replicas = stated, stated, stated
		cm.DefaultNames()
		for _, autoscaled := range []bool{false, true} {
			seen := BuildOptions{Inputs: latest.Inputs, Autoscaled: autoscaled}
			want := stated
			if autoscaled {
				want = nil
			}
			for i, w := range []*Workload{
				built(t)(App(app, seen)), built(t)(ModelBox(box, seen)), built(t)(CloudManagerDatabase(cm, seen)),
				built(t)(CloudManagerIdentity(cm, seen)), built(t)(CloudManagerFront(cm, seen)),
			} {
				if diff := cmp.Diff(want, w.Replicas); diff != "" {
					t.Errorf("%d, autoscaled %t (-want +got):\n%s", i, autoscaled, diff)
				}
			}
		}
	}
}

// TestTemplateSizeTellsRenderings checks that of the renderings which hold in a template that one of them has made, that one states
// most: the latest one.
func TestTemplateSizeTellsRenderings(t *testing.T) {
	app := appOf(t, "{image: a, ports: [{port: 80}]}")
	size := func(rendering int32) int {
		return TemplateSize(&built(t)(App(app, BuildOptions{Inputs: BuildInputs{Rendering: rendering}})).Template)
	}
	if tutorial, latest := size(RenderingTutorial), size(RenderingLatest); tutorial >= latest {
		t.Errorf("the renderings have %d and %d bytes", tutorial, latest)
	}
}
