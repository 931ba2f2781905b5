package resource

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// podIdentity are the labels by which Services and tools find the pods of a workload.
var podIdentity = []string{
	appv1.LabelName, appv1.LabelInstance, appv1.LabelApp, appv1.LabelModelBox, appv1.LabelUnitedDeployment, appv1.LabelCloudManager,
	appv1.LabelCanary,
}

// withoutSelectors returns labels of a pod without those by which a selector or podIdentity finds the pod.
func withoutSelectors(labels, selector map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, selects := selector[key]
		return selects || slices.Contains(podIdentity, key)
	})
	return kept
}

// endingPod returns the spec of a pod that ends, by the pod spec of a workload: the container of that name, or else the first one, without
// what only serving pods have, and the sidecars.
func endingPod(template *corev1.PodSpec, container string) corev1.PodSpec {
	pod := template.DeepCopy()
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == container })
	pod.Containers = []corev1.Container{pod.Containers[max(at, 0)]}
	pod.InitContainers = sidecars(pod.InitContainers)
	main := &pod.Containers[0]
	main.Ports, main.LivenessProbe, main.ReadinessProbe, main.StartupProbe, main.Lifecycle = nil, nil, nil, nil, nil
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			list[i].ResizePolicy = nil // The API server rejects RestartContainer in a pod that is never restarted.
		}
	}
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.TopologySpreadConstraints = nil // These are about the pods that serve.
	return *pod
}

// overrideVariables returns variables without those of a name that further ones have, and the further ones.
func overrideVariables(vars, further []corev1.EnvVar) []corev1.EnvVar {
	kept := slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(further, func(f corev1.EnvVar) bool { return f.Name == v.Name })
	})
	return append(kept, further...)
}
