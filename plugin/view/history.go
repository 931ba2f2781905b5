package view

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/resource"
)

// History is the recorded revisions of a workload, the newest first.
type History struct {
	Meta       `json:",inline"`
	Resource   string     `json:"resource"`
	Namespace  string     `json:"namespace"`
	Name       string     `json:"name"`
	Deployment string     `json:"deployment"`
	Revisions  []Revision `json:"revisions"`
	// Canary is the canary that waits for its promotion, which has no revision yet.
	Canary   *appv1.CanaryStatus `json:"canary,omitempty"`
	NotShown []Missing           `json:"notShown,omitempty"`
}

// Change is a difference between two specs.
type Change struct {
	// Path are the fields, with dots between them; an item of a list is named in brackets.
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
}

// Part is a part of a custom resource whose workload has a history of its own.
type Part string

// unrecorded are the fields of a spec that no revision has: the pods do not depend on them.
var unrecorded = servingFields()

// servingFields returns the names of the fields of the spec that shape no pod: the auxiliary objects, the release, the number of pods and
// whether the resource is paused.
func servingFields() []string {
	fields := []string{"replicas", "paused"}
	for _, part := range []reflect.Type{reflect.TypeFor[appv1.ServingSpec](), reflect.TypeFor[appv1.ReleaseSpec]()} {
		for i := range part.NumField() {
			name, _, _ := strings.Cut(part.Field(i).Tag.Get("json"), ",")
			fields = append(fields, name)
		}
	}
	return fields
}

// ErrNoHistory is the error for a part of a resource without a history.
var ErrNoHistory = errors.New("no history")

// RecordedWorkload returns the workload of a part whose revisions are recorded; the part is empty for a kind with one workload.
func (r *Resource) RecordedWorkload(part Part) (*Workload, error) {
	if r.Schedule != nil {
		return nil, fmt.Errorf(runsOfTask, ErrNoHistory, r.ObjectName(), r.PluginCommand("history"))
	}
	for i := range r.Workloads {
		switch w := &r.Workloads[i]; {
		case w.Part != part:
		case w.Foreign:
			return nil, fmt.Errorf("%w: without spec.template, Deployment %s belongs to another tool; see \"%s\"",
				ErrNoHistory, w.Name, CommandLine(r.ObjectMeta.Namespace, "kubectl rollout history", deploymentOf+w.Name))
		case w.Spec != nil:
			return w, nil
		}
	}
	switch parts := r.partNames(); {
	case len(parts) == 0:
		return nil, fmt.Errorf("%w: %s has no parts; leave out --part", ErrNoHistory, r.ObjectName())
	case part == "":
		return nil, fmt.Errorf("%w: %s has one for each of its Deployments; choose with --part %s", ErrNoHistory, r.ObjectName(),
			strings.Join(parts, " or --part "))
	default:
		return nil, fmt.Errorf("%w: part %q has none; choose %s", ErrNoHistory, part, strings.Join(parts, " or "))
	}
}

// partNames returns the names of the parts that have a history.
func (r *Resource) partNames() []string {
	var parts []string
	for i := range r.Workloads {
		if w := &r.Workloads[i]; w.Spec != nil && w.Part != "" {
			parts = append(parts, string(w.Part))
		}
	}
	return parts
}

// CurrentSpec returns the part of the spec that the revisions of the workload are records of, as JSON.
func (w *Workload) CurrentSpec() map[string]any { return toMap(w.Spec) }

// HistoryOf returns the history of a part of a resource; part is empty for a kind with one workload.
func HistoryOf(s *Snapshot, part Part) (*History, error) {
	h, _, err := s.readHistory(part)
	return h, err
}

// readHistory returns the history of a part of a resource, and whether all its records were read.
func (s *Snapshot) readHistory(part Part) (h *History, isWhole bool, err error) {
	r := &s.Resource
	w, err := r.RecordedWorkload(part)
	if err != nil {
		return nil, false, err
	}
	h = &History{
		Meta: newMeta("History"), Resource: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, Deployment: w.Name,
		Revisions: []Revision{}, NotShown: s.Missing, Canary: r.Canary,
	}
	var sets []*appsv1.ReplicaSet
	var records recordReader
	for _, d := range s.relatedDeployments() {
		if d.Name != w.Name {
			continue
		}
		for _, rs := range s.replicaSets(d.UID) {
			sets = append(sets, rs)
			h.Revisions = append(h.Revisions, s.recordedRevision(w, d, rs, &records))
		}
	}
	for i := range h.Revisions {
		rev := &h.Revisions[i]
		rev.Wanted = rev.Spec != nil && len(RollbackOperations(w.CurrentSpec(), "", rev)) == 0
		before := i + 1 + slices.IndexFunc(h.Revisions[i+1:], func(r Revision) bool { return r.Spec != nil })
		if rev.Spec == nil || before == i {
			continue
		}
		if rev.Changes = CompareSpecs(h.Revisions[before].Spec, rev.Spec); len(rev.Changes) == 0 {
			rev.Cause = causeOf(sets[before], sets[i])
		}
	}
	return cleanView(h), !records.left, nil
}

