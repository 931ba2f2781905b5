package controllers

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/play"
)

// canarySpecOf returns the spec of flowSpec with the fields of a canary.
func canarySpecOf(kindName, image, fields string) string {
	return strings.Replace(flowSpec(kindName, image, onePort), "{", `{"canary":{`+fields+`},`, 1)
}

const (
	byHand   = ``
	byItself = `"promote":"Auto","after":"10m"`
)

// newCanaryWorld returns a world whose resource runs nginx:1, and then has the spec of nginx:2 with a canary, which is created.
func newCanaryWorld(t *testing.T, kindName, fields string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), canarySpecOf(kindName, "nginx:1", fields)))
	w.generations = true
	w.settle(kindName)
	w.wrote("the first pods", "patch Deployment web", "patch Service web", "status "+kindName+" web")
	w.run(kindName, w.replicaSet("web-1"))
	w.settle(kindName)
	w.requests = nil
	w.sent()
	w.setSpec(kindName, canarySpecOf(kindName, "nginx:2", fields))
	w.settle(kindName)
	w.wrote("start", "patch Deployment web-canary", "status "+kindName+" web")
	return w
}

// canary returns the Deployment of the canary, nil if there is none.
func (w *world) canary() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web-canary"}}
	if !w.read(d) {
		return nil
	}
	return d
}

// runCanary has all pods of the canary be available.
func (w *world) runCanary() {
	w.t.Helper()
	d := w.canary()
	play.SetAvailable(d)
	if err := w.Client.Status().Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

// promoteCanary sets the annotation that promotes the present canary.
func (w *world) promoteCanary(kindName string) {
	w.t.Helper()
	w.annotate(kindName, appv1.AnnotationPromote, string(w.canary().UID))
}

// runs fails the test unless the Deployment runs an image, and the canary another one, empty for no canary.
func (w *world) runs(what, image, canary string) {
	w.t.Helper()
	got := ""
	if d := w.canary(); d != nil {
		got = d.Spec.Template.Spec.Containers[0].Image
	}
	if w.image() != image || got != canary {
		w.t.Errorf("%s: the Deployment runs %s and the canary %q, want %s and %q", what, w.image(), got, image, canary)
	}
}

// service returns the ports of the Service web.
func (w *world) service() string {
	w.t.Helper()
	s := &corev1.Service{}
	if !w.read(s) {
		w.t.Fatal("there is no Service")
	}
	return fmt.Sprint(s.Spec.Ports)
}

// release returns the status of the canary, nil without one.
func (w *world) release(kindName string) *appv1.CanaryStatus {
	w.t.Helper()
	live := kindNamed(w.t, kindName).empty()
	if !w.read(live) {
		w.t.Fatalf("there is no %s", kindName)
	}
	return decodeStatus[appv1.ReleaseStatus](w.t, live).Canary
}

// TestCanaryEventWithoutStatus has the write of the status fail once for each step of a canary: the step has its event all the same, once.
func TestCanaryEventWithoutStatus(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), canarySpecOf(name, "nginx:1", byHand)))
		w.generations = true
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		for _, step := range []struct {
			reason string
			begin  func()
		}{
			{appv1.ReasonCanaryStarted, func() { w.setSpec(name, canarySpecOf(name, "nginx:2", byHand)) }},
			{appv1.ReasonCanaryAborted, func() { w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID)) }},
		} {
			step.begin()
			w.sent()
			w.fail = func(verb string, _ client.Object) error {
				if verb != "status" {
					return nil
				}
				w.fail = nil
				return errors.New("the API server is busy")
			}
			if _, err := w.reconcile(name); err == nil {
				t.Fatalf("%s: the status was written", step.reason)
			}
			w.settle(name)
			steps := slices.DeleteFunc(w.sent(), func(event string) bool { return !strings.Contains(event, step.reason) })
			if len(steps) != 1 || !strings.Contains(steps[0], "web-canary") {
				t.Errorf("%s: the events are %q", step.reason, steps)
			}
		}
	})
}

