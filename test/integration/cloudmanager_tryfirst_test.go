package integration

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestCloudManagerRefusedPart changes several objects of a database, and the API server refuses one. Nothing of the new
// spec may be applied, no claim may grow, the last applied spec stays in force, and the corrected one is applied.
func TestCloudManagerRefusedPart(t *testing.T) {
	t.Parallel()
	nowhere := &runtime.RawExtension{Raw: []byte(`{"spec":{"hostAliases":[{"ip":"nowhere"}]}}`)}
	outOfRange := func(db *appv1.Database) {
		db.Service.Type, db.Ports = corev1.ServiceTypeNodePort, []appv1.Port{{Port: 3306, NodePort: 80}}
	}
	for name, c := range map[string]struct {
		mutate func(*appv1.Database)
		reason string
		says   string
	}{
		"service": {outOfRange, appv1.ReasonInvalid, "Service db is rejected by the API server"},
		"service-and-size": {func(db *appv1.Database) {
			outOfRange(db)
			db.Storage.Size = resource.MustParse("30Gi")
		}, appv1.ReasonInvalid, "Service db is rejected by the API server"},
		"service-of-another-type": {func(db *appv1.Database) { db.Service.ClusterIP = corev1.ClusterIPNone }, appv1.ReasonImmutableField, "Service db is rejected by the API server"},
		"template": {func(db *appv1.Database) {
			db.PodTemplatePatch, db.Ports = nowhere, []appv1.Port{{Port: 3307}}
		}, appv1.ReasonInvalid, "must be a valid IP address"},
		"template-and-size": {func(db *appv1.Database) {
			db.PodTemplatePatch, db.Ports, db.Storage.Size = nowhere, []appv1.Port{{Port: 3307}}, resource.MustParse("30Gi")
		}, appv1.ReasonInvalid, "must be a valid IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			cm.Spec.DB.StatefulSet.Storage.Class = new(string)
			*cm.Spec.DB.StatefulSet.Storage.Class = "class-" + ns
			bringUpTiers(t, cm)
			claim := namedClaim(ns, "datadir-db-0")
			claim.Spec.StorageClassName = cm.Spec.DB.StatefulSet.Storage.Class
			plane.Create(t, claim)
			bindClaim(t, ns, true)
			m.Idle(t)
			set, service, headless := namedStatefulSet(ns, "db"), namedService(ns, "db"), namedService(ns, "db-headless")
			setWas, serviceWas, headlessWas := readWhole(t, set), readWhole(t, service), readWhole(t, headless)
			plane.Read(t, cm)
			right := cm.Spec.DB.StatefulSet.DeepCopy()
			plane.Change(t, cm, func() {
				c.mutate(&cm.Spec.DB.StatefulSet)
				cm.Spec.DB.StatefulSet.Image = "mariadb:11"
			})
			stands := []string{"Applied=False/" + c.reason, "Ready=False/" + c.reason, "DatabaseReady=False/" + c.reason, "Stalled=True/" + c.reason}
			plane.Stands(t, cm, stands...)
			harness.Says(t, cm, "Stalled", c.says)
			m.Idle(t)
			checkUntouched(t, set, setWas)
			checkUntouched(t, service, serviceWas)
			checkUntouched(t, headless, headlessWas)
			plane.Read(t, claim)
			if size := claim.Spec.Resources.Requests.Storage().String(); size != "20Gi" {
				t.Errorf("the claim has grown to %s", size)
			}

			playControllers(t, ns)
			plane.Change(t, set, func() { set.Spec.Template.Spec.Containers[0].Image = "theirs" })
			setImageIs(t, set, "mariadb:10.3")
			awaitReplaced(t, set, headless)
			setImageIs(t, set, "mariadb:10.3")
			plane.Stands(t, cm, stands...)

			plane.Read(t, cm)
			plane.Change(t, cm, func() {
				right.DeepCopyInto(&cm.Spec.DB.StatefulSet)
				cm.Spec.DB.StatefulSet.Image = "mariadb:12"
			})
			setImageIs(t, set, "mariadb:12")
			awaitPhase(t, cm, appv1.PhaseReady, "Applied=True", "Ready=True", "Stalled=False")
		})
	}
}

