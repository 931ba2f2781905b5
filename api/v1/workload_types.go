package v1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkloadSpec is what every workload of this API shares: the pods to run and the ports to offer.
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.size == 'custom' || !has(self.resources) || (!has(self.resources.requests) && !has(self.resources.limits))",message="a named size and resources are mutually exclusive; remove one, or set size to custom",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || self.size != 'custom' || (has(self.resources) && (has(self.resources.requests) || has(self.resources.limits)))",message="custom requires resources; set requests or limits, or choose a named size",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.strategy) || self.strategy != 'Recreate'",message="is valid only with the strategy RollingUpdate; remove it or the strategy Recreate",fieldPath=".rollingUpdate"
// +kubebuilder:validation:XValidation:rule="(!has(self.maxSurge) && !has(self.maxUnavailable)) || !has(self.strategy) || self.strategy != 'Recreate'",message="maxSurge and maxUnavailable are valid only with the strategy RollingUpdate; remove them or the strategy Recreate",fieldPath=".strategy"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || (!has(self.maxSurge) && !has(self.maxUnavailable))",message="rollingUpdate is mutually exclusive with maxSurge and maxUnavailable; remove rollingUpdate, or the other fields",fieldPath=".rollingUpdate"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || ![self.maxSurge, self.maxUnavailable].all(n, type(n) == int ? n == 0 : n == '0%')",message="maxSurge and maxUnavailable must not both be 0; raise one",fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:rule="!has(self.dnsPolicy) || self.dnsPolicy != 'None' || (has(self.dnsConfig) && has(self.dnsConfig.nameservers) && size(self.dnsConfig.nameservers) > 0)",message="None requires dnsConfig.nameservers; add one, or choose another policy",fieldPath=".dnsPolicy"
type WorkloadSpec struct {
	// replicas is the number of pods that should run. 0 is allowed and stops the application without deleting anything.
	// Left out, a new workload gets 1 pod, and an existing workload keeps its number, such as the one that kubectl scale
	// or a removed autoscaler left. While a HorizontalPodAutoscaler targets the Deployment, its count is used and this field
	// is ignored.
	// +kubebuilder:validation:Minimum=0
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	Replicas *int32 `json:"replicas,omitempty"`

	// image is the container image to run, as "[registry/]repository[:tag][@digest]". Required. A change of it rolls
	// the pods over.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="must not contain white space; write an image as [registry/]repository[:tag][@digest]"
	// +kubebuilder:validation:XValidation:rule="self.matches('[[:space:]]') || self.matches('^(([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[[][a-fA-F0-9:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][a-zA-Z0-9]*([-+._][a-zA-Z][a-zA-Z0-9]*)*:[a-fA-F0-9]{32,})?$')",message="must be an image; write it as [registry/]repository[:tag][@digest], the repository in lower case"
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Image string `json:"image,omitempty"`

	// imagePullPolicy says when the kubelet pulls the image: Always, IfNotPresent or Never. Defaults to IfNotPresent,
	// for any tag.
	// +default="IfNotPresent"
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:imagePullPolicy"}
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	PodFields `json:",inline"`

	// ports are the ports that the Service offers and the container listens on. Each pair of port and protocol may
	// occur once, and so may each name. Without ports there is no Service.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="port names must be unique; rename the duplicate, or remove its name"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="each pair of port and protocol must be unique; remove the duplicate, or change its protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.nodePort) || self.exists_one(q, has(q.nodePort) && q.nodePort == p.nodePort && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="node ports must be unique for each protocol; change the duplicate, or remove it"
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:arrayFieldGroup:ports"}
	Ports []Port `json:"ports,omitempty"`

	// containerPorts are ports that the main container listens on in addition to ports, such as one for metrics: the Service
	// does not offer them, and no default probe connects to them. One with the number that a port leads to gives that container
	// port its name, and targetPort of ports can be the name of one. Each pair of containerPort and protocol may occur once, and
	// so may each name.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="names must be unique; rename the duplicate, or remove its name"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.containerPort == p.containerPort && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="each pair of containerPort and protocol must be unique; remove the duplicate, or change its protocol"
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ContainerPorts []ContainerPort `json:"containerPorts,omitempty"`

	// service says how the Service offers the ports.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:fieldGroup:service"}
	Service ServiceSpec `json:"service,omitzero"`

	// strategy is how pods are replaced when the pod template changes: RollingUpdate, a few at a time, or Recreate, all
	// old ones before the first new one. Defaults to RollingUpdate.
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:RollingUpdate","urn:alm:descriptor:com.tectonic.ui:select:Recreate"}
	Strategy appsv1.DeploymentStrategyType `json:"strategy,omitempty"`

	// rollingUpdate is how many pods a rolling update may add above replicas, and how many it may remove, at a time:
	// a number from 1, or a percentage of replicas from "1%" to "100%"; of a percentage the former is rounded up and the
	// latter down. It is short for maxSurge and maxUnavailable of one value, and excludes them. Defaults to "25%".
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]{0,5}|([1-9][0-9]?|100)%)$')",message="must be a number of at least 1, or a percentage from 1% to 100%"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	RollingUpdate *intstr.IntOrString `json:"rollingUpdate,omitempty"`

	// maxSurge is how many pods a rolling update may add above replicas at a time: a number from 0, or a percentage of replicas
	// from "0%" to "999%", rounded up. Defaults to "25%".
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(0|[1-9][0-9]{0,2})%$')",message="must be a number of at least 0, or a percentage like 25%"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many pods a rolling update may remove from replicas at a time: a number from 0, or a percentage of
	// replicas from "0%" to "100%", rounded down. maxSurge and maxUnavailable must not both be 0. Defaults to "25%".
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(0|[1-9][0-9]?|100)%$')",message="must be a number of at least 0, or a percentage from 0% to 100%"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long, in seconds, a new pod must be ready before it counts as available. Defaults to 0; for
	// a ModelBox, to 3.
	// +kubebuilder:validation:Minimum=0
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// revisionHistoryLimit is how many old ReplicaSets are kept to roll back to. Defaults to 10.
	// +kubebuilder:validation:Minimum=0
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how long, in seconds, a rollout may make no progress before it is reported as Stalled.
	// It must be above minReadySeconds. Defaults to 600.
	// +kubebuilder:validation:Minimum=1
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// probes say how the kubelet finds out whether the container has started, is ready and is alive. Without a readiness
	// probe, the operator adds a connection to the first TCP port; for a ModelBox, also one for liveness. Nothing is added
	// if there is no such port.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:fieldGroup:probes"}
	Probes Probes `json:"probes,omitzero"`

	// lifecycle are actions of the kubelet right after the container's start and right before its end. Defaults to none.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`

	// topologySpreadConstraints spread the pods over nodes, zones and other domains. One without a labelSelector counts
	// the pods of this workload. Defaults to an even spread over nodes and over zones wherever possible, which never
	// keeps a pod from being scheduled.
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// labels are further labels of every object that is made, though not of the pods. app.kubernetes.io/name, instance and
	// component take the place of the operator's; the component of a CloudManager's tier is refused. The operator's others are
	// refused, too: app.kubernetes.io/managed-by, and all of app.huolala.cn.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are annotations of every object that is made, though not of the pods. Keys with the prefix
	// app.huolala.cn/ are reserved for the operator.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Annotations map[string]string `json:"annotations,omitempty"`

	// workloadLabels are further labels of the Deployment alone, or of a database's StatefulSet. They take precedence over labels,
	// and the same are refused.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	WorkloadLabels map[string]string `json:"workloadLabels,omitempty"`

	// workloadAnnotations are annotations of the Deployment alone, or of a database's StatefulSet. They take precedence over
	// annotations.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	WorkloadAnnotations map[string]string `json:"workloadAnnotations,omitempty"`
}

