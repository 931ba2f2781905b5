package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// ejectOptions are the flags of eject.
type ejectOptions struct {
	folder      string
	remove, yes bool
}

func (r *root) ejectCommand() *cobra.Command {
	var o ejectOptions
	cmd := &cobra.Command{
		Use: "eject NAME", Short: "Print the children as plain manifests, to go on without the operator", Args: takesArguments(1, 1),
		ValidArgsFunction: r.completeNames,
		Long: "Print the children as plain manifests. With --delete, the resource is deleted and its children stay as they are: no pod\n" +
			"restarts. The labels of pods and selectors are kept, as other ones would replace the pods. Secrets and claims stay, and are\n" +
			"not printed.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			return r.ejectResource(ctx, c, t, &o)
		}),
	}
	cmd.Flags().StringVarP(&o.folder, "output", "o", "", "Write a file for each object into this folder, and none over a file with another content.")
	cmd.Flags().BoolVar(&o.remove, "delete", false, "Delete the resource, and leave its children as they are.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (r *root) ejectResource(ctx context.Context, c *clients, t target, o *ejectOptions) error {
	s, err := c.readSnapshot(ctx, t, false)
	if err != nil {
		return err
	}
	if o.remove {
		if err := checkNotDeleting(&s.Resource); err != nil {
			return err
		}
	}
	children, missing := c.readChildren(ctx, t, s)
	for _, m := range append(s.Missing, missing...) {
		fmt.Fprintln(r.Err, "not printed: "+m.String())
	}
	if o.remove && len(s.Missing)+len(missing) > 0 {
		return fmt.Errorf("not all children can be seen, so nothing is deleted; see \"%s\"", view.PluginCommand(t.namespace, "check"))
	}
	switch {
	case len(children) > 0:
	case len(s.Missing)+len(missing) > 0:
		return fmt.Errorf("%s has no child that can be seen; see \"%s\"", s.Resource.ObjectName(), view.PluginCommand(t.namespace, "check"))
	default:
		return fmt.Errorf("%s has no child yet; see \"%s\"", s.Resource.ObjectName(), t.commandLine("why"))
	}
	if err := r.writeManifests(o.folder, children); err != nil || !o.remove {
		return err
	}
	if err := r.askConfirmation(ctx, o.yes, fmt.Sprintf("Delete %s, and leave its %d children?", s.Resource.ObjectName(), len(children))); err != nil {
		return err
	}
	r.warnGitOps(&s.Resource)
	orphan, live := metav1.DeletePropagationOrphan, &s.Resource.ObjectMeta
	err = c.clientOf(t.kind, t.namespace).Delete(ctx, t.name, metav1.DeleteOptions{
		PropagationPolicy: &orphan, Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
	})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s has been changed meanwhile, and was not deleted: run it again", s.Resource.ObjectName())
	}
	if err != nil {
		return inWords(err, "delete", t.kind.Name+" "+t.name, t.namespace)
	}
	fmt.Fprintln(r.Err, s.Resource.ObjectName()+" deleted; its children stay")
	for _, child := range children {
		if err := c.removeMarks(ctx, child); err != nil {
			fmt.Fprintf(r.Err, "The marks of the operator stay on %s %s: %s\n", child.GetObjectKind().GroupVersionKind().Kind, child.GetName(), withoutObjects{err})
		}
	}
	return nil
}

