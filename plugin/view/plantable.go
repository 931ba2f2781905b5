package view

import (
	"fmt"
	"slices"
	"strings"

	"huolala.cn/app-operator/api/plan"
)

// PlanRow is a field that a plan changes, with the object of the field.
type PlanRow struct {
	Object string `json:"object"`
	// Effect is the effect on the object, for the first row of an object.
	Effect string `json:"effect,omitempty"`
	Field  string `json:"field,omitempty"`
	// From and To are the values; both are empty for a field whose values are not shown.
	From []Piece `json:"from,omitempty"`
	To   []Piece `json:"to,omitempty"`
	// Change is how the field changes, for a field whose values are not shown.
	Change string `json:"change,omitempty"`
}

// TableRows returns the plan as rows, an object's first row with the effect on the object.
func (p *Plan) TableRows() []PlanRow {
	var rows []PlanRow
	for _, r := range p.Resources {
		for i := range r.Objects {
			rows = append(rows, objectRows(&r.Objects[i])...)
		}
	}
	return rows
}

func objectRows(o *plan.Object) []PlanRow {
	first := PlanRow{Object: o.Kind + " " + o.Name, Effect: strings.ToLower(string(o.Action))}
	if o.TakenOver {
		first.Effect = "taken over"
	}
	if o.Problem != nil {
		first.Effect += ": " + o.Problem.Reason + ": " + o.Problem.Message
	}
	first.Effect += effectDoubt(o)
	rows := podRows(o)
	for i := range o.Fields {
		f := &o.Fields[i]
		row := PlanRow{Field: f.Path}
		switch {
		case f.From != nil && f.To != nil:
			row.From, row.To = diffPieces(*f.From, *f.To)
		case f.From != nil:
			row.From = []Piece{{Text: *f.From, Differs: true}}
		case f.To != nil:
			row.To = []Piece{{Text: *f.To, Differs: true}}
		default:
			row.Change = strings.ToLower(string(f.Change))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return []PlanRow{first}
	}
	for i := range rows {
		rows[i].Object = first.Object
	}
	rows[0].Effect = first.Effect
	return rows
}

// effectDoubt returns the unknown part of the effect on an object, in words, empty for none.
func effectDoubt(o *plan.Object) string {
	switch {
	case o.Unasked:
		return " (not asked in time)"
	case o.Unseen && o.TakenOver:
		return ", unless pods of others use it"
	case o.Unseen:
		return ", unless others have an object of this name"
	}
	return ""
}

// podRows returns the row of the number of pods of an object, none if the number stays.
func podRows(o *plan.Object) []PlanRow {
	row, pods := PlanRow{Field: "pods"}, o.Pods
	switch {
	case pods == nil:
		return nil
	case startsCanary(o): // The running pods are of another Deployment.
		row.To = []Piece{{Text: fmt.Sprint(pods.Wanted), Differs: true}}
	case pods.Running == pods.Wanted:
		return nil
	default:
		row.From, row.To = diffPieces(fmt.Sprint(pods.Running), fmt.Sprint(pods.Wanted))
	}
	return []PlanRow{row}
}

// CountedRestarts are the pods that the changes of a plan replace, and the pods that they replace once a canary is promoted. Unknown is why there may be
// more of them, empty if all are known. Paused is how many resources have to be resumed before any pod restarts, 0 if a pod may restart at once.
type CountedRestarts struct {
	Pods, Promoted int32
	Unknown        string
	Paused         int
}

// noteUnanswered is why a plan is incomplete.
const noteUnanswered = "not all was answered in time"

// CountRestarts returns the pods that the changes replace, of all resources, and the first reason why there may be more.
func (p *Plan) CountRestarts() CountedRestarts {
	counted := CountedRestarts{Pods: p.Restarts.Pods}
	atOnce := false
	for _, r := range p.Resources {
		restarts, known := RestartsOf(r)
		switch {
		case !known && counted.Unknown == "":
			counted.Unknown = p.unknownReason(r)
		case restarts.Promoted:
			counted.Promoted += restarts.Pods
		}
		if known && restarts.Pods == 0 {
			continue
		}
		counted.Paused++
		atOnce = atOnce || !r.Paused
	}
	if atOnce {
		counted.Paused = 0
	}
	return counted
}

// unknownReason returns why it is not known how many pods of a resource restart, without a period at the end. Among several resources, the reason names it.
func (p *Plan) unknownReason(r *plan.Plan) string {
	why := noteUnanswered
	if !r.Incomplete {
		why = strings.TrimRight(r.Problem.Reason+": "+r.Problem.Message, ". ")
	}
	if len(p.Resources) > 1 {
		return r.Kind + " " + r.Name + ": " + why
	}
	return why
}

// Piece is a piece of a value. Differs is true if the other value does not have the piece.
type Piece struct {
	Text    string `json:"text"`
	Differs bool   `json:"differs,omitempty"`
}

// maxPieces is how many words of two values are compared with each other at most.
const maxPieces = 10000

// diffPieces returns two values in pieces that differ and pieces that both have.
func diffPieces(before, after string) (from, to []Piece) {
	a, b := splitWords(before), splitWords(after)
	if len(a)*len(b) > maxPieces {
		return []Piece{{before, true}}, []Piece{{after, true}}
	}
	// common[i][j] is how many words a[i:] and b[j:] have in common, in their order.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, word := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); word == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			from, to = addPiece(from, a[i], false), addPiece(to, b[j], false)
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			from = addPiece(from, a[i], true)
			i++
		default:
			to = addPiece(to, b[j], true)
			j++
		}
	}
	for ; i < len(a); i++ {
		from = addPiece(from, a[i], true)
	}
	for ; j < len(b); j++ {
		to = addPiece(to, b[j], true)
	}
	return from, to
}

// addPiece adds a word, to the last piece if it differs as that does.
func addPiece(to []Piece, word string, differs bool) []Piece {
	if last := len(to) - 1; last >= 0 && to[last].Differs == differs {
		to[last].Text += word
		return to
	}
	return append(to, Piece{word, differs})
}

// splitWords splits a value before and after each separator.
func splitWords(text string) []string {
	var words []string
	word := ""
	for _, r := range text {
		if strings.ContainsRune("/:@,= \n", r) {
			if word != "" {
				words = append(words, word)
			}
			words, word = append(words, string(r)), ""
			continue
		}
		word += string(r)
	}
	if word != "" {
		words = append(words, word)
	}
	return words
}

// Summary returns the effects of the plan as a sentence.
func (p *Plan) Summary() string {
	var parts []string
	for _, effect := range []struct {
		n         int
		one, many string
	}{{p.Objects.Changed, "changes", "change"}, {p.Objects.Created, "is created", "are created"}, {p.Objects.Deleted, "is deleted", "are deleted"}} {
		switch effect.n {
		case 0:
		case 1:
			parts = append(parts, "1 object "+effect.one)
		default:
			parts = append(parts, fmt.Sprintf("%d objects %s", effect.n, effect.many))
		}
	}
	if len(parts) == 0 {
		return "No object changes."
	}
	return strings.Join(parts, ", ") + "."
}
