package task

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
)

// day returns a time of the day of the tests.
func day(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-03-02 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// ranAt returns the time of a run, nil for an empty one.
func ranAt(clock string) *metav1.Time {
	if clock == "" {
		return nil
	}
	return ptr.To(metav1.NewTime(day(clock)))
}

// jobAt returns a Job that was created at a time, and that has ended at another time in a way, or runs.
func jobAt(name, created, ended string, how batchv1.JobConditionType) batchv1.Job {
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(day(created))}}
	if how != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(day(ended))}}
	}
	return job
}

// suspended returns a Job that is suspended.
func suspended(job batchv1.Job) batchv1.Job {
	job.Spec.Suspend = ptr.To(true)
	return job
}

// cached trims a CronJob as the cache of the manager does.
func cached(live *batchv1.CronJob) *batchv1.CronJob {
	children.TypeOf(live).Trim(live)
	return live
}

// TestTiming has runs that are due, late, missed and left out.
func TestTiming(t *testing.T) {
	deadline := func(seconds int64) batchv1.CronJobSpec { return batchv1.CronJobSpec{StartingDeadlineSeconds: &seconds} }
	forbid := func(seconds int64) batchv1.CronJobSpec {
		spec := deadline(seconds)
		spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
		return spec
	}
	for name, c := range map[string]struct {
		spec                  batchv1.CronJobSpec
		now, scheduled, since string
		active                bool
		ended, success        string
		// byHand is when the latest run started, where a user has started it.
		byHand              string
		next, missed, again string
	}{
		"before the first run":               {now: "04:00:00", next: "05:00:00", again: "05:02:00"},
		"after a run":                        {now: "05:00:01", scheduled: "05:00:00", next: "06:00:00", again: "06:02:00"},
		"a little late":                      {now: "05:01:59", next: "06:00:00", again: "05:02:00"},
		"too late":                           {now: "05:02:00", next: "06:00:00", missed: "05:00:00", again: "06:02:00"},
		"long too late":                      {now: "09:30:00", next: "10:00:00", missed: "05:00:00", again: "10:02:00"},
		"later than its deadline":            {spec: deadline(600), now: "05:10:00", next: "06:00:00", missed: "05:00:00", again: "06:10:00"},
		"within its deadline":                {spec: deadline(600), now: "05:09:59", next: "06:00:00", again: "05:10:00"},
		"a deadline below the patience":      {spec: deadline(10), now: "05:01:00", next: "06:00:00", again: "05:02:00"},
		"left out next to another run":       {spec: batchv1.CronJobSpec{ConcurrencyPolicy: batchv1.ForbidConcurrent}, now: "05:30:00", active: true, next: "06:00:00", again: "06:00:00"},
		"left out, with a deadline":          {spec: forbid(600), now: "05:30:00", active: true, next: "06:00:00", again: "06:00:00"},
		"allowed next to another run":        {spec: batchv1.CronJobSpec{ConcurrencyPolicy: batchv1.AllowConcurrent}, now: "05:30:00", active: true, next: "06:00:00", missed: "05:00:00", again: "06:02:00"},
		"left out, and the other has ended":  {spec: forbid(600), now: "05:40:00", scheduled: "04:00:00", ended: "05:30:00", next: "06:00:00", again: "06:10:00"},
		"left out, and the other is deleted": {spec: forbid(600), now: "05:40:00", scheduled: "04:00:00", success: "05:30:00", next: "06:00:00", again: "06:10:00"},
		"not left out, as it ended in time":  {spec: forbid(600), now: "05:40:00", scheduled: "04:00:00", ended: "05:05:00", next: "06:00:00", missed: "05:00:00", again: "06:10:00"},
		"not left out without a deadline":    {spec: forbid(0), now: "05:40:00", scheduled: "04:00:00", ended: "05:30:00", next: "06:00:00", missed: "05:00:00", again: "06:02:00"},
		"missed, and started by hand":        {spec: deadline(600), now: "05:40:00", byHand: "05:30:00", next: "06:00:00", again: "06:10:00"},
		"suspended":                          {spec: batchv1.CronJobSpec{Suspend: ptr.To(true)}, now: "05:30:00"},
		"the schedule was changed since":     {now: "05:30:00", since: "2026-03-02T05:15:00Z", next: "06:00:00", again: "06:02:00"},
		"the schedule was changed before":    {now: "05:30:00", since: "2026-03-02T04:59:00Z", next: "06:00:00", missed: "05:00:00", again: "06:02:00"},
		"a time that is none":                {now: "05:30:00", since: "yesterday", next: "06:00:00", missed: "05:00:00", again: "06:02:00"},
		"a schedule that never comes":        {spec: batchv1.CronJobSpec{Schedule: "0 0 30 2 *"}, now: "05:30:00"},
		"no schedule":                        {spec: batchv1.CronJobSpec{Schedule: "nonsense"}, now: "05:30:00"},
		"no time zone":                       {spec: batchv1.CronJobSpec{TimeZone: ptr.To("Nowhere/At_All")}, now: "05:30:00"},
	} {
		if c.spec.Schedule == "" {
			c.spec.Schedule = "0 * * * *"
		}
		live := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(day("04:00:00"))}, Spec: c.spec}
		live.Status.LastScheduleTime, live.Status.LastSuccessfulTime = ranAt(c.scheduled), ranAt(c.success)
		if c.since != "" {
			live.Annotations = map[string]string{appv1.AnnotationScheduleSince: c.since}
		}
		// A Job that was created by hand is not among the active ones, and hides no missed run.
		seen := &observed{at: day(c.now), jobs: []batchv1.Job{jobAt("by-hand", "04:00:00", "", "")}}
		if c.active {
			live.Status.Active = []corev1.ObjectReference{{Name: "a"}}
		}
		var last *appv1.TaskRun
		if c.ended != "" {
			last = &appv1.TaskRun{Job: "a", Started: ranAt("04:00:00"), Finished: ranAt(c.ended), Result: appv1.TaskFailed}
		}
		if c.byHand != "" {
			last = &appv1.TaskRun{Job: "by-hand", Started: ranAt(c.byHand), Result: appv1.TaskRunning}
		}
		got := timingOf(seen, cached(live), last)
		for _, part := range []struct {
			name string
			got  time.Time
			want string
		}{{"next", got.next, c.next}, {"missed", got.missed, c.missed}, {"again", got.again, c.again}} {
			want := time.Time{}
			if part.want != "" {
				want = day(part.want)
			}
			if !part.got.Equal(want) {
				t.Errorf("%s: %s is %s, want %q", name, part.name, part.got, part.want)
			}
		}
	}
}

