package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CommonStatus is the part of a status that every kind has.
type CommonStatus struct {
	// conditions are the present state. Ready is True when every wanted pod runs the current spec and is available.
	// Reconciling is True while the operator or the cluster changes something to reach it. Stalled is True when a user has to
	// act, unless the cause ends by itself; the message has the remedy. The meaning is that of kstatus.
	// +listType=map
	// +listMapKey=type
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of. While it is behind, the status is that
	// of an earlier spec.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// pending is what setting spec.paused to false would change: how many objects wait and how many pods would be replaced, and
	// then the changes, a line each. It is computed once for each generation, and empty while nothing waits.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Pending []string `json:"pending,omitempty"`
}

// WorkloadStatus is the status of a kind that runs one Deployment.
type WorkloadStatus struct {
	CommonStatus `json:",inline"`

	// ready is the number of ready pods out of the wanted ones, like "2/2".
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Ready string `json:"ready,omitempty"`

	// replicas is the number of pods that exist, of the current spec and of earlier ones.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	Replicas int32 `json:"replicas,omitempty"`

	// updatedReplicas is the number of pods that run the current spec.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of pods that have been ready for at least minReadySeconds.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// unavailableReplicas is the number of pods that are still missing for the Deployment to be fully available.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`

	// selector selects the pods, in the form that kubectl's -l takes; autoscalers read it through the scale
	// subresource.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:label"}
	Selector string `json:"selector,omitempty"`

	// endpoint is where the Service answers, as addresses with spaces between them: inside the cluster
	// ("name.namespace.svc:80,443"), on every node for the type NodePort ("nodes:30010,30011"), and at each address of a load
	// balancer ("203.0.113.7:80,443"); empty without a Service.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:endpointList"}
	Endpoint string `json:"endpoint,omitempty"`

	// size is the named size in use, each resource as request/limit, like "small (cpu 100m/500m, memory 128Mi/256Mi)";
	// empty without one.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Size string `json:"size,omitempty"`

	// latestSize is set, in the same form, while the definition of the name differs from the size in use. The definition is
	// taken with the next change of the spec, when the annotation app.huolala.cn/refresh gets a new value, or in a wave of
	// AppDefaults with the rollout Waves.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	LatestSize string `json:"latestSize,omitempty"`

	// rendering is the number of the pod template's rendering in use: the way in which this operator turns a spec into
	// a pod template.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	Rendering int32 `json:"rendering,omitempty"`

	// latestRendering is set while this operator knows a newer rendering than the one in use. It is taken with the next
	// change of the spec, or when the annotation app.huolala.cn/refresh is set to a new value; never by itself.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	LatestRendering int32 `json:"latestRendering,omitempty"`
}
