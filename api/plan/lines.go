package plan

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

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
	case o.Action == Recreated && o.replacedPods() == 0:
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
	if width = max(width, len("…")); len(line) <= width {
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
