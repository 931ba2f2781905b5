package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// unitedManager is the field owner of what UnitedDeployments write.
const unitedManager = "app-operator/uniteddeployment"

// How a UnitedDeployment stands whose Deployment wants the right number of pods (none runs here), and one that
// keeps off a Deployment.
var (
	held = []string{"Ready=False/Progressing", "Reconciling=True/Progressing", "Stalled=False/NotStalled", "Synced=True/Synced"}
	off  = []string{"Ready=False/ScaleConflict", "Reconciling=False/ScaleConflict", "Stalled=True/ScaleConflict", "Synced=False/ScaleConflict"}
)

// managedPaths returns the fields that each manager owns, in managedFields' own form, by the manager with its operation
// and subresource.
func managedPaths(t testing.TB, obj client.Object) map[string]map[string]any {
	t.Helper()
	paths := map[string]map[string]any{}
	for _, entry := range obj.GetManagedFields() {
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			t.Fatal(err)
		}
		paths[fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource)] = fields
	}
	return paths
}

// onlyScaled fails the test if anything of a Deployment differs from how it was but the number of replicas, and what the
// API server keeps of such a change: the version, the generation, and who owns the number.
func onlyScaled(t *testing.T, d *appsv1.Deployment, was *appsv1.Deployment, replicas int32) {
	t.Helper()
	plane.Read(t, d)
	owners, before := managedPaths(t, d), managedPaths(t, was)
	number := map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}
	if diff := cmp.Diff(number, owners[unitedManager+" Update scale"]); diff != "" {
		t.Errorf("what is ours (-want +got):\n%s", diff)
	}
	delete(owners, unitedManager+" Update scale")
	for _, fields := range before {
		if spec, ok := fields["f:spec"].(map[string]any); ok {
			delete(spec, "f:replicas")
		}
	}
	if diff := cmp.Diff(before, owners); diff != "" {
		t.Errorf("what is others' (-before +after):\n%s", diff)
	}

	want := was.DeepCopy()
	want.Spec.Replicas = ptr.To(replicas)
	want.ManagedFields, want.ResourceVersion, want.Generation = d.ManagedFields, d.ResourceVersion, was.Generation+1
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
}

// TestUnitedDeployment holds a Deployment of another owner's. Of the whole object nothing but the number of replicas may
// change, and nothing at all when the UnitedDeployment goes.
func TestUnitedDeployment(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(t *testing.T, d *appsv1.Deployment){
		"created": func(t *testing.T, d *appsv1.Deployment) { plane.Create(t, d) },
		"applied": func(t *testing.T, d *appsv1.Deployment) {
			d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
			if err := plane.Client.Patch(t.Context(), d, client.Apply, client.FieldOwner("other")); err != nil { //nolint:staticcheck // The typed literal is what there is here.
				t.Fatal(err)
			}
		},
		"controlled": func(t *testing.T, d *appsv1.Deployment) { plane.Create(t, controlled(t, d)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			d := newHandMade(ns, "site")
			hold(t, d)
			plane.Read(t, d)
			was := d.DeepCopy()
			ud := newUnited(ns, "holder", "site")
			plane.Create(t, ud)
			plane.Stands(t, ud, held...)
			onlyScaled(t, d, was, 2)
			harness.Says(t, ud, "Synced", "Deployment site is scaled to 2 replicas")
			m.Idle(t)
			checkEvents(t, ud, "Normal Synced: Deployment site is scaled to 2 replicas; Scaled Deployment site from 3 to 2")

			completeRollout(t, d)
			plane.Stands(t, ud, "Ready=True/Ready", "Reconciling=False/Settled", "Stalled=False/NotStalled", "Synced=True/Synced")
			if s := ud.Status; s.Ready != "2/2" || s.AvailableReplicas != 2 || s.UpdatedReplicas != 2 || s.Replicas != 2 ||
				s.ReadyReplicas != 2 || s.UnavailableReplicas != 0 || s.Selector != "run=site" || s.Endpoint != "" || s.Rendering != 0 {
				t.Errorf("status is %+v", s)
			}
			fields := readWhole(t, d)
			m.Idle(t)
			m.Requests.Reset()
			plane.Delete(t, ud)
			plane.Gone(t, ud)
			checkRequests(t, m, "deletion", map[string]int{})
			checkUntouched(t, d, fields)
		})
	}
}

