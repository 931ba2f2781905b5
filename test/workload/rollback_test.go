package workload

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestRollback rolls out an image that does not come up: the operator goes back by itself, the pods that ran go on, and the bad manifest,
// applied again and again, changes nothing. One more try fails in the same way, and another image comes up.
func TestRollback(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newApp(ns)
	app.Spec.Rollback, app.Spec.ProgressDeadlineSeconds = appv1.RollbackOnStall, ptr.To[int32](10)
	plane.Create(t, app)
	ready(t, app)
	plane.Until(t, app, func() error {
		if good := app.Status.LastGood; good == nil || good.ReplicaSet != app.Status.ReplicaSet {
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
	good, pods := app.Status.LastGood.ReplicaSet, uids(t, ns)
	plane.Change(t, app, func() { app.Spec.Image = "imagepullbackoff.test/x:1" })
	rolledBack := []string{"Applied=False/RolledBack", "Ready=False/RolledBack", "Reconciling=False", "Stalled=True/RolledBack"}
	plane.Stands(t, app, rolledBack...)
	harness.Says(t, app, "Stalled", "image imagepullbackoff.test/x:1 did not come up: ImagePullBackOff", "rolled back to image nginx:1.16.1 (ReplicaSet "+good+")")
	samePods(t, ns, pods)
	sets := replicaSetNames(t, ns)
	if len(sets) != 2 {
		t.Errorf("there are the ReplicaSets %q, want two", sets)
	}
	staysAsItIs(t, m, app, 10)
	j := harness.Follow[*appv1.App](t, plane, &appv1.AppList{}, ns)
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} })
	j.Passes(t, "applied again", func(a *appv1.App) bool {
		return meta.IsStatusConditionTrue(a.Status.Conditions, appv1.ConditionApplied)
	})
	plane.Stands(t, app, rolledBack...)
	samePods(t, ns, pods)
	if got := replicaSetNames(t, ns); !slices.Equal(got, sets) {
		t.Errorf("there are the ReplicaSets %q, and were %q", got, sets)
	}
	// A busy machine may need more than ten seconds for pods that come up.
	plane.Change(t, app, func() { app.Spec.Image, app.Spec.ProgressDeadlineSeconds = "nginx:1.17.0", nil })
	ready(t, app)
	plane.Until(t, app, func() error {
		if now := app.Status.LastGood; now.ReplicaSet == good || now.Image != "nginx:1.17.0" {
			return fmt.Errorf("the last good one is %+v", now)
		}
		return nil
	})
}
