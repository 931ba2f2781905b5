package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/play"
)

// onStall returns the spec of flowSpec, with rollbacks.
func onStall(kindName, image string) string {
	return strings.Replace(flowSpec(kindName, image, onePort), "{", `{"rollback":"OnStall",`, 1)
}

// stall has the rollout of the Deployment web time out, while a new pod cannot pull its image.
func (w *world) stall(kindName string) {
	w.t.Helper()
	d := w.deployment()
	play.SetTimedOut(d)
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.create(newPod(w.t, kindName, "web-new", "ImagePullBackOff"))
	w.requests = nil
}

// stalledWorld is heldWorld for specs with rollbacks, in which the pods of a third spec do not come up.
func stalledWorld(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), onStall(kindName, "nginx:1")))
	w.settle(kindName)
	w.run(kindName, w.replicaSet("web-1"))
	w.settle(kindName)
	w.stallRelease(kindName)
	w.sent()
	return w
}

// stallRelease gives the resource a spec whose rollout, to the ReplicaSet web-2, stalls.
func (w *world) stallRelease(kindName string) {
	w.t.Helper()
	w.setSpec(kindName, onStall(kindName, "nginx:none"))
	w.settle(kindName)
	w.replicaSet("web-2")
	w.stall(kindName)
}

// TestRollbackFlow rolls a spec back whose pods do not come up, once: it is not tried again while it stays, also by another operator, and
// a spec that is another one, or a new refresh annotation, counts at once.
func TestRollbackFlow(t *testing.T) {
	for _, name := range heldKinds() {
		for try, again := range map[string]func(*world){
			"nginx:3":    func(w *world) { w.setSpec(name, onStall(name, "nginx:3")) },
			"nginx:none": func(w *world) { w.annotate(name, appv1.AnnotationRefresh, "once more") },
			"nginx:off":  func(w *world) { w.setSpec(name, flowSpec(name, "nginx:off", onePort)) },
		} {
			t.Run(name+"/"+try, func(t *testing.T) {
				w := stalledWorld(t, name)
				status := "status " + name + " web"
				w.settle(name)
				w.wrote("rollback", "patch Deployment web", status)
				if got := w.image(); got != "nginx:1" {
					t.Errorf("the image is %s", got)
				}
				w.stands("rollback", name, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack")
				if got := w.message(name, appv1.ConditionApplied); !containsAll(got, "nginx:none", "ImagePullBackOff", "web-1", "nginx:1", appv1.AnnotationRefresh) || strings.Contains(got, "Fix the cause") {
					t.Errorf("Applied says %q", got)
				}
				w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
				w.settle(name)
				w.stands("its pods run", name, "Ready=False/RolledBack", "Stalled=True/RolledBack")
				w.restart()
				w.requests = nil
				w.settle(name)
				w.wrote("restart of the operator")
				w.setSpec(name, onStall(name, "nginx:none"))
				w.settle(name)
				w.wrote("the same spec again", status)

				again(w)
				w.settle(name)
				if got := w.image(); got != try {
					t.Errorf("the image is %s, want %s", got, try)
				}
				w.stands("one more try", name, "Applied=True/Applied", "Stalled=False/NotStalled")
			})
		}
	}
}

// TestRollbackOfEachTry rolls back the one more attempt that a refresh annotation asks for, too. To remove the annotation is no attempt.
func TestRollbackOfEachTry(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := stalledWorld(t, name)
		w.settle(name)
		w.stands("rollback", name, "Applied=False/RolledBack")
		w.annotate(name, appv1.AnnotationRefresh, "once more")
		w.settle(name)
		if got := w.image(); got != "nginx:none" {
			t.Errorf("one more attempt: the image is %s", got)
		}
		w.endPods()
		w.stall(name)
		w.settle(name)
		w.stands("one more rollback", name, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack")
		if got := w.image(); got != "nginx:1" {
			t.Errorf("one more rollback: the image is %s", got)
		}
		w.settle(name)
		w.requests = nil
		w.annotate(name, "example.com/other", "1")
		w.settle(name)
		w.requests = withoutStatus(w.requests)
		w.wrote("without the annotation")
	})
}

