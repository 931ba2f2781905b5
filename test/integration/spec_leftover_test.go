package integration

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// leftover is a part of a pod template that an App states and leaves out afterwards, while another manager has a field of the part.
type leftover struct {
	state, leave func(*appv1.WorkloadSpec)
	// edit sets the field of the other manager, and is reports whether the part is there.
	edit func(*corev1.PodSpec)
	is   func(*corev1.PodSpec) bool
}

func firstOf(pod *corev1.PodSpec) *corev1.Container { return &pod.Containers[0] }

var leftovers = map[string]leftover{
	"liveness": {
		func(s *appv1.WorkloadSpec) { s.Probes.Liveness = probeFields(tcpHandler) },
		func(s *appv1.WorkloadSpec) { s.Probes.Liveness = nil },
		func(pod *corev1.PodSpec) { firstOf(pod).LivenessProbe.InitialDelaySeconds = 7 },
		func(pod *corev1.PodSpec) bool { return firstOf(pod).LivenessProbe != nil },
	},
	"startup": {
		func(s *appv1.WorkloadSpec) { s.Probes.Startup = probeFields(httpHandler) },
		func(s *appv1.WorkloadSpec) { s.Probes.Startup = nil },
		func(pod *corev1.PodSpec) { firstOf(pod).StartupProbe.HTTPGet.Host = "localhost" },
		func(pod *corev1.PodSpec) bool { return firstOf(pod).StartupProbe != nil },
	},
	"pre-stop": {
		func(s *appv1.WorkloadSpec) {
			s.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: httpHandler.HTTPGet}}
		},
		func(s *appv1.WorkloadSpec) { s.Lifecycle = nil },
		func(pod *corev1.PodSpec) { firstOf(pod).Lifecycle.PreStop.HTTPGet.Host = "localhost" },
		func(pod *corev1.PodSpec) bool { return firstOf(pod).Lifecycle != nil },
	},
	"one-hook": {
		func(s *appv1.WorkloadSpec) {
			hook := &corev1.LifecycleHandler{HTTPGet: httpHandler.HTTPGet}
			s.Lifecycle = &corev1.Lifecycle{PreStop: hook, PostStart: hook}
		},
		func(s *appv1.WorkloadSpec) { s.Lifecycle = &corev1.Lifecycle{PreStop: s.Lifecycle.PreStop} },
		func(pod *corev1.PodSpec) { firstOf(pod).Lifecycle.PostStart.HTTPGet.Host = "localhost" },
		func(pod *corev1.PodSpec) bool { return firstOf(pod).Lifecycle.PostStart != nil },
	},
	"container": {
		func(s *appv1.WorkloadSpec) { s.Containers = []corev1.Container{{Name: "log", Image: "log:1"}} },
		func(s *appv1.WorkloadSpec) { s.Containers = nil },
		func(pod *corev1.PodSpec) {
			pod.Containers[1].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1m")}
		},
		func(pod *corev1.PodSpec) bool { return len(pod.Containers) > 1 },
	},
	"init-container": {
		func(s *appv1.WorkloadSpec) {
			s.InitContainers = []corev1.Container{{Name: "first", Image: "log:1"}, {Name: "second", Image: "log:1", Args: []string{"2"}}}
		},
		func(s *appv1.WorkloadSpec) { s.InitContainers = s.InitContainers[:1] },
		func(pod *corev1.PodSpec) { pod.InitContainers[1].TTY = true },
		func(pod *corev1.PodSpec) bool { return len(pod.InitContainers) > 1 },
	},
	"probe-of-a-container": {
		func(s *appv1.WorkloadSpec) {
			s.Containers = []corev1.Container{{Name: "log", Image: "log:1", LivenessProbe: probeFields(tcpHandler)}}
		},
		func(s *appv1.WorkloadSpec) { s.Containers[0].LivenessProbe = nil },
		func(pod *corev1.PodSpec) { pod.Containers[1].LivenessProbe.FailureThreshold = 7 },
		func(pod *corev1.PodSpec) bool { return pod.Containers[1].LivenessProbe != nil },
	},
	"volume": {
		func(s *appv1.WorkloadSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Optional: ptr.To(true)}}}}
		},
		func(s *appv1.WorkloadSpec) { s.Volumes = nil },
		func(pod *corev1.PodSpec) { pod.Volumes[0].ConfigMap.DefaultMode = ptr.To[int32](0o400) },
		func(pod *corev1.PodSpec) bool { return len(pod.Volumes) > 0 },
	},
	"mount": {
		func(s *appv1.WorkloadSpec) {
			s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			s.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/a"}, {Name: "data", MountPath: "/b"}}
		},
		func(s *appv1.WorkloadSpec) { s.VolumeMounts = s.VolumeMounts[:1] },
		func(pod *corev1.PodSpec) { firstOf(pod).VolumeMounts[1].ReadOnly = true },
		func(pod *corev1.PodSpec) bool { return len(firstOf(pod).VolumeMounts) > 1 },
	},
	"spread": {
		func(s *appv1.WorkloadSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: ownPods()},
				{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: ownPods()},
			}
		},
		func(s *appv1.WorkloadSpec) { s.TopologySpreadConstraints = s.TopologySpreadConstraints[:1] },
		func(pod *corev1.PodSpec) {
			pod.TopologySpreadConstraints[1].NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		},
		func(pod *corev1.PodSpec) bool { return len(pod.TopologySpreadConstraints) > 1 },
	},
}

