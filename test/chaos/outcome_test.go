package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// ownKinds are ours, childKinds all others that a manager could leave something of.
var ownKinds, childKinds = func() (own, children []schema.GroupVersionKind) {
	for _, k := range fixture.Kinds {
		own = append(own, appv1.GroupVersion.WithKind(k.Name))
	}
	for _, child := range fixture.Children() {
		gvk, err := apiutil.GVKForObject(child, harness.Scheme())
		if err != nil {
			panic(err) // It is a type of Kubernetes' own.
		}
		children = append(children, gvk)
	}
	return own, children
}()

// extra begins the name of what is in a script's namespace and no part of it.
const extra = "extra-"

// outcome is what a script has come to: all objects of the namespace, without what differs between two that were made
// alike.
func (s *script) outcome(t testing.TB) (map[string]any, error) {
	t.Helper()
	objects := map[string]any{}
	for _, gvk := range slices.Concat(ownKinds, childKinds) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := s.plane.Client.List(t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			if strings.HasPrefix(obj.GetName(), extra) {
				continue
			}
			if slices.Contains(ownKinds, gvk) {
				withoutFormerPods(obj)
			} else {
				withoutServers(obj)
			}
			harness.SortManagers(obj)
			objects[gvk.Kind+"/"+obj.GetName()] = harness.Anonymous(obj.Object, s.general)
		}
	}
	return objects, nil
}

// withoutFormerPods removes from a resource without pods what it says of those that ran before: edits that follow one another at once
// may or may not get pods of their own. Of another resource it removes the hashes in the names of ReplicaSets: the hash of a Deployment
// whose predecessor's ReplicaSet still exists is another one.
func withoutFormerPods(obj *unstructured.Unstructured) {
	if replicas, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas"); !found || replicas != 0 {
		for _, path := range [][]string{{"status", "replicaSet"}, {"status", "lastGood", "replicaSet"}} {
			if name, found, _ := unstructured.NestedString(obj.Object, path...); found {
				_ = unstructured.SetNestedField(obj.Object, name[:strings.LastIndex(name, "-")+1], path...)
			}
		}
		return
	}
	for _, field := range []string{"replicaSet", "lastGood"} {
		withoutField(obj, "status", field)
	}
}

// withoutField removes a field and its field managers.
func withoutField(obj *unstructured.Unstructured, path ...string) {
	unstructured.RemoveNestedField(obj.Object, path...)
	managed := []string{"fieldsV1"}
	for _, part := range path {
		managed = append(managed, "f:"+part)
	}
	managers, found, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields")
	if !found {
		return
	}
	for _, manager := range managers {
		unstructured.RemoveNestedField(manager.(map[string]any), managed...)
	}
	_ = unstructured.SetNestedSlice(obj.Object, managers, "metadata", "managedFields")
}

// withoutServers removes from a child what Kubernetes itself writes.
func withoutServers(obj *unstructured.Unstructured) {
	obj.SetGeneration(0) // It counts the writes; some of them ask for what another one follows.
	delete(obj.Object, "status")
	annotations := obj.GetAnnotations()
	for key := range annotations {
		if strings.HasPrefix(key, "deployment.kubernetes.io/") || strings.Contains(key, "volume.") || strings.HasPrefix(key, "pv.") {
			delete(annotations, key)
		}
	}
	obj.SetAnnotations(annotations)
	managers := slices.DeleteFunc(obj.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return !strings.HasPrefix(m.Manager, "app-operator") })
	switch obj.GetKind() {
	case "Deployment":
		if obj.GetLabels()[appv1.LabelManagedBy] == "" {
			managers = nil // Who has scaled it depends on who came first to a number that it had before.
		}
	case "Service":
		unstructured.RemoveNestedField(obj.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(obj.Object, "spec", "clusterIPs")
		ports, _, _ := unstructured.NestedSlice(obj.Object, "spec", "ports")
		for _, port := range ports {
			delete(port.(map[string]any), "nodePort")
		}
		if ports != nil {
			_ = unstructured.SetNestedSlice(obj.Object, ports, "spec", "ports")
		}
	case "PersistentVolumeClaim":
		unstructured.RemoveNestedField(obj.Object, "spec", "volumeName")
	case "Secret":
		data, _, _ := unstructured.NestedMap(obj.Object, "data")
		for key, value := range data {
			data[key] = len(value.(string)) // A password is made by chance.
		}
		obj.Object["data"] = data
	}
	obj.SetManagedFields(managers)
	withoutField(obj, "metadata", "annotations", appv1.AnnotationScheduleSince) // Edits that follow one another at once may leave none.
}

// general returns a text without the namespace's name, without ports of the nodes and without UIDs, which are also in the keys of managedFields.
func (s *script) general(text string) string {
	text = nodePorts.ReplaceAllString(text, "nodes:PORTS")
	return uid.ReplaceAllString(strings.ReplaceAll(text, s.namespace, "NAMESPACE"), "UID")
}

// nodePorts are the ports of the nodes in an endpoint, which the cluster gives by chance.
var nodePorts = regexp.MustCompile(`nodes:[0-9,]+`)