// TestCloudManagerRepairsWithoutPassword deletes objects of a database while its password is in trouble: only a StatefulSet
// that would have no Secret is not recreated.
func TestCloudManagerRepairsWithoutPassword(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	playControllers(t, ns)
	plane.Create(t, namedClaim(ns, "datadir-db-0"))
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = "", &appv1.SecretKeyRef{Name: "missing"} })
	plane.Stands(t, cm, "Applied=False/SecretNotFound", "Ready=False/SecretNotFound", "Stalled=False")
	set, services := namedStatefulSet(ns, "db"), []client.Object{namedService(ns, "db"), namedService(ns, "db-headless")}
	awaitReplaced(t, append(services, set)...)
	plane.Stands(t, cm, "Applied=False/SecretNotFound")

	plane.Delete(t, namedSecret(ns, "dbauth"))
	plane.Change(t, cm, func() { cm.Spec.DB.RootPassSecretRef = nil })
	plane.Stands(t, cm, "Applied=False/PasswordLost", "Ready=False/PasswordLost", "Stalled=True/PasswordLost")
	plane.Read(t, set)
	plane.Delete(t, set)
	plane.Gone(t, set)
	awaitReplaced(t, services...)
	m.Idle(t)
	plane.Absent(t, set)
	plane.Stands(t, cm, "Stalled=True/PasswordLost")
}

// setImageIs waits until a StatefulSet's main container has an image.
func setImageIs(t *testing.T, set *appsv1.StatefulSet, image string) {
	t.Helper()
	plane.Until(t, set, func() error { return diffOf(image, set.Spec.Template.Spec.Containers[0].Image) })
}

// TestCloudManagerRecreatesTiers deletes the objects of later tiers while the database is in trouble: a tier waits for the one
// before it only as long as it never existed.
func TestCloudManagerRecreatesTiers(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, cm *appv1.CloudManager){
		"down": func(t *testing.T, cm *appv1.CloudManager) {
			t.Helper()
			setReadyPods(t, namedStatefulSet(cm.Namespace, "db"), 0)
		},
		"another's": func(t *testing.T, cm *appv1.CloudManager) {
			t.Helper()
			set := namedStatefulSet(cm.Namespace, "db")
			plane.Read(t, set)
			yes := true
			plane.Change(t, set, func() {
				set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "other", UID: "1", Controller: &yes}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			bringUpTiers(t, cm)
			fail(t, cm)
			plane.Stands(t, cm, "DatabaseReady=False")
			m.Idle(t)
			identity, front := namedDeployment(ns, "identity"), namedDeployment(ns, "front")
			awaitReplaced(t, identity, front, namedService(ns, "front"))
			plane.Until(t, cm, func() error {
				if cm.Status.Front.Ready != "0/1" || cm.Status.Identity.Ready != "0/1" {
					return fmt.Errorf("the status is %+v", cm.Status)
				}
				return nil
			})
		})
	}
}

// TestCloudManagerRepairsWhileRenamed edits and deletes objects of later tiers while the database is to be replaced by one of
// another name that does not come up: they stay led to the one that there is.
func TestCloudManagerRepairsWhileRenamed(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() {
		cm.Spec.DB.StatefulSet.Name, cm.Spec.DB.StatefulSet.Ports = "data", []appv1.Port{{Port: 3307}}
		cm.Spec.Front.Deployment.Image = "nginx:1.21"
	})
	awaitPhase(t, cm, appv1.PhaseDatabase, "Applied=False/DependencyNotReady")
	m.Idle(t)
	identity, front := namedDeployment(ns, "identity"), namedDeployment(ns, "front")
	right := func(d *appsv1.Deployment, wanted string) {
		t.Helper()
		plane.Until(t, d, func() error {
			c := d.Spec.Template.Spec.Containers[0]
			return errors.Join(diffOf(wanted, c.Image), diffOf("db."+ns+".svc", hostOf(d)), diffOf("3306", portOf(d)))
		})
	}
	for _, d := range []*appsv1.Deployment{identity, front} {
		plane.Read(t, d)
		wanted, was := d.Spec.Template.Spec.Containers[0].Image, d.UID
		plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
		right(d, wanted)
		if d.UID != was {
			t.Errorf("%s is replaced", d.Name)
		}
		awaitReplaced(t, d)
		right(d, wanted)
	}
	awaitReplaced(t, namedService(ns, "front"))
	plane.Stands(t, cm, "Applied=False/DependencyNotReady")

	setReadyPods(t, namedStatefulSet(ns, "data"), 1)
	for _, d := range []*appsv1.Deployment{identity, front} {
		plane.Until(t, d, func() error { return errors.Join(diffOf("data."+ns+".svc", hostOf(d)), diffOf("3307", portOf(d))) })
	}
	awaitImage(t, front, "nginx:1.21")
}

