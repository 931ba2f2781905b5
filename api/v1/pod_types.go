package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodFields are the fields of pods that serve and of pods that end: the main container without its image, and the pod around the container. The
// rules about several of the fields are rules of the struct that has them inline.
type PodFields struct {
	// command replaces the image's entry point. It is not run in a shell. Defaults to the image's own.
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entry point, and replace the image's own. $(NAME) is replaced by the value of the
	// environment variable NAME.
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Args []string `json:"args,omitempty"`

	// envs are the environment variables of the container, in this order; a name may occur once. They take precedence
	// over envFrom.
	// +listType=map
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Envs []corev1.EnvVar `json:"envs,omitempty"`

	// envFrom fills the environment from whole ConfigMaps and Secrets of the same namespace. Of equal names the last
	// one counts.
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are the container's requests and limits for cpu, memory and other resources. A request must not be
	// above its limit; a limit without a request is also the request. Defaults to none.
	// +kubebuilder:validation:XValidation:rule="!has(self.claims) || size(self.claims) == 0",message="claims are not supported; remove them",fieldPath=".claims"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('cpu' in self.requests) || !('cpu' in self.limits) || [self.requests['cpu'], self.limits['cpu']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['cpu'])).compareTo(quantity(string(self.limits['cpu']))) <= 0",message="the cpu request must not be above the cpu limit; lower requests.cpu or raise limits.cpu"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('memory' in self.requests) || !('memory' in self.limits) || [self.requests['memory'], self.limits['memory']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['memory'])).compareTo(quantity(string(self.limits['memory']))) <= 0",message="the memory request must not be above the memory limit; lower requests.memory or raise limits.memory"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('ephemeral-storage' in self.requests) || !('ephemeral-storage' in self.limits) || [self.requests['ephemeral-storage'], self.limits['ephemeral-storage']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['ephemeral-storage'])).compareTo(quantity(string(self.limits['ephemeral-storage']))) <= 0",message="the ephemeral-storage request must not be above the limit; lower requests.ephemeral-storage or raise limits.ephemeral-storage"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:resourceRequirements"}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// containerName is the main container's name, for kubectl logs -c and for what goes by it, such as a service mesh. A change
	// rolls the pods over. Defaults to the name of the workload.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	ContainerName string `json:"containerName,omitempty"`

	// size is a name for the container's requests and limits, where resources does not state them: small (cpu 100m/500m,
	// memory 128Mi/256Mi), medium (250m/1, 512Mi/1Gi), large (1/2, 2Gi/4Gi), each as request/limit, or another name that
	// AppDefaults define; they can also define these three. status.size shows what is in use. A changed definition is
	// taken with the next change of the spec. custom stands for what resources says, and needs it. A named size and
	// resources exclude each other.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a size: lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Size Size `json:"size,omitempty"`

	// securityContext are the privileges of the main container, such as its user, capabilities and root file system.
	// Defaults to the cluster's.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// securityProfile is restricted to give all containers of the pods, and the pods, what Pod Security's level restricted
	// (https://kubernetes.io/docs/concepts/security/pod-security-standards/) demands: no root user, no privilege escalation, no
	// capabilities, and the seccomp profile RuntimeDefault. What securityContext, podSecurityContext and the containers' own
	// securityContext say takes precedence. A change rolls the pods over. Left out, nothing is set.
	// +kubebuilder:validation:Enum=restricted
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:restricted"}
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`

	// volumeMounts are where the main container sees volumes; each names one of volumes.
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// volumes are the pod's volumes, for volumeMounts here and in containers and initContainers.
	// +listType=map
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// initContainers run one after the other before the main container starts, in this order. One with restartPolicy
	// Always is a sidecar: it keeps running next to the main container. Names must be unique among all containers.
	// +listType=map
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// containers run next to the main container, in this order. They share its network, and nothing else unless they say
	// so: neither its environment nor its resources. Names must be unique among all containers.
	// +listType=map
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Containers []corev1.Container `json:"containers,omitempty"`

	// serviceAccountName is the ServiceAccount that the pods run as. It must exist. Defaults to that of the namespace,
	// "default".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:io.kubernetes:ServiceAccount"}
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// automountServiceAccountToken says whether the pods see a token for the Kubernetes API. Defaults to what the
	// ServiceAccount says.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	AutomountServiceAccountToken *bool `json:"automountServiceAccountToken,omitempty"`

	// imagePullSecrets are the Secrets with the credentials for pulling images. Defaults to the Secrets of the ServiceAccount.
	// +listType=map
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// podSecurityContext are the privileges of all containers of a pod, such as user, group and seccomp profile, and the
	// owner of its volumes. Defaults to the cluster's.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// nodeSelector limits the pods to nodes with all of these labels.
	// +mapType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the pods run on nodes with these taints.
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity draws the pods to nodes and to other pods, or keeps them apart.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// terminationGracePeriodSeconds is how long, in seconds, the containers of a pod have to stop before the kubelet
	// kills them. Defaults to 30.
	// +kubebuilder:validation:Minimum=0
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// priorityClassName is the PriorityClass of the pods. It must exist. Defaults to the cluster's.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass that runs the pods. It must exist. Defaults to the node's own runtime.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// dnsPolicy says where the pods' name resolution comes from: ClusterFirst, ClusterFirstWithHostNet, Default or None;
	// the last needs dnsConfig. Defaults to ClusterFirst.
	// +kubebuilder:validation:Enum=ClusterFirst;ClusterFirstWithHostNet;Default;None
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`

	// dnsConfig adds name servers, search domains and options to those of dnsPolicy.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`

	// hostAliases are further lines of the pods' hosts file.
	// +listType=map
	// +listMapKey=ip
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`

	// podLabels are further labels of the pods. A change rolls the pods over. app.kubernetes.io/name, instance and component take
	// the place of the operator's. Its others are refused: app.kubernetes.io/managed-by, and all of app.huolala.cn.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// podAnnotations are annotations of the pods. A change rolls the pods over. Keys with the prefix
	// app.huolala.cn/ are reserved for the operator.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// podTemplatePatch is a strategic merge patch
	// (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/) for the pod template,
	// for everything that no other field here covers. The operator applies it last, and it takes precedence, except for the
	// labels that select the pods, the main container's name and the operator's annotations. An item {$patch: replace}
	// empties a list, such as the default topologySpreadConstraints; null does too, but client-side kubectl apply
	// drops it.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodTemplatePatch *runtime.RawExtension `json:"podTemplatePatch,omitempty"`
}
