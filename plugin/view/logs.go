package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// LogOptions choose logs of a resource.
type LogOptions struct {
	// Pod and Container are names, empty for the pods that fail and the containers that fail.
	Pod, Container string
	// Previous chooses the run before the present one, or the present one; nil chooses the run that ended with an error.
	Previous *bool
	// Most is how many logs there are at most.
	Most int
}

// LogSource is a container whose log helps to understand the state of a resource.
type LogSource struct {
	Pod, Container string
	// Others are the other containers of the pod.
	Others []string
	// Previous is true for the run before the present one.
	Previous bool
	// Running is true while the container runs, so that its log can be followed.
	Running bool
	// State describes the run in a few words.
	State string
	// None is why there is no log, empty if there is one.
	None string
}

// The texts about logs.
const (
	logEnded      = "ended %s with exit code %d"
	logNotStarted = "the container has not started"
	logNone       = "container %q of pod %s has no log: %s"
	logNoRunYet   = "the container runs for the first time"
	logCannotList = "the pods cannot be listed: %s"
	logNoPods     = "%s has no pod; see \"%s\""
	logNoPod      = "%s has no pod %s"
	logNoneSuch   = "no pod of %s has the container %q; the containers are %s"
)

// LogSources returns the logs that matter, and how many further pods are in the same condition. Pods that fail come before pods that are not
// ready, and these before ready pods. Within a condition, the pods of the latest version come first. While a resource waits for a command before
// its rollout, or once the command has failed, the pods are those of the Job; those of a Task are of its latest run, or of the one that has failed.
func LogSources(s *Snapshot, o LogOptions) (sources []LogSource, more int, err error) {
	pods, err := s.podsThatMatter(o.Pod)
	if err != nil {
		return nil, 0, err
	}
	var names []string
	for i := range pods {
		pod := &pods[i]
		names = append(names, containersOf(pod)...)
		container := cmp.Or(o.Container, containerThatMatters(pod))
		if slices.Contains(containersOf(pod), container) {
			sources = append(sources, s.logSource(pod, container, o.Previous))
		}
	}
	if len(sources) == 0 {
		slices.Sort(names)
		return nil, 0, fmt.Errorf(logNoneSuch, s.Resource.ObjectName(), o.Container, strings.Join(slices.Compact(names), ", "))
	}
	slices.SortStableFunc(sources, func(a, b LogSource) int { return cmp.Compare(min(len(a.None), 1), min(len(b.None), 1)) })
	if more = len(sources) - o.Most; more > 0 {
		sources = sources[:o.Most]
	}
	return cleanView(sources), max(0, more), nil
}

// podsThatMatter returns the pod of a name, or the pods in the worst condition.
func (s *Snapshot) podsThatMatter(name string) ([]corev1.Pod, error) {
	if s.lacksKind(kindsPods) {
		at := slices.IndexFunc(s.Missing, func(m Missing) bool { return m.Kinds == kindsPods })
		return nil, fmt.Errorf(logCannotList, s.Missing[at].Why)
	}
	if name != "" {
		at := slices.IndexFunc(s.Pods, func(pod corev1.Pod) bool { return pod.Name == name })
		if at < 0 {
			return nil, fmt.Errorf(logNoPod, s.Resource.ObjectName(), name)
		}
		return s.Pods[at : at+1], nil
	}
	pods := s.podsToRead()
	if len(pods) == 0 {
		return nil, fmt.Errorf(logNoPods, s.Resource.ObjectName(), s.Resource.PluginCommand("why"))
	}
	worst := health.Worst(pods, true)
	rank := func(pod *corev1.Pod) int {
		switch cause := health.Worst([]corev1.Pod{*pod}, true); {
		case cause != (health.Cause{}) && cause == worst:
			return 0
		case cause != (health.Cause{}) || pod.Status.Phase == corev1.PodFailed:
			return 1
		case pod.DeletionTimestamp != nil:
			return 4
		case podReady(pod), pod.Status.Phase == corev1.PodSucceeded:
			return 3
		}
		return 2
	}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(rank(&a), rank(&b)) })
	last := max(1, rank(&pods[0])) // Pods that fail are in one condition, whatever the cause.
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return rank(&pod) > last }), nil
}

