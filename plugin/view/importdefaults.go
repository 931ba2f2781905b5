package view

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// withDefaults returns a copy of a source with the defaults of the API server that an import looks at: objects of a file lack them.
func withDefaults(from *Source) *Source {
	full := *from
	full.Deployment = from.Deployment.DeepCopy()
	pod := &full.Deployment.Spec.Template.Spec
	pod.DNSPolicy = cmp.Or(pod.DNSPolicy, corev1.DNSClusterFirst)
	pod.ServiceAccountName = cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount)
	for i := range pod.Volumes {
		if v := &pod.Volumes[i].VolumeSource; *v == (corev1.VolumeSource{}) {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	for i := range pod.Containers {
		pod.Containers[i].ImagePullPolicy = cmp.Or(pod.Containers[i].ImagePullPolicy, defaultPullPolicy(pod.Containers[i].Image))
	}
	full.Services = make([]corev1.Service, len(from.Services))
	for i := range from.Services {
		s := from.Services[i].DeepCopy()
		s.Spec.Type = cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP)
		s.Spec.SessionAffinity = cmp.Or(s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
		s.Spec.ExternalTrafficPolicy = cmp.Or(s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
		for p := range s.Spec.Ports {
			s.Spec.Ports[p].Protocol = cmp.Or(s.Spec.Ports[p].Protocol, corev1.ProtocolTCP)
		}
		full.Services[i] = *s
	}
	full.Autoscalers = make([]autoscalingv2.HorizontalPodAutoscaler, len(from.Autoscalers))
	for i := range from.Autoscalers {
		scaler := from.Autoscalers[i].DeepCopy()
		if len(scaler.Spec.Metrics) == 0 {
			scaler.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			}}}
		}
		full.Autoscalers[i] = *scaler
	}
	return &full
}

// defaultPullPolicy returns the pull policy that the API server derives from an image.
func defaultPullPolicy(image string) corev1.PullPolicy {
	if tag, tagged, pinned := validation.ImageTag(image); tag == "latest" || image != "" && !tagged && !pinned {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// leaveDefaults leaves out of the App what makes no difference: defaults of the API server, and what the operator adds by itself, such as
// the probe and the spread of a Deployment that an App has left behind.
func (i *importing) leaveDefaults() {
	spec := &i.App.Spec.WorkloadSpec
	pod := corev1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers, Volumes: spec.Volumes}
	trimPod(&pod)
	trimProbe(spec.Probes.Liveness)
	trimProbe(spec.Probes.Readiness)
	trimProbe(spec.Probes.Startup)
	trimLifecycle(spec.Lifecycle)
	trimVariables(spec.Envs)
	for n := range spec.ContainerPorts {
		clearDefault(&spec.ContainerPorts[n].Protocol, corev1.ProtocolTCP)
	}
	for n := range spec.TopologySpreadConstraints {
		if sameSelector(spec.TopologySpreadConstraints[n].LabelSelector, i.selector) {
			spec.TopologySpreadConstraints[n].LabelSelector = nil // The operator states the selector.
		}
	}
	i.tryWithout(func(spec *appv1.AppSpec) { spec.Probes.Readiness = nil })
	i.tryWithout(func(spec *appv1.AppSpec) { spec.Probes.Disabled = false })
	i.tryWithout(func(spec *appv1.AppSpec) { spec.TopologySpreadConstraints = nil })
	for n := len(spec.ContainerPorts) - 1; n >= 0; n-- {
		i.tryWithout(func(spec *appv1.AppSpec) { spec.ContainerPorts = slices.Delete(spec.ContainerPorts, n, n+1) })
	}
}

// tryWithout changes the spec if the same pods and ports are built of it.
func (i *importing) tryWithout(change func(*appv1.AppSpec)) {
	less := i.App.DeepCopy()
	change(&less.Spec)
	before, ports := i.buildTemplate(i.App)
	after, portsAfter := i.buildTemplate(less)
	if before != nil && after != nil && reflect.DeepEqual(before, after) && reflect.DeepEqual(ports, portsAfter) {
		i.App = less
	}
}

// buildTemplate returns the pod template and the ports of the Service that are built of an App for the Deployment, nil if it is invalid.
func (i *importing) buildTemplate(app *appv1.App) (*corev1.PodTemplateSpec, []corev1.ServicePort) {
	w, errs := resource.App(app, resource.BuildOptions{
		Selector: i.selector, Unrecorded: true, Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve(app.Spec.Size)},
	})
	if len(errs) > 0 {
		return nil, nil
	}
	trimPod(&w.Template.Spec)
	return &w.Template, w.Ports
}

