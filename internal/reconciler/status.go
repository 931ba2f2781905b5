package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// figureInterval is how often at most a status is written of which only figures have changed, and the messages that
// repeat them.
const figureInterval = time.Second

// maxMessage is the length in bytes of a condition's message. The API refuses a status with one of over 32768 characters;
// nobody reads that far.
const maxMessage = 4096

// summarize sets the conditions by the report and the error of the steps.
func summarize(obj Resource, report *Report, err error) {
	ready := metav1.Condition{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: report.Reason, Message: report.Message}
	reconciling := metav1.Condition{Type: appv1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: report.Reason, Message: report.Message}
	stalled := metav1.Condition{Type: appv1.ConditionStalled, Status: metav1.ConditionFalse, Reason: appv1.ReasonNotStalled}

	switch {
	case err != nil:
		// What was asked for is not in place, whatever the pods of an earlier spec do.
		ready.Reason, ready.Message = Words(err)
		reconciling.Reason, reconciling.Message = ready.Reason, ready.Message
		var stalledErr *StalledError
		if errors.As(err, &stalledErr) {
			stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, ready.Reason, ready.Message
			reconciling.Status = metav1.ConditionFalse
		}
	case report.Ready:
		ready.Status = metav1.ConditionTrue
		reconciling.Status, reconciling.Reason, reconciling.Message = metav1.ConditionFalse, appv1.ReasonSettled, ""
	case report.Stalled:
		stalled.Status, stalled.Reason, stalled.Message = metav1.ConditionTrue, report.Reason, report.Message
		reconciling.Status = metav1.ConditionFalse
	}
	if report.Paused {
		reconciling.Status, reconciling.Reason = metav1.ConditionFalse, appv1.ReasonPaused
		reconciling.Message = fmt.Sprintf("the annotation %s stops all writes to the children", appv1.AnnotationPaused)
	}

	status := obj.CommonStatus()
	status.ObservedGeneration = obj.GetGeneration()
	for _, c := range []metav1.Condition{ready, reconciling, stalled} {
		c.ObservedGeneration = obj.GetGeneration()
		c.Message = cut(c.Message, maxMessage)
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// patchStatus writes the status if it differs from before. If only figures differ, and the last write is less than
// figureInterval ago, it returns how long to wait instead; not for a step that is told of, as it would be taken, and told of,
// once more.
func (r *Reconciler[T]) patchStatus(ctx context.Context, before, after T, step bool) (wait time.Duration, err error) {
	was, err := statusOf(before)
	if err != nil {
		return 0, err
	}
	is, err := statusOf(after)
	if err != nil || equality.Semantic.DeepEqual(was, is) {
		return 0, err
	}
	name := client.ObjectKeyFromObject(after)
	if !step && equality.Semantic.DeepEqual(withoutFigures(before.CommonStatus()), withoutFigures(after.CommonStatus())) {
		if since := r.Clock.Since(r.written.last(name)); since < figureInterval {
			return figureInterval - since, nil
		}
	}
	// The test makes the API server refuse the patch for a later resource of the same name.
	data, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": after.GetUID()},
		{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	written := r.New()
	written.SetNamespace(name.Namespace)
	written.SetName(name.Name)
	if err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, data)); err != nil {
		return 0, fmt.Errorf("write status: %w", err)
	}
	r.written.set(name, r.Clock.Now())
	return 0, nil
}

// statusOf returns a resource's status.
func statusOf(obj Resource) (any, error) {
	status := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	if !status.IsValid() {
		return nil, fmt.Errorf("%T has no status", obj)
	}
	return status.Interface(), nil
}

// withoutFigures returns a status without the messages that count pods: written at once, they would make a rollout cost
// two writes and more for each pod. That of Stalled stays, as it asks somebody to act, and its event goes with the write.
func withoutFigures(status *appv1.CommonStatus) *appv1.CommonStatus {
	status = status.DeepCopy()
	for i := range status.Conditions {
		if status.Conditions[i].Type != appv1.ConditionStalled {
			status.Conditions[i].Message = ""
		}
	}
	return status
}

func condition(obj Resource, kind string) *metav1.Condition {
	return meta.FindStatusCondition(obj.CommonStatus().Conditions, kind)
}

// stalledReason is why a resource is stalled, empty if it is not.
func stalledReason(obj Resource) string {
	if c := condition(obj, appv1.ConditionStalled); isTrue(c) {
		return c.Reason
	}
	return ""
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// statusTimes remembers when each resource's status was last written.
type statusTimes struct {
	mu    sync.Mutex
	times map[types.NamespacedName]time.Time
}

func (t *statusTimes) last(name types.NamespacedName) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times[name]
}

func (t *statusTimes) set(name types.NamespacedName, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[types.NamespacedName]time.Time{}
	}
	t.times[name] = at
}

func (t *statusTimes) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.times, name)
}
