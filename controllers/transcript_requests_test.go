package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// betweenReconciles is the section of the actions of other clients.
const betweenReconciles = "other clients"

// request writes a request, with its error.
func (w *world) request(verb string, obj client.Object, details string, lines []string, err error) {
	section := w.heading()
	w.script.touched[w.kindOf(obj)] = true
	head := verb + " " + w.kindOf(obj) + " " + obj.GetName()
	if details != "" {
		head += " (" + details + ")"
	}
	w.script.printf(section, "%s", head)
	for _, line := range lines {
		w.script.printf(section, "    %s", line)
	}
	if err != nil {
		w.script.printf(section, "    answer: %v", err)
	}
}

// heading returns the heading of what happens now.
func (w *world) heading() string {
	if w.section == "" {
		return betweenReconciles
	}
	return w.section
}

func (w *world) kindOf(obj runtime.Object) string {
	gvk, err := apiutil.GVKForObject(obj, w.scheme)
	if err != nil {
		typed := fmt.Sprintf("%T", obj)
		return typed[strings.LastIndex(typed, ".")+1:]
	}
	return gvk.Kind
}

// writes are the interceptors that write the requests of the operator and of other clients into the transcript, around those of the
// world.
func (w *world) writes() interceptor.Funcs {
	return interceptor.Funcs{
		Get: w.get,
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			o := (&client.CreateOptions{}).ApplyOptions(opts)
			if job, ok := obj.(*batchv1.Job); ok { // As the API server does. No two Jobs are of the same second.
				job.CreationTimestamp = metav1.NewTime(w.clock.Now())
				w.clock.SetTime(w.clock.Now().Add(time.Second))
			}
			err := c.Create(ctx, obj, opts...)
			w.request("create", obj, describe(o.FieldManager, o.DryRun), nil, err)
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			o := (&client.UpdateOptions{}).ApplyOptions(opts)
			err := c.Update(ctx, obj, opts...)
			w.request("update", obj, describe(o.FieldManager, o.DryRun), nil, err)
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			details, lines, err := w.patchLines(ctx, c, obj, patch, opts...)
			if err != nil {
				return err
			}
			err = w.patch(ctx, c, obj, patch, opts...)
			dateCronJob(obj)
			w.request(patchVerb(patch.Type()), obj, details, lines, err)
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			details := w.deleteDetails(ctx, c, obj, opts...)
			err := w.delete(ctx, c, obj, opts...)
			w.request("delete", obj, details, nil, err)
			return err
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error {
			err := c.DeleteAllOf(ctx, obj, opts...)
			w.request("delete all of", obj, "", nil, err)
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			err := c.SubResource(sub).Update(ctx, obj, opts...)
			w.request("update "+sub, obj, "", nil, err)
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
			data, err := patch.Data(obj)
			if err != nil {
				return err
			}
			lines := w.jsonPatchLines(data, w.live(ctx, c, obj))
			if sub == "status" { // The state of the status follows. Here are the conditions of the request.
				lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "test ") })
			}
			err = w.patchSubresource(ctx, c, sub, obj, patch, opts...)
			w.request(patchVerb(patch.Type())+" "+sub, obj, describe(o.FieldManager, o.DryRun), lines, err)
			return err
		},
	}
}

// liveReads are the interceptors of a client that reads from the API server, past the cache.
func (w *world) liveReads() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			named, ok := obj.DeepCopyObject().(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", obj)
			}
			named.SetName(key.Name)
			w.request("live get", named, "", nil, err)
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.script.printf(w.heading(), "live list %s", w.kindOf(list))
			return c.List(ctx, list, opts...)
		},
	}
}

func patchVerb(of types.PatchType) string {
	switch of {
	case types.ApplyPatchType:
		return "apply"
	case types.JSONPatchType:
		return "JSON patch"
	case types.MergePatchType:
		return "merge patch"
	}
	return string(of)
}

// describe returns the options of a request.
func describe(manager string, dryRun []string, more ...string) string {
	parts := []string{}
	if manager != "" {
		parts = append(parts, "by "+manager)
	}
	if len(dryRun) > 0 {
		parts = append(parts, "dry run")
	}
	return strings.Join(append(parts, more...), ", ")
}

func (w *world) deleteDetails(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) string {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	var more []string
	if o.PropagationPolicy != nil {
		more = append(more, string(*o.PropagationPolicy))
	}
	if o.Preconditions != nil {
		live := w.live(ctx, c, obj)
		if uid := o.Preconditions.UID; uid != nil {
			more = append(more, "uid "+w.precondition(string(*uid), live, client.Object.GetUID))
		}
		if version := o.Preconditions.ResourceVersion; version != nil {
			more = append(more, "resourceVersion "+w.precondition(*version, live, resourceVersion))
		}
	}
	return describe("", o.DryRun, more...)
}