// TestCanaryPromoted starts a canary, waits without a request, also after a restart of the operator, and promotes it by the annotation. The
// annotation stays, and promotes nothing later.
func TestCanaryPromoted(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byHand)
		status := "status " + name + " web"
		w.runs("start", "nginx:1", "nginx:2")
		w.stands("start", name, "Ready=Unknown/Canary", "Applied=False/Canary", "Reconciling=True/Canary", "Stalled=False/NotStalled", "CanaryReady=False/Progressing")
		if got := w.sent(); len(got) != 1 || !containsAll(got[0], appv1.ReasonCanaryStarted, "web-canary", "nginx:2") {
			t.Errorf("start: the events are %q", got)
		}
		w.runCanary()
		w.settle(name)
		w.wrote("its pods run", status)
		w.stands("its pods run", name, "Ready=Unknown/Canary", "CanaryReady=True/Ready")
		if got := w.message(name, appv1.ConditionReady); !containsAll(got, "1 pod runs image nginx:2", "kubectl happ promote") {
			t.Errorf("Ready says %q", got)
		}
		if got := w.release(name); got == nil || got.UID != w.canary().UID || got.Pods != 1 || got.Ready != 1 || got.Image != "nginx:2" || got.PromoteAt != nil {
			t.Errorf("the status has %+v", got)
		}
		w.settle(name)
		w.wrote("it waits")
		w.restart()
		w.settle(name)
		w.wrote("it waits for another operator")

		w.promoteCanary(name)
		w.settle(name)
		w.wrote("promotion", "patch Deployment web", status)
		w.runs("promotion", "nginx:2", "nginx:2")
		w.stands("promotion", name, "Applied=True/Applied", "Ready=False/Progressing", "CanaryReady=/")
		if got := w.sent(); len(got) != 1 || !containsAll(got[0], appv1.ReasonCanaryPromoted, "nginx:2") {
			t.Errorf("promotion: the events are %q", got)
		}
		w.settle(name)
		w.requests = withoutStatus(w.requests)
		w.wrote("the rollout")
		w.run(name, w.replicaSet("web-2"))
		w.settle(name)
		w.requests = withoutStatus(w.requests)
		w.wrote("rolled out", "delete Deployment web-canary")
		w.runs("rolled out", "nginx:2", "")
		w.settle(name)
		w.stands("rolled out", name, "Applied=True/Applied", "Ready=True/Ready", "Stalled=False/NotStalled", "CanaryReady=/")
		if got := w.history(name); got.LastGood == nil || got.LastGood.ReplicaSet != "web-2" {
			t.Errorf("the last good is %+v", got.LastGood)
		}
		w.setSpec(name, canarySpecOf(name, "nginx:3", byHand))
		w.settle(name)
		w.runs("another change", "nginx:2", "nginx:3")
		w.settle(name)
		w.runs("another change, once more", "nginx:2", "nginx:3")
	})
}

// TestCanaryPromotedByItself promotes a canary once its pods are available, for which its Deployment counts the time.
func TestCanaryPromotedByItself(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byItself)
		if got := w.canary().Spec; got.MinReadySeconds != 600 || *got.ProgressDeadlineSeconds != 660 {
			t.Errorf("the canary has to be ready for %d s, in %d s", got.MinReadySeconds, *got.ProgressDeadlineSeconds)
		}
		d := w.canary()
		play.SetAvailable(d)
		d.Status.AvailableReplicas = 0
		if err := w.Client.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		w.settle(name)
		w.settle(name)
		w.runs("its pods are ready", "nginx:1", "nginx:2")
		at := w.release(name)
		if at == nil || at.PromoteAt == nil {
			t.Fatalf("the status has %+v", at)
		}
		if got := w.message(name, appv1.ConditionReady); !containsAll(got, "promoted at", at.PromoteAt.UTC().Format("15:04:05")) {
			t.Errorf("Ready says %q", got)
		}
		w.requests = nil
		w.settle(name)
		w.wrote("it waits")
		w.runCanary()
		w.settle(name)
		w.runs("its pods are available", "nginx:2", "nginx:2")
	})
}