// removeMarks removes from a child what the operator alone has set on it, and what means nothing without the operator: the label
// app.kubernetes.io/managed-by, and the annotations of its group. What another manager has set, too, stays, as do all other labels: selectors use them.
func (c *clients) removeMarks(ctx context.Context, child object) error {
	marks := map[string]any{}
	if labels := setByOperatorAlone(child, "labels", child.GetLabels()); labels[appv1.LabelManagedBy] {
		marks["labels"] = map[string]any{appv1.LabelManagedBy: nil}
	}
	annotations := map[string]any{}
	for key := range setByOperatorAlone(child, "annotations", child.GetAnnotations()) {
		if strings.HasPrefix(key, appv1.GroupVersion.Group+"/") && key != appv1.AnnotationRetainedFor {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		marks["annotations"] = annotations
	}
	if len(marks) == 0 {
		return nil
	}
	marks["uid"] = child.GetUID()
	data, err := json.Marshal(map[string]any{"metadata": marks})
	if err != nil {
		return err
	}
	resources, _ := meta.UnsafeGuessKindToResource(child.GetObjectKind().GroupVersionKind())
	_, err = c.dynamic.Resource(resources).Namespace(child.GetNamespace()).Patch(ctx, child.GetName(), types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// setByOperatorAlone returns the keys of labels or annotations that apply requests of the operator own, and no other manager.
func setByOperatorAlone(obj object, kind string, marks map[string]string) map[string]bool {
	found := map[string]bool{}
	for key := range marks {
		ours, others := false, false
		for _, entry := range obj.GetManagedFields() {
			var fields struct {
				Metadata map[string]map[string]json.RawMessage `json:"f:metadata"`
			}
			if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
				continue
			}
			if _, owns := fields.Metadata["f:"+kind]["f:"+key]; owns {
				operator := strings.HasPrefix(entry.Manager, appv1.FieldManagerPrefix) && entry.Operation == metav1.ManagedFieldsOperationApply
				ours, others = ours || operator, others || !operator
			}
		}
		if ours && !others {
			found[key] = true
		}
	}
	return found
}

// object is a child of a resource.
type object interface {
	metav1.Object
	runtime.Object
}

// readChildren returns the objects that the resource controls, in the order in which they are applied. It also requests the types of auxiliary
// objects that the spec does not have, because an earlier spec may have had them.
func (c *clients) readChildren(ctx context.Context, t target, s *view.Snapshot) ([]object, []view.Missing) {
	g := &gathering{ctx: ctx, namespace: t.namespace, chunk: c.chunk, refusal: c.refusalOf, gathered: &gathered{}}
	if serving := s.Resource.Serving; serving != nil {
		c.gatherAround(g, s, t, func(around *view.AroundType) bool { return !around.Always && !around.Asked(serving) }) // All others are there.
		g.wait.Wait()
	}
	found := appendAround(nil, s, true)
	found = appendOwned(found, &s.Resource, s.StatefulSets)
	found = appendOwned(found, &s.Resource, s.Deployments)
	found = appendOwned(found, &s.Resource, s.CronJobs)
	found = appendOwned(found, &s.Resource, s.Services)
	found = appendOwned(found, &s.Resource, s.Autoscalers)
	return appendAround(found, s, false), g.missing
}

// appendAround adds the auxiliary objects that are applied before the first pod if first is true, and the others if it is false.
func appendAround(found []object, s *view.Snapshot, first bool) []object {
	for i := range view.AroundTypes {
		if around := &view.AroundTypes[i]; around.First == first {
			for _, obj := range s.OwnedObjects(around) {
				found = append(found, obj)
			}
		}
	}
	return found
}

func appendOwned[T any, P interface {
	*T
	object
}](found []object, r *view.Resource, items []T) []object {
	for i := range items {
		child := P(&items[i])
		if ref := metav1.GetControllerOf(child); ref != nil && ref.UID == r.ObjectMeta.UID {
			found = append(found, child)
		}
	}
	return found
}

// manifestOf returns an object as a user would have written it: without what the cluster and the operator have noted on it.
func manifestOf(child object) ([]byte, error) {
	kind := child.GetObjectKind().GroupVersionKind() // A typed object has no kind.
	if kind.Empty() {
		kinds, _, err := scheme.Scheme.ObjectKinds(child)
		if err != nil {
			return nil, err
		}
		kind = kinds[0]
		child.GetObjectKind().SetGroupVersionKind(kind)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child)
	if err != nil {
		return nil, err
	}
	tree = runtime.DeepCopyJSON(tree) // The tree of an unstructured object is the object itself.
	delete(tree, "status")
	metadata := map[string]any{"name": child.GetName(), "namespace": child.GetNamespace()}
	if kept := keptMarks(child.GetLabels()); len(kept) > 0 {
		metadata["labels"] = kept
	}
	if kept := keptMarks(child.GetAnnotations()); len(kept) > 0 {
		metadata["annotations"] = kept
	}
	tree["metadata"] = metadata
	if spec, ok := tree["spec"].(map[string]any); ok && kind.Kind == "Service" && spec["clusterIP"] != corev1.ClusterIPNone {
		// The cluster chooses them, and another cluster chooses others.
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	return view.EncodeYAML(tree)
}

// keptMarks returns the labels or annotations that are not the operator's or the cluster's.
func keptMarks(marks map[string]string) map[string]any {
	found := map[string]any{}
	for key, value := range marks {
		if strings.HasPrefix(key, appv1.GroupVersion.Group+"/") || strings.HasPrefix(key, "deployment.kubernetes.io/") ||
			key == appv1.LabelManagedBy && value == appv1.ManagedBy {
			continue
		}
		found[key] = value
	}
	return found
}

// writeManifests prints the manifests of objects, or writes each manifest into a file of the folder. If a file exists with another content,
// writeManifests writes no file.
func (r *root) writeManifests(folder string, objects []object) error {
	var files []outputFile
	for _, obj := range objects {
		text, err := manifestOf(obj)
		if err != nil {
			return err
		}
		if folder == "" {
			r.printText("---\n" + string(text))
			continue
		}
		file := outputFile{manifestPath(folder, obj), string(text)}
		if _, err := file.isWritten(); err != nil {
			return err
		}
		files = append(files, file)
	}
	for i := range files {
		if err := r.writeFile(&files[i]); err != nil {
			return err
		}
	}
	return r.outputError()
}
