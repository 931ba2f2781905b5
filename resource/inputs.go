package resource

import (
	"encoding/json"
	"fmt"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"huolala.cn/app-operator/api/v1/bounds"
)

// A rendering is a version of the rules by which a spec becomes a pod template. A release that changes any template adds a rendering with
// a higher number and keeps the earlier ones, so that an upgrade by itself never restarts a pod.
const (
	// RenderingTutorial is the template of the tutorials' operators, whose Deployments are taken over as they are.
	RenderingTutorial int32 = 0
	// RenderingNamedPorts has the labels of the identity, the default spread and the default probes; names container ports by the names of
	// the ports; and keeps the default command of an identity tier running.
	RenderingNamedPorts int32 = 2
	// RenderingLatest is the rendering of a new workload.
	RenderingLatest = RenderingNamedPorts
)

// Renderings returns the renderings that this release can build, the latest one first.
func Renderings() []int32 { return []int32{RenderingNamedPorts, RenderingTutorial} }

// Inputs is all that shapes a pod template apart from the spec. It is recorded on the workload object.
// A field that is added later is left out of the record while it is empty, or records without it become unreadable.
type Inputs struct {
	// Rendering is the number of the rendering.
	Rendering int32 `json:"rendering"`
	// Refresh is the value of the refresh annotation that was acted on last.
	Refresh string `json:"refresh,omitempty"`
	// Size is the spec's named size with what it stands for.
	Size ResolvedSize `json:"size,omitzero"`
	// Config is the content that the pods use of ConfigMaps and Secrets.
	Config ConfigInputs `json:"config,omitzero"`
	// ServiceAccount is the account that the operator makes for the pods, empty if it makes none. It is that of the present
	// spec, whatever is recorded.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Kept is true where the pod template is not built: it is that of before an adoption, and stays until the spec changes.
	Kept bool `json:"kept,omitempty"`
}

// Encode returns the inputs as they are recorded.
func (in Inputs) Encode() string {
	// A struct of numbers, strings and quantities always has a JSON form.
	data, _ := json.Marshal(in)
	return string(data)
}

// maxInputs is the length in bytes up to which recorded inputs are read: no annotation is longer. They have the value of the
// refresh annotation, which may be of any length.
const maxInputs = apivalidation.TotalAnnotationSizeLimitB

// DecodeInputs reads recorded inputs. What is not exactly as Encode writes it is an error rather than half understood:
// "{}" would read as rendering 0, and a record of a later release may have more fields.
func DecodeInputs(recorded string) (Inputs, error) {
	var in Inputs
	if err := bounds.Decode([]byte(recorded), &in, maxInputs, "inputs"); err != nil {
		return Inputs{}, fmt.Errorf("unreadable inputs: %w", err)
	}
	if in.Encode() != recorded {
		return Inputs{}, fmt.Errorf("unreadable inputs: %.100q was not written by this release", recorded)
	}
	if !slices.Contains(Renderings(), in.Rendering) {
		return Inputs{}, fmt.Errorf("rendering %d is not known to this release", in.Rendering)
	}
	if err := in.Config.check(); err != nil {
		return Inputs{}, err
	}
	if in.Size.Name == "" {
		return in, nil
	}
	if _, known := BuiltInSizes()[in.Size.Name]; !known {
		return Inputs{}, fmt.Errorf("size %q is not known to this release", in.Size.Name)
	}
	if errs := in.Size.check(field.NewPath("size")); len(errs) > 0 {
		return Inputs{}, fmt.Errorf("unreadable inputs: %w", errs.ToAggregate())
	}
	return in, nil
}

// Provenance is what is known of the workload object's making.
type Provenance struct {
	// Exists is true where there is a live workload object of ours to keep as it is.
	Exists bool
	// Ours is true if this operator has applied it before; otherwise it stems from a tutorial's operator.
	Ours bool
	// Inputs is the record of the inputs, empty if there is none.
	Inputs string
	// SpecChanged is true if the spec differs from the recorded one in more than the number of pods. An unreadable
	// record counts as unchanged: what is not known must not restart anything.
	SpecChanged bool
}

// ChooseInputs decides which inputs to build with. As long as the spec stays as it was, those recorded are used again,
// so that neither an upgrade of the operator nor a changed definition restarts a workload by surprise. Today's, which have
// the size that the spec names, are used for a new workload, with a change of the spec, and when refresh, the value of
// the annotation, is a new one; a pod template of before an adoption is kept no longer then. What content the pods have stays recorded in any case; see ConfigInputs.Follow.
func ChooseInputs(h Provenance, refresh string, today Inputs) Inputs {
	recorded, err := DecodeInputs(h.Inputs)
	known := err == nil
	if !known && h.Exists && !h.Ours {
		recorded, known = Inputs{Rendering: RenderingTutorial}, true
	}
	today.Refresh, today.Config = recorded.Refresh, recorded.Config
	if refresh != "" && refresh != recorded.Refresh {
		today.Refresh = refresh
		return today
	}
	if h.Exists && known && !h.SpecChanged {
		if recorded.Size.Name != today.Size.Name {
			// What the spec names counts, whatever has become of its own record or of that of the inputs.
			recorded.Size = today.Size
		}
		recorded.ServiceAccount = today.ServiceAccount
		return recorded
	}
	return today
}
