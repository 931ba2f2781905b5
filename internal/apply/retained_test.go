package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/secrecy"
)

// self is the owner of request, as an annotation of what is retained for it has it.
const self = "App.web"

func wantedSecret() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "auth", Namespace: "default", Annotations: map[string]string{appv1.AnnotationRetainedFor: self}},
		Data:       map[string][]byte{"password": []byte("123456")},
	}
}

// keptSecret is what lives once wantedSecret has been applied as retained.
func keptSecret(t testing.TB) *corev1.Secret {
	t.Helper()
	live := wantedSecret()
	sum, err := hashObject(live, owner)
	if err != nil {
		t.Fatal(err)
	}
	live.UID, live.ResourceVersion = "live-uid", "7"
	live.Annotations[appv1.AnnotationLastAppliedHash] = sum
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "", `{"f:data":{"f:password":{}}}`)}
	return live
}

// TestPlanRetained decides whose an object is that may outlive its owner.
func TestPlanRetained(t *testing.T) {
	type result struct {
		action            Action
		takeover, claimed bool
		problem           outcome
	}
	exists := func(message string) result {
		return result{problem: outcome{"stalled", appv1.ReasonResourceExists, "Secret auth exists and " + message}}
	}
	const another = "is retained for App.other; the operator does not modify it. Rename one of them, or annotate the Secret with app.huolala.cn/retained-for: App.web to hand it over"
	controller := func(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
	}
	for name, c := range map[string]struct {
		change func(live, wanted *corev1.Secret)
		owned  bool // Retention is off.
		adopt  bool
		want   result
	}{
		"settled": {want: result{action: Unchanged}},
		"the owner was made again": {
			change: func(live, _ *corev1.Secret) { live.Annotations[appv1.AnnotationLastAppliedHash] = "of another UID" },
			want:   result{action: Configured},
		},
		"restored from a backup": {
			change: func(live, _ *corev1.Secret) { live.ManagedFields = nil },
			want:   result{action: Configured, takeover: true},
		},
		"the mark was removed": {
			change: func(live, _ *corev1.Secret) { delete(live.Annotations, appv1.AnnotationRetainedFor) },
			want:   result{action: Repaired},
		},
		"the mark was removed, and the owner was made again": {
			change: func(live, _ *corev1.Secret) {
				live.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: "of another UID"}
			},
			want: exists(`was not created by this resource; the operator does not modify it. Rename or delete one of them, or run "kubectl annotate app/web -n default app.huolala.cn/adopt=without-restart" to adopt it`),
		},
		"the mark was removed, and the owner was made again, adopt": {
			change: func(live, _ *corev1.Secret) {
				live.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: "of another UID"}
			},
			adopt: true,
			want:  result{action: Configured, takeover: true, claimed: true},
		},
		"handed to another": {
			change: func(live, _ *corev1.Secret) { live.Annotations[appv1.AnnotationRetainedFor] = "App.other" },
			want:   exists(another),
		},
		"handed to another, adopt": {
			change: func(live, _ *corev1.Secret) { live.Annotations[appv1.AnnotationRetainedFor] = "App.other" },
			adopt:  true,
			want:   exists(another),
		},
		"another controls it": {
			change: func(live, _ *corev1.Secret) { live.OwnerReferences = controller("v1", "ConfigMap", "x", "x") },
			want:   exists("is owned by ConfigMap x; the operator does not modify it. Rename or delete one of them"),
		},
		"a StatefulSet controls it, which is no claim": {
			change: func(live, _ *corev1.Secret) { live.OwnerReferences = controller("apps/v1", "StatefulSet", "x", "x") },
			want:   exists("is owned by StatefulSet x; the operator does not modify it. Rename or delete one of them"),
		},
		"the owner controls it, and would take it along": {
			change: func(live, _ *corev1.Secret) { live.OwnerReferences = controlledBy(owner) },
			want:   result{action: Configured, takeover: true},
		},
		"an earlier self controls it": {
			change: func(live, _ *corev1.Secret) {
				live.OwnerReferences = controller("app.huolala.cn/v1", "App", "web", "0")
			},
			want: result{problem: outcome{"waiting", appv1.ReasonProgressing,
				"Waiting for the garbage collector to remove Secret auth of an earlier App with this name before recreating it"}},
		},
		"no longer retained": {
			change: func(_, wanted *corev1.Secret) { wanted.Annotations, wanted.OwnerReferences = nil, controlledBy(owner) },
			owned:  true,
			want:   result{action: Configured, claimed: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, wanted := keptSecret(t), wantedSecret()
			if c.change != nil {
				c.change(live, wanted)
			}
			req := request(nil)
			req.Policy.Adopt = c.adopt
			req.Objects = []Object{{Desired: wanted, Live: live, Retained: !c.owned}}
			p, err := planner(t).planLocally(req, &req.Objects[0])
			got := result{action: p.action, takeover: p.claim.takesOver(), claimed: p.claim.isReturned()}
			if err != nil {
				got = result{problem: outcomeOf(t, err)}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{}, outcome{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanOfMistakes checks that nothing is planned that a builder has got wrong and that would cost data.
func TestPlanOfMistakes(t *testing.T) {
	unmarked, marked, owned := wantedSecret(), wantedSecret(), wantedSecret()
	unmarked.Annotations = nil
	marked.Annotations[appv1.AnnotationRetainedFor] = "App.other"
	owned.OwnerReferences = controlledBy(owner)
	for name, child := range map[string]Object{
		"retained without a mark":       {Desired: unmarked, Retained: true},
		"retained for another":          {Desired: marked, Retained: true},
		"retained with a reference":     {Desired: owned, Retained: true},
		"a claim that is not there yet": {Desired: &corev1.PersistentVolumeClaim{ObjectMeta: wantedSecret().ObjectMeta}, Retained: true},
	} {
		req := request(nil)
		if p, err := planner(t).planLocally(req, &child); err == nil {
			t.Errorf("%s: %s is planned", name, p.action)
		}
	}
}

// TestPlanClaims decides on claims as their StatefulSet's controller makes them.
func TestPlanClaims(t *testing.T) {
	wanted := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: wantedSecret().ObjectMeta,
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
		}},
	}
	for name, c := range map[string]struct {
		apiVersion, kind string
		ours             bool
	}{
		"nobody":                     {"", "", true},
		"its StatefulSet":            {"apps/v1", "StatefulSet", true},
		"its pod":                    {"v1", "Pod", true},
		"another group's":            {"apps.example.com/v1", "StatefulSet", false},
		"another group's pod":        {"example.com/v1", "Pod", false},
		"something else that owns":   {"apps/v1", "Deployment", false},
		"a custom resource of sorts": {"v1", "Database", false},
	} {
		live := wanted.DeepCopy()
		live.UID = "live-uid"
		if c.kind != "" {
			live.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind, Name: "db", UID: "db", Controller: ptr.To(true)}}
		}
		req := request(nil)
		p, err := planner(t).planLocally(req, &Object{Desired: wanted, Live: live, Retained: true})
		if !c.ours {
			if err == nil || outcomeOf(t, err).reason != appv1.ReasonResourceExists {
				t.Errorf("%s controls it: %v, want %s", name, err, appv1.ReasonResourceExists)
			}
			continue
		}
		if err != nil || p.action != Configured || p.claim != ClaimOwned {
			t.Errorf("%s controls it: %s, claim %v, %v; want a plain update", name, p.action, p.claim, err)
		}
	}
}