// TestUnitedDeploymentRestart starts another manager over a UnitedDeployment with a Deployment of its template and one without: it sends
// nothing.
func TestUnitedDeploymentRestart(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	foreign, own := newUnited(ns, "foreign", "foreign"), newTemplate(ns, "own", "own")
	plane.Create(t, newHandMade(ns, "foreign"), foreign, own)
	for _, ud := range []*appv1.UnitedDeployment{foreign, own} {
		plane.Stands(t, ud, held...)
		completeRollout(t, namedDeployment(ns, ud.Name))
		plane.Stands(t, ud, "Ready=True/Ready")
	}
	m.Idle(t)
	m.Stop(t)
	m = plane.Start(t, ns)
	checkRequests(t, m, "restart", map[string]int{})
}

// TestUnitedDeploymentDrift changes the number behind the UnitedDeployment's back, and what else it has next to it.
func TestUnitedDeploymentDrift(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d, ud := newHandMade(ns, "site"), newUnited(ns, "site", "site")
	plane.Create(t, d, ud)
	plane.Stands(t, ud, held...)
	awaitReplicas(t, d, 2)
	j := followDeployment(t, d)
	for _, n := range []int32{5, 0} {
		scaleTo(t, d, n)
		awaitReplicas(t, d, 2)
	}
	m.Idle(t)
	j.check(t, d, 2, 5, 2, 0, 2)
	plane.Read(t, d)
	plane.Change(t, d, func() { d.Spec.Replicas = ptr.To[int32](9); containerOf(d).Image = "httpd:2" })
	awaitReplicas(t, d, 2)
	if containerOf(d).Image != "httpd:2" {
		t.Errorf("the image is %s", containerOf(d).Image)
	}
	setReplicas(t, ud, 0)
	awaitReplicas(t, d, 0)
	setReplicas(t, ud, 4)
	awaitReplicas(t, d, 4)
	scaleTo(t, ud, 1)
	awaitReplicas(t, d, 1)
	plane.Stands(t, ud, held...)
	m.Idle(t)
	j.check(t, d, 2, 5, 2, 0, 2, 9, 2, 0, 4, 1)
}

// TestUnitedDeploymentStorm fights over the number of replicas: after a few repairs the operator must say who does it, and
// pause. What the user asks for is not held back, however often that is something new.
func TestUnitedDeploymentStorm(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	m := plane.Start(t, ns, harness.WithClock(clk))
	d, ud := newHandMade(ns, "site"), newUnited(ns, "site", "site")
	plane.Create(t, d, ud)
	for n := range int32(8) {
		setReplicas(t, ud, 10+n)
		awaitReplicas(t, d, 10+n)
	}
	plane.Stands(t, ud, held...)
	for range 5 {
		scaleTo(t, d, 3)
		awaitReplicas(t, d, 17)
	}
	plane.Stands(t, ud, held...)
	scaleTo(t, d, 4)
	plane.Stands(t, ud, "Ready=False/FieldConflict", "Reconciling=False/FieldConflict", "Stalled=True/FieldConflict", "Synced=False/FieldConflict")
	harness.Says(t, ud, "Stalled", `"kube-controller-manager" keeps changing .spec.replicas of Deployment site`, "repaired it 5 times")
	m.Idle(t)
	awaitReplicas(t, d, 4)

	setReplicas(t, ud, 6)
	awaitReplicas(t, d, 6)
	plane.Stands(t, ud, held...)
	scaleTo(t, d, 4)
	plane.Stands(t, ud, "Stalled=True/FieldConflict")
	clk.SetTime(clk.Now().Add(10 * time.Second))
	setAnnotation(t, ud, "time", "later")
	awaitReplicas(t, d, 6)
	plane.Stands(t, ud, held...)

	// One that is made again has no part in the fights of its name.
	scaleTo(t, d, 4)
	plane.Stands(t, ud, "Stalled=True/FieldConflict")
	plane.Delete(t, ud)
	plane.Gone(t, ud)
	m.Idle(t)
	ud = newUnited(ns, "site", "site")
	ud.Spec.Replicas = ptr.To[int32](6)
	plane.Create(t, ud)
	awaitReplicas(t, d, 6)
	plane.Stands(t, ud, held...)
}

