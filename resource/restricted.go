package resource

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// restrictTemplate sets the fields of a pod template that Pod Security's level restricted requires and that the template does not state.
// Without the profile, it changes nothing.
func restrictTemplate(template *corev1.PodTemplateSpec, profile appv1.SecurityProfile) {
	if profile != appv1.SecurityProfileRestricted {
		return
	}
	pod := &template.Spec
	windows := pod.OS != nil && pod.OS.Name == corev1.Windows
	security := &corev1.PodSecurityContext{}
	if pod.SecurityContext != nil {
		security = pod.SecurityContext.DeepCopy()
	}
	containers := []*corev1.Container{}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			containers = append(containers, &list[i])
		}
	}
	if security.RunAsNonRoot == nil && !isRoot(security.RunAsUser) {
		asRoot := func(c *corev1.Container) bool {
			return c.SecurityContext != nil && c.SecurityContext.RunAsNonRoot == nil && isRoot(c.SecurityContext.RunAsUser)
		}
		if slices.ContainsFunc(containers, asRoot) {
			// With runAsNonRoot of the pod, the kubelet would not start a container that runs as root.
			for _, c := range containers {
				if s := securityOf(c); s.RunAsNonRoot == nil && !isRoot(s.RunAsUser) {
					s.RunAsNonRoot = ptr.To(true)
				}
			}
		} else {
			security.RunAsNonRoot = ptr.To(true)
		}
	}
	if _, annotated := template.Annotations[corev1.SeccompPodAnnotationKey]; security.SeccompProfile == nil && !annotated && !windows {
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	pod.SecurityContext = security
	for _, c := range containers {
		if !windows { // Kubernetes rejects these fields for Windows.
			withoutPrivileges(securityOf(c))
		}
	}
}

// withoutPrivileges drops all capabilities and forbids privilege escalation, unless the container states these fields.
func withoutPrivileges(s *corev1.SecurityContext) {
	if ptr.Deref(s.Privileged, false) {
		return // A privileged container has every capability.
	}
	if s.Capabilities == nil {
		s.Capabilities = &corev1.Capabilities{}
	}
	if len(s.Capabilities.Drop) == 0 {
		s.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
	// Kubernetes rejects CAP_SYS_ADMIN together with allowPrivilegeEscalation: false.
	escalates := slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") ||
		slices.Contains(s.Capabilities.Add, "SYS_ADMIN")
	if s.AllowPrivilegeEscalation == nil && !escalates {
		s.AllowPrivilegeEscalation = ptr.To(false)
	}
}

// securityOf returns the security context of a container for modification, and creates it if needed.
func securityOf(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

func isRoot(user *int64) bool { return user != nil && *user == 0 }