// TestScheduleSince has the time since which a schedule counts: another pod template does not change the time, another schedule does.
func TestScheduleSince(t *testing.T) {
	now, earlier := day("05:00:00"), "2026-03-01T00:00:00Z"
	schedule := batchv1.CronJobSpec{Schedule: "0 * * * *", TimeZone: ptr.To("Etc/UTC"), StartingDeadlineSeconds: ptr.To[int64](60), Suspend: ptr.To(false)}
	for name, c := range map[string]struct {
		change func(*batchv1.CronJobSpec)
		since  string
		// owned are the fields of the CronJob's spec that the operator owns, as JSON.
		owned string
		want  string
	}{
		"nothing":           {change: func(*batchv1.CronJobSpec) {}},
		"nothing again":     {change: func(*batchv1.CronJobSpec) {}, since: earlier, want: earlier},
		"another image":     {change: func(s *batchv1.CronJobSpec) { s.JobTemplate.Spec.Parallelism = ptr.To[int32](1) }, since: earlier, want: earlier},
		"another policy":    {change: func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = batchv1.AllowConcurrent }, since: earlier, want: earlier},
		"another schedule":  {change: func(s *batchv1.CronJobSpec) { s.Schedule = "1 * * * *" }, since: earlier, want: "2026-03-02T05:00:00Z"},
		"another time zone": {change: func(s *batchv1.CronJobSpec) { s.TimeZone = ptr.To("Asia/Shanghai") }, want: "2026-03-02T05:00:00Z"},
		"another deadline":  {change: func(s *batchv1.CronJobSpec) { s.StartingDeadlineSeconds = nil }, want: "2026-03-02T05:00:00Z"},
		"a repaired schedule": {
			change: func(s *batchv1.CronJobSpec) { s.Schedule = "1 * * * *" }, owned: `{"f:spec":{"f:suspend":{}}}`, since: earlier, want: earlier,
		},
		"a changed schedule": {
			change: func(s *batchv1.CronJobSpec) { s.Schedule = "1 * * * *" }, owned: `{"f:spec":{"f:schedule":{}}}`, since: earlier, want: "2026-03-02T05:00:00Z",
		},
		"resumed by hand": {
			change: func(s *batchv1.CronJobSpec) { s.Suspend = ptr.To(true) }, owned: `{"f:spec":{"f:schedule":{}}}`,
		},
		"suspended": {change: func(s *batchv1.CronJobSpec) { s.Suspend = ptr.To(true) }, want: "2026-03-02T05:00:00Z"},
	} {
		live := &batchv1.CronJob{Spec: schedule}
		if c.since != "" {
			live.Annotations = map[string]string{appv1.AnnotationScheduleSince: c.since}
		}
		if c.owned != "" {
			live.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: "task", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(c.owned),
			}}
		}
		wanted := live.DeepCopy()
		wanted.Annotations = map[string]string{"a": "b"}
		c.change(&wanted.Spec)
		got := withSince(wanted, cached(live), "task", now)
		if got.Annotations[appv1.AnnotationScheduleSince] != c.want || got.Annotations["a"] != "b" || len(wanted.Annotations) != 1 {
			t.Errorf("%s: the annotations are %v", name, got.Annotations)
		}
		if fresh := withSince(wanted, nil, "task", now); fresh != wanted {
			t.Errorf("%s: a new CronJob has the annotations %v", name, fresh.Annotations)
		}
	}
}

