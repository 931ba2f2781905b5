package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	rules "huolala.cn/app-operator/api/v1/validation"
)

// applyServerDefaults states the API server's defaults within lists that server-side apply treats as atomic: omitted defaults
// would be permanent drift. It also states fields that the API server derives from a field of the operator, which would otherwise
// stay when that field is removed or changed.
func applyServerDefaults(pod *corev1.PodSpec) {
	// The API server fills in the deprecated name of the field, and then prefers its value. A patch may set it.
	if pod.ServiceAccountName == "" {
		pod.ServiceAccountName = pod.DeprecatedServiceAccount
	}
	pod.DeprecatedServiceAccount = pod.ServiceAccountName
	for i := range pod.InitContainers {
		applyContainerDefaults(&pod.InitContainers[i], pod.HostNetwork)
	}
	for i := range pod.Containers {
		applyContainerDefaults(&pod.Containers[i], pod.HostNetwork)
	}
	for i := range pod.Volumes {
		applyVolumeDefaults(&pod.Volumes[i])
	}
}

func applyContainerDefaults(c *corev1.Container, hostNetwork bool) {
	c.Resources = storedResources(c.Resources)
	applyPullPolicyDefault(&c.ImagePullPolicy, c.Image)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && probe.GRPC != nil && probe.GRPC.Service == nil {
			probe.GRPC.Service = ptr.To("") // The field has no omitempty: null would be applied, and defaulted.
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			applyFieldRefDefaults(from.FieldRef)
			if file := from.FileKeyRef; file != nil && file.Optional == nil {
				file.Optional = ptr.To(false)
			}
		}
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
		if hostNetwork && c.Ports[i].HostPort == 0 {
			c.Ports[i].HostPort = c.Ports[i].ContainerPort
		}
	}
}

func applyVolumeDefaults(v *corev1.Volume) {
	if v.DownwardAPI != nil {
		applyItemDefaults(v.DownwardAPI.Items)
	}
	if v.Image != nil {
		applyPullPolicyDefault(&v.Image.PullPolicy, v.Image.Reference)
	}
	if v.Projected == nil {
		return
	}
	if len(v.Projected.Sources) == 0 {
		v.Projected.Sources = nil // The API server returns null, as the field has no omitempty.
	}
	for i := range v.Projected.Sources {
		source := &v.Projected.Sources[i]
		if source.DownwardAPI != nil {
			applyItemDefaults(source.DownwardAPI.Items)
		}
		if token := source.ServiceAccountToken; token != nil && token.ExpirationSeconds == nil {
			token.ExpirationSeconds = ptr.To[int64](60 * 60)
		}
	}
}

func applyItemDefaults(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		applyFieldRefDefaults(items[i].FieldRef)
	}
}

func applyFieldRefDefaults(ref *corev1.ObjectFieldSelector) {
	if ref != nil && ref.APIVersion == "" {
		ref.APIVersion = "v1"
	}
}

// applyPullPolicyDefault states the pull policy that the API server derives from an image: Always for the tag latest. See
// https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting.
func applyPullPolicyDefault(policy *corev1.PullPolicy, image string) {
	if *policy != "" {
		return
	}
	*policy = corev1.PullIfNotPresent
	tag, tagged, pinned := rules.ImageTag(image)
	if tag == "latest" || image != "" && !tagged && !pinned {
		*policy = corev1.PullAlways
	}
}
