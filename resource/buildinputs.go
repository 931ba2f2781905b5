package resource

import (
	"encoding/json"
	"fmt"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/api/v1/bounds"
)

// A rendering is a version of the rules that map a spec to a pod template. A release that changes any template adds a rendering
// with a higher number and keeps the earlier renderings, so that an upgrade of the operator never restarts a pod.
const (
	// RenderingTutorial is the template of the tutorials' operators, whose Deployments are taken over as they are.
	RenderingTutorial int32 = 0
	// RenderingNamedPorts has the labels of the identity, the default topology spread and the default probes. It names container
	// ports after the Service ports, and keeps the default command of an identity tier running.
	RenderingNamedPorts int32 = 2
	// RenderingLatest is the rendering of a new workload.
	RenderingLatest = RenderingNamedPorts
)

// Renderings returns the renderings that this release can build, the latest one first.
func Renderings() []int32 { return []int32{RenderingNamedPorts, RenderingTutorial} }

// BuildInputs holds everything that shapes a pod template apart from the spec. The workload object records it as an annotation. A new
// field needs omitempty or omitzero: otherwise DecodeInputs rejects earlier records.
type BuildInputs struct {
	// Rendering is the number of the rendering.
	Rendering int32 `json:"rendering"`
	// Refresh is the last value of the refresh annotation that the operator has acted on.
	Refresh string `json:"refresh,omitempty"`
	// Size is the named size of the spec, with its amounts.
	Size ResolvedSize `json:"size,omitzero"`
	// Defaults records the defaults that the spec has taken.
	Defaults DefaultsRecord `json:"defaults,omitempty"`
	// Config records the content of ConfigMaps and Secrets that the pods use.
	Config ConfigInputs `json:"config,omitzero"`
	// ServiceAccount is the account that the operator creates for the pods, empty if it creates none. ChooseInputs takes it from
	// the current spec and ignores the recorded value.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Kept is true if the operator does not build the pod template: the template of an adopted Deployment stays until the spec
	// changes.
	Kept bool `json:"kept,omitempty"`
	// Wave is the wave in which the defaults were taken, the zero value if they were taken with a change of the resource. It shapes nothing.
	Wave Wave `json:"wave,omitzero"`
	// Job is the name of the latest Job before a rollout when the pods took the spec, empty for none, and JobAt is the time of its creation. They shape
	// nothing. The Job may be about another spec, which was left before its rollout. JobCause is the cause of the rollout that waited for the Job (see
	// Rollout), empty for a Job about another spec, and in the records of earlier releases.
	Job      string      `json:"job,omitempty"`
	JobAt    metav1.Time `json:"jobAt,omitzero"`
	JobCause string      `json:"jobCause,omitempty"`
}

// SameTemplate reports whether two inputs make the same pod template of one spec, for the same value of the refresh annotation.
func (in *BuildInputs) SameTemplate(other *BuildInputs) bool {
	return in.Rendering == other.Rendering && in.Refresh == other.Refresh && in.Kept == other.Kept && in.Size.Equal(other.Size) && in.Defaults.Equal(other.Defaults) &&
		in.Config.Sum == other.Config.Sum && in.ServiceAccount == other.ServiceAccount
}

// Encode returns the JSON of the inputs, the value of the annotation.
func (in BuildInputs) Encode() string {
	// A struct of numbers, strings and quantities always has a JSON form.
	data, _ := json.Marshal(in)
	return string(data)
}

// maxInputs is the maximum length in bytes of recorded inputs: the limit for all annotations of an object, as the value of the
// refresh annotation may have any length.
const maxInputs = apivalidation.TotalAnnotationSizeLimitB

// plainInputs has the inputs with nothing but a rendering, by their records. Most workloads have such a record, and each reconcile decodes it several times.
var plainInputs = func() map[string]BuildInputs {
	plain := map[string]BuildInputs{}
	for _, rendering := range Renderings() {
		in := BuildInputs{Rendering: rendering}
		plain[in.Encode()] = in
	}
	return plain
}()

