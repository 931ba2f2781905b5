package controllers

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/workload"
)

// flowSpecs are specs of the kinds that are one Deployment and one Service by the name web. IMAGE stands for the image and PORTS for
// the ports.
var flowSpecs = map[string]string{
	"App":              `{"image":"IMAGE","replicas":2,"ports":PORTS}`,
	"ModelBox":         `{"image":"IMAGE","replicas":2,"ports":PORTS}`,
	"UnitedDeployment": `{"deploymentName":"web","replicas":2,"template":{"image":"IMAGE","ports":PORTS}}`,
}

func flowSpec(kindName, image, ports string) string {
	return strings.NewReplacer("IMAGE", image, "PORTS", ports).Replace(flowSpecs[kindName])
}

const onePort = `[{"port":80}]`

// TestFlow takes a resource of each kind through its life, and counts what is written at each step.
func TestFlow(t *testing.T) {
	for name := range flowSpecs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
			status := "status " + name + " web"
			w.settle(name)
			w.wrote("creation", "patch Deployment web", "patch Service web", status)
			w.stands("creation", name, "Ready=False/Progressing", "Stalled=False/NotStalled")
			w.settle(name)
			w.wrote("idle")
			w.restart()
			w.settle(name)
			w.wrote("restart of the operator")

			w.makeAvailable()
			w.settle(name)
			w.wrote("pods run", status)
			w.stands("pods run", name, "Ready=True/Ready")
			if got := w.status(name); got.Ready != "2/2" || got.Endpoint == "" || got.Selector == "" || got.Rendering == 0 {
				t.Errorf("the status is %+v", got)
			}

			w.setSpec(name, flowSpec(name, "nginx:2", onePort))
			w.settle(name)
			w.wrote("another image", "patch Deployment web", status)
			if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:2" {
				t.Errorf("the image is %s", got)
			}

			w.setSpec(name, flowSpec(name, "nginx:2", `[]`))
			w.settle(name)
			w.wrote("no ports", "patch Deployment web", "delete Service web", status)
			w.sent()
			w.settle(name)
			w.wrote("after all that")
			if events := w.sent(); len(events) > 0 {
				t.Errorf("nothing was changed, and it is told: %q", events)
			}
		})
	}
}

// TestFlowRepairs deletes and changes the children of a resource of each kind, as another client does: they are restored, and
// nothing else is written.
func TestFlowRepairs(t *testing.T) {
	for name := range flowSpecs {
		for change, c := range map[string]struct {
			do   func(*world)
			want []string
			same func(*world) bool
		}{
			"the Deployment is deleted": {
				func(w *world) { w.remove(w.deployment()) }, []string{"patch Deployment web"},
				func(w *world) bool { return w.read(&appsv1.Deployment{}) },
			},
			"the Service is deleted": {
				func(w *world) {
					w.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}})
				},
				[]string{"patch Service web"},
				func(w *world) bool { return w.read(&corev1.Service{}) },
			},
			"the image is changed": {
				func(w *world) {
					d := w.deployment()
					d.Spec.Template.Spec.Containers[0].Image = "evil:1"
					w.update(d)
				}, []string{"patch Deployment web"},
				func(w *world) bool { return w.deployment().Spec.Template.Spec.Containers[0].Image == "nginx:1" },
			},
			"the selector of the Service is changed": {
				func(w *world) {
					s := &corev1.Service{}
					w.read(s)
					for key := range s.Spec.Selector {
						s.Spec.Selector[key] = "evil"
					}
					w.update(s)
				}, []string{"patch Service web"},
				func(w *world) bool {
					s := &corev1.Service{}
					w.read(s)
					for _, value := range s.Spec.Selector {
						if value == "evil" {
							return false
						}
					}
					return true
				},
			},
			"the owner is removed": {
				func(w *world) {
					d := w.deployment()
					d.OwnerReferences = nil
					w.update(d)
				}, []string{"patch Deployment web"},
				func(w *world) bool { return metav1.GetControllerOf(w.deployment()) != nil },
			},
			"a field of another client": {
				func(w *world) {
					d := w.deployment()
					d.Spec.Template.Spec.PriorityClassName = "high"
					w.update(d)
				}, nil,
				func(w *world) bool { return w.deployment().Spec.Template.Spec.PriorityClassName == "high" },
			},
		} {
			t.Run(name+", "+change, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
				w.settle(name)
				w.requests = nil
				c.do(w)
				w.settle(name)
				w.requests = withoutStatus(w.requests)
				w.wrote(change, c.want...)
				if !c.same(w) {
					t.Error("the object is not as it should be")
				}
				w.settle(name)
				w.requests = withoutStatus(w.requests)
				w.wrote("after " + change)
			})
		}
	}
}

