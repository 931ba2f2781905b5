package validation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// taskOf returns a Task of YAML.
func taskOf(t *testing.T, spec string) *appv1.Task {
	t.Helper()
	task := &appv1.Task{}
	task.Name = "report"
	if err := yaml.UnmarshalStrict([]byte(spec), &task.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return task
}

// TestTask breaks the rules of Tasks one at a time.
func TestTask(t *testing.T) {
	const valid = `image: "a:1", schedule: "0 5 * * *"`
	for spec, want := range map[string][]string{
		`{` + valid + `}`: nil,
		`{app: cart, command: [a], schedule: "@daily", timeZone: Asia/Shanghai}`:                                                                nil,
		`{app: cart, args: [a], schedule: "@every 1h30m"}`:                                                                                      nil,
		`{app: cart, image: "a:1", schedule: "*/5 0-6 1,15 JAN-MAR MON"}`:                                                                       nil,
		`{app: cart, command: [a], schedule: "@daily", initContainers: [{name: report, image: "a:1", restartPolicy: Always}]}`:                  nil,
		`{app: cart, command: [a], schedule: "@daily", podAnnotations: {container.apparmor.security.beta.kubernetes.io/cart: runtime/default}}`: nil,
		`{schedule: "@daily"}`:                                                                   {"spec.image"},
		`{app: cart, schedule: "@daily"}`:                                                        {"spec.command"},
		`{image: "a:1"}`:                                                                         {"spec.schedule"},
		`{image: "a:1", schedule: "0 5 * *"}`:                                                    {"spec.schedule"},
		`{image: "a:1", schedule: "0 0 5 * * *"}`:                                                {"spec.schedule"},
		`{image: "a:1", schedule: "60 5 * * *"}`:                                                 {"spec.schedule"},
		`{image: "a:1", schedule: "TZ=UTC"}`:                                                     {"spec.schedule"}, // The parser panics.
		`{image: "a:1", schedule: "CRON_TZ=UTC 0 5 * * *"}`:                                      {"spec.schedule"},
		`{` + valid + `, timeZone: ""}`:                                                          {"spec.timeZone"},
		`{` + valid + `, timeZone: Local}`:                                                       {"spec.timeZone"},
		`{` + valid + `, timeZone: local}`:                                                       {"spec.timeZone"},
		`{` + valid + `, timeZone: Asia/Atlantis}`:                                               {"spec.timeZone"},
		`{` + valid + `, timeZone: ../UTC}`:                                                      {"spec.timeZone"},
		`{` + valid + `, concurrency: Sometimes}`:                                                {"spec.concurrency"},
		`{` + valid + `, deadlineSeconds: 0}`:                                                    {"spec.deadlineSeconds"},
		`{` + valid + `, startingDeadlineSeconds: 9}`:                                            {"spec.startingDeadlineSeconds"},
		`{image: "a:1", schedule: "@every 59s"}`:                                                 {"spec.schedule"},
		`{image: "a:1", schedule: "@every 1m"}`:                                                  nil,
		`{image: "a:1", schedule: "@every 1h", startingDeadlineSeconds: 3600}`:                   {"spec.startingDeadlineSeconds"},
		`{image: "a:1", schedule: "@every 1h", startingDeadlineSeconds: 3601}`:                   nil,
		`{` + valid + `, retries: 11}`:                                                           {"spec.retries"},
		`{` + valid + `, keep: {succeeded: -1, failed: 0}}`:                                      {"spec.keep.succeeded", "spec.keep.failed"},
		`{` + valid + `, keep: {succeeded: 0, failed: 100}}`:                                     nil,
		`{` + valid + `, containers: [{name: proxy, image: "p:1"}]}`:                             {"spec.containers"},
		`{` + valid + `, initContainers: [{name: proxy, image: "p:1", restartPolicy: Always}]}`:  nil,
		`{` + valid + `, podLabels: {job-name: a, batch.kubernetes.io/controller-uid: b, x: z}}`: {"spec.podLabels[batch.kubernetes.io/controller-uid]", "spec.podLabels[job-name]"},
		`{` + valid + `, podLabels: {app.huolala.cn/task: other}}`:                               {"spec.podLabels[app.huolala.cn/task]"},
		`{` + valid + `, volumeMounts: [{name: data, mountPath: /data}]}`:                        {"spec.volumeMounts[0].name"},
		// The volume may be the App's.
		`{app: cart, command: [a], schedule: "@daily", volumeMounts: [{name: data, mountPath: /data}]}`: nil,
		`{` + valid + `, envs: [{name: A, value: a}, {name: "", value: b}]}`:                            {"spec.envs[1].name"},
	} {
		var fields []string
		for _, err := range Task(taskOf(t, spec)) {
			fields = append(fields, err.Field)
		}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("%s: %s", spec, diff)
		}
	}
}

