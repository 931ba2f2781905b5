package integration

import (
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestKeptContainerIsScaled adopts a Deployment without a restart whose container has another name than that of the App. The autoscaler is about the
// container that runs, and about the App's once the template is the App's.
func TestKeptContainerIsScaled(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d := newHandMade(ns, "web")
	plane.Create(t, d, newHandMadeService(ns, "web"))
	app := newServed(ns, "web", "autoscaling")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
	plane.Create(t, app)
	plane.Stands(t, app, keeping...)
	m.Idle(t)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	plane.Read(t, scaler)
	if got := scaler.Spec.Metrics[0].ContainerResource.Container; got != "main" || scaler.Generation > 1 {
		t.Errorf("in generation %d, the container is %s", scaler.Generation, got)
	}
	setAnnotation(t, app, appv1.AnnotationRefresh, "1")
	plane.Until(t, scaler, func() error {
		if got := scaler.Spec.Metrics[0].ContainerResource.Container; got != "web" {
			return fmt.Errorf("the container is %s", got)
		}
		return nil
	})
	m.Idle(t)
}

// TestKeptPorts adopts Deployments without a restart, or with a canary. A Service or a PodMonitor leads to a port by its name: where the pods that stay
// do not declare the name, nothing is touched.
func TestKeptPorts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	byName := func(app *appv1.App) {
		app.Spec.Ports = []appv1.Port{{Name: "http", Port: 80, TargetPort: ptr.To(intstr.FromString("main"))}}
		app.Spec.ContainerPorts = []appv1.ContainerPort{{Name: "main", ContainerPort: 8080}}
	}
	monitor := func(app *appv1.App) { app.Spec.PodMonitor = &appv1.PodMonitorSpec{} }
	canaryFirst := func(app *appv1.App) {
		app.Annotations[appv1.AnnotationAdopt] = "true"
		wantCanary(app)
		byName(app)
	}
	for name, c := range map[string]struct {
		ports []corev1.ContainerPort
		state func(*appv1.App)
		says  string
	}{
		"named":          {[]corev1.ContainerPort{{Name: "main", ContainerPort: 8080}}, byName, ""},
		"other-number":   {[]corev1.ContainerPort{{Name: "main", ContainerPort: 8081}}, byName, ""},
		"unnamed":        {[]corev1.ContainerPort{{ContainerPort: 8080}}, byName, "no container port main"},
		"other-protocol": {[]corev1.ContainerPort{{Name: "main", ContainerPort: 8080, Protocol: corev1.ProtocolUDP}}, byName, "no container port main"},
		"undeclared":     {nil, byName, "no container port main"},
		"by-number":      {nil, func(*appv1.App) {}, ""},
		"scraped":        {[]corev1.ContainerPort{{ContainerPort: 8080}}, monitor, ""},
		"not-scraped":    {nil, monitor, "no container port for the PodMonitor"},
		"canary":         {[]corev1.ContainerPort{{ContainerPort: 8080}}, canaryFirst, "no container port main"},
		"canary-named":   {[]corev1.ContainerPort{{Name: "main", ContainerPort: 8080}}, canaryFirst, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := newHandMade(ns, name), newHandMadeService(ns, name)
			d.Spec.Template.Spec.Containers[0].Ports = c.ports
			plane.Create(t, d, s)
			wasD, wasS := readWhole(t, d), readWhole(t, s)
			app := newApp(ns, name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
			c.state(app)
			plane.Create(t, app)
			if c.says == "" {
				plane.Until(t, d, func() error {
					if !metav1.IsControlledBy(d, app) {
						return fmt.Errorf("it is not adopted: %v", listEvents(t, app))
					}
					return nil
				})
				return
			}
			plane.Stands(t, app, "Applied=False/AdoptionRestarts", "Ready=False/AdoptionRestarts", "Stalled=True/AdoptionRestarts")
			harness.Says(t, app, "Ready", c.says)
			harness.Says(t, app, "Ready", "The operator has changed nothing")
			m.Idle(t)
			checkUntouched(t, d, wasD)
			checkUntouched(t, s, wasS)
		})
	}
}

// TestKeptDeploymentIsReturned adds a PodMonitor for which the kept pods declare no port, and removes the owner of the Deployment, as a restore does. The
// App's own Deployment is the App's again, with its pods.
func TestKeptDeploymentIsReturned(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app, d := keptDeployment(t, ns, "web")
	template := *d.Spec.Template.DeepCopy()
	plane.Change(t, app, func() { app.Spec.PodMonitor = &appv1.PodMonitorSpec{} })
	m.Idle(t)
	plane.Read(t, d)
	plane.Change(t, d, func() { d.OwnerReferences = nil })
	plane.Until(t, d, func() error {
		if !metav1.IsControlledBy(d, app) {
			return fmt.Errorf("it is not returned: %v", listEvents(t, app))
		}
		return nil
	})
	m.Idle(t)
	sameTemplate(t, d, template)
}