// withoutStatus returns the requests that write no status.
func withoutStatus(requests []string) []string {
	var rest []string
	for _, request := range requests {
		if !strings.HasPrefix(request, "status ") {
			rest = append(rest, request)
		}
	}
	return rest
}

// TestFlowOfForeignObjects finds an object of another owner, or of none, in the place of each child: it stays as it is.
func TestFlowOfForeignObjects(t *testing.T) {
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, name string) {
		foreign := map[string]*metav1.ObjectMeta{
			"nobody's":  ptr.To(controlledBy("web", "", "", "")),
			"another's": ptr.To(controlledBy("web", "App", "other", "7")),
		}
		forEach(t, foreign, func(t *testing.T, what string, m *metav1.ObjectMeta) {
			d := &appsv1.Deployment{ObjectMeta: *m}
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			d.Spec.Template.Labels = map[string]string{"a": "b"}
			w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)), d)
			before := w.deployment()
			w.settle(name)
			w.wrote(what, "patch Service web", "status "+name+" web")
			w.stands(what, name, "Stalled=True/ResourceExists", "Ready=False/ResourceExists")
			if after := w.deployment(); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s, %s: the Deployment was written", name, what)
			}

			w.annotate(name, appv1.AnnotationAdopt, "true")
			w.settle(name)
			adopted := metav1.GetControllerOf(w.deployment())
			if got := adopted != nil && adopted.UID == "1"; got != (what == "nobody's") {
				t.Errorf("%s, %s: with the annotation to adopt it, it is controlled by %v", name, what, adopted)
			}
		})
	})
}

// TestFlowPaused changes a paused resource of each kind: nothing is written, and the status says what waits.
func TestFlowPaused(t *testing.T) {
	forEach(t, flowSpecs, func(t *testing.T, name, _ string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		paused := strings.Replace(flowSpec(name, "nginx:2", onePort), "{", `{"paused":true,`, 1)
		w.setSpec(name, paused)
		w.requests = nil
		w.settle(name)
		w.wrote(name, "try Deployment web", "status "+name+" web")
		w.stands(name, name, "Applied=False/Paused")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
			t.Errorf("%s: a paused one was changed to %s", name, got)
		}
		w.setSpec(name, flowSpec(name, "nginx:2", onePort))
		w.settle(name)
		w.stands(name, name, "Applied=True/Applied")
	})
}

// TestFlowUndecodable reconciles a resource of each kind whose stored spec is of an earlier schema: its children stay.
func TestFlowUndecodable(t *testing.T) {
	forEach(t, flowSpecs, func(t *testing.T, name, _ string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		w.requests = nil
		w.setSpec(name, `{"deploymentName":5,"image":7,"replicas":"two"}`)
		w.settle(name)
		w.wrote(name, "status "+name+" web")
		w.stands(name, name, "Stalled=True/Invalid")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
			t.Errorf("%s: the image is %s", name, got)
		}
	})
}

// TestFlowCauses has pods that do not run: the status of a resource of each kind says why.
func TestFlowCauses(t *testing.T) {
	forEach(t, flowSpecs, func(t *testing.T, name, _ string) {
		forEach(t, map[string]string{
			"ImagePullBackOff":           "Ready=False/ImagePullBackOff",
			"CreateContainerConfigError": "Ready=False/CreateContainerConfigError",
			"ContainerCreating":          "Ready=False/Progressing",
		}, func(t *testing.T, reason, want string) {
			w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
			w.settle(name)
			pod := newPod(t, name, "web-1", reason)
			for key, value := range w.deployment().Spec.Selector.MatchLabels {
				pod.Labels[key] = value
			}
			other := newPod(t, name, "other", "ErrImageNeverPull") // Not of the Deployment's selector.
			clear(other.Labels)
			other.Labels[appv1.LabelInstance] = "web"
			w.create(pod, other)
			w.settle(name)
			w.stands(reason, name, want)
			if got := w.message(name, appv1.ConditionReady); strings.Contains(got, `container "web"`) != (reason != "ContainerCreating") {
				t.Errorf("%s, %s: %s", name, reason, got)
			}
		})
	})
}

