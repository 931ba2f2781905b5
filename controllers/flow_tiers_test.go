package controllers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

const tieredKind = "CloudManager"

// tieredSpec is a CloudManager whose database is data, with an image of its front tier.
func tieredSpec(front string) string {
	return `{"db":{"statefulSet":{"name":"data","image":"mariadb:10.3","storage":{"size":"1Gi"}}},` +
		`"identity":{"deployment":{"name":"id","image":"busybox:1"}},"front":{"deployment":{"name":"front","image":"` + front + `"}}}`
}

// phase returns the phase of the CloudManager web.
func (w *world) phase() appv1.Phase {
	w.t.Helper()
	live := kindNamed(w.t, tieredKind).empty()
	if !w.read(live) {
		w.t.Fatal("there is no CloudManager")
	}
	data, err := json.Marshal(live)
	if err != nil {
		w.t.Fatal(err)
	}
	var typed struct{ Status appv1.CloudManagerStatus }
	if err := json.Unmarshal(data, &typed); err != nil {
		w.t.Fatal(err)
	}
	return typed.Status.Phase
}

// makeTierAvailable writes the status of a tier's workload object as its controller does once all pods run; of none, with pods 0.
func (w *world) makeTierAvailable(name string, n int32) {
	w.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if w.read(set) {
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: n, UpdatedReplicas: n, CurrentReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			CurrentRevision: "1", UpdateRevision: "1",
		}
		if err := w.Client.Status().Update(w.t.Context(), set); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !w.read(d) {
		w.t.Fatalf("there is no tier %s", name)
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// reaches settles the CloudManager, and fails the test unless it is in a phase and has written these kinds of objects on the way.
func (w *world) reaches(what string, want appv1.Phase, kinds ...string) {
	w.t.Helper()
	for range 3 {
		w.settle(tieredKind)
	}
	if got := w.phase(); got != want {
		w.t.Errorf("%s: the phase is %s, want %s", what, got, want)
	}
	var written []string
	for _, request := range withoutStatus(w.requests) {
		if strings.HasPrefix(request, "try ") {
			continue
		}
		written = append(written, strings.TrimPrefix(request, "patch "))
	}
	w.requests = nil
	slices.Sort(written)
	if !slices.Equal(written, kinds) {
		w.t.Errorf("%s: written are %q, want %q", what, written, kinds)
	}
}

// TestFlowOfTiers brings a CloudManager up tier by tier, and takes the tiers down and up again: what is above waits at the creation, and
// is left alone after that.
func TestFlowOfTiers(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, tieredKind), tieredSpec("nginx:1")))
	w.reaches("creation", appv1.PhaseDatabase, "Secret dataauth", "Service data", "Service data-headless", "StatefulSet data")
	w.stands("creation", tieredKind, "IdentityReady=False/DependencyNotReady", "FrontReady=False/DependencyNotReady")
	w.restart()
	w.reaches("restart", appv1.PhaseDatabase)
	w.makeTierAvailable("data", 1)
	w.reaches("the database is up", appv1.PhaseIdentity, "Deployment id")
	w.makeTierAvailable("id", 1)
	w.reaches("identity is up", appv1.PhaseFront, "Deployment front", "Service front")
	w.makeTierAvailable("front", 1)
	w.reaches("front is up", appv1.PhaseReady)
	w.stands("front is up", tieredKind, "Ready=True/Ready", "DatabaseReady=True/Ready", "Stalled=False/NotStalled")

	w.makeTierAvailable("data", 0)
	w.reaches("the database falls", appv1.PhaseDegraded)
	w.setSpec(tieredKind, tieredSpec("nginx:2"))
	w.reaches("another image of the front tier", appv1.PhaseDegraded, "Deployment front")
	w.makeTierAvailable("data", 1)
	w.reaches("the database is up again", appv1.PhaseReady)
	w.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-headless"}})
	w.reaches("a Service is deleted", appv1.PhaseReady, "Service data-headless")
}

// TestFlowOfAPassword keeps the password of a database: once there are volumes, no other is made, and none is ever told.
func TestFlowOfAPassword(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, tieredKind), tieredSpec("nginx:1")))
	w.reaches("creation", appv1.PhaseDatabase, "Secret dataauth", "Service data", "Service data-headless", "StatefulSet data")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "dataauth"}}
	if !w.read(secret) || len(secret.Data) == 0 {
		t.Fatal("there is no password")
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "datadir-data-0", Labels: map[string]string{
		appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelCloudManager: "web", appv1.LabelInstance: "web",
	}, Annotations: map[string]string{appv1.AnnotationRetainedFor: "CloudManager.web"}}}
	w.create(claim)
	w.remove(secret)
	w.setSpec(tieredKind, strings.Replace(tieredSpec("nginx:1"), `"image":"mariadb:10.3"`, `"image":"mariadb:10.4","replicas":1`, 1))
	if _, err := w.reconcile(tieredKind); err != nil {
		t.Fatal(err)
	}
	if w.read(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "dataauth"}}) {
		t.Error("another password was made for volumes that one opens already")
	}
	w.stands("the Secret is deleted", tieredKind, "Stalled=True/PasswordLost")
	if got := w.message(tieredKind, appv1.ConditionStalled); !containsAll(got, "Secret dataauth", "datadir-data-0") {
		t.Errorf("the message is %q", got)
	}
	for _, event := range w.sent() {
		for _, value := range secret.Data {
			if len(value) > len("root") && strings.Contains(event, string(value)) { // The user's name is no secret.
				t.Error("an event has the password")
			}
		}
	}
}

// TestFlowOfPausedTiers writes nothing while a CloudManager is paused.
func TestFlowOfPausedTiers(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, tieredKind), strings.Replace(tieredSpec("nginx:1"), "{", `{"paused":true,`, 1)))
	w.reaches("paused from the start", appv1.PhasePending)
	w.setSpec(tieredKind, tieredSpec("nginx:1"))
	w.reaches("resumed", appv1.PhaseDatabase, "Secret dataauth", "Service data", "Service data-headless", "StatefulSet data")
	w.setSpec(tieredKind, strings.Replace(tieredSpec("nginx:2"), "{", `{"paused":true,`, 1))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	w.read(set)
	set.Spec.Replicas = ptr.To[int32](3)
	w.update(set)
	w.reaches("paused, and changed by others", appv1.PhaseDatabase)
}