// TestLastRun has runs whose Jobs are there, and runs whose Jobs are deleted.
func TestLastRun(t *testing.T) {
	running := &appv1.TaskRun{Job: "old", Started: ranAt("05:00:00"), Result: appv1.TaskRunning}
	unknown := &appv1.TaskRun{Job: "old", Started: ranAt("05:00:00"), Result: appv1.TaskUnknown}
	gone := &appv1.TaskRun{Job: "old", Started: ranAt("05:00:00"), Finished: ranAt("07:00:00"), Result: appv1.TaskUnknown}
	failed := &appv1.TaskRun{Job: "old", Started: ranAt("05:00:00"), Finished: ranAt("05:01:00"), Result: appv1.TaskFailed}
	for name, c := range map[string]struct {
		before  *appv1.TaskRun
		jobs    []batchv1.Job
		success string
		job     string
		result  appv1.TaskResult
		// finished is when the run has ended, where the test checks it.
		finished string
	}{
		"none":                              {},
		"the first":                         {jobs: []batchv1.Job{jobAt("a", "05:00:00", "", "")}, job: "a", result: appv1.TaskRunning},
		"it has succeeded":                  {before: running, jobs: []batchv1.Job{jobAt("old", "05:00:00", "05:01:00", batchv1.JobComplete)}, job: "old", result: appv1.TaskSucceeded},
		"it has failed":                     {before: running, jobs: []batchv1.Job{jobAt("old", "05:00:00", "05:01:00", batchv1.JobFailed)}, job: "old", result: appv1.TaskFailed},
		"a later one":                       {before: failed, jobs: []batchv1.Job{jobAt("b", "06:00:00", "", ""), jobAt("old", "05:00:00", "05:01:00", batchv1.JobFailed)}, job: "b", result: appv1.TaskRunning},
		"a suspended one":                   {jobs: []batchv1.Job{suspended(jobAt("a", "05:00:00", "", ""))}},
		"a suspended one after another":     {before: failed, jobs: []batchv1.Job{suspended(jobAt("b", "06:00:00", "", "")), jobAt("old", "05:00:00", "05:01:00", batchv1.JobFailed)}, job: "old", result: appv1.TaskFailed},
		"it is suspended while it runs":     {before: running, jobs: []batchv1.Job{suspended(jobAt("old", "05:00:00", "", ""))}, job: "old", result: appv1.TaskRunning},
		"its Job is deleted":                {before: failed, job: "old", result: appv1.TaskFailed},
		"only earlier Jobs are left":        {before: failed, jobs: []batchv1.Job{jobAt("a", "04:00:00", "04:01:00", batchv1.JobComplete)}, job: "old", result: appv1.TaskFailed},
		"deleted after its success":         {before: running, success: "05:01:00", job: "old", result: appv1.TaskSucceeded},
		"deleted before its success":        {before: unknown, success: "05:01:00", job: "old", result: appv1.TaskSucceeded},
		"deleted while it ran":              {before: running, job: "old", result: appv1.TaskUnknown, finished: "08:35:00"},
		"deleted before":                    {before: gone, job: "old", result: appv1.TaskUnknown, finished: "07:00:00"},
		"deleted, and another succeeds":     {before: unknown, success: "05:01:00", jobs: []batchv1.Job{jobAt("a", "04:00:00", "05:01:00", batchv1.JobComplete)}, job: "old", result: appv1.TaskUnknown},
		"deleted, and success is of before": {before: running, success: "04:01:00", job: "old", result: appv1.TaskUnknown},
	} {
		live := &batchv1.CronJob{}
		live.Status.LastSuccessfulTime = ranAt(c.success)
		got := ptr.Deref(lastRun(c.before, &observed{at: day("08:35:00"), jobs: latestFirst(c.jobs)}, cached(live)), appv1.TaskRun{})
		if got.Job != c.job || got.Result != c.result || c.finished != "" && !got.Finished.Equal(ranAt(c.finished)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFailedJob finds the latest end of a run. Jobs of later successes may be deleted.
func TestFailedJob(t *testing.T) {
	for name, c := range map[string]struct {
		jobs    []batchv1.Job
		success string
		want    string
	}{
		"none":                              {},
		"it runs":                           {jobs: []batchv1.Job{jobAt("a", "05:00:00", "", "")}},
		"it has failed":                     {jobs: []batchv1.Job{jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed)}, want: "a"},
		"another runs":                      {jobs: []batchv1.Job{jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed), jobAt("b", "06:00:00", "", "")}, want: "a"},
		"another has succeeded":             {jobs: []batchv1.Job{jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed), jobAt("b", "06:00:00", "06:01:00", batchv1.JobComplete)}},
		"another has succeeded and is gone": {jobs: []batchv1.Job{jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed)}, success: "06:01:00"},
		"an earlier one has succeeded":      {jobs: []batchv1.Job{jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed)}, success: "04:01:00", want: "a"},
		"it has failed after a later one":   {jobs: []batchv1.Job{jobAt("a", "05:00:00", "07:30:00", batchv1.JobFailed), jobAt("b", "06:00:00", "06:10:00", batchv1.JobComplete)}, want: "a"},
		"both have ended at once":           {jobs: []batchv1.Job{jobAt("a", "05:00:00", "06:10:00", batchv1.JobFailed), jobAt("b", "06:00:00", "06:10:00", batchv1.JobComplete)}},
	} {
		live := &batchv1.CronJob{}
		live.Status.LastSuccessfulTime = ranAt(c.success)
		got := ""
		if job := failedJob(&observed{jobs: latestFirst(c.jobs)}, cached(live)); job != nil {
			got = job.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestVerdict has the states of a Task, in the order in which they count.
func TestVerdict(t *testing.T) {
	failed, running := jobAt("a", "05:00:00", "05:01:00", batchv1.JobFailed), jobAt("b", "06:00:00", "", "")
	running.Status.Active = 1
	waiting := suspended(jobAt("c", "06:00:05", "", ""))
	unknown := &appv1.TaskRun{Job: "a", Started: ranAt("05:00:00"), Result: appv1.TaskUnknown}
	gone := &appv1.TaskRun{Job: "a", Started: ranAt("05:00:00"), Finished: ranAt("05:01:00"), Result: appv1.TaskFailed}
	for name, c := range map[string]struct {
		suspended bool
		crowded   bool
		jobs      []batchv1.Job
		missed    string
		last      *appv1.TaskRun
		success   string
		want      string
		ready     bool
	}{
		"none":                            {want: appv1.ReasonNoRun, ready: true},
		"too many Jobs":                   {crowded: true, suspended: true, want: appv1.ReasonTooManyRuns},
		"suspended after a failure":       {suspended: true, jobs: []batchv1.Job{failed}, want: appv1.ReasonSuspended, ready: true},
		"failed and missed":               {jobs: []batchv1.Job{failed}, missed: "06:00:00", want: appv1.ReasonRunFailed},
		"failed and another runs":         {jobs: []batchv1.Job{failed, running}, want: appv1.ReasonRunFailed},
		"failed and its Job is deleted":   {last: gone, want: appv1.ReasonRunFailed},
		"a success after a deleted one":   {last: gone, success: "06:01:00", want: appv1.ReasonSucceeded, ready: true},
		"missed":                          {missed: "06:00:00", want: appv1.ReasonRunMissed},
		"missed, and another runs":        {jobs: []batchv1.Job{running}, missed: "06:00:00", want: appv1.ReasonRunMissed},
		"runs":                            {jobs: []batchv1.Job{running}, want: appv1.ReasonRunning, ready: true},
		"a suspended Job":                 {jobs: []batchv1.Job{waiting}, want: appv1.ReasonNoRun, ready: true},
		"one runs, another is suspended":  {jobs: []batchv1.Job{waiting, running}, want: appv1.ReasonRunning, ready: true},
		"missed, and one is suspended":    {jobs: []batchv1.Job{waiting}, missed: "06:00:00", want: appv1.ReasonRunMissed},
		"failed, and one is suspended":    {jobs: []batchv1.Job{failed, waiting}, want: appv1.ReasonRunFailed},
		"deleted while it ran":            {last: unknown, want: appv1.ReasonNoRun, ready: true},
		"succeeded, and all Jobs deleted": {success: "05:01:00", want: appv1.ReasonSucceeded, ready: true},
	} {
		task, live := &appv1.Task{}, &batchv1.CronJob{}
		live.Spec.Suspend = &c.suspended
		live.Status.LastSuccessfulTime = ranAt(c.success)
		due := timing{}
		if c.missed != "" {
			due.missed = day(c.missed)
		}
		got := verdictOf(task, &observed{at: day("06:00:10"), jobs: latestFirst(c.jobs), crowded: c.crowded}, cached(live), &due, c.last)
		if got.Reason != c.want || got.Ready != c.ready || got.Stalled == c.ready || got.Message == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRunWithoutPod has a Job that gets no pod, as a quota forbids it for instance.
func TestRunWithoutPod(t *testing.T) {
	task := &appv1.Task{}
	for now, ready := range map[string]bool{"05:00:29": true, "05:00:30": false} {
		seen := &observed{at: day(now), jobs: []batchv1.Job{jobAt("a", "05:00:00", "", "")}}
		got := verdictOf(task, seen, &batchv1.CronJob{}, &timing{}, nil)
		if got.Ready != ready || got.Stalled || got.Reason != appv1.ReasonRunning || (got.Again == 0) == ready {
			t.Errorf("at %s: %+v", now, got)
		}
	}
}
