package health

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestJobAwaitsPod has Jobs of different ages and states: only one that has had no pod awaits one, and is due after the patience.
func TestJobAwaitsPod(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		age     time.Duration
		suspend bool
		status  batchv1.JobStatus
		awaits  bool
		again   time.Duration
	}{
		"new":                         {age: 10 * time.Second, awaits: true, again: 20 * time.Second},
		"without a pod":               {age: time.Minute, awaits: true},
		"resumed after a while":       {age: time.Hour, status: batchv1.JobStatus{StartTime: ptr.To(metav1.NewTime(now.Add(-5 * time.Second)))}, awaits: true, again: 25 * time.Second},
		"suspended":                   {age: time.Minute, suspend: true},
		"active":                      {age: time.Minute, status: batchv1.JobStatus{Active: 1}},
		"between two pods":            {age: time.Minute, status: batchv1.JobStatus{Failed: 1}},
		"its pod ends after a drain":  {age: time.Minute, status: batchv1.JobStatus{Terminating: ptr.To[int32](1)}},
		"no pod ends, as is reported": {age: time.Minute, status: batchv1.JobStatus{Terminating: ptr.To[int32](0)}, awaits: true},
	} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-c.age))}, Status: c.status}
		job.Spec.Suspend = &c.suspend
		if awaits, again := JobAwaitsPod(job, now); awaits != c.awaits || again != c.again {
			t.Errorf("%s: awaits a pod is %t, again after %s", name, awaits, again)
		}
	}
}