// TestUnitedDeploymentWaits names a Deployment that comes, goes and comes again.
func TestUnitedDeploymentWaits(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	ud := newUnited(ns, "holder", "example.site")
	plane.Create(t, ud)
	missing := []string{"Ready=False/DeploymentNotFound", "Reconciling=True/DeploymentNotFound", "Stalled=False/NotStalled", "Synced=False/DeploymentNotFound"}
	plane.Stands(t, ud, missing...)
	harness.Says(t, ud, "Ready", "Deployment example.site does not exist", "spec.template")
	if ud.Status.Ready != "0/2" || ud.Status.Selector != "" {
		t.Errorf("status is %+v", ud.Status)
	}
	m.Idle(t)
	for range 2 {
		m.Requests.Reset()
		d := newHandMade(ns, "example.site")
		plane.Create(t, d)
		awaitReplicas(t, d, 2)
		plane.Stands(t, ud, held...)
		m.Idle(t)
		if n := m.Requests.Counts()["patch deployments/scale"]; n != 1 {
			t.Errorf("the Deployment was scaled %d times", n)
		}
		plane.Delete(t, d)
		plane.Stands(t, ud, missing...)
	}
}

// TestUnitedDeploymentOfAnother replaces the Deployment between the operator's look and its write: the write must not
// reach the one that was not looked at.
func TestUnitedDeploymentOfAnother(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	d, ud := newHandMade(ns, "site"), newUnited(ns, "site", "site")
	plane.Create(t, d)
	var codes []int
	replace := sync.OnceFunc(func() {
		other := newHandMade(ns, "site")
		other.Spec.Replicas = ptr.To[int32](5)
		if err := errors.Join(plane.Client.Delete(t.Context(), d), plane.Client.Create(t.Context(), other)); err != nil {
			t.Error(err)
		}
	})
	m := plane.Start(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Resource != "deployments/scale" {
			return send()
		}
		replace()
		resp, err := send()
		if err == nil {
			codes = append(codes, resp.StatusCode)
		}
		return resp, err
	}))
	plane.Create(t, ud)
	plane.Stands(t, ud, held...)
	awaitReplicas(t, namedDeployment(ns, "site"), 2)
	m.Idle(t)
	m.Stop(t)
	// Until the watch has told of the new one, each write is refused.
	if diff := cmp.Diff([]int{http.StatusConflict, http.StatusOK}, slices.Compact(codes)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// TestUnitedDeploymentLostAnswer loses the answer to a write that took effect.
func TestUnitedDeploymentLostAnswer(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	var lost sync.Once
	m := plane.Start(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (resp *http.Response, err error) {
		resp, err = send()
		if q.Resource == "deployments/scale" {
			lost.Do(func() { resp, err = nil, errors.Join(err, resp.Body.Close(), errors.New("connection lost")) })
		}
		return resp, err
	}))
	d, ud := newHandMade(ns, "site"), newUnited(ns, "site", "site")
	plane.Create(t, d)
	j := followDeployment(t, d)
	plane.Create(t, ud)
	plane.Stands(t, ud, held...)
	m.Idle(t)
	j.check(t, d, 3, 2)
}

// TestUnitedDeploymentRefused names Deployments that an autoscaler scales. They stay as they are, and are scaled as soon as the autoscaler
// is gone.
func TestUnitedDeploymentRefused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d, ud := newHandMade(ns, "site"), newUnited(ns, "site", "site")
	scaler := newAutoscaler(d, "apps/v1", "Deployment")
	plane.Create(t, d, scaler)
	was := readWhole(t, d)
	plane.Create(t, ud)
	plane.Stands(t, ud, off...)
	harness.Says(t, ud, "Stalled", "HorizontalPodAutoscaler scaler-of-site scales Deployment site")
	setReplicas(t, ud, 4)
	plane.Stands(t, ud, off...)
	checkUntouched(t, d, was)
	if ud.Status.Selector == "" || ud.Status.Ready != "0/3" {
		t.Errorf("the status is not that of the Deployment: %+v", ud.Status)
	}
	plane.Delete(t, scaler)
	awaitReplicas(t, d, 4)
	plane.Stands(t, ud, held...)

	late, early := newTemplate(ns, "late", "late"), newAutoscaler(namedDeployment(ns, "late"), "apps/v1", "Deployment")
	plane.Create(t, early, late)
	plane.Stands(t, late, off...)
	m.Idle(t)
	plane.Absent(t, namedDeployment(ns, "late"))
	plane.Delete(t, early)
	plane.Stands(t, late, held...)
	awaitReplicas(t, namedDeployment(ns, "late"), 2)
}

