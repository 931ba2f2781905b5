package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// tutorialManager is the name under which the tutorial's operator writes: that of its program.
const tutorialManager = client.FieldOwner("manager")

// tutorialSpec is the spec of an App in the tutorial's operator. Its JSON is what that operator annotates an App with.
type tutorialSpec struct {
	Replicas  *int32                      `json:"replicas"`
	Image     string                      `json:"image"`
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	Envs      []corev1.EnvVar             `json:"envs,omitempty"`
	Ports     []corev1.ServicePort        `json:"ports,omitempty"`
}

// tutorialView returns the App's spec as the tutorial's operator reads it.
func tutorialView(app *appv1.App) *tutorialSpec {
	spec := &tutorialSpec{Replicas: app.Spec.Replicas, Image: app.Spec.Image, Resources: app.Spec.Resources, Envs: app.Spec.Envs}
	for _, p := range app.Spec.Ports {
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port,
			TargetPort: ptr.Deref(p.TargetPort, intstr.IntOrString{}), NodePort: p.NodePort, AppProtocol: p.AppProtocol})
	}
	return spec
}

// tutorialMeta is the metadata of both children.
func tutorialMeta(app *appv1.App) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(app, appv1.GroupVersion.WithKind("App"))}}
}

// tutorialDeployment is the Deployment that the tutorial's operator makes for an App, its resource/deployment.
func tutorialDeployment(app *appv1.App) *appsv1.Deployment {
	spec := tutorialView(app)
	labels := map[string]string{"app.example.com/v1": app.Name}
	var ports []corev1.ContainerPort
	for _, p := range spec.Ports {
		ports = append(ports, corev1.ContainerPort{ContainerPort: p.TargetPort.IntVal})
	}
	return &appsv1.Deployment{
		ObjectMeta: tutorialMeta(app),
		Spec: appsv1.DeploymentSpec{
			Replicas: spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: app.Name, Image: spec.Image, Ports: ports, Env: spec.Envs, Resources: spec.Resources,
					ImagePullPolicy: corev1.PullIfNotPresent,
				}}},
			},
		},
	}
}

// tutorialService is the Service that the tutorial's operator makes for an App, its resource/service.
func tutorialService(app *appv1.App) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: tutorialMeta(app),
		Spec: corev1.ServiceSpec{
			Ports:    tutorialView(app).Ports,
			Selector: map[string]string{"app.example.com/v1": app.Name},
		},
	}
}

// newTutorialApp returns the App of the tutorial.
func newTutorialApp(namespace, name string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}, {Name: "GOPATH", Value: "gopath"}}
	app.Spec.Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": parseQuantity("500m"), "memory": parseQuantity("500Mi")},
		Requests: corev1.ResourceList{"cpu": parseQuantity("100m"), "memory": parseQuantity("100Mi")},
	}
	return app
}

// leaveByTutorial creates an App and does what the tutorial's operator does when it sees it: it makes both children by plain
// creation, and then annotates the App. No manager of ours may run in the namespace yet.
func leaveByTutorial(t testing.TB, app *appv1.App) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	plane.Create(t, app)
	d, s := tutorialDeployment(app), tutorialService(app)
	for _, child := range []client.Object{d, s} {
		if err := plane.Client.Create(t.Context(), child, tutorialManager); err != nil {
			t.Fatal(err)
		}
	}
	recordByTutorial(t, app)
	return d, s
}

// recordByTutorial annotates the App as the tutorial's operator does.
func recordByTutorial(t testing.TB, app *appv1.App) {
	t.Helper()
	app.Annotations = map[string]string{appv1.AnnotationTutorialSpec: string(marshalJSON(t, tutorialView(app)))}
	if err := plane.Client.Update(t.Context(), app, tutorialManager); err != nil {
		t.Fatal(err)
	}
}

