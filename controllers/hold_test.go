package controllers

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// heldKinds are the names of the kinds that run an earlier spec on request.
func heldKinds() []string {
	var names []string
	for i := range resource.Kinds {
		if resource.Kinds[i].Holds {
			names = append(names, resource.Kinds[i].Name)
		}
	}
	return names
}

// replicaSet creates the ReplicaSet that the controller of Deployments makes of the Deployment web as it is now, with its records.
func (w *world) replicaSet(name string, change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	w.t.Helper()
	d := w.deployment()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Annotations: d.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: name},
	}}
	set.Spec.Selector = d.Spec.Selector
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, name)
	for _, each := range change {
		each(set)
	}
	w.create(set)
	return set
}

// run makes the pods of the Deployment web those of a ReplicaSet, all of them ready.
func (w *world) run(kindName string, set *appsv1.ReplicaSet) {
	w.t.Helper()
	w.makeAvailable()
	if err := w.Client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{set.Name + "-a", set.Name + "-b"} {
		pod := newPod(w.t, kindName, name, "")
		pod.Status.ContainerStatuses = nil
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		w.create(pod)
	}
	w.requests = nil
}

// image is that of the Deployment web.
func (w *world) image() string {
	w.t.Helper()
	return w.deployment().Spec.Template.Spec.Containers[0].Image
}

// history returns what the status of the resource web says of its ReplicaSets.
func (w *world) history(kindName string) *appv1.HistoryStatus {
	w.t.Helper()
	live := kindNamed(w.t, kindName).empty()
	if !w.read(live) {
		w.t.Fatalf("there is no %s", kindName)
	}
	return decodeStatus[appv1.HistoryStatus](w.t, live)
}

// heldWorld returns a world in which the pods of nginx:1, of the ReplicaSet web-1, were ready, and those of nginx:2, of web-2, are.
func heldWorld(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), flowSpec(kindName, "nginx:1", onePort)))
	for _, each := range []string{"1", "2"} {
		w.setSpec(kindName, flowSpec(kindName, "nginx:"+each, onePort))
		w.settle(kindName)
		w.run(kindName, w.replicaSet("web-"+each))
		w.settle(kindName)
		if got := w.history(kindName); got.ReplicaSet != "web-"+each || got.LastGood == nil || got.LastGood.ReplicaSet != "web-"+each {
			t.Fatalf("the status says of the ReplicaSets %+v", got)
		}
	}
	w.requests = nil
	w.sent()
	return w
}

// TestHoldFlow holds a resource of each kind at an earlier ReplicaSet, through a change of its spec and a restart of the operator, and
// lets the spec take effect again.
func TestHoldFlow(t *testing.T) {
	for _, name := range heldKinds() {
		t.Run(name, func(t *testing.T) {
			w := heldWorld(t, name)
			status := "status " + name + " web"
			w.annotate(name, appv1.AnnotationHold, "web-1")
			w.settle(name)
			w.wrote("hold", "patch Deployment web", status)
			if got := w.image(); got != "nginx:1" {
				t.Errorf("the image is %s", got)
			}
			w.stands("hold", name, "Applied=False/Held", "Ready=False/Held", "Stalled=False/NotStalled")
			if got := w.message(name, appv1.ConditionApplied); !containsAll(got, "web-1", "nginx:1", appv1.AnnotationHold) {
				t.Errorf("Applied says %q", got)
			}
			w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: "uid-web-1"}})
			w.settle(name)
			w.wrote("the held pods run", status)
			w.settle(name)
			w.wrote("idle")
			if got := w.history(name); got.ReplicaSet != "web-1" || got.LastGood.ReplicaSet != "web-2" {
				t.Errorf("the status says of the ReplicaSets %+v", got)
			}

			w.setSpec(name, flowSpec(name, "nginx:3", onePort))
			w.settle(name)
			w.wrote("another spec", status)
			w.restart()
			w.settle(name)
			w.wrote("restart of the operator")
			if got := w.image(); got != "nginx:1" {
				t.Errorf("after another spec, the image is %s", got)
			}

			w.annotate(name, "team", "a")
			w.settle(name)
			if got := w.image(); got != "nginx:3" {
				t.Errorf("after the hold, the image is %s", got)
			}
			w.stands("no hold", name, "Applied=True/Applied")
			if mark := w.deployment().Annotations[appv1.AnnotationHeld]; mark != "" {
				t.Errorf("the Deployment is marked as held: %s", mark)
			}
		})
	}
}

// TestHoldRepairs changes what is held by hand, and deletes it: the held pods come back, and not those of the spec.
func TestHoldRepairs(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := heldWorld(t, name)
		w.annotate(name, appv1.AnnotationHold, "web-1")
		w.settle(name)
		d := w.deployment()
		d.Spec.Template.Spec.Containers[0].Image = "evil:1"
		w.update(d)
		w.settle(name)
		if got := w.image(); got != "nginx:1" {
			t.Errorf("%s: after an edit, the image is %s", name, got)
		}
		w.remove(w.deployment())
		w.settle(name)
		if got := w.image(); got != "nginx:1" {
			t.Errorf("%s: after a deletion, the image is %s", name, got)
		}
		w.stands("after a deletion", name, "Applied=False/Held")
	})
}

