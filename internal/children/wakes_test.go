package children

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appv1 "huolala.cn/app-operator/api/v1"
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

// TestJobChanged has each change of a Job wake its resource that a condition speaks of: a Job is suspended, goes on, has its first pod, ends.
func TestJobChanged(t *testing.T) {
	wakes := jobChanged()
	for what, c := range map[string]struct {
		change func(*batchv1.Job)
		want   bool
	}{
		"suspended":             {func(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) }, true},
		"said not to be":        {func(job *batchv1.Job) { job.Spec.Suspend = ptr.To(false) }, false},
		"active":                {func(job *batchv1.Job) { job.Status.Active = 1 }, true},
		"failed in its first":   {func(job *batchv1.Job) { job.Status.Failed = 1 }, true},
		"ended before a report": {func(job *batchv1.Job) { job.Status.Succeeded = 1 }, true},
		"ending its pod":        {func(job *batchv1.Job) { job.Status.Terminating = ptr.To[int32](1) }, true},
		"ready":                 {func(job *batchv1.Job) { job.Status.Ready = ptr.To[int32](1) }, false},
		"complete": {func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}, true},
		"about to go": {func(job *batchv1.Job) { job.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
	} {
		before := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
		after := before.DeepCopy()
		c.change(after)
		if got := wakes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("a Job that is %s: wakes %v, want %v", what, got, c.want)
		}
	}
}

// TestAutoscalerChanged has a problem of an autoscaler of the operator wake its resource when its words change, as the condition has them.
func TestAutoscalerChanged(t *testing.T) {
	scaler := func(message string, pods int32) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}},
			Status: autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: pods, Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
				{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric", Message: message},
			}},
		}
	}
	for _, c := range []struct {
		old, now *autoscalingv2.HorizontalPodAutoscaler
		want     bool
	}{
		{scaler("no metrics", 1), scaler("no request of cpu", 1), true},
		{scaler("no metrics", 1), scaler("no metrics", 2), false},
	} {
		if got := scalingChanged().Update(event.UpdateEvent{ObjectOld: c.old, ObjectNew: c.now}); got != c.want {
			t.Errorf("from %q to %q: wakes %v, want %v", c.old.Status.Conditions[0].Message, c.now.Status.Conditions[0].Message, got, c.want)
		}
	}
}

// TestClaimChanged has a claim wake its resource when its size changes and when its volume fails to grow, and not with each further attempt. What the
// cache keeps of the claim is enough for that.
func TestClaimChanged(t *testing.T) {
	claim := func(size, failure string) *corev1.PersistentVolumeClaim {
		made := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}}}
		made.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		made.Status.Phase = corev1.ClaimBound
		if failure != "" {
			made.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, Message: failure,
			}}
		}
		return made
	}
	kept := func(of *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		to := of.DeepCopy()
		if reduceClaim(of, to) {
			t.Error("a small claim is cut")
		}
		return to
	}
	for name, c := range map[string]struct {
		old, now *corev1.PersistentVolumeClaim
		want     bool
	}{
		"nothing":        {claim("1Gi", ""), claim("1Gi", ""), false},
		"another size":   {claim("1Gi", ""), claim("2Gi", ""), true},
		"it fails":       {claim("2Gi", ""), claim("2Gi", "no space"), true},
		"it fails again": {claim("2Gi", "no space (1)"), claim("2Gi", "no space (2)"), false},
		"it succeeds":    {claim("2Gi", "no space"), claim("2Gi", ""), true},
	} {
		old, now := kept(c.old), kept(c.now)
		if old.Status.Phase != "" {
			t.Errorf("%s: the status is kept: %+v", name, old.Status)
		}
		if got := claimChanged().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}); got != c.want {
			t.Errorf("%s: wakes %t, want %t", name, got, c.want)
		}
	}
}
