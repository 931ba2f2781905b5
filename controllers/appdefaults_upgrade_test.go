package controllers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestUnrunnableDefaultsStayInForce restarts the operator with AppDefaults that an earlier release has put in force, and whose container cannot run:
// they are not valid, and count for an App that does without the container and for the size of a Task. A valid spec of before takes precedence.
func TestUnrunnableDefaultsStayInForce(t *testing.T) {
	const (
		container = `"containers":[{"name":"proxy","image":"a:1","readinessProbe":{"httpGet":{"port":"metrics"}}}]`
		stored    = `{"sizes":{"huge":{"limits":{"cpu":"2"}}},"defaults":{"podAnnotations":{"a":"1"},` + container + `}}`
		runnable  = `{"sizes":{"huge":{"limits":{"cpu":"3"}}},"defaults":{"podAnnotations":{"a":"2"}}}`
	)
	encoded := func(spec string) string { return encodeLastValid(newAppDefaults(t, namespace, spec).Raw()) }
	forEach(t, map[string]struct{ lastValid, annotations, cpu string }{
		"known by the status":         {encoded(stored), "map[a:1]", "2"},
		"lost":                        {"", "map[a:1]", "2"},
		"stored while no webhook ran": {encoded(runnable), "map[a:2]", "3"},
	}, func(t *testing.T, what string, c struct{ lastValid, annotations, cpu string }) {
		const spec = `{"image":"nginx:1","replicas":1,"withoutDefaults":["containers"]}`
		w := newWorld(t, newStored(t, kindNamed(t, "App"), spec), newStored(t, kindNamed(t, "Task"), `{"image":"nginx:1","schedule":"@daily","size":"huge"}`))
		w.setDefaults(namespace, stored)
		w.loseLastValid(namespace, c.lastValid)
		w.restart()
		w.settle("App")
		w.setSpec("App", strings.Replace(spec, "nginx:1", "nginx:2", 1))
		w.settle("App")
		if got, image := w.annotationsOfPods(), w.deployment().Spec.Template.Spec.Containers[0].Image; got != c.annotations || image != "nginx:2" {
			t.Errorf("%s: the pods have %s and %s", what, got, image)
		}
		w.settle("Task")
		w.stands(what, "Task", "Applied=True/Applied")
		if got := w.cronJob().Spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Limits.Cpu().String(); got != c.cpu {
			t.Errorf("%s: the limit of the Task is %s", what, got)
		}
		valid := meta.FindStatusCondition(w.defaultsStatus(namespace).Conditions, appv1.ConditionValid)
		if valid == nil || valid.Reason != appv1.ReasonInvalid || !strings.Contains(valid.Message, "spec.defaults.containers[0].readinessProbe.httpGet.port") {
			t.Errorf("%s: the AppDefaults are %+v", what, valid)
		}
	})
}

// TestUnrunnableDefaultsInForceAreRecorded has AppDefaults in force whose container cannot run, with a status that records no valid spec, and stores another
// spec while no webhook runs: what counts before a restart of the operator counts after it.
func TestUnrunnableDefaultsInForceAreRecorded(t *testing.T) {
	spec := func(value string) string {
		return `{"defaults":{"podAnnotations":{"a":"` + value + `"},"containers":[{"name":"proxy","image":"a:1","readinessProbe":{"httpGet":{"port":"metrics"}}}]}}`
	}
	forEach(t, map[string]struct{ lastValid, later string }{
		"none recorded, invalid later":     {"", `{"defaults":{"minReadySeconds":700}}`},
		"none recorded, unrunnable later":  {"", spec("2")},
		"of another writer, invalid later": {"AAAA", `{"defaults":{"minReadySeconds":700}}`},
	}, func(t *testing.T, what string, c struct{ lastValid, later string }) {
		w := newWorld(t)
		w.setDefaults(namespace, spec("1"))
		w.loseLastValid(namespace, c.lastValid)
		w.restart()
		has := func(when string) {
			t.Helper()
			status := w.defaultsStatus(namespace)
			present, err := w.Defaults.Present(t.Context(), namespace)
			if err != nil || present.Unknown != "" {
				t.Errorf("%s, %s: the defaults are unknown: %q, %v", what, when, present.Unknown, err)
			}
			if known, err := w.defaults.readDefaults(t.Context(), namespace); err != nil || known.valid == nil || known.valid.Defaults.PodAnnotations["a"] != "1" {
				t.Errorf("%s, %s: in force is %+v, %v", what, when, known.valid, err)
			}
			if valid := decodeLastValid(status.LastValid); valid == nil || valid.Defaults.PodAnnotations["a"] != "1" {
				t.Errorf("%s, %s: the status records %+v", what, when, valid)
			}
			if meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionValid) {
				t.Errorf("%s, %s: the AppDefaults are valid", what, when)
			}
		}
		has("at first")
		w.setDefaults(namespace, c.later)
		has("with another spec")
		w.restart()
		has("after a restart")
		w.script.text.Reset() // No resource has the defaults.
	})
}