// TestUnitedDeploymentLater takes Deployments away that are held, and gives them back: an autoscaler comes and goes, and
// so does an owner.
func TestUnitedDeploymentLater(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	foreign, own := newUnited(ns, "foreign", "foreign"), newTemplate(ns, "own", "own")
	plane.Create(t, newHandMade(ns, "foreign"), foreign, own)
	for _, ud := range []*appv1.UnitedDeployment{foreign, own} {
		plane.Stands(t, ud, held...)
		m.Idle(t)
		d := namedDeployment(ns, ud.Name)
		hpa := newAutoscaler(d, "apps/v1", "Deployment")
		plane.Create(t, hpa)
		plane.Stands(t, ud, off...)
		harness.Says(t, ud, "Stalled", "HorizontalPodAutoscaler "+hpa.Name)
		m.Idle(t)
		m.Requests.Reset()
		scaleTo(t, d, 7)
		setReplicas(t, ud, 1)
		plane.Stands(t, ud, off...)
		m.Idle(t)
		awaitReplicas(t, d, 7)
		if n := m.Requests.Writes(); n["patch deployments"]+n["patch deployments/scale"] > 0 {
			t.Errorf("%s: writes next to an autoscaler: %v", ud.Name, n)
		}

		// It scales something else from now on.
		plane.Change(t, hpa, func() { hpa.Spec.ScaleTargetRef.Name = "other" })
		awaitReplicas(t, d, 1)
		plane.Stands(t, ud, held...)
	}

	d := namedDeployment(ns, "foreign")
	plane.Read(t, d)
	app := newApp(ns, "foreign")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	app.Spec.Replicas = ptr.To[int32](6)
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	plane.Stands(t, foreign, off...)
	m.Idle(t)
	awaitReplicas(t, d, 6)
}

// TestUnitedDeploymentRivals lets several UnitedDeployments name one Deployment. The oldest one holds it; the next takes
// over when it goes, is about to go, or names another one.
func TestUnitedDeploymentRivals(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d := newHandMade(ns, "site")
	plane.Create(t, d)
	names := []string{"d", "c", "b", "a"} // The younger, the earlier in the alphabet.
	uds := make([]*appv1.UnitedDeployment, len(names))
	for i, name := range names {
		uds[i] = newUnited(ns, name, "site")
		uds[i].Spec.Replicas = ptr.To(int32(10 + i))
		uds[i].Spec.Template = newTemplate(ns, name, "site").Spec.Template
		plane.Create(t, uds[i])
		awaitNextSecond(t, uds[i])
	}
	rules := func(eldest int) {
		t.Helper()
		awaitReplicas(t, d, int32(10+eldest))
		plane.Stands(t, uds[eldest], held...)
		for _, younger := range uds[eldest+1:] {
			plane.Stands(t, younger, off...)
			plane.Until(t, younger, func() error {
				if said := harness.Message(younger, "Stalled"); !strings.Contains(said, "UnitedDeployment "+names[eldest]+" is older") {
					return errors.New(said)
				}
				return nil
			})
		}
		m.Idle(t)
		awaitReplicas(t, d, int32(10+eldest))
	}
	rules(0)
	plane.Read(t, uds[0])
	plane.Change(t, uds[0], func() { uds[0].Spec.Template = nil })
	plane.Change(t, uds[0], func() { uds[0].Spec.DeploymentName = "other" })
	rules(1)
	plane.Stands(t, uds[0], "Ready=False/DeploymentNotFound")
	plane.Read(t, uds[1])
	plane.Change(t, uds[1], func() { uds[1].Finalizers = []string{"example.com/wait"} })
	plane.Delete(t, uds[1])
	rules(2)
	plane.Change(t, uds[1], func() { uds[1].Finalizers = nil })
	plane.Gone(t, uds[1])
	plane.Delete(t, uds[2])
	rules(3)

	// The eldest comes back.
	plane.Change(t, uds[0], func() { uds[0].Spec.DeploymentName = "site" })
	awaitReplicas(t, d, 10)
	plane.Stands(t, uds[3], off...)
}

