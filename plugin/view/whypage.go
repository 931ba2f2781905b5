package view

import (
	"slices"
	"strings"
)

// Further returns the advice without the command of the suggestion, for a page that has a button for it.
func (w *Why) Further() []string { return w.Suggested.withoutCommand(w.Advice) }

// Where returns the pods of the root cause, such as "2 pods, on node-1"; empty if the cause is not that of pods.
func (w *Why) Where() string {
	if last := len(w.Chain) - 1; last > 0 && w.Chain[last].Root && strings.Contains(w.Chain[last].Object, ", on ") {
		return w.Chain[last].Object
	}
	return ""
}

// Whole returns the message, empty if a step of the chain has its text.
func (w *Why) Whole() string {
	if slices.ContainsFunc(w.Chain, func(step Step) bool { return step.Text == w.Message }) {
		return ""
	}
	return w.Message
}

// Waiting returns the changes that wait, without their number, which is the cause.
func (w *Why) Waiting() []string {
	if len(w.Pending) == 0 {
		return nil
	}
	return w.Pending[1:]
}
