package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// strong is a password that was made: at least 128 bits, of characters that need no quotes in any shell, URL or client.
var strong = regexp.MustCompile(`^[A-Za-z0-9]{26,}$`)

// passwordOf returns what a database's Secret has.
func passwordOf(t testing.TB, namespace string) string {
	t.Helper()
	secret := namedSecret(namespace, "dbauth")
	plane.Read(t, secret)
	if user := string(secret.Data["username"]); user != "root" || len(secret.Data) != 2 {
		t.Errorf("the Secret has the user %q and %d keys", user, len(secret.Data))
	}
	return string(secret.Data["password"])
}

// TestCloudManagerSecrecy looks for the password in everything but the Secret, over a life that gives every occasion to
// mention it: made, refused, repaired, renamed, and refused by the API server in words that repeat it.
func TestCloudManagerSecrecy(t *testing.T) {
	t.Parallel()
	const stated = "Correct-Horse_7"
	for name, c := range map[string]struct {
		state  func(*appv1.CloudManager)
		except []string
	}{
		"made":     {func(cm *appv1.CloudManager) { cm.Spec.DB.RootPass = "" }, nil},
		"rootPass": {func(cm *appv1.CloudManager) { cm.Spec.DB.RootPass = stated }, []string{"CloudManager/cm", "Secret/mine"}},
		"rootPassSecretRef": {func(cm *appv1.CloudManager) {
			cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = "", &appv1.SecretKeyRef{Name: "mine"}
		}, []string{"Secret/mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			l := &harness.Log{}
			refused := false
			m := plane.Start(t, ns, harness.WithLog(l), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
				if q.Resource == "secrets" && q.Verb == "patch" && !refused {
					refused = true
					return harness.Answer(apierrors.NewForbidden(corev1.Resource("secrets"), q.Name, errors.New("the value "+stated+" is not liked"))), nil
				}
				return send()
			}), harness.WithForbidden())
			mine := namedSecret(ns, "mine")
			mine.Data = map[string][]byte{"password": []byte(stated)}
			plane.Create(t, mine)
			cm := newCloudManager(ns)
			c.state(cm)
			bringUpTiers(t, cm)
			password := passwordOf(t, ns)
			if made := name == "made"; made && !strong.MatchString(password) || !made && password != stated {
				t.Errorf("the password is %q", password)
			}

			plane.Create(t, namedClaim(ns, "datadir-db-0"))
			set := namedStatefulSet(ns, "db")
			plane.Read(t, set)
			plane.Change(t, set, func() { set.Spec.Template.Spec.Containers[0].Image = "theirs" })
			plane.Until(t, set, func() error { return diffOf("mariadb:10.3", set.Spec.Template.Spec.Containers[0].Image) })
			restate := func(rootPass string) {
				t.Helper()
				plane.Read(t, cm)
				plane.Change(t, cm, func() { cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = rootPass, nil })
			}
			restate("another-one")
			plane.Stands(t, cm, "Stalled=True/PasswordMismatch")
			plane.Undisclosed(t, ns, password, l, append(c.except, "Secret/dbauth")...)
			if text := string(marshalJSON(t, cm.Status)) + strings.Join(listEvents(t, cm), ""); strings.Contains(text, "another-one") || strings.Contains(text, password) {
				t.Errorf("the status or an event has a password: %s", text)
			}
			restate("")
			plane.Stands(t, cm, "Stalled=False", "PasswordInClearText=False/PasswordInSecret")
			plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Name = "data" })
			awaitPhase(t, cm, appv1.PhaseDatabase)
			m.Idle(t)
			plane.Undisclosed(t, ns, password, l, append(c.except, "Secret/dbauth")...)
			if passwordOf(t, ns) != password {
				t.Error("the password has changed")
			}
		})
	}
}

// leaveRetained deletes a CloudManager, and from then on, as the garbage collector does, all that it controls: until the
// manager has seen the deletion, it recreates what goes.
func leaveRetained(t testing.TB, cm *appv1.CloudManager) {
	t.Helper()
	dead := cm.DeepCopy()
	plane.Delete(t, cm)
	plane.Gone(t, cm.DeepCopy())
	harness.Eventually(t, func() error {
		if n := collectChildren(t.Context(), dead); n != 0 {
			return fmt.Errorf("%d objects of %s are left", n, dead.Name)
		}
		return nil
	})
	repeatUntilEnd(t, func(ctx context.Context) { collectChildren(ctx, dead) })
}

