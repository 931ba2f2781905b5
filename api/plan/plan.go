// Package plan is what a dry run of a change of a custom resource is answered with: what the change would do.
//
// To have it as data, send the change as a dry run, with the annotation app.huolala.cn/plan: request. The API server denies it
// with the code 422 and the reason PlanAnswered, and the message of the first cause is a Plan as JSON; see Decode.
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

// Annotation, with the value Request, has a dry run answered with the plan as JSON. It has no effect on other requests.
const (
	Annotation = appv1.AnnotationPlan
	Request    = "request"
)

// ReasonAnswered is the reason of the status that has the plan, CauseAnswered the type of its cause.
const (
	ReasonAnswered = "PlanAnswered"
	CauseAnswered  = "Plan"
)

// Version is that of the JSON form.
const Version = 1

// Plan is what a change of a custom resource would do.
type Plan struct {
	// Version is that of this form.
	Version int `json:"version"`
	// Kind, Namespace and Name are those of the custom resource.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Created says that the custom resource is new. Its plan has the kinds and names of the objects that it means, and no more; see Object.Unseen.
	Created bool `json:"created,omitempty"`
	// Paused says that spec.paused is true: all of this waits until it is false.
	Paused bool `json:"paused,omitempty"`
	// Incomplete says that more could change than is listed, as the API server has not answered in time.
	Incomplete bool `json:"incomplete,omitempty"`
	// Problem is what is in the way of the change, nil if nothing is.
	Problem *Problem `json:"problem,omitempty"`
	// Objects are the objects that would change.
	Objects []Object `json:"objects"`
}

// Problem is what is in the way of a change.
type Problem struct {
	// Reason is that of the condition which would report it.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Action is what would be done to an object.
type Action string

// The actions.
const (
	Created Action = "Created"
	Changed Action = "Changed"
	Deleted Action = "Deleted"
	// Recreated is an object that would be deleted and made again. Its pods stay.
	Recreated Action = "Recreated"
	// Scaled is an object of another owner whose number of pods would be changed.
	Scaled Action = "Scaled"
	// Blocked is an object around the pods that would be neither created nor changed. Its Problem says why; all else is done.
	Blocked Action = "Blocked"
)

// Object is an object that would change.
type Object struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Action Action `json:"action"`
	// TakenOver says that the object is not the custom resource's yet. Its fields are listed without values.
	TakenOver bool `json:"takenOver,omitempty"`
	// Problem is what is in the way of the object, nil if nothing is.
	Problem *Problem `json:"problem,omitempty"`
	// Unasked says that the API server was not asked what would change in it.
	Unasked bool `json:"unasked,omitempty"`
	// Unseen says that an object of others by this name may be in the way: the operator does not look for it on behalf of a request that proves
	// nothing, as a creation does.
	Unseen bool `json:"unseen,omitempty"`
	// Fields are what would change in it.
	Fields []Field `json:"fields,omitempty"`
	// Pods is what happens to its pods, nil for an object that has none.
	Pods *Pods `json:"pods,omitempty"`
	// Rendering and Size are what comes with the change although it does not state it: a newer rendering, and what the named size
	// stands for by now.
	Rendering *Step `json:"rendering,omitempty"`
	Size      *Step `json:"size,omitempty"`
}

// Pods is what happens to the pods of an object.
type Pods struct {
	// Replaced says that the pod template changes, so that all pods that run are replaced, but those that are Kept.
	Replaced bool `json:"replaced"`
	// Running is how many there are, Wanted how many there would be.
	Running int32 `json:"running"`
	Wanted  int32 `json:"wanted"`
	// Kept is how many of them run already what is wanted, as those of the revision before do during a rollout, and stay.
	Kept int32 `json:"kept,omitempty"`
	// Missing is how many of the wanted ones may be missing at a time while they are replaced.
	Missing int32 `json:"missing,omitempty"`
}

// Step is a change from one to another.
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
	// From and To are its values. They are missing where they are not shown: of variables, arguments, commands, annotations and
	// other texts, and of what the custom resource does not own.
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// Decode returns the plan that an error of a dry run has. It is an error if that has none.
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

// ReplacedPods is how many pods would be replaced: of those that run, as many as are wanted, without those that are kept.
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

// Summary is the plan in a few words: "2 objects wait, 2 pods would be replaced".
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

// Lines returns the plan in words, in at most as many lines as asked for, each of at most width bytes.
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

// cutLines returns the first lines of both, and how many fields there are more. Of the fields none is missing before all of them
// are.
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

// head says what happens to an object and its pods.
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

// replaced says how pods are replaced.
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

// steps says what comes with the change although it does not state it.
func (o *Object) steps() []string {
	var said []string
	if o.Rendering != nil {
		said = append(said, fmt.Sprintf("%s %s: rendering %s -> %s comes with the change", o.Kind, o.Name, o.Rendering.From, o.Rendering.To))
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

// lines says which fields change.
func (o *Object) lines() []string {
	said := make([]string, 0, len(o.Fields))
	for _, f := range o.Fields {
		said = append(said, fmt.Sprintf("%s %s: %s", o.Kind, o.Name, f.String()))
	}
	return said
}

// String is the field in words.
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

// maxValue is the length of a value in runes.
const maxValue = 60

// plain are values that need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+-]+$`)

// quote returns a value as a line has it.
func quote(value string) string {
	if runes := []rune(value); len(runes) > maxValue {
		value = string(runes[:maxValue]) + "…"
	}
	if plain.MatchString(strings.TrimSuffix(value, "…")) {
		return value
	}
	return strconv.Quote(value)
}

// printable returns a line without characters for which the API server would drop a warning, or that a terminal acts on.
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
