package database

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// TestPasswordChoice checks each way to choose a password: by what the spec states and what the Secret has.
func TestPasswordChoice(t *testing.T) {
	for name, c := range map[string]struct {
		password
		empty        bool // It takes empty volumes.
		chosen, says string
	}{
		"neither":               {password{}, true, "", appv1.ReasonPasswordLost},
		"stated":                {password{stated: "a"}, false, "a", ""},
		"kept":                  {password{kept: "a"}, false, "a", ""},
		"both the same":         {password{stated: "a", kept: "a"}, false, "a", ""},
		"another one is stated": {password{stated: "b", kept: "a"}, true, "b", appv1.ReasonPasswordMismatch},
	} {
		if got := c.needsEmptyVolumes(); got != c.empty {
			t.Errorf("%s: it takes empty volumes: %t, want %t", name, got, c.empty)
		}
		first, second := c.choosePassword(), c.choosePassword()
		switch {
		case c.chosen != "" && (first != c.chosen || second != c.chosen):
			t.Errorf("%s: %s is chosen, want %s", name, first, c.chosen)
		case c.chosen == "" && (first == second || len(first) < 20):
			t.Errorf("%s: the passwords %q and %q can be guessed", name, first, second)
		}
		if !c.empty {
			continue
		}
		reason, message := reconciler.ReasonAndMessageOf(c.passwordRefusal("spec.db.rootPass", "dbauth", "datadir-db-0"))
		if reason != c.says || !strings.Contains(message, "dbauth") || !strings.Contains(message, "datadir-db-0") {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}

// withObjects returns a database whose cache and API server have the same objects.
func withObjects(t *testing.T, cm *appv1.CloudManager, state view, objects ...client.Object) *testDatabase {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, workload.IndexInstance, workload.InstanceKeys).Build()
	in := &workload.Input{
		Owner: cm, Kind: resource.KindCloudManager, Name: cm.Spec.DB.StatefulSet.Name, Tier: resource.TierDatabase,
		Spec: resource.TierSpec(cm, resource.TierDatabase),
	}
	return &testDatabase{&database{r: &workload.Reconciler{Client: cluster, Live: cluster}, in: in, cm: cm}, state}
}

// testDatabase is a database with what was observed of it.
type testDatabase struct {
	*database
	seen view
}

// TestStatedPassword reads passwords with which a container can start, and others.
func TestStatedPassword(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "mine", Key: "root"}
	for value, want := range map[string]string{
		"good": "", strings.Repeat("a", maxPassword): "", "": "no value for the key", "a\x00b": "no container starts", strings.Repeat("a", maxPassword+1): "no container starts",
	} {
		db := withObjects(t, cm, liveDatabase(cm, w), secretOf("mine", map[string]string{"root": value}))
		got, err := db.statedPassword(t.Context())
		reason, message := reconciler.ReasonAndMessageOf(cmp.Or(err, errors.New("")))
		if want == "" && (err != nil || got != value) || want != "" && (got != "" || reason != appv1.ReasonSecretNotFound || !strings.Contains(message, want)) {
			t.Errorf("%d bytes, %.8q: %s %s", len(value), value, reason, message)
		}
		if len(message) > 1000 || strings.Contains(message, "a\x00b") {
			t.Errorf("the message has the password: %.100s", message)
		}
	}
}

