package workload

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const (
	goodImage = "nginx:1.20"
	// badImage is one that the nodes cannot pull; see hack/cluster.
	badImage = "imagepullbackoff.test/x:1"
)

// newCloudManager returns a CloudManager with the components front, identity and db, each with one pod and a Service.
func newCloudManager(namespace string) *appv1.CloudManager {
	cm := fixture.NewCloudManager(namespace, "cm")
	cm.Spec.Front.Deployment.Image, cm.Spec.Identity.Deployment.Image, cm.Spec.DB.StatefulSet.Image = goodImage, goodImage, goodImage
	cm.Spec.Identity.Deployment.Ports = []appv1.Port{{Port: 8000}}
	return cm
}

// tierOf returns the spec of a tier.
func tierOf(cm *appv1.CloudManager, role string) *appv1.Component {
	return map[string]*appv1.Component{
		"db": &cm.Spec.DB.StatefulSet.Component, "identity": &cm.Spec.Identity.Deployment, "front": &cm.Spec.Front.Deployment,
	}[role]
}

// tierConditions are the conditions of the tiers, in their order.
var tierConditions = []struct{ role, condition string }{
	{"db", appv1.ConditionDatabaseReady}, {"identity", appv1.ConditionIdentityReady}, {"front", appv1.ConditionFrontReady},
}

// inPhase waits until a CloudManager's phase is the wanted one, and its conditions, for its current spec.
func inPhase(t testing.TB, cm *appv1.CloudManager, phase appv1.Phase, conditions ...string) {
	t.Helper()
	plane.Until(t, cm, func() error {
		if cm.Status.Phase != phase || cm.Status.ObservedGeneration != cm.Generation {
			return fmt.Errorf("the phase is %q, want %q: %+v", cm.Status.Phase, phase, cm.Status.Conditions)
		}
		return nil
	})
	plane.Stands(t, cm, conditions...)
}

// change changes a CloudManager as it is now.
func change(t testing.TB, cm *appv1.CloudManager, mutate func()) {
	t.Helper()
	plane.Read(t, cm)
	plane.Change(t, cm, mutate)
}

// named returns an object of a tier, to be read.
func named[T any, P interface {
	*T
	client.Object
}](namespace, name string) P {
	return fixture.Named[T, P](namespace, name)
}

// phases are those that events have told of, each with how often.
func phases(t testing.TB, cm *appv1.CloudManager) map[string]int {
	t.Helper()
	var list eventsv1.EventList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(cm.Namespace)); err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, e := range list.Items {
		if phase, ok := strings.CutPrefix(e.Note, "phase "); ok && e.Regarding.UID == cm.UID {
			phase, _, _ = strings.Cut(phase, ";")
			if e.Reason != "Updated" {
				t.Errorf("phase %s is told with the reason %s", phase, e.Reason)
			}
			told[phase]++
			if e.Series != nil {
				told[phase] += int(e.Series.Count) - 1
			}
		}
	}
	return told
}

// history is every state of every object that belongs to a tier.
type history struct {
	sets        *harness.Journal[*appsv1.StatefulSet]
	deployments *harness.Journal[*appsv1.Deployment]
	services    *harness.Journal[*corev1.Service]
	pods        *harness.Journal[*corev1.Pod]
}

func followTiers(t testing.TB, namespace string) *history {
	t.Helper()
	return &history{
		sets:        harness.Follow[*appsv1.StatefulSet](t, plane, &appsv1.StatefulSetList{}, namespace),
		deployments: harness.Follow[*appsv1.Deployment](t, plane, &appsv1.DeploymentList{}, namespace),
		services:    harness.Follow[*corev1.Service](t, plane, &corev1.ServiceList{}, namespace),
		pods:        harness.Follow[*corev1.Pod](t, plane, &corev1.PodList{}, namespace),
	}
}