// DecodeInputs reads recorded inputs. It returns an error unless the record is exactly the output of Encode: "{}" would decode as
// rendering 0, and the record of a later release may have more fields.
func DecodeInputs(recorded string) (BuildInputs, error) {
	if plain, ok := plainInputs[recorded]; ok {
		return plain, nil
	}
	var in BuildInputs
	if err := bounds.Decode([]byte(recorded), &in, maxInputs, "inputs"); err != nil {
		return BuildInputs{}, fmt.Errorf("unreadable inputs: %w", err)
	}
	if in.Encode() != recorded {
		return BuildInputs{}, fmt.Errorf("unreadable inputs: %.100q was not written by this release", recorded)
	}
	if !slices.Contains(Renderings(), in.Rendering) {
		return BuildInputs{}, fmt.Errorf("rendering %d is not known to this release", in.Rendering)
	}
	if err := in.Config.checkSums(); err != nil {
		return BuildInputs{}, err
	}
	if _, err := in.Defaults.decodeRecord(); err != nil {
		return BuildInputs{}, err
	}
	if err := in.Wave.checkWave(); err != nil {
		return BuildInputs{}, err
	}
	if in.Size.Name == "" {
		return in, nil
	}
	if wrong := validation.IsDNS1123Label(string(in.Size.Name)); !in.Size.Name.Named() || len(wrong) > 0 {
		return BuildInputs{}, fmt.Errorf("unreadable inputs: %.100q is no name of a size", in.Size.Name)
	}
	if errs := in.Size.checkAmounts(field.NewPath("size")); len(errs) > 0 {
		return BuildInputs{}, fmt.Errorf("unreadable inputs: %w", errs.ToAggregate())
	}
	return in, nil
}

// Provenance is the origin of the live workload object.
type Provenance struct {
	// Exists is true if a live workload object exists whose pods must not restart.
	Exists bool
	// Ours is true if this operator has applied the object before; otherwise an operator of the tutorials created it.
	Ours bool
	// Inputs is the record of the inputs, empty if there is none.
	Inputs string
	// SpecChanged is true if the spec differs from the recorded spec in more than the number of pods. An unreadable record counts
	// as unchanged, so that it restarts no pod.
	SpecChanged bool
}

// ChooseInputs returns the inputs to build with. While the spec is unchanged, it returns the recorded inputs, so that neither an
// upgrade of the operator nor an edit of AppDefaults restarts a pod. For a new workload, after a change of the spec, and for
// a new value of refresh, the annotation, it returns today's inputs, with today's defaults and the size that the spec names; a kept pod
// template is then replaced. named is the size that the spec names with the recorded defaults, by its present definition, and account the account
// that the spec has with them. The record of the content stays in any case; see ConfigInputs.Follow.
//
// isToday is true if the inputs are today's, or have the present definition of the size.
func ChooseInputs(h Provenance, refresh string, today BuildInputs, named ResolvedSize, account string) (inputs BuildInputs, isToday bool) {
	recorded, err := DecodeInputs(h.Inputs)
	known := err == nil
	if !known && h.Exists && !h.Ours {
		recorded, known = BuildInputs{Rendering: RenderingTutorial}, true
	}
	today.Refresh, today.Config = recorded.Refresh, recorded.Config
	today.Job, today.JobAt, today.JobCause = recorded.Job, recorded.JobAt, recorded.JobCause
	if refresh != "" && refresh != recorded.Refresh {
		today.Refresh = refresh
		return today, true
	}
	if h.Exists && known && !h.SpecChanged {
		renamed := recorded.Size.Name != named.Name
		if renamed {
			// The name in the spec takes precedence over a lost or edited record.
			recorded.Size = named
		}
		recorded.ServiceAccount = account
		return recorded, renamed
	}
	return today, true
}