// TestTaskBounds has texts at the limits of a Task: they cost no more than others.
func TestTaskBounds(t *testing.T) {
	task := taskOf(t, `{image: "a:1", schedule: "@daily"}`)
	task.Name = strings.Repeat("a", appv1.MaxTaskName)
	task.Spec.Schedule = strings.Repeat("0,", 124) + "0 5 * * *" // 257 characters, and one less.
	if errs := Task(task); len(task.Spec.Schedule) != maxSchedule+1 || len(errs) != 1 || errs[0].Field != "spec.schedule" {
		t.Errorf("a schedule of %d characters: %v", len(task.Spec.Schedule), errs)
	}
	task.Spec.Schedule = task.Spec.Schedule[1:]
	task.Spec.Schedule = "0" + task.Spec.Schedule[1:]
	if errs := Task(task); len(task.Spec.Schedule) != maxSchedule || len(errs) != 0 {
		t.Errorf("a schedule of %d characters: %v", len(task.Spec.Schedule), errs)
	}
	task.Name += "a"
	if errs := Task(task); len(errs) != 1 || errs[0].Field != "metadata.name" {
		t.Errorf("a name of 53 characters: %v", errs)
	}
}

// TestScheduleNext has times of schedules. A schedule that never comes has none.
func TestScheduleNext(t *testing.T) {
	base := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	for _, c := range []struct {
		schedule, zone string
		now            time.Duration
		want           string
	}{
		{"0 5 * * *", "", 0, "2026-03-02T05:00:00Z"},
		{"0 5 * * *", "", 48 * time.Hour, "2026-03-04T05:00:00Z"},
		{"0 5 * * *", "Asia/Shanghai", 0, "2026-03-01T21:00:00Z"},
		{"30 2 29 3 *", "Europe/Berlin", 0, "2027-03-29T00:30:00Z"}, // The clock is put forward at this time in 2026.
		{"@every 1h", "", 0, "2026-03-01T13:00:30Z"},
		{"@every 1h", "", 30 * time.Minute, "2026-03-01T13:00:30Z"},
		{"@every 1h", "", 150 * time.Minute, "2026-03-01T15:00:30Z"},
		{"@every 1h", "", 2 * time.Hour, "2026-03-01T15:00:30Z"},
		{"0 0 30 2 *", "", 0, "0001-01-01T00:00:00Z"},
	} {
		var zone *string
		if c.zone != "" {
			zone = ptr.To(c.zone)
		}
		s, ok := ScheduleOf(c.schedule, zone)
		if !ok {
			t.Fatalf("%s is not valid", c.schedule)
		}
		if got := s.Next(base, base.Add(c.now)).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.schedule, c.zone, got, c.want)
		}
	}
}

// TestTaskWarnings has settings of a Task that are seldom meant.
func TestTaskWarnings(t *testing.T) {
	for spec, want := range map[string][]string{
		`{image: "a:1", schedule: "0 0 30 2 *", size: small}`:     {"spec.schedule"},
		`{image: "a:1", schedule: "0 0 29 2 *", size: small}`:     nil,
		`{image: a, schedule: "@daily"}`:                          {"spec.image", "spec.resources"},
		`{app: cart, command: [a], schedule: "@daily"}`:           nil,
		`{app: cart, command: [a], schedule: "nonsense"}`:         nil,
		`{app: cart, image: "a:latest", schedule: "@every 1h0m"}`: {"spec.image"},
	} {
		var fields []string
		for _, said := range TaskWarnings(taskOf(t, spec)) {
			at, _, _ := strings.Cut(said, ": ")
			fields = append(fields, at)
		}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("%s: %s", spec, diff)
		}
	}
}
