package harness

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/children"
)

// RestartAtRest replaces a manager by another one, and fails the test if the other one writes anything. Other controllers change objects
// at any time, and late on a busy machine: after such a change the manager is replaced again, since a status may follow from it.
func (p *Plane) RestartAtRest(t testing.TB, m *Manager, namespace string, options ...Option) *Manager {
	t.Helper()
	Eventually(t, func() error {
		before := p.versions(t, namespace)
		m.Idle(t)
		m.Stop(t)
		m = p.Start(t, namespace, options...)
		m.Idle(t)
		writes := m.Requests.Writes()
		if len(writes) == 0 {
			return nil
		}
		after := p.versions(t, namespace)
		for _, q := range m.Requests.All() {
			if q.Write() {
				resource, _, _ := strings.Cut(q.Resource, "/")
				delete(before, resource+" "+q.Name)
				delete(after, resource+" "+q.Name)
			}
		}
		if maps.Equal(before, after) {
			t.Errorf("the next manager writes %v", writes)
			return nil
		}
		return fmt.Errorf("the next manager writes %v, and other controllers change objects", writes)
	})
	return m
}

// versions returns the resource versions of the children of a namespace, and of what belongs to their pods, by resource and name.
func (p *Plane) versions(t testing.TB, namespace string) map[string]string {
	t.Helper()
	types := []client.Object{&appsv1.ReplicaSet{}, &discoveryv1.EndpointSlice{}}
	for i := range children.Types {
		types = append(types, children.Types[i].Object)
	}
	found := map[string]string{}
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
			found[mapping.Resource.Resource+" "+obj.GetName()] = obj.GetResourceVersion()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
