package children

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestPodChanged has the pods of a ReplicaSet wake their resource when they come and when they go, each once, and the pods of others never
// by that.
func TestPodChanged(t *testing.T) {
	wakes := podChanged()
	pod := func(kind string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: ptr.To(true)}}
		}
		for _, c := range change {
			c(p)
		}
		return p
	}
	going := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	failing := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	}
	for kind, counts := range map[string]bool{"ReplicaSet": true, "StatefulSet": false, "Job": false, "": false} {
		for what, c := range map[string]struct{ got, want bool }{
			"created":                    {wakes.Create(event.CreateEvent{Object: pod(kind)}), counts},
			"there at the start":         {wakes.Create(event.CreateEvent{Object: pod(kind), IsInInitialList: true}), false},
			"in trouble at the start":    {wakes.Create(event.CreateEvent{Object: pod(kind, failing), IsInInitialList: true}), true},
			"running":                    {wakes.Update(event.UpdateEvent{ObjectOld: pod(kind), ObjectNew: pod(kind, running)}), false},
			"in trouble":                 {wakes.Update(event.UpdateEvent{ObjectOld: pod(kind), ObjectNew: pod(kind, failing)}), true},
			"about to go":                {wakes.Update(event.UpdateEvent{ObjectOld: pod(kind), ObjectNew: pod(kind, going)}), counts},
			"still about to go":          {wakes.Update(event.UpdateEvent{ObjectOld: pod(kind, going), ObjectNew: pod(kind, going, running)}), false},
			"gone":                       {wakes.Delete(event.DeleteEvent{Object: pod(kind, going)}), false},
			"gone at once":               {wakes.Delete(event.DeleteEvent{Object: pod(kind)}), counts},
			"released by its ReplicaSet": {wakes.Update(event.UpdateEvent{ObjectOld: pod(kind), ObjectNew: pod("")}), counts},
		} {
			if c.got != c.want {
				t.Errorf("a pod of %q that is %s: wakes %v, want %v", kind, what, c.got, c.want)
			}
		}
	}
}
