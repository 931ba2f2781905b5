package resource

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestKeptTemplate has live pod templates that an adoption leaves as they are, with the container and the port that the objects around the pods are
// about, and what of the App's ports a template does not declare.
func TestKeptTemplate(t *testing.T) {
	app := servingApp(t, "autoscaling: {maxReplicas: 3}\npodMonitor: {}\ncontainerPorts: [{name: web, containerPort: 8080}]")
	app.Spec.Ports = []appv1.Port{{Name: "web", Port: 80, TargetPort: ptr.To(intstr.FromString("web"))}}
	web := corev1.ContainerPort{Name: "web", ContainerPort: 8080}
	for name, c := range map[string]struct {
		containers []corev1.Container
		scaled     string
		scraped    intstr.IntOrString
		undeclared []string
	}{
		"not known":       {nil, "shop", intstr.FromString("web"), nil},
		"the same name":   {[]corev1.Container{{Name: "proxy"}, {Name: "shop", Ports: []corev1.ContainerPort{web}}}, "shop", intstr.FromString("web"), nil},
		"another name":    {[]corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{web}}}, "main", intstr.FromString("web"), nil},
		"port of another": {[]corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{ContainerPort: 81}}}, {Name: "x", Ports: []corev1.ContainerPort{web}}}, "main", intstr.FromInt32(81), nil},
		"without a name":  {[]corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}, "main", intstr.FromInt32(8080), []string{"container port web by TCP for the Service"}},
		"without a port":  {[]corev1.Container{{Name: "main"}}, "main", intstr.FromString("web"), []string{"container port web by TCP for the Service", "container port for the PodMonitor"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := built(t)(App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest, Kept: true}}))
			kept := w.WithKeptTemplate(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: c.containers}})
			if got := HorizontalPodAutoscaler(kept).Spec.Metrics[0].ContainerResource.Container; got != c.scaled {
				t.Errorf("the autoscaler is about %s, want %s", got, c.scaled)
			}
			endpoint := PodMonitor(kept).Spec.PodMetricsEndpoints[0]
			if c.scraped.Type == intstr.String && (endpoint.Port == nil || *endpoint.Port != c.scraped.StrVal) ||
				c.scraped.Type == intstr.Int && (endpoint.PortNumber == nil || *endpoint.PortNumber != c.scraped.IntVal) {
				t.Errorf("the PodMonitor is about %+v, want %v", endpoint, &c.scraped)
			}
			if got := kept.UndeclaredPorts(); !slices.Equal(got, c.undeclared) {
				t.Errorf("undeclared are %q, want %q", got, c.undeclared)
			}
			w.TemplateKept = false
			if got := w.WithKeptTemplate(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: c.containers}}); got != w {
				t.Error("a template that is the workload's own is kept")
			}
		})
	}
}
