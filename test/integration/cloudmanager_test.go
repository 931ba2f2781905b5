package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// newCloudManager returns a CloudManager with the components front, identity and db.
func newCloudManager(namespace string) *appv1.CloudManager {
	cm := fixture.NewCloudManager(namespace, "cm")
	cm.Spec.DB.RootPass = "123456"
	return cm
}

// Objects by their names, to be read.
var (
	namedDeployment  = fixture.Named[appsv1.Deployment]
	namedStatefulSet = fixture.Named[appsv1.StatefulSet]
	namedService     = fixture.Named[corev1.Service]
	namedSecret      = fixture.Named[corev1.Secret]
)

// awaitPhase waits until a CloudManager's phase is the wanted one, for its current spec.
func awaitPhase(t testing.TB, cm *appv1.CloudManager, phase appv1.Phase, conditions ...string) {
	t.Helper()
	plane.Until(t, cm, func() error {
		if cm.Status.Phase != phase || cm.Status.ObservedGeneration != cm.Generation {
			return fmt.Errorf("the phase is %q, want %q: %+v", cm.Status.Phase, phase, cm.Status.Conditions)
		}
		return nil
	})
	plane.Stands(t, cm, conditions...)
}

// bringUpTiers creates a CloudManager and takes it to Ready, tier by tier.
func bringUpTiers(t testing.TB, cm *appv1.CloudManager) {
	t.Helper()
	ns, spec := cm.Namespace, &cm.Spec
	db, identity, front := spec.DB.StatefulSet.Name, spec.Identity.Deployment.Name, spec.Front.Deployment.Name
	plane.Create(t, cm)
	awaitPhase(t, cm, appv1.PhaseDatabase)
	setReadyPods(t, namedStatefulSet(ns, db), 1)
	awaitPhase(t, cm, appv1.PhaseIdentity)
	completeRollout(t, namedDeployment(ns, identity))
	awaitPhase(t, cm, appv1.PhaseFront)
	completeRollout(t, namedDeployment(ns, front))
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True/Ready", "Reconciling=False/Settled", "Stalled=False")
}

// TestCloudManagerSchema checks what the API server itself refuses.
func TestCloudManagerSchema(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for words, mutate := range map[string]func(*appv1.CloudManager){
		"spec.db: Invalid value": func(cm *appv1.CloudManager) { cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "a"} },
		"spec.db.statefulSet.strategy": func(cm *appv1.CloudManager) {
			cm.Spec.DB.StatefulSet.Strategy = appsv1.RecreateDeploymentStrategyType
		},
		"spec.db.statefulSet.rollingUpdate": func(cm *appv1.CloudManager) {
			cm.Spec.DB.StatefulSet.RollingUpdate = ptr.To(intstr.FromInt32(1))
		},
		"spec.db.statefulSet.progressDeadlineSeconds": func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.ProgressDeadlineSeconds = ptr.To[int32](9) },
		"spec.db.statefulSet.storage.size":            func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("0") },
		"spec.db.statefulSet.storage.mountPath":       func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.Storage.MountPath = "data" },
		"spec.db.statefulSet.storage.accessModes":     func(cm *appv1.CloudManager) { cm.Spec.DB.StatefulSet.Storage.AccessModes = corev1.ReadOnlyMany },
		"spec.front.deployment.name":                  func(cm *appv1.CloudManager) { cm.Spec.Front.Deployment.Name = "1a" },
		"metadata.name must be at most 63":            func(cm *appv1.CloudManager) { cm.Name = strings.Repeat("a", 64) },
	} {
		cm := newCloudManager(ns)
		mutate(cm)
		if err := plane.Client.Create(t.Context(), cm, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
	// What is left out has the documented defaults.
	cm := newCloudManager(ns)
	plane.Create(t, cm)
	storage := &cm.Spec.DB.StatefulSet.Storage
	if storage.AccessModes != corev1.ReadWriteOnce || storage.MountPath != "/var/lib/mysql" || !ptr.Deref(storage.Retain, false) {
		t.Errorf("defaults of storage: %+v", storage)
	}
}

// growVolumes grows the volumes of a database to 30Gi, and reads the StatefulSet that is created in place of the live one.
func growVolumes(t *testing.T, cm *appv1.CloudManager, set *appsv1.StatefulSet) {
	t.Helper()
	was := set.UID
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Size = resource.MustParse("30Gi") })
	plane.Until(t, set, func() error {
		if set.DeletionTimestamp == nil {
			return errors.New("the StatefulSet is not replaced")
		}
		return nil
	})
	// As the garbage collector does once the pods are no longer the StatefulSet's.
	plane.Change(t, set, func() { set.Finalizers = nil })
	plane.Until(t, set, func() error {
		size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()
		if set.UID == was || size != "30Gi" {
			return fmt.Errorf("the volumes of the StatefulSet are of %s", size)
		}
		return nil
	})
}

