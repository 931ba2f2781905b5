package apply

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// TestRecreation checks which object is created in place of a former one: with the additions of others to its pods, and of their managers; without what was
// ours alone; and nothing but an apply where there are none.
func TestRecreation(t *testing.T) {
	const addition = `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}},"f:spec":{"f:terminationGracePeriodSeconds":{}}}}}`
	restarted := func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{"restartedAt": "now", "ours": "old"}
		d.ManagedFields = []metav1.ManagedFieldsEntry{
			fieldtest.Entry("me", apply, "", `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:ours":{}}}}}}`),
			fieldtest.Entry("kubectl", updateOp, "", addition),
			fieldtest.Entry("kube-controller-manager", updateOp, "status", `{"f:status":{"f:replicas":{}}}`),
		}
	}
	but := func(change func(*appsv1.Deployment)) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			restarted(d)
			change(d)
		}
	}
	for name, c := range map[string]struct {
		former func(*appsv1.Deployment)
		mode   Mode
		keeps  bool
		theirs string // What the other manager owns then.
	}{
		"no additions": {former: func(*appsv1.Deployment) {}},
		"of the object alone": {former: func(d *appsv1.Deployment) {
			d.ManagedFields = append(d.ManagedFields, fieldtest.Entry("kubectl", updateOp, "", `{"f:metadata":{"f:annotations":{"f:a":{}}}}`))
		}},
		"of the pods":                      {former: restarted, keeps: true, theirs: `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}}}}}`},
		"in a plan":                        {former: restarted, mode: DryRun},
		"that others control, to adopt":    {former: but(func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "another" })},
		"that nothing controls, to adopt":  {former: but(func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil })},
		"that an earlier operator applied": {former: but(func(d *appsv1.Deployment) { d.ManagedFields = d.ManagedFields[1:] })},
		"without the hash":                 {former: but(func(d *appsv1.Deployment) { delete(d.Annotations, appv1.AnnotationLastAppliedHash) })},
		"that others own, too": {former: but(func(d *appsv1.Deployment) {
			d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "a", BlockOwnerDeletion: ptr.To(true)})
		}), keeps: true, theirs: `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}}}}}`},
	} {
		former := settled(t)
		former.UID, former.ResourceVersion, former.Generation, former.Finalizers = "former", "7", 3, []string{"orphan"}
		former.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		c.former(former)
		req := request(nil)
		wanted := fieldtest.Deployment()
		wanted.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](40)
		req.Objects[0].Desired, req.Objects[0].Former = wanted, former
		e := planner(t)
		p, err := e.planLocally(req, &req.Objects[0])
		if err != nil || p.action != Created {
			t.Fatalf("%s: %s, %v", name, p.action, err)
		}
		of, err := (&run{Engine: e, req: req, mode: c.mode}).planRecreation(&p)
		if err != nil || (of != nil) != c.keeps {
			t.Fatalf("%s: %+v, %v", name, of, err)
		}
		if of == nil {
			continue
		}
		made, ok := of.object.(*appsv1.Deployment)
		if !ok || made.UID != "" || made.ResourceVersion != "" || made.Generation != 0 || len(made.Finalizers) > 0 || made.DeletionTimestamp != nil || len(made.ManagedFields) > 0 {
			t.Errorf("%s: metadata of the former object: %+v", name, made.ObjectMeta)
		}
		if owners := made.OwnerReferences; len(owners) != 1 || owners[0].UID != owner {
			t.Errorf("%s: the owners are %+v", name, owners)
		}
		if pods := made.Spec.Template; pods.Annotations["restartedAt"] != "now" || pods.Annotations["ours"] != "" || *pods.Spec.TerminationGracePeriodSeconds != 40 {
			t.Errorf("%s: the pods are %+v", name, pods)
		}
		made.ManagedFields = of.entries
		if len(of.entries) != 2 || !fields.OwnsAny(made, "me") || of.entries[1].Manager != "kubectl" || of.entries[1].FieldsV1.GetRawString() != c.theirs {
			t.Errorf("%s: the managers are %+v", name, of.entries)
		}
	}
}

