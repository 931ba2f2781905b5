package view

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Public returns a copy of a snapshot for readers without rights of their own, who see by the rights of a program. It lacks the messages that containers
// leave when they end, which can be lines of a log. The values that hider hides are missing in the texts of events and kubelets, and the
// views of the copy hide the values of all variables.
func (s *Snapshot) Public() *Snapshot {
	public, without := *s, s.hider()
	public.public = true
	public.Pods, public.Events = slices.Clone(s.Pods), slices.Clone(s.Events)
	for i := range public.Pods {
		status := &public.Pods[i].Status
		status.InitContainerStatuses = withoutWords(status.InitContainerStatuses, without)
		status.ContainerStatuses = withoutWords(status.ContainerStatuses, without)
		status.EphemeralContainerStatuses = withoutWords(status.EphemeralContainerStatuses, without)
	}
	for i := range public.Events {
		public.Events[i].Message = without(public.Events[i].Message)
	}
	return &public
}

// withoutWords returns the statuses of containers without the messages of ended containers. The messages of waiting ones pass through a function.
func withoutWords(all []corev1.ContainerStatus, without func(string) string) []corev1.ContainerStatus {
	shown := make([]corev1.ContainerStatus, len(all))
	for i := range all {
		all[i].DeepCopyInto(&shown[i])
		for _, state := range []*corev1.ContainerState{&shown[i].State, &shown[i].LastTerminationState} {
			if state.Terminated != nil {
				state.Terminated.Message = ""
			}
			if state.Waiting != nil {
				state.Waiting.Message = without(state.Waiting.Message)
			}
		}
	}
	return shown
}

// HideValues returns a spec of the resource, or of an earlier revision, in which values that may be secret are hidden; in a public snapshot, the
// values of all variables.
func (s *Snapshot) HideValues(spec map[string]any) map[string]any {
	if s.public {
		return hideVariables(RedactSpec(spec))
	}
	return RedactSpec(spec)
}

// hideChanges returns changes in which the values that HideValues hides are hidden.
func (s *Snapshot) hideChanges(changes []Change) []Change {
	if s.public {
		return withoutVariables(Redact(changes))
	}
	return Redact(changes)
}