// TestCloudManagerGrowsAtItsNumberOfPods grows the volumes of a database whose number of pods the spec does not decide: the StatefulSet is
// recreated with the number that it had, so that no pod is removed.
func TestCloudManagerGrowsAtItsNumberOfPods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stated     *int32
		autoscaled bool
		want       int32
	}{
		"scaled-by-hand":     {nil, false, 3},
		"autoscaled":         {nil, true, 3},
		"autoscaled-anyway":  {ptr.To[int32](1), true, 3},
		"stated-by-the-spec": {ptr.To[int32](1), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			cm := newCloudManager(ns)
			cm.Spec.DB.StatefulSet.Replicas = c.stated
			bringUpTiers(t, cm)
			set := namedStatefulSet(ns, "db")
			if c.autoscaled {
				plane.Create(t, newAutoscaler(set, "apps/v1", "StatefulSet"))
				m.Idle(t)
			}
			plane.Read(t, set)
			if c.stated == nil || c.autoscaled {
				plane.Change(t, set, func() { set.Spec.Replicas = ptr.To[int32](3) })
			}
			for ordinal := range 3 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("db-%d", ordinal), Labels: set.Spec.Template.Labels}}
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
				pod.Spec.Containers = []corev1.Container{{Name: "db", Image: fixture.Image}}
				plane.Create(t, pod)
			}
			if c.want == 3 {
				setReadyPods(t, set, 3)
			}
			m.Idle(t)
			growVolumes(t, cm, set)
			if got := *set.Spec.Replicas; got != c.want {
				t.Errorf("the StatefulSet is recreated with %d pods, want %d", got, c.want)
			}
			m.Idle(t)
			if plane.Read(t, set); *set.Spec.Replicas != c.want {
				t.Errorf("later it has %d pods, want %d", *set.Spec.Replicas, c.want)
			}
		})
	}
}

// TestCloudManagerGrows lets the volumes grow: the claims first, then the StatefulSet is recreated.
func TestCloudManagerGrows(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	m.Idle(t)
	set := namedStatefulSet(ns, "db")
	plane.Read(t, set)
	was := set.DeepCopy()

	growVolumes(t, cm, set)
	if diff := cmp.Diff(was.Spec.Template, set.Spec.Template); diff != "" {
		t.Errorf("the pods restart (-before +after):\n%s", diff)
	}
	plane.Stands(t, cm, "Ready=False/Progressing", "Stalled=False")
	if cm.Status.Phase != appv1.PhaseReady {
		t.Errorf("the phase is %s while the StatefulSet is replaced", cm.Status.Phase)
	}
	setReadyPods(t, set, 1)
	awaitPhase(t, cm, appv1.PhaseReady, "Ready=True")
}