// secretOf returns a Secret with data.
func secretOf(name string, data map[string]string, owners ...metav1.OwnerReference) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// TestSecretChild checks the Secret that is applied, and whether pods can start with the one that is there. A Secret that pods can start with keeps its values while
// the password is refused.
func TestSecretChild(t *testing.T) {
	both := func(password string) map[string]string {
		return map[string]string{resource.SecretUsername: "root", resource.SecretPassword: password}
	}
	kept := func(password string) *corev1.Secret {
		secret := secretOf("dbauth", both(password))
		secret.Annotations = map[string]string{appv1.AnnotationRetainedFor: "CloudManager.cm"}
		return secret
	}
	_, w := databaseOf(t, "1Gi")
	claim := claimOf(w, 0, "1Gi")
	claim.Namespace = "default"
	claimFor := func(owner string) client.Object {
		c := claim.DeepCopy()
		c.Annotations = map[string]string{appv1.AnnotationRetainedFor: owner}
		return c
	}
	secretFor := func(owner, password string) *corev1.Secret {
		secret := kept(password)
		secret.Annotations[appv1.AnnotationRetainedFor] = owner
		return secret
	}
	second := claimOf(w, 1, "1Gi")
	second.Namespace = "default"
	for name, c := range map[string]struct {
		adopt    bool
		says     string // In the message of the error.
		stated   string
		ref      *appv1.SecretKeyRef
		live     *corev1.Secret
		others   []client.Object
		retain   *bool
		password string // Empty where it is to be a new one.
		usable   bool
		retained bool
		reason   string
	}{
		"new":                                   {retained: true},
		"new, not retained":                     {retain: ptr.To(false)},
		"stated":                                {stated: "a", password: "a", retained: true},
		"kept":                                  {live: kept("a"), password: "a", usable: true, retained: true},
		"kept, of another owner":                {live: secretOf("dbauth", both("a")), password: "a", retained: true},
		"kept, without a user":                  {live: func() *corev1.Secret { s := kept("a"); delete(s.Data, resource.SecretUsername); return s }(), password: "a", retained: true},
		"restated on empty volumes":             {stated: "b", live: kept("a"), password: "b", retained: true},
		"restated on volumes":                   {stated: "b", live: kept("a"), others: []client.Object{&claim}, password: "a", usable: true, retained: true, reason: appv1.ReasonPasswordMismatch},
		"restated on volumes, not retained":     {stated: "b", live: kept("a"), others: []client.Object{&claim}, retain: ptr.To(false), password: "a", usable: true, reason: appv1.ReasonPasswordMismatch},
		"lost":                                  {others: []client.Object{&claim}, reason: appv1.ReasonPasswordLost},
		"restored by the spec":                  {stated: "a", others: []client.Object{&claim}, password: "a", retained: true},
		"named":                                 {ref: &appv1.SecretKeyRef{Name: "mine"}, others: []client.Object{secretOf("mine", map[string]string{"password": "a"})}, password: "a", retained: true},
		"named with a key":                      {ref: &appv1.SecretKeyRef{Name: "mine", Key: "pw"}, others: []client.Object{secretOf("mine", map[string]string{"pw": "a"})}, password: "a", retained: true},
		"named, and not there":                  {ref: &appv1.SecretKeyRef{Name: "mine"}, live: kept("a"), password: "a", usable: true, retained: true, reason: appv1.ReasonSecretNotFound},
		"named, and not there, of another":      {ref: &appv1.SecretKeyRef{Name: "mine"}, live: secretOf("dbauth", both("a")), reason: appv1.ReasonSecretNotFound},
		"named, without the key":                {ref: &appv1.SecretKeyRef{Name: "mine", Key: "pw"}, others: []client.Object{secretOf("mine", both("a"))}, reason: appv1.ReasonSecretNotFound},
		"named, another than kept, on claims":   {ref: &appv1.SecretKeyRef{Name: "mine"}, live: kept("a"), others: []client.Object{secretOf("mine", both("b")), &claim}, password: "a", usable: true, retained: true, reason: appv1.ReasonPasswordMismatch},
		"another Secret's password, on volumes": {stated: "b", live: secretFor("CloudManager.other", "a"), others: []client.Object{&claim}, reason: appv1.ReasonResourceExists, says: "Secret dbauth exists and is retained for"},
		"another Secret's password, on others' volumes":  {stated: "b", live: secretFor("CloudManager.other", "a"), others: []client.Object{claimFor("CloudManager.other")}, reason: appv1.ReasonResourceExists, says: "Secret dbauth exists"},
		"another Secret's without a password":            {live: secretFor("CloudManager.other", ""), others: []client.Object{&claim}, reason: appv1.ReasonResourceExists, says: "Secret dbauth exists"},
		"others' volumes":                                {others: []client.Object{claimFor("CloudManager.other")}, reason: appv1.ReasonResourceExists, says: "PersistentVolumeClaim datadir-db-0 exists and is retained for"},
		"volumes by hand":                                {others: []client.Object{claimFor("")}, reason: appv1.ReasonResourceExists, says: "PersistentVolumeClaim datadir-db-0 exists"},
		"others' volumes, and another password":          {stated: "b", live: kept("a"), others: []client.Object{claimFor("CloudManager.other")}, password: "a", usable: true, retained: true, reason: appv1.ReasonResourceExists, says: "PersistentVolumeClaim datadir-db-0 exists"},
		"others' volumes next to ours":                   {others: []client.Object{claimFor("CloudManager.other"), &second}, reason: appv1.ReasonPasswordLost, says: "datadir-db-1"},
		"volumes by hand, to adopt":                      {adopt: true, others: []client.Object{claimFor("")}, reason: appv1.ReasonPasswordLost, says: "datadir-db-0"},
		"others' volumes, to adopt":                      {adopt: true, others: []client.Object{claimFor("CloudManager.other")}, reason: appv1.ReasonResourceExists, says: "datadir-db-0"},
		"a Secret by hand, to adopt, on volumes of ours": {adopt: true, stated: "b", live: secretOf("dbauth", both("a")), others: []client.Object{&claim}, reason: appv1.ReasonPasswordMismatch},
	} {
		cm, w := databaseOf(t, "1Gi", func(s *appv1.Storage) { s.Retain = c.retain })
		if c.adopt {
			cm.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
		}
		cm.Spec.DB.RootPass, cm.Spec.DB.RootPassSecretRef = c.stated, c.ref
		objects := c.others
		if c.live != nil {
			objects = append(objects, c.live)
		}
		db := withObjects(t, cm, liveDatabase(cm, w), objects...)
		child, usable, err := db.secretChild(t.Context(), db.seen, w)
		reason, message := "", ""
		if err != nil {
			reason, message = reconciler.ReasonAndMessageOf(err)
		}
		if reason != c.reason || !strings.Contains(message, c.says) || usable != c.usable || err != nil && (child.Desired != nil) != c.usable {
			t.Errorf("%s: usable %t, %v; want %t, %q", name, usable, err, c.usable, c.reason)
		}
		if child.Desired == nil {
			continue
		}
		secret, ok := child.Desired.(*corev1.Secret)
		if !ok || secret.Name != "dbauth" || string(secret.Data[resource.SecretUsername]) != "root" {
			t.Fatalf("%s: the child is %T %v", name, child.Desired, child.Desired.GetName())
		}
		password := string(secret.Data[resource.SecretPassword])
		if c.password != "" && password != c.password || len(password) == 0 {
			t.Errorf("%s: the password is %q, want %q", name, password, c.password)
		}
		if child.Retained != c.retained || (len(secret.OwnerReferences) == 0) != c.retained || (child.Live != nil) != (c.live != nil) {
			t.Errorf("%s: retained %t, owners %v, live %v", name, child.Retained, secret.OwnerReferences, child.Live)
		}
	}
}

