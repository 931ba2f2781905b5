package health

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/secrecy"
)

// Cause is the reason why a pod does not run. The zero Cause means that no problem is known.
type Cause struct {
	// Reason is the condition's reason.
	Reason string
	// Container is the container that it is about, empty where it is about the whole pod.
	Container string
	// Message is the rest of the sentence.
	Message string
}

// severity orders causes by how likely they are the root of the others. Where pods have different causes, the first in this list is
// reported.
var severity = []string{
	appv1.ReasonInvalidImageName,
	appv1.ReasonImagePullBackOff,
	appv1.ReasonContainerConfigError,
	appv1.ReasonContainerError,
	appv1.ReasonOOMKilled,
	appv1.ReasonCrashLoopBackOff,
	appv1.ReasonUnschedulable,
}

func (c Cause) placeText() string {
	if c.Container == "" {
		return "scheduling"
	}
	return fmt.Sprintf("container %q", c.Container)
}

// String returns the cause for a message: the place, then the problem.
func (c Cause) String() string { return c.placeText() + ": " + c.Message }

// Worst returns the gravest cause among the pods of a rollout, the zero Cause if nothing is known to be wrong with any. stalled is
// true for a rollout that has not finished in time.
func Worst(pods []corev1.Pod, stalled bool) Cause {
	if stalled {
		return worstCause(pods, lastCauseOf)
	}
	return worstCause(pods, CauseOf)
}

// WorstFor is Worst without private values of the workload object: a runtime that cannot start a container quotes its command. The values are hidden in
// the words of the kubelet, as a cause has them cut and with other spaces.
func WorstFor(pods []corev1.Pod, stalled bool, of secrecy.Object) Cause {
	look := CauseOf
	if stalled {
		look = lastCauseOf
	}
	i, found := worstPod(pods, look)
	if found.Reason != appv1.ReasonContainerError && found.Reason != appv1.ReasonContainerConfigError {
		return found
	}
	redacted := pods[i]
	for _, statuses := range []*[]corev1.ContainerStatus{&redacted.Status.InitContainerStatuses, &redacted.Status.ContainerStatuses} {
		*statuses = slices.Clone(*statuses)
		for n := range *statuses {
			if waiting := (*statuses)[n].State.Waiting; waiting != nil && (*statuses)[n].Name == found.Container {
				(*statuses)[n].State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting.Reason, Message: secrecy.RedactText(waiting.Message, of)}
			}
		}
	}
	return look(&redacted)
}

// worstCause returns the gravest cause among the pods; of is the cause of one.
func worstCause(pods []corev1.Pod, of func(*corev1.Pod) Cause) Cause {
	_, found := worstPod(pods, of)
	return found
}

// worstPod returns the index of the pod with the gravest cause, -1 if no pod has a cause, and the cause.
func worstPod(pods []corev1.Pod, of func(*corev1.Pod) Cause) (index int, found Cause) {
	index = -1
	for i := range pods {
		if cause := of(&pods[i]); cause != (Cause{}) && (index < 0 || isGraver(cause, found)) {
			index, found = i, cause
		}
	}
	return index, found
}

func isGraver(a, b Cause) bool {
	if x, y := slices.Index(severity, a.Reason), slices.Index(severity, b.Reason); x != y {
		return x < y
	}
	if a.Container != b.Container {
		return a.Container < b.Container
	}
	return a.Message < b.Message
}

// CauseOf returns why a pod does not run, the zero Cause if the pod runs or is starting. A pod that is being deleted has no cause, nor has
// a pod that has ended for good, such as an evicted pod: another pod has taken its place.
func CauseOf(pod *corev1.Pod) Cause { return causeOf(pod, containerCause) }

// lastCauseOf is CauseOf for a rollout that has not finished in time: a container that runs again between two crashes, and is
// not ready, still has the cause of the last one. Otherwise the cause would come and go with each crash.
func lastCauseOf(pod *corev1.Pod) Cause {
	return causeOf(pod, lastContainerCause)
}

