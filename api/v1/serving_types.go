package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServingSpec has the objects around the pods of a workload: how the pods are reached, scaled, protected and observed. Each stated block
// makes an object; a block that is left out makes none, and costs no request.
// +kubebuilder:validation:XValidation:rule="!has(self.ingress) || (has(self.ports) && size(self.ports) > 0)",message="requires ports, because it leads to the Service; add a port, or remove ingress",fieldPath=".ingress"
// +kubebuilder:validation:XValidation:rule="!has(self.httpRoute) || (has(self.ports) && size(self.ports) > 0)",message="requires ports, because it leads to the Service; add a port, or remove httpRoute",fieldPath=".httpRoute"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceAccount) || !has(self.serviceAccountName) || size(self.serviceAccountName) == 0",message="serviceAccount and serviceAccountName are mutually exclusive; remove one",fieldPath=".serviceAccount"
// +kubebuilder:validation:XValidation:rule="!has(self.rollback) || self.rollback != 'OnStall' || !has(self.revisionHistoryLimit) || self.revisionHistoryLimit > 0",message="OnStall needs old ReplicaSets; set revisionHistoryLimit to at least 1, or remove rollback",fieldPath=".rollback"
type ServingSpec struct {
	// serviceAccount makes a ServiceAccount with the name of the resource for the pods to run as, in place of
	// serviceAccountName. {} is enough. To add or remove it rolls the pods over.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ServiceAccount *ServiceAccountSpec `json:"serviceAccount,omitempty"`

	// ingress makes an Ingress that leads requests from outside the cluster to the Service.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Ingress *IngressSpec `json:"ingress,omitempty"`

	// httpRoute makes an HTTPRoute of the Gateway API that leads requests from a Gateway to the Service.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	HTTPRoute *HTTPRouteSpec `json:"httpRoute,omitempty"`

	// autoscaling makes a HorizontalPodAutoscaler, which decides the number of pods in place of replicas. replicas: 0 stops
	// the application nevertheless.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`

	// disruptionBudget makes a PodDisruptionBudget, which limits how many pods a drain of nodes evicts at a time. {} stands
	// for one pod at a time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	DisruptionBudget *DisruptionBudgetSpec `json:"disruptionBudget,omitempty"`

	// networkPolicy makes a NetworkPolicy for the pods. Whether it is enforced depends on the network plug-in of the
	// cluster.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// podMonitor makes a PodMonitor of the Prometheus operator, by which Prometheus scrapes each pod.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodMonitor *PodMonitorSpec `json:"podMonitor,omitempty"`

	// configRollout is OnChange to replace the pods when the content of a ConfigMap that they use changes, or of a Secret, if the
	// operator follows Secrets. Defaults to Never. Changing this field replaces no pods.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Never","urn:alm:descriptor:com.tectonic.ui:select:OnChange"}
	ConfigRollout ConfigRollout `json:"configRollout,omitempty"`

	// rollback says what happens when a rollout of a changed spec makes no progress for progressDeadlineSeconds: OnStall goes back to
	// the ReplicaSet in status.lastGood, until you change the spec or set the annotation app.huolala.cn/refresh to a new value.
	// Never leaves the pods as they are. Defaults to Never. An earlier image may not work with a database that a release has
	// migrated.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Never","urn:alm:descriptor:com.tectonic.ui:select:OnStall"}
	Rollback Rollback `json:"rollback,omitempty"`
}

// Rollback says whether a rollout that makes no progress is undone.
//
// +kubebuilder:validation:Enum=Never;OnStall
type Rollback string

// The values of Rollback.
const (
	// RollbackNever leaves the pods as they are.
	RollbackNever Rollback = "Never"
	// RollbackOnStall goes back to the last ReplicaSet that was ready.
	RollbackOnStall Rollback = "OnStall"
)

