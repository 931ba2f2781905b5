package resource

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// buildPod returns the ports of the Service and the spec of each pod.
func buildPod(p workloadMeta, spec *appv1.WorkloadSpec, selector map[string]string, in BuildInputs) ([]corev1.ServicePort, corev1.PodSpec) {
	spec = spec.DeepCopy()
	servicePorts, offered, containerPorts := portsOf(spec, in)
	main := mainContainer(p, spec, containerPorts, in)
	main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = mainProbes(&spec.Probes, offered, p.restarts, in)
	pod := corev1.PodSpec{
		InitContainers:                spec.InitContainers,
		Containers:                    append([]corev1.Container{main}, spec.Containers...),
		Volumes:                       spec.Volumes,
		ServiceAccountName:            cmp.Or(in.ServiceAccount, spec.ServiceAccountName),
		AutomountServiceAccountToken:  spec.AutomountServiceAccountToken,
		ImagePullSecrets:              spec.ImagePullSecrets,
		SecurityContext:               spec.PodSecurityContext,
		NodeSelector:                  spec.NodeSelector,
		Tolerations:                   spec.Tolerations,
		Affinity:                      spec.Affinity,
		TopologySpreadConstraints:     spreadConstraints(spec.TopologySpreadConstraints, selector, in),
		TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		PriorityClassName:             spec.PriorityClassName,
		RuntimeClassName:              spec.RuntimeClassName,
		DNSPolicy:                     spec.DNSPolicy,
		DNSConfig:                     spec.DNSConfig,
		HostAliases:                   spec.HostAliases,
	}
	return servicePorts, pod
}

// servingContainers returns the containers of a pod that run while it serves.
func servingContainers(pod *corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.Containers, sidecarContainers(pod.InitContainers))
}

// sidecarContainers returns the init containers that keep running next to the main container.
func sidecarContainers(init []corev1.Container) []corev1.Container {
	return slices.DeleteFunc(slices.Clone(init), func(c corev1.Container) bool {
		return ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
	})
}

// mainContainer returns the container with the spec's image, without its probes.
func mainContainer(p workloadMeta, spec *appv1.WorkloadSpec, ports []corev1.ContainerPort, in BuildInputs) corev1.Container {
	return corev1.Container{
		Name:            p.container,
		Image:           spec.Image,
		ImagePullPolicy: pullPolicy(spec),
		Command:         spec.Command,
		Args:            spec.Args,
		Ports:           ports,
		Env:             spec.Envs,
		EnvFrom:         spec.EnvFrom,
		Resources:       mainResources(spec, in),
		VolumeMounts:    spec.VolumeMounts,
		Lifecycle:       spec.Lifecycle,
		SecurityContext: spec.SecurityContext,
	}
}

func pullPolicy(spec *appv1.WorkloadSpec) corev1.PullPolicy {
	if spec.ImagePullPolicy == "" {
		return corev1.PullIfNotPresent
	}
	return spec.ImagePullPolicy
}

// mainResources returns the main container's resources: the amounts of its named size, otherwise the resources of the spec.
func mainResources(spec *appv1.WorkloadSpec, in BuildInputs) corev1.ResourceRequirements {
	if in.Size.Name != "" {
		return storedResources(corev1.ResourceRequirements{Requests: in.Size.Requests, Limits: in.Size.Limits})
	}
	return storedResources(spec.Resources)
}

// spreadConstraints returns the topology spread constraints. A constraint without a selector gets the workload's own. By default, pods are
// spread over nodes and zones if possible.
func spreadConstraints(constraints []corev1.TopologySpreadConstraint, selector map[string]string, in BuildInputs) []corev1.TopologySpreadConstraint {
	if len(constraints) == 0 && in.Rendering != RenderingTutorial {
		for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
			constraints = append(constraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			})
		}
	}
	for i := range constraints {
		if constraints[i].LabelSelector == nil {
			constraints[i].LabelSelector = &metav1.LabelSelector{MatchLabels: selector}
		}
	}
	return constraints
}

// storedResources returns requests and limits as the API server stores them: empty lists are nil, and quantities are rounded up to a
// thousandth.
func storedResources(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: resourceList(r.Limits), Requests: resourceList(r.Requests), Claims: r.Claims}
}

func resourceList(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return nil
	}
	rounded := maps.Clone(list)
	for name, q := range rounded {
		q = q.DeepCopy()
		q.RoundUp(resource.Milli)
		rounded[name] = q
	}
	return rounded
}
