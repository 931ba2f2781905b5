package integration

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// strangers are objects of other people by names that a CloudManager wants, each with the tier that it is in the way of,
// and whether it is of a kind that is watched.
var strangers = map[string]struct {
	make    func(namespace string) client.Object
	tier    string
	watched bool
}{
	"StatefulSet db": {func(ns string) client.Object { return newHandMadeSet(ns, "db") }, "db", true},
	"Service db":     {func(ns string) client.Object { return newHandMadeService(ns, "db") }, "db", true},
	"Service db-headless": {func(ns string) client.Object {
		return newHandMadeService(ns, "db-headless")
	}, "db", true},
	"Secret dbauth": {func(ns string) client.Object {
		secret := namedSecret(ns, "dbauth")
		secret.Data = map[string][]byte{"password": []byte("theirs"), "username": []byte("them")}
		return secret
	}, "db", false},
	"PersistentVolumeClaim datadir-db-0": {func(ns string) client.Object {
		claim := namedClaim(ns, "datadir-db-0")
		claim.Labels, claim.Annotations = map[string]string{"team": "a"}, nil
		return claim
	}, "db", false},
	"Deployment identity": {func(ns string) client.Object { return newHandMade(ns, "identity") }, "identity", true},
	"Deployment front":    {func(ns string) client.Object { return newHandMade(ns, "front") }, "front", true},
	"Service front":       {func(ns string) client.Object { return newHandMadeService(ns, "front") }, "front", true},
}

// madeBeside is how many objects are made next to a stranger: those of the tiers before, and of its own tier all that do not
// depend on it. Nothing of a database is made without its Secret, and no pods for a volume that is another's.
var madeBeside = map[string]int{
	"StatefulSet db": 3, "Service db": 3, "Service db-headless": 3, "Secret dbauth": 0, "PersistentVolumeClaim datadir-db-0": 1,
	"Deployment identity": 4, "Deployment front": 6, "Service front": 6,
}

// TestCloudManagerForeign puts objects of another owner in the way of a CloudManager: they stay as they are to the last
// field, nothing of a later tier is made, and it goes on once they are gone.
func TestCloudManagerForeign(t *testing.T) {
	t.Parallel()
	for name, c := range strangers {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			playControllers(t, ns)
			obj := c.make(ns)
			plane.Create(t, obj)
			if set, ok := obj.(*appsv1.StatefulSet); ok {
				setReadyPods(t, set, 1)
			}
			if d, ok := obj.(*appsv1.Deployment); ok {
				completeRollout(t, d)
			}
			was := readWhole(t, obj)
			cm := newCloudManager(ns)
			plane.Create(t, cm)
			conditions := []string{"Ready=False/ResourceExists", "Stalled=True/ResourceExists", "FrontReady=False"}
			if c.tier == "db" {
				conditions = append(conditions, "DatabaseReady=False/ResourceExists", "IdentityReady=False/DependencyNotReady", "FrontReady=False/DependencyNotReady")
			}
			plane.Stands(t, cm, conditions...)
			harness.Says(t, cm, "Stalled", name+" exists")
			m.Idle(t)
			checkUntouched(t, obj, was)
			made := madeBeside[name]
			if found := ownedObjects(t, cm); len(found) != made {
				t.Errorf("%d objects are made, want %d: %v", len(found), made, found)
			}

			if name == "Secret dbauth" {
				for range 4 { // So that the minute ends while it is waited for.
					m.Idle(t)
				}
			}
			plane.Delete(t, obj)
			if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
				plane.Read(t, claim)
				plane.Change(t, claim, func() { claim.Finalizers = nil }) // As its controller does once no pod uses it.
			}
			if !c.watched && name != "Secret dbauth" {
				setAnnotation(t, cm, "test", "again") // It is looked for after a minute. That is waited for once, with the Secret.
			}
			awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
		})
	}
}

// ownedObjects returns what a CloudManager has made, each as "Kind name", also what is to outlive it.
func ownedObjects(t testing.TB, cm *appv1.CloudManager) []string {
	t.Helper()
	var found []string
	for kind, list := range map[string]client.ObjectList{
		"StatefulSet": &appsv1.StatefulSetList{}, "Deployment": &appsv1.DeploymentList{},
		"Service": &corev1.ServiceList{}, "Secret": &corev1.SecretList{},
	} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(cm.Namespace), client.MatchingLabels{appv1.LabelManagedBy: appv1.ManagedBy}); err != nil {
			t.Fatal(err)
		}
		for _, obj := range objectsOf(t, list) {
			found = append(found, kind+" "+obj.GetName())
		}
	}
	return found
}

