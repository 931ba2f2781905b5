package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/test/play"
)

// holdAndUnhold holds a ReplicaSet of a resource whose canary was aborted, and ends the hold: the abort is in force again.
func (w *world) holdAndUnhold(kindName, hold string) {
	w.t.Helper()
	w.annotate(kindName, appv1.AnnotationHold, hold)
	w.settle(kindName)
	w.stands("held", kindName, "Applied=False/Held")
	w.annotate(kindName, appv1.AnnotationHold, "")
	w.settle(kindName)
	w.settle(kindName)
	w.stands("after the hold", kindName, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack", "CanaryReady=/")
	w.runs("after the hold", "nginx:1", "")
	w.requests = nil
	w.settle(kindName)
	w.wrote("after the hold")
}

// undo changes the Deployment web as kubectl rollout undo does: its template and its annotations become those of a ReplicaSet.
func (w *world) undo(set *appsv1.ReplicaSet) {
	w.t.Helper()
	d := w.deployment()
	d.Spec.Template, d.Annotations = *workload.TemplateOf(set), maps.Clone(set.Annotations)
	if err := w.Client.Update(w.t.Context(), d, client.FieldOwner("kubectl-rollout")); err != nil {
		w.t.Fatal(err)
	}
}

// newUndoWorld returns a world whose resource has run nginx:0 and runs nginx:1, and the ReplicaSet of nginx:0.
func newUndoWorld(t *testing.T, kindName string) (*world, *appsv1.ReplicaSet) {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:0", onePort)))
	w.generations = true
	var sets []*appsv1.ReplicaSet
	for i := range 2 {
		w.setSpec(kindName, flowSpec(kindName, fmt.Sprintf("nginx:%d", i), onePort))
		w.settle(kindName)
		sets = append(sets, w.replicaSet(fmt.Sprintf("web-%d", i)))
		w.run(kindName, sets[i])
		w.settle(kindName)
	}
	return w, sets[0]
}

// TestUndoOfAnEarlierSpec has kubectl rollout undo change a Deployment while an earlier spec is in force: it is repaired, and the spec that waits still waits,
// also if the spec is invalid for a while.
func TestUndoOfAnEarlierSpec(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		stalls := func(image string) string {
			return withField(flowSpec(name, image, onePort), `"rollback":"OnStall"`)
		}
		canary := func(image string) string { return canarySpecOf(name, image, byHand) }
		for what, c := range map[string]struct {
			spec   func(image string) string
			begin  func(*world)
			canary string
			stands string
		}{
			"a canary": {canary, func(*world) {}, "nginx:2", "Applied=False/Canary"},
			"an abort": {canary, func(w *world) { w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID)) }, "", "Applied=False/RolledBack"},
			"a hold":   {canary, func(w *world) { w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood) }, "", "Applied=False/Held"},
			"a hold that is over": {canary, func(w *world) {
				w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
				w.settle(name)
				w.holdAndUnhold(name, "web-0")
			}, "", "Applied=False/RolledBack"},
			"a rollback": {stalls, func(w *world) { w.setRollout(play.SetTimedOut) }, "", "Applied=False/RolledBack"},
		} {
			for _, invalid := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %t", what, invalid), func(t *testing.T) {
					w, earlier := newUndoWorld(t, name)
					w.setSpec(name, c.spec("nginx:2"))
					w.settle(name)
					c.begin(w)
					w.settle(name)
					w.settle(name)
					w.runs("begin", "nginx:1", c.canary)
					before := w.deployment()
					w.undo(earlier)
					if invalid {
						w.setSpec(name, strings.Replace(c.spec("nginx:2"), onePort, `[{"port":80},{"port":80}]`, 1))
						w.settle(name)
						w.runs("invalid", "nginx:1", c.canary)
						w.undo(earlier)
						w.setSpec(name, c.spec("nginx:2"))
					}
					w.settle(name)
					w.settle(name)
					w.runs("after the undo", "nginx:1", c.canary)
					w.stands("after the undo", name, c.stands)
					is := w.deployment()
					for _, key := range []string{appv1.AnnotationHeld, appv1.AnnotationLastAppliedSpec, appv1.AnnotationLastAppliedInputs} {
						if is.Annotations[key] != before.Annotations[key] {
							t.Errorf("the annotation %s is %s, and was %s", key, is.Annotations[key], before.Annotations[key])
						}
					}
					w.requests = nil
					w.settle(name)
					w.wrote("after the undo")
				})
			}
		}
	})
}