var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// comesTo waits until the script has come to what it came to elsewhere, where nothing was in its way.
func (s *script) comesTo(t testing.TB, want map[string]any) {
	t.Helper()
	harness.Eventually(t, func() error {
		got, err := s.outcome(t)
		if err != nil {
			return err
		}
		all := maps.Clone(want)
		maps.Copy(all, got)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !reflect.DeepEqual(want[name], got[name]) {
				return fmt.Errorf("%s (-undisturbed +got):\n%s", name, cmp.Diff(want[name], got[name]))
			}
		}
		return nil
	})
}

// undisturbed waits until a script that nothing was in the way of has come to its end, and returns what it has come to.
func (s *script) undisturbed(t testing.TB) map[string]any {
	t.Helper()
	s.finish(t)
	s.withoutOrphans(t)
	objects, err := s.outcome(t)
	if err != nil || len(objects) == 0 {
		t.Fatal("nothing came of it", err)
	}
	return objects
}

// withoutOrphans waits until no child belongs to something that is gone.
func (s *script) withoutOrphans(t testing.TB) {
	t.Helper()
	harness.Eventually(t, func() error { return s.orphans(t) })
}

// orphans returns which children belong to something that is gone.
func (s *script) orphans(t testing.TB) error {
	t.Helper()
	owners := map[types.UID]bool{}
	var errs []error
	for _, gvk := range slices.Concat(ownKinds, childKinds) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := s.plane.Client.List(t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			owners[list.Items[i].GetUID()] = true
			for _, ref := range list.Items[i].GetOwnerReferences() {
				if !owners[ref.UID] {
					errs = append(errs, fmt.Errorf("%s %s belongs to %s %s, which is gone", gvk.Kind, list.Items[i].GetName(), ref.Kind, ref.Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// witness has seen every state of what must not change by itself.
type witness struct {
	general     func(string) string
	deployments *harness.Journal[*appsv1.Deployment]
	sets        *harness.Journal[*appsv1.StatefulSet]
	secrets     *harness.Journal[*corev1.Secret]
}

// watch begins to write down what becomes of a script's children.
func (s *script) watch(t testing.TB) *witness {
	t.Helper()
	return &witness{
		general:     s.general,
		deployments: harness.Follow[*appsv1.Deployment](t, s.plane, &appsv1.DeploymentList{}, s.namespace),
		sets:        harness.Follow[*appsv1.StatefulSet](t, s.plane, &appsv1.StatefulSetList{}, s.namespace),
		secrets:     harness.Follow[*corev1.Secret](t, s.plane, &corev1.SecretList{}, s.namespace),
	}
}

// templates returns the pod templates that were seen, by workload and version. It fails the test if there were two of one
// version, if an older version came back, or if a password was changed.
func (w *witness) templates(t testing.TB) map[string]string {
	t.Helper()
	seen, newest := map[string]string{}, map[types.UID]int{}
	note := func(obj client.Object, template *corev1.PodTemplateSpec) {
		n := versionOf(template)
		if before, ok := newest[obj.GetUID()]; ok && n < before {
			t.Errorf("%s went back from version %d to %d", obj.GetName(), before, n)
		}
		newest[obj.GetUID()] = n
		data, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		text := w.general(string(data))
		key := fmt.Sprintf("%T/%s/%d", obj, obj.GetName(), n)
		if before, ok := seen[key]; ok && before != text {
			t.Errorf("the pod template of %s changed (-before +after):\n%s", key, cmp.Diff(before, text))
		}
		seen[key] = text
	}
	w.deployments.Each(func(d *appsv1.Deployment) { note(d, &d.Spec.Template) })
	w.sets.Each(func(s *appsv1.StatefulSet) { note(s, &s.Spec.Template) })
	passwords := map[types.UID]string{}
	w.secrets.Each(func(s *corev1.Secret) {
		is := string(s.Data["password"])
		if was, ok := passwords[s.UID]; ok && was != is {
			t.Errorf("the password in Secret %s was changed", s.Name)
		}
		passwords[s.UID] = is
	})
	return seen
}

// versionOf returns the version of a pod template, -1 if it has none.
func versionOf(template *corev1.PodTemplateSpec) int {
	for _, env := range template.Spec.Containers[0].Env {
		if n, err := strconv.Atoi(env.Value); err == nil && env.Name == version {
			return n
		}
	}
	return -1
}

// sameTemplates fails the test if two witnesses have seen different pod templates of one version.
func sameTemplates(t testing.TB, a, b map[string]string) {
	t.Helper()
	common := 0
	for key, template := range a {
		other, ok := b[key]
		if !ok {
			continue // It was asked for, and something else right after.
		}
		if common++; other != template {
			t.Errorf("the pod templates of %s differ:\n%s", key, cmp.Diff(template, other))
		}
	}
	if common < len(a)/2 {
		t.Errorf("no more than %d of %d pod templates were seen by both", common, len(a))
	}
}

// rests fails the test if a manager that is started now finds anything left to do: the hashes are right, too.
func (s *script) rests(t testing.TB) {
	t.Helper()
	m := s.plane.Start(t, s.namespace)
	m.Idle(t)
	if writes := m.Requests.Writes(); len(writes) > 0 {
		t.Errorf("a new manager found something to do: %v", writes)
	}
	m.Stop(t)
}
