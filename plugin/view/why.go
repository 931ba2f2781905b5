package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
)

// The texts for a resource whose status is of an earlier spec, or whose Service is gone.
const (
	messageCanaryNode = "a canary: its pods run the present spec next to those of before"
	messageUnobserved = "the operator has not reconciled the latest change yet"
	// The texts for the defaults of a resource.
	messageDefaultsCurrent = "those of the present AppDefaults"
	messageDefaultsNoPods  = "none yet: its first pods have those of the present AppDefaults"
	messageDefaultsInvalid = "It cannot have those of the present AppDefaults: "
	messageDefaultsEarlier = "earlier ones. "
	messageDefaultsNone    = "none yet. "
	messageDefaultsWait    = "It takes those of the present AppDefaults with its next change, or in a wave of a rollout, which leaves out resources that are paused, held or rolling out, have canary or beforeRollout, or keep the pods of before an adoption. To see what they change: %s"
	messageNoService       = "; there is no Service of this resource that leads to them"
	// unobservedPatience is how long that is nothing to worry about.
	unobservedPatience = 30 * time.Second
)

// Why explains the state of a resource.
type Why struct {
	Meta      `json:",inline"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	// Cause is why the resource is in its state, in one sentence; empty for a state that needs none.
	Cause string `json:"cause,omitempty"`
	// Since is when the state began, from the status; nil if the status does not have the time.
	Since *metav1.Time `json:"since,omitempty"`
	// Chain leads from the resource down to the root cause, which is its last step.
	Chain []Step `json:"chain,omitempty"`
	// Pending are the changes that wait for the end of a pause: their number first, and then a line each.
	Pending []string `json:"pending,omitempty"`
	// Defaults says which defaults the resource has, empty if no AppDefaults counts for it.
	Defaults string `json:"defaults,omitempty"`
	// Works describes which pods still serve.
	Works string `json:"works,omitempty"`
	// Advice are the remedies, a line each. Suggested is the action among them that helps most, nil if none does.
	Advice    []string    `json:"advice,omitempty"`
	Suggested *Suggestion `json:"suggested,omitempty"`
	Events    []Event     `json:"events,omitempty"`
	NotShown  []Missing   `json:"notShown,omitempty"`
	// serves is true if the pods are ready, although the latest spec is not in force.
	serves bool
}

// Step is an object on the way to the root cause.
type Step struct {
	Object string `json:"object"`
	Text   string `json:"text,omitempty"`
	Root   bool   `json:"root,omitempty"`
}

// Event is an event of the resource.
type Event struct {
	Time    *metav1.Time `json:"time,omitempty"`
	Reason  string       `json:"reason"`
	Message string       `json:"message"`
	Warning bool         `json:"warning,omitempty"`
}

// WhyOf explains the state of a resource, with at most events of the latest events.
func WhyOf(s *Snapshot, events int) *Why { return cleanView(whyOf(s, events)) }

func whyOf(s *Snapshot, events int) *Why {
	r := &s.Resource
	row, verdict := RowOf(r), r.mainCondition()
	w := &Why{
		Meta: newMeta("Why"), Resource: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, State: row.State, Reason: row.Reason,
		Message: row.Message, Cause: row.Cause, Events: s.latestEvents(events), NotShown: s.Missing, Pending: row.Pending,
		Defaults: r.defaultsInWords(),
	}
	w.Chain = []Step{{Object: r.Kind + " " + r.ObjectMeta.Name, Text: s.specOrigin()}}
	switch w.State {
	case StateUnobserved:
		w.explainUnobserved(s)
		return w
	case StateDeleting:
		w.Since = r.ObjectMeta.DeletionTimestamp
		w.Works, w.Advice = s.whatWorks(), []string{"Nothing: its children are deleted with it. Finalizers that hold it back are in metadata.finalizers."}
		return w
	}
	if !verdict.LastTransitionTime.IsZero() {
		w.Since = verdict.LastTransitionTime.DeepCopy()
	}
	w.Works = s.whatWorks()
	w.serves = verdict.Type == appv1.ConditionApplied && w.State.Group() == GroupNeedsYou
	if w.State.Group() == GroupReady {
		w.Message = verdict.Message
		return w
	}
	w.Chain = append(w.Chain, s.causeChain(w.Reason)...)
	if last := &w.Chain[len(w.Chain)-1]; len(w.Chain) == 1 || !last.Root {
		w.Chain = append(w.Chain, Step{Object: "condition " + verdict.Type, Text: verdict.Message, Root: true})
	}
	w.Advice, w.Suggested = s.remediesFor(w.Reason, w.Message), s.suggestAction(w.Reason)
	return w
}

// defaultsInWords says which defaults the resource has, empty if no AppDefaults counts for it.
func (r *Resource) defaultsInWords() string {
	switch used := r.Defaults; {
	case used == nil:
		return ""
	case used.Current:
		return messageDefaultsCurrent
	case r.Selector == "" && used.Invalid != "":
		return messageDefaultsNone + messageDefaultsInvalid + used.Invalid
	case r.Selector == "": // There has been no Deployment.
		return messageDefaultsNoPods
	case used.Invalid != "":
		return messageDefaultsEarlier + messageDefaultsInvalid + used.Invalid
	}
	return messageDefaultsEarlier + fmt.Sprintf(messageDefaultsWait, r.PluginCommand("plan", "--refresh"))
}

// explainUnobserved adds the advice about a resource that the operator has not looked at.
func (w *Why) explainUnobserved(s *Snapshot) {
	changed := s.Resource.changedBy().Time
	if changed == nil {
		changed = createdAt(s.Resource.ObjectMeta)
	}
	w.Since, w.Works = changed, s.whatWorks()
	if changed != nil && s.Now.Sub(changed.Time) > unobservedPatience {
		w.Advice = []string{"Is the operator running, and does it watch this namespace? See: " + PluginCommand(s.Resource.ObjectMeta.Namespace, "check")}
		return
	}
	w.Advice = []string{"Nothing yet: the operator looks at a change within seconds."}
}

// specOrigin returns the image of the resource, and the last author of its spec.
func (s *Snapshot) specOrigin() string {
	var parts []string
	if s.Resource.Image != "" {
		parts = append(parts, "image "+s.Resource.Image)
	}
	if by := s.Resource.changedBy(); by.Time != nil {
		parts = append(parts, fmt.Sprintf("changed %s ago by %s", longDuration(s.Now.Sub(by.Time.Time)), by.Name))
	}
	return strings.Join(parts, ", ")
}

// causeChain returns the steps from the first workload that is not ready, the Job that a rollout waits for, or the schedule of a Task, down to
// its pods. The reason is the resource's reason.
func (s *Snapshot) causeChain(reason string) []Step {
	if s.Resource.Schedule != nil {
		return s.belowSchedule()
	}
	if s.Resource.WaitsForCommand() {
		return s.belowJob()
	}
	for _, set := range s.statefulSets() {
		pods := s.podsOf(set.UID)
		if verdict := health.StatefulSet(set, pods); !verdict.Ready {
			step := Step{Object: "StatefulSet " + set.Name, Text: updatedFigures(set.Status.UpdatedReplicas, set.Spec.Replicas)}
			return append([]Step{step}, rootOf(pods, false)...)
		}
	}
	for _, d := range s.relatedDeployments() {
		verdict := health.Deployment(d, s.podsOfDeployment(d), s.Now)
		if verdict.Ready {
			continue
		}
		step := Step{Object: "Deployment " + d.Name, Text: updatedFigures(d.Status.UpdatedReplicas, d.Spec.Replicas)}
		if verdict.Stalled {
			step.Text += fmt.Sprintf(", no progress for %d s", ptr.Deref(d.Spec.ProgressDeadlineSeconds, 600))
		}
		return append([]Step{step}, s.belowDeployment(d, verdict, reason)...)
	}
	return nil
}

func updatedFigures(updated int32, wanted *int32) string {
	return fmt.Sprintf("%d of %d updated", updated, ptr.Deref(wanted, 1))
}

// belowDeployment returns the steps below a Deployment that is not ready. Where the API server refuses the pods, there are none.
func (s *Snapshot) belowDeployment(d *appsv1.Deployment, verdict health.Verdict, reason string) []Step {
	pods := health.RolloutPods(d, s.podsOfDeployment(d), verdict.Stalled)
	for _, rs := range s.replicaSets(d.UID) {
		steps := rootOf(podsControlledBy(rs.UID, pods), verdict.Stalled)
		if len(steps) == 0 {
			continue
		}
		step := Step{Object: "ReplicaSet " + rs.Name}
		if n := revisionOf(rs); n > 0 {
			step.Text = fmt.Sprintf("revision %d", n)
		}
		return append([]Step{step}, steps...)
	}
	if steps := rootOf(pods, verdict.Stalled); len(steps) > 0 {
		return steps
	}
	if verdict.Reason == appv1.ReasonPodsRejected || verdict.Reason == appv1.ReasonQuotaExceeded {
		return []Step{{Object: "API server", Text: verdict.Detail, Root: true}}
	}
	if verdict.UnderWay() && reason == verdict.Reason {
		switch {
		case d.Spec.Paused:
			return []Step{{Object: "rollout", Text: "paused: " + verdict.Message, Root: true}}
		case health.LostPods(d): // The rollout has finished.
			return []Step{{Object: "pods", Text: verdict.Message, Root: true}}
		}
		return []Step{{Object: "rollout", Text: "under way: " + verdict.Message, Root: true}}
	}
	return nil
}

// rootOf returns the step of the gravest cause among pods, none if nothing is known to be wrong.
func rootOf(pods []corev1.Pod, stalled bool) []Step {
	cause := health.Worst(pods, stalled)
	if cause == (health.Cause{}) {
		return nil
	}
	n, nodes := 0, []string{}
	for i := range pods {
		if health.Worst(pods[i:i+1], stalled) != cause {
			continue
		}
		n++
		if node := pods[i].Spec.NodeName; node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	object := message.Count(n, "pod")
	if len(nodes) > 0 {
		slices.Sort(nodes)
		if len(nodes) > 3 {
			nodes = append(nodes[:3], "…")
		}
		object += ", on " + strings.Join(nodes, ", ")
	}
	return []Step{{Object: object, Text: cause.String(), Root: true}}
}

// whatWorks describes which pods still serve, or which run of a Task has succeeded.
func (s *Snapshot) whatWorks() string {
	if s.Resource.Schedule != nil {
		return s.lastSuccess()
	}
	if s.lacksKind(kindsPods) {
		return ""
	}
	wanted, ready := 0, 0
	var by []string
	groups := s.podGroups()
	for i := range groups {
		g := &groups[i]
		if !g.canary {
			wanted += g.wanted
		}
		n := countReady(g.pods)
		if ready += n; n == 0 {
			continue
		}
		if g.revision > 0 {
			by = append(by, fmt.Sprintf("%d of revision %d (%s)", n, g.revision, ShortImage(g.image)))
		} else {
			by = append(by, fmt.Sprintf("%d of %s (%s)", n, g.workload, ShortImage(g.image)))
		}
	}
	switch {
	case len(groups) == 0:
		return "" // Nothing that belongs to the resource can be seen.
	case wanted == 0 && ready == 0:
		return "No pod is wanted."
	case ready == 0:
		return fmt.Sprintf("Nothing: none of %s is ready.", message.Count(wanted, "pod"))
	}
	text := fmt.Sprintf("%d of %s ready", ready, message.Count(wanted, "pod"))
	if ready > wanted { // A rollout has more pods than are wanted.
		text = fmt.Sprintf("%s ready, %d wanted", message.Count(ready, "pod"), wanted)
	}
	if len(by) > 0 {
		text += ": " + strings.Join(by, ", ")
	}
	if s.lacksWantedService() {
		text += messageNoService
	}
	return text + "."
}

// latestEvents returns the latest n events.
func (s *Snapshot) latestEvents(n int) []Event {
	var events []Event
	own := s.ownUIDs()
	for i := range s.Events {
		e := &s.Events[i]
		if e.InvolvedObject.UID != "" && !own[e.InvolvedObject.UID] {
			continue // The event of another object of the same name.
		}
		if e.Reason == reasonUnexpectedJob {
			continue
		}
		at := e.LastTimestamp
		if at.IsZero() {
			at = metav1.Time{Time: e.EventTime.Time}
		}
		if at.IsZero() {
			at = e.CreationTimestamp
		}
		events = append(events, Event{Time: &at, Reason: e.Reason, Message: s.eventText(e), Warning: e.Type == corev1.EventTypeWarning})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(a.Reason, b.Reason)) })
	if len(events) > n {
		events = events[:n]
	}
	return events
}
