package health

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// statefulSet returns a StatefulSet in generation 2, which its controller has seen, between two revisions.
func statefulSet(wanted, replicas, updated, available int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: 2},
		Spec:       appsv1.StatefulSetSpec{Replicas: &wanted},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available,
			CurrentRevision: "db-1", UpdateRevision: "db-2",
		},
	}
}

// changed returns a StatefulSet with a change to it.
func changed(s *appsv1.StatefulSet, change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	change(s)
	return s
}

// finished returns a StatefulSet whose latest revision is the current one.
func finished(wanted, replicas, updated, available int32) *appsv1.StatefulSet {
	return changed(statefulSet(wanted, replicas, updated, available), func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = "db-2" })
}

func TestStatefulSet(t *testing.T) {
	badImage := waiting("ErrImagePull", "not found")
	progressing := func(words string) Verdict {
		return Verdict{Reason: appv1.ReasonProgressing, Message: "StatefulSet db: " + words}
	}
	ready := func(words string) Verdict {
		return Verdict{Ready: true, Reason: appv1.ReasonReady, Message: "StatefulSet db: " + words}
	}
	for name, c := range map[string]struct {
		statefulSet *appsv1.StatefulSet
		pods        []corev1.Pod
		want        Verdict
	}{
		"ready":                              {finished(3, 3, 3, 3), nil, ready("3 pods available")},
		"ready, replicas left to default":    {changed(finished(1, 1, 1, 1), func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), nil, ready("1 pod available")},
		"ready, whatever a pod once said":    {finished(1, 1, 1, 1), []corev1.Pod{badImage}, ready("1 pod available")},
		"all updated, not made current yet":  {statefulSet(3, 3, 3, 3), nil, progressing("3 of 3 pods updated, 3 available")},
		"one to be updated":                  {statefulSet(3, 3, 2, 3), nil, progressing("2 of 3 pods updated, 3 available")},
		"the updated one is not available":   {finished(3, 3, 3, 2), nil, progressing("3 of 3 pods updated, 2 available")},
		"scaled down, pods left":             {finished(1, 3, 3, 3), nil, progressing("2 pods of 3 to be removed")},
		"scaled to zero, pods left":          {finished(0, 1, 1, 1), nil, progressing("1 pod of 1 to be removed")},
		"scaled down and updated, pods left": {statefulSet(1, 3, 1, 3), nil, progressing("1 of 1 pod updated, 3 available")},
		"scaled to zero": {
			finished(0, 0, 0, 0), nil,
			Verdict{Ready: true, Reason: appv1.ReasonScaledToZero, Message: "StatefulSet db: scaled to 0 replicas, no pod is running"},
		},
		"change not seen, all of the earlier ready": {
			changed(finished(3, 3, 3, 3), func(s *appsv1.StatefulSet) { s.Generation = 3 }), []corev1.Pod{badImage},
			progressing("waiting for its controller to observe the latest change"),
		},
		"new, not seen": {
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Generation: 1}}, nil,
			progressing("waiting for its controller to observe the latest change"),
		},
		"pods missing, which no condition explains": {
			finished(3, 1, 1, 1), nil,
			progressing(`1 of 3 pods updated, 1 available, 2 not created yet; if this persists, see "kubectl describe statefulset/db -n shop"`),
		},
		"a pod says why": {
			finished(3, 1, 1, 0), []corev1.Pod{badImage},
			Verdict{Reason: appv1.ReasonImagePullBackOff, Message: `StatefulSet db: container "main": image "registry/web:v2" cannot be pulled: not found`},
		},
		"a partition holds it back": {
			changed(statefulSet(3, 3, 1, 3), func(s *appsv1.StatefulSet) {
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}
			}), nil,
			progressing("1 of 3 pods updated, 3 available"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := StatefulSet(c.statefulSet, c.pods)
			checkDetail(t, got)
			got.Detail = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	long := StatefulSet(finished(1, 0, 0, 0), []corev1.Pod{unschedulable(strings.Repeat("long\n", 1000))})
	if len(long.Message) > 1000 || strings.Contains(long.Message, "\n") || long.Reason != appv1.ReasonUnschedulable {
		t.Errorf("%s: the message has %d bytes, or more than one line: %.1000q", long.Reason, len(long.Message), long.Message)
	}
}

func TestUp(t *testing.T) {
	for _, c := range []struct {
		wanted, ready int32
		up            bool
	}{
		{0, 0, true}, {0, 1, true}, {1, 0, false}, {1, 1, true}, {2, 1, false}, {2, 2, true}, {3, 1, false}, {3, 2, true}, {4, 2, false},
		{5, 3, true}, {1, 2, true}, {math.MaxInt32, math.MaxInt32/2 + 1, true}, {math.MaxInt32, math.MaxInt32 / 2, false},
	} {
		if got := Up(c.wanted, c.ready); got != c.up {
			t.Errorf("%d ready of %d: up is %t, want %t", c.ready, c.wanted, got, c.up)
		}
	}
}