// TestPartIsLeftOut leaves out a part of an App in which another manager has a field, together with a new image. The part goes as a whole, as it is
// nothing without what the App stated, and the image rolls out; an injected sidecar with the same fields stays.
func TestPartIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range leftovers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			app := newApp(ns, name)
			c.state(&app.Spec.WorkloadSpec)
			d, _ := createInPlace(t, app)
			m.Idle(t)
			plane.Read(t, d)
			plane.Change(t, d, func() { c.edit(&d.Spec.Template.Spec) }, intruder)
			m.Idle(t)
			plane.Change(t, d, func() {
				pod := &d.Spec.Template.Spec
				pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "envoy", LivenessProbe: probeFields(tcpHandler)})
			}, client.FieldOwner("injector"))
			m.Idle(t)
			plane.Read(t, app)
			plane.Change(t, app, func() {
				c.leave(&app.Spec.WorkloadSpec)
				app.Spec.Image = "nginx:2"
			})
			plane.Until(t, d, func() error {
				if got := mainOf(d).Image; got != "nginx:2" {
					return fmt.Errorf("the image is %s: %v", got, listEvents(t, app))
				}
				return nil
			})
			m.Idle(t)
			plane.Stands(t, app, progressing...)
			plane.Read(t, d)
			pod := d.Spec.Template.Spec.DeepCopy()
			last := pod.Containers[len(pod.Containers)-1]
			if last.Name != "sidecar" || last.LivenessProbe == nil {
				t.Errorf("the sidecar has not stayed: %+v", pod.Containers)
			}
			pod.Containers = pod.Containers[:len(pod.Containers)-1]
			if c.is(pod) {
				t.Errorf("a part of it is left: %+v", pod)
			}
		})
	}
}

// TestSharedPartStays leaves a probe out of an App whose handler another manager states too, with all that the App states or with less. The probe stays,
// and is the other manager's.
func TestSharedPartStays(t *testing.T) {
	t.Parallel()
	withScheme := corev1.ProbeHandler{HTTPGet: httpHandler.HTTPGet.DeepCopy()}
	withScheme.HTTPGet.Scheme = corev1.URISchemeHTTPS
	for name, c := range map[string]struct{ ours, theirs corev1.ProbeHandler }{
		"same":          {tcpHandler, tcpHandler},
		"scheme-of-app": {withScheme, httpHandler},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkSharedProbe(t, name, probeFields(c.ours), probeFields(c.theirs))
		})
	}
}

func checkSharedProbe(t *testing.T, name string, ours, theirs *corev1.Probe) {
	t.Helper()
	ns, m := plane.Shared(t)
	app := newApp(ns, name)
	app.Spec.Probes.Liveness = ours
	d, _ := createInPlace(t, app)
	m.Idle(t)
	stated := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: d.Spec.Selector, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: name, LivenessProbe: theirs}},
		}}},
	}
	if err := plane.Client.Patch(t.Context(), stated, client.Apply, client.FieldOwner("kustomize")); err != nil { //nolint:staticcheck // The typed literal is what there is here.
		t.Fatal(err)
	}
	m.Idle(t)
	plane.Read(t, app)
	plane.Change(t, app, func() {
		app.Spec.Probes.Liveness = nil
		app.Spec.Image = "nginx:2"
	})
	awaitImage(t, d, "nginx:2")
	m.Idle(t)
	plane.Read(t, d)
	if probe := mainOf(d).LivenessProbe; probe == nil || probe.HTTPGet == nil && probe.TCPSocket == nil {
		t.Errorf("the probe is %+v", probe)
	}
}
