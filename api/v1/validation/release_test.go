package validation

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRelease has canaries that are refused, each with the line to write, and canaries that are not.
func TestRelease(t *testing.T) {
	long := strings.Repeat("a", 57)
	for _, c := range []struct{ name, fields, want string }{
		{"web", `canary: {}`, ""},
		{"web", `canary: {pods: 3}`, ""},
		{"web", `canary: {pods: 20%}`, ""},
		{"web", `canary: {pods: 100%}`, ""},
		{"web", `canary: {promote: Manual}`, ""},
		{"web", `canary: {promote: Auto, after: 10m}`, ""},
		{"web", `canary: {promote: Auto, after: 1h30m}`, ""},
		{"web", `canary: {promote: Auto, after: 168h}`, ""},
		{"web", `{canary: {}, strategy: RollingUpdate}`, ""},
		{"web", `{canary: {}, strategy: Recreate}`, `spec.canary: Invalid value: needs a rolling update, because old and new pods run side by side; write "strategy: RollingUpdate"`},
		{"web", `canary: {promote: Auto}`, `spec.canary.promote: Invalid value: "Auto": Auto needs a time; write "after: 10m"`},
		{"web", `canary: {after: 10m}`, `spec.canary.after: Invalid value: "10m": is valid only with automatic promotion; write "promote: Auto"`},
		{"web", `canary: {promote: Manual, after: 10m}`, `spec.canary.after: Invalid value: "10m": is valid only`},
		{"web", `canary: {promote: Sometimes}`, `spec.canary.promote: Unsupported value: "Sometimes"`},
		{"web", `canary: {pods: 0}`, `spec.canary.pods: Invalid value: "0": must be a number of at least 1, or a percentage from 1% to 100%; write "pods: 1"`},
		{"web", `canary: {pods: 0%}`, `spec.canary.pods: Invalid value: "0%"`},
		{"web", `canary: {pods: 101%}`, `spec.canary.pods: Invalid value: "101%"`},
		{"web", `canary: {pods: many}`, `spec.canary.pods: Invalid value: "many"`},
		{"web", `canary: {promote: Auto, after: 0s}`, `spec.canary.after: Invalid value: "0s": must be a time from 1s to 168h`},
		{"web", `canary: {promote: Auto, after: 169h}`, `spec.canary.after: Invalid value: "169h"`},
		{"web", `canary: {promote: Auto, after: "10"}`, `spec.canary.after: Invalid value: "10"`},
		{"web", `canary: {promote: Auto, after: -1m}`, `spec.canary.after: Invalid value: "-1m"`},
		{"web", `canary: {promote: Auto, after: 1.5h}`, `spec.canary.after: Invalid value: "1.5h"`},
		{long, `canary: {}`, `spec.canary: Invalid value: is too long for a canary`},
		{long[1:], `canary: {}`, ""},
		{long, `replicas: 1`, ""},
	} {
		app := servedApp(t, c.fields)
		app.Name = c.name
		errs := App(app)
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want)) {
			t.Errorf("%s with %s: %v, want %q", c.name, c.fields, errs, c.want)
		}
	}
}

// TestCanaryTime has the times of a canary.
func TestCanaryTime(t *testing.T) {
	for after, want := range map[string]time.Duration{"1s": time.Second, "90s": 90 * time.Second, "1h2m3s": time.Hour + 2*time.Minute + 3*time.Second, "": 0, "h": 0, "1d": 0} {
		if got, ok := CanaryTime(after); got != want || ok != (want > 0) {
			t.Errorf("%q is %s, %t", after, got, ok)
		}
	}
}

// TestReleaseWarnings warns of canaries that seldom are intended.
func TestReleaseWarnings(t *testing.T) {
	for fields, want := range map[string]string{
		`{replicas: 4, canary: {}}`:           "",
		`{replicas: 4, canary: {pods: 5}}`:    "canary.pods: is not less than the number of pods",
		`{replicas: 4, canary: {pods: 100%}}`: "canary.pods: is not less than the number of pods",
		`{replicas: 0, canary: {pods: 5}}`:    "",
		`{canary: {}, autoscaling: {maxReplicas: 9, targetMemoryUtilizationPercentage: 80}}`:                 "canary: has pods that count for the autoscaling by memory",
		`{canary: {}, autoscaling: {maxReplicas: 9, metrics: [{type: Resource, resource: {name: memory}}]}}`: "canary: has pods that count for the autoscaling by memory",
		`{canary: {}, autoscaling: {maxReplicas: 9, targetCPUUtilizationPercentage: 80}}`:                    "",
	} {
		app := servedApp(t, fields)
		said := releaseWarnings(&app.Spec.ReleaseSpec, &app.Spec.ServingSpec, app.Spec.Replicas, nil)
		if want == "" && len(said) > 0 || want != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%s: %q, want %q", fields, said, want)
		}
	}
}
