// Package health judges a live workload: its state and the cause, in one line that a person can act on.
//
// The package is pure and uses Kubernetes' kinds alone. Messages are deterministic: a message names no pod and no time, so it changes only
// with the state. The message of a problem has no count of pods either, because the count changes with each crash: such a message changes
// with the reason, the object and the container.
package health

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/secrecy"
)

// Verdict is how a workload is doing.
type Verdict struct {
	// Ready is true if all wanted pods have the latest template and are available.
	Ready bool
	// Stalled is true if the rollout has not finished in time, and will not without help.
	Stalled bool
	// Reason is the condition's reason, Message the line next to it. Detail is the part of Message without the name of the workload object
	// and without advice.
	Reason, Message, Detail string
	// Again is in how long time alone makes it another verdict, 0 if it does not.
	Again time.Duration
}

// Deployment judges a Deployment at a time by its status and its pods. It is ready by the rule of "kubectl rollout status" and kstatus: the
// controller has observed the latest generation, every pod has the latest template and is available, and no other pod is left.
func Deployment(d *appsv1.Deployment, pods []corev1.Pod, now time.Time) Verdict {
	object := "Deployment " + d.Name
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	st := &d.Status
	observed := st.ObservedGeneration >= d.Generation
	if observed && st.UpdatedReplicas >= wanted && st.AvailableReplicas >= wanted && st.Replicas <= st.UpdatedReplicas {
		return settledVerdict(wanted, st.Replicas).withObjectName(object)
	}

	left, measured := timeLeft(d, now)
	stalled := hasTimedOut(d) || measured && left == 0
	v := Verdict{Stalled: stalled, Again: left, Reason: appv1.ReasonProgressing, Detail: progressMessage(d, wanted, observed)}
	if d.Spec.Paused && observed {
		v.Reason = appv1.ReasonRolloutPaused
	}
	if stalled {
		v.Reason, v.Detail = appv1.ReasonProgressDeadlineExceeded, fmt.Sprintf(messageNotFinished, resumeAdvice(d))
	}
	v.explainByPods(RolloutPods(d, pods, stalled), d)
	// The order of the conditions in the status does not matter: the text on the deadline follows the text on the cause.
	if c := deploymentCondition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		reason, words := Rejection(c.Message, d)
		v.Reason, v.Detail = reason, fmt.Sprintf(messagePodsRejected, words)
	}
	if stalled {
		v.Detail += fmt.Sprintf(messageNoProgress, progressDeadline(d))
	}
	return v.withObjectName(object)
}

// UnderWay reports whether a rollout progresses, or is paused by its user, without a known problem.
func (v Verdict) UnderWay() bool {
	return !v.Stalled && (v.Reason == appv1.ReasonProgressing || v.Reason == appv1.ReasonRolloutPaused)
}

// withObjectName returns the verdict with the message that its detail makes of the name of the workload object.
func (v Verdict) withObjectName(object string) Verdict {
	v.Message = object + ": " + v.Detail
	if v.Stalled {
		v.Message += AdviceStalled
	}
	return v
}

// explainByPods puts the gravest cause that a pod of a workload object shows in the place of the figures, if any shows one.
func (v *Verdict) explainByPods(pods []corev1.Pod, of secrecy.Object) {
	if cause := WorstFor(pods, v.Stalled, of); cause != (Cause{}) {
		v.Reason, v.Detail = cause.Reason, cause.String()
	}
}

// deploymentCondition returns a condition of the Deployment, nil if it has none of the type.
func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// settledVerdict is the verdict on a workload with nothing left to do.
func settledVerdict(wanted, running int32) Verdict {
	switch {
	case wanted == 0 && running == 0:
		return Verdict{Ready: true, Reason: appv1.ReasonScaledToZero, Detail: messageScaledToZero}
	case running > wanted:
		return Verdict{Reason: appv1.ReasonProgressing,
			Detail: fmt.Sprintf(messageToBeRemoved, message.Count(int(running-wanted), "pod"), running)}
	}
	return Verdict{Ready: true, Reason: appv1.ReasonReady, Detail: fmt.Sprintf(messageAvailable, message.Count(int(wanted), "pod"))}
}

// progressMessage returns the message on how far a rollout has come.
func progressMessage(d *appsv1.Deployment, wanted int32, observed bool) string {
	if !observed {
		return messageNotObserved
	}
	st := &d.Status
	old := st.Replicas - st.UpdatedReplicas
	message := fmt.Sprintf(messageProgress, st.UpdatedReplicas, message.Count(int(wanted), "pod"), st.AvailableReplicas)
	if old > 0 {
		message += fmt.Sprintf(messageOldPods, old)
	}
	return message + resumeAdvice(d)
}

// resumeAdvice returns the advice for a Deployment whose rollouts are paused, empty for another.
func resumeAdvice(d *appsv1.Deployment) string {
	if !d.Spec.Paused {
		return ""
	}
	return fmt.Sprintf(messageRolloutsPaused, d.Name, d.Namespace)
}

// Rejection returns the reason for an answer of the API server that rejects an object or its pods, and the answer's words without private
// values of the object.
func Rejection(answer string, object secrecy.Object) (reason, words string) {
	return podsRejected(answer), rejectionReason(secrecy.RedactText(answer, object))
}

// KeepRejection returns the beginning of an answer of the API server that rejects the pods of an object of others, without private values of
// the object. Rejection returns the same reason for both.
func KeepRejection(answer string, object secrecy.Object, most int) string {
	kept := truncateText(secrecy.RedactForeign(answer, object), most)
	if podsRejected(answer) == appv1.ReasonQuotaExceeded && podsRejected(kept) != appv1.ReasonQuotaExceeded {
		kept = truncateText(exceededQuota+": "+kept, most)
	}
	return kept
}

// exceededQuota is in an answer of the quota plug-in.
const exceededQuota = "exceeded quota"

// podsRejected returns the reason for pods that the API server rejects: quota or another. The API server has no code for quota, so
// podsRejected searches for the text of the quota plug-in (k8s.io/apiserver/pkg/admission/plugin/resourcequota).
func podsRejected(message string) string {
	if strings.Contains(message, exceededQuota) || strings.Contains(message, "failed quota") {
		return appv1.ReasonQuotaExceeded
	}
	return appv1.ReasonPodsRejected
}

// rejectionReason is the API server's reason without the name of the pod, which is a new one with every try.
func rejectionReason(words string) string {
	for _, verdict := range []string{" is forbidden: ", " is invalid: "} {
		if _, reason, found := strings.Cut(words, verdict); found {
			return message.Quote(reason)
		}
	}
	return message.Quote(words)
}
