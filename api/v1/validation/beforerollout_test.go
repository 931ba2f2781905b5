package validation

import (
	"strings"
	"testing"
)

// TestBeforeRollout has commands before a rollout, and the field and the words of the error, empty for none.
func TestBeforeRollout(t *testing.T) {
	for fields, want := range map[string]string{
		`{command: [/app/migrate]}`: "",
		`{command: [/app/migrate], args: [up], envs: [{name: A, value: b}], deadlineSeconds: 86400, retries: 10}`: "",
		`{}`:                                                         "spec.beforeRollout.command: Required value",
		`{command: [a], deadlineSeconds: 0}`:                         "spec.beforeRollout.deadlineSeconds: Invalid value: 0: must be from 1 to 86400",
		`{command: [a], deadlineSeconds: 86401}`:                     "spec.beforeRollout.deadlineSeconds: Invalid value: 86401",
		`{command: [a], retries: 11}`:                                "spec.beforeRollout.retries: Invalid value: 11: must be from 0 to 10",
		`{command: [a], retries: -1}`:                                "spec.beforeRollout.retries: Invalid value: -1",
		`{command: ["a\0"]}`:                                         "spec.beforeRollout.command[0]",
		`{command: [a], args: ["a\0"]}`:                              "spec.beforeRollout.args[0]",
		`{command: [a], envs: [{name: A, value: "a\0"}]}`:            "spec.beforeRollout.envs[0].value",
		`{command: [a], envs: [{name: "="}]}`:                        "spec.beforeRollout.envs[0].name",
		`{command: [a], envs: [{name: A}, {name: A}]}`:               "spec.beforeRollout.envs[1]",
		`{command: [a], envs: [{name: A, value: b, valueFrom: {}}]}`: "spec.beforeRollout.envs[0].valueFrom",
	} {
		app := servedApp(t, "{beforeRollout: "+fields+"}")
		errs := App(app)
		if want == "" && len(errs) > 0 || want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), want)) {
			t.Errorf("%s: %v, want %q", fields, errs, want)
		}
	}
}
