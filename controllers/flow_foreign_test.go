package controllers

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// ofOthers are the labels of the pods of another Deployment.
var ofOthers = map[string]string{"a": "b"}

// aroundAll returns the spec of a kind with all fields for objects about pods.
func aroundAll(kindName string) string {
	var all []string
	for _, kind := range []string{"HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget"} {
		all = append(all, aroundFields[kind])
	}
	return around(kindName, strings.Join(all, ","))
}

// newDeploymentOfOthers returns a Deployment web with 10 pods that runs for another controller, or for none.
func newDeploymentOfOthers(controller string) *appsv1.Deployment {
	d := newPlainDeployment("web", 10)
	d.ObjectMeta = controlledBy("web", "Other", controller, "7")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: ofOthers}
	d.Spec.Template.Labels = ofOthers
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:0"}}
	return d
}

// aboutPods returns the selectors of the objects about pods and of the Service, by kind. That of an autoscaler is empty.
func (w *world) aboutPods() map[string]map[string]string {
	w.t.Helper()
	found := map[string]map[string]string{}
	scaler, policy, budget, service := &autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}, &corev1.Service{}
	if w.read(scaler) {
		found["HorizontalPodAutoscaler"] = nil
	}
	if w.read(policy) {
		found["NetworkPolicy"] = policy.Spec.PodSelector.MatchLabels
	}
	if w.read(budget) {
		found["PodDisruptionBudget"] = budget.Spec.Selector.MatchLabels
	}
	if w.read(service) {
		found["Service"] = service.Spec.Selector
	}
	return found
}

// keepsOff checks that no object of the operator's is about the pods of others, and that their Deployment is as it was.
func (w *world) keepsOff(what string, before *appsv1.Deployment) {
	w.t.Helper()
	for kind, selector := range w.aboutPods() {
		if selector["c"] != "d" && (kind != "Service" || selector["a"] == "b") { // The others have an object of their own.
			w.t.Errorf("%s: there is a %s that selects %v", what, kind, selector)
		}
	}
	if after := w.deployment(); after.ResourceVersion != before.ResourceVersion {
		w.t.Errorf("%s: the Deployment was written", what)
	}
}

// TestForeignPods has the Deployment of the name belong to others, while the spec asks for all objects about pods: none of them, and no Service, is about
// the pods of others, until they are adopted.
func TestForeignPods(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		inTheWay := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		inTheWay.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}}
		for what, c := range map[string]struct {
			controller, adopt string
			other             client.Object
			adopted           bool
		}{
			"nobody's":                       {},
			"another's":                      {controller: "other"},
			"another's, to adopt":            {controller: "other", adopt: "true"},
			"nobody's, to adopt":             {adopt: "true", adopted: true},
			"nobody's, not to be adopted":    {adopt: "true", other: inTheWay},
			"nobody's, to keep the template": {adopt: "without-restart", adopted: true},
		} {
			t.Run(what, func(t *testing.T) {
				obj := newStored(t, kindNamed(t, name), aroundAll(name))
				obj.SetAnnotations(map[string]string{appv1.AnnotationAdopt: c.adopt})
				w := newWorld(t, obj, newDeploymentOfOthers(c.controller))
				if c.other != nil {
					w.create(c.other.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // It is the copy of one.
				}
				before := w.deployment()
				w.settle(name)
				if c.adopted {
					about := w.aboutPods()
					if len(about) != 4 || about["NetworkPolicy"]["a"] != "b" || about["PodDisruptionBudget"]["a"] != "b" || about["Service"]["a"] != "b" {
						t.Errorf("after the adoption, there are %v", about)
					}
					return
				}
				for range 2 {
					w.keepsOff(what, before)
					w.stands(what, name, "Applied=False/ResourceExists", "Stalled=True/ResourceExists")
					w.settle(name)
				}
			})
		}
	})
}