// TestCanaryAborted aborts a canary, which leaves the pods of before: by the annotation, by its deadline, by the spec as it was, and by
// the removal of the field, which rolls the change out.
func TestCanaryAborted(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byHand)
		status := "status " + name + " web"
		w.sent()
		w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
		w.settle(name)
		w.wrote("abort", "patch Deployment web", "delete Deployment web-canary", status)
		w.runs("abort", "nginx:1", "")
		w.stands("abort", name, "Applied=False/RolledBack", "Ready=False/RolledBack", "Stalled=True/RolledBack", "CanaryReady=/")
		if got := w.sent(); len(got) != 1 || !containsAll(got[0], appv1.ReasonCanaryAborted) {
			t.Errorf("abort: the events are %q", got)
		}
		w.settle(name)
		w.requests = nil
		w.restart()
		w.settle(name)
		w.wrote("restart of the operator")
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.wrote("the same spec again", status)
		w.annotate(name, "example.com/other", "1") // The annotation is gone.
		w.settle(name)
		w.wrote("without the annotation")
		w.setSpec(name, canarySpecOf(name, "nginx:3", byHand))
		w.settle(name)
		w.runs("another spec", "nginx:1", "nginx:3")
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.runs("the aborted spec again", "nginx:1", "")
		w.annotate(name, appv1.AnnotationRefresh, "once more")
		w.settle(name)
		w.runs("a refresh", "nginx:1", "nginx:2")
		w.setSpec(name, canarySpecOf(name, "nginx:1", byHand))
		w.settle(name)
		w.runs("the spec as it was", "nginx:1", "")
		w.settle(name)
		w.stands("the spec as it was", name, "Applied=True/Applied", "Ready=True/Ready")
		w.setSpec(name, canarySpecOf(name, "nginx:4", byHand))
		w.settle(name)
		w.runs("one more", "nginx:1", "nginx:4")
		w.setSpec(name, flowSpec(name, "nginx:4", onePort))
		w.settle(name)
		w.runs("the field is removed", "nginx:4", "")
	})
}

// TestCanaryAndInvalidDefaults has AppDefaults change so that the App cannot have them, while its canary waits: the canary has the defaults of before,
// and is promoted or aborted.
func TestCanaryAndInvalidDefaults(t *testing.T) {
	for _, name := range []string{"App", "ModelBox"} {
		for _, way := range []string{appv1.AnnotationPromote, appv1.AnnotationAbort} {
			t.Run(name+" "+path.Base(way), func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, name), withField(canarySpecOf(name, "nginx:1", byHand), `"revisionHistoryLimit":0`)))
				w.generations = true
				w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"1"}}}`)
				w.settle(name)
				w.run(name, w.replicaSet("web-1"))
				w.settle(name)
				w.setSpec(name, withField(canarySpecOf(name, "nginx:2", byHand), `"revisionHistoryLimit":0`))
				w.settle(name)
				w.runCanary()
				w.settle(name)
				w.setDefaults("platform", `{"defaults":{"rollback":"OnStall","podAnnotations":{"a":"2"}}}`)
				w.settle(name)
				w.runs("with other defaults", "nginx:1", "nginx:2")
				w.stands("with other defaults", name, "Applied=False/Canary", "CanaryReady=True/Ready")
				w.annotate(name, way, string(w.canary().UID))
				w.settle(name)
				image, standing := "nginx:2", "Applied=True/Applied"
				if way == appv1.AnnotationAbort {
					image, standing = "nginx:1", "Applied=False/RolledBack"
				}
				w.stands("ended", name, standing)
				if got := w.deployment().Spec.Template; w.image() != image || got.Annotations["a"] != "1" {
					t.Errorf("the Deployment runs %s, with %v", w.image(), got.Annotations)
				}
			})
		}
	}
}

// TestCanaryWithFormerDefaults has a spec change around its pods while its canary waits, so that the defaults of the canary make it invalid, and today's do
// not: the change of the pods stays in the canary.
func TestCanaryWithFormerDefaults(t *testing.T) {
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), canarySpecOf(name, "nginx:1", byHand)))
		w.generations = true
		w.setDefaults("platform", `{"defaults":{"revisionHistoryLimit":0}}`)
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.runCanary()
		w.settle(name)
		w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"2"}}}`)
		w.setSpec(name, withField(canarySpecOf(name, "nginx:2", byHand), `"rollback":"OnStall"`))
		w.settle(name)
		w.settle(name)
		w.runs("with other defaults", "nginx:1", "nginx:2")
		w.stands("with other defaults", name, "Applied=False/Invalid")
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.settle(name)
		w.stands("taken back", name, "Applied=False/Canary", "CanaryReady=True/Ready")
		w.promoteCanary(name)
		w.settle(name)
		w.runs("promoted", "nginx:2", "nginx:2")
	})
}