// TestPlanChangesValues checks that a value that the hash does not cover is no drift where we want another, and is where
// another writer has written it.
func TestPlanChangesValues(t *testing.T) {
	for name, c := range map[string]struct {
		owner string
		held  bool
	}{
		"ours":   {"me", false},
		"theirs": {"thief", true},
	} {
		e := planner(t)
		live := keptSecret(t)
		live.ManagedFields = append(live.ManagedFields[:0], fieldtest.Entry("me", apply, "", `{"f:metadata":{"f:annotations":{}}}`),
			fieldtest.Entry(c.owner, apply, "", `{"f:data":{"f:password":{}}}`))
		live.Data["password"] = []byte("other")
		var p pacedPlan
		for range conflictRepairs + 1 {
			if p = planPaced(t, e, request(nil), &Object{Desired: wantedSecret(), Live: live, Retained: true}); (p.action == Repaired) != c.held {
				t.Fatalf("%s: %s", name, p.action)
			}
		}
		if got := p.conflict != nil; got != c.held {
			t.Errorf("%s: held is %v, want one: %t", name, p.conflict, c.held)
		}
		if p.conflict != nil && strings.Contains(p.conflict.Error(), "123456") {
			t.Errorf("the message has the value: %v", p.conflict)
		}
	}
}

