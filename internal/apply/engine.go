// Package apply is the one engine that writes children: the objects that a custom resource means.
//
// It compares desired and live objects, and sends the fewest server-side apply requests that bring the live objects to the
// desired state. It keeps no state that matters: a restarted operator finds every decision again in the live objects. It knows
// Kubernetes' kinds, and none of ours.
package apply

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/fields"
)

// HandoverManager owns a field that the engine has given up, such as a number of pods until an autoscaler first writes it. It
// keeps the field's value from falling back to the default.
const HandoverManager = "app-operator-handover"

// Engine writes children. Make it with New.
type Engine struct {
	client      client.Client
	live        client.Reader
	comparer    *fields.Comparer
	conflicts   *conflicts
	scaleMemory *scaleMemory
	// disabled are the features that are switched off.
	disabled []string
}

// Disable switches features off: nothing of their types is watched, so that there is nothing to look for.
func (e *Engine) Disable(features []string) { e.disabled = features }

// New returns an engine that writes with c. Where a decision needs more than the caller's view of an object holds, it
// reads with live.
func New(c client.Client, live client.Reader, clk clock.PassiveClock) *Engine {
	return &Engine{
		client:      c,
		live:        live,
		comparer:    fields.NewComparer(c.Scheme()),
		conflicts:   newConflicts(clk),
		scaleMemory: newScaleMemory(),
	}
}

// Matches reports whether a live object has all that a literal of its type states.
func (e *Engine) Matches(wanted, live client.Object) (bool, error) {
	return e.comparer.Matches(wanted, live)
}

// RecordHolds reports whether an object that was built from a record is the object that its carrier was made from; see
// fields.Comparer.
func (e *Engine) RecordHolds(manager string, built, found, carrier client.Object) (bool, error) {
	return e.comparer.RecordHolds(manager, built, found, carrier)
}

// StatesTemplate reports whether an object states all that the manager owns of the pod template of a carrier; see fields.Comparer.
func (e *Engine) StatesTemplate(manager string, built, carrier client.Object) (bool, error) {
	return e.comparer.StatesTemplate(manager, built, carrier)
}

// Forget drops the records of a deleted owner.
func (e *Engine) Forget(owner types.NamespacedName, manager string) {
	e.conflicts.forgetOwner(manager, owner)
	e.scaleMemory.forgetOwner(manager, owner)
}

// ReadOnly returns an engine with the memory of this one, whose client refuses all writes that are no dry run.
func (e *Engine) ReadOnly() *Engine {
	other := *e
	other.client = ReadOnly(e.client)
	return &other
}
