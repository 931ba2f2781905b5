package reconciler

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestObserveSettled checks which changes of the status count as the end of a time without readiness, and from when that is counted.
func TestObserveSettled(t *testing.T) {
	now := time.Unix(10_000, 0)
	app := func(age time.Duration, conditions ...metav1.Condition) *appv1.App {
		return &appv1.App{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     appv1.AppStatus{WorkloadStatus: appv1.WorkloadStatus{CommonStatus: appv1.CommonStatus{Conditions: conditions}}},
		}
	}
	is := func(kind string, status metav1.ConditionStatus, age time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))}
	}
	const yes, no, day = metav1.ConditionTrue, metav1.ConditionFalse, 24 * time.Hour
	up, down := is(appv1.ConditionReady, yes, 0), is(appv1.ConditionReady, no, time.Minute)
	stalled := is(appv1.ConditionStalled, yes, 0)
	for name, c := range map[string]struct {
		before, after *appv1.App
		result        string
		seconds       float64
	}{
		"created, and ready":       {app(7 * time.Second), app(7*time.Second, up), "ready", 7},
		"created, and stalled":     {app(7 * time.Second), app(7*time.Second, stalled), "stalled", 7},
		"ready after a change":     {app(day, down), app(day, up), "ready", 60},
		"stalled after a change":   {app(day, down), app(day, down, stalled), "stalled", 60},
		"ready after a correction": {app(day, down, is(appv1.ConditionStalled, no, 20*time.Second)), app(day, up), "ready", 20},
		"still under way":          {app(day, down), app(day, down), "", 0},
		"stays ready":              {app(day, up), app(day, up), "", 0},
		"is no longer ready":       {app(day, up), app(day, down), "", 0},
		"stays stalled":            {app(day, down, stalled), app(day, down, stalled), "", 0},
		"stalled, then ready":      {app(day, down, stalled), app(day, up), "", 0},
		"stalls while it is ready": {app(day, up), app(day, up, stalled), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			settled.Reset()
			r := &Reconciler[*appv1.App]{Kind: "App", Clock: clocktesting.NewFakePassiveClock(now)}
			r.observeSettled(c.before, c.after)
			series := make(chan prometheus.Metric, 10)
			settled.Collect(series)
			close(series)
			if (c.result != "") != (len(series) == 1) {
				t.Fatalf("%d series, want the result %q", len(series), c.result)
			}
			for s := range series {
				got := &dto.Metric{}
				if err := s.Write(got); err != nil {
					t.Fatal(err)
				}
				if sum := got.GetHistogram().GetSampleSum(); got.GetLabel()[1].GetValue() != c.result || sum != c.seconds {
					t.Errorf("%s after %g s, want %s after %g s", got.GetLabel()[1].GetValue(), sum, c.result, c.seconds)
				}
			}
		})
	}
}
