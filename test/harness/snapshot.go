package harness

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
)

// replicasOf begins the key of a number of pods in a snapshot.
const replicasOf = "replicas of "

// Snapshot returns what the operator has made for a resource as it is, by kind and name, but for what controllers and the API server
// write. A number of pods is apart from its object, and is there where the operator states it.
func (p *Plane) Snapshot(t testing.TB, namespace, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild) {
			continue
		}
		list := p.ListOf(t, row.Object)
		err := p.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{appv1.LabelInstance: name})
		if row.Custom && meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		gvk, err := p.Client.GroupVersionKindFor(row.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
			if err != nil {
				return err
			}
			obj := &unstructured.Unstructured{Object: fields}
			written, replicas := writtenFields(obj)
			data, err := json.Marshal(written)
			key := gvk.Kind + " " + obj.GetName()
			if found[key] = string(data); replicas != "" {
				found[replicasOf+key] = replicas
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// writtenFields returns the fields of an object that the operator writes, and which of them it owns, and the number of pods if it owns
// that.
func writtenFields(obj *unstructured.Unstructured) (written map[string]any, replicas string) {
	var owned []any
	for _, entry := range obj.GetManagedFields() {
		if !strings.HasPrefix(entry.Manager, appv1.FieldManagerPrefix) || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if spec, ok := fields["f:spec"].(map[string]any); ok {
			if _, ours := spec["f:replicas"]; ours {
				n, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
				replicas = strconv.FormatInt(n, 10)
			}
			delete(spec, "f:replicas")
		}
		owned = append(owned, entry.Manager, fields)
	}
	unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
	annotations := obj.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "deployment.kubernetes.io/") })
	obj.SetAnnotations(annotations)
	delete(obj.Object, "status")
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", name)
	}
	return map[string]any{"object": obj.Object, "owned": owned}, replicas
}

// Changed returns the objects in which two snapshots differ, sorted: those that the operator has written between them. A number of pods
// that an autoscaler has taken or left does not count.
func Changed(was, is map[string]string) []string {
	all := maps.Clone(was)
	maps.Copy(all, is)
	var changed []string
	for key := range all {
		name, replicas := strings.CutPrefix(key, replicasOf)
		if was[key] != is[key] && (!replicas || was[key] != "" && is[key] != "") {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}