// takeoverCase is a state in which the tutorial's operator leaves an App.
type takeoverCase struct {
	// ports replace those of the tutorial's App, if there are any.
	ports []appv1.Port
	// meanwhile is what happens between the one operator and the other.
	meanwhile func(testing.TB, *appv1.App, *appsv1.Deployment, *corev1.Service)
	// changes is what of the pod template the take-over changes; nil if it must not restart the pods.
	changes func(*corev1.PodTemplateSpec)
	// rendering is the one that the take-over leaves the pod template in.
	rendering int32
	// created is true if there is no Service to take over.
	created bool
}

var takeoverCases = map[string]takeoverCase{
	"complete": {},
	"several ports, one of them UDP": {ports: []appv1.Port{
		{Name: "http", Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80))},
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: ptr.To(intstr.FromInt32(5353))},
	}},
	"spec changed under the tutorial's operator": {meanwhile: func(t testing.TB, app *appv1.App, d *appsv1.Deployment, s *corev1.Service) {
		plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17"; app.Spec.Envs = app.Spec.Envs[1:] })
		d.Spec, s.Spec.Ports = tutorialDeployment(app).Spec, tutorialView(app).Ports
		for _, child := range []client.Object{d, s} {
			if err := plane.Client.Update(t.Context(), child, tutorialManager); err != nil {
				t.Fatal(err)
			}
		}
		recordByTutorial(t, app)
	}},
	"Service missing": {created: true, meanwhile: func(t testing.TB, _ *appv1.App, _ *appsv1.Deployment, s *corev1.Service) {
		plane.Delete(t, s)
	}},
	// The operator has crashed before it annotated the App. Its successor fails on that for ever.
	"annotation missing": {meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
		setAnnotation(t, app, appv1.AnnotationTutorialSpec, "")
	}},
	"annotation empty": {meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
		plane.Change(t, app, func() { app.Annotations[appv1.AnnotationTutorialSpec] = "" })
	}},
	"annotation unreadable": {meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
		setAnnotation(t, app, appv1.AnnotationTutorialSpec, `{"image":`)
	}},
	"image changed meanwhile": {
		rendering: 2,
		meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
		},
		changes: func(template *corev1.PodTemplateSpec) { template.Spec.Containers[0].Image = "nginx:1.17" },
	},
	// The take-over must not leave behind a field that only the tutorial's operator has ever stated.
	"variable removed meanwhile": {
		rendering: 2,
		meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
			plane.Change(t, app, func() { app.Spec.Envs = app.Spec.Envs[:1] })
		},
		changes: func(template *corev1.PodTemplateSpec) {
			template.Spec.Containers[0].Env = template.Spec.Containers[0].Env[:1]
		},
	},
	// Whether the spec has changed is not known here. What it says counts, and nothing next to it.
	"variable removed meanwhile, annotation missing": {
		meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
			setAnnotation(t, app, appv1.AnnotationTutorialSpec, "")
			plane.Change(t, app, func() { app.Spec.Envs = app.Spec.Envs[:1] })
		},
		changes: func(template *corev1.PodTemplateSpec) {
			template.Spec.Containers[0].Env = template.Spec.Containers[0].Env[:1]
		},
	},
	"replicas changed meanwhile": {meanwhile: func(t testing.TB, app *appv1.App, _ *appsv1.Deployment, _ *corev1.Service) {
		plane.Change(t, app, func() { app.Spec.Replicas = ptr.To[int32](5) })
	}},
	"Service broken meanwhile": {meanwhile: func(t testing.TB, _ *appv1.App, _ *appsv1.Deployment, s *corev1.Service) {
		plane.Change(t, s, func() {
			s.Spec.Selector = map[string]string{"x": "y"}
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(81)
		})
	}},
	"sidecar injected": {meanwhile: func(t testing.TB, _ *appv1.App, d *appsv1.Deployment, _ *corev1.Service) {
		plane.Change(t, d, func() {
			pod := &d.Spec.Template.Spec
			pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "envoy"})
			pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: "INJECTED", Value: "1"})
			d.Spec.Template.Annotations = map[string]string{"injected": "true"}
		}, client.FieldOwner("injector"))
	}},
}