// collectChildren deletes what an owner controls, and returns how many objects that were. What fails is tried again in the next round.
func collectChildren(ctx context.Context, owner client.Object) int {
	found := 0
	for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.SecretList{},
		&autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.IngressList{},
	} {
		_ = plane.Client.List(ctx, list, client.InNamespace(owner.GetNamespace()))
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if obj, ok := item.(client.Object); ok && metav1.IsControlledBy(obj, owner) {
				found++
				_ = plane.Client.Delete(ctx, obj)
			}
			return nil
		})
	}
	return found
}

// TestCloudManagerKeepsPassword deletes a CloudManager and makes it again, with claims and without, and with the Secret
// lost: a database that may have data never gets another password.
func TestCloudManagerKeepsPassword(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	fresh := func() *appv1.CloudManager {
		cm := newCloudManager(ns)
		cm.Spec.DB.RootPass = ""
		return cm
	}
	cm := fresh()
	bringUpTiers(t, cm)
	password := passwordOf(t, ns)

	// Nothing of it has been used yet, and it is kept all the same.
	m.Idle(t)
	leaveRetained(t, cm)
	cm = fresh()
	bringUpTiers(t, cm)
	if is := passwordOf(t, ns); is != password {
		t.Errorf("without a claim the password has become %q", is)
	}

	claim := namedClaim(ns, "datadir-db-0")
	plane.Create(t, claim)
	m.Idle(t)
	leaveRetained(t, cm)
	cm = fresh()
	bringUpTiers(t, cm)
	if is := passwordOf(t, ns); is != password {
		t.Errorf("with a claim the password has become %q", is)
	}

	// Without the Secret nothing at all is made: not the database, and not what comes after it.
	m.Idle(t)
	leaveRetained(t, cm)
	plane.Delete(t, namedSecret(ns, "dbauth"))
	m.Requests.Reset()
	cm = fresh()
	plane.Create(t, cm)
	plane.Stands(t, cm, "Ready=False/PasswordLost", "Stalled=True/PasswordLost", "DatabaseReady=False/PasswordLost", "IdentityReady=False/DependencyNotReady")
	harness.Says(t, cm, "Stalled", "datadir-db-0", "dbauth", "Restore the Secret", "spec.db.rootPassSecretRef")
	m.Idle(t)
	for write, n := range m.Requests.Writes() {
		if write != "patch cloudmanagers/status" {
			t.Errorf("%d times %s without the password", n, write)
		}
	}
	// Anyone who knows the password states it.
	plane.Change(t, cm, func() { cm.Spec.DB.RootPass = password })
	awaitPhase(t, cm, appv1.PhaseDatabase, "Stalled=False", "PasswordInClearText=True")
	if is := passwordOf(t, ns); is != password {
		t.Errorf("the password that was stated has become %q", is)
	}
}

// TestCloudManagerPasswordStated takes the password from the spec to a Secret and back, with a claim there: that is the same
// password. Another is refused whichever way it comes, and nothing of the database is written for it.
func TestCloudManagerPasswordStated(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	bringUpTiers(t, cm)
	plane.Create(t, namedClaim(ns, "datadir-db-0"))
	for name, value := range map[string]string{"same": "123456", "other": "1234567"} {
		mine := namedSecret(ns, name)
		mine.Data = map[string][]byte{"password": []byte(value), "root": []byte(value)}
		plane.Create(t, mine)
	}
	set, secret := namedStatefulSet(ns, "db"), namedSecret(ns, "dbauth")
	m.Idle(t)
	was, kept := readWhole(t, set), readWhole(t, secret)
	for _, c := range []struct {
		rootPass   string
		ref        *appv1.SecretKeyRef
		conditions []string
		words      string
	}{
		{"", &appv1.SecretKeyRef{Name: "same"}, []string{"Stalled=False", "Ready=True", "PasswordInClearText=False/PasswordInSecret"}, ""},
		{"", &appv1.SecretKeyRef{Name: "same", Key: "root"}, []string{"Stalled=False", "Ready=True"}, ""},
		{"", nil, []string{"Stalled=False", "Ready=True", "PasswordInClearText=False"}, ""},
		{"123456", nil, []string{"Stalled=False", "Ready=True", "PasswordInClearText=True/PasswordInSpec"}, ""},
		{"12345", nil, []string{"Stalled=True/PasswordMismatch", "DatabaseReady=False/PasswordMismatch"}, "spec.db.rootPass differs"},
		{"", &appv1.SecretKeyRef{Name: "other"}, []string{"Stalled=True/PasswordMismatch"}, "The password in the Secret of spec.db.rootPassSecretRef differs"},
		{"", &appv1.SecretKeyRef{Name: "none"}, []string{"Stalled=False", "Ready=False/SecretNotFound"}, ""},
		{"", &appv1.SecretKeyRef{Name: "same", Key: "none"}, []string{"Stalled=False", "Ready=False/SecretNotFound"}, ""},
	} {
		plane.Read(t, cm)
		plane.Change(t, cm, func() { cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = c.rootPass, c.ref })
		plane.Stands(t, cm, c.conditions...)
		if c.words != "" {
			harness.Says(t, cm, "Stalled", c.words)
		}
		checkUntouched(t, set, was)
		checkUntouched(t, secret, kept)
	}
}

