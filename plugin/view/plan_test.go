package view

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
)

// TestPlan sums up plans: what changes, what restarts, and what is in the way.
func TestPlan(t *testing.T) {
	image := plan.Field{Path: "template.containers[web].image", Change: plan.FieldModified, From: ptr.To("nginx:1"), To: ptr.To("nginx:2")}
	restart := &plan.Plan{Kind: "App", Namespace: "shop", Name: "web", Objects: []plan.Object{
		{Kind: "Deployment", Name: "web", Action: plan.Changed, Fields: []plan.Field{image}, Pods: &plan.Pods{Replaced: true, Running: 3, Wanted: 2}},
		{Kind: "Ingress", Name: "web", Action: plan.Created},
		{Kind: "Service", Name: "old", Action: plan.Deleted},
		{Kind: "HTTPRoute", Name: "web", Action: plan.Blocked, Problem: &plan.Problem{Reason: "KindMissing", Message: "\x1b[31mred"}},
	}}
	nothing := &plan.Plan{Kind: "App", Namespace: "shop", Name: "cart"}
	for name, c := range map[string]struct {
		plans            []*plan.Plan
		changes, problem bool
		pods             int32
		objects          Objects
		says             []string
	}{
		"nothing": {plans: []*plan.Plan{nothing}, says: []string{"App shop/cart\n  nothing changes\n", "0 to change, 0 to create, 0 to delete"}},
		"both": {
			plans: []*plan.Plan{restart, nothing}, changes: true, pods: 2, objects: Objects{Created: 1, Changed: 1, Deleted: 1},
			says: []string{
				"  Deployment web: changed, 2 pods are replaced", "  Deployment web: template.containers[web].image: nginx:1 -> nginx:2\n",
				"RESTART  2 pods\n1 to change, 1 to create, 1 to delete\n",
			},
		},
		"new":        {plans: []*plan.Plan{{Kind: "App", Namespace: "shop", Name: "x", Created: true}}, changes: true, says: []string{"App shop/x (new)"}},
		"incomplete": {plans: []*plan.Plan{{Incomplete: true}}, changes: true, says: []string{"run it again"}},
		"a problem": {
			plans: []*plan.Plan{{Problem: &plan.Problem{Reason: "Invalid", Message: "spec.image"}}}, problem: true, says: []string{"Invalid: spec.image"},
		},
	} {
		p := PlanOf(c.plans...)
		if p.HasChanges() != c.changes || p.HasProblem() != c.problem || p.Restarts.Pods != c.pods || p.Objects != c.objects {
			t.Errorf("%s: %+v", name, p)
		}
		text := p.Text(Style{})
		for _, words := range c.says {
			if !strings.Contains(text, words) {
				t.Errorf("%s: no %q in\n%s", name, words, text)
			}
		}
		for line := range strings.Lines(p.Text(Style{Width: 30, ASCII: true})) {
			if len(line) > 31 && strings.Contains(strings.TrimSpace(line), " ") || strings.Contains(line, "\x1b") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

// TestObstacle tells what is in the way of a change from the states in which a change takes effect later, and from what the resource
// reports already.
func TestObstacle(t *testing.T) {
	r := newApp("nginx:1", condition(appv1.ConditionApplied, metav1.ConditionFalse, appv1.ReasonResourceExists, "is there"))
	for reason, blocked := range map[string]bool{
		"": false, appv1.ReasonHeld: false, appv1.ReasonRolledBack: false, appv1.ReasonDependencyNotReady: false, appv1.ReasonResourceExists: false,
		appv1.ReasonRevisionNotFound: true, appv1.ReasonInvalid: true, appv1.ReasonAdoptionRestarts: true,
	} {
		made := &plan.Plan{}
		if reason != "" {
			made.Problem = &plan.Problem{Reason: reason, Message: "words"}
		}
		if got := PlanOf(made).FindObstacle(&r); (got != nil) != blocked {
			t.Errorf("%s: the obstacle is %+v", reason, got)
		}
	}
}