// Size is the name of requests and limits.
type Size string

// The sizes.
const (
	SizeSmall  Size = "small"
	SizeMedium Size = "medium"
	SizeLarge  Size = "large"
	// SizeCustom stands for what the spec's resources say.
	SizeCustom Size = "custom"
)

// Named reports whether the size stands for requests and limits of its own.
func (s Size) Named() bool { return s != "" && s != SizeCustom }

// SecurityProfile is the name of what containers and pods may not do.
type SecurityProfile string

// SecurityProfileRestricted is the level restricted of the Pod Security Standards.
const SecurityProfileRestricted SecurityProfile = "restricted"

// ServiceName returns the name of the Service of a workload of a name.
func (s *WorkloadSpec) ServiceName(workload string) string {
	if s.Service.Name != "" {
		return s.Service.Name
	}
	return workload
}

// ServiceSpec says how a Service offers the ports of a workload.
// +kubebuilder:validation:XValidation:rule="!has(self.clusterIP) || !has(self.type) || self.type == 'ClusterIP'",message="clusterIP None is valid only with the type ClusterIP; remove one of them",fieldPath=".clusterIP"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || (has(self.type) && self.type == 'LoadBalancer')",message="is valid only with the type LoadBalancer; set that type, or remove it",fieldPath=".loadBalancerClass"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || size(self.loadBalancerSourceRanges) == 0 || (has(self.type) && self.type == 'LoadBalancer')",message="is valid only with the type LoadBalancer; set that type, or remove it",fieldPath=".loadBalancerSourceRanges"
// +kubebuilder:validation:XValidation:rule="!has(self.sessionAffinityConfig) || (has(self.sessionAffinity) && self.sessionAffinity == 'ClientIP')",message="is valid only with sessionAffinity ClientIP; set that, or remove it",fieldPath=".sessionAffinityConfig"
// +kubebuilder:validation:XValidation:rule="!has(self.ipFamilies) || size(self.ipFamilies) < 2 || (has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack')",message="two families require ipFamilyPolicy PreferDualStack or RequireDualStack; set one, or remove a family",fieldPath=".ipFamilies"
type ServiceSpec struct {
	// name of the Service, where clients know the workload by another name than its own. Under a new name the Service is
	// recreated; the operator removes the one of the former name once the new one has been there for a minute and the pods are
	// ready. Defaults to the name of the workload.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', start with a letter and not end with '-'"
	// +optional
	Name string `json:"name,omitempty"`

	// type is ClusterIP (inside the cluster), NodePort (also on a port of every node) or LoadBalancer (also by the load
	// balancer of the cluster's provider). Defaults to ClusterIP; for a ModelBox, to NodePort. It can be changed
	// at any time.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// clusterIP is None for a headless Service, whose name leads to the addresses of the pods. It can be set only until
	// the Service is made. Left out, the cluster gives the Service an address of its own.
	// +kubebuilder:validation:Enum=None
	// +optional
	ClusterIP string `json:"clusterIP,omitempty"`

	// labels are further labels of the Service alone; what finds a Service by its labels goes by them, such as a ServiceMonitor. They
	// take precedence over the labels of every object, and the same are refused.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are annotations of the Service alone; load balancers take their settings from them.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// loadBalancerClass names the implementation of a Service of type LoadBalancer. It cannot be changed while the type
	// is LoadBalancer. Defaults to the cluster's.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a name with a domain before a slash, like example.com/internal, or one without"
	// +optional
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// externalTrafficPolicy says where traffic from outside the cluster goes: to pods on any node (Cluster), or only to
	// those on the node that it arrives at, with the client's address kept (Local). For the types NodePort and
	// LoadBalancer; ignored for others. Defaults to Cluster.
	// +kubebuilder:validation:Enum=Cluster;Local
	// +optional
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// sessionAffinity is ClientIP to lead each client to one pod, or None. Defaults to None.
	// +kubebuilder:validation:Enum=ClientIP;None
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`

	// sessionAffinityConfig says in clientIP.timeoutSeconds how long, in seconds, a client keeps its pod after its last
	// connection: 1 to 86400. Only with sessionAffinity ClientIP. Defaults to 10800, which is three hours.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`

	// loadBalancerSourceRanges are the networks that a Service of type LoadBalancer answers, like 192.0.2.0/24, if the
	// cluster's load balancer can limit that. Defaults to all.
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:MaxLength=64
	// +listType=atomic
	// +optional
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`

	// publishNotReadyAddresses has the Service lead also to pods that are not ready. Defaults to false.
	// +optional
	PublishNotReadyAddresses bool `json:"publishNotReadyAddresses,omitempty"`

	// internalTrafficPolicy says where traffic from inside the cluster goes: to pods on any node (Cluster), or only to
	// those on the client's node (Local). Defaults to Cluster.
	// +kubebuilder:validation:Enum=Cluster;Local
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`

	// trafficDistribution says which pods are preferred: those in the client's zone (PreferSameZone, or PreferClose, its
	// former name) or on its node (PreferSameNode). Defaults to no preference.
	// +kubebuilder:validation:Enum=PreferClose;PreferSameZone;PreferSameNode
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`

	// ipFamilies are the families of the Service's addresses: IPv4, IPv6 or both, the main one first. That one can be set only
	// until the Service is made. Defaults to the cluster's.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	// +kubebuilder:validation:XValidation:rule="self.all(f, self.exists_one(g, g == f))",message="must be different; remove the duplicate"
	// +listType=atomic
	// +optional
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`

	// ipFamilyPolicy says whether the Service has addresses of one family (SingleStack), of both where the cluster has both
	// (PreferDualStack), or of both (RequireDualStack). Defaults to SingleStack.
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	// +optional
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
}

