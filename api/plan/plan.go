// Package plan contains the answer to a dry run of a custom resource: the effects of the change on the objects and their pods.
//
// A client gets the plan as data with a dry run that has the annotation app.huolala.cn/plan: request. The API server denies the
// request with the code 422 and the reason PlanAnswered; the message of the first cause is a Plan as JSON. See Decode.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

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
	// Recreated is for an object that is deleted and created again. Its pods stay, except for those of a canary.
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

// Lines returns the plan as text. Its lines are limited to the number most, and a line to width bytes.
func (p *Plan) Lines(most, width int) []string {
	var heads, fields []string
	for i := range p.Objects {
		heads = append(heads, p.Objects[i].head())
		heads = append(heads, p.Objects[i].steps()...)
	}
	switch {
	case p.Problem != nil:
		heads = append(heads, p.Problem.Reason+": "+p.Problem.Message)
	case len(p.Objects) == 0 && !p.Incomplete:
		heads = append(heads, "nothing changes")
	case p.ReplacedPods() == 0 && !p.Created && !p.Incomplete:
		heads = append(heads, "no pod is replaced")
	}
	if p.Incomplete {
		heads = append(heads, "not all was answered in time; run it again")
	}
	if p.Paused && len(p.Objects) > 0 {
		heads = append(heads, "spec.paused is true: all of this waits until it is false")
	}
	for i := range p.Objects {
		fields = append(fields, p.Objects[i].lines()...)
	}
	lines := cutLines(heads, fields, most)
	for i := range lines {
		lines[i] = cut(printable(lines[i]), width)
	}
	return lines
}

// cutLines limits lines to the number most. The last line has the number of omitted lines. It omits fields first.
func cutLines(heads, fields []string, most int) []string {
	if len(heads)+len(fields) <= most {
		return append(heads, fields...)
	}
	room := max(most-1-len(heads), 0)
	if len(heads) > most-1 {
		more := len(heads) - (most - 1)
		return append(heads[:most-1:most-1], fmt.Sprintf("and %s and %s", count(more, "more line"), count(len(fields), "field")))
	}
	return append(append(heads, fields[:room]...), "and "+count(len(fields)-room, "more field"))
}

// head returns the line about an object and its pods.
func (o *Object) head() string {
	said := fmt.Sprintf("%s %s: %s", o.Kind, o.Name, strings.ToLower(string(o.Action)))
	if o.TakenOver {
		said = fmt.Sprintf("%s %s: exists and is taken over", o.Kind, o.Name)
	}
	if o.Problem != nil {
		said += ": " + o.Problem.Reason + ": " + o.Problem.Message
	}
	switch {
	case o.Unseen && o.TakenOver:
		said += ", unless pods of others use it"
	case o.Unseen:
		said += ", unless others have an object of this name"
	}
	if o.Unasked {
		said += " (not asked in time; run it again)"
	}
	pods := o.Pods
	switch {
	case pods == nil:
	case pods.Canary:
		return said + o.canary()
	case o.Action == Recreated:
		said += ", its pods stay"
	case o.Action == Deleted && pods.Running > 0:
		said += " with its " + count(int(pods.Running), "pod")
	case o.Action == Created || o.Action == Deleted:
	case o.replacedPods() > 0:
		said += ", " + o.replaced()
	}
	if pods != nil && o.Action != Created && o.Action != Deleted && pods.Running != pods.Wanted {
		verb := "become"
		if pods.Running == 1 {
			verb = "becomes"
		}
		said += fmt.Sprintf(", %s %s %d", count(int(pods.Running), "pod"), verb, pods.Wanted)
	}
	return said
}

// canary returns the text about the pods of a canary. Of a creation and a replacement, Running counts the pods of before, which a
// promotion replaces.
func (o *Object) canary() string {
	switch o.Action {
	case Deleted:
		return ", the canary is removed with its " + count(int(o.Pods.Running), "pod")
	case Created, Recreated:
		added := count(int(o.Pods.Wanted), "pod") + " are added as a canary; "
		if o.Pods.Wanted == 1 {
			added = "1 pod is added as a canary; "
		}
		if o.Pods.Running == 1 {
			return ", " + added + "1 pod is replaced when it is promoted"
		}
		return ", " + added + count(int(o.Pods.Running), "pod") + " are replaced when it is promoted"
	}
	if o.Pods.Running != o.Pods.Wanted {
		return fmt.Sprintf(", the canary has %s instead of %d", count(int(o.Pods.Wanted), "pod"), o.Pods.Running)
	}
	return ", the canary stays"
}

// replaced returns the text about the rollout of the pods.
func (o *Object) replaced() string {
	said := count(int(o.replacedPods()), "pod") + " are replaced"
	if o.replacedPods() == 1 {
		said = "1 pod is replaced"
	}
	switch missing := o.Pods.Missing; {
	case missing == 0:
		return said + ", none is missing meanwhile"
	case missing >= o.Pods.Wanted:
		return said + ", all may be missing at a time"
	default:
		return said + fmt.Sprintf(", at most %d missing at a time", missing)
	}
}

// steps returns the lines about the changes that the operator adds.
func (o *Object) steps() []string {
	var said []string
	if o.Rendering != nil {
		said = append(said, fmt.Sprintf("%s %s: rendering %s -> %s comes with the change", o.Kind, o.Name, o.Rendering.From, o.Rendering.To))
	}
	if o.Defaults {
		said = append(said, fmt.Sprintf("%s %s: the present defaults of AppDefaults come with the change", o.Kind, o.Name))
	}
	if o.Size != nil {
		said = append(said, fmt.Sprintf("%s %s: size %s -> %s comes with the change", o.Kind, o.Name, orNone(o.Size.From), orNone(o.Size.To)))
	}
	return said
}

func orNone(size string) string {
	if size == "" {
		return "none"
	}
	return size
}

// lines returns a line for each field that changes.
func (o *Object) lines() []string {
	said := make([]string, 0, len(o.Fields))
	for _, f := range o.Fields {
		said = append(said, fmt.Sprintf("%s %s: %s", o.Kind, o.Name, f.String()))
	}
	return said
}

// String returns the field and its values as text.
func (f Field) String() string {
	switch {
	case f.From != nil && f.To != nil:
		return fmt.Sprintf("%s: %s -> %s", f.Path, quote(*f.From), quote(*f.To))
	case f.To != nil:
		return fmt.Sprintf("%s: set to %s", f.Path, quote(*f.To))
	case f.From != nil && f.Change == FieldRemoved:
		return fmt.Sprintf("%s: %s is removed", f.Path, quote(*f.From))
	case f.Change == FieldModified:
		return f.Path + ": changed"
	}
	return f.Path + ": " + strings.ToLower(string(f.Change))
}

// maxValue is the maximum length of a value in runes.
const maxValue = 60

// plain matches a value without a need for quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+-]+$`)

// quote returns a value for a line, cut and quoted if needed.
func quote(value string) string {
	if runes := []rune(value); len(runes) > maxValue {
		value = string(runes[:maxValue]) + "…"
	}
	if plain.MatchString(strings.TrimSuffix(value, "…")) {
		return value
	}
	return strconv.Quote(value)
}

// printable escapes characters for which the API server would drop a warning, or that control a terminal.
func printable(line string) string {
	var b strings.Builder
	for _, r := range line {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cut returns the beginning of a line that is too long.
func cut(line string, width int) string {
	if len(line) <= width {
		return line
	}
	return strings.ToValidUTF8(line[:width-len("…")], "") + "…"
}

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