// TestCanaryStalls has a canary miss its deadline: the resource is stalled, or, with rollbacks, the canary is aborted.
func TestCanaryStalls(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for _, rollback := range []bool{false, true} {
			t.Run(fmt.Sprint(rollback), func(t *testing.T) {
				w := newCanaryWorld(t, name, byHand)
				if rollback {
					w.setSpec(name, strings.Replace(canarySpecOf(name, "nginx:2", byHand), "{", `{"rollback":"OnStall",`, 1))
					w.settle(name)
				}
				d := w.canary()
				play.SetTimedOut(d)
				d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 0, 0
				if err := w.Client.Status().Update(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				w.settle(name)
				if rollback {
					w.runs("aborted", "nginx:1", "")
					w.stands("aborted", name, "Applied=False/RolledBack", "Stalled=True/RolledBack")
					return
				}
				w.runs("stalled", "nginx:1", "nginx:2")
				w.stands("stalled", name, "Applied=False/Canary", "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded", "CanaryReady=False/ProgressDeadlineExceeded")
				w.requests = nil
				w.settle(name)
				w.wrote("it waits")
			})
		}
	})
}

// TestCanaryInTheMiddle changes a resource while its canary runs. The pods of before never get another template.
func TestCanaryInTheMiddle(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, c := range map[string]struct {
			change func(*world)
			canary string
			pods   int32
		}{
			"another spec": {func(w *world) { w.setSpec(name, canarySpecOf(name, "nginx:3", byHand)) }, "nginx:3", 1},
			"more pods":    {func(w *world) { w.setSpec(name, canarySpecOf(name, "nginx:2", `"pods":2`)) }, "nginx:2", 2},
			"a hold":       {func(w *world) { w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood) }, "", 0},
			"a pause": {func(w *world) {
				w.setSpec(name, strings.Replace(canarySpecOf(name, "nginx:3", byHand), "{", `{"paused":true,`, 1))
			}, "nginx:2", 1},
			"stopped": {func(w *world) {
				w.setSpec(name, strings.Replace(canarySpecOf(name, "nginx:2", byHand), `"replicas":2`, `"replicas":0`, 1))
			}, "nginx:2", 0},
			"an invalid one": {func(w *world) {
				w.setSpec(name, strings.Replace(flowSpec(name, "nginx:3", `[{"port":80},{"port":80}]`), "{", `{"canary":{},`, 1))
			}, "nginx:2", 1},
			"it is edited": {func(w *world) {
				d := w.canary()
				d.Spec.Template.Spec.Containers[0].Image = "nginx:edited"
				w.update(d)
			}, "nginx:2", 1},
			"it is deleted":     {func(w *world) { w.remove(w.canary()) }, "nginx:2", 1},
			"the other is gone": {func(w *world) { w.remove(w.deployment()) }, "nginx:2", 1},
			"the other is edited": {func(w *world) {
				d := w.deployment()
				d.Spec.Template.Spec.Containers[0].Image = "nginx:edited"
				w.update(d)
			}, "nginx:2", 1},
			"at 0 by others": {func(w *world) {
				d := w.deployment()
				d.Spec.Replicas = ptr.To[int32](0)
				w.update(d)
			}, "nginx:2", 1},
		} {
			t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
				w := newCanaryWorld(t, name, byHand)
				uid := w.canary().UID
				c.change(w)
				for range 3 {
					_, _ = w.reconcile(name) // It waits for a deletion, or is refused.
				}
				w.runs(what, "nginx:1", c.canary)
				live := w.canary()
				if c.canary == "" {
					return
				}
				if got := ptr.Deref(live.Spec.Replicas, 1); got != c.pods {
					t.Errorf("the canary has %d pods", got)
				}
				if same := live.UID == uid; same != (what != "another spec" && what != "it is deleted") {
					t.Errorf("the UID of the canary is %s, and was %s", live.UID, uid)
				}
			})
		}
	})
}