// podsToRead returns the pods of a run of a Task, or of the Job that the resource waits for, or else the pods of all versions, the latest version first. Where the
// Deployments cannot be listed, all pods with the labels of the resource are returned.
func (s *Snapshot) podsToRead() []corev1.Pod {
	if s.Resource.Schedule != nil {
		return s.podsOfRun()
	}
	if job := s.awaitedJob(); job != nil {
		if pods := s.podsOf(job.UID); len(pods) > 0 {
			return pods
		}
	}
	var pods []corev1.Pod
	groups := s.podGroups()
	for i := range groups {
		pods = append(pods, groups[i].pods...)
	}
	if len(pods) > 0 || !s.lacksKind(kindsDeployments) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(s.Pods), func(pod corev1.Pod) bool { return pod.Labels[appv1.LabelBeforeRollout] != "" })
}

// containersOf returns the names of the containers of a pod.
func containersOf(pod *corev1.Pod) []string {
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return names
}

// statusesOf returns the statuses of the containers of a pod.
func statusesOf(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// containerThatMatters returns the container that fails, or else one that is not ready, or else the first container.
func containerThatMatters(pod *corev1.Pod) string {
	if cause := health.Worst([]corev1.Pod{*pod}, true); cause.Container != "" {
		return cause.Container
	}
	statuses := statusesOf(pod)
	for i := range statuses {
		if ended := statuses[i].State.Terminated; ended != nil && ended.ExitCode != 0 {
			return statuses[i].Name
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if !pod.Status.ContainerStatuses[i].Ready {
			return pod.Status.ContainerStatuses[i].Name
		}
	}
	return mainContainer(pod)
}

// logSource describes the log of a container.
func (s *Snapshot) logSource(pod *corev1.Pod, container string, previous *bool) LogSource {
	source := LogSource{Pod: pod.Name, Container: container}
	for _, other := range containersOf(pod) {
		if other != container {
			source.Others = append(source.Others, other)
		}
	}
	var status corev1.ContainerStatus
	statuses := statusesOf(pod)
	if at := slices.IndexFunc(statuses, func(c corev1.ContainerStatus) bool { return c.Name == container }); at >= 0 {
		status = statuses[at]
	}
	last, ended := status.LastTerminationState.Terminated, status.State.Terminated
	source.Running = status.State.Running != nil
	source.Previous = last != nil && ended == nil && !status.Ready
	if previous != nil {
		source.Previous = *previous
	}
	switch {
	case source.Previous && last == nil:
		source.None = logNoRunYet
	case source.Previous:
		source.State = describeEnd(last, s.Now)
	case ended != nil:
		source.State = describeEnd(ended, s.Now)
	case !source.Running && last == nil:
		source.None = logNotStarted
		if cause := health.CauseOf(pod); cause.Message != "" {
			source.None = cause.Message
		}
	}
	return source
}

// describeEnd describes how a run of a container ended.
func describeEnd(ended *corev1.ContainerStateTerminated, now time.Time) string {
	when := ""
	if !ended.FinishedAt.IsZero() {
		when = longDuration(now.Sub(ended.FinishedAt.Time)) + " ago"
	}
	text := strings.Join(strings.Fields(fmt.Sprintf(logEnded, when, ended.ExitCode)), " ")
	if ended.Reason != "" && ended.Reason != "Error" {
		text += ", " + ended.Reason
	}
	return text
}

// Title is the line above a log.
func (l *LogSource) Title() string {
	text := "Pod " + l.Pod + ", container " + l.Container
	if l.Previous {
		text += ", the run before"
	}
	if l.State != "" {
		text += ", which " + l.State
	}
	return text
}

// WithoutLog returns an error with the reason of the first container if none of them has a log.
func WithoutLog(sources []LogSource) error {
	for i := range sources {
		if sources[i].None == "" {
			return nil
		}
	}
	return fmt.Errorf(logNone, sources[0].Container, sources[0].Pod, sources[0].None)
}

// escapeSequence is what a program writes to color its output.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-9;?]*[\x20-\x2f]*[\x40-\x7e]`)

// LogLine returns a line of a log that any output can show: without colors, and at most maxText long.
func LogLine(line string) string { return CleanLine(escapeSequence.ReplaceAllString(line, "")) }
