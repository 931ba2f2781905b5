package resource

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestLabelsOfOneObject builds each object for which a spec can state labels and annotations of its own: the other objects do not get them, and
// the labels that the operator alone sets stay.
func TestLabelsOfOneObject(t *testing.T) {
	stated := map[string]string{"own": "yes", appv1.LabelName: "shop", appv1.LabelManagedBy: "Helm", appv1.LabelComponent: "api"}
	for _, owns := range []bool{false, true} {
		w := &Workload{
			Name: "web", ServiceName: "front", RetainedFor: "CloudManager.office", ownsComponent: owns,
			Labels:    map[string]string{appv1.LabelName: "web", appv1.LabelComponent: "db", appv1.LabelManagedBy: appv1.ManagedBy, "all": "yes"},
			OwnLabels: stated, OwnAnnotations: map[string]string{"own": "yes"},
			Ports:  []corev1.ServicePort{{Port: 80}},
			Access: appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Labels: stated, Annotations: map[string]string{"own": "yes"}},
		}
		component := map[bool]string{false: "api", true: "db"}[owns]
		for name, obj := range map[string]Object{"Deployment": buildDeployment(w), "StatefulSet": buildStatefulSet(w), "Service": buildService(w)} {
			labels := obj.GetLabels()
			if labels["own"] != "yes" || labels["all"] != "yes" || labels[appv1.LabelName] != "shop" || labels[appv1.LabelManagedBy] != appv1.ManagedBy ||
				labels[appv1.LabelComponent] != component || obj.GetAnnotations()["own"] != "yes" {
				t.Errorf("%s, with the component owned %t: %v, %v", name, owns, labels, obj.GetAnnotations())
			}
			if w.StatedLabels(obj)["own"] != "yes" {
				t.Errorf("the labels of the %s are not stated", name)
			}
		}
		if headless := buildHeadless(w); headless.Labels["own"] != "" || w.StatedLabels(headless) != nil || w.Labels[appv1.LabelName] != "web" {
			t.Errorf("another object has the labels: %v, %v", headless.Labels, w.Labels)
		}
	}
}

// TestSelectorsOfServices builds the Services of a database whose name another StatefulSet has: they lead to none of its pods, but for a Service of others, which an
// adoption would take over together with the StatefulSet.
func TestSelectorsOfServices(t *testing.T) {
	live := map[string]string{"a": "b"}
	for name, c := range map[string]struct {
		seen               BuildOptions
		live, headlessLive bool
	}{
		"of the owner":                      {BuildOptions{Selector: live}, true, true},
		"of others":                         {BuildOptions{Selector: live, Foreign: true}, false, false},
		"of others, the Service":            {BuildOptions{Selector: live, Foreign: true, ForeignService: true}, true, false},
		"of the owner, and not the Service": {BuildOptions{Selector: live, ForeignService: true}, true, true},
	} {
		cm := &appv1.CloudManager{}
		cm.Name, cm.Namespace = "office", "shop"
		c.seen.Inputs = BuildInputs{Rendering: RenderingLatest}
		w, _ := CloudManagerDatabase(cm, c.seen)
		service, headless := buildService(w), buildHeadless(w)
		if got := maps.Equal(service.Spec.Selector, live); got != c.live {
			t.Errorf("%s: the Service selects %v", name, service.Spec.Selector)
		}
		if got := maps.Equal(headless.Spec.Selector, live); got != c.headlessLive {
			t.Errorf("%s: the headless Service selects %v", name, headless.Spec.Selector)
		}
		if !maps.Equal(w.Selector, live) {
			t.Errorf("%s: the selector is %v", name, w.Selector)
		}
	}
}
