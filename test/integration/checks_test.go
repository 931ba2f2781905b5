package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// How an App of newApp stands while nothing is in the way. No pod ever runs here, so it is ready only if a test plays
// the Deployment's controller; see completeRollout.
var progressing = []string{"Ready=False/Progressing", "Reconciling=True/Progressing", "Stalled=False/NotStalled"}

// exists is how an App stands while an object is in its way.
var exists = []string{"Ready=False/ResourceExists", "Reconciling=False/ResourceExists", "Stalled=True/ResourceExists"}

// readChildren reads both children.
func readChildren(t testing.TB, app client.Object) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := deployment(app), service(app)
	plane.Read(t, d)
	plane.Read(t, s)
	return d, s
}

// readWhole returns an object as the API server has it, with everything.
func readWhole(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	plane.Read(t, obj)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// awaitImage waits until the Deployment runs an image.
func awaitImage(t testing.TB, d *appsv1.Deployment, image string) {
	t.Helper()
	plane.Until(t, d, func() error {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the image is %s, want %s", got, image)
		}
		return nil
	})
}

// checkUntouched fails the test if an object differs in anything from how it was.
func checkUntouched(t testing.TB, obj client.Object, was map[string]any) {
	t.Helper()
	if diff := cmp.Diff(was, readWhole(t, obj)); diff != "" {
		t.Errorf("%T %s was touched (-before +after):\n%s", obj, obj.GetName(), diff)
	}
}

// checkEvents fails the test if the events about an object differ from those wanted, each as "Type Reason: note".
func checkEvents(t testing.TB, obj client.Object, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, listEvents(t, obj)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// listEvents returns the events about an object, each as "Type Reason: note".
func listEvents(t testing.TB, obj client.Object) []string {
	t.Helper()
	var list eventsv1.EventList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		if e.Regarding.UID == obj.GetUID() {
			got = append(got, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
		}
	}
	slices.Sort(got)
	return got
}

// checkRequests fails the test if the requests of the manager differ from those wanted.
func checkRequests(t testing.TB, m *harness.Manager, what string, want map[string]int) {
	t.Helper()
	checkOtherRequests(t, m, what, "", want)
}

// checkOtherRequests is checkRequests for all requests but one.
func checkOtherRequests(t testing.TB, m *harness.Manager, what, than string, want map[string]int) {
	t.Helper()
	var diff string
	harness.Eventually(t, func() error {
		m.Idle(t)
		got := m.Requests.Counts()
		delete(got, than)
		if diff = cmp.Diff(want, got); diff == "" {
			return nil
		}
		for request, n := range got {
			if n > want[request] {
				return nil // One too many stays one too many.
			}
		}
		// On a loaded machine, what it reacts to may take longer to reach it than it takes to look idle.
		return fmt.Errorf("%s (-want +got):\n%s%v", what, diff, m.Requests.All())
	})
	if diff != "" {
		t.Errorf("%s (-want +got):\n%s%v", what, diff, m.Requests.All())
	}
}

// listsOf returns how often a manager has listed or watched from the beginning the objects of a resource.
func listsOf(m *harness.Manager, resource string) int {
	lists := 0
	for _, q := range m.Requests.All() {
		if q.Resource == resource && (q.Verb == "list" || q.Streams && q.Code == http.StatusOK) {
			lists++
		}
	}
	return lists
}

// countsOf are the requests about objects of a name.
func countsOf(m *harness.Manager, names ...string) map[string]int {
	counts := map[string]int{}
	for _, q := range m.Requests.All() {
		if slices.Contains(names, q.Name) && q.Resource != "leases" {
			counts[q.Verb+" "+q.Resource]++
		}
	}
	return counts
}

// countReads counts the objects that a manager has got one by one.
func countReads(m *harness.Manager) (reads int) {
	for request, n := range m.Requests.Counts() {
		if strings.HasPrefix(request, "get ") {
			reads += n
		}
	}
	return reads
}

// sameTemplate fails the test if the pod template is not byte for byte what it was: the pods would restart.
func sameTemplate(t testing.TB, d *appsv1.Deployment, was corev1.PodTemplateSpec) {
	t.Helper()
	plane.Read(t, d)
	if !bytes.Equal(marshalJSON(t, d.Spec.Template), marshalJSON(t, was)) {
		t.Errorf("the pod template has changed (-before +after):\n%s", cmp.Diff(was, d.Spec.Template))
	}
}

// diffOf returns an error that says in what got differs from want, nil if in nothing.
func diffOf(want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("(-want +got):\n" + diff)
	}
	return nil
}

