package apply

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/reconciler"
)

// sent is one request as it left the client.
type sent struct{ method, path, body string }

// recorder is a server that notes requests, and answers them all alike. What the real API server makes of them is for
// the integration tests; here it is about which are sent at all.
type recorder struct {
	mu     sync.Mutex
	code   int
	answer string
	// patched, if set, is the answer to a patch.
	patched string
	// failsAfter, if set, is the number of requests after which the code is 500.
	failsAfter int
	list       []sent
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.list = append(r.list, sent{req.Method, req.URL.Path, string(body)})
	w.Header().Set("Content-Type", "application/json")
	if r.failsAfter > 0 && len(r.list) > r.failsAfter {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(r.code)
	answer := r.answer
	if r.patched != "" && req.Method == http.MethodPatch {
		answer = r.patched
	}
	_, _ = io.WriteString(w, answer) // Who does not read the answer fails the test.
}

// engineOver returns an engine whose requests go to the recorder.
func engineOver(t *testing.T, r *recorder) *Engine {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	known := kinds()
	for kind := range known.AllKnownTypes() {
		if kind.Group == "" || kind.Group == "apps" || kind.Group == appv1.GroupVersion.Group {
			mapper.Add(kind, meta.RESTScopeNamespace)
		}
	}
	c, err := client.New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		client.Options{Scheme: known, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return New(c, c, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
}

func controlledBy(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{UID: uid, Kind: "App", Name: "web", APIVersion: "app.huolala.cn/v1", Controller: ptr.To(true)}}
}

// TestPrune checks what is deleted among the unwanted: what the owner controls, by UID, and never a claim, nor what is retained.
func TestPrune(t *testing.T) {
	named := func(name string, owners []metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), OwnerReferences: owners}
	}
	ours := controlledBy(owner)
	going := &corev1.Service{ObjectMeta: named("going", ours)}
	going.DeletionTimestamp = ptr.To(metav1.Now())
	owned := controlledBy(owner)
	owned[0].Controller = nil
	retained := &corev1.Secret{ObjectMeta: named("retained", ours)}
	retained.Annotations = map[string]string{appv1.AnnotationRetainedFor: self}
	r := &recorder{code: http.StatusOK, answer: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}
	req := &Request{Owner: request(nil).Owner, Manager: "me", Prune: []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: named("data", ours)},
		&corev1.Service{ObjectMeta: named("nobodys", nil)},
		&corev1.Service{ObjectMeta: named("anothers", controlledBy("another"))},
		&corev1.Service{ObjectMeta: named("owned-not-controlled", owned)},
		going,
		retained,
		&corev1.Service{ObjectMeta: named("ours", ours)},
		&appsv1.Deployment{ObjectMeta: named("ours", ours)},
		&appsv1.StatefulSet{ObjectMeta: named("ours", ours)},
		&corev1.Secret{ObjectMeta: named("ours", ours)},
	}}
	done, err := engineOver(t, r).Run(t.Context(), *req, Write)
	if err != nil {
		t.Fatal(err)
	}
	changes := done.Changes()
	if diff := cmp.Diff(ChangeSet{
		{Action: Deleted, Kind: "Service", Name: "ours"}, {Action: Deleted, Kind: "Deployment", Name: "ours"}, {Action: Deleted, Kind: "StatefulSet", Name: "ours"}, {Action: Deleted, Kind: "Secret", Name: "ours"},
	}, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var waiting *reconciler.WaitingError
	if err := done.Trouble(); !errors.As(err, &waiting) || !strings.Contains(waiting.Message, "Service going") {
		t.Errorf("what is being deleted is reported as %v", err)
	}
	const applyBody = `"propagationPolicy":"Background"`
	paths := []string{
		"/api/v1/namespaces/default/services/ours", "/apis/apps/v1/namespaces/default/deployments/ours",
		"/apis/apps/v1/namespaces/default/statefulsets/ours", "/api/v1/namespaces/default/secrets/ours",
	}
	if len(r.list) != len(paths) {
		t.Fatalf("requests are %q, want one for each of %q", r.list, paths)
	}
	for i, path := range paths {
		if q := r.list[i]; q.method != http.MethodDelete || q.path != path || !strings.Contains(q.body, `"uid":"uid-ours"`) || !strings.Contains(q.body, applyBody) {
			t.Errorf("request is %q, want DELETE %s of its UID with %s", q, path, applyBody)
		}
	}
}