// TestUnitedDeploymentTemplate makes a Deployment and a Service of the template.
func TestUnitedDeploymentTemplate(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	ud := newTemplate(ns, "holder", "site")
	plane.Create(t, ud)
	plane.Stands(t, ud, held...)
	m.Idle(t)
	checkEvents(t, ud, "Normal Synced: Deployment site is scaled to 2 replicas; Created Deployment site, Service site")
	d, s := namedDeployment(ns, "site"), service(namedDeployment(ns, "site"))
	plane.Read(t, d)
	plane.Read(t, s)
	selector := map[string]string{appv1.LabelUnitedDeployment: "holder", appv1.LabelPart: "site"}
	for _, diff := range []string{
		cmp.Diff(selector, d.Spec.Selector.MatchLabels), cmp.Diff(selector, s.Spec.Selector), cmp.Diff(int32(2), *d.Spec.Replicas),
		cmp.Diff("site", containerOf(d).Name), cmp.Diff("holder", d.Spec.Template.Labels[appv1.LabelInstance]),
		cmp.Diff("site."+ns+".svc:8080", ud.Status.Endpoint), cmp.Diff(int32(2), ud.Status.Rendering),
	} {
		if diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if !metav1.IsControlledBy(d, ud) || !metav1.IsControlledBy(s, ud) {
		t.Error("a child does not belong to the UnitedDeployment")
	}

	template := d.Spec.Template
	scaleTo(t, ud, 5)
	awaitReplicas(t, d, 5)
	scaleTo(t, d, 1)
	awaitReplicas(t, d, 5)
	sameTemplate(t, d, template)
	plane.Read(t, ud)
	plane.Change(t, ud, func() { ud.Spec.Template.Image, ud.Spec.Template.Ports = "nginx:1.17", nil })
	awaitImage(t, d, "nginx:1.17")
	plane.Gone(t, s)
	plane.Delete(t, d)
	plane.Stands(t, ud, held...)
	awaitReplicas(t, d, 5)
	if containerOf(d).Image != "nginx:1.17" {
		t.Errorf("the image is %s", containerOf(d).Image)
	}
	plane.Stands(t, ud, held...)

	// Without the template the Deployment is still its own, and is held.
	m.Idle(t)
	plane.Change(t, ud, func() { ud.Spec.Template = nil })
	plane.Stands(t, ud, held...)
	plane.Read(t, d)
	was := d.DeepCopy()
	setReplicas(t, ud, 3)
	awaitReplicas(t, d, 3)
	was.Spec.Replicas, was.Generation, was.ResourceVersion, was.ManagedFields = d.Spec.Replicas, d.Generation, d.ResourceVersion, d.ManagedFields
	if diff := cmp.Diff(was, d); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
}

// TestUnitedDeploymentRenderings starts a manager of a later release over a Deployment of a template, and scales it: the
// pods must not restart.
func TestUnitedDeploymentRenderings(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	ud := newTemplate(ns, "holder", "site")
	plane.Create(t, ud)
	plane.Stands(t, ud, held...)
	m.Idle(t)
	m.Stop(t)
	d := namedDeployment(ns, "site")
	plane.Read(t, d)
	template := d.Spec.Template
	m = plane.Start(t, ns, harness.WithRendering(7))
	plane.Until(t, ud, func() error {
		if ud.Status.LatestRendering != 7 {
			return errors.New("the later rendering is not told of")
		}
		return nil
	})
	setReplicas(t, ud, 4)
	awaitReplicas(t, d, 4)
	m.Idle(t)
	sameTemplate(t, d, template)
	if ud.Status.Rendering != 2 {
		t.Errorf("rendering is %d", ud.Status.Rendering)
	}
}

// TestUnitedDeploymentTemplateUnused gives a template for a Deployment that is there already.
func TestUnitedDeploymentTemplateUnused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d := newHandMade(ns, "site")
	plane.Create(t, d)
	plane.Read(t, d)
	was := d.DeepCopy()
	ud := newTemplate(ns, "holder", "site")
	plane.Create(t, ud)
	plane.Stands(t, ud, held...)
	harness.Says(t, ud, "Synced", "Deployment site is scaled to 2 replicas", "only scales it", "does not use spec.template")
	m.Idle(t)
	onlyScaled(t, d, was, 2)
	plane.Absent(t, service(d))

	// It is taken over where that is asked for, and made where it is gone.
	setAnnotation(t, ud, appv1.AnnotationAdopt, "true")
	awaitImage(t, d, "nginx:1.16.1")
	plane.Stands(t, ud, held...)
	if !metav1.IsControlledBy(d, ud) {
		t.Errorf("owners %v", d.OwnerReferences)
	}
	plane.Until(t, ud, func() error {
		return diffOf("Deployment site is scaled to 2 replicas", harness.Message(ud, "Synced"))
	})
	plane.Until(t, service(d), func() error { return nil })
	setAnnotation(t, ud, appv1.AnnotationAdopt, "")
	plane.Delete(t, d)
	harness.Eventually(t, func() error {
		made := namedDeployment(ns, "site")
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if made.Spec.Selector.MatchLabels[appv1.LabelUnitedDeployment] != "holder" {
			return errors.New("it is not made of the template")
		}
		return nil
	})
}

