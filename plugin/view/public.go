package view

import (
	"maps"
	"reflect"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PublicCopy returns a copy of a snapshot for readers without rights of their own, who see by the rights of a program. It lacks the messages that containers
// leave when they end, which can be lines of a log. The values that newHider hides are missing in all that others have written to events and to
// statuses, and the views of the copy hide the values of all variables.
func (s *Snapshot) PublicCopy() *Snapshot {
	values := s.hiddenValues()
	values.incomplete = values.incomplete || s.lacksValues()
	public, without := *s, values.newHider(s.namedWords())
	public.public = true
	public.Resource = publicResource(&s.Resource, without)
	public.Deployments, public.StatefulSets, public.ReplicaSets = slices.Clone(s.Deployments), slices.Clone(s.StatefulSets), slices.Clone(s.ReplicaSets)
	for i := range public.Deployments {
		public.Deployments[i].Status = publicTexts(public.Deployments[i].Status, without)
	}
	for i := range public.StatefulSets {
		public.StatefulSets[i].Status = publicTexts(public.StatefulSets[i].Status, without)
	}
	for i := range public.ReplicaSets {
		public.ReplicaSets[i].Status = publicTexts(public.ReplicaSets[i].Status, without)
	}
	public.Autoscalers, public.Claims = slices.Clone(s.Autoscalers), slices.Clone(s.Claims)
	for i := range public.Autoscalers {
		public.Autoscalers[i].Status = publicTexts(public.Autoscalers[i].Status, without)
	}
	for i := range public.Claims {
		public.Claims[i].Status = publicTexts(public.Claims[i].Status, without)
	}
	public.CronJobs, public.Jobs, public.Pods = slices.Clone(s.CronJobs), slices.Clone(s.Jobs), slices.Clone(s.Pods)
	for i := range public.CronJobs {
		public.CronJobs[i].Status = publicTexts(public.CronJobs[i].Status, without)
	}
	for i := range public.Jobs {
		public.Jobs[i].Status = publicTexts(public.Jobs[i].Status, without)
	}
	for i := range public.Pods {
		public.Pods[i].Status = publicTexts(withoutLastWords(&public.Pods[i].Status), without)
	}
	public.Around, public.Events = slices.Clone(s.Around), slices.Clone(s.Events)
	for i := range public.Around {
		public.Around[i].Object = publicMessages(public.Around[i].Object, without)
	}
	for i := range public.Events {
		public.Events[i] = publicEvent(&public.Events[i], without)
	}
	return &public
}

// PublicRow returns the row of a resource for readers without rights of their own, without the values that are hidden in its spec.
func PublicRow(r *Resource) Row {
	s := Snapshot{Resource: *r}
	var found values
	found.addSpec(toMap(r.Spec))
	public := publicResource(r, found.newHider(s.namedWords()))
	return RowOf(&public)
}

// publicResource returns a copy of a resource with its status as a function returns the texts.
func publicResource(r *Resource, without func(string) string) Resource {
	public := *r
	public.Status, public.Defaults = publicTexts(r.Status, without), publicTexts(r.Defaults, without)
	return public
}

// oneWord matches a reason or a state as Kubernetes writes it.
var oneWord = regexp.MustCompile(`^[A-Za-z]+$`)

// publicTexts returns a copy of what others have written, with all texts as a function returns them, but for words such as a reason or the type of a
// condition: a variable can have such a word as its value.
func publicTexts[T any](written T, without func(string) string) T {
	cleaned, _ := cleanValue(reflect.ValueOf(&written).Elem(), "", func(field, text string) string {
		if field != "Message" && oneWord.MatchString(text) {
			return text
		}
		return without(text)
	})
	public, _ := cleaned.Interface().(T)
	return public
}

// publicMessages returns the content of an object with the messages in its status as a function returns them. Addresses stay: the spec has them, too.
func publicMessages(object map[string]any, without func(string) string) map[string]any {
	cleaned, _ := cleanValue(reflect.ValueOf(object["status"]), "", func(field, text string) string {
		if field != "message" && field != "reason" {
			return text
		}
		return without(text)
	})
	public := maps.Clone(object)
	if cleaned.IsValid() {
		public["status"] = cleaned.Interface()
	}
	return public
}

// publicEvent returns an event with all texts as a function returns them, but for its name and the identity of its object.
func publicEvent(e *corev1.Event, without func(string) string) corev1.Event {
	public := publicTexts(*e, without)
	about := e.InvolvedObject
	about.Kind = public.InvolvedObject.Kind
	public.ObjectMeta, public.InvolvedObject = e.ObjectMeta, about
	return public
}

// withoutLastWords returns a status of a pod without the messages of ended containers.
func withoutLastWords(status *corev1.PodStatus) corev1.PodStatus {
	public := *status.DeepCopy()
	for _, all := range [][]corev1.ContainerStatus{public.InitContainerStatuses, public.ContainerStatuses, public.EphemeralContainerStatuses} {
		for i := range all {
			for _, state := range []*corev1.ContainerState{&all[i].State, &all[i].LastTerminationState} {
				if state.Terminated != nil {
					state.Terminated.Message = ""
				}
			}
		}
	}
	return public
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
		return withoutVariables(RedactChanges(changes))
	}
	return RedactChanges(changes)
}
