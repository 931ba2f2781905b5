package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppDefaultsName is the name of every AppDefaults: a namespace has at most one.
const AppDefaultsName = "default"

func init() { register(&AppDefaults{}, &AppDefaultsList{}) }

// AppDefaultsSpec has fields and sizes for the Apps and ModelBoxes of a platform team.
type AppDefaultsSpec struct {
	// defaults count as if each App and ModelBox stated them. The value of the App takes precedence, then the value of its
	// namespace, then the value of the namespace of the operator. Labels, annotations and the node selector are merged by key;
	// lists with names by name; all other fields are taken as a whole. An App that runs takes changed defaults with the next
	// change of its spec, with a new value of the annotation app.huolala.cn/refresh, or in a wave of the rollout. The defaults that one
	// App takes may have 4 KiB compressed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Defaults Defaults `json:"defaults,omitzero"`

	// whenStated has defaults for the fields inside httpRoute, ingress and podMonitor of each App and ModelBox that states the block. They
	// are merged, recorded and taken as defaults are: annotations and labels by key, all other fields as a whole.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	WhenStated WhenStated `json:"whenStated,omitzero"`

	// sizes are the requests and limits by the name that "size" of a resource selects. small, medium and large exist already,
	// and can have other amounts. "custom" cannot be defined.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(n) <= 63 && n != 'custom')",message="names must have at most 63 lower-case letters, digits and '-', with a letter or digit at both ends, and not be custom"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Sizes map[Size]SizeAmounts `json:"sizes,omitempty"`

	// rollout is how a change of the defaults and the sizes reaches the Apps that run. The AppDefaults of a namespace takes precedence over
	// the AppDefaults of the namespace of the operator if it states a rollout. Without any, the type is NextChange.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Rollout *DefaultsRollout `json:"rollout,omitempty"`
}

// SizeAmounts are requests and limits of a container.
// +kubebuilder:validation:XValidation:rule="has(self.requests) || has(self.limits)",message="requires requests or limits"
type SizeAmounts struct {
	// requests are the amounts that the scheduler reserves. A request must not be above its limit.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits are the amounts that a container can use. A limit without a request is also the request.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// AppDefaultsStatus is the status of AppDefaults.
type AppDefaultsStatus struct {
	// conditions are the present state. Valid is True when the spec is in force. RolledOut is True when each resource that the rollout is
	// about has the present defaults. Ready is True when the spec is in force and no wave is under way. Reconciling is True while a rollout in waves
	// goes on. Stalled is True while the spec is invalid and the last valid one counts, or while a resource of a wave has stalled.
	// +listType=map
	// +listMapKey=type
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation of the spec that this status is about.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// apps is the number of Apps and ModelBoxes that the AppDefaults count for.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Apps int32 `json:"apps,omitempty"`

	// current is the number of these resources that have the present defaults.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Current int32 `json:"current,omitempty"`

	// pending is the number of these resources that take the present defaults with their next change.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Pending int32 `json:"pending,omitempty"`

	// failed are resources that cannot take the present defaults, or have stalled since they took them in a wave; ten at most.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Failed []FailedDefaults `json:"failed,omitempty"`

	// lastValid is the last valid spec, compressed, or the spec in force if none was recorded. It is in force while the present spec is invalid.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	LastValid string `json:"lastValid,omitempty"`

	DefaultsRolloutStatus `json:",inline"`
}

// FailedDefaults is a resource that cannot take the present defaults, or has stalled with them.
type FailedDefaults struct {
	// kind is the kind of the resource.
	// +required
	Kind string `json:"kind,omitempty"`

	// namespace is the namespace of the resource.
	// +required
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the resource.
	// +required
	Name string `json:"name,omitempty"`

	// message is why the resource cannot take the defaults, or why it has stalled.
	// +optional
	Message string `json:"message,omitempty"`
}

// AppDefaults has the defaults of Apps and ModelBoxes, and the amounts of their sizes. In the namespace of the
// operator it counts for all namespaces that the operator serves, in another namespace for that one. A changed AppDefaults restarts
// nothing at once: an App takes it with its next change, or in a wave of the rollout.
//
// +genclient
// +resourceName=appdefaults
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=appdefaults,shortName=hdef,categories=app-operator
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`,description="Whether the AppDefaults are in force; if not, the last valid ones are"
// +kubebuilder:printcolumn:name="Apps",type=integer,JSONPath=`.status.apps`,description="Apps and ModelBoxes that the AppDefaults count for"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.current`,description="Apps and ModelBoxes that have the present defaults"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`,description="Apps and ModelBoxes that take the present defaults with their next change"
// +kubebuilder:printcolumn:name="RolledOut",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].status`,description="Whether all Apps and ModelBoxes of the rollout have the present defaults"
// +kubebuilder:printcolumn:name="Wave",type=integer,priority=1,JSONPath=`.status.wave`,description="Number of the latest wave of the present defaults"
// +kubebuilder:printcolumn:name="Skipped",type=integer,priority=1,JSONPath=`.status.skipped`,description="Apps and ModelBoxes that the rollout leaves out for now"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the AppDefaults were created"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong with the AppDefaults, or for whom they count"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="metadata.name must be default: a namespace has at most one AppDefaults"
// +operator-sdk:csv:customresourcedefinitions:displayName="App defaults",order=6,resources={{App,v1},{ModelBox,v1}}
type AppDefaults struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is what all objects of Kubernetes have: name, namespace, labels and the like.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec has the defaults and the sizes.
	// +optional
	Spec AppDefaultsSpec `json:"spec,omitzero"`

	// status has the resources that the AppDefaults count for, written by the operator. Until the operator has looked, its observedGeneration is -1.
	// +default={"observedGeneration": -1}
	// +optional
	Status AppDefaultsStatus `json:"status,omitzero"`
}

// AppDefaultsList is a list of AppDefaults.
//
// +kubebuilder:object:root=true
type AppDefaultsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppDefaults `json:"items"`
}