func lastContainerCause(s *corev1.ContainerStatus) Cause {
	if last := s.LastTerminationState.Terminated; s.State.Running != nil && !s.Ready && last != nil {
		return crashCause(s.Name, last)
	}
	return containerCause(s)
}

// PodEnded reports whether a pod runs no more, such as an evicted one. It can exist for long, and belongs to no rollout.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// causeOf returns why a pod does not run; of is why one of its containers does not.
func causeOf(pod *corev1.Pod, of func(*corev1.ContainerStatus) Cause) Cause {
	if pod.DeletionTimestamp != nil || PodEnded(pod) {
		return Cause{}
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		if ended := s.State.Terminated; ended != nil && ended.ExitCode == 0 {
			continue // It has done its work.
		}
		if cause := of(s); cause != (Cause{}) {
			return cause
		}
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if ended := s.State.Terminated; ended != nil && ended.ExitCode == 0 && isOfJob(pod) {
			continue // The pod runs until its sidecars have ended, too.
		}
		if cause := of(s); cause != (Cause{}) {
			return cause
		}
	}
	for _, c := range pod.Status.Conditions {
		if isUnschedulable(&c) {
			return Cause{Reason: appv1.ReasonUnschedulable, Message: message.Quote(c.Message)}
		}
	}
	return Cause{}
}

// isOfJob reports whether a Job controls a pod: the containers of the pod are to end.
func isOfJob(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "Job"
}

func isUnschedulable(c *corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// containerCause returns the cause from the kubelet's status of a container that waits or has ended.
func containerCause(s *corev1.ContainerStatus) Cause {
	if ended := s.State.Terminated; ended != nil {
		// Between two tries of a crash loop the container is shown as ended, then as waiting: one and the same cause.
		return crashCause(s.Name, ended)
	}
	waiting := s.State.Waiting
	if waiting == nil {
		return Cause{}
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "SignatureValidationFailed", "ImageInspectError":
		return Cause{appv1.ReasonImagePullBackOff, s.Name, fmt.Sprintf(messageImagePull, s.Image, pullError(waiting.Message))}
	case "InvalidImageName":
		return Cause{appv1.ReasonInvalidImageName, s.Name, fmt.Sprintf(messageImageName, s.Image)}
	case "CrashLoopBackOff":
		if s.LastTerminationState.Terminated != nil {
			return crashCause(s.Name, s.LastTerminationState.Terminated)
		}
		return Cause{appv1.ReasonCrashLoopBackOff, s.Name, messageExitsEarly}
	case "CreateContainerConfigError":
		return Cause{appv1.ReasonContainerConfigError, s.Name, fmt.Sprintf(messageNotCreated, message.Quote(withoutSubPath(waiting.Message)))}
	case "CreateContainerError", "RunContainerError", "PostStartHookError", "PreCreateHookError", "PreStartHookError":
		return Cause{appv1.ReasonContainerError, s.Name, fmt.Sprintf(messageNotStarted, message.Quote(withoutCommand(waiting.Message)))}
	}
	return Cause{}
}

// crashCause returns the cause for a container that ended.
func crashCause(container string, ended *corev1.ContainerStateTerminated) Cause {
	if ended.Reason == "OOMKilled" {
		return Cause{appv1.ReasonOOMKilled, container, messageOutOfMemory}
	}
	return Cause{appv1.ReasonCrashLoopBackOff, container,
		fmt.Sprintf(messageExitCode, ended.ExitCode)}
}

// pullError returns the error of an image pull. The kubelet shows the error itself and then, while it waits for the next try, the same
// error behind a prefix and an error code; pullError removes both, so that the text stays the same
// (k8s.io/kubernetes/pkg/kubelet/images/image_manager.go).
func pullError(words string) string {
	if strings.HasPrefix(words, "Back-off pulling image") {
		_, cause, found := strings.Cut(words, ": ")
		if !found {
			return ""
		}
		words = cause
	}
	for _, word := range []string{"ErrImagePull: ", "RegistryUnavailable: ", "SignatureValidationFailed: "} {
		words = strings.TrimPrefix(words, word)
	}
	if words == "" {
		return ""
	}
	return ": " + message.Quote(words)
}

// KeepPullError returns a message with the error of its image pull, if an earlier message about the same pull has it and this message has none: Kubernetes
// before 1.32 has the error only until it waits for the next try (k8s.io/kubernetes/pkg/kubelet/images/image_manager.go).
func KeepPullError(before, message string) string {
	at := strings.Index(message, cannotBePulled)
	if at < 0 {
		return message
	}
	head, tail := message[:at+len(cannotBePulled)], message[at+len(cannotBePulled):]
	words, found := strings.CutPrefix(before, head+": ")
	if !found || strings.HasPrefix(tail, ": ") {
		return message
	}
	words, _, stalled := strings.Cut(words, noProgress)
	further := tail // What follows the cause, without the text about the deadline.
	if strings.HasPrefix(tail, noProgress) {
		_, further, _ = strings.Cut(tail, AdviceStalled)
	}
	if !stalled && !strings.HasSuffix(words, further) {
		return message
	}
	return head + ": " + strings.TrimSuffix(words, further) + tail
}

// KeepCauses copies from a pod to a pod status the container statuses that the pod's cause is read from, now and after a rollout that
// has missed its deadline, reduced to the fields in use. Without such a container it copies why the pod is not scheduled. Messages are cut
// to most bytes, and image names to maxKeptImage.
func KeepCauses(pod *corev1.Pod, to *corev1.PodStatus, most int) {
	from := &pod.Status
	whole := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: pod.OwnerReferences}, Status: *from}
	whole.Status.Phase = ""
	kept := map[*corev1.ContainerStatus]bool{}
	for _, cause := range []func(*corev1.ContainerStatus) Cause{containerCause, lastContainerCause} {
		causeOf(&whole, func(s *corev1.ContainerStatus) Cause {
			found := cause(s)
			kept[s] = kept[s] || found != Cause{}
			return found
		})
	}
	keep := func(all []corev1.ContainerStatus) (some []corev1.ContainerStatus) {
		for i := range all {
			if kept[&all[i]] {
				some = append(some, withCause(&all[i], pod, most))
			}
		}
		return some
	}
	to.InitContainerStatuses, to.ContainerStatuses = keep(from.InitContainerStatuses), keep(from.ContainerStatuses)
	for _, c := range from.Conditions {
		if isUnschedulable(&c) && len(to.InitContainerStatuses)+len(to.ContainerStatuses)+len(to.Conditions) == 0 {
			to.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: truncateText(c.Message, most)}}
		}
	}
}