// TestUnitedDeploymentAgain makes a UnitedDeployment again whose Deployment was left, or is about to be collected.
func TestUnitedDeploymentAgain(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	// leave makes a Deployment of a template and deletes the UnitedDeployment.
	leave := func(t *testing.T, name string) *appsv1.Deployment {
		ud := newTemplate(ns, name, name)
		plane.Create(t, ud)
		plane.Stands(t, ud, held...)
		plane.Delete(t, ud)
		plane.Gone(t, ud)
		d := namedDeployment(ns, name)
		plane.Read(t, d)
		return d
	}
	t.Run("orphaned", func(t *testing.T) {
		t.Parallel()
		d := leave(t, "orphaned")
		plane.Change(t, d, func() { d.OwnerReferences = nil })
		was := readWhole(t, d)
		again := newTemplate(ns, "orphaned", "orphaned")
		plane.Create(t, again)
		plane.Stands(t, again, exists...)
		checkUntouched(t, d, was)
		if selector := metav1.FormatLabelSelector(d.Spec.Selector); again.Status.Selector != selector {
			t.Errorf("the selector is %q, want %q", again.Status.Selector, selector)
		}
		plane.Read(t, again)
		template := again.Spec.Template
		plane.Change(t, again, func() { again.Spec.Template, again.Spec.Replicas = nil, ptr.To[int32](3) })
		awaitReplicas(t, d, 3)
		plane.Stands(t, again, held...)
		plane.Change(t, again, func() {
			again.Spec.Template, again.Annotations = template, map[string]string{appv1.AnnotationAdopt: "true"}
		})
		plane.Until(t, d, func() error {
			if !metav1.IsControlledBy(d, again) {
				return fmt.Errorf("owners are %v", d.OwnerReferences)
			}
			return nil
		})
	})
	t.Run("collected", func(t *testing.T) {
		t.Parallel()
		d := leave(t, "collected")
		was := readWhole(t, d)
		waiting := []string{"Ready=False/Progressing", "Reconciling=True/Progressing", "Stalled=False", "Synced=False/Progressing"}
		again := newTemplate(ns, "collected", "collected")
		again.Spec.Replicas = ptr.To[int32](5)
		plane.Create(t, again)
		plane.Stands(t, again, waiting...)
		harness.Says(t, again, "Ready", "of an earlier UnitedDeployment with this name")
		plane.Change(t, again, func() { again.Spec.Template = nil })
		plane.Stands(t, again, waiting...)
		harness.Says(t, again, "Ready", "which an earlier UnitedDeployment with this name owned")
		m.Idle(t)
		checkUntouched(t, d, was)
		plane.Delete(t, d)
		plane.Stands(t, again, "Ready=False/DeploymentNotFound")
	})
}

