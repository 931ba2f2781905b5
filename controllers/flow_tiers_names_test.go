package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// servedSpec is tieredSpec with a Service of identity.
func servedSpec() string {
	return strings.Replace(tieredSpec("nginx:1"), `"image":"busybox:1"`, `"image":"busybox:1","ports":[{"port":8000}]`, 1)
}

// tierService reads the Service of a name, which must exist.
func (w *world) tierService(name string) *corev1.Service {
	w.t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !w.read(s) {
		w.t.Fatalf("there is no Service %s", name)
	}
	return s
}

// leads fails the test unless a Service leads to the pods of a component.
func (w *world) leads(what, service, component string) {
	w.t.Helper()
	if got := w.tierService(service).Spec.Selector[appv1.LabelPart]; got != component {
		w.t.Errorf("%s: Service %s leads to %s, want %s", what, service, got, component)
	}
}

// TestFlowOfTiersOfOneName gives a component the name of another one, which no webhook rejects: both keep their last applied specs, and nothing is
// written.
func TestFlowOfTiersOfOneName(t *testing.T) {
	forEach(t, map[string]string{
		"identity like front": `"name":"id"`, "front like identity": `"name":"front"`, "database like identity": `"name":"data"`,
	}, func(t *testing.T, what, is string) {
		other := map[string]string{"identity like front": "front", "front like identity": "id", "database like identity": "id"}[what]
		condition := map[string]string{"id": appv1.ConditionIdentityReady, "front": appv1.ConditionFrontReady}[other]
		spec := servedSpec()
		w := newRunningTiers(t, spec)
		before := w.tierService(other)
		w.setSpec(tieredKind, strings.Replace(spec, is, `"name":"`+other+`"`, 1))
		w.reaches(what, appv1.PhaseReady)
		w.stands(what, tieredKind, "Stalled=True/Invalid", condition+"=False/Invalid")
		w.reaches("settled", appv1.PhaseReady)
		if after := w.tierService(other); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("Service %s is written", other)
		}
		changed := w.tierDeployment(other)
		image := changed.Spec.Template.Spec.Containers[0].Image
		changed.Spec.Template.Spec.Containers[0].Image = "theirs"
		w.update(changed)
		w.reaches("drift", appv1.PhaseReady, "Deployment "+other)
		if got := w.tierDeployment(other).Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("the image is %s, want %s", got, image)
		}
		w.makeTierAvailable(other, 1)
		w.setSpec(tieredKind, spec)
		w.reaches("the former names", appv1.PhaseReady)
		w.stands("the former names", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
	})
}

// TestFlowOfTiersThatSwapNames gives each of two components the name of the other one: both wait for a user.
func TestFlowOfTiersThatSwapNames(t *testing.T) {
	spec := servedSpec()
	w := newRunningTiers(t, spec)
	w.setSpec(tieredKind, strings.NewReplacer(`"name":"id"`, `"name":"front"`, `"name":"front"`, `"name":"id"`, "mariadb:10.3", "mariadb:10.4").Replace(spec))
	w.reaches("swapped", appv1.PhaseReady, "StatefulSet data")
	w.stands("swapped", tieredKind, "Stalled=True/ResourceExists", "IdentityReady=False/ResourceExists", "FrontReady=False/ResourceExists")
	if got := w.message(tieredKind, appv1.ConditionFrontReady); !containsAll(got, "Deployment id", "the tier identity", "rename in two steps") {
		t.Errorf("the message is %q", got)
	}
	w.remove(w.tierService("id"))
	w.reaches("a Service is deleted", appv1.PhaseReady, "Service id")
	w.leads("a Service is deleted", "id", "id")
}

// TestFlowOfADatabaseThatAwaitsAName gives the database the name of another tier, and a password that is for its next volumes: the password of the volumes that it has
// is not judged by that.
func TestFlowOfADatabaseThatAwaitsAName(t *testing.T) {
	spec := strings.Replace(tieredSpec("nginx:1"), `{"db":{`, `{"db":{"rootPass":"first",`, 1)
	w := newRunningTiers(t, spec)
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "datadir-data-0", Labels: map[string]string{
		appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelCloudManager: "web", appv1.LabelInstance: "web",
	}, Annotations: map[string]string{appv1.AnnotationRetainedFor: "CloudManager.web"}}})
	w.settle(tieredKind)
	w.requests = nil
	w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"front"`, "first", "second").Replace(spec))
	w.reaches("another name", appv1.PhaseReady)
	w.stands("another name", tieredKind, "DatabaseReady=False/Invalid")
	if got := w.message(tieredKind, appv1.ConditionStalled); strings.Contains(got, "assword") {
		t.Errorf("the message is %q", got)
	}
	w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"front"`, "first", "second", `"name":"front"`, `"name":"site"`).Replace(spec))
	w.reaches("a name that will be free", appv1.PhaseFront, "Deployment site", "Service site")
	w.stands("a name that will be free", tieredKind, "DatabaseReady=False/DependencyNotReady", "Stalled=False/NotStalled")
	w.setSpec(tieredKind, strings.Replace(spec, "first", "second", 1))
	w.settle(tieredKind)
	w.stands("its own name", tieredKind, "DatabaseReady=False/PasswordMismatch")
}

