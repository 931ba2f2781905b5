package resource

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// taskCase is what a golden case of a Task has next to the Task: the file with the pod template of the App, and the size.
type taskCase struct {
	Base string       `json:"base"`
	Size ResolvedSize `json:"size"`
}

// readTask reads a golden case of a Task.
func readTask(t testing.TB, path string) (task *appv1.Task, base *Base, size ResolvedSize) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, seen, _ := bytes.Cut(data, []byte("\n---\n"))
	var c taskCase
	task = &appv1.Task{}
	for _, part := range []struct {
		text []byte
		into any
	}{{text, task}, {seen, &c}} {
		if err := yaml.UnmarshalStrict(part.text, part.into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if c.Base != "" {
		base = readBase(t, c.Base)
	}
	return task, base, c.Size
}

// readBase reads the pod template of an App.
func readBase(t testing.TB, name string) *Base {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "task", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	base := &Base{Template: &corev1.PodTemplateSpec{}, Selector: map[string]string{"run": "cart"}}
	if err := yaml.UnmarshalStrict(data, base.Template); err != nil {
		t.Fatal(err)
	}
	return base
}

// TestTaskGolden compares the CronJob of each case with the CronJob that was looked at when it was written.
func TestTaskGolden(t *testing.T) {
	for name, path := range cases(t, "task") {
		t.Run(name, func(t *testing.T) {
			task, base, size := readTask(t, path)
			before := base.copied()
			made, errs := Task(task, base, size)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if !equality.Semantic.DeepEqual(before, base) {
				t.Error("the pod template of the App was changed")
			}
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(made.CronJob)
			if err != nil {
				t.Fatal(err)
			}
			delete(fields, "status")
			got, err := yaml.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			file := strings.TrimSuffix(path, ".in.yaml") + ".golden.yaml"
			if *update {
				writeFile(t, file, string(got))
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; write it with: go test ./resource -update", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("CronJob (-want +got), to be written with -update once it is right:\n%s", diff)
			}
		})
	}
}

// copied returns a copy of what a Task inherits, nil for nothing.
func (b *Base) copied() *Base {
	if b == nil {
		return nil
	}
	return &Base{Template: b.Template.DeepCopy(), Main: b.Main, Selector: b.Selector}
}

// TestTaskFromRecord builds each golden case from its own record: the CronJob must be the same.
func TestTaskFromRecord(t *testing.T) {
	for name, path := range cases(t, "task") {
		task, base, size := readTask(t, path)
		made, _ := Task(task, base, size)
		present := task.DeepCopy()
		present.Spec = appv1.TaskSpec{Image: "present", Schedule: "nonsense"}
		past, err := PastTask(present, made.CronJob.Annotations[appv1.AnnotationLastAppliedSpec])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, _ := Task(past, base, size); !equality.Semantic.DeepEqual(made.CronJob, again.CronJob) {
			t.Errorf("%s: %s", name, cmp.Diff(made.CronJob, again.CronJob))
		}
	}
}

// TestTaskRefused has pods that would not end, or that a Service would lead to.
func TestTaskRefused(t *testing.T) {
	for spec, want := range map[string][]string{
		`{podTemplatePatch: {spec: {containers: [{name: log, image: "log:1"}]}}}`:                                 {"spec.podTemplatePatch.spec.containers[log]"},
		`{podTemplatePatch: {spec: {restartPolicy: OnFailure}}}`:                                                  {"spec.podTemplatePatch.spec.restartPolicy"},
		`{podTemplatePatch: {spec: {readinessGates: []}}}`:                                                        {"spec.podTemplatePatch.spec.readinessGates"},
		`{podTemplatePatch: {spec: {readinessGates: [{conditionType: a/b}]}}}`:                                    {"spec.podTemplatePatch.spec.readinessGates"},
		`{podTemplatePatch: {metadata: {labels: {job-name: a}}}}`:                                                 {"spec.podTemplatePatch.metadata.labels[job-name]"},
		`{podTemplatePatch: {metadata: {labels: {app.huolala.cn/task: a}}}}`:                                      {"spec.podTemplatePatch.metadata.labels[app.huolala.cn/task]"},
		`{podTemplatePatch: {spec: {containers: [{name: cart, workingDir: /a}]}}}`:                                nil,
		`{podLabels: {run: cart}}`:                                                                                {"spec.podLabels"},
		`{podLabels: {run: other}}`:                                                                               nil,
		`{initContainers: [{name: cart, image: a}]}`:                                                              {"spec.initContainers"},
		`{containerName: own, initContainers: [{name: own, image: a, restartPolicy: Always}]}`:                    {"spec.initContainers"},
		`{initContainers: [{name: report, image: a, restartPolicy: Always}]}`:                                     nil,
		`{securityContext: {runAsUser: 0, runAsNonRoot: true}}`:                                                   {"spec.securityContext.runAsUser"},
		`{initContainers: [{name: a, image: a, restartPolicy: Always, livenessProbe: {tcpSocket: {port: web}}}]}`: {"spec.initContainers[0].livenessProbe.tcpSocket.port"},
	} {
		task := &appv1.Task{}
		task.Name = "report"
		if err := yaml.UnmarshalStrict([]byte(spec), &task.Spec); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		task.Spec.App, task.Spec.Command, task.Spec.Schedule = "cart", []string{"report"}, "@daily"
		_, errs := Task(task, readBase(t, "app"), ResolvedSize{})
		if diff := cmp.Diff(want, fieldsOf(errs)); diff != "" {
			t.Errorf("%s: %v", spec, errs)
		}
	}
}
