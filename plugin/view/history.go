package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
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

// Revision is a ReplicaSet, with the spec that it was built from.
type Revision struct {
	Number  int64 `json:"number"`
	Current bool  `json:"current,omitempty"`
	// Wanted is true if the recorded spec is the present one, so that a rollback to the revision changes nothing: that of the current revision,
	// and, while the resource is held or rolled back, that of the revision that is kept from running.
	Wanted bool `json:"wanted,omitempty"`
	// ReplicaSet is the name of its ReplicaSet.
	ReplicaSet string `json:"replicaSet"`
	// Created is when the ReplicaSet was created, which may have been for an earlier number.
	Created *metav1.Time `json:"created,omitempty"`
	// Since is when the revision began to be in force, nil where that is not known: Kubernetes notes no time when a ReplicaSet is used
	// again. SinceAtLatest is the last moment at which that can have been then, nil where that is not known, either.
	Since         *metav1.Time `json:"since,omitempty"`
	SinceAtLatest *metav1.Time `json:"sinceAtLatest,omitempty"`
	// Pods is the number of ready pods out of the wanted ones.
	Pods  string `json:"pods"`
	Image string `json:"image,omitempty"`
	// Changes are the differences from the revision before it.
	Changes []Change `json:"changes,omitempty"`
	// Cause is the other change in the pods if the spec is unchanged, empty if the cause is unknown.
	Cause string `json:"cause,omitempty"`
	// Note is the reason why the revision's spec is unknown, or the problem with the spec.
	Note string `json:"note,omitempty"`
	// NoHold is the reason why the operator cannot hold the revision, empty if it can.
	NoHold string `json:"noHold,omitempty"`
	// Spec is the recorded spec, nil if there is none.
	Spec map[string]any `json:"-"`
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

// Recorded returns the workload of a part whose revisions are recorded; the part is empty for a kind with one workload.
func (r *Resource) Recorded(part Part) (*Workload, error) {
	if r.Schedule != nil {
		return nil, fmt.Errorf(runsOfTask, ErrNoHistory, r.Object(), r.Command("history"))
	}
	for i := range r.Workloads {
		switch w := &r.Workloads[i]; {
		case w.Part != part:
		case w.Foreign:
			return nil, fmt.Errorf("%w: without spec.template, Deployment %s belongs to another tool; see \"%s\"",
				ErrNoHistory, w.Name, Command(r.ObjectMeta.Namespace, "kubectl rollout history", deploymentOf+w.Name))
		case w.Spec != nil:
			return w, nil
		}
	}
	switch parts := r.parts(); {
	case len(parts) == 0:
		return nil, fmt.Errorf("%w: %s has no parts; leave out --part", ErrNoHistory, r.Object())
	case part == "":
		return nil, fmt.Errorf("%w: %s has one for each of its Deployments; choose with --part %s", ErrNoHistory, r.Object(),
			strings.Join(parts, " or --part "))
	default:
		return nil, fmt.Errorf("%w: part %q has none; choose %s", ErrNoHistory, part, strings.Join(parts, " or "))
	}
}

// parts returns the names of the parts that have a history.
func (r *Resource) parts() []string {
	var parts []string
	for i := range r.Workloads {
		if w := &r.Workloads[i]; w.Spec != nil && w.Part != "" {
			parts = append(parts, string(w.Part))
		}
	}
	return parts
}

// Current returns the part of the spec that the revisions of the workload are records of, as JSON.
func (w *Workload) Current() map[string]any { return toMap(w.Spec) }

// HistoryOf returns the history of a part of a resource; part is empty for a kind with one workload.
func HistoryOf(s *Snapshot, part Part) (*History, error) {
	r := &s.Resource
	w, err := r.Recorded(part)
	if err != nil {
		return nil, err
	}
	h := &History{
		Meta: head("History"), Resource: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, Deployment: w.Name,
		Revisions: []Revision{}, NotShown: s.Missing, Canary: r.Canary,
	}
	var sets []*appsv1.ReplicaSet
	for _, d := range s.deployments() {
		if d.Name != w.Name {
			continue
		}
		for _, rs := range s.replicaSets(d.UID) {
			sets = append(sets, rs)
			h.Revisions = append(h.Revisions, s.revision(w, d, rs))
		}
	}
	for i := range h.Revisions {
		rev := &h.Revisions[i]
		rev.Wanted = rev.Spec != nil && len(Rollback(w.Current(), "", rev)) == 0
		before := i + 1 + slices.IndexFunc(h.Revisions[i+1:], func(r Revision) bool { return r.Spec != nil })
		if rev.Spec == nil || before == i {
			continue
		}
		if rev.Changes = Compare(h.Revisions[before].Spec, rev.Spec); len(rev.Changes) == 0 {
			rev.Cause = causeOf(sets[before], sets[i])
		}
	}
	return shown(h), nil
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

// annotationRevisionHistory is where the controller of Deployments writes the numbers that a ReplicaSet had before the present one, see
// RevisionHistoryAnnotation in https://pkg.go.dev/k8s.io/kubectl/pkg/util/deployment.
const annotationRevisionHistory = "deployment.kubernetes.io/revision-history"

// writtenAt returns when the owner of a ReplicaSet's revision number last changed a field of the ReplicaSet: the number then or earlier.
// It is nil where no manager has the number.
func writtenAt(rs *appsv1.ReplicaSet) *metav1.Time {
	for i := range rs.ManagedFields {
		entry := &rs.ManagedFields[i]
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Metadata.Annotations["f:"+annotationRevision]; owns {
			return entry.Time
		}
	}
	return nil
}

// InForceFor is the time since the revision came into force, in words: "9d", "over 3m", or that it is not known.
func (r *Revision) InForceFor(now time.Time) string {
	if r.Since == nil && r.SinceAtLatest != nil {
		return "over " + age(r.SinceAtLatest, now)
	}
	return cmp.Or(age(r.Since, now), "not known")
}

// revision returns the record of a ReplicaSet of a Deployment. A record that does not make the pods of the ReplicaSet is ignored. The current
// revision is that of the Deployment, so a user with the right to create ReplicaSets alone cannot choose it.
func (s *Snapshot) revision(w *Workload, d *appsv1.Deployment, rs *appsv1.ReplicaSet) Revision {
	current := revisionOf(rs) == revisionOf(d)
	rev := Revision{
		Number: revisionOf(rs), Current: current, ReplicaSet: rs.Name, Created: created(rs.ObjectMeta), Image: mainImage(rs.Spec.Template.Spec.Containers),
		Pods: fmt.Sprintf("%d/%d", rs.Status.ReadyReplicas, ptr.Deref(rs.Spec.Replicas, 1)),
	}
	if rs.Annotations[annotationRevisionHistory] == "" {
		rev.Since = rev.Created
	} else {
		rev.SinceAtLatest = writtenAt(rs)
	}
	recorded, fault := w.recordOn(d, rs)
	if rev.NoHold = fault; fault != "" {
		rev.Note = fault + ": no rollback"
		return rev
	}
	for _, field := range unrecorded {
		delete(recorded, field)
	}
	rev.Spec = recorded
	if current {
		if verdict := s.Resource.verdict(); verdict.Status != metav1.ConditionTrue || verdict.Type == appv1.ConditionStalled {
			rev.Note = verdict.Reason
		}
	}
	if rev.NoHold = unheld(rs); rev.NoHold != "" {
		rev.Note = strings.TrimPrefix(rev.Note+"; "+rev.NoHold+": no hold", "; ")
	}
	return rev
}

// unheld returns why a ReplicaSet with a record of its spec cannot be held, empty if it can.
func unheld(rs *appsv1.ReplicaSet) string {
	switch in, err := resource.DecodeInputs(rs.Annotations[appv1.AnnotationLastAppliedInputs]); {
	case err != nil:
		return "no record of its inputs"
	case in.Kept:
		return noHoldTemplate
	}
	return ""
}

// noHoldTemplate is why a ReplicaSet cannot be held that has another pod template than its record makes: a ReplicaSet of before an adoption, to
// which Kubernetes has copied the records of the Deployment.
const noHoldTemplate = "pods of before the adoption"

// recordOn returns the spec that is recorded on a ReplicaSet of the workload, or the fault of the record.
func (w *Workload) recordOn(d *appsv1.Deployment, rs *appsv1.ReplicaSet) (recorded map[string]any, fault string) {
	if revisionOf(rs) > revisionOf(d) {
		return nil, "newer than the Deployment"
	}
	record := rs.Annotations[appv1.AnnotationLastAppliedSpec]
	spec := w.NewRecord()
	switch err := resource.DecodeSpec(record, spec); {
	case record == "":
		return nil, "no record"
	case errors.Is(err, resource.ErrNoSpec):
		return nil, "only a hash"
	case err != nil:
		return nil, "unreadable record"
	}
	recorded = toMap(spec)
	if image, _ := recorded["image"].(string); image == "" || !runs(rs, image) || !w.makes(record, d, rs) {
		return nil, "record unlike its pods"
	}
	return recorded, ""
}

// runs reports whether a container of a ReplicaSet runs an image.
func runs(rs *appsv1.ReplicaSet, image string) bool {
	for i := range rs.Spec.Template.Spec.Containers {
		if rs.Spec.Template.Spec.Containers[i].Image == image {
			return true
		}
	}
	return false
}

// makes reports whether a record makes the pods of a ReplicaSet, with the recorded inputs. Fields that the record does not state do not count,
// as when the operator holds a ReplicaSet. It is true for pods that no record makes: those that an adoption has kept, and those without a
// record of the inputs.
func (w *Workload) makes(record string, d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	inputs, err := resource.DecodeInputs(rs.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil || inputs.Kept || w.built == nil {
		return true
	}
	options := resource.BuildOptions{Inputs: inputs, Serving: w.built.Serving()}
	if d.Spec.Selector != nil {
		options.Selector = d.Spec.Selector.MatchLabels
	}
	built, err := resource.BuildRecorded(w.built, record, options)
	if err != nil {
		return false
	}
	changes := Compare(toMap(built.Template), toMap(rs.Spec.Template))
	return !slices.ContainsFunc(changes, func(c Change) bool { return c.Old != nil })
}

// Find returns a revision by its number.
func (h *History) Find(number int64) (*Revision, error) {
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
	return nil, h.Unseen(fmt.Errorf("there is no revision %d; see \"%s\"", number, h.command()))
}

// Unseen returns the error to report of a revision that was not found: another one where the ReplicaSets, which have the records, could
// not be listed.
func (h *History) Unseen(err error) error {
	for _, m := range h.NotShown {
		if m.Kinds == kindsReplicaSets || m.Kinds == kindsDeployments {
			return fmt.Errorf("no revision can be read: %s; ask for this right, or see \"%s\"", m, PluginCommand(h.Namespace, "check"))
		}
	}
	return err
}

// Other returns the newest recorded revision whose spec is not the present one.
func (h *History) Other(now map[string]any) (*Revision, error) {
	for i := range h.Revisions {
		if rev := &h.Revisions[i]; rev.Spec != nil && len(Rollback(now, "", rev)) > 0 {
			return rev, nil
		}
	}
	return nil, h.Unseen(fmt.Errorf("there is no other revision with a record; see \"%s\"", h.command()))
}

// command is the command that prints the history.
func (h *History) command() string {
	return PluginCommand(h.Namespace, "history", argument(h.Resource, h.Name))
}

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Rollback returns the operations that restore a recorded spec, for fields that differ only. The number of pods and the auxiliary objects
// stay.
func Rollback(now map[string]any, path string, to *Revision) []Operation {
	var ops []Operation
	for _, field := range slices.Sorted(maps.Keys(union(now, to.Spec))) {
		if slices.Contains(unrecorded, field) {
			continue
		}
		is, has := now[field]
		wanted, wants := to.Spec[field]
		switch {
		case !wants:
			ops = append(ops, Operation{Op: "remove", Path: path + "/" + field})
		case !has:
			ops = append(ops, Operation{Op: "add", Path: path + "/" + field, Value: wanted})
		case !reflect.DeepEqual(is, wanted):
			ops = append(ops, Operation{Op: "replace", Path: path + "/" + field, Value: wanted})
		}
	}
	return ops
}

// Changes returns the changes of a rollback to a revision.
func Changes(now map[string]any, to *Revision) []Change {
	shown := maps.Clone(now)
	for _, field := range unrecorded {
		delete(shown, field)
	}
	return Compare(shown, to.Spec)
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// toMap returns the JSON of an API type. Numbers keep their digits.
func toMap(spec any) map[string]any {
	// API types always have a JSON form, and a struct becomes an object.
	data, _ := json.Marshal(spec)
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	tree := map[string]any{}
	_ = decoder.Decode(&tree)
	return tree
}

// Text returns the history as a table.
func (h *History) Text(s Style, now time.Time) string {
	t := table{painted: -1, headed: true}
	t.add("", "REV", "SINCE", "PODS", "NOTE", "CHANGE")
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
		change := clean(cmp.Or(strings.Join(words, "; "), rev.Cause, "image "+rev.Image)) // Values may have several lines.
		t.add("", number, rev.InForceFor(now), rev.Pods, cmp.Or(rev.Note, "-"), change)
	}
	text := t.text(s)
	if len(h.Revisions) == 0 {
		text = "No revision of Deployment " + h.Deployment + " can be seen.\n"
	}
	if c := h.Canary; c != nil {
		text += clean(fmt.Sprintf("Canary: Deployment %s runs image %s, %d of %s ready; it becomes a revision when it is promoted.\n",
			c.Name, c.Image, c.Ready, CountPods(int(c.Pods))))
	}
	return text + "Changes of replicas alone, or around the pods, make no revision.\n" + notShown(s, h.NotShown)
}