// TestCanaryOfOthers has a Deployment of others have the name of the canary: it stays as it is, adopted or not, and nothing of the change is
// rolled out until it is gone.
func TestCanaryOfOthers(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), canarySpecOf(name, "nginx:1", byHand)))
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.annotate(name, appv1.AnnotationAdopt, "true")
		w.settle(name)
		other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-canary", UID: "other"}}
		other.Spec.Template.Spec.Containers = []corev1.Container{{Name: "other", Image: "other:1"}}
		w.create(other)
		w.setSpec(name, canarySpecOf(name, "nginx:2", byHand))
		w.requests = nil
		w.settle(name)
		w.wrote("it is there", "status "+name+" web")
		w.runs("it is there", "nginx:1", "other:1")
		w.stands("it is there", name, "Applied=False/ResourceExists", "Ready=False/ResourceExists", "Stalled=True/ResourceExists", "CanaryReady=/")
		w.annotate(name, appv1.AnnotationPromote, "other")
		w.settle(name)
		w.runs("promoted", "nginx:1", "other:1")
		w.remove(other)
		w.settle(name)
		w.runs("it is gone", "nginx:1", "nginx:2")
	})
}

// TestCanaryOfAnother has the Deployment of another resource of the same kind have the name of the canary: that the Deployment is gone wakes both.
func TestCanaryOfAnother(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		k := kindNamed(t, name)
		s := withCache(t, newStored(t, k, flowSpec(name, "nginx:1", onePort)))
		for owner, want := range map[string][]string{"web-canary": {"web-canary", "web"}, "web": {"web"}} {
			obj := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-canary", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appv1.GroupVersion.String(), Kind: name, Name: owner, UID: "u", Controller: ptr.To(true),
			}}}}
			var got []string
			for _, request := range requestsOf(t.Context(), k, s, k.mapOwnedOrNamed(t.Context(), s, obj)) {
				got = append(got, request.Name)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(slices.Compact(got), want) {
				t.Errorf("a Deployment of %s wakes %q, want %q", owner, got, want)
			}
		}
	})
}

// TestCanaryKilled ends the operator at each request of a start, a promotion and an abort: another operator comes to the same state, and the
// pods of before change with the promotion alone.
func TestCanaryKilled(t *testing.T) {
	killed := errors.New("killed")
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, c := range map[string]struct {
			change        func(*world)
			image, canary string
		}{
			"start":     {func(w *world) { w.setSpec(name, canarySpecOf(name, "nginx:3", byHand)) }, "nginx:1", "nginx:3"},
			"promotion": {func(w *world) { w.promoteCanary(name) }, "nginx:2", "nginx:2"},
			"abort":     {func(w *world) { w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID)) }, "nginx:1", ""},
			"removal":   {func(w *world) { w.setSpec(name, flowSpec(name, "nginx:2", onePort)) }, "nginx:2", ""},
		} {
			for at := range 4 {
				t.Run(fmt.Sprintf("%s-%d", what, at), func(t *testing.T) {
					w := newCanaryWorld(t, name, byHand)
					c.change(w)
					left := at
					w.fail = func(string, client.Object) error {
						if left--; left < 0 {
							return killed
						}
						return nil
					}
					_, _ = w.reconcile(name)
					w.fail = nil
					w.restart()
					for range 3 {
						_, _ = w.reconcile(name)
					}
					w.runs("afterwards", c.image, c.canary)
				})
			}
		}
	})
}

// TestCanaryChangesPorts has a change of the ports wait for the promotion: the Service is that of the pods of before.
func TestCanaryChangesPorts(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), canarySpecOf(name, "nginx:1", byHand)))
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		before := w.service()
		changed := strings.Replace(flowSpec(name, "nginx:2", `[{"port":80,"targetPort":8080}]`), "{", `{"canary":{},`, 1)
		w.setSpec(name, changed)
		w.settle(name)
		w.runs("start", "nginx:1", "nginx:2")
		if got := w.service(); got != before {
			t.Errorf("the Service leads to %s, and before to %s", got, before)
		}
		w.promoteCanary(name)
		w.settle(name)
		if got := w.service(); got == before {
			t.Errorf("after the promotion, the Service leads to %s", got)
		}
	})
}

