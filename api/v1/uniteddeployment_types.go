package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelUnitedDeployment names the UnitedDeployment whose template a pod was made of. It is in the selector of the Deployment and
// the Service, in addition to the Deployment's name in LabelPart, or in LabelName where an earlier release made the Deployment.
const LabelUnitedDeployment = "app.huolala.cn/uniteddeployment"

func init() { register(&UnitedDeployment{}, &UnitedDeploymentList{}) }

// UnitedDeploymentSpec says which Deployment is to have how many pods.
// +kubebuilder:validation:XValidation:rule="!has(self.template) || (size(self.deploymentName) <= 63 && self.deploymentName.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",fieldPath=".deploymentName",message="must be at most 63 lower-case letters, digits and '-', and start with a letter, if template is set: it is also the name of the container and of the Service"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(oldSelf.template) || self.deploymentName == oldSelf.deploymentName",fieldPath=".deploymentName",message="cannot be changed while template is set: the Deployment created from it would be left behind; create another UnitedDeployment"
type UnitedDeploymentSpec struct {
	// paused stops all writes to the child objects while it is true. The status stays live, and deletion works. Defaults to
	// false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// deploymentName is the name of the Deployment, in the same namespace. Required. It may not exist yet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Deployment: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:io.kubernetes:Deployment"}
	DeploymentName string `json:"deploymentName,omitempty"`

	// replicas is the number of pods that the Deployment is held at. 0 is allowed. Required: a default would scale a
	// Deployment to a number that nobody has asked for.
	// +kubebuilder:validation:Minimum=0
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	Replicas *int32 `json:"replicas,omitempty"`

	// template is the spec of the Deployment that the operator creates if none of that name exists. Its fields are those of
	// an App, without replicas. This resource owns the created Deployment. If the Deployment exists already, the operator
	// only scales it and does not use the template.
	// +kubebuilder:validation:XValidation:rule="!has(self.replicas)",fieldPath=".replicas",message="must not be set; set spec.replicas instead"
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Template *WorkloadSpec `json:"template,omitempty"`
}

// UnitedDeploymentStatus is what the Deployment's pods are doing.
type UnitedDeploymentStatus struct {
	WorkloadStatus `json:",inline"`
}

// UnitedDeployment holds the number of pods of a Deployment, by its scale subresource alone: nothing else of the Deployment
// is written. Deleting the UnitedDeployment leaves the Deployment running at its size, unless it was made of the template.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=hud,categories=app-operator
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`,description="The Deployment whose number of pods is held"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Ready pods out of those that the Deployment wants"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`,description="Pods that run the Deployment's current pod template"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="What the UnitedDeployment is doing, in one word"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since the UnitedDeployment was created"
// +kubebuilder:printcolumn:name="Selector",type=string,priority=1,JSONPath=`.status.selector`,description="The label selector of the pods"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is missing for the UnitedDeployment to be ready"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || (size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))",optionalOldSelf=true,message="metadata.name must be at most 63 lower-case letters, digits and '-', and start with a letter: it is also the value of a label"
// +operator-sdk:csv:customresourcedefinitions:displayName="UnitedDeployment",order=3,resources={{Deployment,v1},{Service,v1},{Pod,v1},{HorizontalPodAutoscaler,v2},{Event,v1}}
type UnitedDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is what all objects of Kubernetes have: name, namespace, labels and the like.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is which Deployment to hold, and at which number of pods.
	// +required
	Spec UnitedDeploymentSpec `json:"spec,omitzero"`

	// status is what runs, written by the operator. Until the operator has looked, its observedGeneration is -1.
	// +default={"observedGeneration": -1}
	// +optional
	Status UnitedDeploymentStatus `json:"status,omitzero"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
//
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnitedDeployment `json:"items"`
}

// CommonStatus returns the part of the status that all kinds share.
func (u *UnitedDeployment) CommonStatus() *CommonStatus { return &u.Status.CommonStatus }