// TestForeignAdoptionOfAKnownOwner withholds the adoption of a Deployment from a resource that was reconciled before, and that has a Service: the Service
// does not lead to the pods meanwhile.
func TestForeignAdoptionOfAKnownOwner(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), aroundAll(name)), newDeploymentOfOthers(""))
		before := w.deployment()
		w.settle(name)
		inTheWay := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		inTheWay.Spec.PodSelector.MatchLabels = map[string]string{"c": "d"}
		w.create(inTheWay)
		w.annotate(name, appv1.AnnotationAdopt, "true")
		w.settle(name)
		w.settle(name)
		w.stands("withheld", name, "Stalled=True/ResourceExists")
		w.keepsOff("withheld", before)
		w.remove(inTheWay)
		w.settle(name)
		if about := w.aboutPods(); len(about) != 4 || about["Service"]["a"] != "b" {
			t.Errorf("after the adoption, there are %v", about)
		}
	})
}

// TestForeignOwnerTakesOver gives the Deployment of a resource to another controller, or has another Deployment in its place: the autoscaler of the
// resource is deleted, the other objects stay as they are, and all are back with the Deployment.
func TestForeignOwnerTakesOver(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		for what, change := range map[string]func(w *world){
			"another controller": func(w *world) {
				d := w.deployment()
				d.OwnerReferences = controlledBy("web", "Other", "other", "7").OwnerReferences
				w.update(d)
			},
			"another Deployment": func(w *world) {
				w.remove(w.deployment())
				w.create(newDeploymentOfOthers(""))
			},
		} {
			t.Run(what, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, name), aroundAll(name)))
				w.settle(name)
				whole := w.aboutPods()
				if len(whole) != 4 {
					t.Fatalf("there are %v", whole)
				}
				change(w)
				before := w.deployment()
				w.sent()
				for range 2 {
					w.settle(name)
					w.stands(what, name, "Stalled=True/ResourceExists", "Autoscaled=False/ResourceExists")
					if about := w.aboutPods(); len(about) != 3 || about["NetworkPolicy"]["a"] == "b" || about["Service"]["a"] == "b" {
						t.Errorf("there are %v", about)
					}
				}
				if _, scaled := w.aboutPods()["HorizontalPodAutoscaler"]; scaled || w.deployment().ResourceVersion != before.ResourceVersion {
					t.Errorf("an autoscaler: %t, or the Deployment was written", scaled)
				}
				if said := strings.Join(w.sent(), "\n"); strings.Count(said, "HorizontalPodAutoscaler web") != 1 {
					t.Errorf("the events are %q", said)
				}
				w.remove(w.deployment())
				w.settle(name)
				w.settle(name)
				if about := w.aboutPods(); len(about) != 4 {
					t.Errorf("with the Deployment, there are %v", about)
				}
			})
		}
	})
}

// TestLostOwnerKeepsAll removes the owner reference and the annotations of the Deployment of a resource, as kubectl replace does: the objects about its pods
// stay, the autoscaler among them.
func TestLostOwnerKeepsAll(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), aroundAll(name)))
		w.settle(name)
		d := w.deployment()
		d.OwnerReferences, d.Annotations, d.Labels = nil, nil, nil
		w.update(d)
		w.settle(name)
		w.settle(name)
		w.stands("lost", name, "Stalled=True/ResourceExists")
		if about := w.aboutPods(); len(about) != 4 {
			t.Errorf("there are %v", about)
		}
	})
}

// newAdopted returns a world with a resource that has adopted a Deployment with a selector of its own, and adopts no more.
func newAdopted(t *testing.T, name string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, name), aroundAll(name)), newDeploymentOfOthers(""))
	w.annotate(name, appv1.AnnotationAdopt, "true")
	w.settle(name)
	w.annotate(name, appv1.AnnotationAdopt, "")
	w.settle(name)
	if about := w.aboutPods(); len(about) != 4 || about["Service"]["a"] != "b" {
		t.Fatalf("after the adoption, there are %v", about)
	}
	return w
}