// TestHoldLastGood holds the last good ReplicaSet while a newer one does not come up; it stays the one that is held, whatever the
// status says later.
func TestHoldLastGood(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := heldWorld(t, name)
		w.setSpec(name, flowSpec(name, "nginx:3", onePort))
		w.settle(name)
		w.replicaSet("web-3")
		w.annotate(name, appv1.AnnotationHold, appv1.HoldLastGood)
		w.settle(name)
		if got := w.image(); got != "nginx:2" {
			t.Errorf("%s: the image is %s", name, got)
		}
		w.run(name, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-2", UID: "uid-web-2"}})
		w.settle(name)
		w.requests = nil
		w.settle(name)
		w.wrote(name + ", idle")
		w.stands("held", name, "Applied=False/Held")
	})
}

// TestHoldRefused names ReplicaSets that cannot be held. What was in force stays so, and the status says what is wrong and what to do.
func TestHoldRefused(t *testing.T) {
	forbidden := func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "replicasets"}, "web-1", nil)
	}
	for name, c := range map[string]struct {
		value  string
		change func(*appsv1.ReplicaSet)
		unread func(string) error
		reason string
		says   []string
	}{
		"it does not exist":  {value: "web-9", reason: appv1.ReasonRevisionNotFound, says: []string{"ReplicaSet web-9 does not exist", "web-2"}},
		"it is no name":      {value: "Web 1", reason: appv1.ReasonRevisionNotFound, says: []string{"is not the name of a ReplicaSet"}},
		"it has a slash":     {value: "a/b", reason: appv1.ReasonRevisionNotFound, says: []string{"is not the name of a ReplicaSet"}},
		"it is two dots":     {value: "..", reason: appv1.ReasonRevisionNotFound, says: []string{"is not the name of a ReplicaSet"}},
		"it is too long":     {value: strings.Repeat("x", 300), reason: appv1.ReasonRevisionNotFound, says: []string{"is not the name of a ReplicaSet"}},
		"it is a document":   {value: strings.Repeat("y", 20<<10), reason: appv1.ReasonRevisionNotFound, says: []string{"is not the name of a ReplicaSet"}},
		"it cannot be read":  {value: "odd", unread: forbidden, reason: appv1.ReasonForbidden, says: []string{"may not read ReplicaSet odd"}},
		"nothing was good":   {value: appv1.HoldLastGood, reason: appv1.ReasonRevisionNotFound, says: []string{"no ReplicaSet that has a record of its spec has been ready yet"}},
		"it is another's":    {"odd", func(set *appsv1.ReplicaSet) { set.OwnerReferences[0].UID = "other" }, nil, appv1.ReasonRevisionNotFound, []string{"belongs to another Deployment"}},
		"it has no record":   {"odd", func(set *appsv1.ReplicaSet) { set.Annotations = nil }, nil, appv1.ReasonRevisionNotFound, []string{"has no record"}},
		"it has no inputs":   {"odd", func(set *appsv1.ReplicaSet) { set.Annotations[appv1.AnnotationLastAppliedInputs] = "{" }, nil, appv1.ReasonRevisionNotFound, []string{"has no record"}},
		"its record is odd":  {"odd", func(set *appsv1.ReplicaSet) { set.Annotations[appv1.AnnotationLastAppliedSpec] = "{" }, nil, appv1.ReasonRevisionNotFound, []string{"has no record"}},
		"its pods are odd":   {"odd", func(set *appsv1.ReplicaSet) { set.Spec.Template.Spec.Containers[0].Image = "evil:1" }, nil, appv1.ReasonRevisionNotFound, []string{"has no record"}},
		"its labels are odd": {"odd", func(set *appsv1.ReplicaSet) { set.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x" }, nil, appv1.ReasonRevisionNotFound, []string{"has no record"}},
	} {
		for _, kindName := range heldKinds() {
			t.Run(kindName+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				w := heldWorld(t, kindName)
				if c.value == appv1.HoldLastGood {
					w.forgetGood(kindName)
				}
				w.replicaSet("odd", func(set *appsv1.ReplicaSet) {
					if c.change != nil {
						c.change(set)
					}
				})
				w.annotate(kindName, appv1.AnnotationHold, c.value)
				w.unread = c.unread
				_, _ = w.reconcile(kindName) // It is tried again.
				w.stands(name, kindName, "Stalled=True/"+c.reason, "Applied=False/"+c.reason)
				if got := w.message(kindName, appv1.ConditionStalled); !containsAll(got, c.says...) {
					t.Errorf("Stalled says %q", got)
				}
				if got := w.image(); got != "nginx:2" {
					t.Errorf("the image is %s", got)
				}
				d := w.deployment()
				d.Spec.Template.Spec.Containers[0].Image = "evil:1"
				w.update(d)
				_, _ = w.reconcile(kindName)
				if got := w.image(); got != "nginx:2" {
					t.Errorf("an edit by hand stays: the image is %s", got)
				}
			})
		}
	}
}

// forgetGood removes what the status of the resource web says of ReplicaSets, and has its pods be none of a known one.
func (w *world) forgetGood(kindName string) {
	w.t.Helper()
	if err := w.Client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	live := kindNamed(w.t, kindName).empty()
	live.SetNamespace(namespace)
	live.SetName("web")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicaSet":null,"lastGood":null}}`))
	if err := w.Client.Status().Patch(context.Background(), live, patch); err != nil {
		w.t.Fatal(err)
	}
}
