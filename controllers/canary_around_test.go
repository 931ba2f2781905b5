package controllers

import (
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestDeletedNextToACanary deletes the Deployment, and the canary with it, before a promotion and after an abort: the Deployment is restored with the
// image of before, and a change that waits has a canary again.
func TestDeletedNextToACanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, c := range map[string]struct {
			change func(*world)
			canary string
		}{
			"both while it waits": {func(w *world) {
				w.remove(w.canary())
				w.remove(w.deployment())
			}, "nginx:2"},
			"the Deployment after an abort": {func(w *world) {
				w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
				w.settle(name)
				w.settle(name)
				w.remove(w.deployment())
			}, ""},
			"the Deployment right after an abort": {func(w *world) {
				w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
				if _, err := w.reconcile(name); err != nil {
					t.Error(err)
				}
				w.remove(w.deployment())
			}, ""},
		} {
			t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
				w := newCanaryWorld(t, name, byHand)
				w.settle(name)
				c.change(w)
				w.settle(name)
				w.settle(name)
				w.runs(what, "nginx:1", c.canary)
			})
		}
	})
}

// TestStoppedWithAnotherCanary stops a resource and changes it at once, while its canary waits: no pod runs, so no canary is recreated, and the change is
// rolled out.
func TestStoppedWithAnotherCanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byHand)
		w.sent()
		w.setSpec(name, strings.Replace(canarySpecOf(name, "nginx:3", byHand), `"replicas":2`, `"replicas":0`, 1))
		w.settle(name)
		w.settle(name)
		w.runs("stopped", "nginx:3", "")
		if got := w.sent(); !slices.ContainsFunc(got, func(event string) bool { return strings.Contains(event, appv1.ReasonCanaryAborted) }) ||
			slices.ContainsFunc(got, func(event string) bool { return strings.Contains(event, "Replaced") }) {
			t.Errorf("the events are %q", got)
		}
	})
}

// TestContentGoesBackNextToACanary has content change, which starts a canary, and go back: the canary is aborted, and not replaced.
func TestContentGoesBackNextToACanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newFollowing(t, name, withField(canarySpecOf(name, "nginx:1", byHand), `"configRollout":"OnChange","envFrom":[{"configMapRef":{"name":"settings"}}]`))
		w.setLevel("debug")
		w.settle(name)
		w.runs("other content", "nginx:1", "nginx:1")
		w.sent()
		w.setLevel("info")
		w.settle(name)
		w.settle(name)
		w.runs("the content of before", "nginx:1", "")
		if got := w.sent(); len(got) != 1 || !strings.Contains(got[0], appv1.ReasonCanaryAborted) || strings.Contains(got[0], "Replaced") {
			t.Errorf("the events are %q", got)
		}
		w.stands("the content of before", name, "Applied=True/Applied")
	})
}

// TestCanaryWithoutItsAccount has an account of others in the way of the pods of a canary: the resource reports the account, no canary starts, and it
// starts with one event once the name is free.
func TestCanaryWithoutItsAccount(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		taken := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
		w := newWorld(t, newStored(t, kindNamed(t, name), canarySpecOf(name, "nginx:1", byHand)), taken)
		w.generations = true
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.sent()
		w.setSpec(name, withField(canarySpecOf(name, "nginx:2", byHand), `"serviceAccount":{}`))
		_, _ = w.reconcile(name)
		_, _ = w.reconcile(name)
		w.runs("the account is taken", "nginx:1", "")
		w.stands("the account is taken", name, "Applied=False/ResourceExists", "Stalled=True/ResourceExists")
		for _, event := range w.sent() {
			if strings.Contains(event, appv1.ReasonCanaryStarted) {
				t.Errorf("the account is taken: the event is %q", event)
			}
		}
		w.remove(taken)
		w.settle(name)
		w.runs("the account is free", "nginx:1", "nginx:2")
		w.stands("the account is free", name, "Applied=False/Canary")
		if got := w.sent(); len(got) != 1 || !strings.Contains(got[0], appv1.ReasonCanaryStarted) {
			t.Errorf("the account is free: the events are %q", got)
		}
	})
}

// TestAccountOfDefaults has AppDefaults add an account. A canary, and a Job before the rollout, need the account of the change.
func TestAccountOfDefaults(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, change := range map[string]string{
			"canary":  canarySpecOf(name, "nginx:2", byHand),
			"command": commandSpecOf(name, "nginx:2"),
		} {
			t.Run(what, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
				w.generations = true
				w.settle(name)
				w.run(name, w.replicaSet("web-1"))
				w.settle(name)
				w.setDefaults("platform", `{"defaults":{"serviceAccount":{}}}`)
				w.settle(name)
				account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
				if w.read(account) {
					t.Fatal("the account is there before the change")
				}
				w.setSpec(name, change)
				w.settle(name)
				if !w.read(account) {
					t.Error("the account is not there")
				}
				if w.image() != "nginx:1" || w.accountOfPods() != "" {
					t.Errorf("the pods of before run %s with the account %q", w.image(), w.accountOfPods())
				}
			})
		}
	})
}

