package health

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// wrote returns the entry of managedFields of a manager that has the template of the pods, from when it wrote last.
func wrote(when time.Time) metav1.ManagedFieldsEntry {
	return wroteFields(when, `{"f:metadata":{"f:annotations":{"f:a":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{}}}}`)
}

func wroteFields(when time.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: "writer", Time: ptr.To(metav1.NewTime(when)), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

// TestDeploymentWithoutEstimate judges rollouts whose condition Progressing is about the rollout before, which the Deployment's controller does not measure.
func TestDeploymentWithoutEstimate(t *testing.T) {
	changed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}
	measured := before
	measured.Reason = "ReplicaSetUpdated"
	never := changed.Add(24 * time.Hour)
	exceeded := func(after time.Duration) appsv1.DeploymentCondition {
		c := deadlineExceeded
		c.LastUpdateTime = metav1.NewTime(changed.Add(after))
		return c
	}
	earlier := exceeded(-time.Minute)
	minutes := func(n int) time.Time { return changed.Add(time.Duration(n) * time.Minute) }
	unobserved := func(d *appsv1.Deployment) { d.Generation = 3 }
	pausedRollout := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	deadline := func(seconds int32) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = &seconds }
	}
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		now        time.Time
		again      time.Duration
		stalled    bool
	}{
		"in time":          {deployment(3, 4, 1, 3, before), minutes(4), 6 * time.Minute, false},
		"overdue":          {deployment(3, 4, 1, 3, before), minutes(10), 0, true},
		"no pod yet":       {deployment(3, 3, 0, 3, before), minutes(11), 0, true},
		"measured":         {deployment(3, 4, 1, 3, measured), never, 0, false},
		"pods were lost":   {deployment(3, 3, 3, 1, before), never, 0, false},
		"scaled":           {deployment(5, 3, 3, 3, before), never, 0, false},
		"without a status": {deployment(3, 4, 1, 3), never, 0, false},
		"not observed":     {with(deployment(3, 4, 1, 3, before), unobserved), never, 0, false},
		"paused":           {with(deployment(3, 4, 1, 3, before), pausedRollout), never, 0, false},
		"another deadline": {with(deployment(3, 4, 1, 3, before), deadline(60)), minutes(1), 0, true},
		"no deadline":      {with(deployment(3, 4, 1, 3, before), deadline(1<<31-1)), never, 0, false},

		"timed out":                       {deployment(3, 4, 1, 3, exceeded(10*time.Minute)), minutes(10), 0, true},
		"timed out, of an unknown time":   {deployment(3, 4, 1, 3, deadlineExceeded), minutes(1), 0, true},
		"the one before had timed out":    {deployment(3, 4, 0, 3, earlier), minutes(0), 10 * time.Minute, false},
		"the same, in time":               {deployment(3, 4, 1, 3, earlier), minutes(4), 6 * time.Minute, false},
		"the same, overdue":               {deployment(3, 4, 1, 3, earlier), minutes(10), 0, true},
		"the same, no pod beyond those":   {deployment(3, 3, 3, 1, earlier), minutes(4), 6 * time.Minute, false},
		"the same, not observed":          {with(deployment(3, 4, 1, 3, earlier), unobserved), never, 0, false},
		"the same, paused":                {with(deployment(3, 4, 1, 3, earlier), pausedRollout), never, 0, false},
		"the same, without a deadline":    {with(deployment(3, 4, 1, 3, earlier), deadline(1<<31-1)), never, 0, false},
		"it timed out in the same second": {deployment(3, 4, 0, 3, exceeded(0)), minutes(4), 6 * time.Minute, false},
		"it timed out within the skew":    {deployment(3, 4, 0, 3, exceeded(2*time.Second)), minutes(4), 6 * time.Minute, false},
		"it timed out later":              {deployment(3, 4, 1, 3, exceeded(3*time.Second)), minutes(1), 0, true},
		"a short deadline":                {with(deployment(3, 4, 1, 3, exceeded(2*time.Second)), deadline(1)), minutes(1), 0, true},
	} {
		c.deployment.ManagedFields = []metav1.ManagedFieldsEntry{wrote(changed.Add(-time.Hour)), wrote(changed), {Subresource: "status", Time: ptr.To(metav1.NewTime(never))}}
		v := Deployment(c.deployment, []corev1.Pod{waiting("ImagePullBackOff", "")}, c.now)
		if v.Ready || v.Stalled != c.stalled || v.Again != c.again || strings.Contains(v.Message, "no progress for") != c.stalled {
			t.Errorf("%s: %+v, want stalled %t, again in %s", name, v, c.stalled, c.again)
		}
	}
}

// TestDeadlineCountsFromTheTemplate has writes of other fields follow a rollout: none starts its deadline again.
func TestDeadlineCountsFromTheTemplate(t *testing.T) {
	changed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now := changed.Add(20 * time.Minute)
	exceeded := deadlineExceeded
	exceeded.LastUpdateTime = metav1.NewTime(changed.Add(10 * time.Minute))
	unmeasured := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}
	scaled := wroteFields(now, `{"f:spec":{"f:replicas":{}}}`)
	scaled.Subresource = "scale"
	for name, c := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		// stalled and unmeasured are the verdicts with the two conditions.
		stalled, unmeasured bool
	}{
		"nothing":          {[]metav1.ManagedFieldsEntry{wrote(changed)}, true, true},
		"the template":     {[]metav1.ManagedFieldsEntry{wrote(changed), wrote(now)}, false, false},
		"an autoscaler":    {[]metav1.ManagedFieldsEntry{wrote(changed), scaled}, true, true},
		"replicas":         {[]metav1.ManagedFieldsEntry{wrote(changed), wroteFields(now, `{"f:spec":{"f:replicas":{}}}`)}, true, true},
		"an annotation":    {[]metav1.ManagedFieldsEntry{wrote(changed), wroteFields(now, `{"f:metadata":{"f:annotations":{"f:template":{}}}}`)}, true, true},
		"no text":          {[]metav1.ManagedFieldsEntry{wrote(changed), wroteFields(now, `{`)}, true, true},
		"no fields":        {[]metav1.ManagedFieldsEntry{wrote(changed), {Manager: "writer", Time: ptr.To(metav1.NewTime(now))}}, true, true},
		"no time":          {[]metav1.ManagedFieldsEntry{{Manager: "writer", FieldsV1: wrote(now).FieldsV1}}, true, false},
		"its status alone": {[]metav1.ManagedFieldsEntry{{Subresource: "status", Time: ptr.To(metav1.NewTime(now))}}, true, false},
		"no managers":      {nil, true, false},
	} {
		for _, condition := range []appsv1.DeploymentCondition{exceeded, unmeasured} {
			want := c.stalled
			if condition.Reason == unmeasured.Reason {
				want = c.unmeasured
			}
			d := deployment(3, 4, 1, 3, condition)
			d.ManagedFields = c.entries
			if v := Deployment(d, nil, now); v.Stalled != want {
				t.Errorf("%s, %s: %+v, want stalled %t", name, condition.Reason, v, want)
			}
		}
	}
}
