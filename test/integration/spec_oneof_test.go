package integration

import (
	"errors"
	"fmt"
	"strings"
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

// alternative is a change of a Deployment that sets another member of a one-of than the App states, or what cannot stand
// next to what it states for another reason.
type alternative struct {
	// state completes the App.
	state func(*appv1.App)
	// edit changes the Deployment, and, before the App exists, makes it other than the App states.
	edit func(*appsv1.Deployment)
	// same is true where the pod template stays.
	same bool
}

func probeFields(handler corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: handler}
}

var (
	tcpHandler  = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	httpHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}
	execHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}
	grpcHandler = corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}
	fieldSource = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}
	keySource   = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b"}}
)

// mainOf is the App's container wherever it stands.
func mainOf(d *appsv1.Deployment) *corev1.Container {
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == d.Name {
			return c
		}
	}
	return &d.Spec.Template.Spec.Containers[0]
}

var alternatives = map[string]alternative{
	"liveness-http": {
		func(app *appv1.App) { app.Spec.Probes.Liveness = probeFields(tcpHandler) },
		func(d *appsv1.Deployment) { mainOf(d).LivenessProbe = probeFields(httpHandler) }, false,
	},
	"readiness-exec": {
		func(app *appv1.App) { app.Spec.Probes.Readiness = probeFields(httpHandler) },
		func(d *appsv1.Deployment) { mainOf(d).ReadinessProbe = probeFields(execHandler) }, false,
	},
	"startup-grpc": {
		func(app *appv1.App) { app.Spec.Probes.Startup = probeFields(execHandler) },
		func(d *appsv1.Deployment) { mainOf(d).StartupProbe = probeFields(grpcHandler) }, false,
	},
	"pre-stop": {
		func(app *appv1.App) {
			app.Spec.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: execHandler.Exec}}
		},
		func(d *appsv1.Deployment) {
			mainOf(d).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: httpHandler.HTTPGet}}
		}, false,
	},
	"value-to-source": {
		func(app *appv1.App) { app.Spec.Envs = []corev1.EnvVar{{Name: "A", Value: "a"}} },
		func(d *appsv1.Deployment) { mainOf(d).Env = []corev1.EnvVar{{Name: "A", ValueFrom: fieldSource}} }, false,
	},
	"source-to-value": {
		func(app *appv1.App) { app.Spec.Envs = []corev1.EnvVar{{Name: "A", ValueFrom: fieldSource}} },
		func(d *appsv1.Deployment) { mainOf(d).Env = []corev1.EnvVar{{Name: "A", Value: "a"}} }, false,
	},
	"source-to-source": {
		func(app *appv1.App) { app.Spec.Envs = []corev1.EnvVar{{Name: "A", ValueFrom: fieldSource}} },
		func(d *appsv1.Deployment) { mainOf(d).Env = []corev1.EnvVar{{Name: "A", ValueFrom: keySource}} }, false,
	},
	"empty-value": {
		func(app *appv1.App) { app.Spec.Envs = []corev1.EnvVar{{Name: "A"}} },
		func(d *appsv1.Deployment) { mainOf(d).Env = []corev1.EnvVar{{Name: "A", Value: "a"}} }, false,
	},
	"volume": {
		func(app *appv1.App) {
			app.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
		func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}}
		}, false,
	},
	"strategy": {
		func(app *appv1.App) { app.Spec.Strategy = appsv1.RecreateDeploymentStrategyType },
		func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType}
		}, true,
	},
	"seccomp": {
		func(app *appv1.App) {
			app.Spec.SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		},
		func(d *appsv1.Deployment) {
			mainOf(d).SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{
				Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("p")}}
		}, false,
	},
	"port-renumbered": {
		func(app *appv1.App) { app.Spec.Ports[0].Name = "http" },
		func(d *appsv1.Deployment) {
			mainOf(d).Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 81}}
		}, false,
	},
	"renamed": {
		func(*appv1.App) {},
		func(d *appsv1.Deployment) { c := mainOf(d); c.Name = "other" }, false,
	},
	"copied": {
		func(*appv1.App) {},
		func(d *appsv1.Deployment) {
			c := mainOf(d).DeepCopy()
			c.Name = "copy"
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, *c)
		}, false,
	},
}