// live returns an object as it is, nil if there is none.
func (w *world) live(ctx context.Context, c client.Client, obj client.Object) client.Object {
	live := &metav1.PartialObjectMetadata{}
	gvk, err := apiutil.GVKForObject(obj, w.scheme)
	if err != nil {
		w.t.Fatal(err)
	}
	live.SetGroupVersionKind(gvk)
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: obj.GetName()}, live); err != nil {
		return nil
	}
	return live
}

func resourceVersion(obj client.Object) types.UID { return types.UID(obj.GetResourceVersion()) }

// precondition says of a precondition whether it is met, as the number itself depends on how often a test writes.
func (w *world) precondition(value string, live client.Object, of func(client.Object) types.UID) string {
	switch {
	case live == nil:
		return value + ", and there is none"
	case string(of(live)) == value:
		return "of the live one"
	}
	return "another"
}

// patchLines returns the options and the lines of a patch: of an apply request the whole body, or what differs from the last one.
func (w *world) patchLines(ctx context.Context, c client.Client, obj client.Object, patch client.Patch, opts ...client.PatchOption) (string, []string, error) {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	var more []string
	if o.Force != nil && *o.Force {
		more = append(more, "forced")
	}
	details := describe(o.FieldManager, o.DryRun, more...)
	data, err := patch.Data(obj)
	if err != nil {
		return "", nil, err
	}
	if patch.Type() != types.ApplyPatchType {
		return details, w.jsonPatchLines(data, w.live(ctx, c, obj)), nil
	}
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		return "", nil, err
	}
	about, _ := body["metadata"].(map[string]any)
	live := w.live(ctx, c, obj)
	for field, of := range map[string]func(client.Object) types.UID{"uid": client.Object.GetUID, "resourceVersion": resourceVersion} {
		if value, ok := about[field].(string); ok {
			about[field] = "(" + w.precondition(value, live, of) + ")"
		}
	}
	w.shorten(w.kindOf(obj), body)
	flat := map[string]string{}
	flatten("", body, flat)
	key := w.kindOf(obj) + " " + obj.GetName() + " of " + o.FieldManager
	last, again := w.script.sent[key]
	if len(o.DryRun) == 0 {
		w.script.sent[key] = flat
	}
	if again {
		return details, difference(last, flat), nil
	}
	fold(body, about)
	text, err := yaml.Marshal(body)
	return details, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

// fold replaces parts of a body that each object has, or that the golden files of package resource have, by one line each.
func fold(body, about map[string]any) {
	delete(body, "kind") // They are in the line of the request.
	delete(about, "name")
	if about["namespace"] == namespace {
		delete(about, "namespace")
	}
	owners, _ := about["ownerReferences"].([]any)
	for i, each := range owners {
		if owner, ok := each.(map[string]any); ok {
			owners[i] = fmt.Sprintf("%v %v %v uid %v controller %v blocks %v", owner["apiVersion"], owner["kind"], owner["name"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"])
		}
	}
	spec, _ := body["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	containers, _ := pod["containers"].([]any)
	if len(containers) == 0 {
		return
	}
	text := "#" + hashOf(template)
	for _, each := range containers {
		if c, ok := each.(map[string]any); ok {
			text += fmt.Sprintf(" %v=%v", c["name"], c["image"])
		}
	}
	spec["template"] = text
}

// jsonPatchLines returns the operations of a JSON patch, or the text of another one.
func (w *world) jsonPatchLines(data []byte, live client.Object) []string {
	var operations []struct {
		Op, Path, From string
		Value          any
	}
	if err := json.Unmarshal(data, &operations); err != nil {
		return []string{string(data)}
	}
	var lines []string
	for _, each := range operations {
		value := map[string]any{"value": each.Value}
		w.shorten("", value)
		switch {
		case strings.HasPrefix(each.Path, "/metadata/managedFields"):
			value["value"] = managers(each.Value)
		case each.Path == "/metadata/resourceVersion":
			value["value"] = w.precondition(fmt.Sprint(each.Value), live, resourceVersion)
		case each.Path == "/metadata/uid":
			value["value"] = w.precondition(fmt.Sprint(each.Value), live, client.Object.GetUID)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", each.Op, each.Path, leaf(value["value"])))
	}
	return lines
}

// managers returns managed fields without their times, each set of fields as a hash.
func managers(value any) any {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var all []string
	for _, each := range list {
		entry, ok := each.(map[string]any)
		if !ok {
			all = append(all, fmt.Sprint(each))
			continue
		}
		all = append(all, fmt.Sprintf("%v %v %v #%s", entry["manager"], entry["operation"], entry["subresource"], hashOf(entry["fieldsV1"])))
	}
	return all
}
