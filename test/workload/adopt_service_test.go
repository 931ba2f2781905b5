package workload

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// endpointsOf returns the names of the pods that a Service leads to, sorted.
func endpointsOf(t *testing.T, namespace, service string) []string {
	t.Helper()
	var list discoveryv1.EndpointSliceList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) {
				names = append(names, endpoint.TargetRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// untilEndpoints waits until a Service leads to a number of pods, and returns their names.
func untilEndpoints(t *testing.T, namespace, service string, n int) []string {
	t.Helper()
	var names []string
	harness.Eventually(t, func() error {
		if names = endpointsOf(t, namespace, service); len(names) != n {
			return fmt.Errorf("Service %s leads to %q, want %d pods", service, names, n)
		}
		return nil
	})
	return names
}

// TestAdoptionCutsNoEndpoints adopts a Deployment together with a Service that leads to its pods, or to those of another Deployment as well:
// the endpoints are the same before and after.
func TestAdoptionCutsNoEndpoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		selector map[string]string
		pods     int
		adopted  bool
	}{
		"a pair":             {map[string]string{"run": "web"}, 2, true},
		"with a wider label": {map[string]string{"shop": "web"}, 2, true},
		"shared":             {map[string]string{"team": "a"}, 4, false},
		"of another":         {map[string]string{"run": "other"}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := plane.Start(t, ns)
			app, other := newApp(ns), newApp(ns)
			other.Name = "other"
			handMade(t, other)
			d, s := deployment(app), service(app)
			theirs := read(t, deployment(other))
			d.Spec = *theirs.Spec.DeepCopy()
			labels := map[string]string{"run": app.Name}
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			d.Spec.Template.Labels = map[string]string{"run": app.Name, "team": "a", "shop": "web"}
			s.Spec.Selector, s.Spec.Ports = c.selector, read(t, service(other)).Spec.Ports
			for i := range s.Spec.Ports {
				s.Spec.Ports[i].NodePort = 0
			}
			plane.Create(t, d, s)
			untilAvailable(t, ns, app.Name)
			before := untilEndpoints(t, ns, app.Name, c.pods)
			plane.Create(t, withoutRestart(app))
			if c.adopted && maps.Equal(s.Spec.Selector, labels) {
				plane.Stands(t, app, kept...)
			} else {
				plane.Stands(t, app, "Applied=False/"+appv1.ReasonAdoptionRestarts)
			}
			m.Idle(t)
			if diff := cmp.Diff(before, endpointsOf(t, ns, app.Name)); diff != "" {
				t.Errorf("without a restart, the endpoints are others (-before +after):\n%s", diff)
			}
			if c.adopted && maps.Equal(s.Spec.Selector, labels) {
				return
			}
			plane.Read(t, app)
			plane.Change(t, app, func() { app.SetAnnotations(map[string]string{appv1.AnnotationAdopt: "true"}) })
			if !c.adopted {
				plane.Stands(t, app, "Applied=False/"+appv1.ReasonResourceExists)
				m.Idle(t)
				if diff := cmp.Diff(before, endpointsOf(t, ns, app.Name)); diff != "" {
					t.Errorf("the endpoints are others (-before +after):\n%s", diff)
				}
				return
			}
			plane.Stands(t, app, "Applied=True/Applied", "Ready=True/Ready")
			if live := read(t, service(app)); !metav1.IsControlledBy(live, app) || !maps.Equal(live.Spec.Selector, labels) {
				t.Errorf("the Service is %v", live)
			}
			untilEndpoints(t, ns, app.Name, int(*read(t, deployment(app)).Spec.Replicas))
		})
	}
}