// TestTakeOver starts the manager over what the tutorial's operator has left.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, c := range takeoverCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newTutorialApp(plane.Namespace(t), "nginx-app")
			if c.ports != nil {
				app.Spec.Ports = c.ports
			}
			d, s := leaveByTutorial(t, app)
			completeRollout(t, d)
			wanted := s.Spec.DeepCopy()
			if c.meanwhile != nil {
				plane.Read(t, app)
				c.meanwhile(t, app, d, s)
			}
			plane.Read(t, d)
			before := d.DeepCopy()

			m := plane.Start(t, app.Namespace)
			checkRequests(t, m, "take-over", takeoverRequests(c))
			plane.Stands(t, app, progressing...)
			checkTaken(t, app, before, c)
			checkTakenService(t, app, wanted, c.created)
			m.Stop(t)
			m = plane.Start(t, app.Namespace)
			checkRequests(t, m, "restart after the take-over", map[string]int{})
			checkLater(t, app)
		})
	}
}

// takeoverRequests are those of a take-over: each object is read once, as its managed fields are to be rewritten, what is to
// come of it is tried in a dry run, then they are rewritten, and then it is applied as ever.
func takeoverRequests(c takeoverCase) map[string]int {
	want := map[string]int{"get deployments": 1, "patch deployments": 3, "get services": 1, "patch services": 3,
		"patch apps/status": 1, "create events": 1}
	if c.created {
		delete(want, "get services")
		want["patch services"] = 1
	}
	return want
}

// checkTaken checks the Deployment after the take-over.
func checkTaken(t *testing.T, app *appv1.App, before *appsv1.Deployment, c takeoverCase) {
	t.Helper()
	d := deployment(app)
	plane.Read(t, d)
	template := before.Spec.Template.DeepCopy()
	if c.changes != nil {
		c.changes(template)
	}
	if c.rendering == 2 {
		awaitNewestRendering(template, app)
	}
	sameTemplate(t, d, *template)
	if d.UID != before.UID || !cmp.Equal(d.Spec.Selector, before.Spec.Selector) {
		t.Errorf("the Deployment is another: UID %s, selector %v", d.UID, d.Spec.Selector)
	}
	if got, want := *d.Spec.Replicas, *app.Spec.Replicas; got != want {
		t.Errorf("%d replicas, want %d", got, want)
	}
	checkManagers(t, d)
	if app.Status.Rendering != c.rendering || app.Status.LatestRendering != 2-c.rendering {
		t.Errorf("status has rendering %d, latest %d; want %d in use and 2 to be had", app.Status.Rendering, app.Status.LatestRendering, c.rendering)
	}
	if want := "app.example.com/v1=" + app.Name; app.Status.Selector != want {
		t.Errorf("status has selector %q, want %q", app.Status.Selector, want)
	}
}

// awaitNewestRendering makes of a pod template of either rendering that of rendering 2 under the tutorial's selector.
func awaitNewestRendering(template *corev1.PodTemplateSpec, app *appv1.App) {
	template.Labels = tutorialPodLabels(app)
	template.Spec.TopologySpreadConstraints = nil
	addDefaults(template, map[string]string{"app.example.com/v1": app.Name})
}

// tutorialPodLabels are those of a pod of rendering 2 under the tutorial's selector.
func tutorialPodLabels(app *appv1.App) map[string]string {
	labels := childLabels(app.Name)
	labels[appv1.LabelApp] = app.Name
	labels["app.example.com/v1"] = app.Name
	return labels
}

// checkTakenService checks the Service after the take-over.
func checkTakenService(t *testing.T, app *appv1.App, wanted *corev1.ServiceSpec, created bool) {
	t.Helper()
	s := service(app)
	plane.Read(t, s)
	if created {
		wanted.ClusterIP, wanted.ClusterIPs = s.Spec.ClusterIP, s.Spec.ClusterIPs
	}
	if err := diffOf(wanted, &s.Spec); err != nil {
		t.Errorf("Service: %v", err)
	}
	checkManagers(t, s)
}