// AnnotationRestarted is the annotation that "kubectl rollout restart" writes into a pod template.
const AnnotationRestarted = "kubectl.kubernetes.io/restartedAt"

// causeOf returns why a ReplicaSet was made although its recorded spec equals the previous one.
func causeOf(before, rs *appsv1.ReplicaSet) string {
	var causes []string
	was, is := before.Spec.Template.Annotations, rs.Spec.Template.Annotations
	if was[AnnotationRestarted] != is[AnnotationRestarted] {
		causes = append(causes, "restarted")
	}
	if was[appv1.AnnotationConfig] != is[appv1.AnnotationConfig] {
		causes = append(causes, "content of ConfigMaps or Secrets changed")
	}
	if !defaultsOf(before).Equal(defaultsOf(rs)) {
		causes = append(causes, "other defaults of AppDefaults")
	}
	if len(causes) == 0 && before.Annotations[appv1.AnnotationLastAppliedInputs] != rs.Annotations[appv1.AnnotationLastAppliedInputs] {
		causes = append(causes, "newer rendering or size")
	}
	return strings.Join(causes, "; ")
}

// defaultsOf returns the record of the defaults of a ReplicaSet, empty for none.
func defaultsOf(rs *appsv1.ReplicaSet) resource.DefaultsRecord {
	inputs, _ := resource.DecodeInputs(rs.Annotations[appv1.AnnotationLastAppliedInputs]) // An unreadable record has none.
	return inputs.Defaults
}

// FindRevision returns a revision by its number.
func (h *History) FindRevision(number int64) (*Revision, error) {
	for i := range h.Revisions {
		rev := &h.Revisions[i]
		if rev.Number != number {
			continue
		}
		if rev.Spec == nil {
			return nil, fmt.Errorf("revision %d: %s", rev.Number, rev.Note)
		}
		return rev, nil
	}
	return nil, h.UnseenError(fmt.Errorf("there is no revision %d; see \"%s\"", number, h.historyCommand()))
}

// UnseenError returns the error to report of a revision that was not found: another one where the ReplicaSets, which have the records, could
// not be listed.
func (h *History) UnseenError(err error) error {
	for _, m := range h.NotShown {
		if m.Kinds == kindsReplicaSets || m.Kinds == kindsDeployments {
			return fmt.Errorf("no revision can be read: %s; ask for this right, or see \"%s\"", m, PluginCommand(h.Namespace, "check"))
		}
	}
	return err
}

// OtherRevision returns the newest recorded revision whose spec is not the present one.
func (h *History) OtherRevision(now map[string]any) (*Revision, error) {
	for i := range h.Revisions {
		if rev := &h.Revisions[i]; rev.Spec != nil && len(RollbackOperations(now, "", rev)) > 0 {
			return rev, nil
		}
	}
	return nil, h.UnseenError(fmt.Errorf("there is no other revision with a record; see \"%s\"", h.historyCommand()))
}

// historyCommand is the command that prints the history.
func (h *History) historyCommand() string {
	return PluginCommand(h.Namespace, "history", argumentOf(h.Resource, h.Name))
}

// Text returns the history as a table.
func (h *History) Text(s Style, now time.Time) string {
	t := table{painted: -1, headed: true}
	t.addRow("", "REV", "SINCE", "PODS", "NOTE", "CHANGE")
	for i := range h.Revisions {
		rev := &h.Revisions[i]
		number := fmt.Sprint(rev.Number)
		if rev.Current {
			number += " *"
		}
		var words []string
		for _, c := range rev.Changes {
			words = append(words, c.String())
		}
		change := CleanLine(cmp.Or(strings.Join(words, "; "), rev.Cause, "image "+rev.Image)) // Values may have several lines.
		t.addRow("", number, rev.InForceFor(now), rev.Pods, cmp.Or(rev.Note, "-"), change)
	}
	text := t.drawText(s)
	if len(h.Revisions) == 0 {
		text = "No revision of Deployment " + h.Deployment + " can be seen.\n"
	}
	if c := h.Canary; c != nil {
		text += CleanLine(fmt.Sprintf("Canary: Deployment %s runs image %s, %d of %s ready; it becomes a revision when it is promoted.\n",
			c.Name, c.Image, c.Ready, message.Count(int(c.Pods), "pod")))
	}
	return text + "Changes of replicas alone, or around the pods, make no revision.\n" + notShown(s, h.NotShown)
}