// TestReadSecret checks that an answer which is none is never taken for a Secret that is missing: a new password would be made.
func TestReadSecret(t *testing.T) {
	cm, w := databaseOf(t, "1Gi")
	key := client.ObjectKey{Namespace: "default", Name: "dbauth"}
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err          error
		reason, says string
	}{
		"there":         {},
		"missing":       {err: apierrors.NewNotFound(secrets, "dbauth")},
		"not permitted": {err: apierrors.NewForbidden(secrets, "dbauth", errors.New("no role")), reason: appv1.ReasonForbidden, says: "Secret dbauth cannot be read"},
		"no answer":     {err: errors.New("connection refused: hunter2"), reason: appv1.ReasonApplyFailed, says: "Cannot read Secret dbauth"},
	} {
		db := withObjects(t, cm, liveDatabase(cm, w), secretOf("dbauth", nil))
		withWatch, ok := db.r.Client.(client.WithWatch)
		if !ok {
			t.Fatalf("%T cannot be intercepted", db.r.Client)
		}
		db.r.Live = interceptor.NewClient(withWatch, interceptor.Funcs{
			Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if c.err != nil {
					return c.err
				}
				return cl.Get(ctx, key, obj, opts...)
			},
		})
		secret, err := readSecret(t.Context(), db.r.Live, key)
		reason, message := "", ""
		if err != nil {
			reason, message = reconciler.ReasonAndMessageOf(err)
		}
		if reason != c.reason || !strings.Contains(message, c.says) || strings.Contains(message, "hunter2") {
			t.Errorf("%s: %s: %s, want %s: %s", name, reason, message, c.reason, c.says)
		}
		if (secret != nil) != (c.err == nil) {
			t.Errorf("%s: the Secret is %v", name, secret)
		}
		if c.reason == "" {
			continue
		}
		if child, usable, err := db.secretChild(t.Context(), db.seen, w); err == nil || usable || child.Desired != nil {
			t.Errorf("%s: a Secret is made: %v", name, err)
		}
	}
}

// TestPasswordField checks where a message tells a user to look for the password.
func TestPasswordField(t *testing.T) {
	cm := &appv1.CloudManager{}
	if got := passwordField(cm); got != "spec.db.rootPass" {
		t.Errorf("stated: %s", got)
	}
	cm.Spec.DB.RootPassSecretRef = &appv1.SecretKeyRef{Name: "a"}
	if got := passwordField(cm); !strings.Contains(got, "rootPassSecretRef") {
		t.Errorf("named: %s", got)
	}
}

// TestPasswordCondition checks what the status says of the password, and for which spec the Secret was checked.
func TestPasswordCondition(t *testing.T) {
	for name, c := range map[string]struct {
		stated     string
		before     int64
		checked    bool
		want       metav1.ConditionStatus
		generation int64
	}{
		"in a Secret, never checked": {want: metav1.ConditionFalse},
		"in a Secret, checked now":   {checked: true, want: metav1.ConditionFalse, generation: 3},
		"checked for an earlier one": {before: 2, want: metav1.ConditionFalse, generation: 2},
		"checked again":              {before: 2, checked: true, want: metav1.ConditionFalse, generation: 3},
		"in the spec":                {stated: "hunter2", checked: true, want: metav1.ConditionTrue, generation: 3},
	} {
		cm, _ := databaseOf(t, "1Gi")
		cm.Spec.DB.RootPass = c.stated
		if c.before > 0 {
			meta.SetStatusCondition(&cm.Status.Conditions, metav1.Condition{
				Type: appv1.ConditionPasswordInClearText, Status: metav1.ConditionFalse, Reason: "a", ObservedGeneration: c.before,
			})
		}
		got := PasswordCondition(cm, "db", c.checked)
		if got.Status != c.want || got.ObservedGeneration != c.generation || strings.Contains(got.Message, "hunter2") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
