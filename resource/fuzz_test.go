package resource

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/specs"
)

// randomApp returns an App that the schema takes, and something to observe next to it.
func randomApp(t testing.TB, src specs.Source) (*appv1.App, BuildOptions) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"spec": specs.Workload(src)})
	if err != nil {
		t.Fatal(err)
	}
	app := &appv1.App{}
	if err := json.Unmarshal(data, app); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	app.Namespace, app.Name, app.UID = "default", specs.Name(src, 1), "1"
	seen := BuildOptions{Inputs: BuildInputs{Rendering: Renderings()[src.IntN(len(Renderings()))]}, Autoscaled: src.IntN(4) == 3}
	if src.IntN(2) == 1 {
		seen.Selector = map[string]string{"app.example.com/v1": app.Name}
	}
	return app, seen
}

// FuzzApp builds random Apps: nothing may panic, change its input, differ the second time, or break a rule of the API
// server that can be checked here. The integration tests ask the API server itself.
func FuzzApp(f *testing.F) {
	f.Add([]byte(nil))
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		data := make([]byte, random.IntN(400))
		for i := range data {
			data[i] = byte(random.IntN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		app, seen := randomApp(t, specs.FromBytes(data))
		before := app.DeepCopy()
		first := appBytes(t, app, seen)
		if diff := cmp.Diff(before, app); diff != "" {
			t.Errorf("the App was changed (-before +after):\n%s", diff)
		}
		if again := appBytes(t, app.DeepCopy(), seen); again != first {
			t.Errorf("built again (-first +again):\n%s", cmp.Diff(first, again))
		}

		w := built(t)(App(app, seen))
		checkRecord(t, app, w)
		d := buildDeployment(w)
		checkDeployment(t, d)
		if service := buildService(w); service != nil {
			checkService(t, service, d, seen.Inputs.Rendering)
		} else if len(app.Spec.Ports) > 0 {
			t.Error("there are ports and no Service")
		}
	})
}

// checkRecord checks that the record is what the next reconcile needs: the same spec and the same inputs.
func checkRecord(t *testing.T, app *appv1.App, w *Workload) {
	t.Helper()
	if changed, err := appChanged(&app.Spec, w.Record[appv1.AnnotationLastAppliedSpec]); changed || err != nil {
		t.Errorf("the spec has changed against its own record: %t, %v", changed, err)
	}
	var stored appv1.AppSpec
	if err := json.Unmarshal(canonicalJSON(&app.Spec), &stored); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(string(identityMeta(&app.Spec, appWorkload)), string(identityMeta(&stored, appWorkload))); diff != "" {
		t.Errorf("the identity of a spec differs from that of the stored one (-spec +stored):\n%s", diff)
	}
	if _, err := DecodeInputs(w.Record[appv1.AnnotationLastAppliedInputs]); err != nil {
		t.Error(err)
	}
	size := 0
	for key, value := range w.Record {
		size += len(key) + len(value)
	}
	if size > 200<<10 {
		t.Errorf("the annotations have %d bytes, the API server takes 262144 of everybody's together", size)
	}
}

// checkDeployment checks what server-side apply refuses although the schema of a Deployment takes it.
func checkDeployment(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("the selector's %s=%s is not among the pods' labels", key, value)
		}
	}
	for key, value := range d.Spec.Template.Labels {
		for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			t.Errorf("label %s=%s: %s", key, value, problem)
		}
	}
	type key struct {
		number   int32
		protocol corev1.Protocol
	}
	keys, names := map[key]bool{}, map[string]bool{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		if k := (key{p.ContainerPort, p.Protocol}); keys[k] {
			t.Errorf("two container ports %v", k)
		}
		keys[key{p.ContainerPort, p.Protocol}] = true
		if names[p.Name] && p.Name != "" {
			t.Errorf("two container ports %q", p.Name)
		}
		names[p.Name] = true
		if p.Name != "" && len(validation.IsValidPortName(p.Name)) > 0 {
			t.Errorf("container port name %q", p.Name)
		}
	}
}

// checkService checks that every port of the Service has a name of its own and leads to a port of the container.
func checkService(t *testing.T, service *corev1.Service, d *appsv1.Deployment, rendering int32) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range service.Spec.Ports {
		if names[p.Name] {
			t.Errorf("two ports %q", p.Name)
		}
		names[p.Name] = true
		if len(service.Spec.Ports) > 1 && len(validation.IsDNS1123Label(p.Name)) > 0 {
			t.Errorf("port name %q", p.Name)
		}
		found := rendering == RenderingTutorial // Its container ports know no names and no protocols.
		for _, c := range d.Spec.Template.Spec.Containers[0].Ports {
			leads := p.TargetPort.IntVal == c.ContainerPort || (p.TargetPort.StrVal != "" && p.TargetPort.StrVal == c.Name)
			found = found || (leads && p.Protocol == c.Protocol)
		}
		if !found {
			t.Errorf("port %+v leads to no port of the container", p)
		}
	}
}
