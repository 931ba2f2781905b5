package v1

import networkingv1 "k8s.io/api/networking/v1"

// WhenStated has defaults for the fields inside a block of an App or ModelBox. They count only for a resource that states the block, itself or
// by defaults, and make no block.
type WhenStated struct {
	// httpRoute has defaults for a resource that states httpRoute. {} is enough to state it.
	// +optional
	HTTPRoute *HTTPRouteDefaults `json:"httpRoute,omitempty"`

	// ingress has defaults for a resource that states ingress.
	// +optional
	Ingress *IngressDefaults `json:"ingress,omitempty"`

	// podMonitor has defaults for a resource that states podMonitor. {} is enough to state it.
	// +optional
	PodMonitor *PodMonitorDefaults `json:"podMonitor,omitempty"`
}

// HTTPRouteDefaults are fields of httpRoute. A field means the same as the field of httpRoute with this name.
type HTTPRouteDefaults struct {
	// parentRefs are the Gateways or ListenerSets that a route is attached to. They count only for an httpRoute without parentRefs.
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	ParentRefs []ParentRef `json:"parentRefs,omitempty"`

	// pathType is the way in which paths are compared: PathPrefix or Exact.
	// +kubebuilder:validation:Enum=PathPrefix;Exact
	// +optional
	PathType string `json:"pathType,omitempty"`

	// annotations are annotations of the HTTPRoute alone. They are merged with the annotations of httpRoute by key.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// IngressDefaults are fields of ingress. A field means the same as the field of ingress with this name.
type IngressDefaults struct {
	// className is the IngressClass, which chooses the controller.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
	// +optional
	ClassName *string `json:"className,omitempty"`

	// pathType is the way in which paths are compared: Prefix, Exact or ImplementationSpecific.
	// +kubebuilder:validation:Enum=Prefix;Exact;ImplementationSpecific
	// +optional
	PathType networkingv1.PathType `json:"pathType,omitempty"`

	// tls is the certificate for all hosts.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations are annotations of the Ingress alone; controllers take their settings from them. They are merged with the annotations of
	// ingress by key.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PodMonitorDefaults are fields of podMonitor. A field means the same as the field of podMonitor with this name.
type PodMonitorDefaults struct {
	// path is where the metrics are.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must begin with /"
	// +optional
	Path string `json:"path,omitempty"`

	// interval is how often Prometheus scrapes, like 30s.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?$') && self != ''",message="must be a duration of Prometheus, like 30s or 1m30s"
	// +optional
	Interval string `json:"interval,omitempty"`

	// labels are labels of the PodMonitor alone; a Prometheus selects PodMonitors by them. They are merged with the labels of podMonitor
	// by key.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}
