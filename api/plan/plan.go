// Package plan contains the answer to a dry run of a custom resource: the effects of the change on the objects and their pods.
//
// A client gets the plan as data with a dry run that has the annotation app.huolala.cn/plan: request. The API server denies the
// request with the code 422 and the reason PlanAnswered; the message of the first cause is a Plan as JSON. See Decode.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Annotation, with the value Request, requests the plan of a dry run as JSON. It has no effect on other requests.
const (
	Annotation = appv1.AnnotationPlan
	Request    = "request"
)

// ReasonAnswered is the reason of the status that has the plan, CauseAnswered the type of its cause.
const (
	ReasonAnswered = "PlanAnswered"
	CauseAnswered  = "Plan"
)

// Version is the version of the JSON form.
const Version = 1

// Plan holds the effects of a change of a custom resource.
type Plan struct {
	// Version is the constant Version.
	Version int `json:"version"`
	// Kind, Namespace and Name identify the custom resource.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Created is true for a new custom resource. Its plan holds only the kinds and names of its objects; see Object.Unseen.
	Created bool `json:"created,omitempty"`
	// Paused is true if spec.paused is true: the effects wait until it is false.
	Paused bool `json:"paused,omitempty"`
	// Incomplete is true if the API server did not answer in time, so that further objects may change.
	Incomplete bool `json:"incomplete,omitempty"`
	// Problem is the error that would prevent the change, nil for none.
	Problem *Problem `json:"problem,omitempty"`
	// Objects are the objects that would change.
	Objects []Object `json:"objects"`
}

// Problem is an error that would prevent a change.
type Problem struct {
	// Reason is the reason of the condition that would report the problem.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Action is the effect on an object.
type Action string

// The actions.
const (
	Created Action = "Created"
	Changed Action = "Changed"
	Deleted Action = "Deleted"
	// Recreated is for an object that is deleted and created again. Its pods stay, except for the pods of a canary, unless
	// the pod template changes too.
	Recreated Action = "Recreated"
	// Scaled is for an object of another owner with a new number of pods.
	Scaled Action = "Scaled"
	// Blocked is for an auxiliary object that is neither created nor changed because of its Problem. Other objects are not
	// affected.
	Blocked Action = "Blocked"
)

// Object is an object that would change.
type Object struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action Action `json:"action"`
	// TakenOver is true if the change adopts the object. Its fields are listed without values.
	TakenOver bool `json:"takenOver,omitempty"`
	// Problem is the error that would prevent the change of the object, nil for none.
	Problem *Problem `json:"problem,omitempty"`
	// Unasked is true if no dry run of the object was made, so that its changes are unknown.
	Unasked bool `json:"unasked,omitempty"`
	// Unseen is true if a foreign object of this name may exist: the operator does not read it for a creation, as such a request
	// does not prove any permission.
	Unseen bool `json:"unseen,omitempty"`
	// Fields are the fields that change.
	Fields []Field `json:"fields,omitempty"`
	// Pods is the effect on the pods, nil for an object without pods.
	Pods *Pods `json:"pods,omitempty"`
	// Rendering and Size are changes that the operator adds to the user's change: a newer rendering, and new amounts of the named
	// size.
	Rendering *Step `json:"rendering,omitempty"`
	Size      *Step `json:"size,omitempty"`
	// Defaults is true if the object takes changed AppDefaults with the change.
	Defaults bool `json:"defaults,omitempty"`
}

// Pods is the effect on the pods of an object.
type Pods struct {
	// Replaced is true if the pod template changes, which replaces all running pods except for Kept pods.
	Replaced bool `json:"replaced"`
	// Running is the current number of pods, Wanted the desired number.
	Running int32 `json:"running"`
	Wanted  int32 `json:"wanted"`
	// Canary is true for pods that run the change next to those of before, and wait for their promotion.
	Canary bool `json:"canary,omitempty"`
	// Kept is the number of pods that already have the new pod template, such as pods of the previous revision during a rollout,
	// and stay.
	Kept int32 `json:"kept,omitempty"`
	// Missing is the maximum number of unavailable pods during the rollout.
	Missing int32 `json:"missing,omitempty"`
}

// Step is a change of a value.
type Step struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// FieldChange is how a field changes.
type FieldChange string

// How a field changes.
const (
	FieldAdded    FieldChange = "Added"
	FieldModified FieldChange = "Modified"
	FieldRemoved  FieldChange = "Removed"
)

// Field is a field that would change.
type Field struct {
	Path   string      `json:"path"`
	Change FieldChange `json:"change"`
	// From and To are its values. They are omitted for variables, arguments, commands, annotations and other texts, and for
	// fields that the custom resource does not own.
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// Decode returns the plan in the error of a dry run, or an error if there is no plan.
func Decode(err error) (*Plan, error) {
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return nil, errors.New("the error is no answer of an API server")
	}
	status := answered.Status()
	if status.Reason != ReasonAnswered || status.Details == nil || len(status.Details.Causes) == 0 {
		return nil, errors.New("the answer has no plan")
	}
	var p Plan
	if err := json.Unmarshal([]byte(status.Details.Causes[0].Message), &p); err != nil {
		return nil, fmt.Errorf("the plan: %w", err)
	}
	return &p, nil
}

// ReplacedPods returns the number of pods that the change replaces: the running pods up to the desired number, without kept pods.
func (p *Plan) ReplacedPods() int32 {
	var n int32
	for i := range p.Objects {
		n += p.Objects[i].replacedPods()
	}
	return n
}

func (o *Object) replacedPods() int32 {
	if o.Pods == nil || !o.Pods.Replaced {
		return 0
	}
	return max(0, min(o.Pods.Running, o.Pods.Wanted)-o.Pods.Kept)
}

// Summary returns the plan in a few words: "2 objects wait, 2 pods would be replaced".
func (p *Plan) Summary() string {
	if p.Problem != nil && len(p.Objects) == 0 {
		return "the changes that wait are not known: " + p.Problem.Reason
	}
	pods := p.ReplacedPods()
	are := "no pod would be replaced"
	if pods > 0 {
		are = count(int(pods), "pod") + " would be replaced"
	}
	waits := "s wait, "
	if len(p.Objects) == 1 {
		waits = " waits, "
	}
	return fmt.Sprintf("%d object", len(p.Objects)) + waits + are
}