// TestRollbackAndHold holds a resource that is rolled back: the conditions are those of the hold, and those of the rollback after it.
func TestRollbackAndHold(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := stalledWorld(t, name)
		w.settle(name)
		w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
		w.settle(name)
		w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
		w.settle(name)
		w.stands("hold", name, "Applied=False/Held", "Ready=False/Held", "Stalled=False/NotStalled")
		if got := w.image(); got != "nginx:1" {
			t.Errorf("hold: the image is %s", got)
		}
		w.annotate(name, appv1.AnnotationHold, "")
		w.settle(name)
		w.stands("let go", name, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack")
		if got := w.image(); got != "nginx:1" {
			t.Errorf("let go: the image is %s", got)
		}
	})
}

// TestRollbackAndOlderHold holds a ReplicaSet that is older than the last good one while a spec is rolled back: after the hold, the rollback is in
// force again, with the last good ReplicaSet.
func TestRollbackAndOlderHold(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), onStall(name, "nginx:0")))
		w.settle(name)
		w.run(name, w.replicaSet("web-0"))
		w.settle(name)
		w.endPods()
		w.setSpec(name, onStall(name, "nginx:1"))
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.stallRelease(name)
		w.settle(name)
		for _, step := range []struct{ what, hold, image, condition string }{
			{"rolled back", "", "nginx:1", "Applied=False/RolledBack"},
			{"held", "web-0", "nginx:0", "Applied=False/Held"},
			{"let go", "", "nginx:1", "Applied=False/RolledBack"},
			{"idle", "", "nginx:1", "Applied=False/RolledBack"},
		} {
			w.annotate(name, appv1.AnnotationHold, step.hold)
			w.settle(name)
			w.stands(step.what, name, step.condition)
			if got := w.image(); got != step.image {
				t.Errorf("%s: the image is %s, want %s", step.what, got, step.image)
			}
		}
	})
}

// endPods deletes all pods, and raises the generation of the Deployment as the API server does for another template.
func (w *world) endPods() {
	w.t.Helper()
	if err := w.Client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	d := w.deployment()
	d.Generation++
	w.update(d)
}

