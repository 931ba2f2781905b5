package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
)

// recordedCondition is a condition of OLM that notes what is set.
type recordedCondition struct {
	set  []metav1.Condition
	fail error
}

// Get implements conditions.Condition.
func (c *recordedCondition) Get(context.Context) (*metav1.Condition, error) {
	if len(c.set) == 0 {
		return nil, errors.New("it was never set")
	}
	return &c.set[len(c.set)-1], nil
}

// Set implements conditions.Condition.
func (c *recordedCondition) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	if c.fail != nil {
		return c.fail
	}
	condition := metav1.Condition{Type: "Upgradeable", Status: status}
	for _, option := range options {
		option(&condition)
	}
	c.set = append(c.set, condition)
	return nil
}

// newDatabasePod returns a pod of the database of the CloudManager cm, without its StatefulSet.
func newDatabasePod(name, cm string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		appv1.LabelCloudManager: cm, appsv1.StatefulSetPodNameLabel: name,
	}}}
}

// withSet returns a pod with its StatefulSet.
func withSet(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "9", Controller: ptr.To(true)}}
	return pod
}

// TestIsStray tells a pod that has lost its StatefulSet.
func TestIsStray(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"without its StatefulSet": {newDatabasePod("db-0", "web"), true},
		"with it":                 {withSet(newDatabasePod("db-0", "web")), false},
		"of a Deployment":         {&corev1.Pod{}, false},
		"on its way out": {func() *corev1.Pod {
			pod := newDatabasePod("db-0", "web")
			pod.DeletionTimestamp = ptr.To(metav1.Now())
			return pod
		}(), false},
	} {
		if got := isStray(c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestStrayChanged selects the events that change which pods are strays.
func TestStrayChanged(t *testing.T) {
	stray, kept := newDatabasePod("db-0", "web"), withSet(newDatabasePod("db-0", "web"))
	p := strayChanged()
	for what, c := range map[string]struct{ got, want bool }{
		"a stray comes":      {p.Create(event.CreateEvent{Object: stray}), true},
		"another comes":      {p.Create(event.CreateEvent{Object: kept}), false},
		"a stray goes":       {p.Delete(event.DeleteEvent{Object: stray}), true},
		"another goes":       {p.Delete(event.DeleteEvent{Object: kept}), false},
		"one becomes stray":  {p.Update(event.UpdateEvent{ObjectOld: kept, ObjectNew: stray}), true},
		"one is taken again": {p.Update(event.UpdateEvent{ObjectOld: stray, ObjectNew: kept}), true},
		"a stray changes":    {p.Update(event.UpdateEvent{ObjectOld: stray, ObjectNew: stray}), false},
		"another changes":    {p.Update(event.UpdateEvent{ObjectOld: kept, ObjectNew: kept}), false},
		"anything else":      {p.Generic(event.GenericEvent{Object: stray}), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", what, c.got)
		}
	}
	q, same := comesOrGoes(), event.UpdateEvent{ObjectOld: kept, ObjectNew: kept}
	if !q.Create(event.CreateEvent{}) || !q.Delete(event.DeleteEvent{}) || q.Update(same) || q.Generic(event.GenericEvent{}) {
		t.Error("a CloudManager that comes or goes counts, and nothing else")
	}
}

// TestFindStrays finds the strays of CloudManagers that exist, in order.
func TestFindStrays(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "CloudManager"), specs["CloudManager"]),
		newDatabasePod("db-1", "web"), newDatabasePod("db-0", "web"), newDatabasePod("other-0", "gone"), withSet(newDatabasePod("db-2", "web")))
	strays, err := (&upgradeable{client: w.Client}).findStrays(t.Context())
	want := []types.NamespacedName{{Namespace: namespace, Name: "db-0"}, {Namespace: namespace, Name: "db-1"}}
	if err != nil || !slices.Equal(strays, want) {
		t.Errorf("%v, %v; want %v", strays, err, want)
	}
}

// TestUpgradeable sets OLM's condition while a pod has lost its StatefulSet, and only when it changes.
func TestUpgradeable(t *testing.T) {
	w := newWorld(t, newStored(t, kindNamed(t, "CloudManager"), specs["CloudManager"]))
	condition := &recordedCondition{}
	u := &upgradeable{client: w.Client, condition: condition}
	pod := newDatabasePod("db-0", "web")
	for _, c := range []struct {
		what  string
		do    func()
		times int
		want  string
	}{
		{"at the start", func() {}, 1, "True/Upgradeable"},
		{"nothing happens", func() {}, 1, "True/Upgradeable"},
		{"a pod loses its StatefulSet", func() { w.create(pod) }, 2, "False/StatefulSetReplaced"},
		{"nothing happens again", func() {}, 2, "False/StatefulSetReplaced"},
		{"another one does", func() { w.create(newDatabasePod("db-1", "web")) }, 3, "False/StatefulSetReplaced"},
		{"one is taken again", func() { w.remove(pod) }, 4, "False/StatefulSetReplaced"},
		{"the CloudManager is gone", func() { w.remove(newStored(t, kindNamed(t, "CloudManager"), "{}")) }, 5, "True/Upgradeable"},
	} {
		c.do()
		if _, err := u.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		last := condition.set[len(condition.set)-1]
		if got := fmt.Sprintf("%s/%s", last.Status, last.Reason); got != c.want || len(condition.set) != c.times {
			t.Errorf("%s: %s, set %d times; want %s, %d", c.what, got, len(condition.set), c.want, c.times)
		}
		if last.Status == metav1.ConditionFalse && !strings.Contains(last.Message, "default/db-") {
			t.Errorf("%s: %s", c.what, last.Message)
		}
	}
}

// TestUpgradeableFails returns what keeps it from knowing, or from saying so.
func TestUpgradeableFails(t *testing.T) {
	broken := errors.New("broken")
	w := newWorld(t)
	u := &upgradeable{client: w.Client, condition: &recordedCondition{fail: broken}}
	if _, err := u.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, broken) {
		t.Errorf("the condition cannot be set: %v", err)
	}
	for what, funcs := range map[string]interceptor.Funcs{
		"pods": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }},
		"CloudManagers": {
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				if pods, ok := list.(*corev1.PodList); ok {
					pods.Items = []corev1.Pod{*newDatabasePod("db-0", "web")}
				}
				return nil
			},
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return broken
			},
		},
	} {
		condition := &recordedCondition{}
		u := &upgradeable{client: interceptor.NewClient(nil, funcs), condition: condition}
		if _, err := u.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, broken) || len(condition.set) > 0 {
			t.Errorf("%s cannot be read: %v, and it says %v", what, err, condition.set)
		}
	}
}

// TestFirstPods names some pods.
func TestFirstPods(t *testing.T) {
	var pods []types.NamespacedName
	for i := range 6 {
		pods = append(pods, types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)})
	}
	for n, want := range map[int]string{1: "a/0", 5: "a/0, a/1, a/2, a/3, a/4", 6: "a/0, a/1, a/2, a/3, a/4, …"} {
		if got := firstPods(pods[:n]); got != want {
			t.Errorf("%d pods: %s, want %s", n, got, want)
		}
	}
}

// TestWithoutOLM has no condition where OLM has not installed the operator.
func TestWithoutOLM(t *testing.T) {
	t.Setenv("OPERATOR_CONDITION_NAME", "")
	if condition, err := OperatorCondition(nil); condition != nil || err != nil {
		t.Errorf("%v, %v", condition, err)
	}
	if err := (&upgradeable{}).SetupWithManager(nil, nil, nil); err != nil {
		t.Error(err)
	}
}
