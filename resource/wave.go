package resource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Wave records that a workload took its defaults in a wave of a rollout of AppDefaults.
type Wave struct {
	// Number is the number of the wave, from 1 on.
	Number int32 `json:"number"`
	// At is when the defaults were taken, in seconds.
	At metav1.Time `json:"at"`
	// Repairs is true if the resource had stalled before the wave: the defaults are not the cause of its failure.
	Repairs bool `json:"repairs,omitempty"`
}

// maxWave is the maximum number of a wave.
const maxWave = 1 << 30

// IsZero reports whether there is no wave.
func (w Wave) IsZero() bool { return w.Number == 0 && w.At.IsZero() && !w.Repairs }

// checkWave returns an error for a record that no wave makes.
func (w Wave) checkWave() error {
	if !w.IsZero() && (w.Number < 1 || w.Number > maxWave || w.At.IsZero()) {
		return fmt.Errorf("unreadable inputs: a wave has a number from 1 to %d, and a time", maxWave)
	}
	return nil
}

// HasPresentDefaults reports whether a workload that was built with the inputs has the defaults and the size that today's inputs have. spec is without
// defaults.
func (in *BuildInputs) HasPresentDefaults(spec Spec, today *BuildInputs) bool {
	return !in.Kept && in.Size.Equal(today.Size) && DefaultsCurrent(spec, in.Defaults, today.Defaults)
}

// TakeDefaults returns inputs with the defaults and the size of today's inputs, in a wave. All other inputs stay.
func (in BuildInputs) TakeDefaults(today *BuildInputs, wave Wave) BuildInputs {
	in.Defaults, in.Size, in.ServiceAccount, in.Wave = today.Defaults, today.Size, today.ServiceAccount, wave
	return in
}

// WithPresentDefaults returns inputs with the present defaults and the size that a spec without defaults takes, and with the account of a
// resource of a name.
func (in BuildInputs) WithPresentDefaults(present *PresentDefaults, spec Spec, name string) BuildInputs {
	in.Defaults = TakeDefaults(present, spec)
	with := spec.WithDefaults(in.Defaults)
	in.Size, in.ServiceAccount = present.Sizes.Resolve(with.Workload().Size), AccountName(with.Serving(), name)
	return in
}

// DefaultsDigest returns a short text that differs between inputs with other defaults, or with another size. It does not depend on the version of Go.
func (in *BuildInputs) DefaultsDigest() string {
	var content []byte
	if taken, err := in.Defaults.decodeRecord(); err == nil {
		content = canonicalJSON(taken)
	}
	content = bytes.Join([][]byte{content, canonicalJSON(&in.Size)}, []byte{0})
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:10])
}