// TestUnitedDeploymentInvalid writes specs that the API server must refuse, each with words that say what would be right.
func TestUnitedDeploymentInvalid(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for name, c := range map[string]struct {
		mutate func(ud *appv1.UnitedDeployment)
		words  []string
	}{
		"replicas in the template": {func(ud *appv1.UnitedDeployment) { ud.Spec.Template.Replicas = ptr.To[int32](1) },
			[]string{"spec.template.replicas", "set spec.replicas instead"}},
		"negative":          {func(ud *appv1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](-1) }, []string{"spec.replicas", "greater than or equal to 0"}},
		"no number":         {func(ud *appv1.UnitedDeployment) { ud.Spec.Replicas = nil }, []string{"spec.replicas", "Required"}},
		"no name":           {func(ud *appv1.UnitedDeployment) { ud.Spec.DeploymentName = "" }, []string{"spec.deploymentName"}},
		"upper case":        {func(ud *appv1.UnitedDeployment) { ud.Spec.DeploymentName = "Web" }, []string{"spec.deploymentName", "lower-case"}},
		"dots and template": {func(ud *appv1.UnitedDeployment) { ud.Spec.DeploymentName = "example.site" }, []string{"spec.deploymentName", "if template is set"}},
		"long and template": {func(ud *appv1.UnitedDeployment) { ud.Spec.DeploymentName = strings.Repeat("a", 64) }, []string{"spec.deploymentName", "if template is set"}},
		"own name":          {func(ud *appv1.UnitedDeployment) { ud.Name = "example.holder" }, []string{"metadata.name"}},
		"template's image":  {func(ud *appv1.UnitedDeployment) { ud.Spec.Template.Image = "" }, []string{"spec.template.image"}},
	} {
		t.Run(name, func(t *testing.T) {
			ud := newTemplate(ns, "holder", "site")
			c.mutate(ud)
			err := plane.Client.Create(t.Context(), ud, client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want it to be invalid", err)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
		})
	}
	ud := newTemplate(ns, "holder", "site")
	plane.Create(t, ud)
	if ud.Spec.Template.Replicas != nil {
		t.Errorf("replicas in the template are %v", *ud.Spec.Template.Replicas)
	}
	rename := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"deploymentName": "other"}}`))
	if err := plane.Client.Patch(t.Context(), ud, rename); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "while template is set") {
		t.Errorf("a change of the name is answered with: %v", err)
	}
	plane.Stands(t, ud, held...)

	// What only the controller knows to be wrong.
	plane.Change(t, ud, func() { ud.Spec.Template.Envs = []corev1.EnvVar{{Name: "A=B"}} })
	plane.Stands(t, ud, "Ready=False/Invalid", "Stalled=True/Invalid", "Synced=True/Synced")
	site := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "site"}}
	setReplicas(t, ud, 5) // The number is no part of the template.
	awaitReplicas(t, site, 5)
	plane.Stands(t, ud, "Stalled=True/Invalid", "Synced=True/Synced")
	harness.Says(t, ud, "Stalled", "spec.template.envs[0].name")
}

// TestUnitedDeploymentLeavesItsDeployment takes the template away, and states it again together with another name: the Deployment of before, its
// Service and its pods stay.
func TestUnitedDeploymentLeavesItsDeployment(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	ud := newTemplate(ns, "holder", "site")
	plane.Create(t, ud)
	site, other := namedDeployment(ns, "site"), namedDeployment(ns, "other")
	plane.Until(t, site, func() error { return nil })
	completeRollout(t, site)
	plane.Stands(t, ud, "Ready=True", "Synced=True")
	plane.Read(t, ud)
	template := ud.Spec.Template
	plane.Change(t, ud, func() { ud.Spec.Template = nil })
	plane.Stands(t, ud, "Ready=True", "Synced=True")
	plane.Change(t, ud, func() { ud.Spec.Template, ud.Spec.DeploymentName = template, "other" })
	plane.Until(t, other, func() error { return nil })
	completeRollout(t, other)
	plane.Stands(t, ud, "Ready=True", "Synced=True")
	m.Idle(t)
	plane.Read(t, site)
	plane.Read(t, namedService(ns, "site"))

	// What the present Deployment no longer has goes.
	plane.Read(t, ud)
	plane.Change(t, ud, func() { ud.Spec.Template.Ports = nil })
	completeNextRollout(t, other)
	plane.Gone(t, namedService(ns, "other"))
	m.Idle(t)
	plane.Read(t, site)
	plane.Read(t, namedService(ns, "site"))
}