// ServiceAccountSpec describes the ServiceAccount of the pods.
type ServiceAccountSpec struct {
	// annotations are annotations of the ServiceAccount alone; cloud providers take its role from them.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// automountToken says whether the pods see a token for the Kubernetes API, where automountServiceAccountToken does not
	// say so. Defaults to false.
	// +optional
	AutomountToken bool `json:"automountToken,omitempty"`
}

// IngressSpec describes the Ingress.
type IngressSpec struct {
	// className is the IngressClass, which chooses the controller. Defaults to the default class of the cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	ClassName *string `json:"className,omitempty"`

	// rules are the hosts, each with its paths.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=host
	// +required
	Rules []IngressRule `json:"rules,omitempty"`

	// pathType says how the paths are compared: Prefix, Exact or ImplementationSpecific. Defaults to Prefix.
	// +kubebuilder:validation:Enum=Prefix;Exact;ImplementationSpecific
	// +optional
	PathType networkingv1.PathType `json:"pathType,omitempty"`

	// tls is the certificate for all hosts. Defaults to none.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations are annotations of the Ingress alone; controllers take their settings from them.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// port is the name or the number of one of ports. Defaults to the first TCP port.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the number or the name of one of spec.ports"
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`
}

// Hostname is a DNS name like shop.example.com, or *.example.com for all names one level below.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.matches('^[0-9]+([.][0-9]+){3}$')",message="must be a DNS name like shop.example.com or *.example.com, without scheme, port and path"
type Hostname string

// HTTPPath is the beginning, or the whole, of the path of a request.
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must begin with /"
type HTTPPath string

// IngressRule is one host of an Ingress.
type IngressRule struct {
	// host is a DNS name like shop.example.com, or *.example.com for all names one level below.
	// +required
	Host Hostname `json:"host,omitempty"`

	// paths are the paths that lead to the Service. Each must begin with "/". Defaults to "/".
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Paths []HTTPPath `json:"paths,omitempty"`
}

// IngressTLS is the certificate of an Ingress.
type IngressTLS struct {
	// secretName is the Secret with the certificate and its key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +required
	SecretName string `json:"secretName,omitempty"`
}

// HTTPRouteSpec describes the HTTPRoute.
type HTTPRouteSpec struct {
	// parentRefs are the Gateways or ListenerSets that the route is attached to. The owner of a Gateway decides which
	// namespaces it accepts routes from. Required, unless the AppDefaults that count have them.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	ParentRefs []ParentRef `json:"parentRefs,omitempty"`

	// hostnames are the DNS names, like shop.example.com or *.example.com. Defaults to the names of the listeners.
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Hostnames []Hostname `json:"hostnames,omitempty"`

	// paths are the paths that lead to the Service. Each must begin with "/". Defaults to "/".
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +optional
	Paths []HTTPPath `json:"paths,omitempty"`

	// pathType says how the paths are compared: PathPrefix or Exact. Defaults to PathPrefix.
	// +kubebuilder:validation:Enum=PathPrefix;Exact
	// +optional
	PathType string `json:"pathType,omitempty"`

	// port is the name or the number of one of ports. Defaults to the first TCP port.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the number or the name of one of spec.ports"
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`

	// annotations are annotations of the HTTPRoute alone.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ParentRef is a Gateway, or a ListenerSet, that an HTTPRoute is attached to.
type ParentRef struct {
	// kind is Gateway or ListenerSet. Defaults to Gateway.
	// +kubebuilder:validation:Enum=Gateway;ListenerSet
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace defaults to that of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is that of the Gateway or ListenerSet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// sectionName is one of the listeners. Defaults to all that accept the route.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a listener: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	SectionName string `json:"sectionName,omitempty"`

	// port is that of the listeners. Defaults to all that accept the route.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// AutoscalingSpec describes the HorizontalPodAutoscaler. Without a target and metrics, it aims at 80 percent of the cpu request.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",message="must not be below minReplicas; raise it, or lower minReplicas",fieldPath=".maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || size(self.metrics) == 0 || (!has(self.targetCPUUtilizationPercentage) && !has(self.targetMemoryUtilizationPercentage))",message="metrics and the two targets are mutually exclusive; remove one",fieldPath=".metrics"
type AutoscalingSpec struct {
	// minReplicas is the smallest number of pods. Defaults to 1.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the largest number of pods.
	// +kubebuilder:validation:Minimum=1
	// +required
	MaxReplicas int32 `json:"maxReplicas,omitempty"`

	// targetCPUUtilizationPercentage is the cpu that the main containers should use on average, as a percentage of the
	// request. Defaults to 80 if neither it nor targetMemoryUtilizationPercentage nor metrics is set.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the memory that the main containers should use on average, as a percentage of
	// the request. Defaults to none.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`

	// metrics are those of a HorizontalPodAutoscaler (autoscaling/v2), in place of the two targets.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`

	// behavior is that of a HorizontalPodAutoscaler (autoscaling/v2): how fast it scales.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// DisruptionBudgetSpec describes the PodDisruptionBudget.
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || !has(self.maxUnavailable)",message="minAvailable and maxUnavailable are mutually exclusive; remove one"
type DisruptionBudgetSpec struct {
	// minAvailable is how many pods must stay available: a number, or a percentage of all below 100%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,2}%$')",message="must be a number, or a percentage from 0% to 99%: with 100% no pod could be evicted, and no node drained"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is how many pods may be unavailable: a number from 1, or a percentage of all from 1%. Defaults to 1 if
	// minAvailable is not set.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number of at least 1, or a percentage from 1% to 100%: with 0 no pod could be evicted, and no node drained"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// unhealthyPodEvictionPolicy says when pods that are not ready can be evicted: AlwaysAllow, or IfHealthyBudget, only
	// while enough others are available. Defaults to AlwaysAllow, so that a crash loop does not block a drain.
	// +kubebuilder:validation:Enum=IfHealthyBudget;AlwaysAllow
	// +optional
	UnhealthyPodEvictionPolicy policyv1.UnhealthyPodEvictionPolicyType `json:"unhealthyPodEvictionPolicy,omitempty"`
}

// NetworkPolicySpec are the rules of the NetworkPolicy. A direction that is set is restricted to its rules, and an empty list
// allows nothing; a direction that is not set is not restricted.
// +kubebuilder:validation:XValidation:rule="has(self.ingress) || has(self.egress)",message="requires ingress or egress; an empty list allows nothing in that direction"
type NetworkPolicySpec struct {
	// ingress are the rules for what reaches the pods, as in a NetworkPolicy. [] allows nothing.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress,omitzero"`

	// egress are the rules for what the pods reach, as in a NetworkPolicy. [] allows nothing. Pods that resolve names need
	// port 53.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitzero"`
}

// PodMonitorSpec describes the PodMonitor.
type PodMonitorSpec struct {
	// port is the name or the number of a port of a container. Defaults to the first TCP port.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the number or the name of a port of a container"
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Port *intstr.IntOrString `json:"port,omitempty"`

	// path is where the metrics are. Defaults to /metrics.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must begin with /"
	// +optional
	Path string `json:"path,omitempty"`

	// interval is how often Prometheus scrapes, like 30s. Defaults to that of Prometheus.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?$') && self != ''",message="must be a duration of Prometheus, like 30s or 1m30s"
	// +optional
	Interval string `json:"interval,omitempty"`

	// labels are labels of the PodMonitor alone; a Prometheus selects PodMonitors by them.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// ServingStatus is the status of what stands around the pods of a workload.
type ServingStatus struct {
	// hosts are the host names of ingress and httpRoute, with commas between them; empty without them.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Hosts string `json:"hosts,omitempty"`

	// config are the ConfigMaps and Secrets whose content the pods have, while spec.configRollout is OnChange.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Config []ConfigObject `json:"config,omitempty"`
}
