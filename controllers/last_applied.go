package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// An invalid spec leaves the last applied one in force: the children are repaired by the record that is on the workload
// object. Nothing is pruned by it. A spec that the API server refuses in part is invalid too.

// workloadObjects are the objects of one workload, as a kind of workload object has them.
type workloadObjects interface {
	// provenance says how the live workload object was made, kind is that object's.
	provenance() provenance
	kind() string
	// growsVolume reports whether a workload asks for other volumes than the live workload object has.
	growsVolume(w *resource.Workload) bool
	// apply makes the objects true. What it wrote replaces what was observed.
	apply(ctx context.Context, w *resource.Workload, how application, report *reconciler.Report) outcome
	// substitute returns what to apply in the place of a workload that is refused, where no record tells what was applied last;
	// nil if nothing can be.
	substitute(refused *resource.Workload) *resource.Workload
	// keptMessage says what is in force while the spec is refused, empty if that needs no words. recordMessage says that only a hash
	// of the spec is recorded.
	keptMessage() string
	recordMessage() string
	// autoscaledBy returns the name of an autoscaler that targets the workload object, empty if there is none.
	autoscaledBy() string
	// reportStatus states what lives in the status and in the report.
	reportStatus(report *reconciler.Report)
}

// application is how to apply a workload.
type application struct {
	// whole writes nothing new if a part of it is refused.
	whole bool
	// earlier is true for what an earlier spec means: nothing is pruned by it.
	earlier bool
	// alone applies the workload object, with what it cannot be without, and nothing else.
	alone bool
}

// outcome is what came of an application.
type outcome struct {
	err error
	// refused is why nothing new was written, nil if it was.
	refused error
	// notWritten is true where the workload object is not as wanted, and was certainly not written.
	notWritten bool
}

// applySpec applies the workload that the spec means. If the spec is new, and a part of it is refused, the last applied one
// stays in force. If only the workload object cannot be written as the spec means it, that alone is kept as it was last applied.
func (s *Deps) applySpec(ctx context.Context, d *target, objects workloadObjects, w *resource.Workload, report *reconciler.Report) error {
	whole := s.specChanged(d, objects.provenance().object) || objects.growsVolume(w)
	out := objects.apply(ctx, w, application{whole: whole}, report)
	again := application{earlier: true}
	switch {
	case errors.Is(out.err, reconciler.ErrStale):
		return out.err
	case out.refused != nil:
	case whole && out.notWritten:
		again.alone = true
	default:
		if !whole || out.err == nil {
			s.Records.forgetRecord(d.recordKey())
		}
		return out.err
	}
	return s.keepLastApplied(ctx, d, objects, w, again, report, out.err)
}

// specChanged reports whether the spec differs from the record on the live workload object, or from what is remembered of one
// that is gone.
func (s *Deps) specChanged(d *target, live client.Object) bool {
	record := ""
	switch {
	case live == nil:
		if remembered, ok := s.Records.recordFor(d.recordKey()); ok {
			record = remembered.spec
		}
	case !metav1.IsControlledBy(live, d.owner):
		return false
	case d.specChanged: // The history of the live object has compared it already.
		return true
	default:
		changed, err := d.spec.Changed(live.GetAnnotations()[appv1.AnnotationLastAppliedSpec], resource.ScopeVolumes)
		return err == nil && changed
	}
	if record == "" {
		return false
	}
	changed, err := d.spec.Changed(record, resource.ScopePods)
	if err == nil && !changed {
		changed, err = d.spec.Changed(record, resource.ScopeVolumes)
	}
	return err == nil && changed
}

// keepLastApplied applies the last applied spec again, and returns refusal, which says what is wrong with the present one.
// refused is what that one means, nil if nothing could be built from it.
func (s *Deps) keepLastApplied(ctx context.Context, d *target, objects workloadObjects, refused *resource.Workload, how application,
	report *reconciler.Report, refusal error,
) error {
	if d.paused {
		return refusal
	}
	made := objects.provenance()
	workload, err := s.lastApplied(d, made)
	if workload == nil && err == nil && refused != nil {
		workload = objects.substitute(refused)
	}
	if workload == nil || err != nil {
		return reconciler.Aggregate(err, d.goneMessage(refusal, made.object == nil, objects.kind()))
	}
	err = objects.apply(ctx, workload, how, report).err
	if !how.alone {
		d.kept = workload.Record[appv1.AnnotationLastAppliedSpec]
	}
	if said := objects.keptMessage(); said != "" && err == nil {
		refusal = appendMessage(refusal, said)
	}
	if how.alone {
		return reconciler.Aggregate(refusal, err)
	}
	return withTrouble(refusal, err)
}

// repairHeld repairs what was applied last of a workload whose present spec has to wait.
func (s *Deps) repairHeld(ctx context.Context, d *target, objects workloadObjects, report *reconciler.Report) error {
	if d.paused {
		return nil
	}
	workload, err := s.lastApplied(d, objects.provenance())
	if workload == nil || err != nil {
		return err
	}
	return objects.apply(ctx, workload, application{earlier: true}, report).err
}

