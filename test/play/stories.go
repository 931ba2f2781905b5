package play

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Stories are the stories that are told of each kind that can run an earlier spec. They take place in the world of the controllers' tests
// and on an API server.
var Stories = map[string]func(*Story){"hold": tellHold, "rollback": tellRollback}

// The requests of a change: of the Deployment, and of the status alone.
var (
	applied  = []string{"patch deployments", "patch STATUS", "create events"}
	restored = []string{"get replicasets", "patch deployments", "patch STATUS", "create events"}
	reported = []string{"patch STATUS"}
	told     = []string{"patch STATUS", "create events"}
)

// tellHold holds a resource at its last good ReplicaSet and lets it go again: as long as it is held, its spec waits, and costs nothing.
func tellHold(s *Story) {
	s.CreateResource(nil)
	first := s.beGood("a")
	s.Image("nginx:2")
	s.Runs("nginx:2")
	s.Wrote("hold", func() { s.Annotate(appv1.AnnotationHold, appv1.HoldLastGood) }, restored...)
	s.SameTemplate(first)
	s.Wrote("its pods are available", func() { s.RunPods(first) }, reported...)
	held := []string{"Applied=False/Held", "Ready=False/Held", "Reconciling=False/Held", "Stalled=False"}
	s.Stands(held...)
	s.Says(appv1.ConditionReady, "ReplicaSet web-a (nginx:1) is held", "the spec waits")
	s.Says(appv1.ConditionApplied, "web-a", "nginx:1", appv1.AnnotationHold)
	s.Wrote("nothing", func() {})
	s.Wrote("long annotations of others", func() { s.Annotate("example.com/long", strings.Repeat("v", 20<<10)) })
	s.Wrote("another spec", func() { s.Image("nginx:3") }, reported...)
	s.Wrote("a drift", s.drift, applied...)
	s.Wrote("another number of pods", func() { s.SetField("replicas", int64(3)) }, applied...)
	s.Runs("nginx:1")
	if d := s.ReadDeployment(); *d.Spec.Replicas != 3 {
		s.Errorf("there are %d pods", *d.Spec.Replicas)
	}
	s.MakeAvailable()
	s.Stands(held...)
	s.Wrote("restart", func() { s.Restart(s.TB) })
	s.Stands(held...)
	s.Wrote("let go", func() { s.Annotate(appv1.AnnotationHold, "") }, applied...)
	s.Runs("nginx:3")
	s.Unmarked()
	s.MakeAvailable()
	s.Stands("Applied=True/Applied", "Ready=True")
}

// tellRollback rolls a spec back that does not come up: then nothing moves, whatever is applied, and another spec starts clean.
func tellRollback(s *Story) {
	s.CreateResource(map[string]any{"rollback": appv1.RollbackOnStall, "envs": []any{map[string]any{"name": "PASSWORD", "value": "hunter2"}}})
	good := s.beGood("a")
	s.Wrote("an image", func() { s.Image("nginx:2") }, applied...)
	s.Wrote("it stalls", s.TimeOut, restored...)
	s.Runs("nginx:1")
	s.Wrote("its pods are available", func() { s.RunPods(good) }, reported...)
	rolledBack := []string{"Applied=False/RolledBack", "Ready=False/RolledBack", "Reconciling=False", "Stalled=True/RolledBack"}
	s.Stands(rolledBack...)
	for _, condition := range []string{appv1.ConditionReady, appv1.ConditionApplied, appv1.ConditionStalled} {
		s.Says(condition, "image nginx:2 did not come up: ProgressDeadlineExceeded: ", "rolled back to image nginx:1 (ReplicaSet web-a)",
			"Change the spec, or set app.huolala.cn/refresh")
	}
	s.SaysNothingOf("hunter2")
	s.Wrote("nothing", func() {})
	s.Wrote("the same manifest, by others", func() { s.Annotate("example.com/sync", "1") })
	s.Wrote("restart", func() { s.Restart(s.TB) })
	s.Wrote("the status is wiped, and a restart", func() { s.WipeStatus(); s.Restart(s.TB) }, told...)
	s.Stands(rolledBack...)
	invalid := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": int64(1)}}}}
	s.Wrote("an invalid spec", func() { s.SetField("podTemplatePatch", invalid) }, told...)
	s.Wrote("the same as before", func() { s.SetField("podTemplatePatch", nil) }, told...)
	s.SameTemplate(good)
	s.Wrote("the last good one fails, too", s.TimeOut, reported...)
	s.Stands(rolledBack...)
	s.Says(appv1.ConditionReady, "rolled back to image nginx:1 (ReplicaSet web-a)", "the rollout has not finished")
	s.Wrote("another number of pods", func() { s.SetField("replicas", int64(3)) }, applied...)
	s.Stands(rolledBack...)
	s.Wrote("another spec", func() { s.Image("nginx:3") }, applied...)
	s.Runs("nginx:3")
	s.Unmarked()
	s.IsLastGood(s.MakeReplicaSet("b"))
	s.Stands("Applied=True/Applied", "Ready=True", "Stalled=False")
}

// beGood has the operator work until the Deployment is there, and the pods of its ReplicaSet web-HASH be good.
func (s *Story) beGood(hash string) *appsv1.ReplicaSet {
	s.Helper()
	s.Stands("Ready=False/Progressing", "Stalled=False/NotStalled")
	set := s.MakeReplicaSet(hash)
	s.IsLastGood(set)
	s.Stands("Ready=True")
	return set
}

// drift changes the image of the Deployment behind the operator's back.
func (s *Story) drift() {
	s.Helper()
	d := s.ReadDeployment()
	s.Change(s.TB, d, func() { d.Spec.Template.Spec.Containers[0].Image = "x" })
}