// TestRollbackDeclined has rollouts that stall and are not undone: their pods stay, and Ready says why. Only a permission is asked for
// again.
func TestRollbackDeclined(t *testing.T) {
	gone := func(w *world) {
		if err := w.Client.Delete(w.t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-1"}}); err != nil {
			w.t.Fatal(err)
		}
	}
	forbidden := func(w *world) {
		w.unread = func(name string) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "replicasets"}, name, nil)
		}
	}
	change := func(do func(*appsv1.ReplicaSet)) func(*world) {
		return func(w *world) {
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
			if !w.read(set) {
				w.t.Fatal("there is no ReplicaSet")
			}
			do(set)
			w.update(set)
		}
	}
	for name, c := range map[string]struct {
		in    func(*world)
		says  string
		again bool
	}{
		"the ReplicaSet is gone":       {gone, "ReplicaSet web-1 does not exist", false},
		"the ReplicaSet is forbidden":  {forbidden, "may not read ReplicaSet web-1", true},
		"its record is gone":           {change(func(set *appsv1.ReplicaSet) { set.Annotations = nil }), "has no record", false},
		"its pods are odd":             {change(func(set *appsv1.ReplicaSet) { set.Spec.Template.Spec.Containers[0].Image = "evil:1" }), "has no record", false},
		"it is of another Deployment":  {change(func(set *appsv1.ReplicaSet) { set.OwnerReferences[0].UID = "other" }), "belongs to another Deployment", false},
		"its spec is the one that has": {sameSpec, "the spec is that of the last good ReplicaSet web-1", false},
	} {
		for _, kindName := range heldKinds() {
			t.Run(kindName+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				w := stalledWorld(t, kindName)
				c.in(w)
				reads := 0
				answer := w.unread
				w.unread = func(name string) error {
					reads++
					if answer != nil {
						return answer(name)
					}
					return nil
				}
				image := w.image()
				w.settle(kindName)
				w.stands(name, kindName, "Stalled=True/ImagePullBackOff", "Ready=False/ImagePullBackOff", "Applied=True/Applied")
				if got := w.message(kindName, appv1.ConditionReady); !containsAll(got, "There is no rollback, because ", c.says) {
					t.Errorf("Ready says %q", got)
				}
				before := reads
				result, err := w.reconcile(kindName)
				if err != nil || before != 1 || (reads > before) != c.again || (result.RequeueAfter > 0) != c.again {
					t.Errorf("after %d reads of ReplicaSets, once more: %d reads, %+v, %v", before, reads-before, result, err)
				}
				if got := w.image(); got != image {
					t.Errorf("the image is %s", got)
				}
				w.setSpec(kindName, onStall(kindName, "nginx:none-either"))
				w.settle(kindName)
				w.endPods()
				w.stall(kindName)
				before = reads
				if _, err := w.reconcile(kindName); err != nil || reads == before {
					t.Errorf("of another rollout that stalls, no ReplicaSet is read: %v", err)
				}
			})
		}
	}
}

// sameSpec has the last good ReplicaSet be of the spec that stalls: its pods ran, and do so no longer.
func sameSpec(w *world) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	if !w.read(set) {
		w.t.Fatal("there is no ReplicaSet")
	}
	w.remove(set)
	w.replicaSet("web-1")
}

// TestNoRollback has states in which nothing is rolled back, and no ReplicaSet is read.
func TestNoRollback(t *testing.T) {
	for _, kindName := range heldKinds() {
		for name, in := range map[string]func(*world){
			"not asked for": func(w *world) { w.setSpec(kindName, flowSpec(kindName, "nginx:none", onePort)) },
			"paused": func(w *world) {
				w.setSpec(kindName, strings.Replace(onStall(kindName, "nginx:none"), "{", `{"paused":true,`, 1))
			},
			"the spec is invalid":     func(w *world) { w.setSpec(kindName, onStall(kindName, "nginx:none ")) },
			"another spec is there":   func(w *world) { w.setSpec(kindName, onStall(kindName, "nginx:4")) },
			"nothing was good":        func(w *world) { w.forgetGood(kindName); w.stallAgain(kindName) },
			"the pods only take long": func(w *world) { w.makeProgress() },
			"the rollout had ended":   func(w *world) { w.losePods() },
		} {
			t.Run(kindName+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				w := stalledWorld(t, kindName)
				in(w)
				w.unread = func(name string) error {
					t.Errorf("ReplicaSet %s is read", name)
					return nil
				}
				_, _ = w.reconcile(kindName)
				if got := w.image(); got == "nginx:1" {
					t.Error("the rollout is undone")
				}
				if got := w.message(kindName, appv1.ConditionReady); strings.Contains(got, "There is no rollback") {
					t.Errorf("Ready says %q", got)
				}
			})
		}
	}
}

// stallAgain creates the pod again that does not come up.
func (w *world) stallAgain(kindName string) {
	w.t.Helper()
	w.create(newPod(w.t, kindName, "web-new", "ImagePullBackOff"))
}

// losePods has the pods of a complete rollout not be available any more.
func (w *world) losePods() {
	w.t.Helper()
	d := w.deployment()
	play.SetAvailable(d)
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// makeProgress takes back that the rollout of the Deployment web has timed out.
func (w *world) makeProgress() {
	w.t.Helper()
	d := w.deployment()
	d.Status.Conditions = nil
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
}