// trimPod leaves out of a pod what the API server sets by default.
func trimPod(pod *corev1.PodSpec) {
	clearDefault(&pod.RestartPolicy, corev1.RestartPolicyAlways)
	clearDefault(&pod.DNSPolicy, corev1.DNSClusterFirst)
	clearDefault(&pod.SchedulerName, corev1.DefaultSchedulerName)
	pod.DeprecatedServiceAccount = ""
	pod.TerminationGracePeriodSeconds = unlessDefault(pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	pod.EnableServiceLinks = unlessDefault(pod.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if s := pod.SecurityContext; s != nil && reflect.DeepEqual(*s, corev1.PodSecurityContext{}) {
		pod.SecurityContext = nil
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			trimContainer(&list[i])
		}
	}
	for i := range pod.Volumes {
		trimVolume(&pod.Volumes[i].VolumeSource)
	}
}

// clearDefault clears a value that is the default.
func clearDefault[T comparable](value *T, standard T) {
	if *value == standard {
		*value = *new(T)
	}
}

func trimContainer(c *corev1.Container) {
	clearDefault(&c.ImagePullPolicy, defaultPullPolicy(c.Image))
	clearDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	clearDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		clearDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	trimVariables(c.Env)
	trimProbe(c.LivenessProbe)
	trimProbe(c.ReadinessProbe)
	trimProbe(c.StartupProbe)
	trimLifecycle(c.Lifecycle)
}

func trimVariables(list []corev1.EnvVar) {
	for i := range list {
		if from := list[i].ValueFrom; from != nil {
			trimFieldRef(from.FieldRef)
		}
	}
}

func trimFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		clearDefault(&ref.APIVersion, "v1")
	}
}

func trimProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	clearDefault(&p.TimeoutSeconds, 1)
	clearDefault(&p.PeriodSeconds, 10)
	clearDefault(&p.SuccessThreshold, 1)
	clearDefault(&p.FailureThreshold, 3)
	trimRequest(p.HTTPGet)
	if p.GRPC != nil && ptr.Deref(p.GRPC.Service, "") == "" {
		p.GRPC.Service = nil
	}
}

func trimLifecycle(l *corev1.Lifecycle) {
	if l == nil {
		return
	}
	for _, handler := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
		if handler != nil {
			trimRequest(handler.HTTPGet)
		}
	}
}

func trimRequest(get *corev1.HTTPGetAction) {
	if get != nil {
		clearDefault(&get.Scheme, corev1.URISchemeHTTP)
		clearDefault(&get.Path, "/")
	}
}

func trimVolume(v *corev1.VolumeSource) {
	switch {
	case v.Secret != nil:
		v.Secret.DefaultMode = unlessDefault(v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.ConfigMap != nil:
		v.ConfigMap.DefaultMode = unlessDefault(v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		v.DownwardAPI.DefaultMode = unlessDefault(v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		trimItems(v.DownwardAPI.Items)
	case v.Image != nil:
		clearDefault(&v.Image.PullPolicy, defaultPullPolicy(v.Image.Reference))
	case v.HostPath != nil:
		v.HostPath.Type = unlessDefault(v.HostPath.Type, corev1.HostPathUnset)
	case v.Projected != nil:
		v.Projected.DefaultMode = unlessDefault(v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range v.Projected.Sources {
			source := &v.Projected.Sources[i]
			if source.DownwardAPI != nil {
				trimItems(source.DownwardAPI.Items)
			}
			if token := source.ServiceAccountToken; token != nil {
				token.ExpirationSeconds = unlessDefault(token.ExpirationSeconds, 60*60)
			}
		}
	}
}

func trimItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		trimFieldRef(items[i].FieldRef)
	}
}

// sameSelector reports whether a selector is made of labels alone, and of these.
func sameSelector(s *metav1.LabelSelector, labels map[string]string) bool {
	return s != nil && len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, labels)
}
