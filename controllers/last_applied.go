package controllers

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// An invalid spec leaves the last applied one in force: the children are repaired by the record that is on the workload
// object. Nothing is pruned by it. A spec that the API server refuses in part is invalid too.

// application is how to apply a workload.
type application struct {
	// whole writes nothing new if a part of it is refused.
	whole bool
	// earlier is true for what an earlier spec means: nothing is pruned by it.
	earlier bool
	// alone applies the workload object, with what it cannot be without, and nothing else.
	alone bool
	// canary is what becomes of the canary.
	canary canaryDecision
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

// lastApplied returns the workload as it was last applied, nil if that is not known. A workload object that is gone is rebuilt from
// what was last seen of it. record is what to remember of the object that lives.
func (c decider) lastApplied() (w *resource.Workload, record *workloadRecord, err error) {
	d, live := c.d, c.seen.object
	if live != nil && !c.seen.isOwned(d.owner) {
		return nil, nil, nil
	}
	known := c.seen.remembered.record
	if live != nil {
		known = workloadRecord{
			selector: c.seen.selector(), autoscaled: c.seen.scaled, mark: d.markOf(live), spec: known.spec, inputs: known.inputs,
		}
		if d.ownsRecord(live) {
			known.spec, known.inputs = recordOf(live), live.GetAnnotations()[appv1.AnnotationLastAppliedInputs]
		}
	}
	in, err := resource.DecodeInputs(known.inputs)
	if err != nil || known.spec == "" {
		return nil, nil, nil //nolint:nilerr // What cannot be read cannot be believed: the children stay as they are.
	}
	in.Kept = in.Kept && live != nil // There is no template to keep.
	options := c.seen.options(in, d.around)
	options.Selector, options.Autoscaled = known.selector, known.autoscaled
	if w, err = resource.BuildRecorded(d.spec, known.spec, options); err != nil {
		return nil, nil, nil //nolint:nilerr // As above.
	}
	if known.mark.Failed != nil { // Another spec than the one that is refused now; it may come back.
		w.Record[appv1.AnnotationHeld] = known.mark.encode()
	}
	if live == nil {
		return w, nil, nil
	}
	believed, err := c.compare.RecordHolds(d.manager, templateOnly(w.Template), templateOnly(c.seen.template()), live)
	if err != nil || !believed {
		return nil, nil, err
	}
	return w, &known, nil
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

// memory is what is remembered of one workload.
type memory struct {
	// record is the last applied record, and known is true if there is one.
	record workloadRecord
	known  bool
	// declined is a rollout that has stalled and is not undone.
	declined declinedRollback
}

// remembrance is what a decision adds to the memory of a workload, nil for what stays.
type remembrance struct {
	record   *workloadRecord
	declined *declinedRollback
}

// recall returns what is remembered of a workload.
func (l *lastRecords) recall(key recordKey) memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	record, known := l.records[key]
	return memory{record: record, known: known, declined: l.declined[key]}
}

// remember adds to what is remembered of a workload.
func (l *lastRecords) remember(key recordKey, add remembrance) {
	if add.record != nil {
		l.rememberRecord(key, *add.record)
	}
	if add.declined != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.declined[key] = *add.declined
	}
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