// version is the moment of an object's state: all objects share one count.
func version(t testing.TB, obj client.Object) int {
	t.Helper()
	n, err := strconv.Atoi(obj.GetResourceVersion())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// first returns when the first object of a tier was there, and when the tier was first up.
func (h *history) first(t testing.TB, role string) (there, up int) {
	t.Helper()
	note := func(moment *int, obj client.Object) {
		if v := version(t, obj); *moment == 0 || v < *moment {
			*moment = v
		}
	}
	mine := func(obj client.Object) bool { return obj.GetLabels()[appv1.LabelComponent] == role }
	h.sets.Each(func(s *appsv1.StatefulSet) {
		if !mine(s) {
			return
		}
		note(&there, s)
		if s.Status.ReadyReplicas*2 > *s.Spec.Replicas {
			note(&up, s)
		}
	})
	h.deployments.Each(func(d *appsv1.Deployment) {
		if !mine(d) {
			return
		}
		note(&there, d)
		if d.Status.ReadyReplicas*2 > *d.Spec.Replicas {
			note(&up, d)
		}
	})
	h.services.Each(func(s *corev1.Service) {
		if mine(s) {
			note(&there, s)
		}
	})
	h.pods.Each(func(p *corev1.Pod) {
		if mine(p) {
			note(&there, p)
		}
	})
	return there, up
}

// TestCloudManagerOrder brings up tiers of several pods, and checks by every state of every object that nothing of a tier
// was there before the one below it was up, which is once more than half of its pods are ready.
func TestCloudManagerOrder(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	h := followTiers(t, ns)
	m := plane.Start(t, ns)
	cm := newCloudManager(ns)
	for _, tier := range tierConditions {
		tierOf(cm, tier.role).Replicas = ptr.To[int32](3)
	}
	plane.Create(t, cm)
	inPhase(t, cm, appv1.PhaseReady, "Ready=True/Ready", "DatabaseReady=True", "IdentityReady=True", "FrontReady=True")
	m.Idle(t)
	below := 0
	for _, tier := range tierConditions {
		there, up := h.first(t, tier.role)
		if there == 0 || up <= there || there <= below {
			t.Errorf("%s was there at %d and up at %d; the tier below it was up at %d", tier.role, there, up, below)
		}
		below = up
	}
	for phase, n := range phases(t, cm) {
		if n != 1 {
			t.Errorf("phase %s was told %d times", phase, n)
		}
	}
	if told := phases(t, cm); len(told) != 4 {
		t.Errorf("events told of the phases %v", told)
	}
}

// TestCloudManagerTierFails lets each tier in turn begin with an image that cannot be pulled: the phase stays at it, its
// condition says why, nothing of a later tier is made, and it goes on by itself once the image is better.
func TestCloudManagerTierFails(t *testing.T) {
	t.Parallel()
	phases := []appv1.Phase{appv1.PhaseDatabase, appv1.PhaseIdentity, appv1.PhaseFront}
	for i, failing := range tierConditions {
		t.Run(failing.role, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			tierOf(cm, failing.role).Image = badImage
			if failing.role == "identity" {
				tierOf(cm, failing.role).Image = "crashloopbackoff.test/x:1"
			}
			reason, words := appv1.ReasonImagePullBackOff, "cannot be pulled"
			if failing.role == "identity" {
				reason, words = appv1.ReasonCrashLoopBackOff, "exits with code 1"
			}
			plane.Create(t, cm)
			inPhase(t, cm, phases[i], "Ready=False/"+reason, "Reconciling=True/"+reason, "Stalled=False", failing.condition+"=False/"+reason)
			harness.Says(t, cm, failing.condition, failing.role, words)
			harness.Says(t, cm, "Ready", words)
			m.Idle(t)
			for j, tier := range tierConditions {
				switch {
				case j < i:
					plane.Stands(t, cm, tier.condition+"=True/Ready")
				case j > i:
					plane.Stands(t, cm, tier.condition+"=False/DependencyNotReady")
					harness.Says(t, cm, tier.condition, "Waiting for "+failing.role+" to be available")
					plane.Absent(t, named[appsv1.Deployment](ns, tier.role))
					plane.Absent(t, named[corev1.Service](ns, tier.role))
				}
			}
			change(t, cm, func() { tierOf(cm, failing.role).Image = goodImage })
			inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
		})
	}
}