// TestAlternativeIsRepaired sets another member of a one-of by hand, next to an injected sidecar. It is repaired in one pass
// and by one change of the pod template, the sidecar stays, and the next image rolls out.
func TestAlternativeIsRepaired(t *testing.T) {
	t.Parallel()
	for name, c := range alternatives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			app := newApp(ns, name)
			c.state(app)
			d, _ := createInPlace(t, app)
			plane.Change(t, d, func() {
				pod := &d.Spec.Template.Spec
				pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "envoy"})
			}, client.FieldOwner("injector"))
			m.Idle(t)
			plane.Read(t, d)
			want, generation := d.Spec.DeepCopy(), d.Generation
			m.Requests.Reset()
			plane.Change(t, d, func() { c.edit(d) }, client.FieldOwner("kubectl-patch"))
			plane.Until(t, d, func() error {
				if diff := cmp.Diff(containersByName(want), containersByName(&d.Spec)); diff != "" || !cmp.Equal(want.Strategy, d.Spec.Strategy) {
					return fmt.Errorf("not repaired: %v\n%s", listEvents(t, app), diff)
				}
				return nil
			})
			m.Idle(t)
			plane.Read(t, d)
			if n := d.Generation - generation; n != 2 {
				t.Errorf("the generation went up by %d, want one for the edit and one for the repair", n)
			}
			// One read, the dry run, the managed fields and the apply.
			if got := m.Requests.Counts(); got["get deployments"] != 1 || got["patch deployments"] != 3 {
				t.Errorf("requests are %v", got)
			}
			if said := strings.Join(listEvents(t, app), "\n"); !strings.Contains(said, "Normal Repaired: Repaired Deployment "+name+": ") || !strings.Contains(said, "changed by kubectl-patch") {
				t.Errorf("events are %s", said)
			}
			setImage(t, app, "nginx:2")
			plane.Until(t, d, func() error {
				if mainOf(d).Image != "nginx:2" {
					return errors.New("the image does not roll out")
				}
				return nil
			})
			plane.Stands(t, app, progressing...)
		})
	}
}

// containersByName are the containers of a Deployment without their order, and its volumes.
func containersByName(spec *appsv1.DeploymentSpec) map[string]any {
	all := map[string]any{"volumes": spec.Template.Spec.Volumes}
	for _, c := range spec.Template.Spec.Containers {
		all[c.Name] = c
	}
	return all
}

// TestAlternativeIsAdopted adopts a Deployment that has another member of a one-of than the App states.
func TestAlternativeIsAdopted(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for name, c := range alternatives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			c.state(app)
			d := newHandMade(ns, name)
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: name, Image: app.Spec.Image}}
			c.edit(d)
			plane.Create(t, d)
			plane.Create(t, app)
			plane.Until(t, d, func() error {
				if !metav1.IsControlledBy(d, app) {
					return fmt.Errorf("it is not adopted: %v", listEvents(t, app))
				}
				return nil
			})
			plane.Stands(t, app, progressing...)
			plane.Read(t, d)
			if n := len(d.Spec.Template.Spec.Containers); n != 1 {
				t.Errorf("it has %d containers", n)
			}
			setImage(t, app, "nginx:2")
			awaitImage(t, d, "nginx:2")
		})
	}
}

// TestRefusedAdoptionTakesNothing adopts a Deployment into what the API server refuses. Its managed fields stay.
func TestRefusedAdoptionTakesNothing(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d := newHandMade(ns, "web")
	plane.Create(t, d)
	was := readWhole(t, d)
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	app.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Items: []corev1.KeyToPath{{Key: "k", Path: "../up"}}}}}}
	plane.Create(t, app)
	plane.Until(t, app, func() error {
		if app.Status.ObservedGeneration < 1 {
			return errors.New("not looked at")
		}
		return nil
	})
	m.Idle(t)
	checkUntouched(t, d, was)
}
