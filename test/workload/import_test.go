package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// foreignApplication returns an application that nothing of ours has made: labels of a chart with a selector of three, two versions behind one
// Service, a liveness probe without a readiness probe, a headless Service, and a Service in front of all pods.
func foreignApplication(ns string) (deployments []*appsv1.Deployment, services []*corev1.Service) {
	const partOf = "app.kubernetes.io/part-of"
	chart := map[string]string{appv1.LabelName: "shop", appv1.LabelInstance: "main", appv1.LabelComponent: "web"}
	add := func(name string, selector, extra map[string]string, change func(*corev1.Container)) {
		d := fixture.NewDeployment(ns, name)
		labels := maps.Clone(selector)
		maps.Copy(labels, extra)
		labels[partOf] = "shop"
		d.Labels = maps.Clone(labels)
		d.Annotations = map[string]string{"team": "a"}
		d.Spec = appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: selector}}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "httpd:2.4", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
		change(&d.Spec.Template.Spec.Containers[0])
		deployments = append(deployments, d)
	}
	lead := func(name string, selector, labels map[string]string, change func(*corev1.ServiceSpec)) {
		s := &corev1.Service{ObjectMeta: fixture.Meta(ns, name)}
		s.Labels = labels
		s.Spec = corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Name: "http", Port: 8080, TargetPort: intstr.FromString("http")}}}
		change(&s.Spec)
		services = append(services, s)
	}
	plain, same := func(*corev1.Container) {}, func(*corev1.ServiceSpec) {}
	add("web", chart, map[string]string{appv1.LabelManagedBy: "Helm", "helm.sh/chart": "shop-1.0.0"}, plain)
	lead("web", chart, map[string]string{
		appv1.LabelName: "shop", appv1.LabelInstance: "main", appv1.LabelComponent: "web", "release": "prometheus",
	}, func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })
	for _, version := range []string{"v1", "v2"} {
		add("reviews-"+version, map[string]string{"app": "reviews", "version": version}, nil, plain)
	}
	lead("reviews", map[string]string{"app": "reviews"}, map[string]string{"app": "reviews"}, same)
	add("api", map[string]string{"app": "api"}, map[string]string{"app.kubernetes.io/version": "2"}, func(c *corev1.Container) {
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}}
	})
	lead("api", map[string]string{"app": "api"}, map[string]string{"app": "api"}, func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone })
	lead("all", map[string]string{partOf: "shop"}, nil, same)
	return deployments, services
}

// facts are what others see of an application: the labels that all pods of a Deployment have, the number of pods behind each Service, and the
// labels of the Services.
type facts struct {
	pods      map[string]map[string]string
	endpoints map[string]int
	services  map[string]map[string]string
}

// factsOf reads the facts of a namespace.
func factsOf(t *testing.T, ns string, deployments []*appsv1.Deployment) facts {
	t.Helper()
	found := facts{pods: map[string]map[string]string{}, endpoints: map[string]int{}, services: map[string]map[string]string{}}
	var pods corev1.PodList
	var services corev1.ServiceList
	for _, list := range []client.ObjectList{&pods, &services} {
		if err := plane.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range deployments {
		for i := range pods.Items {
			owner := metav1.GetControllerOf(&pods.Items[i])
			if owner == nil || !strings.HasPrefix(owner.Name, d.Name+"-") || pods.Items[i].DeletionTimestamp != nil {
				continue
			}
			labels := maps.Clone(pods.Items[i].Labels)
			if common, seen := found.pods[d.Name]; seen {
				maps.DeleteFunc(labels, func(key, value string) bool { return common[key] != value })
			}
			found.pods[d.Name] = labels
		}
	}
	for i := range services.Items {
		s := &services.Items[i]
		found.endpoints[s.Name], found.services[s.Name] = len(endpointsOf(t, ns, s.Name)), s.Labels
	}
	return found
}

// lacks returns the first of the facts of before that no longer holds, nil if all of them do. The manager alone sets the label managed-by.
func (f facts) lacks(before facts) error {
	for name, labels := range before.pods {
		for key, value := range labels {
			if key != appv1.LabelManagedBy && key != appsv1.DefaultDeploymentUniqueLabelKey && f.pods[name][key] != value {
				return fmt.Errorf("the pods of %s have %s=%q, want %q", name, key, f.pods[name][key], value)
			}
		}
	}
	for name, labels := range before.services {
		for key, value := range labels {
			if key != appv1.LabelManagedBy && f.services[name][key] != value {
				return fmt.Errorf("Service %s has %s=%q, want %q", name, key, f.services[name][key], value)
			}
		}
		if f.endpoints[name] != before.endpoints[name] {
			return fmt.Errorf("Service %s leads to %d pods, want %d", name, f.endpoints[name], before.endpoints[name])
		}
	}
	return nil
}

// TestImportComesBack imports an application, lets the Apps take it over, refreshes them, deletes them and applies them again: the labels of pods
// and Services, and the number of pods behind each Service, are what they were at each step.
func TestImportComesBack(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	deployments, services := foreignApplication(ns)
	for _, d := range deployments {
		plane.Create(t, d)
	}
	for _, s := range services {
		plane.Create(t, s)
	}
	for _, d := range deployments {
		untilAvailable(t, ns, d.Name)
	}
	for name, pods := range map[string]int{"web": 2, "reviews": 4, "api": 2, "all": 2 * len(deployments)} {
		untilEndpoints(t, ns, name, pods)
	}
	before := factsOf(t, ns, deployments)
	holds := func(step string) {
		t.Helper()
		harness.Eventually(t, func() error {
			if err := factsOf(t, ns, deployments).lacks(before); err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
			return nil
		})
	}
	plane.Start(t, ns)
	files := plane.ImportAll(t, ns)
	apps := make([]*appv1.App, len(files))
	for i, file := range files {
		apps[i] = file.DeepCopy()
		apps[i].Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
		plane.Create(t, apps[i])
	}
	for _, app := range apps {
		plane.Stands(t, app, "Applied=True/TemplateKept", "Ready=True")
	}
	holds("after the adoption")
	for _, app := range apps {
		plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} })
	}
	for _, app := range apps {
		plane.Stands(t, app, "Applied=True/Applied", "Ready=True")
	}
	holds("after the refresh")
	for _, app := range apps {
		plane.Delete(t, app, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	for _, app := range apps {
		plane.Gone(t, app)
	}
	for i, file := range files {
		apps[i] = file.DeepCopy()
		plane.Create(t, apps[i])
	}
	for _, app := range apps {
		plane.Stands(t, app, "Applied=True/Applied", "Ready=True")
	}
	holds("after the Apps were deleted and applied again")
	names := slices.Sorted(maps.Keys(before.services))
	if want := []string{"all", "api", "reviews", "web"}; !slices.Equal(names, want) {
		t.Errorf("the Services are %q, want %q", names, want)
	}
}
