package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// followsSuspension fails the test unless the CronJob web follows the suspension, and is as before in all else.
func (w *world) followsSuspension(what string, before *batchv1.CronJob, suspended bool) {
	w.t.Helper()
	after := w.cronJob()
	if *after.Spec.Suspend != suspended || (w.taskStatus().NextRun == nil) != suspended {
		w.t.Errorf("%s: suspended is %t, want %t, and the next run %v", what, *after.Spec.Suspend, suspended, w.taskStatus().NextRun)
	}
	after.Spec.Suspend = before.Spec.Suspend
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		w.t.Errorf("%s: the CronJob has changed: %s", what, cmp.Diff(before.Spec, after.Spec))
	}
}

// TestTaskSuspendedWhileRefused suspends and resumes a Task whose CronJob the API server refuses: the live one follows, keeps all else, and is
// written once for each suspension.
func TestTaskSuspendedWhileRefused(t *testing.T) {
	forEach(t, map[string]struct {
		err    error
		reason string
	}{
		"an invalid object": {apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "CronJob"}, "web", field.ErrorList{field.Invalid(field.NewPath("spec"), "", "refused")}), appv1.ReasonInvalid},
		"a policy":          {apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "web", errors.New("by a policy")), appv1.ReasonForbidden},
	}, func(t *testing.T, what string, c struct {
		err    error
		reason string
	},
	) {
		w := newTaskWorld(t, ownTask)
		before := w.cronJob()
		w.fail = func(_ string, obj client.Object) error {
			if data, err := json.Marshal(obj); err == nil && strings.Contains(string(data), "refused:1") && strings.Contains(string(data), "CronJob") {
				return c.err
			}
			return nil
		}
		for _, suspended := range []bool{true, false, true} {
			w.setSpec("Task", fmt.Sprintf(`{"image":"refused:1","schedule":"0 5 * * *","suspended":%t}`, suspended))
			_, _ = w.reconcile("Task") // A policy can change at any time, so that is an error.
			w.followsSuspension(what, before, suspended)
			w.stands(what, "Task", "Applied=False/"+c.reason)
			w.requests = nil
			_, _ = w.reconcile("Task")
			w.wrote(what+" goes on", "patch CronJob web")
		}
		w.setSpec("Task", `{"paused":true,"image":"refused:1","schedule":"0 5 * * *"}`)
		_, _ = w.reconcile("Task")
		w.followsSuspension(what+" is paused", before, true)
		w.fail = nil
		w.setSpec("Task", `{"image":"refused:1","schedule":"0 5 * * *"}`)
		w.settle("Task")
		w.stands(what+" has ended", "Task", "Applied=True/Applied")
		if got := w.runImage(); got != "refused:1" || *w.cronJob().Spec.Suspend {
			t.Errorf("%s has ended, and the image is %s", what, got)
		}
	})
}

// TestTaskWhoseSuspensionIsRefusedToo suspends a Task whose CronJob is refused, while a policy refuses the live CronJob too. The status has the field
// of the Task, and the suspension follows once the policy has gone, without another change.
func TestTaskWhoseSuspensionIsRefusedToo(t *testing.T) {
	const refused = `{"image":"refused:1","schedule":"0 5 * * *","suspended":true}`
	w := newTaskWorld(t, ownTask)
	before := w.cronJob()
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "CronJob"}, "web", field.ErrorList{field.Invalid(field.NewPath("spec", "wrong"), "", "refused")})
	byPolicy := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "web", errors.New("by a policy"))
	policy := true
	w.fail = func(_ string, obj client.Object) error {
		data, err := json.Marshal(obj)
		if err != nil {
			t.Error(err)
		}
		switch isCronJob := strings.Contains(string(data), `"kind":"CronJob"`); {
		case isCronJob && strings.Contains(string(data), "refused:1"):
			return invalid
		case isCronJob && policy:
			return byPolicy
		}
		return nil
	}
	w.setSpec("Task", refused)
	for range 2 {
		result, err := w.reconcile("Task")
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("the reconcile ends with %v and %v", result, err)
		}
		w.followsSuspension("both are refused", before, false)
		w.stands("both are refused", "Task", "Stalled=True/Invalid", "Applied=False/Invalid")
		if got := w.message("Task", appv1.ConditionApplied); !strings.Contains(got, "spec.wrong") {
			t.Errorf("both are refused: %s", got)
		}
	}
	policy = false
	if _, err := w.reconcile("Task"); err != nil {
		t.Error(err)
	}
	w.followsSuspension("the policy has gone", before, true)
	w.stands("the policy has gone", "Task", "Applied=False/Invalid")
}

// TestTaskMountsOfApp has a Task mount a volume of its App in its containers. Once the App has dropped the volume, the error names the field of the
// Task, and the CronJob goes on and follows the suspension.
func TestTaskMountsOfApp(t *testing.T) {
	const volumes = `"volumes":[{"name":"ca","emptyDir":{}}]`
	mount := `"volumeMounts":[{"name":"ca","mountPath":"/ca"}]`
	forEach(t, map[string]struct{ fields, at string }{
		"a mount":                      {mount, "spec.volumeMounts[0].name"},
		"a mount of an init container": {`"initContainers":[{"name":"init","image":"a:1",` + mount + `}]`, "spec.initContainers[0].volumeMounts[0].name"},
		"a file of a variable": {`"envs":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"ca","path":"a","key":"A"}}}]`,
			"spec.envs[0].valueFrom.fileKeyRef.volumeName"},
	}, func(t *testing.T, what string, c struct{ fields, at string }) {
		app, task := flowSpec("App", "nginx:1", onePort), withField(taskOfApp, c.fields)
		w := newWorld(t, newStored(t, kindNamed(t, "App"), withField(app, volumes)), newStored(t, kindNamed(t, "Task"), task))
		w.settle("App")
		w.settle("Task")
		w.stands(what, "Task", "Applied=True/Applied")
		before := w.cronJob()
		w.setSpec("App", app)
		w.settle("App")
		for _, suspended := range []bool{true, false} {
			w.setSpec("Task", withField(task, fmt.Sprintf(`"suspended":%t`, suspended)))
			w.settle("Task")
			w.followsSuspension(what, before, suspended)
			w.stands(what, "Task", "Stalled=True/Invalid", "Applied=False/Invalid")
			if got := w.message("Task", appv1.ConditionApplied); !strings.Contains(got, c.at) {
				t.Errorf("%s: %s, want %s", what, got, c.at)
			}
		}
		w.setSpec("Task", withField(task, volumes))
		w.settle("Task")
		w.stands(what+" of an own volume", "Task", "Applied=True/Applied")
	})
}
