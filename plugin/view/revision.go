package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

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
		return "over " + ageOf(r.SinceAtLatest, now)
	}
	return cmp.Or(ageOf(r.Since, now), "not known")
}

// recordedRevision returns the record of a ReplicaSet of a Deployment. A record that does not make the pods of the ReplicaSet is ignored. The current
// revision is that of the Deployment, so a user with the right to create ReplicaSets alone cannot choose it.
func (s *Snapshot) recordedRevision(w *Workload, d *appsv1.Deployment, rs *appsv1.ReplicaSet, records *recordReader) Revision {
	current := revisionOf(rs) == revisionOf(d)
	rev := Revision{
		Number: revisionOf(rs), Current: current, ReplicaSet: rs.Name, Created: createdAt(rs.ObjectMeta), Image: mainImage(rs.Spec.Template.Spec.Containers),
		Pods: fmt.Sprintf("%d/%d", rs.Status.ReadyReplicas, ptr.Deref(rs.Spec.Replicas, 1)),
	}
	if rs.Annotations[annotationRevisionHistory] == "" {
		rev.Since = rev.Created
	} else {
		rev.SinceAtLatest = writtenAt(rs)
	}
	recorded, fault := w.recordOn(d, rs, records)
	if rev.NoHold = fault; fault != "" {
		rev.Note = fault + ": no rollback"
		return rev
	}
	for _, field := range unrecorded {
		delete(recorded, field)
	}
	rev.Spec = recorded
	if current {
		if verdict := s.Resource.mainCondition(); verdict.Status != metav1.ConditionTrue || verdict.Type == appv1.ConditionStalled {
			rev.Note = verdict.Reason
		}
	}
	if rev.NoHold = whyUnheld(rs); rev.NoHold != "" {
		rev.Note = strings.TrimPrefix(rev.Note+"; "+rev.NoHold+": no hold", "; ")
	}
	return rev
}

// whyUnheld returns why a ReplicaSet with a record of its spec cannot be held, empty if it can.
func whyUnheld(rs *appsv1.ReplicaSet) string {
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
func (w *Workload) recordOn(d *appsv1.Deployment, rs *appsv1.ReplicaSet, records *recordReader) (recorded map[string]any, fault string) {
	if revisionOf(rs) > revisionOf(d) {
		return nil, "newer than the Deployment"
	}
	record, fault := records.readRecord(rs.Annotations[appv1.AnnotationLastAppliedSpec])
	if fault != "" {
		return nil, fault
	}
	spec := w.NewRecord()
	if resource.DecodeSpec(record, spec) != nil {
		return nil, faultUnreadable
	}
	recorded = toMap(spec)
	if image, _ := recorded["image"].(string); image == "" || !runsImage(rs, image) || !w.makesPods(record, d, rs) {
		return nil, "record unlike its pods"
	}
	return recorded, ""
}

// runsImage reports whether a container of a ReplicaSet runs an image.
func runsImage(rs *appsv1.ReplicaSet, image string) bool {
	for i := range rs.Spec.Template.Spec.Containers {
		if rs.Spec.Template.Spec.Containers[i].Image == image {
			return true
		}
	}
	return false
}

// makesPods reports whether a record makes the pods of a ReplicaSet, with the recorded inputs. Fields that the record does not state do not count,
// as when the operator holds a ReplicaSet. It is true for pods that no record makes: those that an adoption has kept, and those without a
// record of the inputs.
func (w *Workload) makesPods(record string, d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
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
	changes := CompareSpecs(toMap(built.Template), toMap(rs.Spec.Template))
	return !slices.ContainsFunc(changes, func(c Change) bool { return c.Old != nil })
}