// TestCloudManagerTierFalls breaks each tier in turn after all were up: the others' pods stay as they are, drift in them is
// repaired, the phase is Degraded and tells why, and all is Ready again once the tier is.
func TestCloudManagerTierFalls(t *testing.T) {
	t.Parallel()
	for _, failing := range tierConditions {
		t.Run(failing.role, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			cm.Spec.Identity.Deployment.Strategy, cm.Spec.Front.Deployment.Strategy = "Recreate", "Recreate"
			states := harness.Follow[*appv1.CloudManager](t, plane, &appv1.CloudManagerList{}, ns)
			plane.Create(t, cm)
			inPhase(t, cm, appv1.PhaseReady, "Ready=True")
			before := tierPods(t, ns)
			change(t, cm, func() { tierOf(cm, failing.role).Image = badImage })
			inPhase(t, cm, appv1.PhaseDegraded, "Ready=False/ImagePullBackOff", failing.condition+"=False/ImagePullBackOff")
			if cm.Status.Ready != "2/3" {
				t.Errorf("ready is %s", cm.Status.Ready)
			}
			// A Service of each tier is lost, and a label changed of the others.
			for _, tier := range tierConditions {
				svc := read(t, named[corev1.Service](ns, tier.role))
				plane.Delete(t, svc)
				plane.Until(t, named[corev1.Service](ns, tier.role), func() error { return nil })
			}
			for _, role := range []string{"identity", "front"} {
				d := read(t, named[appsv1.Deployment](ns, role))
				plane.Change(t, d, func() { d.Labels[appv1.LabelInstance] = "theirs" })
				plane.Until(t, d, func() error {
					if d.Labels[appv1.LabelInstance] != cm.Name {
						return errors.New("the drift is not repaired")
					}
					return nil
				})
			}
			inPhase(t, cm, appv1.PhaseDegraded)
			after := tierPods(t, ns)
			for _, tier := range tierConditions {
				if tier.role != failing.role && !slices.Equal(before[tier.role], after[tier.role]) {
					t.Errorf("the pods of %s are others because %s fails", tier.role, failing.role)
				}
			}
			change(t, cm, func() { tierOf(cm, failing.role).Image = goodImage })
			inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
			m.Idle(t)
			want := map[string]int{"Database": 1, "Identity": 1, "Front": 1, "Degraded": 1, "Ready": 2}
			for phase, n := range phases(t, cm) {
				if n != want[phase] {
					t.Errorf("phase %s was told %d times, want %d", phase, n, want[phase])
				}
				delete(want, phase)
			}
			if len(want) > 0 {
				t.Errorf("phases that nobody told of: %v", want)
			}
			if t.Failed() {
				for before, after := range states.Changes(t, cm) {
					t.Logf("a state (-before +after):\n%s", cmp.Diff(before.Status, after.Status))
				}
			}
		})
	}
}

// tierPods are the UIDs of the pods of each tier.
func tierPods(t testing.TB, namespace string) map[string][]types.UID {
	t.Helper()
	found := map[string][]types.UID{}
	for _, pod := range pods(t, namespace) {
		role := pod.Labels[appv1.LabelComponent]
		found[role] = append(found[role], pod.UID)
	}
	for _, list := range found {
		slices.Sort(list)
	}
	return found
}

