package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HistoryStatus says which pods run, and which ran well before.
type HistoryStatus struct {
	// replicaSet is the ReplicaSet that all pods belong to, since the last rollout that was complete.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	ReplicaSet string `json:"replicaSet,omitempty"`

	// lastGood is the ReplicaSet that was last ready with the spec in force. The annotation app.huolala.cn/hold with the value
	// last-good goes back to it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	LastGood *GoodRevision `json:"lastGood,omitempty"`
}

// GoodRevision is a ReplicaSet whose pods were ready.
type GoodRevision struct {
	// replicaSet is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	ReplicaSet string `json:"replicaSet,omitempty"`

	// image is that of its main container.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`

	// since is when its pods were first seen to be ready.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