// TestForeignAfterClearedFields removes the owner reference of an adopted Deployment together with all managed fields, as a restore does: the Deployment gets its
// owner back, and all objects stay as they are, also while the spec changes meanwhile.
func TestForeignAfterClearedFields(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		for what, changed := range map[string]bool{"the same spec": false, "another spec": true} {
			t.Run(what, func(t *testing.T) {
				w := newAdopted(t, name)
				scaler, service := &autoscalingv2.HorizontalPodAutoscaler{}, &corev1.Service{}
				w.read(scaler)
				d := w.deployment()
				d.OwnerReferences, d.ManagedFields = nil, []metav1.ManagedFieldsEntry{{}}
				w.update(d)
				if changed {
					w.setSpec(name, strings.Replace(aroundAll(name), "nginx:1", "nginx:3", 1))
				}
				w.settle(name)
				w.settle(name)
				if owned := metav1.GetControllerOf(w.deployment()) != nil; owned == changed {
					t.Errorf("the Deployment has its owner: %t", owned)
				}
				after := &autoscalingv2.HorizontalPodAutoscaler{}
				if !w.read(after) || after.UID != scaler.UID || !w.read(service) || service.Spec.Selector["a"] != "b" {
					t.Errorf("the autoscaler is %q, was %q, and the Service selects %v", after.UID, scaler.UID, service.Spec.Selector)
				}
			})
		}
	})
}

// TestForeignLeavesService has another Deployment in the place of one that a resource has adopted with a selector of its own: the Service of the resource stays
// as it is, and the message about a policy of nobody's says how to adopt it.
func TestForeignLeavesService(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		w := newAdopted(t, name)
		before := &corev1.Service{}
		w.read(before)
		policy := &networkingv1.NetworkPolicy{}
		w.read(policy)
		policy.OwnerReferences, policy.Labels, policy.Annotations = nil, nil, nil
		w.update(policy)
		w.remove(w.deployment())
		w.create(newDeploymentOfOthers(""))
		w.setSpec(name, withField(aroundAll(name), `"service":{"type":"ClusterIP","annotations":{"k":"v"}}`))
		w.settle(name)
		w.settle(name)
		w.stands("foreign", name, "Stalled=True/ResourceExists")
		if said := w.message(name, appv1.ConditionApplied); !strings.Contains(said, "NetworkPolicy web was applied") || strings.Count(said, "kubectl annotate") != 2 {
			t.Errorf("the message is %q", said)
		}
		after := &corev1.Service{}
		if !w.read(after) || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the Service was written: it selects %v", after.Spec.Selector)
		}
		w.annotate(name, appv1.AnnotationAdopt, "true")
		w.settle(name)
		w.settle(name)
		if w.read(after); after.Annotations["k"] != "v" || after.Spec.Selector["a"] != "b" {
			t.Errorf("after the adoption, the Service has %v and selects %v", after.Annotations, after.Spec.Selector)
		}
	})
}

// TestForeignScalerStays has the first deletion of the autoscaler fail once others have the Deployment: the trouble is reported, and the deletion is tried again.
func TestForeignScalerStays(t *testing.T) {
	forNames(t, servingKinds(), func(t *testing.T, name string) {
		w := newWorld(t, newStored(t, kindNamed(t, name), aroundAll(name)))
		w.settle(name)
		d := w.deployment()
		d.OwnerReferences = controlledBy("web", "Other", "other", "7").OwnerReferences
		w.update(d)
		w.fail = func(verb string, obj client.Object) error {
			if _, scaler := obj.(*autoscalingv2.HorizontalPodAutoscaler); scaler && verb == "delete" {
				return apierrors.NewInternalError(errors.New("a hook is down"))
			}
			return nil
		}
		_, err := w.reconcile(name)
		if err == nil || !strings.Contains(err.Error(), "a hook is down") {
			t.Errorf("the error is %v", err)
		}
		w.fail = nil
		w.settle(name)
		if _, scaled := w.aboutPods()["HorizontalPodAutoscaler"]; scaled {
			t.Error("the autoscaler is there")
		}
	})
}
