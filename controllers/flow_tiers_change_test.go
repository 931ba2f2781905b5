package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/stored"
)

// newRunningTiers returns a world with the CloudManager of a spec, all of whose tiers are up.
func newRunningTiers(t *testing.T, spec string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, tieredKind), spec))
	w.generations = true
	for _, tier := range []string{"data", "id", "front"} {
		w.settle(tieredKind)
		w.makeTierAvailable(tier, 1)
	}
	w.settle(tieredKind)
	w.requests = nil
	w.stands("the tiers are up", tieredKind, "Ready=True/Ready")
	return w
}

// tierDeployment reads the Deployment of a tier, which must exist.
func (w *world) tierDeployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !w.read(d) {
		w.t.Fatalf("there is no Deployment %s", name)
	}
	return d
}

// readyTiers returns how many tiers the status says are ready.
func (w *world) readyTiers() string {
	w.t.Helper()
	live := kindNamed(w.t, tieredKind).empty()
	if !w.read(live) {
		w.t.Fatal("there is no CloudManager")
	}
	return decodeStatus[appv1.CloudManagerStatus](w.t, live).Ready
}

// databaseHost returns where a tier is told that the database is.
func (w *world) databaseHost(name string) string {
	w.t.Helper()
	for _, env := range w.tierDeployment(name).Spec.Template.Spec.Containers[0].Env {
		if env.Name == "DB_HOST" {
			return env.Value
		}
	}
	return ""
}

// TestFlowOfAFallingTier has the database fall that was up: the other tiers stay, and drift in them is repaired. A change of a tier is no
// fall: the phase stays until the controller of the tier has looked at it.
func TestFlowOfAFallingTier(t *testing.T) {
	w := newRunningTiers(t, tieredSpec("nginx:1"))
	w.makeTierAvailable("data", 0)
	w.reaches("the database falls", appv1.PhaseDegraded)
	w.stands("the database falls", tieredKind, "DatabaseReady=False/Progressing", "FrontReady=True/Ready")
	if got := w.readyTiers(); got != "2/3" {
		t.Errorf("ready are %s", got)
	}
	front := w.tierDeployment("front")
	front.Spec.Template.Spec.Containers[0].Image = "theirs"
	w.update(front)
	w.reaches("drift of the front tier", appv1.PhaseDegraded, "Deployment front")
	if got := w.tierDeployment("front").Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
		t.Errorf("the image of the front tier is %s", got)
	}
	w.makeTierAvailable("front", 1)
	w.makeTierAvailable("data", 1)
	w.reaches("the database is up again", appv1.PhaseReady)

	w.setSpec(tieredKind, strings.Replace(tieredSpec("nginx:1"), "mariadb:10.3", "mariadb:10.4", 1))
	w.reaches("another image of the database", appv1.PhaseReady, "StatefulSet data")
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	if !w.read(set) {
		t.Fatal("there is no StatefulSet")
	}
	set.Generation++
	w.update(set)
	w.reaches("its controller has not looked", appv1.PhaseReady)
	w.stands("its controller has not looked", tieredKind, "Ready=False/Progressing", "DatabaseReady=False/Progressing")
}

// TestFlowOfVolumesThatShrink asks for smaller volumes, together with another image of the database and of the front tier: nothing of the
// database is written, and the front tier goes on.
func TestFlowOfVolumesThatShrink(t *testing.T) {
	large := func(spec string) string { return strings.Replace(spec, `"size":"1Gi"`, `"size":"20Gi"`, 1) }
	forNames(t, []string{"19Gi", "1"}, func(t *testing.T, size string) {
		w := newRunningTiers(t, large(tieredSpec("nginx:1")))
		spec := strings.NewReplacer(`"20Gi"`, `"`+size+`"`, "mariadb:10.3", "mariadb:11").Replace(large(tieredSpec("nginx:2")))
		w.setSpec(tieredKind, spec)
		w.reaches("smaller volumes", appv1.PhaseReady, "Deployment front")
		w.stands("smaller volumes", tieredKind, "Stalled=True/"+appv1.ReasonVolumeResizeFailed, "DatabaseReady=False/"+appv1.ReasonVolumeResizeFailed)
		if got := w.message(tieredKind, appv1.ConditionStalled); !strings.Contains(got, "spec.db.statefulSet.storage.size cannot shrink from 20Gi to "+size) {
			t.Errorf("Stalled says %q", got)
		}
		w.setSpec(tieredKind, large(tieredSpec("nginx:2")))
		w.reaches("the former size", appv1.PhaseReady)
		w.stands("the former size", tieredKind, "Stalled=False/NotStalled")
	})
}

