package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// An invalid spec leaves the last applied one in force: the children are repaired by the record that is on the workload
// object. Nothing is pruned by it. A spec of which the API server refuses a part is invalid too.

// applySpec applies the workload that the spec means. If the spec is new, and a part of it is refused, the last applied one
// stays in force.
func (s *Shared) applySpec(ctx context.Context, d *deployed, w *resource.Workload, seen *observed, report *reconciler.Report) error {
	req := s.request(d, w, seen)
	req.Whole = s.respecified(d, seen.deployment)
	err := s.applyWorkload(ctx, d, req, seen, report)
	if !req.Whole || err == nil {
		s.Records.forget(d.recordKey())
		return err
	}
	if !apply.Refused(err) {
		return err
	}
	action, line := report.Changed, report.Changes
	err = s.keepLastApplied(ctx, d, seen, report, err)
	if report.Changed == "" {
		report.Changed, report.Changes = action, line
	}
	return err
}

// respecified reports whether the spec differs from the record on the live Deployment, or from what is remembered of one that
// is gone.
func (s *Shared) respecified(d *deployed, live *appsv1.Deployment) bool {
	if live != nil {
		return d.specChanged && metav1.IsControlledBy(live, d.owner)
	}
	remembered, ok := s.Records.get(d.recordKey())
	if !ok || remembered.spec == "" {
		return false
	}
	changed, err := d.changed(remembered.spec)
	return err == nil && changed
}

// keepLastApplied applies the last applied spec again, and returns refusal, which says what is wrong with the present one.
func (s *Shared) keepLastApplied(ctx context.Context, d *deployed, seen *observed, report *reconciler.Report, refusal error) error {
	if d.held || d.paused {
		return refusal
	}
	workload, err := s.lastApplied(d, seen.making())
	if workload == nil || err != nil {
		return reconciler.Aggregate(err, d.goneMessage(refusal, seen.deployment == nil, "Deployment"))
	}
	req := s.request(d, workload, seen)
	req.Unwanted = nil
	return withTrouble(refusal, s.applyWorkload(ctx, d, req, seen, report))
}

// goneMessage adds to the refusal of a spec that there is no workload object, if there was one that is gone.
func (d *deployed) goneMessage(refusal error, gone bool, kind string) error {
	if !gone || !d.hadWorkload() {
		return refusal
	}
	d.gone = true
	return appendMessage(refusal, fmt.Sprintf("%s %s does not exist and cannot be recreated from an earlier spec", kind, d.name))
}

// withTrouble returns the refusal of a spec together with what stands in the way of the last applied one.
func withTrouble(refusal, err error) error {
	if err == nil || errors.Is(err, reconciler.ErrStale) {
		return reconciler.Aggregate(err, refusal)
	}
	_, message := reconciler.Words(err)
	refusal = appendMessage(refusal, "The last applied spec is not fully in force: "+message)
	var stalled *reconciler.StalledError
	if errors.As(refusal, &stalled) {
		stalled.RetryAfter = unwatched
	}
	return refusal
}

// appendMessage adds a sentence to what an error that stalls says.
func appendMessage(err error, sentence string) error {
	var stalled *reconciler.StalledError
	if !errors.As(err, &stalled) {
		return err
	}
	return &reconciler.StalledError{
		Reason: stalled.Reason, Message: fmt.Sprintf("%s. %s", stalled.Message, sentence), RetryAfter: stalled.RetryAfter,
	}
}

// lastApplied returns the workload as it was last applied, nil if that is not known. A workload object that is gone is
// rebuilt from what was last seen of it.
func (s *Shared) lastApplied(d *deployed, m making) (*resource.Workload, error) {
	key := d.recordKey()
	record := workloadRecord{selector: m.selector, autoscaled: m.autoscaled}
	if m.object != nil && !metav1.IsControlledBy(m.object, d.owner) {
		return nil, nil
	}
	if m.object != nil {
		for _, key := range []string{appv1.AnnotationLastAppliedSpec, appv1.AnnotationLastAppliedInputs} {
			if !apply.OwnsAnnotation(m.object, d.manager, key) {
				return nil, nil
			}
		}
		annotations := m.object.GetAnnotations()
		record.spec, record.inputs = annotations[appv1.AnnotationLastAppliedSpec], annotations[appv1.AnnotationLastAppliedInputs]
	} else if remembered, ok := s.Records.get(key); ok {
		record = remembered
	}
	in, err := resource.DecodeInputs(record.inputs)
	if err != nil || record.spec == "" || d.fromRecord == nil {
		return nil, nil //nolint:nilerr // What cannot be read cannot be believed: the children stay as they are.
	}
	workload, err := d.fromRecord(record.spec, resource.Observed{Selector: record.selector, Inputs: in, Autoscaled: record.autoscaled})
	if err != nil {
		return nil, nil //nolint:nilerr // As above.
	}
	if m.object != nil {
		believed, err := s.Engine.RecordHolds(d.manager, templateOnly(workload.Template), templateOnly(m.template), m.object)
		if err != nil || !believed {
			return nil, err
		}
		s.Records.remember(key, record)
	}
	return workload, nil
}

// recordKey tells the workloads of all owners apart.
func (d *deployed) recordKey() recordKey {
	return recordKey{manager: d.manager, owner: client.ObjectKeyFromObject(d.owner), workload: d.name}
}

// recordKey is the workload of an owner.
type recordKey struct {
	manager  string
	owner    types.NamespacedName
	workload string
}

// workloadRecord is what a workload object was built from.
type workloadRecord struct {
	selector     map[string]string
	spec, inputs string
	autoscaled   bool
}

// maxRecordBytes limits what is remembered of workloads whose spec is invalid.
const maxRecordBytes = 8 << 20

// lastRecords remembers the records of workloads whose spec is invalid, so that one of them that is deleted can be
// recreated. What it forgets, in a restart for one, is reported as gone.
type lastRecords struct {
	mu      sync.Mutex
	records map[recordKey]workloadRecord
	bytes   int
}

func newLastRecords() *lastRecords {
	return &lastRecords{records: map[recordKey]workloadRecord{}}
}

func (l *lastRecords) get(key recordKey) (workloadRecord, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, ok := l.records[key]
	return record, ok
}

// remember keeps a record while there is room.
func (l *lastRecords) remember(key recordKey, record workloadRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
	size := len(record.spec) + len(record.inputs)
	if l.bytes+size > maxRecordBytes {
		return
	}
	l.records[key] = record
	l.bytes += size
}

func (l *lastRecords) forget(key recordKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(key)
}

// forgetOwner drops all records of an owner that is gone.
func (l *lastRecords) forgetOwner(manager string, owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.records {
		if key.manager == manager && key.owner == owner {
			l.drop(key)
		}
	}
}

func (l *lastRecords) drop(key recordKey) {
	if record, ok := l.records[key]; ok {
		l.bytes -= len(record.spec) + len(record.inputs)
		delete(l.records, key)
	}
}
