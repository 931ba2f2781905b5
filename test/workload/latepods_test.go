package workload

import (
	"fmt"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestLateViewOfPods rolls out an image while the manager sees the Deployment and not yet its pods: those of before are still there, or none
// is. Once the manager sees the pods, the status names the ReplicaSet that runs, which a rollback would go to.
func TestLateViewOfPods(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			var pods harness.Gate
			plane.Start(t, ns, harness.WithFault(pods.Before("pods")))
			t.Cleanup(pods.Open)
			app := newApp(ns)
			app.Spec.Replicas = &replicas
			pods.Close()
			plane.Create(t, app)
			ready(t, app)
			pods.Open()
			runsGood(t, app, app.Spec.Image)

			pods.Close()
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
			ready(t, app)
			pods.Open()
			runsGood(t, app, app.Spec.Image)
		})
	}
}

// runsGood waits until the ReplicaSet of an image, the newest one, is the running one and the last good one.
func runsGood(t *testing.T, app *appv1.App, image string) {
	t.Helper()
	before := app.Status.LastGood
	plane.Until(t, app, func() error {
		is := &app.Status.HistoryStatus
		if is.LastGood == nil || is.LastGood.Image != image || is.LastGood.ReplicaSet != is.ReplicaSet {
			return fmt.Errorf("%s runs; the status has %+v, last good %+v", image, is, is.LastGood)
		}
		if before != nil && before.ReplicaSet == is.ReplicaSet {
			return fmt.Errorf("the ReplicaSet of before counts as that of %s", image)
		}
		return nil
	})
}