// TestFlowOfTiersThatFollowNames renames a component, and another one to the name that the former has had: it gets the name once that is free.
func TestFlowOfTiersThatFollowNames(t *testing.T) {
	w := newRunningTiers(t, servedSpec())
	w.setSpec(tieredKind, strings.NewReplacer(`"name":"front"`, `"name":"site"`, `"name":"id"`, `"name":"front"`).Replace(servedSpec()))
	w.reaches("renamed", appv1.PhaseFront, "Deployment site", "Service site")
	w.stands("renamed", tieredKind, "Stalled=False/NotStalled", "IdentityReady=False/DependencyNotReady")
	if got := w.tierDeployment("front").Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
		t.Errorf("the image of the former front is %s", got)
	}
	w.leads("renamed", "front", "front")
	w.makeTierAvailable("site", 1)
	w.reaches("the new front is up", appv1.PhaseIdentity, "Deployment front", "Service front", "delete Deployment front", "delete Service front")
	if got := w.tierDeployment("front").Spec.Template.Spec.Containers[0].Image; got != "busybox:1" {
		t.Errorf("the image of identity is %s", got)
	}
	w.makeTierAvailable("front", 1)
	w.reaches("the new identity is up", appv1.PhaseIdentity, "Deployment site")
	w.makeTierAvailable("site", 1)
	w.reaches("front is led to it", appv1.PhaseReady, "delete Deployment id", "delete Service id")
	w.stands("all is renamed", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
}

// TestFlowOfATierWithTheDatabasesFormerName renames the database, and identity to its former name: nothing takes the Service of the database before no
// tier uses it.
func TestFlowOfATierWithTheDatabasesFormerName(t *testing.T) {
	w := newRunningTiers(t, tieredSpec("nginx:1"))
	w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"base"`, `"name":"id"`, `"name":"data"`).Replace(tieredSpec("nginx:1")))
	w.reaches("renamed", appv1.PhaseDatabase, "Secret baseauth", "Service base", "Service base-headless", "StatefulSet base")
	w.leads("renamed", "data", "data")
	w.makeTierAvailable("base", 1)
	w.reaches("the new database is up", appv1.PhaseDatabase, "Deployment front", "Deployment id")
	for _, tier := range []string{"id", "front"} {
		if host := w.databaseHost(tier); host != "base.default.svc" {
			t.Errorf("%s is led to %s", tier, host)
		}
		w.makeTierAvailable(tier, 1)
	}
	w.reaches("no tier uses the former database", appv1.PhaseIdentity, "Deployment data", "delete Service data", "delete Service data-headless", "delete StatefulSet data")
	w.makeTierAvailable("data", 1)
	w.reaches("identity is renamed", appv1.PhaseReady, "delete Deployment id")
}

// TestFlowOfALostTierWithTheDatabasesFormerName renames as above, and identity is deleted before the new database is up: front is led to that, so that the former one goes, and
// identity gets its name.
func TestFlowOfALostTierWithTheDatabasesFormerName(t *testing.T) {
	forEach(t, map[string][]string{
		"front stays":      {"front", `"name":"front"`},
		"front is renamed": {"site", `"name":"site"`},
		"front is deleted": {"front", `"name":"front"`},
	}, func(t *testing.T, what string, front []string) {
		w := newRunningTiers(t, servedSpec())
		w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"base"`, `"name":"id"`, `"name":"data"`, `"name":"front"`, front[1]).Replace(servedSpec()))
		w.settle(tieredKind)
		w.remove(w.tierDeployment("id"))
		if what == "front is deleted" {
			w.remove(w.tierDeployment("front"))
		}
		for range 3 {
			w.settle(tieredKind)
		}
		w.leads("the new database is not up", "data", "data")
		w.makeTierAvailable("base", 1)
		w.settle(tieredKind)
		if host := w.databaseHost(front[0]); host != "base.default.svc" {
			t.Errorf("front is led to %s", host)
		}
		for range 3 {
			w.makeTierAvailable(front[0], 1)
			for range 3 {
				w.settle(tieredKind)
			}
		}
		for range 2 {
			w.makeTierAvailable("data", 1)
			for range 3 {
				w.settle(tieredKind)
			}
			w.makeTierAvailable(front[0], 1)
			w.settle(tieredKind)
		}
		w.stands("at the end", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
	})
}

