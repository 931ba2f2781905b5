package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// Runs are the runs of a Task, the newest first.
type Runs struct {
	Meta      `json:",inline"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Schedule  *Schedule `json:"schedule,omitempty"`
	Runs      []Run     `json:"runs"`
	// More is the number of further runs that are left out.
	More     int       `json:"more,omitempty"`
	NotShown []Missing `json:"notShown,omitempty"`
}

// Run is a run of a Task.
type Run struct {
	Job string `json:"job"`
	// Started is when the Job was created, Finished when it has ended, nil while it runs.
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Result is the state of the Job in a word: "running", "suspended", "succeeded", "failed" or "unknown".
	Result string `json:"result"`
	Mark   Mark   `json:"mark,omitempty"`
	Image  string `json:"image,omitempty"`
	// ByHand is true for a run that a user has started, apart from the schedule.
	ByHand bool `json:"byHand,omitempty"`
	// Note is why the run has failed or a pod of it does not run, or that the Job is deleted; empty without a problem.
	Note string `json:"note,omitempty"`
}

const (
	// reasonUnexpectedJob is the reason of the warnings about each run that a user starts, which is nothing to worry about.
	reasonUnexpectedJob = "UnexpectedJob"
	// annotationByHand is what "kubectl create job --from" writes on a Job.
	annotationByHand = "cronjob.kubernetes.io/instantiate"
	// maxRuns is how many runs a list has at most: spec.keep allows 100 that have failed and 100 that have succeeded.
	maxRuns = 100
)

// The texts about runs.
const (
	runDeleted  = "its Job is deleted"
	runByHand   = "started by hand"
	noRunYet    = "no run yet"
	noRuns      = "No run of %s can be seen.\n"
	nextRun     = "The next run is due %s, at %s.\n"
	noNextRun   = "No run is due.\n"
	runsLeft    = "%d earlier runs are not shown.\n"
	lastSuccess = "the last run that has succeeded: Job %s, %s ago"
	runsOfTask  = "%w: %s has runs in place of revisions; see \"%s\""
)

// cronJob returns the CronJob of a Task, nil if it has none.
func (s *Snapshot) cronJob() *batchv1.CronJob {
	for i := range s.CronJobs {
		if controlsObject(s.Resource.ObjectMeta.UID, &s.CronJobs[i]) {
			return &s.CronJobs[i]
		}
	}
	return nil
}

// taskJobs returns the Jobs of a Task, which its CronJob controls, the newest first. Where the CronJob cannot be read, they are the Jobs that a
// CronJob of the Task's name controls.
func (s *Snapshot) taskJobs() []*batchv1.Job {
	if s.lacksKind(kindsCronJobs) {
		return s.jobsThat(func(job *batchv1.Job) bool {
			ref := metav1.GetControllerOfNoCopy(job)
			return ref != nil && ref.Kind == kindCronJob && ref.Name == s.Resource.ObjectMeta.Name
		})
	}
	cron := s.cronJob()
	if cron == nil {
		return nil
	}
	return s.jobsThat(func(job *batchv1.Job) bool { return controlsObject(cron.UID, job) })
}

// runInQuestion returns the Job that the state of a Task is about: after a failure the latest one that has failed, otherwise the latest one; nil
// if there is none.
func (s *Snapshot) runInQuestion() *batchv1.Job {
	runs := s.taskJobs()
	if s.Resource.mainCondition().Reason == appv1.ReasonRunFailed {
		for _, job := range runs {
			if end := health.JobEnd(job); end != nil && end.Type == batchv1.JobFailed {
				return job
			}
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return runs[0]
}

// podsOfRun returns the pods of the run in question, or else of the latest run that has pods. Where the Jobs cannot be listed, all pods with the
// label of the Task are returned, the newest first.
func (s *Snapshot) podsOfRun() []corev1.Pod {
	if s.lacksKind(kindsJobs) {
		pods := slices.Clone(s.Pods)
		slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
		return pods
	}
	runs := s.taskJobs()
	if job := s.runInQuestion(); job != nil {
		runs = append([]*batchv1.Job{job}, runs...)
	}
	for _, job := range runs {
		if pods := s.podsOf(job.UID); len(pods) > 0 {
			return pods
		}
	}
	return nil
}

// RunsOf returns the runs of a Task, nil for any other resource.
func RunsOf(s *Snapshot) *Runs {
	r := &s.Resource
	if r.Schedule == nil {
		return nil
	}
	all := &Runs{
		Meta: newMeta("Runs"), Resource: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, Schedule: r.Schedule,
		Runs: []Run{}, NotShown: s.Missing,
	}
	jobs := s.taskJobs()
	last := r.Schedule.Last
	if last != nil && !slices.ContainsFunc(jobs, func(job *batchv1.Job) bool { return job.Name == last.Job }) {
		run := Run{Job: last.Job, Started: last.Started, Finished: last.Finished, Result: strings.ToLower(string(last.Result)), Mark: resultMarks[last.Result]}
		if !s.lacksKind(kindsJobs) {
			run.Note = runDeleted
		}
		all.Runs = append(all.Runs, run)
	}
	for i, job := range jobs {
		if len(all.Runs) == maxRuns {
			all.More = len(jobs) - i
			break
		}
		all.Runs = append(all.Runs, s.describeRun(job))
	}
	return cleanView(all)
}

// resultMarks are the marks of the results in a status.
var resultMarks = map[appv1.TaskResult]Mark{
	appv1.TaskRunning: MarkBusy, appv1.TaskSucceeded: MarkGood, appv1.TaskFailed: MarkBad, appv1.TaskUnknown: MarkFail,
}

// describeRun describes the run of a Job.
func (s *Snapshot) describeRun(job *batchv1.Job) Run {
	result, note, _ := strings.Cut(s.jobResult(job), ", ")
	run := Run{
		Job: job.Name, Started: createdAt(job.ObjectMeta), Finished: jobEnd(job), Result: result, Image: mainImage(job.Spec.Template.Spec.Containers),
		ByHand: job.Annotations[annotationByHand] != "", Note: note,
	}
	_, run.Mark = jobState(job)
	if cause := health.Worst(s.podsOf(job.UID), true); cause.Reason != "" && run.Mark != MarkGood {
		run.Note = strings.TrimPrefix(note+": "+cause.String(), ": ")
	}
	return run
}

// Took returns how long a run has taken, or for how long it runs; empty if that is not known.
func (r *Run) Took(now time.Time) string {
	switch {
	case r.Started == nil:
		return ""
	case r.Finished != nil:
		return shortDuration(r.Finished.Sub(r.Started.Time))
	case r.Mark == MarkBusy:
		return shortDuration(now.Sub(r.Started.Time))
	}
	return ""
}

// Words returns the note, after the remark that the run was started by hand.
func (r *Run) Words() string {
	if r.ByHand {
		return strings.TrimSuffix(runByHand+"; "+r.Note, "; ")
	}
	return r.Note
}

// Label describes the runs to a reader who does not see their picture, such as "1 failed, 2 succeeded".
func (r *Runs) Label() string {
	counts := map[string]int{}
	for i := range r.Runs {
		counts[r.Runs[i].Result]++
	}
	var words []string
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[result], result))
	}
	return strings.Join(words, ", ")
}

// Text returns the runs as a table.
func (r *Runs) Text(s Style, now time.Time) string {
	t := table{painted: 3, headed: true}
	t.addRow("", "JOB", "STARTED", "TOOK", "RESULT", "IMAGE", "NOTE")
	for i := range r.Runs {
		run := &r.Runs[i]
		started := cmp.Or(ageOf(run.Started, now), "-")
		if run.Started != nil {
			started += " ago"
		}
		t.addRow(run.Mark, run.Job, started, cmp.Or(run.Took(now), "-"), run.Result, cmp.Or(ShortImage(run.Image), "-"), cmp.Or(run.Words(), "-"))
	}
	text := t.drawText(s)
	if len(r.Runs) == 0 {
		text = fmt.Sprintf(noRuns, r.Resource+" "+r.Namespace+"/"+r.Name)
	}
	if r.More > 0 {
		text += fmt.Sprintf(runsLeft, r.More)
	}
	if next := r.Schedule.Next; next != nil {
		text += s.plainText(fmt.Sprintf(nextRun, r.Schedule.NextIn(now), FormatUTC(next)))
	} else {
		text += noNextRun
	}
	return text + notShown(s, r.NotShown)
}

// belowSchedule returns the steps from the CronJob of a Task down to the pods of the run in question.
func (s *Snapshot) belowSchedule() []Step {
	cron := s.cronJob()
	if cron == nil {
		return nil
	}
	steps := []Step{{Object: kindCronJob + " " + cron.Name, Text: s.Resource.Schedule.Cron}}
	job := s.runInQuestion()
	if job == nil {
		return steps
	}
	steps = append(steps, Step{Object: "Job " + job.Name, Text: s.jobWords(job)})
	if _, mark := jobState(job); mark == MarkGood {
		return steps
	}
	return append(steps, rootOf(s.podsOf(job.UID), true)...)
}

// lastSuccess describes the latest run that has succeeded, empty where none is known.
func (s *Snapshot) lastSuccess() string {
	for _, job := range s.taskJobs() {
		if end := health.JobEnd(job); end != nil && end.Type == batchv1.JobComplete {
			return fmt.Sprintf(lastSuccess, job.Name, longDuration(s.Now.Sub(end.LastTransitionTime.Time)))
		}
	}
	return ""
}

// cronJobNodes returns the node of the CronJob of a Task, with its Jobs and their pods.
func (s *Snapshot) cronJobNodes(o TreeOptions) []Node {
	if s.Resource.Schedule == nil {
		return nil
	}
	jobs := s.taskJobs()
	nodes := make([]Node, 0, len(jobs))
	for _, job := range jobs {
		nodes = append(nodes, s.jobNode(job, o))
	}
	nodes, more := firstAlike(nodes, o.Limit)
	cron := s.cronJob()
	if cron == nil {
		return nodes // The CronJob cannot be read, or is not there, and then there is no Job.
	}
	n := Node{Kind: kindCronJob, Name: cron.Name, Detail: s.Resource.Schedule.Cron, Created: createdAt(cron.ObjectMeta), Children: nodes, More: more}
	switch active := len(cron.Status.Active); {
	case active > 0:
		n.State, n.Mark = fmt.Sprintf("%d active", active), MarkBusy
	case cron.Spec.Suspend != nil && *cron.Spec.Suspend:
		n.State, n.Mark = "suspended", MarkHold
	}
	return []Node{n}
}