// TestReplaceLeavesWhatItControls checks that a replaced object is deleted by its UID, without what it controls, and only
// if it is not as wanted.
func TestReplaceLeavesWhatItControls(t *testing.T) {
	r := &recorder{code: http.StatusOK, answer: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}
	e := engineOver(t, r)
	replaced := func(change func(*appsv1.Deployment)) (ChangeSet, error) {
		live := settled(t)
		change(live)
		req := request(live)
		req.Objects[0].Replace = true
		return writeChanges(t, e, req)
	}
	changes, err := replaced(func(*appsv1.Deployment) {})
	if diff := cmp.Diff(ChangeSet{{Action: Unchanged, Kind: "Deployment", Name: "web"}}, changes); diff != "" || err != nil || len(r.list) > 0 {
		t.Errorf("as wanted: %v, %v, by %q", changes, err, r.list)
	}
	changes, err = replaced(func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedHash] = "0" })
	want := outcome{"waiting", appv1.ReasonProgressing, "Waiting for Deployment web to be replaced; its pods are not changed"}
	if diff := cmp.Diff(want, outcomeOf(t, err), cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ChangeSet{{Action: Replaced, Kind: "Deployment", Name: "web"}}, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if len(r.list) != 2 || r.list[0].method != http.MethodPost || r.list[1].method != http.MethodDelete ||
		!strings.Contains(r.list[1].body, `"propagationPolicy":"Orphan"`) || !strings.Contains(r.list[1].body, `"uid":"live-uid"`) {
		t.Errorf("requests are %q, want the dry run of a creation and one DELETE of its UID that orphans", r.list)
	}

	r.code, r.answer = http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	changes, err = replaced(func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedHash] = "0" })
	if outcomeOf(t, err).class != "stale" || len(changes) > 0 {
		t.Errorf("gone already: %v, %v; want another try", changes, err)
	}
}

// TestForeseenReplacement plans to replace an object: the API server is asked whether it would take the new one, and that is all.
func TestForeseenReplacement(t *testing.T) {
	r := &recorder{code: http.StatusConflict, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`}
	live := settled(t)
	live.Annotations[appv1.AnnotationLastAppliedHash] = "0"
	req := request(live)
	req.Objects[0].Replace = true
	done, err := engineOver(t, r).Run(t.Context(), *req, DryRun)
	if err != nil {
		t.Error(err)
	}
	if got := done.Objects; len(got) != 1 || got[0].Action != Replaced || got[0].Name != "web" || got[0].Unasked {
		t.Errorf("the plan has %+v", got)
	}
	if len(r.list) != 1 || r.list[0].method != http.MethodPost {
		t.Errorf("requests are %q, want one creation, whose dry run alone gets through", r.list)
	}
}

// TestOwnerIsAskedFor checks that an object that lost its reference is given back only to an owner that is there to stay.
// The garbage collector removes the reference from what is left alone when the owner is deleted.
func TestOwnerIsAskedFor(t *testing.T) {
	const there = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web","namespace":"default","uid":"` + owner + `"`
	for name, c := range map[string]struct {
		code   int
		answer string
		class  string // Empty where the reference is put back.
	}{
		"there":               {http.StatusOK, there + `}}`, ""},
		"being deleted":       {http.StatusOK, there + `,"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, "stale"},
		"gone":                {http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, "stale"},
		"another of its name": {http.StatusOK, strings.Replace(there, owner, "another", 1) + `}}`, "stale"},
		"nobody knows":        {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			const written = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"default","resourceVersion":"8"}}`
			r := &recorder{code: c.code, answer: c.answer, patched: written}
			live := settled(t)
			live.OwnerReferences = nil
			_, err := writeChanges(t, engineOver(t, r), request(live))
			methods := make([]string, len(r.list))
			for i, q := range r.list {
				methods[i] = q.method
			}
			want := []string{http.MethodGet, http.MethodPatch}
			if c.class != "" {
				want = want[:1]
				if got := outcomeOf(t, err); got.class != c.class {
					t.Errorf("outcome is %+v, want %s", got, c.class)
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, methods); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsAskedForRetained checks that an object without a reference to give back costs no question.
func TestNothingIsAskedForRetained(t *testing.T) {
	r := &recorder{code: http.StatusOK, answer: `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"auth","namespace":"default"}}`}
	live := keptSecret(t)
	live.Data["password"] = []byte("old")
	req := request(nil)
	req.Objects = []Object{{Desired: wantedSecret(), Live: live, Retained: true}}
	changes, err := writeChanges(t, engineOver(t, r), req)
	if len(r.list) != 1 || r.list[0].method != http.MethodPatch || err != nil {
		t.Errorf("%v, %v, by %q; want one PATCH", changes, err, r.list)
	}
}

// TestDiscretion checks that whatever the API server says of a Secret, no value of it gets on.
func TestDiscretion(t *testing.T) {
	const coded = "MTIzNDU2" // 123456
	secret := wantedSecret()
	secret.Data["empty"] = nil
	p := newKnownPlan(&Object{Desired: secret}, schema.GroupVersionKind{}, Created)
	p.gvk.Kind = "Secret"
	for _, reason := range []metav1.StatusReason{metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonForbidden,
		metav1.StatusReasonConflict, metav1.StatusReasonInternalError, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnknown} {
		for _, words := range []string{`admission webhook denied: "123456" is weak`, "cannot decode " + coded, "no"} {
			answer := &metav1.Status{Reason: reason, Message: words, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "data", Message: words}}}}
			was := answer.DeepCopy()
			err := (&Engine{}).classifyError(p, statusError{*answer})
			text := err.Error() + outcomeOf(t, err).message
			if strings.Contains(text, "123456") || strings.Contains(text, coded) {
				t.Errorf("%s: %s", reason, text)
			}
			if shown := strings.Contains(text, secrecy.Withheld); shown == (words == "no") {
				t.Errorf("%s, %q: withheld is %t: %s", reason, words, shown, text)
			}
			if diff := cmp.Diff(was, answer); diff != "" {
				t.Errorf("the answer was changed (-before +after):\n%s", diff)
			}
		}
	}
	// The value that lives is no better in a log than the one that is wanted.
	live := wantedSecret()
	live.Data["password"] = []byte("654321")
	p.object.Live, p.live = live, live
	err := (&Engine{}).classifyError(p, statusError{metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "654321"}})
	if strings.Contains(err.Error(), "654321") {
		t.Error(err)
	}
}