// TestFlowOfARenamedTierWithItsService renames a component that states the name of its Service: the Service leads to the old component until the new one is up.
func TestFlowOfARenamedTierWithItsService(t *testing.T) {
	forEach(t, map[string]string{"data": "db", "id": "users", "front": "shop"}, func(t *testing.T, tier, service string) {
		spec := strings.Replace(servedSpec(), `"name":"`+tier+`"`, `"name":"`+tier+`","service":{"name":"`+service+`"}`, 1)
		w := newRunningTiers(t, spec)
		w.setSpec(tieredKind, strings.Replace(spec, `"name":"`+tier+`"`, `"name":"other"`, 1))
		for range 3 {
			w.settle(tieredKind)
		}
		w.leads("renamed", service, tier)
		w.remove(w.tierService(service))
		for range 3 {
			w.settle(tieredKind)
		}
		w.leads("the Service is deleted", service, tier)
		w.requests = nil
		w.settle(tieredKind)
		w.wrote("settled")

		w.makeTierAvailable("other", 1)
		w.settle(tieredKind)
		w.leads("the new one is up", service, "other")
		for range 2 {
			for _, user := range []string{"id", "front"} {
				if user != tier {
					w.makeTierAvailable(user, 1)
				}
			}
			for range 2 {
				w.settle(tieredKind)
			}
		}
		w.leads("at the end", service, "other")
		w.stands("at the end", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
		for _, left := range []string{tier, tier + "-headless"} {
			if w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: left}}) {
				t.Errorf("Service %s is left", left)
			}
		}
		if w.read(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: tier}}) || w.read(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: tier}}) {
			t.Errorf("%s is left", tier)
		}
	})
}

// TestFlowOfAHeldServiceOfALastSpec renames a component that states the name of its Service, and, before the new one is up, states another one in a change that is not applied: the
// Service of the last applied spec leads to the old component until the new one is up.
func TestFlowOfAHeldServiceOfALastSpec(t *testing.T) {
	const named = `"name":"other","service":{"name":"shop"}`
	image := map[string]string{"data": `"image":"mariadb:10.3"`, "id": `"image":"busybox:1"`, "front": `"image":"nginx:1"`}
	for what, tiersOf := range map[string][]string{"invalid": {"data", "id", "front"}, "kept": {"id", "front"}} {
		table := map[string]string{}
		for _, tier := range tiersOf {
			table[what+" "+tier] = tier
		}
		forEach(t, table, func(t *testing.T, _, tier string) {
			spec := strings.Replace(servedSpec(), `"name":"`+tier+`"`, `"name":"`+tier+`","service":{"name":"shop"}`, 1)
			renamed := strings.Replace(spec, `"name":"`+tier+`"`, `"name":"other"`, 1)
			restated := strings.Replace(renamed, named, `"name":"other","service":{"name":"site"}`, 1)
			next := strings.Replace(restated, `"name":"data"`, `"name":"base"`, 1)
			if what == "invalid" {
				next = strings.Replace(restated, image[tier], image[tier]+`,"envs":[{"name":"A"},{"name":"A"}]`, 1)
			}
			w := newRunningTiers(t, spec)
			w.setSpec(tieredKind, renamed)
			w.settle(tieredKind)
			w.setSpec(tieredKind, next)
			for range 3 {
				w.settle(tieredKind)
				w.leads(what, "shop", tier)
			}
			w.remove(w.tierService("shop"))
			for range 2 {
				w.settle(tieredKind)
			}
			w.leads("the Service is deleted", "shop", tier)
			if tier == "data" {
				w.remove(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
			} else {
				w.remove(w.tierDeployment("other"))
			}
			for range 2 {
				w.settle(tieredKind)
			}
			w.leads("the new workload object is deleted", "shop", tier)
			w.requests = nil
			w.settle(tieredKind)
			w.wrote("settled")

			w.makeTierAvailable("other", 1)
			for range 2 {
				w.settle(tieredKind)
			}
			w.leads("the new one is up", "shop", "other")
			w.setSpec(tieredKind, restated)
			for range 3 {
				for _, name := range []string{"data", "id", "front"} {
					if name == tier {
						name = "other"
					}
					w.makeTierAvailable(name, 1)
				}
				for range 3 {
					w.settle(tieredKind)
				}
			}
			w.leads("at the end", "site", "other")
			w.stands("at the end", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
			if w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}) {
				t.Error("Service shop is left")
			}
		})
	}
}

