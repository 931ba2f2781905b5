package harness

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
)

// RestartAtRest replaces a manager by another one, and fails the test if the other one writes anything. Other controllers change objects
// at any time, and late on a busy machine: after such a change a status may follow, and the manager is replaced again. Nothing else may.
func (p *Plane) RestartAtRest(t testing.TB, m *Manager, namespace string, options ...Option) *Manager {
	t.Helper()
	Eventually(t, func() error {
		before := p.objects(t, namespace)
		m.Idle(t)
		m.Stop(t)
		m = p.Start(t, namespace, options...)
		m.Idle(t)
		writes := m.Requests.Writes()
		if len(writes) == 0 {
			return nil
		}
		after := p.objects(t, namespace)
		var changes strings.Builder
		beyond := false
		for _, q := range m.Requests.All() {
			if q.Write() {
				resource, sub, _ := strings.Cut(q.Resource, "/")
				beyond = beyond || sub != "status"
				key := resource + " " + q.Name
				fmt.Fprintf(&changes, "\n%s: %s", key, cmp.Diff(before[key], after[key]))
				delete(before, key)
				delete(after, key)
			}
		}
		if beyond || maps.EqualFunc(before, after, sameVersion) {
			t.Errorf("the next manager writes %v:%s", writes, changes.String())
			return nil
		}
		return fmt.Errorf("the next manager writes %v, and other controllers change objects", writes)
	})
	return m
}

func sameVersion(a, b client.Object) bool { return a.GetResourceVersion() == b.GetResourceVersion() }

// objects returns the children of a namespace, and what belongs to their pods, by resource and name.
func (p *Plane) objects(t testing.TB, namespace string) map[string]client.Object {
	t.Helper()
	types := []client.Object{&appv1.App{}, &appsv1.ReplicaSet{}, &discoveryv1.EndpointSlice{}}
	for i := range children.Types {
		types = append(types, children.Types[i].Object)
	}
	found := map[string]client.Object{}
	for _, obj := range types {
		gvk, err := p.Client.GroupVersionKindFor(obj)
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := p.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list := p.ListOf(t, obj)
		if err := p.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			found[mapping.Resource.Resource+" "+obj.GetName()] = obj
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