// TestPruneOfWhatIsGone checks that what another has deleted before is no failure, and no change of ours.
func TestPruneOfWhatIsGone(t *testing.T) {
	r := &recorder{code: http.StatusNotFound, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1", OwnerReferences: controlledBy(owner)}}
	req := &Request{Owner: request(nil).Owner, Manager: "me", Prune: []client.Object{service}}
	if changes, err := writeChanges(t, engineOver(t, r), req); err != nil || len(changes) != 0 {
		t.Errorf("changes are %v, %v; want none", changes, err)
	}
	r.code, r.answer = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`
	_, err := writeChanges(t, engineOver(t, r), req)
	if got := outcomeOf(t, err); got.class != "failed" || got.reason != appv1.ReasonForbidden {
		t.Errorf("forbidden: %+v", got)
	}
}

// TestOutcomePerChild checks that what is wrong with one child holds up no other, and that nothing is deleted then. Nothing
// behind a prerequisite that is not in place is created.
func TestOutcomePerChild(t *testing.T) {
	answer, err := json.Marshal(fieldtest.LiveService())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prerequisite, independent bool
		requests                  int
	}{"no prerequisite": {false, false, 1}, "prerequisite": {true, false, 0}, "independent": {true, true, 1}} {
		r := &recorder{code: http.StatusOK, answer: string(answer)}
		foreign := settled(t)
		foreign.OwnerReferences, foreign.Annotations = nil, nil
		req := request(foreign)
		req.Objects[0].Prerequisite = c.prerequisite
		req.Objects = append(req.Objects, Object{Desired: fieldtest.Service(), Independent: c.independent})
		req.Prune = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", OwnerReferences: controlledBy(owner)}}}
		done, err := engineOver(t, r).Run(t.Context(), *req, Write)
		if got := outcomeOf(t, err); got.reason != appv1.ReasonResourceExists {
			t.Errorf("%s: outcome is %+v, want %s", name, got, appv1.ReasonResourceExists)
		}
		if len(r.list) < c.requests || c.requests == 0 && len(r.list) > 0 {
			t.Errorf("%s: requests are %q", name, r.list)
		}
		if held := done.Objects[1].NotWritten; held != (c.requests == 0) || done.Objects[0].NotWritten {
			t.Errorf("%s: held is %t of the child, %t of the prerequisite", name, held, done.Objects[0].NotWritten)
		}
		for _, q := range r.list {
			if q.method != http.MethodPatch {
				t.Errorf("%s: request %s %s", name, q.method, q.path)
			}
		}
	}
}

// TestWhatHasNoSchemaIsRefused checks that a literal which server-side apply cannot take, with an item twice in a list
// that has keys, is the user's to fix: the API server would answer with an internal error, and be asked for ever.
func TestWhatHasNoSchemaIsRefused(t *testing.T) {
	r := &recorder{code: http.StatusInternalServerError}
	for name, live := range map[string]*appsv1.Deployment{"created": nil, "changed": settled(t)} {
		req := request(live)
		wanted := fieldtest.Deployment()
		pod := &wanted.Spec.Template.Spec
		pod.Containers = append(pod.Containers, pod.Containers[0])
		req.Objects[0].Desired = wanted
		_, err := writeChanges(t, engineOver(t, r), req)
		if got := outcomeOf(t, err); got.reason != appv1.ReasonInvalid || !strings.Contains(err.Error(), "containers") {
			t.Errorf("%s: outcome is %+v, want %s and the path", name, got, appv1.ReasonInvalid)
		}
	}
	if len(r.list) != 0 {
		t.Errorf("requests %q were sent", r.list)
	}
}

// TestNothingIsPrunedAfterAFailure checks that what is no longer wanted stays until what is wanted is in place.
func TestNothingIsPrunedAfterAFailure(t *testing.T) {
	r := &recorder{code: http.StatusInternalServerError, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcd"}`}
	req := request(nil)
	req.Prune = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", OwnerReferences: controlledBy(owner)}}}
	changes, err := writeChanges(t, engineOver(t, r), req)
	if got := outcomeOf(t, err); got.reason != appv1.ReasonApplyFailed || len(changes) != 0 {
		t.Errorf("outcome is %+v with %v, want %s", got, changes, appv1.ReasonApplyFailed)
	}
	for _, q := range r.list {
		if q.method == http.MethodDelete {
			t.Errorf("%s was deleted", q.path)
		}
	}
}