// Probes are the ways in which the kubelet looks after the main container.
type Probes struct {
	// liveness says when the container is restarted. Defaults to none; for a ModelBox, to a connection to the first TCP port
	// every 10 seconds, with a failureThreshold of 6.
	// +optional
	Liveness *corev1.Probe `json:"liveness,omitempty"`

	// readiness says when the Service leads to the pod. Defaults to a connection to the first TCP port every 5 seconds,
	// with a failureThreshold of 3.
	// +optional
	Readiness *corev1.Probe `json:"readiness,omitempty"`

	// startup says when the container has started; until then the others wait. Defaults to none; where a ModelBox states no
	// probe, to a connection to the first TCP port every second, for a day.
	// +optional
	Startup *corev1.Probe `json:"startup,omitempty"`

	// disabled leaves out the default probes if it is true: the container has the probes that are stated here, and no other. So a
	// container can have a liveness probe without a readiness probe. Defaults to false.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// Port is one port of a workload. Its JSON is that of a Service's port (core/v1 ServicePort).
type Port struct {
	// name of the port within the Service, and of the container port if it has at most 15 characters: lower-case letters,
	// digits and "-". Optional; where several ports are given, one without a name is called after its protocol and number,
	// like "tcp-8080".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	Name string `json:"name,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// port is the number that clients of the Service connect to, 1 to 65535. Required.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port,omitempty"`

	// targetPort is the port that the container listens on: a number from 1 to 65535, or the name of a container port, of
	// at most 15 characters. Defaults to port.
	// +kubebuilder:validation:Type=integer
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +optional
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// nodePort is the port on every node that leads to the Service, where the Service's type has one. Defaults to a
	// free port that the cluster picks from its range.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`

	// appProtocol is a hint for load balancers and meshes on the protocol of the port: an IANA service name such as
	// "http", or a name with a prefix such as "kubernetes.io/h2c".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a name like http, or one with a domain before a slash, like kubernetes.io/h2c"
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// ContainerPort is a port that the main container listens on. Its JSON is that of a container's port (core/v1 ContainerPort).
type ContainerPort struct {
	// name of the container port: at most 15 lower-case letters, digits and "-", with at least one letter. Optional.
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$')",message="must be lower-case letters, digits and single '-' between them, with at least one letter"
	// +optional
	Name string `json:"name,omitempty"`

	// containerPort is the number that the container listens on, 1 to 65535. Required.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	ContainerPort int32 `json:"containerPort,omitempty"`

	// protocol is TCP, UDP or SCTP. Defaults to TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}