// withRestart returns a request for a Deployment that was deleted to be recreated, with an addition of others, and that Deployment.
func withRestart(t *testing.T) (*Request, *appsv1.Deployment) {
	t.Helper()
	former := settled(t)
	former.Spec.Template.Annotations = map[string]string{"restartedAt": "now"}
	former.ManagedFields = append(former.ManagedFields, fieldtest.Entry("kubectl", updateOp, "", `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:restartedAt":{}}}}}}`))
	req := request(nil)
	req.Objects[0].Former = former
	return req, former
}

// methodsOf returns the methods of the requests in a recorder, in their order.
func methodsOf(r *recorder) string {
	methods := make([]string, len(r.list))
	for i := range r.list {
		methods[i] = r.list[i].method
	}
	return strings.Join(methods, " ")
}

// TestRecreationAnswers has the API server answer the creation with the additions of others by each error. A refusal of the object leads to an apply without
// the additions, as pods without an object that controls them are worse. After any other answer, the next run tries again.
func TestRecreationAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		code    int
		reason  metav1.StatusReason
		words   string
		applies bool
	}{
		"invalid":       {http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no", true},
		"bad request":   {http.StatusBadRequest, metav1.StatusReasonBadRequest, "no", true},
		"forbidden":     {http.StatusForbidden, metav1.StatusReasonForbidden, "no", true},
		"exists":        {http.StatusConflict, metav1.StatusReasonAlreadyExists, "no", true},
		"conflict":      {http.StatusConflict, metav1.StatusReasonConflict, "no", true},
		"too large":     {http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "no", true},
		"denied":        {http.StatusInternalServerError, "", `admission webhook "a" denied the request: no`, true},
		"failed":        {http.StatusInternalServerError, metav1.StatusReasonInternalError, "no", false},
		"unauthorized":  {http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "no", false},
		"late":          {http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "no", false},
		"no namespace":  {http.StatusNotFound, metav1.StatusReasonNotFound, "no", false},
		"not available": {http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no", false},
	} {
		req, _ := withRestart(t)
		status, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: c.reason, Message: c.words, Code: int32(c.code),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{code: c.code, answer: string(status)}
		if _, err := writeChanges(t, engineOver(t, r), req); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := methodsOf(r); !strings.Contains(r.list[0].body, "restartedAt") || strings.HasPrefix(got, "POST PATCH") != c.applies || !c.applies && got != "POST" {
			t.Errorf("%s: the requests are %s", name, got)
		}
	}
}

// TestRecreationReturnsFields has the request fail that gives other managers their fields back: there is one more.
func TestRecreationReturnsFields(t *testing.T) {
	req, former := withRestart(t)
	made := former.DeepCopy()
	made.UID, made.ManagedFields = "made", nil
	answer, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{code: http.StatusCreated, answer: string(answer), failsAfter: 1}
	if _, err := writeChanges(t, engineOver(t, r), req); err == nil {
		t.Error("no error")
	}
	if got := methodsOf(r); got != "POST PATCH PATCH" || r.list[1] != r.list[2] {
		t.Errorf("the requests are %s", got)
	}
}

// TestRecreationUnplanned has a former object that does not fit the type of the wanted one: the object is created without the additions.
func TestRecreationUnplanned(t *testing.T) {
	req, former := withRestart(t)
	req.Objects[0].Former = &appsv1.StatefulSet{ObjectMeta: former.ObjectMeta, Spec: appsv1.StatefulSetSpec{ServiceName: "web"}}
	made := fieldtest.Deployment()
	made.UID = "made"
	answer, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{code: http.StatusCreated, answer: string(answer)}
	if _, err := writeChanges(t, engineOver(t, r), req); err != nil {
		t.Error(err)
	}
	if got := methodsOf(r); !strings.HasPrefix(got, "PATCH") {
		t.Errorf("the requests are %s", got)
	}
}

// TestRecreationRefused has the API server refuse the object with the additions of others: it is created without them, as pods without an object that
// controls them are worse.
func TestRecreationRefused(t *testing.T) {
	req, _ := withRestart(t)
	r := &recorder{code: http.StatusForbidden, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no restarts","code":403}`}
	if _, err := writeChanges(t, engineOver(t, r), req); err == nil {
		t.Error("the apply is not refused")
	}
	if len(r.list) != 2 || r.list[0].method != http.MethodPost || !strings.Contains(r.list[0].body, "restartedAt") ||
		r.list[1].method != http.MethodPatch || strings.Contains(r.list[1].body, "restartedAt") {
		t.Errorf("the requests are %q", r.list)
	}
}
