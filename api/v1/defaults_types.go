package v1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Defaults are fields of Apps and ModelBoxes. A field means the same as the field of an App with this name.
// +kubebuilder:validation:XValidation:rule="!has(self.size) || !has(self.resources) || (!has(self.resources.requests) && !has(self.resources.limits))",message="size and resources are mutually exclusive; remove one",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.strategy) || self.strategy != 'Recreate'",message="is valid only with the strategy RollingUpdate; remove it or the strategy Recreate",fieldPath=".rollingUpdate"
// +kubebuilder:validation:XValidation:rule="(!has(self.maxSurge) && !has(self.maxUnavailable)) || !has(self.strategy) || self.strategy != 'Recreate'",message="maxSurge and maxUnavailable are valid only with the strategy RollingUpdate; remove them or the strategy Recreate",fieldPath=".strategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || (!has(self.maxSurge) && !has(self.maxUnavailable))",message="rollingUpdate is mutually exclusive with maxSurge and maxUnavailable; remove rollingUpdate, or the other fields",fieldPath=".rollingUpdate"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || ![self.maxSurge, self.maxUnavailable].all(n, type(n) == int ? n == 0 : n == '0%')",message="maxSurge and maxUnavailable must not both be 0; raise one",fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:rule="!has(self.dnsPolicy) || self.dnsPolicy != 'None' || (has(self.dnsConfig) && has(self.dnsConfig.nameservers) && size(self.dnsConfig.nameservers) > 0)",message="None requires dnsConfig.nameservers; add one, or choose another policy",fieldPath=".dnsPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.rollback) || self.rollback != 'OnStall' || !has(self.revisionHistoryLimit) || self.revisionHistoryLimit > 0",message="OnStall needs old ReplicaSets; set revisionHistoryLimit to at least 1, or remove rollback",fieldPath=".rollback"
type Defaults struct {
	// labels are further labels of every object that is made, though not of the pods. They are merged with the labels of the App
	// by key.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are annotations of every object that is made, though not of the pods. They are merged with the annotations of the App by
	// key.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// workloadLabels are further labels of the Deployment alone. They are merged with the entries of the App by key.
	// +optional
	WorkloadLabels map[string]string `json:"workloadLabels,omitempty"`

	// workloadAnnotations are annotations of the Deployment alone. They are merged with the entries of the App by key.
	// +optional
	WorkloadAnnotations map[string]string `json:"workloadAnnotations,omitempty"`

	// podLabels are further labels of the pods. They are merged with the entries of the App by key.
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// podAnnotations are annotations of the pods. They are merged with the entries of the App by key.
	// +optional
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// size is the name of requests and limits for an App that states neither size nor resources.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self != 'custom'",message="must be the name of a size, and not custom, which means the resources of one App"
	// +optional
	Size Size `json:"size,omitempty"`

	// resources are the requests and limits of the main container for an App that states neither size nor resources.
	// +kubebuilder:validation:XValidation:rule="!has(self.claims) || size(self.claims) == 0",message="claims are not supported; remove them",fieldPath=".claims"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('cpu' in self.requests) || !('cpu' in self.limits) || [self.requests['cpu'], self.limits['cpu']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['cpu'])).compareTo(quantity(string(self.limits['cpu']))) <= 0",message="the cpu request must not be above the cpu limit; lower requests.cpu or raise limits.cpu"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('memory' in self.requests) || !('memory' in self.limits) || [self.requests['memory'], self.limits['memory']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['memory'])).compareTo(quantity(string(self.limits['memory']))) <= 0",message="the memory request must not be above the memory limit; lower requests.memory or raise limits.memory"
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('ephemeral-storage' in self.requests) || !('ephemeral-storage' in self.limits) || [self.requests['ephemeral-storage'], self.limits['ephemeral-storage']].exists(q, !string(q).matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$')) || quantity(string(self.requests['ephemeral-storage'])).compareTo(quantity(string(self.limits['ephemeral-storage']))) <= 0",message="the ephemeral-storage request must not be above the limit; lower requests.ephemeral-storage or raise limits.ephemeral-storage"
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// containerName is the name of the main container.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	ContainerName string `json:"containerName,omitempty"`

	// containerPorts are ports that the main container listens on, and that the Service does not offer.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="names must be unique; rename the duplicate, or remove its name"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.containerPort == p.containerPort && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="each pair of containerPort and protocol must be unique; remove the duplicate, or change its protocol"
	// +listType=atomic
	// +optional
	ContainerPorts []ContainerPort `json:"containerPorts,omitempty"`

	// envs are environment variables of the main container. They come before the variables of the App; a variable of the App with the same
	// name takes their place.
	// +listType=map
	// +listMapKey=name
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`

	// envFrom fills the environment from whole ConfigMaps and Secrets of the namespace of the App.
	// +listType=atomic
	// +optional
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// service describes how the Service offers the ports. Its name must be left out.
	// +kubebuilder:validation:XValidation:rule="!has(self.name)",message="is no default, because each App has a Service of its own; remove it",fieldPath=".name"
	// +optional
	Service ServiceSpec `json:"service,omitzero"`

	// strategy is how pods are replaced: RollingUpdate or Recreate. strategy and the next three fields count only for an App
	// that states none of the four.
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +optional
	Strategy appsv1.DeploymentStrategyType `json:"strategy,omitempty"`

	// rollingUpdate is how many pods a rolling update may add, and how many it may remove, at a time.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]{0,5}|([1-9][0-9]?|100)%)$')",message="must be a number of at least 1, or a percentage from 1% to 100%"
	// +optional
	RollingUpdate *intstr.IntOrString `json:"rollingUpdate,omitempty"`

	// maxSurge is how many pods a rolling update may add at a time.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(0|[1-9][0-9]{0,2})%$')",message="must be a number of at least 0, or a percentage like 25%"
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many pods a rolling update may remove at a time.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(0|[1-9][0-9]?|100)%$')",message="must be a number of at least 0, or a percentage from 0% to 100%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long, in seconds, a new pod must be ready before it counts as available.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// revisionHistoryLimit is how many old ReplicaSets are kept.
	// +kubebuilder:validation:Minimum=0
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how long, in seconds, a rollout may make no progress before it is reported as Stalled.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// probes describe how the kubelet finds out whether the main container has started, is ready and is alive.
	// +optional
	Probes Probes `json:"probes,omitzero"`

	// lifecycle are actions of the kubelet right after the main container's start and right before its end.
	// +optional
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`

	// securityContext are the privileges of the main container.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// securityProfile is restricted to give the pods what Pod Security's level restricted demands.
	// +kubebuilder:validation:Enum=restricted
	// +optional
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`

	// volumeMounts are where the main container sees volumes. A mount of the App with the same mountPath takes its place.
	// +listType=map
	// +listMapKey=mountPath
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// volumes are volumes of the pods. A volume of the App with the same name takes its place.
	// +listType=map
	// +listMapKey=name
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// initContainers run before the main container. They come before the containers of the App; a container of the App with the same name takes
	// their place.
	// +listType=map
	// +listMapKey=name
	// +optional
	InitContainers []corev1.Container `json:"initContainers,omitempty"`

	// containers run next to the main container. They come before the containers of the App; a container of the App with the same name takes their
	// place.
	// +listType=map
	// +listMapKey=name
	// +optional
	Containers []corev1.Container `json:"containers,omitempty"`

	// automountServiceAccountToken is whether the pods see a token for the Kubernetes API.
	// +optional
	AutomountServiceAccountToken *bool `json:"automountServiceAccountToken,omitempty"`

	// imagePullSecrets are the Secrets with the credentials for pulling images, in the namespace of the App. The Secrets that the
	// App states are added.
	// +listType=map
	// +listMapKey=name
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// podSecurityContext are the privileges of all containers of a pod.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// nodeSelector limits the pods to nodes with all of these labels. It is merged with the selector of the App by key.
	// +mapType=atomic
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the pods run on nodes with these taints.
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity draws the pods to nodes and to other pods, or keeps them apart.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread the pods over nodes, zones and other domains.
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// terminationGracePeriodSeconds is how long, in seconds, the containers of a pod have to stop.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// priorityClassName is the PriorityClass of the pods. It must exist.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the RuntimeClass that runs the pods. It must exist.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// dnsPolicy is where the pods' name resolution comes from. dnsPolicy and dnsConfig count only for an App that states
	// neither.
	// +kubebuilder:validation:Enum=ClusterFirst;ClusterFirstWithHostNet;Default;None
	// +optional
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`

	// dnsConfig adds name servers, search domains and options.
	// +optional
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`

	// hostAliases are further lines of the pods' hosts file.
	// +listType=map
	// +listMapKey=ip
	// +optional
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`

	// serviceAccount makes a ServiceAccount for each App that states neither serviceAccount nor serviceAccountName.
	// +optional
	ServiceAccount *ServiceAccountSpec `json:"serviceAccount,omitempty"`

	// autoscaling makes a HorizontalPodAutoscaler.
	// +optional
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`

	// disruptionBudget makes a PodDisruptionBudget. {} means one pod at a time.
	// +optional
	DisruptionBudget *DisruptionBudgetSpec `json:"disruptionBudget,omitempty"`

	// networkPolicy makes a NetworkPolicy for the pods.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// podMonitor makes a PodMonitor of the Prometheus operator.
	// +optional
	PodMonitor *PodMonitorSpec `json:"podMonitor,omitempty"`

	// configRollout is OnChange to replace the pods when the content of a ConfigMap that they use changes.
	// +optional
	ConfigRollout ConfigRollout `json:"configRollout,omitempty"`

	// rollback is OnStall to go back to the last good ReplicaSet when a rollout makes no progress.
	// +optional
	Rollback Rollback `json:"rollback,omitempty"`
}

// WithoutDefaultsSpec has the defaults that a resource does not take. A change of the list alone replaces no pods, unless it changes the pod template.
type WithoutDefaultsSpec struct {
	// withoutDefaults are the fields of AppDefaults that do not count for this resource, such as disruptionBudget. httpRoute, ingress and
	// podMonitor are also the blocks of whenStated. To name a
	// field that the pods have from the defaults replaces the pods.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=set
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	WithoutDefaults []string `json:"withoutDefaults,omitempty"`
}

// DefaultsStatus is the status of a resource about its defaults.
type DefaultsStatus struct {
	// defaults is there while an AppDefaults counts for the resource, or counted when its pods were built.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Defaults *DefaultsInUse `json:"defaults,omitempty"`
}

// DefaultsInUse reports whether a resource has the present defaults.
type DefaultsInUse struct {
	// current is true if the present AppDefaults change nothing of the resource. If it is false, the resource takes them with the
	// next change of its spec, or with a new value of the annotation app.huolala.cn/refresh.
	// +required
	Current bool `json:"current"`

	// invalid is why the resource cannot take the present defaults; empty if it can.
	// +optional
	Invalid string `json:"invalid,omitempty"`

	// digest identifies the defaults that the pods were built with, empty for none. Other clients can edit the record of these
	// defaults, which is on the workload object; the operator compares the two.
	// +optional
	Digest string `json:"digest,omitempty"`

	WaveInUse `json:",inline"`
}
