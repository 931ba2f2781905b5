package controllers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
)

// scripted is a recorder that writes the events into the transcript, too.
type scripted struct {
	w    *world
	next events.EventRecorder
}

// Eventf implements events.EventRecorder.
func (s scripted) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	name := ""
	if m, err := meta.Accessor(regarding); err == nil {
		name = m.GetName()
	}
	text := fmt.Sprintf(note, args...)
	if action != "Reconcile: "+text {
		text += " [" + action + "]"
	}
	s.w.script.printf(s.w.heading(), "event %s %s of %s %s: %s", kind, reason, s.w.kindOf(regarding), name, text)
	s.next.Eventf(regarding, related, kind, reason, action, note, args...)
}

// typesOfScenes returns empty objects of the kinds of the operator, and of the types that it applies.
var typesOfScenes = sync.OnceValue(func() []client.Object {
	var all []client.Object
	for _, k := range allKinds() {
		all = append(all, k.empty())
	}
	for i := range children.Types {
		all = append(all, children.Types[i].Object)
	}
	return all
})

// scene returns the state of all objects of a kind.
func (w *world) scene(gvk schema.GroupVersionKind, own bool) map[string]string {
	w.t.Helper()
	state := map[string]string{}
	made, err := w.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		w.t.Fatal(err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		w.t.Fatalf("%T is no list", made)
	}
	if err := w.base.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	err = meta.EachListItem(list, func(each runtime.Object) error {
		w.addState(each, own, state)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return state
}

// addState adds the state of an object: of a resource of the operator the spec and the status, of another object a hash of its content.
func (w *world) addState(obj runtime.Object, own bool, state map[string]string) {
	var body map[string]any
	data, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	m, metaErr := meta.Accessor(obj)
	if err != nil || metaErr != nil {
		w.t.Fatal(errors.Join(err, metaErr))
	}
	name := w.kindOf(obj) + " " + strings.TrimPrefix(m.GetNamespace()+"/", namespace+"/") + m.GetName()
	add := func(path string, value any) { flatten(name+" "+path, value, state) }
	if own {
		for key, value := range m.GetAnnotations() {
			add("annotation "+key, shortened(value))
		}
		spec, err := json.Marshal(body["spec"])
		if err != nil {
			w.t.Fatal(err)
		}
		add("spec", shortened(string(spec)))
		if status, ok := body["status"].(map[string]any); ok {
			w.addStatus(status, add)
		}
	} else {
		w.addChild(name, m, add)
		delete(body, "metadata")
		delete(body, "status")
		if w.kindOf(obj) == "Secret" {
			w.shorten("Secret", body)
		}
		add("content", "#"+hashOf(body))
	}
	if len(m.GetFinalizers()) > 0 {
		add("finalizers", fmt.Sprint(m.GetFinalizers()))
	}
	if m.GetDeletionTimestamp() != nil {
		add("to be deleted", true)
	}
}

// addChild adds the metadata of an object that is no resource of the operator: the annotations are left out that have the value of the
// last apply request of the controller's manager.
func (w *world) addChild(name string, m metav1.Object, add func(string, any)) {
	by := map[string]bool{}
	applied := map[string]string{}
	for _, entry := range m.GetManagedFields() {
		by[strings.TrimSpace(entry.Manager+" "+entry.Subresource)] = true
		maps.Copy(applied, w.script.sent[name+" of "+entry.Manager])
	}
	for key, value := range m.GetAnnotations() {
		if value = leaf(shortened(value)); applied["metadata.annotations."+key] != value {
			add("annotation "+key, value)
		}
	}
	text := "by " + strings.Join(slices.Sorted(maps.Keys(by)), ", ")
	if c := metav1.GetControllerOf(m); c != nil {
		text = "of " + c.Kind + " " + c.Name + " " + text
	} else if c := health.JobOwner(m); c != nil {
		text = "for " + c.Kind + " " + c.Name + " " + text
	}
	add("metadata", text+", labels #"+hashOf(m.GetLabels()))
}

// addStatus adds a status, each condition as one line, without the times of the conditions, which are not of the world's clock.
func (w *world) addStatus(status map[string]any, add func(string, any)) {
	conditions, _ := status["conditions"].([]any)
	generations := map[string]bool{}
	for _, each := range conditions {
		c, ok := each.(map[string]any)
		if !ok {
			continue
		}
		text := fmt.Sprintf("%v/%v", c["status"], c["reason"])
		if message := fmt.Sprint(c["message"]); message != "" {
			text += ": " + message
		}
		add(fmt.Sprintf("condition %v", c["type"]), text)
		generation, ok := c["observedGeneration"]
		if !ok {
			generation = "none"
		}
		generations[fmt.Sprint(generation)] = true
	}
	if len(conditions) > 0 {
		add("conditions of generation", strings.Join(slices.Sorted(maps.Keys(generations)), ", "))
	}
	delete(status, "conditions")
	add("status", status)
}

// writeScene writes what has changed in the state since it was last written.
func (w *world) writeScene(section string) {
	w.t.Helper()
	for i, obj := range typesOfScenes() {
		gvk, err := apiutil.GVKForObject(obj, w.scheme)
		if err != nil {
			w.t.Fatal(err)
		}
		before, seen := w.script.state[gvk.Kind]
		if seen && !w.script.touched[gvk.Kind] {
			continue
		}
		now := w.scene(gvk, i < len(allKinds()))
		w.script.state[gvk.Kind] = now
		if maps.Equal(before, now) {
			continue
		}
		for _, line := range difference(before, now) {
			w.script.printf(section, "%s", line)
		}
	}
	clear(w.script.touched)
}

// play reconciles with a reconciler, and writes into the transcript the outcome.
func (w *world) play(kindName string, r reconcile.Reconciler) (reconcile.Result, error) {
	w.t.Helper()
	w.writeScene(betweenReconciles)
	w.section = fmt.Sprintf("reconcile %s at %s", kindName, w.clock.Now().Sub(w.script.start))
	defer func() { w.section = "" }()
	result, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: webKey})
	w.writeScene(w.section)
	switch {
	case err != nil:
		w.script.printf(w.section, "result: %v", err)
	case result != reconcile.Result{}:
		w.script.printf(w.section, "result: requeue %t, after %s", result.Requeue, result.RequeueAfter) //nolint:staticcheck // The skeleton asks for the queue's back-off by it.
	default:
		w.script.printf(w.section, "result: done")
	}
	return result, err
}