// TestCloudManagerGrowsWithAdditions lets the volumes grow of a database whose StatefulSet has additions of other managers: the recreated one has them too,
// each of its manager, so that no pod restarts. It stays so, also with the next change of the spec.
func TestCloudManagerGrowsWithAdditions(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Replicas = ptr.To[int32](1)
	bringUpTiers(t, cm)
	m.Idle(t)
	set := namedStatefulSet(ns, "db")
	plane.Read(t, set)
	const restarted = "kubectl.kubernetes.io/restartedAt"
	patch := `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}},"template":{"metadata":{"annotations":{"` + restarted + `":"2026-01-01T00:00:00Z"}},` +
		`"spec":{"tolerations":[{"key":"disk","operator":"Exists"}],"containers":[{"name":"db","tty":true},{"name":"sidecar","image":"` + fixture.Image + `"}]}}}}`
	if err := plane.Client.Patch(t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("kubectl-rollout")); err != nil {
		t.Fatal(err)
	}
	m.Idle(t)
	plane.Read(t, set)
	was := set.DeepCopy()
	if len(was.Spec.Template.Spec.Containers) != 2 || was.Spec.Template.Annotations[restarted] == "" || !was.Spec.Template.Spec.Containers[0].TTY {
		t.Fatalf("the additions do not stay: %+v", was.Spec.Template)
	}

	growVolumes(t, cm, set)
	m.Idle(t)
	plane.Read(t, set)
	if diff := cmp.Diff(was.Spec.Template, set.Spec.Template); diff != "" {
		t.Errorf("the pods restart (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(was.Spec.UpdateStrategy, set.Spec.UpdateStrategy); diff != "" {
		t.Errorf("the strategy (-before +after):\n%s", diff)
	}
	managers := func(of *appsv1.StatefulSet) map[string]string {
		owned := map[string]string{}
		for _, entry := range of.ManagedFields {
			if entry.Subresource == "" {
				owned[entry.Manager+" "+string(entry.Operation)] = entry.FieldsV1.GetRawString()
			}
		}
		return owned
	}
	if diff := cmp.Diff(managers(was), managers(set)); diff != "" {
		t.Errorf("the managers (-before +after):\n%s", diff)
	}

	version := set.ResourceVersion
	setAnnotation(t, cm, "test", "again")
	m.Idle(t)
	if plane.Read(t, set); set.ResourceVersion != version {
		t.Error("the recreated StatefulSet is written again")
	}
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Image = "mariadb:11" })
	plane.Until(t, set, func() error { return diffOf("mariadb:11", set.Spec.Template.Spec.Containers[0].Image) })
	if got := set.Spec.Template; got.Annotations[restarted] == "" || len(got.Spec.Containers) != 2 || len(got.Spec.Tolerations) != 1 {
		t.Errorf("the next change of the spec removes additions: %+v", got)
	}
}

// TestCloudManagerPassword goes through the ways in which a password comes, and what may be changed when.
func TestCloudManagerPassword(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	secret, mine := namedSecret(ns, "dbauth"), namedSecret(ns, "mine")
	password := func(want string) {
		t.Helper()
		plane.Until(t, secret, func() error { return diffOf(want, string(secret.Data["password"])) })
	}
	cm := newCloudManager(ns)
	cm.Spec.DB.RootPass = ""
	cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "mine", Key: "root"}
	set := func(rootPass string, ref *appv1.SecretKeyRef) {
		t.Helper()
		plane.Read(t, cm)
		plane.Change(t, cm, func() { cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = rootPass, ref })
	}

	// A Secret that is missing, or lacks the key, is looked for until it is there.
	plane.Create(t, cm)
	plane.Stands(t, cm, "Ready=False/SecretNotFound", "Stalled=False", "DatabaseReady=False/SecretNotFound")
	plane.Absent(t, namedStatefulSet(ns, "db"))
	mine.Data = map[string][]byte{"other": []byte("x")}
	plane.Create(t, mine)
	plane.Until(t, cm, func() error {
		if harness.Message(cm, "Ready") == "" || !strings.Contains(harness.Message(cm, "Ready"), `"root"`) {
			return errors.New(harness.Message(cm, "Ready"))
		}
		return nil
	})
	plane.Change(t, mine, func() { mine.Data["root"] = []byte("first") })
	plane.Stands(t, cm, "Ready=False/Progressing", "PasswordInClearText=False/PasswordInSecret")
	password("first")

	// There is no claim yet: any other will do.
	set("second", nil)
	plane.Stands(t, cm, "PasswordInClearText=True/PasswordInSpec")
	password("second")

	// With a claim only the same will do.
	claim := namedClaim(ns, "datadir-db-0")
	plane.Create(t, claim)
	set("third", nil)
	plane.Stands(t, cm, "Stalled=True/PasswordMismatch")
	harness.Says(t, cm, "Stalled", "spec.db.rootPass", "Secret dbauth", "only when it initializes", "datadir-db-0")
	if text := string(marshalJSON(t, cm.Status)); strings.Contains(text, "second") || strings.Contains(text, "third") {
		t.Errorf("the status has a password: %s", text)
	}
	password("second")
	plane.Change(t, mine, func() { mine.Data["root"] = []byte("second") })
	set("", &appv1.SecretKeyRef{Name: "mine", Key: "root"})
	plane.Stands(t, cm, "Stalled=False", "PasswordInClearText=False")
	set("", nil)
	plane.Stands(t, cm, "Stalled=False")
	password("second")

	// Without the Secret nobody knows it any more.
	plane.Delete(t, secret)
	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Image = "mariadb:10.6" })
	plane.Stands(t, cm, "Stalled=True/PasswordLost")
	harness.Says(t, cm, "Stalled", "Secret dbauth", "rootPassSecretRef", "datadir-db-0")
	plane.Absent(t, secret)
	plane.Delete(t, claim)
	plane.Read(t, claim)
	plane.Change(t, claim, func() { claim.Finalizers = nil }) // As its controller does once no pod uses it.
	plane.Stands(t, cm, "Stalled=False")
	plane.Until(t, secret, func() error {
		if made := string(secret.Data["password"]); len(made) < 20 || made == "second" {
			return fmt.Errorf("the password that was made has %d characters", len(made))
		}
		return nil
	})
}

