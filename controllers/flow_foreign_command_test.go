package controllers

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestNoCommandWithoutAnAdoption has the adoption of a Deployment be impossible for a resource with a command: the command does not run, and runs once the
// adoption is possible.
func TestNoCommandWithoutAnAdoption(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}} // Without a selector: its endpoints are those of others.
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		for what, c := range map[string]struct {
			controller string
			other      client.Object
		}{
			"the Service serves others": {other: service},
			"another controller":        {controller: "other"},
		} {
			t.Run(what, func(t *testing.T) {
				spec := withField(commandSpecOf(name, "nginx:1"), aroundFields["NetworkPolicy"])
				obj := newStored(t, kindNamed(t, name), spec)
				obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
				w := newWorld(t, obj, newDeploymentOfOthers(c.controller))
				if c.other != nil {
					w.create(c.other.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // It is the copy of one.
				}
				before := w.deployment()
				for _, image := range []string{"nginx:1", "nginx:2"} {
					w.setSpec(name, strings.Replace(spec, "nginx:1", image, 1))
					w.settle(name)
					w.settle(name)
					if n := len(w.jobs()); n != 0 {
						t.Errorf("%d Jobs for %s", n, image)
					}
					w.stands(image, name, "Applied=False/ResourceExists", "Stalled=True/ResourceExists")
					w.keepsOff(image, before)
				}
				if c.controller != "" {
					return
				}
				w.remove(c.other)
				w.settle(name)
				w.settle(name)
				if n := len(w.jobs()); n != 1 {
					t.Fatalf("%d Jobs once the adoption is possible", n)
				}
				w.keepsOff("the command runs", before)
				w.endJob(batchv1.JobComplete)
				w.settle(name)
				if w.image() != "nginx:2" || w.aboutPods()["NetworkPolicy"]["a"] != "b" {
					t.Errorf("the Deployment runs %s, and there are %v", w.image(), w.aboutPods())
				}
			})
		}
	})
}

// allocateNodePort has the API server refuse the node port of the Service "new" while the Service "old" exists.
func (w *world) allocateNodePort() {
	w.fail = func(verb string, obj client.Object) error {
		old := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
		service, ok := obj.(*corev1.Service)
		if !ok || service.Name != "new" || len(service.Spec.Ports) == 0 || service.Spec.Ports[0].NodePort == 0 || !w.read(old) {
			return nil
		}
		taken := field.Invalid(field.NewPath("spec", "ports").Index(0).Child("nodePort"), 30080, "provided port is already allocated")
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, service.Name, field.ErrorList{taken})
	}
}

// TestCommandWithTakenNodePorts has a Service of another name take over the node port of the former one together with the adoption of a Deployment: the command
// runs although the port is taken as yet, and the former Service stays until then.
func TestCommandWithTakenNodePorts(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		ports := `[{"name":"http","port":80,"nodePort":30080}]`
		spec := flowSpec(name, "nginx:1", ports)
		w := newWorld(t, newStored(t, kindNamed(t, name), withField(spec, `"service":{"name":"old","type":"NodePort"}`)))
		w.allocateNodePort()
		w.settle(name)
		w.remove(w.deployment())
		w.create(newDeploymentOfOthers(""))
		w.annotate(name, appv1.AnnotationAdopt, "true")
		w.setSpec(name, withField(strings.Replace(commandSpecOf(name, "nginx:2"), onePort, ports, 1), `"service":{"name":"new","type":"NodePort"}`))
		w.settle(name)
		w.settle(name)
		if n := len(w.jobs()); n != 1 {
			t.Errorf("%d Jobs: %s", n, w.message(name, appv1.ConditionStalled))
		}
		if !w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old"}}) {
			t.Error("the former Service is gone while the command runs")
		}
		w.endJob(batchv1.JobComplete)
		w.settle(name)
		if !w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new"}}) || w.image() != "nginx:2" {
			t.Errorf("there is no Service, or the Deployment runs %s", w.image())
		}
	})
}

// TestForeignPodsLeaveNodePorts gives a Service another name after another controller has taken the Deployment over: the former Service keeps the node port, as the
// new one leads to no pod.
func TestForeignPodsLeaveNodePorts(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		spec := flowSpec(name, "nginx:1", `[{"name":"http","port":80,"nodePort":30080}]`)
		w := newWorld(t, newStored(t, kindNamed(t, name), withField(spec, `"service":{"name":"old","type":"NodePort"}`)))
		w.allocateNodePort()
		w.settle(name)
		d := w.deployment()
		d.OwnerReferences = controlledBy("web", "Other", "other", "7").OwnerReferences
		w.update(d)
		w.setSpec(name, withField(spec, `"service":{"name":"new","type":"NodePort"}`))
		w.settle(name)
		if !w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "old"}}) {
			t.Error("the former Service is gone")
		}
		w.stands("renamed", name, "Stalled=True/ResourceExists")
		w.remove(w.deployment())
		w.settle(name)
		w.settle(name)
		if !w.read(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new"}}) {
			t.Error("with a Deployment of the owner, there is no new Service")
		}
	})
}

// TestPlanOfCommandWithoutAnAdoption plans an adoption with a command, which is impossible while a Service serves others: the plan has the Job once the adoption
// is possible.
func TestPlanOfCommandWithoutAnAdoption(t *testing.T) {
	for _, name := range heldKinds() {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
			service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
			obj := newStored(t, kindNamed(t, name), commandSpecOf(name, "nginx:1"))
			obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"})
			w := newWorld(t, obj, newDeploymentOfOthers(""), service)
			for _, possible := range []bool{false, true} {
				if possible {
					w.remove(service)
				}
				live := kindNamed(t, name).empty()
				if !w.read(live) {
					t.Fatalf("there is no %s", name)
				}
				wanted, ok := kindNamed(t, name).New().(client.Object)
				if !ok {
					t.Fatalf("%s is no API object", name)
				}
				text, err := json.Marshal(live)
				if err := errors.Join(err, json.Unmarshal(text, wanted)); err != nil {
					t.Fatal(err)
				}
				wanted.GetObjectKind().SetGroupVersionKind(appv1.GroupVersion.WithKind(name))
				made, err := newPlanner(w.Deps).Plan(t.Context(), name, wanted)
				if err != nil {
					t.Fatal(err)
				}
				said := strings.Join(made.Lines(20, 300), "\n")
				if strings.Contains(said, "Job web-") != possible {
					t.Errorf("the adoption is possible: %t, and the plan is %s", possible, said)
				}
			}
		})
	}
}