// awaitRetention waits until the policy of the StatefulSet db and the owner of its Secret are those of a database whose volumes are retained, or not.
func awaitRetention(t *testing.T, cm *appv1.CloudManager, retain bool) {
	t.Helper()
	set, secret := namedStatefulSet(cm.Namespace, "db"), namedSecret(cm.Namespace, "dbauth")
	policy := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if !retain {
		policy = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	plane.Until(t, set, func() error { return diffOf(policy, set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted) })
	plane.Until(t, secret, func() error {
		_, marked := secret.Annotations[appv1.AnnotationRetainedFor]
		if owned := metav1.IsControlledBy(secret, cm); owned == retain || marked != retain || owned && len(secret.OwnerReferences) != 1 {
			return fmt.Errorf("the Secret with retain %v: %+v", retain, secret.ObjectMeta)
		}
		return nil
	})
}

// TestCloudManagerRetainsWithRefusedPassword turns the retention of volumes and password on and off while the password is refused: the Secret follows together with the
// StatefulSet, and keeps its password.
func TestCloudManagerRetainsWithRefusedPassword(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.RootPass, cm.Spec.DB.StatefulSet.Storage.Retain = "", ptr.To(false)
	bringUpTiers(t, cm)
	password := passwordOf(t, ns)
	for _, retain := range []bool{true, false, true} {
		plane.Read(t, cm)
		plane.Change(t, cm, func() {
			cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "missing"}
			cm.Spec.DB.StatefulSet.Storage.Retain = &retain
		})
		awaitRetention(t, cm, retain)
		plane.Stands(t, cm, "DatabaseReady=False/SecretNotFound")
		if passwordOf(t, ns) != password {
			t.Errorf("the password has changed with retain %t", retain)
		}
		m.Idle(t)
		m.Requests.Reset()
		m.Idle(t)
		if writes := m.Requests.Writes(); len(writes) > 0 {
			t.Errorf("it does not come to rest with retain %t: %v", retain, writes)
		}
	}
}

// TestCloudManagerRetain turns the retention of volumes and password off and on: the StatefulSet's policy and the Secret's
// owner follow, and no pod and no password is touched.
func TestCloudManagerRetain(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.RootPass = ""
	bringUpTiers(t, cm)
	password := passwordOf(t, ns)
	set := namedStatefulSet(ns, "db")
	plane.Read(t, set)
	template := set.Spec.Template
	for i, retain := range []bool{false, true, false} {
		plane.Read(t, cm)
		plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Storage.Retain = &retain })
		awaitRetention(t, cm, retain)
		plane.Read(t, set)
		setReadyPods(t, set, 1)
		awaitPhase(t, cm, appv1.PhaseReady, "Ready=True", "Stalled=False")
		if passwordOf(t, ns) != password {
			t.Errorf("%d: the password has changed", i)
		}
		if err := diffOf(template, set.Spec.Template); err != nil {
			t.Errorf("%d: the pods restart: %v", i, err)
		}
		m.Idle(t)
		m.Requests.Reset()
		m.Idle(t)
		if writes := m.Requests.Writes(); len(writes) > 0 {
			t.Errorf("%d: it does not come to rest: %v", i, writes)
		}
	}
	if whenScaled := set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled; whenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		t.Errorf("volumes of pods that are scaled away: %s", whenScaled)
	}
	if size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(resource.MustParse("20Gi")) != 0 {
		t.Errorf("the volumes have %s", size.String())
	}
}