// marshalJSON returns the JSON of a value.
func marshalJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// asUnstructured returns an object as it is now, as a tree of JSON values.
func asUnstructured(t testing.TB, p *harness.Plane, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	gvk, err := p.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(obj.GetNamespace())
	u.SetName(obj.GetName())
	p.Read(t, u)
	p.Read(t, obj)
	return u
}

// withoutVersions returns an object without what every write changes.
func withoutVersions(obj *unstructured.Unstructured) map[string]any {
	fields := obj.DeepCopy().Object
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(fields, "metadata", name)
	}
	return fields
}

// ownedFields returns the fields that our manager has applied, by the object's own account.
func ownedFields(t testing.TB, obj client.Object) *fieldpath.Set {
	t.Helper()
	for _, entry := range obj.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "app-operator/") && entry.Operation == metav1.ManagedFieldsOperationApply {
			set := &fieldpath.Set{}
			if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("%T has no fields of our manager", obj)
	return nil
}

// lookUpPath returns what a path, with a dot between its steps, leads to in a tree, nil if there is nothing.
func lookUpPath(tree any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch at := tree.(type) {
		case map[string]any:
			tree = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return nil
			}
			tree = at[i]
		default:
			return nil
		}
	}
	if annotations, ok := tree.(map[string]any); ok && strings.HasSuffix(path, "metadata.annotations") {
		annotations = maps.Clone(annotations)
		for _, key := range ours {
			delete(annotations, key)
		}
		return annotations
	}
	return tree
}

// ours are the annotations of the engine, which lookUpPath leaves out.
var ours = []string{appv1.AnnotationLastAppliedHash, appv1.AnnotationLastAppliedSpec, appv1.AnnotationLastAppliedInputs}

// portsOf is the ports of both children in one line.
func portsOf(d *appsv1.Deployment, s *corev1.Service) string {
	var parts []string
	for _, p := range s.Spec.Ports {
		parts = append(parts, fmt.Sprintf("%s:%d/%s>%s", p.Name, p.Port, p.Protocol, p.TargetPort.String()))
	}
	parts = append(parts, "|")
	for _, p := range containerOf(d).Ports {
		parts = append(parts, fmt.Sprintf("%s:%d/%s", p.Name, p.ContainerPort, p.Protocol))
	}
	return strings.Join(parts, " ")
}

func kindOf(t *testing.T, obj client.Object) schema.GroupVersionKind {
	t.Helper()
	gvk, err := plane.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	return gvk
}

// objectsOf returns the objects of a list.
func objectsOf(t testing.TB, list client.ObjectList) []client.Object {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	objects := make([]client.Object, len(items))
	for i := range items {
		objects[i] = items[i].(client.Object)
	}
	return objects
}

// checkContains returns an error unless a text holds what is wanted.
func checkContains(is, want string) error {
	if want == "" && is != "" || !strings.Contains(is, want) {
		return fmt.Errorf("it is %q, want %q", is, want)
	}
	return nil
}

// refusedValue matches the value in a refusal: a text, a number, or nothing.
var refusedValue = regexp.MustCompile(`: Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|-?[0-9]+)(?:: |$))?`)

// saysOf reports whether a refusal by a schema has the words. API servers before Kubernetes 1.35 state the type of the value that a rule
// refuses in place of the value; an int-or-string has none.
func saysOf(t *testing.T, err error, words string) bool {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), words) || plane.Minor(t) >= 35 {
		return err != nil && strings.Contains(err.Error(), words)
	}
	for _, typ := range []string{"string", "integer", "object", "array", ""} {
		if strings.Contains(err.Error(), refusedValue.ReplaceAllString(words, `: Invalid value: "`+typ+`": `)) {
			return true
		}
	}
	return false
}