// TestAutoscalerNextToAnEarlierSpec removes the autoscaler and stops the resource while an earlier spec is in force. The number of pods follows the present
// spec, so the autoscaler goes at once.
func TestAutoscalerNextToAnEarlierSpec(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for what, c := range map[string]struct {
			start   func(*world)
			stopped string
		}{
			"a canary": {func(w *world) {
				w.setSpec(name, withField(canarySpecOf(name, "nginx:2", byHand), scaledByCPU))
			}, canarySpecOf(name, "nginx:2", byHand)},
			"a hold": {func(w *world) {
				w.setSpec(name, withField(flowSpec(name, "nginx:2", onePort), scaledByCPU))
				w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
			}, flowSpec(name, "nginx:2", onePort)},
			"a command": {func(w *world) {
				w.setSpec(name, withField(commandSpecOf(name, "nginx:2"), scaledByCPU))
			}, commandSpecOf(name, "nginx:2")},
		} {
			t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, name), withField(canarySpecOf(name, "nginx:1", byHand), scaledByCPU)))
				w.generations = true
				w.settle(name)
				w.run(name, w.replicaSet("web-1"))
				w.settle(name)
				c.start(w)
				w.settle(name)
				own := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
				if !w.read(own) || w.image() != "nginx:1" {
					t.Fatalf("the Deployment runs %s, and there is an autoscaler: %t", w.image(), w.read(own))
				}
				w.setSpec(name, withField(strings.Replace(c.stopped, `"replicas":2`, `"replicas":0`, 1), `"resources":{"requests":{"cpu":"100m"}}`))
				w.settle(name)
				w.settle(name)
				if w.read(own) {
					t.Error("the autoscaler is still there")
				}
				if got := *w.deployment().Spec.Replicas; got != 0 || w.image() != "nginx:1" {
					t.Errorf("%d pods of %s", got, w.image())
				}
			})
		}
	})
}

// scaledByCPU are the fields of an autoscaler.
const scaledByCPU = `"resources":{"requests":{"cpu":"100m"}},"autoscaling":{"maxReplicas":4,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}`

// TestAroundNextToAnEarlierSpec removes each object around the pods from the spec while an earlier spec is in force: it goes at once, but for the account, which
// the pods of before may have.
func TestAroundNextToAnEarlierSpec(t *testing.T) {
	for _, name := range servingKinds() {
		for _, a := range aroundTypes(t) {
			for what, start := range map[string]func(w *world, field string) string{
				"a canary": func(w *world, field string) string {
					spec := withField(strings.Replace(around(name, field), "nginx:1", "nginx:2", 1), `"canary":{}`)
					w.setSpec(name, spec)
					return spec
				},
				"an abort": func(w *world, field string) string {
					spec := withField(strings.Replace(around(name, field), "nginx:1", "nginx:2", 1), `"canary":{}`)
					w.setSpec(name, spec)
					w.settle(name)
					w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
					return spec
				},
				"a hold": func(w *world, field string) string {
					spec := strings.Replace(around(name, field), "nginx:1", "nginx:2", 1)
					w.setSpec(name, spec)
					w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
					return spec
				},
				"a command": func(w *world, field string) string {
					spec := withField(strings.Replace(around(name, field), "nginx:1", "nginx:2", 1), `"beforeRollout":{"command":["/app/migrate"]}`)
					w.setSpec(name, spec)
					return spec
				},
			} {
				t.Run(strings.ReplaceAll(name+"/"+a.kind+"/"+what, " ", "-"), func(t *testing.T) {
					w := newWorld(t, newStored(t, kindNamed(t, name), around(name, aroundFields[a.kind])))
					w.generations = true
					w.settle(name)
					w.run(name, w.replicaSet("web-1"))
					w.settle(name)
					spec := start(w, aroundFields[a.kind])
					w.settle(name)
					if !a.exists(w) || w.image() != "nginx:1" {
						t.Fatalf("the Deployment runs %s, and there is the object: %t", w.image(), a.exists(w))
					}
					w.setSpec(name, strings.Replace(spec, aroundFields[a.kind]+",", "", 1))
					w.settle(name)
					w.settle(name)
					if is, stays := a.exists(w), a.kind == "ServiceAccount"; is != stays || w.image() != "nginx:1" {
						t.Errorf("the Deployment runs %s, and there is the object: %t", w.image(), is)
					}
				})
			}
		}
	}
}

