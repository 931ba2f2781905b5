package view

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestCauseOfDefaults compares two ReplicaSets of one spec: other defaults are the cause, and another record with the same meaning is not.
func TestCauseOfDefaults(t *testing.T) {
	// The second record has the default podAnnotations {a: 2}.
	with := func(inputs string) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{}
		rs.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: inputs}
		return rs
	}
	const plain, defaulted = `{"rendering":2}`, `{"rendering":2,"defaults":"qlZKy0zNSSlWsqpWKshPcczLyy9JLMnMzwOLJCpZKRkp1dbWAgIAAP//"}`
	for want, sets := range map[string][2]string{
		"other defaults of AppDefaults": {plain, defaulted},
		"newer rendering or size":       {`{"rendering":0}`, plain},
		"":                              {defaulted, defaulted},
	} {
		if got := causeOf(with(sets[0]), with(sets[1])); got != want {
			t.Errorf("the cause is %q, want %q", got, want)
		}
	}
}

// TestWhySaysWhichDefaults has an App with the present defaults, with earlier ones, and without; also before its first pods.
func TestWhySaysWhichDefaults(t *testing.T) {
	for says, used := range map[string]*appv1.DefaultsInUse{
		"":                                   nil,
		"those of the present AppDefaults":   {Current: true},
		"kubectl happ plan cart":             {},
		"present AppDefaults: spec.rollback": {Invalid: "spec.rollback"},
	} {
		s := cases()["ready"]
		s.Resource = s.Resource.withDefaults(used)
		s.Resource.Selector = "app=cart"
		text := WhyOf(s, 0).Text(Style{}, time.Unix(0, 0))
		if got := strings.Contains(text, "Defaults "); got != (used != nil) || !strings.Contains(text, says) {
			t.Errorf("%q: %s", says, text)
		}
		if s.Resource.CanRefresh() != (used != nil && !used.Current && used.Invalid == "") {
			t.Errorf("%q: can be refreshed: %t", says, s.Resource.CanRefresh())
		}
	}
	for says, used := range map[string]*appv1.DefaultsInUse{
		"none yet: its first pods have those of the present AppDefaults":                 {},
		"none yet. It cannot have those of the present AppDefaults: spec.rollback is no": {Invalid: "spec.rollback is no"},
	} {
		s := cases()["ready"]
		s.Resource = s.Resource.withDefaults(used)
		s.Resource.Selector = ""
		if got := WhyOf(s, 0).Defaults; got != says {
			t.Errorf("before the first pods: %q, want %q", got, says)
		}
	}
}