// TestCloudManagerRename gives each component another name, at first with an image that cannot be pulled: the old one stays
// and serves until the new one is up and its clients have had their time; then it is removed with an event, and later tiers are led to the new one.
func TestCloudManagerRename(t *testing.T) {
	t.Parallel()
	for _, tier := range tierConditions {
		t.Run(tier.role, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			m := plane.Start(t, ns, harness.WithServiceGrace(ptr.To(2*time.Second)))
			cm := newCloudManager(ns)
			plane.Create(t, cm)
			inPhase(t, cm, appv1.PhaseReady, "Ready=True")
			before := tierPods(t, ns)
			change(t, cm, func() { tierOf(cm, tier.role).Name, tierOf(cm, tier.role).Image = "new", badImage })
			plane.Stands(t, cm, "Ready=False/ImagePullBackOff", tier.condition+"=False/ImagePullBackOff")
			m.Idle(t)
			for role, uids := range before {
				if now := tierPods(t, ns)[role]; !containsAll(now, uids) {
					t.Errorf("pods of %s are gone before the new one is up", role)
				}
			}
			serves(t, ns, tier.role)

			change(t, cm, func() { tierOf(cm, tier.role).Image = goodImage })
			inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
			serves(t, ns, "new")
			for _, obj := range []client.Object{
				named[appsv1.StatefulSet](ns, tier.role), named[appsv1.Deployment](ns, tier.role),
				named[corev1.Service](ns, tier.role), named[corev1.Service](ns, "db-headless"),
			} {
				if tier.role != "db" && obj.GetName() == "db-headless" {
					continue
				}
				plane.Gone(t, obj)
			}
			harness.Eventually(t, func() error {
				for _, pod := range pods(t, ns) {
					if pod.Labels[appv1.LabelPart] == tier.role {
						return fmt.Errorf("pod %s is left", pod.Name)
					}
				}
				return nil
			})
			deletedEvent(t, cm, tier.role)
			if tier.role == "db" {
				read(t, named[corev1.PersistentVolumeClaim](ns, "datadir-db-0"))
				read(t, named[corev1.Secret](ns, "dbauth"))
			}
			for _, pod := range pods(t, ns) {
				for _, env := range pod.Spec.Containers[0].Env {
					if strings.HasSuffix(env.Name, "_HOST") && strings.HasPrefix(env.Value, tier.role+".") {
						t.Errorf("pod %s is led to %s", pod.Name, env.Value)
					}
					if from := env.ValueFrom; tier.role == "db" && from != nil && from.SecretKeyRef != nil && from.SecretKeyRef.Name != "newauth" {
						t.Errorf("pod %s has a password of %s", pod.Name, from.SecretKeyRef.Name)
					}
				}
			}
		})
	}
}

func containsAll(all, some []types.UID) bool { return shared(some, all) == len(some) }

// serves waits until a Service leads to exactly the ready pods of the component of its name.
func serves(t testing.TB, namespace, name string) {
	t.Helper()
	svc := read(t, named[corev1.Service](namespace, name))
	harness.Eventually(t, func() error {
		n := 0
		for _, pod := range pods(t, namespace) {
			selected := true
			for key, value := range svc.Spec.Selector {
				selected = selected && pod.Labels[key] == value
			}
			if !selected {
				continue
			}
			if pod.Labels[appv1.LabelPart] != name {
				return fmt.Errorf("Service %s leads to pod %s", name, pod.Name)
			}
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("Service %s leads to %d ready pods", name, n)
		}
		return nil
	})
}

// deletedEvent checks that exactly one event tells of the removal of a component's objects.
func deletedEvent(t testing.TB, cm *appv1.CloudManager, name string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var list eventsv1.EventList
		if err := plane.Client.List(t.Context(), &list, client.InNamespace(cm.Namespace)); err != nil {
			return err
		}
		var told []string
		for _, e := range list.Items {
			if e.Regarding.UID == cm.UID && e.Reason == "Deleted" {
				told = append(told, e.Note)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], " "+name+",") {
			return fmt.Errorf("events Deleted: %q", told)
		}
		return nil
	})
}

