package v1

// ConfigRollout says whether pods are replaced when the content that they use of ConfigMaps and Secrets changes.
//
// +kubebuilder:validation:Enum=Never;OnChange
type ConfigRollout string

// The values of ConfigRollout.
const (
	// ConfigRolloutNever leaves the pods alone.
	ConfigRolloutNever ConfigRollout = "Never"
	// ConfigRolloutOnChange replaces the pods when the content changes.
	ConfigRolloutOnChange ConfigRollout = "OnChange"
)

// ConfigObject is a ConfigMap or Secret whose content the pods have.
type ConfigObject struct {
	// kind is ConfigMap or Secret.
	// +required
	Kind string `json:"kind,omitempty"`

	// name is the object's.
	// +required
	Name string `json:"name,omitempty"`

	// resourceVersion is the version of the object that was read last and had this content.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}
