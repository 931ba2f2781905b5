package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/yaml"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// fileChanges returns the changes that applying files would make. Objects of other kinds are named and left out.
func (r *root) fileChanges(ctx context.Context, c *clients, o *planOptions) ([]change, error) {
	objects, err := r.readObjects(ctx, o.files, o.recursive)
	if err != nil {
		return nil, err
	}
	return c.changesOf(ctx, objects, o.manager, func(remark string) { fmt.Fprintln(r.Err, remark) })
}

// notPlanned returns the remark on an object that has no plan here. The API server answers a dry run of AppDefaults with their plan.
func notPlanned(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "AppDefaults" && obj.GroupVersionKind().Group == appv1.GroupVersion.Group {
		return fmt.Sprintf("Not planned: %s %s, whose plan is about many Apps; a server-side dry run of its apply prints it", obj.GetKind(), obj.GetName())
	}
	return fmt.Sprintf("Not planned: %s %s, which is no resource of app-operator", obj.GetKind(), obj.GetName())
}

// changesOf returns the changes that applying objects would make. It remarks on objects of other kinds, and later on objects whose apply
// conflicts with another manager.
func (c *clients) changesOf(
	ctx context.Context, objects []*unstructured.Unstructured, manager string, remark func(string),
) ([]change, error) {
	var changes []change
	for _, obj := range objects {
		kind, ours := view.KindOf(obj.GetKind())
		if !ours || obj.GroupVersionKind().Group != appv1.GroupVersion.Group {
			remark(notPlanned(obj))
			continue
		}
		t := target{kind: kind, namespace: obj.GetNamespace(), name: obj.GetName()}
		if t.namespace == "" {
			t.namespace = c.namespace
			obj.SetNamespace(c.namespace)
		}
		switch object := t.kind.Name + " " + t.namespace + "/" + t.name; {
		case t.name == "":
			return nil, apierrors.NewBadRequest("a resource of the kind " + t.kind.Name + " has no metadata.name; set it")
		case slices.ContainsFunc(changes, func(made change) bool { return made.isSame(t) }):
			return nil, apierrors.NewBadRequest(object + " is there twice; remove one of the two")
		}
		change, err := c.dryRunApply(ctx, t, obj, manager, remark)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return nil, apierrors.NewBadRequest("there is no " + view.NameKinds("or", view.AnyKind) + " to plan")
	}
	return changes, nil
}

// dryRunApply returns the request that the user's own apply of an object would send: the creation of a missing object; a server-side apply by a
// manager that the user names, or, without a last-applied configuration, by the manager that has applied the object; otherwise a three-way
// merge patch with the last-applied configuration, which is empty where the object has none.
func (c *clients) dryRunApply(
	ctx context.Context, t target, obj *unstructured.Unstructured, manager string, remark func(string),
) (change, error) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[plan.Annotation] = plan.Request
	obj.SetAnnotations(annotations)
	modified, err := json.Marshal(obj)
	if err != nil {
		return change{}, err
	}
	current, err := c.app.AppV1().RESTClient().Get().Namespace(t.namespace).Resource(t.kind.Plural).Name(t.name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return c.dryRunCreate(t, modified), nil
	}
	if err != nil {
		return change{}, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	var live metav1.PartialObjectMetadata
	if err := json.Unmarshal(current, &live); err != nil {
		return change{}, fmt.Errorf("%s %s: %w", t.kind.Name, t.name, err)
	}
	original := live.Annotations[corev1.LastAppliedConfigAnnotation]
	if original == "" && manager == "" {
		manager = appliedBy(live.ManagedFields)
	}
	if manager != "" {
		return c.serverSide(t, modified, manager, remark), nil
	}
	if original == "" {
		original = "{}"
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(original), modified, current)
	if err != nil {
		return change{}, fmt.Errorf("%s %s: %w", t.kind.Name, t.name, err)
	}
	return c.dryRunPatch(t, types.MergePatchType, patch, fieldManager, false), nil
}

// serverSide returns a dry run of a server-side apply. Where that conflicts with another manager, it remarks on it and forces the apply.
func (c *clients) serverSide(t target, data []byte, manager string, remark func(string)) change {
	forced, remarked := c.dryRunPatch(t, types.ApplyPatchType, data, manager, true), false
	plain := c.dryRunPatch(t, types.ApplyPatchType, data, manager, false)
	return change{target: t, verb: "patch", send: func(ctx context.Context) ([]byte, error) {
		would, err := plain.send(ctx)
		if !apierrors.IsConflict(err) {
			return would, err
		}
		if !remarked {
			remark(fmt.Sprintf("Warning: %s %s/%s: a server-side apply as %s conflicts with another manager: %s. It needs --force-conflicts; "+
				"the plan is that of the forced apply", t.kind.Name, t.namespace, t.name, manager, conflictsOf(err)))
			remarked = true
		}
		return forced.send(ctx)
	}}
}

// conflictsOf lists the fields in conflict of an apply, and the managers that own them.
func conflictsOf(err error) string {
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) || answered.Status().Details == nil {
		return withoutObjects{err}.Error()
	}
	var found []string
	for _, cause := range answered.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			found = append(found, strings.TrimPrefix(cause.Field, ".")+" is owned by "+strings.TrimPrefix(cause.Message, "conflict with "))
		}
	}
	if len(found) == 0 {
		return withoutObjects{err}.Error()
	}
	return strings.Join(found, ", ")
}

// dryRunCreate returns a dry run that creates a resource.
func (c *clients) dryRunCreate(t target, data []byte) change {
	look := func(ctx context.Context, p *plan.Plan) { c.correctCreation(ctx, t, data, p) }
	return change{target: t, verb: "create", look: look, send: func(ctx context.Context) ([]byte, error) {
		return answerOf(c.app.AppV1().RESTClient().Post().Namespace(t.namespace).Resource(t.kind.Plural).
			Param("dryRun", "All").Param("fieldManager", fieldManager).Param("fieldValidation", "Strict").Body(data).Do(ctx))
	}}
}

// appliedBy returns the manager that has applied an object last, empty if none has.
func appliedBy(fields []metav1.ManagedFieldsEntry) string {
	var last *metav1.ManagedFieldsEntry
	for i := range fields {
		f := &fields[i]
		if f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" && (last == nil || last.Time.Before(f.Time)) {
			last = f
		}
	}
	if last == nil {
		return ""
	}
	return last.Manager
}

// readObjects reads the objects of all files, and of the standard input until the context ends.
func (r *root) readObjects(ctx context.Context, files []string, recursive bool) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, name := range files {
		if name == "-" {
			found, err := decodeObjects(contextReader{ctx, r.In}, "standard input")
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
			continue
		}
		paths, err := filesOf(name, recursive)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				return nil, err
			}
			found, err := decodeObjects(file, path)
			_ = file.Close() // It was only read.
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

// filesOf returns the file with a name, or the files of a directory that kubectl would read.
func filesOf(name string, recursive bool) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var paths []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// decodeObjects reads the objects of a stream of YAML or JSON documents. A list yields its items.
func decodeObjects(from io.Reader, name string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(from, 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case len(obj.Object) == 0:
			continue
		case !obj.IsList():
			objects = append(objects, obj)
			continue
		}
		if err := obj.EachListItem(func(item runtime.Object) error {
			if inner, ok := item.(*unstructured.Unstructured); ok {
				objects = append(objects, inner)
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}