// TestCloudManagerAdopts takes over what another writer made, where the user says so: the data, the password and the pods'
// names stay.
func TestCloudManagerAdopts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	playControllers(t, ns)
	cm := newCloudManager(ns)
	cm.Spec.DB.RootPass = ""
	cm.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	uids := map[string]string{}
	for _, name := range []string{"Service db", "Secret dbauth", "PersistentVolumeClaim datadir-db-0", "Deployment front"} {
		obj := strangers[name].make(ns)
		plane.Create(t, obj)
		uids[name] = string(obj.GetUID())
	}
	plane.Create(t, cm)
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
	m.Idle(t)
	for name, uid := range uids {
		obj := strangers[name].make(ns)
		if string(lookup(t, obj).GetUID()) != uid {
			t.Errorf("%s was recreated", name)
		}
		_, claim := obj.(*corev1.PersistentVolumeClaim)
		_, secret := obj.(*corev1.Secret)
		if kept := obj.GetAnnotations()[appv1.AnnotationRetainedFor]; (claim || secret) && kept != "CloudManager.cm" {
			t.Errorf("%s is kept for %q", name, kept)
		}
		if !claim && !secret && !metav1.IsControlledBy(obj, cm) {
			t.Errorf("%s is not the CloudManager's", name)
		}
	}
	if is := passwordOf(t, ns); is != "theirs" {
		t.Errorf("the password of the volume has become %q", is)
	}
}

// TestCloudManagerNames gives components names that clash, or are too long: the error names the field. Where they are stated,
// the API server refuses them. Those that are left out, the CloudManager's with the tier's behind it, may clash as well, and
// then nothing of that component is made.
func TestCloudManagerNames(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns)
	named := func(name, db, identity, front string) *appv1.CloudManager {
		cm := newCloudManager(ns)
		cm.Name = name
		cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name = db, identity, front
		return cm
	}
	for name, c := range map[string]struct {
		db, identity, front string
		words               []string
	}{
		"one-name":              {"one-db", "one", "one", []string{"spec.front.deployment.name: ", "must differ from identity.deployment.name"}},
		"like-db":               {"like", "like", "like-front", []string{"spec.identity.deployment.name: ", "must differ from db.statefulSet.name"}},
		"headless":              {"hl", "hl-identity", "hl-headless", []string{"spec.front.deployment.name: ", "with the suffix -headless"}},
		"too-long":              {strings.Repeat("a", 53), "tl-identity", "tl-front", []string{"spec.db.statefulSet.name: ", "at most 52"}},
		strings.Repeat("n", 55): {"", "", "", []string{"spec.db.statefulSet.name: ", "must be set", "spec.identity.deployment.name: "}},
		"0-is-no-beginning":     {"", "", "", []string{"spec.db.statefulSet.name: ", "must be set", "spec.identity.deployment.name: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := plane.Client.Create(t.Context(), named(name, c.db, c.identity, c.front))
			if !apierrors.IsInvalid(err) {
				t.Fatalf("%v, want a refusal", err)
			}
			for _, words := range c.words {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v, want %q in it", err, words)
				}
			}
		})
	}
	t.Run("defaulted", func(t *testing.T) {
		t.Parallel()
		cm := named("defaulted", "", "defaulted-db", "")
		plane.Create(t, cm)
		plane.Stands(t, cm, "IdentityReady=False/Invalid", "Stalled=True/Invalid")
		harness.Says(t, cm, "Stalled", "spec.identity.deployment.name", `"defaulted-db"`)
	})
	t.Run("defaults", func(t *testing.T) {
		t.Parallel()
		ns := plane.Namespace(t)
		playControllers(t, ns)
		plane.Start(t, ns)
		cm := newCloudManager(ns)
		cm.Name = "shop"
		cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name = "", "", ""
		plane.Create(t, cm)
		awaitPhase(t, cm, appv1.PhaseReady, "Ready=True")
		if cm.Status.DB.Name != "shop-db" || cm.Status.Identity.Name != "shop-identity" || cm.Status.Front.Name != "shop-front" {
			t.Errorf("names: %+v", cm.Status)
		}
		d := lookup(t, namedDeployment(ns, "shop-front"))
		if name := d.Spec.Template.Spec.Containers[0].Name; name != "shop-front" {
			t.Errorf("the main container is called %s", name)
		}
		plane.Read(t, namedSecret(ns, "shop-dbauth"))
		if cm.Spec.Front.Deployment.Name != "" || ptr.Deref(cm.Spec.Front.Deployment.Replicas, 1) != 1 {
			t.Error("the defaults were written into the spec")
		}
	})
}