// TestPlanOfAGrowingDatabase plans larger volumes, alone and with another image. The StatefulSet is recreated in both cases; its pods stay only
// where their template does.
func TestPlanOfAGrowingDatabase(t *testing.T) {
	w := newRunningTiers(t, tieredSpec("nginx:1"))
	for image, want := range map[string]string{
		"mariadb:10.3": "StatefulSet data: recreated, its pods stay",
		"mariadb:10.4": "StatefulSet data: recreated, 1 pod is replaced",
	} {
		spec := strings.NewReplacer(`"size":"1Gi"`, `"size":"2Gi"`, "mariadb:10.3", image).Replace(tieredSpec("nginx:1"))
		changed, ok := newStored(t, kindNamed(t, tieredKind), spec).(*stored.CloudManager)
		if !ok {
			t.Fatal("no CloudManager")
		}
		typed, err := changed.Decode()
		if err != nil {
			t.Fatal(err)
		}
		live := kindNamed(t, tieredKind).empty()
		if !w.read(live) {
			t.Fatal("there is no CloudManager")
		}
		typed.SetUID(live.GetUID())
		made, err := newPlanner(w.Deps).Plan(t.Context(), tieredKind, typed)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Join(made.Lines(100, 1000), "\n")
		if pods := made.ReplacedPods() > 0; !strings.Contains(lines, want) || pods != (image != "mariadb:10.3") {
			t.Errorf("%s: pods are replaced is %t, and the plan is\n%s", image, pods, lines)
		}
	}
}

// TestFlowOfRenamedTiers gives the components other names: the old objects stay until the new ones are up and nothing is led to the old
// ones. No tier is changed before the database is up that it is led to.
func TestFlowOfRenamedTiers(t *testing.T) {
	w := newRunningTiers(t, tieredSpec("nginx:1"))
	renamed := strings.Replace(tieredSpec("nginx:1"), `"name":"front"`, `"name":"web"`, 1)
	w.setSpec(tieredKind, renamed)
	w.reaches("the front tier is renamed", appv1.PhaseFront, "Deployment web", "Service web")
	w.makeTierAvailable("web", 1)
	w.reaches("the new front tier is up", appv1.PhaseReady, "delete Deployment front", "delete Service front")

	w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"base"`, "nginx:1", "nginx:2").Replace(renamed))
	w.reaches("the database is renamed", appv1.PhaseDatabase, "Secret baseauth", "Service base", "Service base-headless", "StatefulSet base")
	for _, tier := range []string{"id", "web"} {
		if host := w.databaseHost(tier); host != "data.default.svc" {
			t.Errorf("%s is led to %s before that database is up", tier, host)
		}
	}
	w.makeTierAvailable("base", 1)
	w.reaches("the new database is up", appv1.PhaseDatabase, "Deployment id", "Deployment web")
	for _, tier := range []string{"id", "web"} {
		if host := w.databaseHost(tier); host != "base.default.svc" {
			t.Errorf("%s is led to %s", tier, host)
		}
	}
	w.makeTierAvailable("id", 1)
	w.makeTierAvailable("web", 1)
	w.reaches("nothing is led to the former database", appv1.PhaseReady, "delete Service data", "delete Service data-headless", "delete StatefulSet data")
	for _, name := range []string{"dataauth", "baseauth"} {
		if !w.read(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}) {
			t.Errorf("Secret %s is deleted", name)
		}
	}
	if got := w.tierDeployment("web").Spec.Template.Spec.Containers[0].Image; got != "nginx:2" {
		t.Errorf("the image of the front tier is %s", got)
	}
}

// TestFlowOfTiersRenamedBack gives a component its old name again while the new one is not up: the new one goes, and the old one has been
// there all the time.
func TestFlowOfTiersRenamedBack(t *testing.T) {
	spec := strings.Replace(tieredSpec("nginx:1"), `"image":"busybox:1"`, `"image":"busybox:1","ports":[{"port":8000}]`, 1)
	forNames(t, []string{"data", "id", "front"}, func(t *testing.T, tier string) {
		w := newRunningTiers(t, spec)
		w.setSpec(tieredKind, strings.Replace(spec, `"name":"`+tier+`"`, `"name":"other"`, 1))
		for range 3 {
			w.settle(tieredKind)
		}
		if got := w.phase(); got == appv1.PhaseReady {
			t.Errorf("the phase is %s before the new tier is up", got)
		}
		for _, request := range w.requests {
			if strings.HasPrefix(request, "delete ") {
				t.Errorf("before the new tier is up: %s", request)
			}
		}
		if tier == "data" {
			w.makeTierAvailable("other", 0)
		}
		w.setSpec(tieredKind, spec)
		for range 3 {
			w.settle(tieredKind)
		}
		w.stands("the old name", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
		if got := w.phase(); got != appv1.PhaseReady {
			t.Errorf("the phase is %s", got)
		}
		name := metav1.ObjectMeta{Name: "other"}
		for _, left := range []client.Object{&appsv1.StatefulSet{ObjectMeta: name}, &appsv1.Deployment{ObjectMeta: name}, &corev1.Service{ObjectMeta: name}} {
			if w.read(left) {
				t.Errorf("%T other is left", left)
			}
		}
		if !w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: tier}}) {
			t.Errorf("Service %s is gone", tier)
		}
	})
}