// hostOf is where a tier is told that the database is.
func hostOf(d *appsv1.Deployment) string {
	for _, env := range d.Spec.Template.Spec.Containers[0].Env {
		if env.Name == "DB_HOST" {
			return env.Value
		}
	}
	return ""
}

// volumeChanges are changes of what a volume has for ever, each with words for the schema and the controller to say.
var volumeChanges = []struct {
	change        func(*appv1.Storage)
	schema, later string
}{
	{func(s *appv1.Storage) { s.Class = ptr.To("fast") }, "spec.db.statefulSet.storage.class: Invalid value", `spec.db.statefulSet.storage.class cannot be changed from "local-path" to "fast"`},
	{func(s *appv1.Storage) { s.Class = nil }, "spec.db.statefulSet.storage.class: Invalid value", "to the cluster's default"},
	{func(s *appv1.Storage) { s.AccessModes = corev1.ReadWriteMany }, "spec.db.statefulSet.storage.accessModes: Invalid value", "spec.db.statefulSet.storage.accessModes"},
}

// TestCloudManagerVolumesStay changes what a volume has for ever. The schema refuses that, unless the database gets another
// name; and the controller does where that name is given up again.
func TestCloudManagerVolumesStay(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	m.Idle(t)
	set := namedStatefulSet(ns, "db")
	was := readWhole(t, set)
	for _, c := range volumeChanges {
		plane.Read(t, cm)
		before := cm.DeepCopy()
		c.change(&cm.Spec.DB.StatefulSet.Storage)
		err := plane.Client.Patch(t.Context(), cm, client.MergeFrom(before))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.schema) || !strings.Contains(err.Error(), "restore the previous value") {
			t.Errorf("got %v, want %s", err, c.schema)
		}
		// By way of another name, and back again before that one is up.
		before.DeepCopyInto(cm)
		plane.Change(t, cm, func() {
			c.change(&cm.Spec.DB.StatefulSet.Storage)
			cm.Spec.DB.StatefulSet.Name = "another"
		})
		plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "db" })
		plane.Stands(t, cm, "Stalled=True/ImmutableField", "DatabaseReady=False/ImmutableField")
		harness.Says(t, cm, "Stalled", c.later)
		checkUntouched(t, set, was)
		plane.Change(t, cm, func() {
			cm.Spec.DB.StatefulSet.Storage = before.Spec.DB.StatefulSet.Storage
			cm.Spec.DB.StatefulSet.Name = "another"
		})
		plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "db" })
		plane.Stands(t, cm, "Stalled=False")
	}
}