// TestPlanAfterAnUndo plans no change of a resource whose Deployment kubectl rollout undo has changed while a canary waits: the plan has the repair.
func TestPlanAfterAnUndo(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w, earlier := newUndoWorld(t, name)
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.undo(earlier)
		live := kindNamed(t, name).empty()
		typed, ok := kindNamed(t, name).New().(client.Object)
		if !w.read(live) || !ok {
			t.Fatalf("there is no %s", name)
		}
		text, err := json.Marshal(live)
		if err := errors.Join(err, json.Unmarshal(text, typed)); err != nil {
			t.Fatal(err)
		}
		typed.GetObjectKind().SetGroupVersionKind(appv1.GroupVersion.WithKind(name))
		made, err := newPlanner(w.Deps).Plan(t.Context(), name, typed)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(made.Lines(20, 240), "\n"); !strings.Contains(said, "Deployment web: changed") || strings.Contains(said, "web-canary") {
			t.Errorf("the plan is %s", said)
		}
		w.settle(name)
		w.runs("after the undo", "nginx:1", "nginx:2")
	})
}

// TestUndoBeforeARestart has kubectl rollout undo change a Deployment while a canary waits, or after its abort, and another operator begin, which remembers no
// record: nothing of the change is rolled out without a canary.
func TestUndoBeforeARestart(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for _, abort := range []bool{false, true} {
			t.Run(fmt.Sprint(abort), func(t *testing.T) {
				w, earlier := newUndoWorld(t, name)
				w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
				w.settle(name)
				uid := w.canary().UID
				if abort {
					w.annotate(name, appv1.AnnotationAbort, string(uid))
					w.settle(name)
				}
				w.undo(earlier)
				w.restart()
				w.settle(name)
				w.settle(name)
				w.runs("after the undo", "nginx:0", "nginx:2")
				w.stands("after the undo", name, "Applied=False/Canary")
				if is := w.canary(); is != nil && !abort && is.UID != uid {
					t.Error("the canary is another one")
				}
				w.promoteCanary(name)
				w.settle(name)
				w.runs("promoted", "nginx:2", "nginx:2")
			})
		}
	})
}

// TestHoldOfAnAbortedCanary aborts a canary, holds a ReplicaSet, and ends the hold: the abort goes on as if there had been no hold. Its ways out are the same.
func TestHoldOfAnAbortedCanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, c := range map[string]struct {
			change        func(*world)
			image, canary string
		}{
			"the field is removed": {func(w *world) { w.setSpec(name, flowSpec(name, "nginx:2", onePort)) }, "nginx:2", ""},
			"another spec":         {func(w *world) { w.setSpec(name, canarySpecOf(name, "nginx:3", byHand)) }, "nginx:1", "nginx:3"},
			"a refresh":            {func(w *world) { w.annotate(name, appv1.AnnotationRefresh, "once more") }, "nginx:1", "nginx:2"},
			"the spec as it was":   {func(w *world) { w.setSpec(name, canarySpecOf(name, "nginx:1", byHand)) }, "nginx:1", ""},
		} {
			for _, hold := range []string{appv1.HoldLastGood, "web-1", "web-0"} {
				t.Run(strings.ReplaceAll(what+" "+hold, " ", "-"), func(t *testing.T) {
					w, _ := newUndoWorld(t, name)
					w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
					w.settle(name)
					w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
					w.settle(name)
					mark := w.deployment().Annotations[appv1.AnnotationHeld]
					w.holdAndUnhold(name, hold)
					if is := w.deployment().Annotations[appv1.AnnotationHeld]; is != mark {
						t.Errorf("the mark is %s, and was %s", is, mark)
					}
					c.change(w)
					w.settle(name)
					w.settle(name)
					w.runs(what, c.image, c.canary)
				})
			}
		}
	})
}
