package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/test/harness"
)

// asked is an OperatorCondition that remembers what it was told.
type asked struct {
	mu   sync.Mutex
	says *metav1.Condition
	sets int
	fail int
}

func (a *asked) Get(context.Context) (*metav1.Condition, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.says == nil {
		return nil, errors.New("not found")
	}
	return a.says.DeepCopy(), nil
}

func (a *asked) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail > 0 {
		a.fail--
		return errors.New("conflict")
	}
	a.sets++
	a.says = &metav1.Condition{Status: status}
	for _, option := range options {
		option(a.says)
	}
	return nil
}

// until waits for what OLM is told, and for how often it was told anything.
func (a *asked) until(t *testing.T, status metav1.ConditionStatus, reason, message string, sets int) {
	t.Helper()
	want := fmt.Sprintf("%s %s %s, told %d times", status, reason, message, sets)
	harness.Eventually(t, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.says == nil {
			return errors.New("it was never told")
		}
		got := fmt.Sprintf("%s %s %s, told %d times", a.says.Status, a.says.Reason, a.says.Message, a.sets)
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func withUpgradeable(condition conditions.Condition) harness.Option {
	return func(_ *harness.Manager, o *controllers.Options) {
		o.Upgradeable = func(*rest.Config) (conditions.Condition, error) { return condition, nil }
	}
}

// TestUpgradeable checks that OLM is told not to replace the operator while pods of a database are without their
// StatefulSet, also by a manager that starts meanwhile; and that no other pod is in the way.
func TestUpgradeable(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	olm := &asked{fail: 2}
	const upgradeable = "no operation is in progress that an upgrade would interrupt"
	m := plane.Start(t, ns, withUpgradeable(olm))
	olm.until(t, metav1.ConditionTrue, "Upgradeable", upgradeable, 1)

	// Paused, so that only this test makes objects of it.
	manager := cloudManager(ns)
	plane.Create(t, manager)
	set := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "1", Controller: ptr.To(true)}
	var strays []*corev1.Pod
	for i, p := range []struct {
		manager string
		owner   *metav1.OwnerReference
		label   string
	}{
		{manager.Name, set, appsv1.StatefulSetPodNameLabel}, // as it should be
		{manager.Name, nil, "some/label"},                   // made by hand
		{"gone", nil, appsv1.StatefulSetPodNameLabel},       // of a CloudManager that is no more
		{manager.Name, nil, appsv1.StatefulSetPodNameLabel},
		{manager.Name, nil, appsv1.StatefulSetPodNameLabel},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{
				appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelCloudManager: p.manager, p.label: "x",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "db"}}},
		}
		if p.owner != nil {
			pod.OwnerReferences = []metav1.OwnerReference{*p.owner}
		}
		if i < 3 {
			plane.Create(t, pod)
			continue
		}
		strays = append(strays, pod)
	}
	plane.Create(t, strays[0])
	const message = "the StatefulSet of these pods has not been recreated yet; see the status of the CloudManager: "
	third, fourth := ns+"/pod-3", ns+"/pod-4"
	olm.until(t, metav1.ConditionFalse, "StatefulSetReplaced", message+third, 2)
	plane.Create(t, strays[1])
	olm.until(t, metav1.ConditionFalse, "StatefulSetReplaced", message+third+", "+fourth, 3)

	// Another manager says the same, so there is nothing to say.
	m.Stop(t)
	plane.Start(t, ns, withUpgradeable(olm))
	plane.Change(t, strays[0], func() { strays[0].OwnerReferences = []metav1.OwnerReference{*set} })
	olm.until(t, metav1.ConditionFalse, "StatefulSetReplaced", message+fourth, 4)
	plane.Change(t, strays[1], func() { strays[1].OwnerReferences = []metav1.OwnerReference{*set} })
	olm.until(t, metav1.ConditionTrue, "Upgradeable", upgradeable, 5)

	// What is left of a CloudManager that is deleted is nobody's concern.
	plane.Change(t, strays[0], func() { strays[0].OwnerReferences = nil })
	olm.until(t, metav1.ConditionFalse, "StatefulSetReplaced", message+third, 6)
	plane.Delete(t, manager)
	olm.until(t, metav1.ConditionTrue, "Upgradeable", upgradeable, 7)
}

// cloudManager is one whose objects the operator leaves alone.
func cloudManager(ns string) *appv1.CloudManager {
	return &appv1.CloudManager{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "three"},
		Spec: appv1.CloudManagerSpec{
			Paused:   true,
			Front:    appv1.Tier{Deployment: appv1.Component{WorkloadSpec: appv1.WorkloadSpec{Image: "front"}}},
			Identity: appv1.Tier{Deployment: appv1.Component{WorkloadSpec: appv1.WorkloadSpec{Image: "identity"}}},
			DB: appv1.DatabaseTier{StatefulSet: appv1.Database{
				Component: appv1.Component{WorkloadSpec: appv1.WorkloadSpec{Image: "db"}},
				Storage:   appv1.Storage{Size: resource.MustParse("1Gi")},
			}},
		},
	}
}
