package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ReleaseSpec is how a change of the pods is released. A change of these fields alone replaces no pods.
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || !has(self.strategy) || self.strategy != 'Recreate'",message="needs a rolling update, because old and new pods run side by side; write \"strategy: RollingUpdate\", or remove canary",fieldPath=".canary"
type ReleaseSpec struct {
	// canary runs a change of the pods in a few new pods first, next to the pods of before and behind the same Service, in a
	// second Deployment with the name of the resource and "-canary". Promotion rolls the change out to all pods; until then no
	// pod of before is touched. The first pods, and changes that no pod is replaced for, are no canaries.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Canary *CanarySpec `json:"canary,omitempty"`

	// beforeRollout is a command, such as the migration of a database. A Job runs the command with the new image before the first
	// pods, and before each change of the pod template is rolled out. Until the command has succeeded, the present pods stay as they
	// are. Changes of the number of pods, of the objects around the pods and of followed ConfigMaps and Secrets, holds, rollbacks and
	// promotions run no command. Kubernetes may start the pod of a Job twice, so the command must be idempotent.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	BeforeRollout *BeforeRolloutSpec `json:"beforeRollout,omitempty"`
}

// BeforeRolloutSpec describes the command before a rollout. Its pod has the image, the variables, the volumes, the account, the security and
// the scheduling of the pods that the change describes, and no ports and probes.
type BeforeRolloutSpec struct {
	// command is run in place of the entrypoint of the image.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Command []string `json:"command,omitempty"`

	// args are the arguments of the command. Defaults to none.
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`

	// envs are further environment variables; a name may occur once. A variable takes precedence over the variable of the pods with
	// the same name.
	// +listType=map
	// +listMapKey=name
	// +optional
	Envs []corev1.EnvVar `json:"envs,omitempty"`

	// deadlineSeconds is the time that the command has, with all retries, before it counts as failed, in seconds. Defaults to 600.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DeadlineSeconds *int32 `json:"deadlineSeconds,omitempty"`

	// retries is how often a command that fails is started again before the release fails. Defaults to 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	Retries *int32 `json:"retries,omitempty"`
}

// CanarySpec describes a canary. {} is one pod that waits for its promotion by hand.
// +kubebuilder:validation:XValidation:rule="!has(self.promote) || self.promote != 'Auto' || has(self.after)",message="Auto needs a time; write \"after: 10m\" next to it, or \"promote: Manual\"",fieldPath=".promote"
// +kubebuilder:validation:XValidation:rule="!has(self.after) || (has(self.promote) && self.promote == 'Auto')",message="is valid only with automatic promotion; write \"promote: Auto\" next to it, or remove after",fieldPath=".after"
type CanarySpec struct {
	// pods is how many pods run the change before it is promoted: a number from 1, or a percentage from "1%" to "100%" of the
	// pods that the resource has, rounded up. A percentage counts when the canary starts. Defaults to 1.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number of at least 1, or a percentage from 1% to 100%; write \"pods: 1\""
	// +optional
	Pods *intstr.IntOrString `json:"pods,omitempty"`

	// promote is Manual, where the annotation app.huolala.cn/promote with the UID of the canary's Deployment promotes it, as
	// "kubectl happ promote" does, or Auto, where the canary is promoted once all its pods have been ready for the time in after.
	// Defaults to Manual.
	// +optional
	Promote CanaryPromotion `json:"promote,omitempty"`

	// after is for how long the pods of the canary must be ready before an automatic promotion, from 1s to 168h, like 10m or
	// 1h30m. Required with promote: Auto, and valid with it alone.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}h)?([0-9]{1,4}m)?([0-9]{1,6}s)?$') && self != '' && duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="must be a time from 1s to 168h, like 10m or 1h30m"
	// +optional
	After string `json:"after,omitempty"`
}

// CanaryPromotion says who promotes a canary.
//
// +kubebuilder:validation:Enum=Manual;Auto
type CanaryPromotion string

// The values of CanaryPromotion.
const (
	// PromoteManual waits for the annotation app.huolala.cn/promote.
	PromoteManual CanaryPromotion = "Manual"
	// PromoteAuto promotes a canary whose pods have been ready for a while.
	PromoteAuto CanaryPromotion = "Auto"
)

// CanarySuffix ends the name of the Deployment of a canary, after the name of the resource.
const CanarySuffix = "-canary"

// ReleaseStatus says which change is being released.
type ReleaseStatus struct {
	// canary is the canary that waits for its promotion. It is absent while all pods run one spec.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Canary *CanaryStatus `json:"canary,omitempty"`
}

// CanaryStatus is the state of a canary.
type CanaryStatus struct {
	// name is the name of the canary's Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`

	// uid is the UID of the canary's Deployment. The annotations app.huolala.cn/promote and app.huolala.cn/abort name the canary
	// by it. Another change of the pods makes a Deployment with another UID.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// image is the image of the main container.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// pods is the number of pods that the canary should have.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// ready is the number of its pods that are ready.
	// +optional
	Ready int32 `json:"ready,omitempty"`

	// since is when the canary started.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// promoteAt is when the canary is promoted if its pods stay ready. It is absent while they are not, and without automatic
	// promotion.
	// +optional
	PromoteAt *metav1.Time `json:"promoteAt,omitempty"`
}