// TestCloudManagerRetention deletes CloudManagers, and renames their databases, with and without retention, also where it
// was changed on the way: volumes and password stay, or go, as the spec said last.
func TestCloudManagerRetention(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, cm *appv1.CloudManager) {
		plane.Delete(t, cm)
		plane.Gone(t, cm.DeepCopy())
	}
	rename := func(retain bool) func(*testing.T, *appv1.CloudManager) {
		return func(t *testing.T, cm *appv1.CloudManager) {
			change(t, cm, func() {
				cm.Spec.DB.StatefulSet.Name = "new"
				cm.Spec.DB.StatefulSet.Storage.Retain = &retain
			})
			inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
		}
	}
	set := func(retain bool) func(*testing.T, *appv1.CloudManager) {
		return func(t *testing.T, cm *appv1.CloudManager) {
			change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Retain = &retain })
			inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
			harness.Eventually(t, func() error {
				claim := read(t, named[corev1.PersistentVolumeClaim](cm.Namespace, "datadir-db-0"))
				if refs := len(claim.OwnerReferences); (refs == 0) != retain {
					return fmt.Errorf("with retain %v the claim has %d owners", retain, refs)
				}
				return nil
			})
		}
	}
	for name, c := range map[string]struct {
		begins bool
		do     []func(*testing.T, *appv1.CloudManager)
		kept   bool
	}{
		"deleted, kept":              {true, []func(*testing.T, *appv1.CloudManager){remove}, true},
		"deleted, not kept":          {false, []func(*testing.T, *appv1.CloudManager){remove}, false},
		"turned off, deleted":        {true, []func(*testing.T, *appv1.CloudManager){set(false), remove}, false},
		"turned on, deleted":         {false, []func(*testing.T, *appv1.CloudManager){set(true), remove}, true},
		"renamed, kept":              {true, []func(*testing.T, *appv1.CloudManager){rename(true)}, true},
		"renamed, not kept":          {false, []func(*testing.T, *appv1.CloudManager){rename(false)}, false},
		"renamed, kept with that":    {false, []func(*testing.T, *appv1.CloudManager){rename(true)}, true},
		"renamed, kept, and deleted": {false, []func(*testing.T, *appv1.CloudManager){rename(true), remove}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			plane.Start(t, ns)
			cm := newCloudManager(ns)
			cm.Spec.DB.StatefulSet.Storage.Retain = &c.begins
			plane.Create(t, cm)
			inPhase(t, cm, appv1.PhaseReady, "Ready=True")
			claim, secret := named[corev1.PersistentVolumeClaim](ns, "datadir-db-0"), named[corev1.Secret](ns, "dbauth")
			password := string(read(t, secret).Data["password"])
			uid := read(t, claim).UID
			for _, do := range c.do {
				do(t, cm)
			}
			plane.Gone(t, named[appsv1.StatefulSet](ns, "db"))
			harness.Eventually(t, func() error {
				for _, pod := range pods(t, ns) {
					if pod.Labels[appv1.LabelPart] == "db" {
						return fmt.Errorf("pod %s is left", pod.Name)
					}
				}
				return nil
			})
			if !c.kept {
				plane.Gone(t, claim)
				plane.Gone(t, secret)
				return
			}
			// What the garbage collector would take has been taken once it has taken what came later.
			canary := ownedBy(t, ns)
			plane.Gone(t, canary)
			if read(t, claim).UID != uid || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
				t.Errorf("the claim is not kept: %+v", claim.ObjectMeta)
			}
			if string(read(t, secret).Data["password"]) != password || len(secret.OwnerReferences) > 0 {
				t.Errorf("the Secret is not kept: %+v", secret.ObjectMeta)
			}
		})
	}
}

// ownedBy makes an object whose owner does not exist, for the garbage collector to take.
func ownedBy(t testing.TB, namespace string) client.Object {
	t.Helper()
	canary := named[corev1.ConfigMap](namespace, "canary")
	canary.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "none"}}
	plane.Create(t, canary)
	return canary
}

