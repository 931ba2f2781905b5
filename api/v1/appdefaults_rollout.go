package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutType is the way in which a changed AppDefaults reaches the Apps that run.
//
// +kubebuilder:validation:Enum=NextChange;Waves
type RolloutType string

// The values of RolloutType.
const (
	// RolloutNextChange has each App take changed defaults with its next change.
	RolloutNextChange RolloutType = "NextChange"
	// RolloutWaves has the operator roll changed defaults out, a few Apps at a time.
	RolloutWaves RolloutType = "Waves"
)

// The defaults of a rollout in waves, and its longest soak.
const (
	DefaultWaveSize = "10%"
	DefaultWaveSoak = 5 * time.Minute
	MaxWaveSoak     = 168 * time.Hour
)

// DefaultsRollout is how a changed AppDefaults reaches the Apps that run.
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (has(self.type) && self.type == 'Waves')",message="is valid only with waves; write \"type: Waves\" next to it, or remove size",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.soak) || (has(self.type) && self.type == 'Waves')",message="is valid only with waves; write \"type: Waves\" next to it, or remove soak",fieldPath=".soak"
type DefaultsRollout struct {
	// type is NextChange, where an App takes changed defaults with the next change of its spec or with a new value of the annotation
	// app.huolala.cn/refresh, or Waves, where the operator has a few Apps take them at a time. Defaults to NextChange.
	// +optional
	Type RolloutType `json:"type,omitempty"`

	// size is how many Apps a wave has, and so how many a rollout makes not ready at most: a number from 1, or a percentage from "1%" to
	// "100%" of the Apps that the rollout is about, rounded down, and at least one. Defaults to 10%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",message="must be a number of at least 1, or a percentage from 1% to 100%; write \"size: 10%\""
	// +optional
	Size *intstr.IntOrString `json:"size,omitempty"`

	// soak is for how long all Apps of a wave must have been ready before the next wave begins, from 0s to 168h, like 5m or 1h30m. Defaults
	// to 5m.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}h)?([0-9]{1,4}m)?([0-9]{1,6}s)?$') && self != '' && duration(self) <= duration('168h')",message="must be a time from 0s to 168h, like 5m or 1h30m"
	// +optional
	Soak string `json:"soak,omitempty"`
}

// IsWaves reports whether changed defaults are rolled out in waves. A nil rollout is none.
func (r *DefaultsRollout) IsWaves() bool { return r != nil && r.Type == RolloutWaves }

// WaveSize returns how many of a number of Apps a wave has, at least one. The rollout must be valid.
func (r *DefaultsRollout) WaveSize(apps int) int {
	size := intstr.FromString(DefaultWaveSize)
	if r.Size != nil {
		size = *r.Size
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&size, apps, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}

// WaveSoak returns for how long the Apps of a wave must have been ready. The rollout must be valid.
func (r *DefaultsRollout) WaveSoak() time.Duration {
	if soak, err := time.ParseDuration(r.Soak); err == nil {
		return soak
	}
	return DefaultWaveSoak
}

// DefaultsRolloutStatus is the status of AppDefaults about a rollout in waves.
type DefaultsRolloutStatus struct {
	// skipped is the number of resources that do not have the present defaults and that a rollout in waves leaves out for now: they are
	// in a rollout of their own, paused or held, have gone back from a change of their own or from the repair by a wave, have a canary or a command before the rollout,
	// keep the pods of before an adoption, or have a record on their Deployment that another tool has written.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Skipped int32 `json:"skipped,omitempty"`

	// wave is the number of the latest wave; 0 before the first. The numbers go on when the defaults change.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	Wave int32 `json:"wave,omitempty"`

	// soakedWave is the number of the latest wave whose soak has ended; 0 before the first.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	SoakedWave int32 `json:"soakedWave,omitempty"`

	// soakedSeconds is the soak in seconds by which soakedWave has ended. A longer soak that is stated later counts for later waves.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +operator-sdk:csv:customresourcedefinitions:type=status,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	SoakedSeconds int64 `json:"soakedSeconds,omitempty"`
}

// WaveInUse is the status of a resource about the wave in which it took its defaults.
type WaveInUse struct {
	// wave is when the resource took its defaults in a wave; absent if it took them with a change of its own.
	// +optional
	Wave *metav1.Time `json:"wave,omitempty"`

	// wasReady is true once the resource was ready with the defaults that it took in a wave.
	// +optional
	WasReady bool `json:"wasReady,omitempty"`

	// readySeconds is the longest time in seconds for which the resource was ready with the defaults that it took in a wave, until it lost its
	// readiness at readyUntil. Both are absent before.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadySeconds int64 `json:"readySeconds,omitempty"`

	// readyUntil is the end of readySeconds.
	// +optional
	ReadyUntil *metav1.Time `json:"readyUntil,omitempty"`
}