// goneMessage adds to the refusal of a spec that there is no workload object, if there was one that is gone.
func (d *target) goneMessage(refusal error, gone bool, kind string) error {
	if !gone || !d.hadWorkload() {
		return refusal
	}
	d.gone = true
	return appendMessage(refusal, fmt.Sprintf(messageNotRestored, kind, d.name))
}

// withTrouble returns the refusal of a spec together with what stands in the way of the last applied one.
func withTrouble(refusal, err error) error {
	if err == nil || errors.Is(err, reconciler.ErrStale) {
		return reconciler.Aggregate(err, refusal)
	}
	_, message := reconciler.ReasonAndMessageOf(err)
	refusal = appendMessage(refusal, messageNotFullyInForce+message)
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
func (s *Deps) lastApplied(d *target, m provenance) (*resource.Workload, error) {
	key := d.recordKey()
	record := workloadRecord{selector: m.selector, autoscaled: m.autoscaled, mark: d.markOf(m.object)}
	if m.object != nil && !metav1.IsControlledBy(m.object, d.owner) {
		return nil, nil
	}
	remembered, _ := s.Records.recordFor(key)
	switch {
	case m.object == nil:
		record = remembered
	case d.ownsRecord(m.object):
		annotations := m.object.GetAnnotations()
		record.spec, record.inputs = annotations[appv1.AnnotationLastAppliedSpec], annotations[appv1.AnnotationLastAppliedInputs]
	default:
		record.spec, record.inputs = remembered.spec, remembered.inputs
	}
	in, err := resource.DecodeInputs(record.inputs)
	if err != nil || record.spec == "" {
		return nil, nil //nolint:nilerr // What cannot be read cannot be believed: the children stay as they are.
	}
	in.Kept = in.Kept && m.object != nil // There is no template to keep.
	workload, err := resource.BuildRecorded(d.spec, record.spec, resource.BuildOptions{
		Selector: record.selector, Inputs: in, Autoscaled: record.autoscaled,
		OtherAutoscaler: m.otherAutoscaler, LiveReplicas: m.replicas, Serving: d.around,
	})
	if err != nil {
		return nil, nil //nolint:nilerr // As above.
	}
	if record.mark.Failed != nil { // Another spec than the one that is refused now; it may come back.
		workload.Record[appv1.AnnotationHeld] = record.mark.encode()
	}
	if m.object != nil {
		believed, err := s.Engine.RecordHolds(d.manager, templateOnly(workload.Template), templateOnly(m.template), m.object)
		if err != nil || !believed {
			return nil, err
		}
		s.Records.rememberRecord(key, record)
	}
	return workload, nil
}

// ownsRecord reports whether the record on a live workload object is the operator's own, and not edited by others.
func (d *target) ownsRecord(live client.Object) bool {
	return apply.OwnsAnnotation(live, d.manager, appv1.AnnotationLastAppliedSpec) &&
		apply.OwnsAnnotation(live, d.manager, appv1.AnnotationLastAppliedInputs)
}

// recordKey tells the workloads of all owners apart.
func (d *target) recordKey() recordKey {
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
	// mark is that of a hold.
	mark holdMark
}

// maxRecordBytes limits what is remembered of workloads whose spec is invalid.
const maxRecordBytes = 8 << 20

// lastRecords remembers the records of workloads whose spec is invalid, so that one of them that is deleted can be
// recreated. What it forgets, in a restart for one, is reported as gone.
type lastRecords struct {
	mu      sync.Mutex
	records map[recordKey]workloadRecord
	bytes   int
	// declined are the rollouts that have stalled and are not undone.
	declined map[recordKey]declinedRollback
}

func newLastRecords() *lastRecords {
	return &lastRecords{records: map[recordKey]workloadRecord{}, declined: map[recordKey]declinedRollback{}}
}

func (l *lastRecords) recordFor(key recordKey) (workloadRecord, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, ok := l.records[key]
	return record, ok
}

// rememberRecord keeps a record while there is room.
func (l *lastRecords) rememberRecord(key recordKey, record workloadRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropRecord(key)
	size := len(record.spec) + len(record.inputs)
	if l.bytes+size > maxRecordBytes {
		return
	}
	l.records[key] = record
	l.bytes += size
}

func (l *lastRecords) forgetRecord(key recordKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropRecord(key)
}

// forgetOwner drops all records of an owner that is gone.
func (l *lastRecords) forgetOwner(manager string, owner types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.records {
		if key.manager == manager && key.owner == owner {
			l.dropRecord(key)
		}
	}
	for key := range l.declined {
		if key.manager == manager && key.owner == owner {
			delete(l.declined, key)
		}
	}
}

func (l *lastRecords) dropRecord(key recordKey) {
	if record, ok := l.records[key]; ok {
		l.bytes -= len(record.spec) + len(record.inputs)
		delete(l.records, key)
	}
}