// TestDiscretionOfSpellings checks that a value of a Secret is found in an answer that quotes it with escapes.
func TestDiscretionOfSpellings(t *testing.T) {
	for _, value := range []string{"plain", `a"b`, `a\b`, "a\nb", "a<b>&c", "a\u2028b", "\xff\xfe", strings.Repeat(`s"`, secrecy.MaxAnswer)} {
		secret := wantedSecret()
		secret.Data = map[string][]byte{"password": []byte(value)}
		p := newKnownPlan(&Object{Desired: secret}, schema.GroupVersionKind{}, Created)
		p.gvk.Kind = "Secret"
		coded, err := json.Marshal(map[string]string{"password": value})
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{value, fmt.Sprintf("%q is weak", value), string(coded), base64.StdEncoding.EncodeToString([]byte(value))} {
			err := (&Engine{}).classifyError(p, statusError{metav1.Status{Reason: metav1.StatusReasonForbidden, Message: words}})
			if text := err.Error() + outcomeOf(t, err).message; strings.Contains(text, words) || !strings.Contains(text, secrecy.Withheld) {
				t.Errorf("%.100q in %.100q: %.300s", value, words, text)
			}
		}
	}
}

// statusError is an answer of the API server.
type statusError struct{ status metav1.Status }

func (e statusError) Error() string { return e.status.Message }

func (e statusError) Status() metav1.Status { return e.status }

// TestHashOfASecret checks that the hash covers the names of the values and no value, and whose a retained one is.
func TestHashOfASecret(t *testing.T) {
	of := func(owner types.UID, change func(*corev1.Secret)) string {
		s := wantedSecret()
		change(s)
		sum, err := hashObject(s, owner)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	same := func(*corev1.Secret) {}
	sum := of("1", same)
	for name, c := range map[string]struct {
		got  string
		same bool
	}{
		"value":         {of("1", func(s *corev1.Secret) { s.Data["password"] = []byte("other") }), true},
		"another value": {of("1", func(s *corev1.Secret) { s.Data["more"] = nil }), false},
		"label":         {of("1", func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }), false},
		"owner":         {of("2", same), false},
		"type":          {of("1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeBasicAuth }), false},
	} {
		if got := c.got == sum; got != c.same {
			t.Errorf("another %s: the hash is the same: %t, want %t", name, got, c.same)
		}
	}
	text := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "1"}}
	one := hashOf(t, text)
	text.Data["a"] = "2"
	if hashOf(t, text) == one {
		t.Error("the hash does not cover the values of a ConfigMap")
	}
}