// checkManagers fails the test if the tutorial's operator still owns fields: they would outlive their removal.
func checkManagers(t *testing.T, obj client.Object) {
	t.Helper()
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == string(tutorialManager) {
			t.Errorf("the tutorial's operator still owns fields of %T: %s", obj, entry.FieldsV1.GetRawString())
		}
	}
	ownedFields(t, obj) // Fails if there is nothing of ours.
}

// checkLater changes an App that was taken over. From now on it is one like any other.
func checkLater(t *testing.T, app *appv1.App) {
	t.Helper()
	d := deployment(app)
	plane.Read(t, d)
	template, selector := d.Spec.Template.DeepCopy(), d.Spec.Selector.DeepCopy()
	foreign := template.Spec.Containers[0].Env[len(app.Spec.Envs):]

	plane.Change(t, app, func() { app.Spec.Envs = nil })
	plane.Stands(t, app, progressing...)
	plane.Read(t, d)
	if err := diffOf(append([]corev1.EnvVar(nil), foreign...), containerOf(d).Env); err != nil {
		t.Errorf("variables after ours are removed from the spec: %v", err)
	}
	setImage(t, app, "nginx:2")
	plane.Stands(t, app, progressing...)
	awaitNewestRendering(template, app)
	template.Spec.Containers[0].Image = "nginx:2"
	template.Spec.Containers[0].Env = containerOf(d).Env
	if len(app.Spec.Ports) > 1 {
		// Unlike rendering 0, rendering 2 tells the container's protocols apart, and names its ports.
		template.Spec.Containers[0].Ports[1].Protocol = corev1.ProtocolUDP
		template.Spec.Containers[0].Ports[0].Name, template.Spec.Containers[0].Ports[1].Name = "http", "dns"
	}
	sameTemplate(t, d, *template)
	if err := diffOf(selector, d.Spec.Selector); err != nil {
		t.Errorf("selector: %v", err)
	}
	if app.Status.Rendering != 2 || app.Status.LatestRendering != 0 {
		t.Errorf("status has rendering %d, latest %d; want 2 and none", app.Status.Rendering, app.Status.LatestRendering)
	}
}

// TestTakeOverWithDuplicatePorts takes over a Deployment that a plain creation lets through and server-side apply does
// not: two ports of the Service lead to one of the container, which the tutorial's operator declares twice.
func TestTakeOverWithDuplicatePorts(t *testing.T) {
	t.Parallel()
	app := newTutorialApp(plane.Namespace(t), "nginx-app")
	app.Spec.Ports = nil
	for i, name := range []string{"http", "web", "other"} {
		app.Spec.Ports = append(app.Spec.Ports, appv1.Port{Name: name, Port: int32(8080 + i), TargetPort: ptr.To(intstr.FromInt32(80))})
	}
	d, _ := leaveByTutorial(t, app)
	if n := len(containerOf(d).Ports); n != 3 {
		t.Fatalf("the container declares %d ports, want 3", n)
	}
	uid := d.UID

	m := plane.Start(t, app.Namespace)
	plane.Stands(t, app, progressing...)
	d, s := readChildren(t, app)
	if err := diffOf([]corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}}, containerOf(d).Ports); err != nil {
		t.Error(err)
	}
	if len(s.Spec.Ports) != 3 || d.UID != uid {
		t.Errorf("the Service has %d ports, the Deployment's UID is %s, was %s", len(s.Spec.Ports), d.UID, uid)
	}
	checkManagers(t, d)
	m.Stop(t)
	m = plane.Start(t, app.Namespace)
	checkRequests(t, m, "restart after the take-over", map[string]int{})
}

// TestTakeOverRefreshed takes over an App whose owner has asked for the newest rendering in advance.
func TestTakeOverRefreshed(t *testing.T) {
	t.Parallel()
	app := newTutorialApp(plane.Namespace(t), "nginx-app")
	d, _ := leaveByTutorial(t, app)
	setAnnotation(t, app, appv1.AnnotationRefresh, "1")
	plane.Start(t, app.Namespace)
	plane.Stands(t, app, progressing...)
	template := d.Spec.Template
	awaitNewestRendering(&template, app)
	sameTemplate(t, d, template)
}
