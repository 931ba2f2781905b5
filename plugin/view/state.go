package view

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// State is how a resource is doing, in one word. The conditions of a resource have the form that kstatus reads; a state answers the question
// of a person: who has to act.
type State string

// The states.
const (
	// StateStalled is for a resource that goes on only after a change.
	StateStalled State = "Stalled"
	// StateFailing is for a problem that time alone does not solve, such as a crash loop, from its first sight on.
	StateFailing    State = "Failing"
	StateUnobserved State = "Unobserved"
	StateRolling    State = "Rolling"
	// StateWaiting is for a resource that waits for another controller, or for an earlier tier.
	StateWaiting State = "Waiting"
	// StateRunning is for a Task with a run that has not ended.
	StateRunning  State = "Running"
	StateDeleting State = "Deleting"
	StateCanary   State = "Canary"
	StateHeld     State = "Held"
	StatePaused   State = "Paused"
	// StateSuspended is for a Task that starts no runs.
	StateSuspended State = "Suspended"
	StateReady     State = "Ready"
	// StateZero is for a resource that is scaled to 0 pods.
	StateZero State = "Zero"
)

// Group has the states with the same need.
type Group string

// The groups.
const (
	GroupNeedsYou   Group = "needs-you"
	GroupInProgress Group = "in-progress"
	GroupOnHold     Group = "on-hold"
	GroupReady      Group = "ready"
)

// Groups are all groups, the most urgent one first.
var Groups = []Group{GroupNeedsYou, GroupInProgress, GroupOnHold, GroupReady}

// Words returns the group as a heading.
func (g Group) Words() string {
	return map[Group]string{GroupNeedsYou: "Needs you", GroupInProgress: "In progress", GroupOnHold: "On hold", GroupReady: "Ready"}[g]
}

// Mark returns the mark of the group.
func (g Group) Mark() Mark {
	return map[Group]Mark{GroupNeedsYou: MarkFail, GroupInProgress: MarkBusy, GroupOnHold: MarkHold, GroupReady: MarkGood}[g]
}

// States are all states, the most urgent one first.
var States = []State{
	StateStalled, StateFailing, StateUnobserved, StateRolling, StateWaiting, StateRunning, StateDeleting, StateCanary, StateHeld, StatePaused,
	StateSuspended, StateReady, StateZero,
}

// appearances are the group, the mark and the sign of each state. A sign differs from the others of a group at least in its shape or its word.
var appearances = map[State]struct {
	group Group
	mark  Mark
	sign  string
}{
	StateStalled:    {GroupNeedsYou, MarkBad, "✗"},
	StateFailing:    {GroupNeedsYou, MarkFail, "▲"},
	StateUnobserved: {GroupInProgress, MarkBusy, "◐"},
	StateRolling:    {GroupInProgress, MarkBusy, "◐"},
	StateWaiting:    {GroupInProgress, MarkBusy, "◐"},
	StateRunning:    {GroupInProgress, MarkBusy, "◐"},
	StateDeleting:   {GroupInProgress, MarkBusy, "◐"},
	StateCanary:     {GroupOnHold, MarkHold, "‖"},
	StateHeld:       {GroupOnHold, MarkHold, "‖"},
	StatePaused:     {GroupOnHold, MarkHold, "‖"},
	StateSuspended:  {GroupOnHold, MarkHold, "‖"},
	StateReady:      {GroupReady, MarkGood, "✓"},
	StateZero:       {GroupReady, "", "○"},
}

// Group returns the group of the state.
func (s State) Group() Group { return appearances[s].group }

// Mark returns the mark of the state.
func (s State) Mark() Mark { return appearances[s].mark }

// Sign returns the sign of the state, which has the meaning of its color.
func (s State) Sign() string { return appearances[s].sign }

// reasonStates are the states for the reasons of conditions that are no problem. For any other reason of a condition that is not True, a user
// has to act.
var reasonStates = map[string]State{
	appv1.ReasonScaledToZero:       StateZero,
	appv1.ReasonDependencyNotReady: StateWaiting,
	appv1.ReasonBeforeRollout:      StateWaiting,
	appv1.ReasonReadFailed:         StateWaiting,
	appv1.ReasonApplyFailed:        StateWaiting,
	appv1.ReasonTerminating:        StateDeleting,
	appv1.ReasonCanary:             StateCanary,
	appv1.ReasonHeld:               StateHeld,
	appv1.ReasonRolledBack:         StateHeld,
	appv1.ReasonPaused:             StatePaused,
	appv1.ReasonRolloutPaused:      StatePaused,
	appv1.ReasonRunning:            StateRunning,
	appv1.ReasonSuspended:          StateSuspended,
	appv1.ReasonNoRun:              StateReady,
	appv1.ReasonSucceeded:          StateReady,
}

// State returns the state of the resource. A status of an earlier generation is ignored.
func (r *Resource) State() State {
	switch {
	case r.ObjectMeta.DeletionTimestamp != nil:
		return StateDeleting
	case !r.IsObserved() || len(r.Status.Conditions) == 0:
		return StateUnobserved
	}
	verdict := r.mainCondition()
	state, known := reasonStates[verdict.Reason]
	switch {
	case r.Schedule != nil && runFails(&verdict):
		return StateFailing
	case verdict.Type == appv1.ConditionStalled:
		return StateStalled
	case known:
		return state
	case verdict.Status == metav1.ConditionTrue:
		return StateReady
	case verdict.Reason == appv1.ReasonProgressing && r.Pods.rolledOut():
		return StateWaiting
	case verdict.Reason == appv1.ReasonProgressing:
		return StateRolling
	}
	return StateFailing
}

// runFails reports whether a condition of a Task is about a run that has failed, was missed, or has no pod. A Task is not stalled by that: its next
// run starts all the same.
func runFails(c *metav1.Condition) bool {
	return c.Reason == appv1.ReasonRunFailed || c.Reason == appv1.ReasonRunMissed || c.Reason == appv1.ReasonRunning && c.Status == metav1.ConditionFalse
}

// PodCount is how many pods a resource has, from its status.
type PodCount struct {
	Ready  int `json:"ready"`
	Wanted int `json:"wanted"`
	// Updated is how many pods run the current spec, Existing how many pods exist. They are 0 for a kind that counts tiers.
	Updated  int `json:"updated,omitempty"`
	Existing int `json:"existing,omitempty"`
	// Tiers is true for a kind that counts tiers in place of pods.
	Tiers bool `json:"tiers,omitempty"`
}

// countOf returns the numbers of a status in which ready is like "2/4".
func countOf(ready string) PodCount {
	var count PodCount
	if _, err := fmt.Sscanf(ready, "%d/%d", &count.Ready, &count.Wanted); err != nil {
		return PodCount{}
	}
	return count
}

// rolledOut reports whether all pods run the current spec and are ready.
func (c PodCount) rolledOut() bool {
	return !c.Tiers && c.Updated >= c.Wanted && c.Ready >= c.Wanted && c.Existing <= c.Wanted
}

// Down reports whether pods are wanted and none of them is ready.
func (c PodCount) Down() bool { return c.Wanted > 0 && c.Ready == 0 }

// needRank orders rows by need: first those without a ready pod, then by state.
func (r *Row) needRank() (group, down, state int) {
	if !r.Pods.Down() {
		down = 1
	}
	return slices.Index(Groups, r.State.Group()), down, slices.Index(States, r.State)
}