// TestFlowOfAKeptTierWithItsService renames the database, and gives a later tier a Service of another name, in one change: the tier keeps its last applied spec, and so
// its former Service, until the new database is up.
func TestFlowOfAKeptTierWithItsService(t *testing.T) {
	forNames(t, []string{"id", "front"}, func(t *testing.T, tier string) {
		w := newRunningTiers(t, servedSpec())
		before := w.tierService(tier)
		w.setSpec(tieredKind, strings.NewReplacer(`"name":"data"`, `"name":"base"`, `"name":"`+tier+`"`, `"name":"`+tier+`","service":{"name":"site"}`).Replace(servedSpec()))
		w.reaches("renamed", appv1.PhaseDatabase, "Secret baseauth", "Service base", "Service base-headless", "StatefulSet base")
		w.reaches("settled", appv1.PhaseDatabase)
		if after := w.tierService(tier); after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("Service %s is written while the tier keeps its last applied spec", tier)
		}
		w.makeTierAvailable("base", 1)
		for range 3 {
			for range 3 {
				w.settle(tieredKind)
			}
			w.makeTierAvailable("id", 1)
			w.makeTierAvailable("front", 1)
		}
		w.leads("the new database is up", "site", tier)
		w.stands("the new database is up", tieredKind, "Ready=True/Ready", "Stalled=False/NotStalled")
		for _, left := range []string{tier, "data"} {
			if w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: left}}) {
				t.Errorf("Service %s is left", left)
			}
		}
	})
}

// TestFlowOfAKeptTierThatUsesAFormerOne renames identity, and then the database, before the new identity is up: identity stays under its former name until front, which
// waits for the new database, no longer uses it.
func TestFlowOfAKeptTierThatUsesAFormerOne(t *testing.T) {
	w := newRunningTiers(t, servedSpec())
	renamed := strings.Replace(servedSpec(), `"name":"id"`, `"name":"users"`, 1)
	w.setSpec(tieredKind, renamed)
	w.reaches("identity is renamed", appv1.PhaseIdentity, "Deployment users", "Service users")
	w.setSpec(tieredKind, strings.Replace(renamed, `"name":"data"`, `"name":"base"`, 1))
	w.reaches("the database is renamed", appv1.PhaseDatabase, "Secret baseauth", "Service base", "Service base-headless", "StatefulSet base")
	w.makeTierAvailable("users", 1)
	w.reaches("the new identity is up", appv1.PhaseDatabase)
	w.leads("the new identity is up", "id", "id")

	w.makeTierAvailable("base", 1)
	w.reaches("the new database is up", appv1.PhaseDatabase, "Deployment users")
	w.makeTierAvailable("users", 1)
	w.reaches("identity is led to it", appv1.PhaseDatabase, "Deployment front")
	w.leads("identity is led to it", "id", "id")
	w.makeTierAvailable("front", 1)
	w.reaches("front is led to both", appv1.PhaseReady, "delete Deployment id", "delete Service data", "delete Service data-headless", "delete Service id", "delete StatefulSet data")
}

// TestFlowOfTiersRenamedTwice renames the database twice before the first new one is up. A tier that is deleted meanwhile is not recreated, as no database is known that
// it could use.
func TestFlowOfTiersRenamedTwice(t *testing.T) {
	w := newRunningTiers(t, tieredSpec("nginx:1"))
	for _, name := range []string{"first", "second"} {
		w.setSpec(tieredKind, strings.Replace(tieredSpec("nginx:1"), `"name":"data"`, `"name":"`+name+`"`, 1))
		w.reaches("the database is renamed to "+name, appv1.PhaseDatabase, "Secret "+name+"auth", "Service "+name, "Service "+name+"-headless", "StatefulSet "+name)
	}
	w.remove(w.tierDeployment("id"))
	w.reaches("identity is deleted", appv1.PhaseDatabase)
	w.makeTierAvailable("second", 1)
	w.reaches("the last database is up", appv1.PhaseDatabase, "Deployment front", "Deployment id")
	if host := w.databaseHost("id"); host != "second.default.svc" {
		t.Errorf("identity is led to %s", host)
	}
}
