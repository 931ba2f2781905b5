package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// claimsGoWith makes a claim go with a StatefulSet, as its controller does by the policy of that.
func claimsGoWith(t testing.TB, set *appsv1.StatefulSet, claims ...*corev1.PersistentVolumeClaim) {
	t.Helper()
	plane.Read(t, set)
	for _, claim := range claims {
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}}
		plane.Create(t, claim)
	}
}

// TestCloudManagerRetainsOnRename renames a database whose volumes were to go with it, and says in the same breath that they
// are to stay: that must hold for those of the old one. It is removed only once its controller has let them all go, and one
// of a pod that was scaled away long ago, at which the controller no longer looks, is pointed out.
func TestCloudManagerRetainsOnRename(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(false)
	bringUpTiers(t, cm)
	set, secret := namedStatefulSet(ns, "db"), namedSecret(ns, "dbauth")
	claims := []*corev1.PersistentVolumeClaim{namedClaim(ns, "datadir-db-0"), namedClaim(ns, "datadir-db-7")}
	claimsGoWith(t, set, claims...)
	plane.Read(t, secret)
	if !metav1.IsControlledBy(secret, cm) {
		t.Fatal("the Secret is not the CloudManager's")
	}

	plane.Read(t, cm)
	plane.Change(t, cm, func() {
		cm.Spec.DB.StatefulSet.Name = "data"
		cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(true)
	})
	// At once, not only when the old one is about to go: the CloudManager may be deleted before.
	plane.Until(t, set, func() error {
		return diffOf(appsv1.RetainPersistentVolumeClaimRetentionPolicyType, set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted)
	})
	plane.Until(t, secret, func() error {
		if len(secret.OwnerReferences) > 0 || secret.Annotations[appv1.AnnotationRetainedFor] != "CloudManager.cm" {
			return fmt.Errorf("the Secret: %+v", secret.ObjectMeta)
		}
		return nil
	})
	setReadyPods(t, namedStatefulSet(ns, "data"), 1)
	for _, name := range []string{"identity", "front"} {
		d := namedDeployment(ns, name)
		plane.Until(t, d, func() error { return diffOf("data."+ns+".svc", hostOf(d)) })
		completeRollout(t, d)
	}
	m.Idle(t)
	plane.Read(t, set) // Its controller does not know yet.
	harness.Says(t, lookup(t, cm), "Ready", "StatefulSet db", "retain the volumes")

	setReadyPods(t, set, 1)
	plane.Stands(t, cm, "Ready=False/Progressing", "Stalled=False")
	plane.Until(t, cm, func() error {
		if said := harness.Message(cm, "Ready"); !strings.Contains(said, "PersistentVolumeClaim datadir-db-0 before deleting StatefulSet db") {
			return errors.New(said)
		}
		return nil
	})
	releaseClaim(t, claims[0])
	plane.Stands(t, cm, "Stalled=True/VolumeResizeFailed")
	harness.Says(t, cm, "Stalled", "datadir-db-7 would be deleted with StatefulSet db", "Remove metadata.ownerReferences")
	m.Idle(t)
	plane.Read(t, set)
	releaseClaim(t, claims[1])
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	plane.Absent(t, set)
	if is := passwordOf(t, ns); is != "123456" {
		t.Errorf("the old password is %q", is)
	}

	// Back to the old name: its volumes and its password are in use again.
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "db" })
	awaitPhase(t, cm, appv1.PhaseDatabase, "Stalled=False")
}

// TestCloudManagerForgetsOnRename renames a database whose volumes are to go with it: its Secret is deleted too.
func TestCloudManagerForgetsOnRename(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(false)
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "data" })
	settleNew(t, cm)
	plane.Absent(t, namedStatefulSet(ns, "db"))
	plane.Absent(t, namedSecret(ns, "dbauth"))
	secret := namedSecret(ns, "dataauth")
	plane.Read(t, secret)
	if !metav1.IsControlledBy(secret, cm) {
		t.Error("the Secret of the new database does not go with the CloudManager")
	}
}

// TestCloudManagerServiceNameTaken gives the database, or its Service alone, the name of a Service of others: no tier is led there, and each stays
// repaired.
func TestCloudManagerServiceNameTaken(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]func(*appv1.Database){
		"the-service":  func(db *appv1.Database) { db.Service.Name = "taken" },
		"the-database": func(db *appv1.Database) { db.Name = "taken" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			bringUpTiers(t, cm)
			foreign := namedService(ns, "taken")
			foreign.Spec.Ports = []corev1.ServicePort{{Port: 3306}}
			plane.Create(t, foreign)
			plane.Read(t, cm)
			plane.Change(t, cm, func() { rename(&cm.Spec.DB.StatefulSet) })
			set := namedStatefulSet(ns, cm.Spec.DB.StatefulSet.Name)
			plane.Until(t, set, func() error { return nil })
			setReadyPods(t, set, 1)
			plane.Stands(t, cm, "Stalled=True/"+appv1.ReasonResourceExists)
			m.Idle(t)
			for _, tier := range []string{"identity", "front"} {
				d := namedDeployment(ns, tier)
				led := func() error { return diffOf("db."+ns+".svc", hostOf(d)) }
				plane.Until(t, d, led)
				plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
				plane.Until(t, d, func() error {
					if d.Spec.Template.Spec.Containers[0].Image == "theirs" {
						return errors.New("it is not repaired")
					}
					return led()
				})
			}
			plane.Read(t, namedService(ns, "db"))

			plane.Delete(t, foreign)
			for _, tier := range []string{"identity", "front"} {
				d := namedDeployment(ns, tier)
				plane.Until(t, d, func() error { return diffOf("taken."+ns+".svc", hostOf(d)) })
				completeRollout(t, d)
			}
			plane.Gone(t, namedService(ns, "db"))
			awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
		})
	}
}