// TestCloudManagerGrowthRefused asks for larger volumes of a class that does not allow it: that is said in the API's words,
// the database runs on, and the other tiers take their changes. Once the class allows it, the volumes grow.
func TestCloudManagerGrowthRefused(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithForbidden()) // So the API server says that a class does not allow it.
	local := read(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local-path"}})
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: ns}, Provisioner: local.Provisioner}
	plane.Create(t, class)
	plane.DeleteAfter(t, class)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Storage.Class = &class.Name
	plane.Create(t, cm)
	inPhase(t, cm, appv1.PhaseReady, "Ready=True")
	before := tierPods(t, ns)
	set := read(t, named[appsv1.StatefulSet](ns, "db"))

	change(t, cm, func() {
		cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("30Gi")
		cm.Spec.Front.Deployment.Image = "nginx:1.21"
	})
	plane.Stands(t, cm, "Stalled=True/VolumeResizeFailed", "DatabaseReady=False/VolumeResizeFailed", "FrontReady=True")
	harness.Says(t, cm, "Stalled", "PersistentVolumeClaim datadir-db-0", "the storageclass that provisions the pvc must support resize")
	if cm.Status.Phase != appv1.PhaseReady || cm.Status.Ready != "3/3" {
		t.Errorf("the phase is %s, ready %s, though all runs", cm.Status.Phase, cm.Status.Ready)
	}
	if image := read(t, named[appsv1.Deployment](ns, "front")).Spec.Template.Spec.Containers[0].Image; image != "nginx:1.21" {
		t.Errorf("front runs %s", image)
	}
	if now := read(t, named[appsv1.StatefulSet](ns, "db")); now.UID != set.UID || now.Generation != set.Generation {
		t.Error("the StatefulSet was touched")
	}
	if !slices.Equal(before["db"], tierPods(t, ns)["db"]) {
		t.Error("the database's pod is another")
	}

	change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("20Gi") })
	inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	plane.Change(t, class, func() { class.AllowVolumeExpansion = ptr.To(true) })
	change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("40Gi") })
	claim := named[corev1.PersistentVolumeClaim](ns, "datadir-db-0")
	plane.Until(t, claim, func() error {
		if size := claim.Status.Capacity.Storage().String(); size != "40Gi" {
			return fmt.Errorf("the volume has %s", size)
		}
		return nil
	})
	plane.Until(t, set, func() error {
		if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "40Gi" {
			return fmt.Errorf("the StatefulSet makes volumes of %s", size)
		}
		return nil
	})
	inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	if !slices.Equal(before["db"], tierPods(t, ns)["db"]) {
		t.Error("the database's pod is another")
	}
}

// TestCloudManagerAutoscaled lets autoscalers scale the front and the database: their counts are used from then on, also
// while the image changes, and no pod is removed on the way.
func TestCloudManagerAutoscaled(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	for _, role := range []string{"front", "db"} {
		tierOf(cm, role).Replicas = ptr.To[int32](2)
	}
	plane.Create(t, cm)
	inPhase(t, cm, appv1.PhaseReady, "Ready=True")
	h := followTiers(t, ns)
	for name, kind := range map[string]string{"front": "Deployment", "db": "StatefulSet"} {
		scaler := named[autoscalingv2.HorizontalPodAutoscaler](ns, name)
		scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: name}
		scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = ptr.To[int32](3), 6
		plane.Create(t, scaler)
	}
	scaled := func() {
		t.Helper()
		plane.Until(t, cm, func() error {
			if cm.Status.Front.Ready != "3/3" || cm.Status.DB.Ready != "3/3" {
				return fmt.Errorf("front %s, db %s", cm.Status.Front.Ready, cm.Status.DB.Ready)
			}
			return nil
		})
		inPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	}
	scaled()
	change(t, cm, func() {
		for _, role := range []string{"front", "db"} {
			tierOf(cm, role).Image = "nginx:1.21"
			tierOf(cm, role).Replicas = ptr.To[int32](1)
		}
	})
	m.Idle(t)
	scaled()
	wanted := map[string]int32{}
	check := func(name string, replicas int32) {
		if replicas < wanted[name] {
			t.Errorf("%s is to have %d pods after %d", name, replicas, wanted[name])
		}
		wanted[name] = replicas
	}
	h.sets.Each(func(s *appsv1.StatefulSet) { check(s.Name, *s.Spec.Replicas) })
	h.deployments.Each(func(d *appsv1.Deployment) { check(d.Name, *d.Spec.Replicas) })
	if wanted["db"] != 3 || wanted["front"] != 3 || wanted["identity"] != 1 {
		t.Errorf("wanted at the end: %v", wanted)
	}
	for _, name := range []string{"front", "db"} {
		plane.Delete(t, named[autoscalingv2.HorizontalPodAutoscaler](ns, name))
	}
	plane.Until(t, cm, func() error {
		if cm.Status.Front.Ready != "1/1" || cm.Status.DB.Ready != "1/1" {
			return fmt.Errorf("front %s, db %s", cm.Status.Front.Ready, cm.Status.DB.Ready)
		}
		return nil
	})
}
