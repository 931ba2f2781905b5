package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// Plan has the operator's plans of changes of resources.
type Plan struct {
	Meta      `json:",inline"`
	Resources []*plan.Plan `json:"resources"`
	// Restarts are the pods that would be replaced, Objects the objects that would change.
	Restarts Restarts `json:"restarts"`
	Objects  Objects  `json:"objects"`
}

// Restarts are the pods that would be replaced.
type Restarts struct {
	Pods int32 `json:"pods"`
}

// Objects are how many objects would be created, changed and deleted.
type Objects struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
}

// PlanOf returns the plans of several resources as one.
func PlanOf(plans ...*plan.Plan) *Plan {
	all := &Plan{Meta: newMeta("Plan"), Resources: cleanView(plans)}
	for _, p := range plans {
		all.Restarts.Pods += p.ReplacedPods()
		for i := range p.Objects {
			switch p.Objects[i].Action {
			case plan.Created:
				all.Objects.Created++
			case plan.Deleted:
				all.Objects.Deleted++
			case plan.Blocked:
			default:
				all.Objects.Changed++
			}
		}
	}
	return all
}

// HasChanges reports whether anything would change, or whether it is not known that nothing would.
func (p *Plan) HasChanges() bool {
	if p.Objects != (Objects{}) {
		return true
	}
	for _, r := range p.Resources {
		if r.Created || r.Incomplete {
			return true
		}
	}
	return false
}

// IsIncomplete reports whether the plan of a resource lacks objects, so that it is not known how many pods restart.
func (p *Plan) IsIncomplete() bool {
	return slices.ContainsFunc(p.Resources, func(r *plan.Plan) bool { return r.Incomplete })
}

// HasProblem reports whether something is in the way of a change as a whole.
func (p *Plan) HasProblem() bool {
	for _, r := range p.Resources {
		if r.Problem != nil {
			return true
		}
	}
	return false
}

// HasBlockedObject reports whether an object would be neither created nor changed.
func (p *Plan) HasBlockedObject() bool {
	return slices.ContainsFunc(p.Resources, func(r *plan.Plan) bool {
		return slices.ContainsFunc(r.Objects, func(o plan.Object) bool { return o.Action == plan.Blocked })
	})
}

// planStates are the reasons of a plan's problem that are a state of the resource and no obstacle: the change is stored, and the plan shows
// the result.
var planStates = []string{appv1.ReasonHeld, appv1.ReasonRolledBack, appv1.ReasonDependencyNotReady}

// FindObstacle returns the problem that blocks a change of a resource, nil without one. A problem that the resource reports already is no
// obstacle: the change does not cause the problem, and may end it.
func (p *Plan) FindObstacle(now *Resource) *plan.Problem {
	reported := func(reason string) bool {
		return slices.ContainsFunc(now.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == reason })
	}
	for _, r := range p.Resources {
		if r.Problem != nil && !slices.Contains(planStates, r.Problem.Reason) && !reported(r.Problem.Reason) {
			return r.Problem
		}
	}
	return nil
}

// Text returns the plan in the words of the warnings that a dry run is answered with, all of them.
func (p *Plan) Text(s Style) string {
	var b strings.Builder
	for _, r := range p.Resources {
		title := fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
		if r.Created {
			title += " (new)"
		}
		b.WriteString(s.boldText(s.OneLine(title)) + "\n")
		for _, line := range r.Lines(math.MaxInt32, math.MaxInt32) {
			b.WriteString(s.wrapLines("  ", indent, line))
		}
	}
	if p.Restarts.Pods > 0 {
		b.WriteString(s.paintText(MarkFail, "RESTART  "+message.Count(int(p.Restarts.Pods), "pod")) + "\n")
	}
	b.WriteString(s.wrapLines("", indent, fmt.Sprintf("%d to change, %d to create, %d to delete", p.Objects.Changed, p.Objects.Created, p.Objects.Deleted)))
	return b.String()
}