// TestExposureOfAChangeThatWaits adds an Ingress that leads to a port which only the waiting change has. The condition names what the Ingress waits for.
func TestExposureOfAChangeThatWaits(t *testing.T) {
	for name, c := range map[string]struct{ field, reason string }{
		"canary":  {`"canary":{}`, appv1.ReasonCanary},
		"command": {`"beforeRollout":{"command":["/app/migrate"]}`, appv1.ReasonBeforeRollout},
	} {
		t.Run(name, func(t *testing.T) {
			const kindName = "App"
			w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:1", onePort)))
			w.settle(kindName)
			w.run(kindName, w.replicaSet("web-1"))
			w.settle(kindName)
			w.setSpec(kindName, strings.Replace(flowSpec(kindName, "nginx:2", `[{"port":80,"name":"http"},{"port":81,"name":"admin"}]`), "{",
				`{"ingress":{"port":"admin","rules":[{"host":"shop.example.com"}]},`+c.field+`,`, 1))
			w.settle(kindName)
			w.stands("the change waits", kindName, "Exposed=False/"+c.reason)
			if said := w.message(kindName, "Exposed"); !strings.Contains(said, "once the change") || strings.Contains(said, "Correct the spec") {
				t.Errorf("Exposed: %s", said)
			}
		})
	}
}

// TestCanaryScaledByOthers has another client scale a canary: it has its number again, also where that is a share of the pods at its start.
func TestCanaryScaledByOthers(t *testing.T) {
	for name, pods := range map[string]string{"a number": `2`, "a share": `"50%"`} {
		t.Run(name, func(t *testing.T) {
			w := newCanaryWorld(t, "App", `"pods":`+pods)
			want := ptr.Deref(w.canary().Spec.Replicas, 1)
			for _, by := range []int32{7, 1, 0} {
				d := w.canary()
				d.Spec.Replicas = ptr.To(by)
				w.update(d)
				w.settle("App")
				if got := ptr.Deref(w.canary().Spec.Replicas, 1); got != want {
					t.Errorf("scaled to %d, it has %d pods, want %d", by, got, want)
				}
			}
		})
	}
}

// TestCanaryOfAnAdoption adopts a Deployment of others for a resource with a canary, or with a command before its rollouts: the adoption changes no pod, and
// the pods of the spec come as each change comes.
func TestCanaryOfAnAdoption(t *testing.T) {
	for step, spec := range map[string]func(name string) string{
		"canary":  func(name string) string { return canarySpecOf(name, "nginx:2", byHand) },
		"abort":   func(name string) string { return canarySpecOf(name, "nginx:2", byHand) },
		"command": func(name string) string { return commandSpecOf(name, "nginx:2") },
	} {
		t.Run(step, func(t *testing.T) {
			forNames(t, heldKinds(), func(t *testing.T, name string) {
				d := newPlainDeployment("web", 1)
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1"}}
				w := newWorld(t, newStored(t, kindNamed(t, name), spec(name)), d)
				w.generations = true
				w.settle(name)
				w.annotate(name, appv1.AnnotationAdopt, "true")
				w.settle(name)
				w.settle(name)
				if step == "command" {
					w.runs("adopted", "nginx:1", "")
					if jobs := w.jobs(); len(jobs) != 1 {
						t.Errorf("there are %d Jobs", len(jobs))
					}
					return
				}
				w.runs("adopted", "nginx:1", "nginx:2")
				w.runCanary()
				w.settle(name)
				if step == "abort" {
					w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
					for range 2 {
						w.settle(name)
						w.runs("aborted", "nginx:1", "")
					}
					return
				}
				w.promoteCanary(name)
				w.settle(name)
				w.runs("promoted", "nginx:2", "nginx:2")
				w.run(name, w.replicaSet("web-2"))
				for range 2 {
					w.settle(name)
					w.runs("rolled out", "nginx:2", "")
				}
			})
		})
	}
}

// TestNumberOfPodsNextToACanary changes the number of pods while a canary waits, and then makes the spec invalid: the number stays.
func TestNumberOfPodsNextToACanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byHand)
		scaled := strings.Replace(canarySpecOf(name, "nginx:2", byHand), `"replicas":2`, `"replicas":5`, 1)
		for _, spec := range []string{scaled, strings.Replace(scaled, onePort, `[{"port":80},{"port":80}]`, 1)} {
			w.setSpec(name, spec)
			w.settle(name)
			w.settle(name)
			if got := *w.deployment().Spec.Replicas; got != 5 {
				t.Errorf("with %s: %d pods", spec, got)
			}
		}
	})
}