// The lengths in bytes that KeepCauses cuts the names of images and containers, and reasons, to. No reason in use is longer.
const (
	maxKeptImage  = 256
	maxKeptName   = 63
	maxKeptReason = 32
)

// withCause copies the fields of the status of a pod's container that its cause is read from.
func withCause(s *corev1.ContainerStatus, pod *corev1.Pod, most int) corev1.ContainerStatus {
	kept := corev1.ContainerStatus{Name: truncateText(s.Name, maxKeptName), Ready: s.Ready}
	kept.State.Terminated = keptEnd(s.State.Terminated)
	waiting := s.State.Waiting
	switch {
	case s.State.Running != nil:
		kept.State.Running = &corev1.ContainerStateRunning{}
		kept.LastTerminationState.Terminated = keptEnd(s.LastTerminationState.Terminated)
	case waiting != nil && waiting.Reason == "CrashLoopBackOff":
		kept.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting.Reason}
		kept.LastTerminationState.Terminated = keptEnd(s.LastTerminationState.Terminated)
	case waiting != nil:
		words := waiting.Message
		if len(words) > most {
			// A cut could remove the quotes by which the command of a container is known, or the end of a value.
			words = truncateText(withoutCommand(secrecy.RedactForeign(words, pod)), most)
		}
		kept.Image = truncateText(s.Image, maxKeptImage)
		kept.State.Waiting = &corev1.ContainerStateWaiting{Reason: truncateText(waiting.Reason, maxKeptReason), Message: strings.Clone(words)}
	}
	return kept
}

func keptEnd(ended *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if ended == nil {
		return nil
	}
	return &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: truncateText(ended.Reason, maxKeptReason)}
}

func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}
