package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelModelBox names the ModelBox that a pod belongs to. It is the selector of the ModelBox's Deployment and Service.
const LabelModelBox = "app.huolala.cn/modelbox"

func init() { register(&ModelBox{}, &ModelBoxList{}) }

// ModelBoxMinReadySeconds is the default of a ModelBox's minReadySeconds.
const ModelBoxMinReadySeconds int32 = 3

// ModelBoxSpec is what a ModelBox should run.
type ModelBoxSpec struct {
	// paused stops all writes to the child objects while it is true. The status stays live, and deletion works. Defaults to
	// false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// name is the main container's name. Defaults to the ModelBox's name. It is the former name of containerName: state one of
	// the two, or the same in both.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be lower-case letters, digits and '-', with a letter or digit at both ends"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Name string `json:"name,omitempty"`

	WorkloadSpec `json:",inline"`

	ServingSpec `json:",inline"`

	ReleaseSpec `json:",inline"`

	WithoutDefaultsSpec `json:",inline"`
}

// ModelBoxStatus is what a ModelBox's pods are doing.
type ModelBoxStatus struct {
	WorkloadStatus `json:",inline"`

	ServingStatus `json:",inline"`

	HistoryStatus `json:",inline"`

	ReleaseStatus `json:",inline"`

	DefaultsStatus `json:",inline"`
}

// ModelBox runs a container image as a Deployment and offers its ports as a Service, both with the ModelBox's name.
// Deleting the ModelBox deletes both.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=mbox,categories=all;app-operator
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Ready pods out of the wanted ones"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`,description="Pods that run the current spec"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="What the ModelBox is doing, in one word"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="The image of the spec"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the ModelBox was created"
// +kubebuilder:printcolumn:name="Applied",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`,description="Whether the spec is in force, and what is not as the spec says"
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.status.endpoint`,description="Where the Service answers inside the cluster"
// +kubebuilder:printcolumn:name="Hosts",type=string,priority=1,JSONPath=`.status.hosts`,description="The host names of the Ingress and the HTTPRoute"
// +kubebuilder:printcolumn:name="Selector",type=string,priority=1,JSONPath=`.status.selector`,description="The label selector of the pods"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is missing for the ModelBox to be ready"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="metadata.name must be at most 63 lower-case letters, digits and '-', and start with a letter: it is also the name of the Service"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.name) || !has(self.spec.containerName) || self.spec.name == self.spec.containerName || self.spec.name == self.metadata.name",message="name and containerName are the same field; remove spec.name",fieldPath=".spec.containerName"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.canary) || size(self.metadata.name) <= 56",message="is too long for a canary, whose Deployment has the name and -canary in 63 characters; use a name of at most 56 characters, or remove canary",fieldPath=".spec.canary"
// +operator-sdk:csv:customresourcedefinitions:displayName="ModelBox",order=2,resources={{Deployment,v1},{Service,v1},{Pod,v1},{HorizontalPodAutoscaler,v2},{PodDisruptionBudget,v1},{Ingress,v1},{NetworkPolicy,v1},{ServiceAccount,v1},{Job,v1},{EndpointSlice,v1},{Event,v1}}
type ModelBox struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is what all objects of Kubernetes have: name, namespace, labels and the like.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what should run.
	// +required
	Spec ModelBoxSpec `json:"spec,omitzero"`

	// status is what runs, written by the operator. Until the operator has looked, its observedGeneration is -1.
	// +default={"observedGeneration": -1}
	// +optional
	Status ModelBoxStatus `json:"status,omitzero"`
}

// ModelBoxList is a list of ModelBoxes.
//
// +kubebuilder:object:root=true
type ModelBoxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelBox `json:"items"`
}

// CommonStatus returns the part of the status that all kinds share.
func (a *ModelBox) CommonStatus() *CommonStatus { return &a.Status.CommonStatus }

// History returns the part of the status that the kinds share whose Deployment can be held at an earlier ReplicaSet.
func (a *ModelBox) History() *HistoryStatus { return &a.Status.HistoryStatus }