// TestCloudManagerRepairsPreviousNames renames all three components: until the new ones are available, the ones of the earlier names
// serve, and are repaired by the specs that were last applied of them. They are removed as without the repairs.
func TestCloudManagerRepairsPreviousNames(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.Identity.Deployment.Ports = []appv1.Port{{Port: 8080}}
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() {
		db, identity, front := &cm.Spec.DB.StatefulSet, &cm.Spec.Identity.Deployment, &cm.Spec.Front.Deployment
		db.Name, identity.Name, front.Name = "data", "id", "web"
		db.Image, identity.Image, front.Image = "mariadb:11", "busybox:2", "nginx:2"
		db.Storage.Size, db.Ports, identity.Ports = resource.MustParse("1Gi"), []appv1.Port{{Port: 3307}}, []appv1.Port{{Port: 81}}
	})
	awaitPhase(t, cm, appv1.PhaseDatabase, "Applied=False/DependencyNotReady")
	set, secret := namedStatefulSet(ns, "db"), namedSecret(ns, "dbauth")
	repair := func(what string) {
		t.Helper()
		plane.Read(t, set)
		plane.Read(t, secret)
		version, id := secret.ResourceVersion, set.UID
		plane.Change(t, set, func() { set.Spec.Template.Spec.Containers[0].Image = "theirs" })
		plane.Until(t, set, func() error {
			return errors.Join(diffOf("mariadb:10.3", set.Spec.Template.Spec.Containers[0].Image), diffOf(id, set.UID))
		})
		for name, wanted := range map[string]string{"identity": "busybox:1.32.1", "front": "nginx:1.20"} {
			d := namedDeployment(ns, name)
			plane.Read(t, d)
			template := d.Spec.Template.DeepCopy()
			plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
			awaitImage(t, d, wanted)
			if err := diffOf(template, &d.Spec.Template); err != nil {
				t.Errorf("%s: Deployment %s %v", what, name, err)
			}
		}
		for _, name := range []string{"db", "db-headless", "identity", "front"} {
			awaitReplaced(t, namedService(ns, name))
		}
		m.Idle(t)
		plane.Read(t, secret)
		if secret.ResourceVersion != version {
			t.Errorf("%s: the Secret of the old database was written", what)
		}
	}
	repair("all of them renamed")
	setReadyPods(t, namedStatefulSet(ns, "data"), 1)
	id, web := namedDeployment(ns, "id"), namedDeployment(ns, "web")
	awaitImage(t, id, "busybox:2")
	repair("the new database available")

	completeRollout(t, id)
	awaitImage(t, web, "nginx:2")
	setReadyPods(t, set, 1)
	completeRollout(t, web)
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	for _, name := range []string{"identity", "front"} {
		plane.Absent(t, namedDeployment(ns, name))
		plane.Absent(t, namedService(ns, name))
	}
	plane.Absent(t, set)
	plane.Absent(t, namedService(ns, "db-headless"))
	m.Idle(t)
}

// TestCloudManagerLedToWhatIsInForce changes the port of a database together with what is rejected by the API server: the later tiers are led to
// the port that the database has, also with their next change.
func TestCloudManagerLedToWhatIsInForce(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	plane.Read(t, cm)
	plane.Change(t, cm, func() {
		cm.Spec.DB.StatefulSet.Ports, cm.Spec.DB.StatefulSet.Storage.Size = []appv1.Port{{Port: 3307}}, resource.MustParse("1Gi")
		cm.Spec.Front.Deployment.Image = "nginx:1.21"
	})
	plane.Stands(t, cm, "Applied=False/VolumeResizeFailed")
	front := namedDeployment(ns, "front")
	awaitImage(t, front, "nginx:1.21")
	if port := portOf(front); port != "3306" {
		t.Errorf("the front is led to port %s", port)
	}
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("20Gi") })
	plane.Until(t, front, func() error { return diffOf("3307", portOf(front)) })
}

// portOf is at which port a tier is told that the database is.
func portOf(d *appsv1.Deployment) string {
	for _, env := range d.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "DB_PORT" {
			return env.Value
		}
	}
	return ""
}