// TestRouteToAPortThatWaits moves from an Ingress to an HTTPRoute whose port comes with the change that a canary runs first: the Ingress stays until then.
func TestRouteToAPortThatWaits(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), withField(canarySpecOf(name, "nginx:1", byHand), aroundFields["Ingress"])))
		w.generations = true
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.setSpec(name, withField(strings.Replace(canarySpecOf(name, "nginx:2", byHand), onePort, `[{"port":8080}]`, 1),
			`"httpRoute":{"hostnames":["web.example.com"],"parentRefs":[{"name":"public"}],"port":8080}`))
		w.settle(name)
		w.runs("a canary", "nginx:1", "nginx:2")
		if !w.read(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}) {
			t.Error("the Ingress is gone")
		}
	})
}

// TestAutoscalerOfAnInvalidSpec removes the autoscaler with a spec that is invalid: nothing is deleted for an invalid spec.
func TestAutoscalerOfAnInvalidSpec(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), withField(flowSpec(name, "nginx:1", onePort), scaledByCPU)))
		w.settle(name)
		w.setSpec(name, flowSpec(name, "nginx:2", `[{"port":80},{"port":80}]`))
		w.settle(name)
		if !w.read(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}) {
			t.Error("the autoscaler is gone")
		}
	})
}

// TestCanaryStartsNextToTrouble starts a canary while an object around the pods has a problem of its own: the start has its own event.
func TestCanaryStartsNextToTrouble(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), withField(canarySpecOf(name, "nginx:1", byHand), `"disruptionBudget":{"maxUnavailable":1}`)),
			&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}})
		w.generations = true
		w.settle(name)
		w.run(name, w.replicaSet("web-1"))
		w.settle(name)
		w.stands("the budget is taken", name, "Applied=False/ResourceExists")
		w.sent()
		w.setSpec(name, withField(canarySpecOf(name, "nginx:2", byHand), `"disruptionBudget":{"maxUnavailable":1}`))
		w.settle(name)
		w.stands("a canary", name, "Applied=False/Canary")
		if got := w.sent(); len(got) != 1 || !strings.Contains(got[0], "Normal "+appv1.ReasonCanaryStarted) {
			t.Errorf("the events are %q", got)
		}
	})
}

// TestCommandOfTheSamePods changes fields that replace no pod, while a canary waits after its command, and after a command that has failed: no command runs
// again, and the canary stays. A field around the pods that changes them runs it again.
func TestCommandOfTheSamePods(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for _, field := range []string{`"labels":{"a":"b"}`, `"progressDeadlineSeconds":700`, `"revisionHistoryLimit":3`} {
			t.Run("canary "+field[1:5], func(t *testing.T) {
				w := newCommandWorld(t, name)
				w.endCommand(name, commandAndCanary(name, "nginx:3"), batchv1.JobComplete)
				w.runs("the canary waits", "nginx:2", "nginx:3")
				uid, job := w.canary().UID, w.latestJob()
				w.setSpec(name, withField(commandAndCanary(name, "nginx:3"), field))
				w.settle(name)
				w.runs(field, "nginx:2", "nginx:3")
				if w.canary().UID != uid || w.latestJob() != job {
					t.Errorf("%s: the latest Job is %s, and was %s; the canary is the same: %t", field, w.latestJob(), job, w.canary().UID == uid)
				}
			})
			t.Run("failed "+field[1:5], func(t *testing.T) {
				w := newCommandWorld(t, name)
				w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobFailed)
				job := w.latestJob()
				w.setSpec(name, withField(commandSpecOf(name, "nginx:3"), field))
				w.settle(name)
				w.stands(field, name, "Applied=False/BeforeRolloutFailed")
				if w.latestJob() != job {
					t.Errorf("%s: the latest Job is %s, and was %s", field, w.latestJob(), job)
				}
			})
		}
		t.Run("account", func(t *testing.T) {
			w := newCommandWorld(t, name)
			w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobFailed)
			job := w.latestJob()
			w.setSpec(name, withField(commandSpecOf(name, "nginx:3"), `"serviceAccount":{}`))
			w.settle(name)
			if w.latestJob() == job {
				t.Error("the fix by an account runs no command")
			}
		})
	})
}

// TestNumberSetAfterOthers has another writer change the number of pods next to a canary, and then the spec state a number: the event is about the spec.
func TestNumberSetAfterOthers(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCanaryWorld(t, name, byHand)
		w.settle(name)
		d := w.deployment()
		d.Spec.Replicas = ptr.To[int32](4)
		w.update(d)
		w.sent()
		w.setSpec(name, strings.Replace(canarySpecOf(name, "nginx:2", byHand), `"replicas":2`, `"replicas":5`, 1))
		w.settle(name)
		if got := w.sent(); len(got) != 1 || !strings.Contains(got[0], "Configured Deployment web: replicas") || strings.Contains(got[0], "Repaired") {
			t.Errorf("the events are %q", got)
		}
	})
}
