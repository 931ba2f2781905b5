package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// Progress is how far a rollout is.
type Progress struct {
	Meta      `json:",inline"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	// Wanted is how many pods are wanted, Ready how many of the latest spec are ready, Starting how many are on their way, and Old
	// how many of earlier specs are left.
	Wanted   int `json:"wanted"`
	Ready    int `json:"ready"`
	Starting int `json:"starting"`
	Old      int `json:"old"`
	// Pods are the pods that are not ready, pods with a problem first.
	Pods []Node `json:"pods,omitempty"`
	// Cause is why pods are not there or do not run, empty if nothing is known to be wrong.
	Cause string `json:"cause,omitempty"`
	// Schedule is when a Task runs, nil for any other kind. Run is the run of a Task that goes on or has ended last, or the command that a rollout
	// waits for, empty without one.
	Schedule *Schedule `json:"schedule,omitempty"`
	Run      string    `json:"run,omitempty"`
	// NotShown are the kinds of objects that could not be listed, if workloads or pods are among them, so that figures are missing or come from the status.
	NotShown []Missing `json:"notShown,omitempty"`
	// unsettled is true while a workload is not ready, whatever the status: after a restart, the status is old until the next reconcile.
	unsettled bool
	// ready is true if the condition Ready is, of the latest spec.
	ready bool
}

// ProgressOf returns how far a resource is.
func ProgressOf(s *Snapshot) *Progress { return cleanView(progressOf(s)) }

func progressOf(s *Snapshot) *Progress {
	row := RowOf(&s.Resource)
	p := &Progress{
		Meta: newMeta("Progress"), Resource: row.Kind, Namespace: row.Namespace, Name: row.Name, State: row.State, Reason: row.Reason,
		Message: row.Message, To: row.Image,
	}
	p.Schedule = row.Schedule
	p.ready = row.State != StateDeleting && s.Resource.IsObserved() && s.Resource.conditionOf(appv1.ConditionReady).Status == metav1.ConditionTrue
	if row.Schedule != nil {
		p.noteRuns(s)
		return p
	}
	if s.Resource.WaitsForCommand() {
		p.noteCommand(s)
	}
	blind := s.lacksKind(kindsDeployments) || s.lacksKind(kindsPods)
	if blind || s.lacksKind(kindsStatefulSets) {
		p.NotShown = s.Missing
	}
	if blind {
		// Of a CloudManager, the status counts tiers.
		if _, err := fmt.Sscanf(row.Ready, "%d/%d", &p.Ready, &p.Wanted); err == nil {
			return p
		}
	}
	for _, set := range s.statefulSets() {
		pods := s.podsOf(set.UID)
		p.Wanted += int(ptr.Deref(set.Spec.Replicas, 1))
		ready := countReady(pods)
		p.Ready += ready
		p.Starting += len(pods) - ready
		p.noteWorkload(podsNotReady(pods), health.StatefulSet(set, pods))
	}
	for _, d := range s.relatedDeployments() {
		p.noteDeployment(s, d)
	}
	return p
}

// noteDeployment records the pods of a Deployment. While a rollout waits for its command, all pods are of earlier specs, and their problems are not those
// of the rollout.
func (p *Progress) noteDeployment(s *Snapshot, d *appsv1.Deployment) {
	verdict := health.Deployment(d, s.podsOfDeployment(d), s.Now)
	if isCanary(d) { // Its pods are in addition to the wanted ones.
		p.noteWorkload(podsNotReady(s.podsOfDeployment(d)), verdict)
		return
	}
	p.Wanted += int(ptr.Deref(d.Spec.Replicas, 1))
	p.unsettled = p.unsettled || !verdict.Ready
	sets, waits := s.replicaSets(d.UID), s.Resource.WaitsForCommand()
	for i, rs := range sets {
		pods := s.podsOf(rs.UID)
		if i > 0 || waits {
			if p.Old += len(pods); len(pods) > 0 && p.From == "" {
				p.From = mainImage(rs.Spec.Template.Spec.Containers)
			}
			continue
		}
		ready := countReady(pods)
		p.Ready += ready
		p.Starting += len(pods) - ready
		p.noteWorkload(podsNotReady(pods), verdict)
	}
	switch {
	case len(sets) > 0:
	case waits:
		p.Old += int(d.Status.Replicas)
	default:
		p.Ready += int(d.Status.ReadyReplicas)
	}
}

// noteWorkload records the pods of a workload that are not ready, and the workload's problem; a rollout under way is no problem.
func (p *Progress) noteWorkload(pods []Node, verdict health.Verdict) {
	p.Pods = append(p.Pods, pods...)
	p.unsettled = p.unsettled || !verdict.Ready
	if p.Cause == "" && !verdict.Ready && !verdict.UnderWay() {
		p.Cause = verdict.Reason + ": " + verdict.Message
	}
}

// noteRuns records the latest run of a Task and its pods. The Task is unsettled while a run has not ended, or while the status has another run,
// or another state of this one.
func (p *Progress) noteRuns(s *Snapshot) {
	if s.lacksKind(kindsJobs) {
		p.NotShown, p.unsettled = s.Missing, p.Schedule.Active > 0
		return
	}
	runs := s.taskJobs()
	if len(runs) == 0 {
		return
	}
	latest, last := runs[0], p.Schedule.Last
	p.Run = s.jobLine(latest)
	p.unsettled = last == nil || last.Started.Before(&latest.CreationTimestamp) || last.Job == latest.Name && last.Result == appv1.TaskRunning
	for _, job := range runs {
		p.unsettled = p.unsettled || health.JobEnd(job) == nil
		p.noteJob(s, job)
	}
}

// noteCommand records the Job of the command that a rollout waits for, and its pods; without a Job, the message of the status.
func (p *Progress) noteCommand(s *Snapshot) {
	job := s.awaitedJob()
	p.unsettled = true
	if job == nil {
		p.Run = p.Message
		return
	}
	p.Run = s.jobLine(job)
	p.noteJob(s, job)
}

// noteJob records the pods of a Job that has not ended, and why they do not run.
func (p *Progress) noteJob(s *Snapshot, job *batchv1.Job) {
	if health.JobEnd(job) != nil {
		return
	}
	pods := s.podsOf(job.UID)
	p.Pods = append(p.Pods, podsNotReady(pods)...)
	if cause := health.Worst(pods, true); p.Cause == "" && cause.Reason != "" {
		p.Cause = cause.String()
	}
}

// jobLine describes a Job in one line, which stays the same while the Job runs.
func (s *Snapshot) jobLine(job *batchv1.Job) string {
	words := s.jobResult(job)
	if health.JobEnd(job) != nil {
		words = s.jobWords(job)
	}
	return "Job " + job.Name + ": " + words
}

// EndReason returns why it makes no sense to wait for a Task: its latest run has failed or was missed; empty while a run has not ended, and where nothing
// is wrong.
func (p *Progress) EndReason() string {
	if p.Schedule == nil || p.unsettled || p.State != StateFailing {
		return ""
	}
	return "is not ready: " + p.Reason + ": " + p.Message
}

// IsDone reports whether the resource is ready by its latest spec.
func (p *Progress) IsDone() bool { return p.ready && !p.unsettled }

// InForce reports whether the latest spec is in force, whatever the pods do.
func InForce(r *Resource) bool {
	applied := r.conditionOf(appv1.ConditionApplied)
	return r.IsObserved() && (applied.Status == "True" || applied.Status == "Unknown" && r.conditionOf(appv1.ConditionReady).Status == "True")
}

// OneLine is the progress in one line, which stays the same while nothing changes.
func (p *Progress) OneLine() string {
	if p.Schedule != nil {
		line := fmt.Sprintf("%s %s/%s: %s", p.Resource, p.Namespace, p.Name, p.Reason)
		for _, more := range []string{p.Run, p.Cause} {
			if more != "" {
				line += "; " + more
			}
		}
		return line + p.missingText()
	}
	line := fmt.Sprintf("%s %s/%s: %s, %d of %d ready", p.Resource, p.Namespace, p.Name, p.Reason, p.Ready, p.Wanted)
	if len(p.NotShown) == 0 {
		line += fmt.Sprintf(", %d starting, %d old", p.Starting, p.Old)
	}
	line += p.missingText()
	for _, more := range []string{p.Run, p.Cause} {
		if more != "" {
			line += "; " + more
		}
	}
	return line
}

// missingText names the kinds of objects that could not be listed.
func (p *Progress) missingText() string {
	text := ""
	for _, m := range p.NotShown {
		text += "; not shown: " + m.String()
	}
	return text
}

// podsNotReady returns the nodes of those pods that are not ready, in trouble first.
func podsNotReady(pods []corev1.Pod) []Node {
	var nodes []Node
	for i := range pods {
		if !podReady(&pods[i]) {
			nodes = append(nodes, podNode(&pods[i]))
		}
	}
	return nodes
}

// barWidth is how many columns a bar has.
const barWidth = 24

// Text returns the progress as a block of at most height lines; 0 for no limit.
func (p *Progress) Text(s Style, elapsed, limit time.Duration, height int) string {
	change := ShortImage(p.To)
	if p.From != "" && p.From != p.To {
		from, to := DifferingVersions(p.From, p.To)
		change = from + " → " + to
	}
	lines := []string{
		fmt.Sprintf("%s %s/%s   %s   %s of %s", p.Resource, p.Namespace, p.Name, change, longDuration(elapsed), longDuration(limit)),
		"new  " + drawBar(p.Ready, p.Starting, p.Wanted) + fmt.Sprintf("  %d/%d ready, %d starting", p.Ready, p.Wanted, p.Starting),
	}
	if p.Schedule != nil {
		lines = []string{lines[0], cmp.Or(p.Run, noRunYet)}
	}
	if p.Old > 0 {
		lines = append(lines, "old  "+drawBar(p.Old, 0, p.Wanted)+fmt.Sprintf("  %d to go", p.Old))
	}
	if p.Schedule == nil && p.Run != "" {
		lines = append(lines, p.Run)
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(s.wrapLines("", indent, line))
	}
	b.WriteString(p.podsText(s, height-strings.Count(b.String(), "\n"), height > 0))
	return b.String()
}

// podsText returns the pods that are not ready, in whole entries of at most so many lines together if limited is true.
func (p *Progress) podsText(s Style, room int, limited bool) string {
	var entries []string
	for i := range p.Pods {
		pod := &p.Pods[i]
		line := pod.Name + "  " + pod.Detail + "  " + pod.State
		if len(pod.Notes) > 0 {
			line += ": " + pod.Notes[0]
		}
		entries = append(entries, s.wrapLines("  "+pod.Mark.Sign()+" ", indent, line))
	}
	var b strings.Builder
	for i, entry := range entries {
		left := len(entries) - i
		if room -= strings.Count(entry, "\n"); limited && (room < 0 || room == 0 && left > 1) {
			b.WriteString(s.plainText(fmt.Sprintf("  … %d more\n", left)))
			break
		}
		b.WriteString(entry)
	}
	return b.String()
}

// drawBar draws how many of all are done and half done.
func drawBar(done, half, all int) string {
	if all <= 0 {
		return strings.Repeat("░", barWidth)
	}
	full := min(barWidth, done*barWidth/all)
	some := min(barWidth-full, half*barWidth/all)
	return strings.Repeat("█", full) + strings.Repeat("▒", some) + strings.Repeat("░", barWidth-full-some)
}
