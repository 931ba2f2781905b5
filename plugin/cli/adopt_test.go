package cli

import (
	"strings"
	"testing"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// TestProvePlan checks which plans an adoption is carried out by, without and with a restart.
func TestProvePlan(t *testing.T) {
	problem := func(reason, message string) *plan.Problem { return &plan.Problem{Reason: reason, Message: message} }
	replaced := []plan.Object{{Kind: "Deployment", Name: "db", TakenOver: true, Pods: &plan.Pods{Replaced: true, Running: 1, Wanted: 1}}}
	const waiting = "Waiting for cm-db to be available before creating cm-identity"
	for name, c := range map[string]struct {
		plan                  plan.Plan
		without, with, absent string
	}{
		"plain":     {plan: plan.Plan{Objects: []plan.Object{{Kind: "Service", Name: "db", TakenOver: true}}}},
		"restarts":  {plan: plan.Plan{Objects: replaced}, without: "1 pod would restart; nothing was changed"},
		"waits":     {plan: plan.Plan{Objects: replaced, Problem: problem(appv1.ReasonDependencyNotReady, waiting)}, without: "DependencyNotReady: " + waiting + "; nothing"},
		"forbidden": {plan: plan.Plan{Problem: problem(appv1.ReasonForbidden, "no")}, without: "Forbidden: no; nothing", with: "Forbidden: no; nothing"},
		"blocked": {
			plan:    plan.Plan{Objects: []plan.Object{{Kind: "Ingress", Name: "db", Problem: problem(appv1.ReasonResourceExists, "taken")}}},
			without: "Ingress db is blocked", with: "Ingress db is blocked",
		},
		"a blocked object of a plan that waits": {
			plan: plan.Plan{
				Objects: []plan.Object{{Kind: "Ingress", Name: "db", Problem: problem(appv1.ReasonResourceExists, "taken")}},
				Problem: problem(appv1.ReasonDependencyNotReady, waiting),
			},
			without: "Ingress db is blocked", with: "Ingress db is blocked",
		},
		"paused":     {plan: plan.Plan{Paused: true}, without: "is paused", with: "is paused"},
		"incomplete": {plan: plan.Plan{Incomplete: true}, without: "not complete"},
		"said already": {
			plan:    plan.Plan{Problem: problem(appv1.ReasonAdoptionRestarts, "it differs. The operator has changed nothing, because")},
			without: "changed nothing", with: "changed nothing", absent: "nothing was changed",
		},
	} {
		for restart, want := range map[bool]string{false: c.without, true: c.with} {
			err := provePlan(&c.plan, restart)
			switch {
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, restart is %t: %v, want %q", name, restart, err, want)
			case err != nil && c.absent != "" && strings.Contains(err.Error(), c.absent):
				t.Errorf("%s, restart is %t: %v says %q", name, restart, err, c.absent)
			}
		}
	}
	got := adoptQuestion(target{name: "cm"}, &plan.Plan{Objects: replaced, Problem: problem(appv1.ReasonDependencyNotReady, waiting)}, true)
	if !strings.Contains(got, "1 pod restarts. Those of later tiers follow") {
		t.Errorf("it asks %q", got)
	}
}

// TestGentlestAdoption compares the value that messages advise with what a kind can do.
func TestGentlestAdoption(t *testing.T) {
	for _, kind := range view.Kinds {
		if gentle := appv1.GentlestAdoption(kind.Name) == appv1.AdoptWithoutRestart; gentle != kind.Holds {
			t.Errorf("%s: without a restart is %t, the kind can adopt so: %t", kind.Name, gentle, kind.Holds)
		}
	}
}