// TestCloudManagerRenamesNodePorts renames tiers whose Services have node ports, which the cluster has once: the former Service gives its port away,
// and stays for its clients.
func TestCloudManagerRenamesNodePorts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	ports := []int32{30071, 30072}
	front, db := &cm.Spec.Front.Deployment, &cm.Spec.DB.StatefulSet
	front.Service.Type, front.Ports = corev1.ServiceTypeNodePort, []appv1.Port{{Port: 80, NodePort: ports[0]}}
	db.Service.Type, db.Ports = corev1.ServiceTypeNodePort, []appv1.Port{{Port: 3306, NodePort: ports[1]}}
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Front.Deployment.Name, cm.Spec.DB.StatefulSet.Name = "web", "data" })
	moved := func(from, to string, port int32) {
		t.Helper()
		service := namedService(ns, to)
		plane.Until(t, service, func() error { return diffOf(port, service.Spec.Ports[0].NodePort) })
		former := namedService(ns, from)
		plane.Until(t, former, func() error {
			if former.Spec.Ports[0].NodePort == port {
				return errors.New("the former Service has the port")
			}
			return nil
		})
	}
	moved("db", "data", ports[1])
	setReadyPods(t, namedStatefulSet(ns, "data"), 1)
	identity := namedDeployment(ns, "identity")
	plane.Until(t, identity, func() error { return diffOf("data."+ns+".svc", hostOf(identity)) })
	completeRollout(t, identity)
	moved("front", "web", ports[0])
	completeRollout(t, namedDeployment(ns, "web"))
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	plane.Gone(t, namedService(ns, "front"))
	m.Idle(t)
}

// TestCloudManagerFormerServiceStays renames a tier, and then its Service alone: the former Service, and the pods that it leads to, stay until clients
// have had their time to follow.
func TestCloudManagerFormerServiceStays(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithServiceGrace(ptr.To(grace)))
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	sent := func(request string) time.Time {
		t.Helper()
		for _, q := range m.Requests.All() {
			if q.Verb+" "+q.Resource+" "+q.Name == request {
				return q.Sent
			}
		}
		t.Errorf("no request %q was sent", request)
		return time.Time{}
	}
	stays := func(present, former string) {
		t.Helper()
		plane.Gone(t, namedService(ns, former))
		// The creation has a time of whole seconds.
		if stayed := sent("delete services " + former).Sub(sent("patch services " + present)); stayed < grace-time.Second {
			t.Errorf("Service %s was deleted %s after Service %s was created, want %s", former, stayed, present, grace)
		}
	}
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Front.Deployment.Name = "web" })
	web := namedDeployment(ns, "web")
	plane.Until(t, web, func() error { return nil })
	completeRollout(t, web)
	stays("web", "front")
	if deleted := sent("delete deployments front"); deleted.Sub(sent("patch services web")) < grace-time.Second {
		t.Error("the pods that the former Service leads to did not stay")
	}
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True")

	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Front.Deployment.Service.Name = "shop" })
	completeNextRollout(t, web)
	stays("shop", "web")
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True")
	m.Idle(t)
}

// releaseClaim takes the references off a claim.
func releaseClaim(t testing.TB, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	plane.Read(t, claim)
	plane.Change(t, claim, func() { claim.OwnerReferences = nil })
}

// TestCloudManagerReleases turns retention on for a database one of whose pods was scaled away: the volume of that would
// still go with the database, as its controller looks only at those of its pods. The user is told to fix that.
func TestCloudManagerReleases(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(false)
	bringUpTiers(t, cm)
	set, claim, other := namedStatefulSet(ns, "db"), namedClaim(ns, "datadir-db-7"), namedClaim(ns, "datadir-other-0")
	claimsGoWith(t, set, claim, other)
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Retain = ptr.To(true) })
	m.Idle(t)
	setReadyPods(t, set, 1)
	plane.Stands(t, cm, "Stalled=True/VolumeResizeFailed", "DatabaseReady=False/VolumeResizeFailed", "FrontReady=True")
	harness.Says(t, cm, "Stalled", "datadir-db-7 would be deleted with StatefulSet db", "spec.db.statefulSet.storage.retain")
	releaseClaim(t, claim)
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
}

// lookup reads an object that exists, and returns it.
func lookup[T client.Object](t testing.TB, obj T) T {
	t.Helper()
	plane.Read(t, obj)
	return obj
}

// settleNew takes a CloudManager whose database is new, and called data, to Ready.
func settleNew(t testing.TB, cm *appv1.CloudManager) {
	t.Helper()
	ns := cm.Namespace
	awaitPhase(t, cm, appv1.PhaseDatabase)
	setReadyPods(t, namedStatefulSet(ns, "data"), 1)
	for _, d := range []*appsv1.Deployment{namedDeployment(ns, "identity"), namedDeployment(ns, "front")} {
		plane.Until(t, d, func() error { return diffOf("data."+ns+".svc", hostOf(d)) })
		completeRollout(t, d)
	}
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
}
