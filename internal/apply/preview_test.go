package apply

import (
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// TestPlanSaysWhatChanges checks that a plan is made without a request and leaves no trace, and that it says what changes.
func TestPlanSaysWhatChanges(t *testing.T) {
	e := planner(t)
	live := settled(t)
	if changes, err := localChanges(t, e, request(live)); err != nil || changes.Waits() {
		t.Errorf("as wanted: %+v, %v", changes, err)
	}
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	live.ManagedFields = append(live.ManagedFields, fieldtest.Entry("kubectl-set", updateOp, "",
		`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}}}}`))
	for range 2 * conflictRepairs {
		changes, err := localChanges(t, e, request(live))
		if err != nil || len(changes) != 1 {
			t.Fatalf("drift: %+v, %v", changes, err)
		}
		c := changes[0]
		if c.Action != Repaired || !slices.Equal(c.Fields, []string{"image"}) || c.By != "kubectl-set" || !c.TemplateChanged {
			t.Fatalf("drift: %+v", c)
		}
	}
	if changes, err := localChanges(t, e, request(nil)); err != nil || changes[0].Action != Created {
		t.Errorf("new: %+v, %v", changes, err)
	}
}

// TestPlanOfAnAdoption says beforehand what an adoption removes and keeps.
func TestPlanOfAnAdoption(t *testing.T) {
	live := settled(t)
	live.OwnerReferences, live.Annotations = nil, nil
	pod := &live.Spec.Template.Spec
	pod.PriorityClassName = "high"
	pod.Containers = append(pod.Containers, corev1.Container{Name: "main", Image: "httpd"})
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("kubectl", updateOp, "", `{"f:spec":{"f:template":{"f:spec":{
		"f:priorityClassName":{},"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`)}
	req := request(live)
	req.Policy.Adopt = true
	changes, err := localChanges(t, planner(t), req)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%+v, %v", changes, err)
	}
	c := changes[0]
	if !slices.Contains(c.Removed, "containers[main]") || !slices.Contains(c.Kept, "priorityClassName") || !c.TemplateChanged {
		t.Errorf("%+v", c)
	}
}

// TestExistedOwnerIsRead checks that what is missing is recreated only for an owner that lives, and that a new one costs no
// read.
func TestExistedOwnerIsRead(t *testing.T) {
	for existed, want := range map[bool]string{false: http.MethodPatch, true: http.MethodGet} {
		r := &recorder{code: http.StatusNotFound, answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`}
		req := request(nil)
		req.Before.Existed = existed
		_, err := writeChanges(t, engineOver(t, r), req)
		if outcomeOf(t, err).class != "stale" || len(r.list) != 1 || r.list[0].method != want {
			t.Errorf("existed %t: %v by %q, want one %s", existed, err, r.list, want)
		}
	}
}

// TestSlowFight counts the repairs of an hour.
func TestSlowFight(t *testing.T) {
	f := newFight(t)
	req, p := fought("web", "web")
	for i := range 12 {
		f.clock.SetTime(f.clock.Now().Add(10 * conflictWindow))
		if _, fighting := f.c.noteRepair(req, p); fighting {
			t.Fatal("it is a fight")
		}
		want := min(i+1, 6)
		if want < slowRepairs {
			want = 0
		}
		if got := f.c.recentRepairs(req, p); got != want {
			t.Errorf("repair %d: %d lately, want %d", i+1, got, want)
		}
	}
}
