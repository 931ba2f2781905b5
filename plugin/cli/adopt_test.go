package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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

// adopting is a server with the App web, whose annotation of an adoption is patched. The condition Applied changes with each read after the first patch,
// as the conditions say; the last one stays.
type adopting struct {
	*fakeServer
	mu         sync.Mutex
	app        *appv1.App
	conditions []metav1.Condition
	// others is the value that another user sets after the first patch, empty for none.
	others string
	set    []string
}

// answerAdoption answers reads and patches of the App.
func (s *adopting) answerAdoption(q *http.Request, body string) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.HasSuffix(q.URL.Path, "/apps/web") {
		return nil
	}
	switch {
	case q.Method == http.MethodPatch:
		var patch struct {
			Metadata struct {
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		_ = json.Unmarshal([]byte(body), &patch)
		value := ""
		if to := patch.Metadata.Annotations[appv1.AnnotationAdopt]; to != nil {
			value = *to
		}
		s.app.Annotations = map[string]string{appv1.AnnotationAdopt: value}
		if s.set = append(s.set, value); s.others != "" {
			s.app.Annotations[appv1.AnnotationAdopt] = s.others
		}
	case len(s.set) == 1 && len(s.conditions) > 0:
		s.app.Status.Conditions, s.conditions = s.conditions[:1], s.conditions[1:]
	}
	return s.app.DeepCopy()
}

// TestAdoptionIsUndone carries adoptions out. A refusal of before the annotation is no answer to it, and after a refusal the annotation is as it was: it
// would take the objects over at any later time.
func TestAdoptionIsUndone(t *testing.T) {
	kind, _ := view.KindOf("App")
	condition := func(status metav1.ConditionStatus, reason, message string, at int64) metav1.Condition {
		return metav1.Condition{Type: appv1.ConditionApplied, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Unix(at, 0)}
	}
	exists := condition(metav1.ConditionFalse, appv1.ReasonResourceExists, "taken", 1)
	refused := condition(metav1.ConditionFalse, appv1.ReasonAdoptionRestarts, "the image differs", 1)
	again := condition(metav1.ConditionFalse, appv1.ReasonAdoptionRestarts, "the image differs now", 1)
	applied := condition(metav1.ConditionTrue, appv1.ReasonApplied, "", 2)
	const mode = appv1.AdoptWithoutRestart
	for name, c := range map[string]struct {
		value  string
		before metav1.Condition
		after  []metav1.Condition
		others string
		want   string
		set    []string
	}{
		"taken over":                    {"", exists, []metav1.Condition{exists, applied}, "", "", []string{mode, ""}},
		"a refusal of before":           {"", refused, []metav1.Condition{refused, applied}, "", "", []string{mode, ""}},
		"a refusal":                     {"", exists, []metav1.Condition{refused}, "", "AdoptionRestarts: the image differs", []string{mode, ""}},
		"another refusal":               {"", refused, []metav1.Condition{refused, again}, "", "the image differs now", []string{mode, ""}},
		"a refusal, with a value":       {"true", exists, []metav1.Condition{refused}, "", "the image differs", []string{mode, "true"}},
		"a refusal, with the value":     {mode, exists, []metav1.Condition{refused}, "", "the image differs", []string{mode, mode}},
		"a refusal, changed since then": {"", exists, []metav1.Condition{refused}, "true", "the image differs", []string{mode}},
	} {
		t.Run(name, func(t *testing.T) {
			app := &appv1.App{ObjectMeta: objectMeta("web")}
			app.Status.ObservedGeneration, app.Status.Conditions = app.Generation, []metav1.Condition{c.before}
			if c.value != "" {
				app.Annotations = map[string]string{appv1.AnnotationAdopt: c.value}
			}
			s := &adopting{fakeServer: newFakeServer(t, nil), app: app, conditions: c.after, others: c.others}
			s.answer = s.answerAdoption
			follower := (&runServer{fakeServer: s.fakeServer}).follower(t, nil, &bytes.Buffer{})
			err := follower.carryOutAdoption(t.Context(), follower.c, target{kind, namespaceOfTests, "web"}, mode, time.Minute)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !slices.Equal(s.set, c.set) {
				t.Errorf("the annotation is set to %q, want %q", s.set, c.set)
			}
		})
	}
}