// TestPruneWaitsForAFight checks the same where a child is left to another writer for a while.
func TestPruneWaitsForAFight(t *testing.T) {
	r := &recorder{code: http.StatusInternalServerError}
	e := engineOver(t, r)
	live := settled(t)
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	for range conflictRepairs {
		req := request(live)
		planPaced(t, e, req, &req.Objects[0])
	}
	req := request(live)
	req.Prune = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", OwnerReferences: controlledBy(owner)}}}
	changes, err := writeChanges(t, e, req)
	if got := outcomeOf(t, err); got.reason != appv1.ReasonFieldConflict || len(changes) != 0 {
		t.Errorf("outcome is %+v with %v, want %s", got, changes, appv1.ReasonFieldConflict)
	}
	if len(r.list) != 0 {
		t.Errorf("requests %q were sent", r.list)
	}
}

// TestNotKept checks what is made of an answer that is not as the request: it is reported if nobody but the API server can
// have done it, and stands in the way of nothing, also not of deleting what is no longer wanted.
func TestNotKept(t *testing.T) {
	image := `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}}}}`
	for name, c := range map[string]struct {
		manager, image string
		want           bool
	}{
		"changed at admission": {"me", "theirs", true},
		"changed by another":   {"them", "theirs", false},
		"kept":                 {"me", fieldtest.Deployment().Spec.Template.Spec.Containers[0].Image, false},
	} {
		live := settled(t)
		live.Spec.Template.Spec.Containers[0].Image = c.image
		live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry(c.manager, apply, "", image)}
		answer, err := json.Marshal(live)
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{code: http.StatusOK, answer: string(answer)}
		req := request(nil)
		req.Prune = []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default", OwnerReferences: controlledBy(owner)}}}
		changes, err := writeChanges(t, engineOver(t, r), req)
		message, retry := changes.Overridden()
		if got := strings.Contains(message, `containers[name="web"].image`) && retry == conflictMaxDelay; got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want it reported: %t", name, message, err, c.want)
		}
		if len(changes) != 2 || changes[0].Action != Created || changes[1].Action != Deleted {
			t.Errorf("%s: changes are %+v", name, changes)
		}
		// It is tried a second time, bound to what the first has made.
		if again := len(r.list) == 3 && strings.Contains(r.list[1].body, `"uid":"`+string(live.UID)+`"`); again != c.want {
			t.Errorf("%s: requests are %q", name, r.list)
		}
	}
}

// TestSecondWriteFails has the API server not keep a field, and fail when the field is written again: the first write is in the changes, next to
// the error.
func TestSecondWriteFails(t *testing.T) {
	live := settled(t)
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "",
		`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}}}}`)}
	answer, err := json.Marshal(live)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{code: http.StatusOK, answer: string(answer), failsAfter: 1}
	changes, err := writeChanges(t, engineOver(t, r), request(nil))
	if err == nil || len(r.list) != 2 {
		t.Errorf("the error is %v after %d requests", err, len(r.list))
	}
	if len(changes) != 1 || changes[0].Action != Created {
		t.Errorf("changes are %+v", changes)
	}
}

// TestUnknownKind checks that a kind that the scheme does not know is an error, and no panic.
func TestUnknownKind(t *testing.T) {
	type unknown struct{ appsv1.Deployment }
	req := &Request{Owner: request(nil).Owner, Objects: []Object{{Desired: &unknown{}}}}
	if _, err := writeChanges(t, planner(t), req); err == nil {
		t.Error("no error")
	}
}