// TestFlowOfAnAutoscaler lets an autoscaler decide the number of pods of a workload, and gives it back.
func TestFlowOfAnAutoscaler(t *testing.T) {
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		scaler := newScaler("b-scaler", "Deployment", "web")
		w.create(scaler, newScaler("a-scaler", "Deployment", "web"), newScaler("0-scaler", "Deployment", "other"), newScaler("1-scaler", "StatefulSet", "web"))
		w.settle(name)
		w.stands("with an autoscaler", name, "Applied=True/ReplicasIgnored")
		if got := w.message(name, appv1.ConditionApplied); !containsAll(got, "a-scaler", "Deployment web") {
			t.Errorf("%s: %s", name, got)
		}
		d := w.deployment()
		d.Spec.Replicas = ptr.To[int32](7)
		w.update(d)
		w.settle(name)
		if got := ptr.Deref(w.deployment().Spec.Replicas, 0); got != 7 {
			t.Errorf("%s: the autoscaler's number became %d", name, got)
		}

		own := newScaler("own", name, "web")
		w.create(own)
		w.setSpec(name, `{"image":"nginx:1"}`)
		w.settle(name)
		w.stands("no number is stated", name, "ReplicasUnstated=True/ReplicasUnstated")
		w.remove(own)
		w.settle(name)
		if got := w.message(name, appv1.ConditionReplicasUnstated); got != "" {
			t.Errorf("%s: without an autoscaler of its own: %s", name, got)
		}
	})
}

// TestFlowDeleted reconciles what is being deleted, and what is gone.
func TestFlowDeleted(t *testing.T) {
	forEach(t, flowSpecs, func(t *testing.T, name, _ string) {
		k := kindNamed(t, name)
		obj := newStored(t, k, flowSpec(name, "nginx:1", onePort))
		obj.SetFinalizers([]string{"example.com/hold"})
		w := newWorld(t, obj)
		w.settle(name)
		w.remove(obj)
		w.remove(w.deployment())
		w.settle(name)
		w.wrote("while it is being deleted")

		live := k.empty()
		w.read(live)
		live.SetFinalizers(nil)
		w.update(live)
		w.settle(name)
		w.wrote("when it is gone")
	})
}

// TestFlowOfAHeadlessService asks for an address of a headless Service, which Kubernetes cannot give: nothing else of the new spec is
// written either, until the Service is deleted.
func TestFlowOfAHeadlessService(t *testing.T) {
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, name string) {
		headless := strings.Replace(flowSpec(name, "nginx:1", onePort), "{", `{"service":{"clusterIP":"None"},`, 1)
		w := newWorld(t, newStored(t, kindNamed(t, name), headless))
		w.settle(name)
		w.setSpec(name, flowSpec(name, "nginx:2", onePort))
		w.requests = nil
		w.settle(name)
		w.wrote(name, "status "+name+" web")
		w.stands(name, name, "Stalled=True/ImmutableField")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:1" {
			t.Errorf("%s: the image is %s", name, got)
		}
		w.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}})
		w.settle(name)
		w.stands(name+", the Service deleted", name, "Applied=True/Applied")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:2" {
			t.Errorf("%s: with the Service deleted, the image is %s", name, got)
		}
	})
}

// TestFlowOfAForbiddenDeployment forbids to write the Deployment as a new spec means it: what was applied last is reported to stay in
// force, the Service follows the new spec, and all of it does once the right is given.
func TestFlowOfAForbiddenDeployment(t *testing.T) {
	forNames(t, []string{"App", "ModelBox"}, func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), flowSpec(name, "nginx:1", onePort)))
		w.settle(name)
		w.setSpec(name, flowSpec(name, "nginx:2", `[{"port":90,"targetPort":80}]`))
		w.fail = func(_ string, obj client.Object) error {
			if _, ok := obj.(*appsv1.Deployment); ok {
				return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New("no right"))
			}
			return nil
		}
		if _, err := w.reconcile(name); err == nil {
			t.Errorf("%s: what is forbidden is not retried", name)
		}
		w.stands(name, name, "Applied=False/Forbidden")
		if !w.Records.Recall(workload.Key{Manager: kindNamed(t, name).manager, Owner: webKey, Workload: "web"}, "1").Known {
			t.Errorf("%s: the last applied spec is not remembered", name)
		}
		w.fail = nil
		w.settle(name)
		w.stands(name+", allowed", name, "Applied=True/Applied")
		if got := w.deployment().Spec.Template.Spec.Containers[0].Image; got != "nginx:2" {
			t.Errorf("%s: the image is %s", name, got)
		}
	})
}
