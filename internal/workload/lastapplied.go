package workload

import (
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/shares"
	"huolala.cn/app-operator/resource"
)

// An invalid spec leaves the last applied one in force: the children are repaired by the record that is on the workload
// object. Nothing is pruned by it. A spec that the API server refuses in part is invalid too.

// Unwatched is the time until an obstacle that is not watched is read again: a Secret, or a claim of others.
const Unwatched = time.Minute

// withTrouble returns the refusal of a spec together with the obstacle to the last applied one.
func withTrouble(refusal, err error) error {
	if err == nil || errors.Is(err, reconciler.ErrStale) {
		return reconciler.Aggregate(err, refusal)
	}
	var waiting *reconciler.WaitingError
	if errors.As(refusal, &waiting) { // It waits for a change that may not come before the trouble is over.
		return reconciler.Aggregate(err, refusal)
	}
	_, message := reconciler.ReasonAndMessageOf(err)
	refusal = appendMessage(refusal, messageNotFullyInForce+message)
	var stalled *reconciler.StalledError
	if errors.As(refusal, &stalled) {
		stalled.RetryAfter = Unwatched
	}
	return refusal
}

// appendMessage returns a StalledError with a further sentence, and any other error unchanged.
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
	in, live := c.in, c.seen.Object
	if live != nil && !c.seen.isOwned(in.Owner) {
		return nil, nil, nil
	}
	known := c.seen.Remembered.record
	if live != nil {
		known = workloadRecord{
			selector: c.seen.Selector(), autoscaled: c.seen.Scaled, mark: c.markInForce(), spec: known.spec, inputs: known.inputs,
		}
		if in.OwnsRecord(live) {
			known.spec, known.inputs = recordOf(live), live.GetAnnotations()[appv1.AnnotationLastAppliedInputs]
		}
	}
	inputs, err := resource.DecodeInputs(known.inputs)
	if err != nil || known.spec == "" {
		return nil, nil, nil //nolint:nilerr // The children stay as they are with an unreadable record.
	}
	inputs.Kept = inputs.Kept && live != nil // There is no template to keep.
	build := func(inputs resource.BuildInputs) (*resource.Workload, error) {
		options := c.optionsFor(inputs)
		options.Selector, options.Autoscaled = known.selector, known.autoscaled
		return resource.BuildRecorded(in.Spec, known.spec, options)
	}
	if live != nil {
		defaults, reliable, err := c.reliableDefaults(&inputs, build)
		if err != nil || !reliable {
			return nil, nil, err
		}
		inputs.Defaults = defaults
	}
	if w, err = build(inputs); err != nil {
		return nil, nil, nil //nolint:nilerr // As above.
	}
	if known.mark.Failed != nil { // Another spec than the refused one; a user may state it again.
		w.Record[appv1.AnnotationHeld] = known.mark.encodeMark()
	}
	if live == nil {
		return w, nil, nil
	}
	holds, err := c.compare.RecordHolds(in.fieldManager(), templateOnly(w.Template), templateOnly(c.seen.podTemplate()), live)
	if err != nil || !holds {
		return nil, nil, err
	}
	c.keepReplicas(w)
	return w, &known, nil
}

// keepReplicas keeps the number of pods that was last applied, where an earlier spec states a number: while a canary, a hold or a command waits,
// the number follows the present spec, and the record does not. A number that the present spec states no longer, and that nobody else has set since,
// stays as it is, too. The number of a UnitedDeployment is no part of its template, and follows the present spec.
func (c decider) keepReplicas(w *resource.Workload) {
	live := c.seen.Deployment()
	switch {
	case live == nil || w.Replicas == nil || c.in.Kind.Name == resource.KindUnitedDeployment.Name:
	case fields.OwnsPath(live, c.in.fieldManager(), children.ReplicasPath):
		w.Replicas = live.Spec.Replicas
	case fields.OwnsPath(live, apply.HandoverManager, children.ReplicasPath):
		w.Replicas = nil
	}
}

// OwnsRecord reports whether the record on a live workload object is the operator's own, and not edited by others.
func (in *Input) OwnsRecord(live client.Object) bool {
	return children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationLastAppliedSpec) &&
		children.OwnsAnnotation(live, in.fieldManager(), appv1.AnnotationLastAppliedInputs)
}

// LastSpec returns the recorded spec by which lastApplied builds the workload, of a workload object that is gone as it was last seen; empty if there
// is none.
func (o *Observed) LastSpec(in *Input) string {
	switch {
	case o.Object == nil:
		return o.Remembered.record.spec
	case !o.isOwned(in.Owner):
		return ""
	case in.OwnsRecord(o.Object):
		return recordOf(o.Object)
	}
	return o.Remembered.record.spec
}

// Key is the key of the workload of an owner.
type Key struct {
	Manager  string
	Owner    types.NamespacedName
	Workload string
}

// ownerKey is the key of the owner of workloads.
type ownerKey struct {
	manager string
	owner   types.NamespacedName
}

// owner returns the key of the owner of the workload.
func (k Key) owner() ownerKey { return ownerKey{k.Manager, k.Owner} }

// keyOf returns the key of a workload of the owner.
func (o ownerKey) keyOf(workload string) Key {
	return Key{Manager: o.manager, Owner: o.owner, Workload: workload}
}

// workloadRecord is what a workload object was built from.
type workloadRecord struct {
	selector     map[string]string
	spec, inputs string
	autoscaled   bool
	// mark is that of a hold.
	mark holdMark
}

const (
	// maxNamespaceRecords is how many bytes of records are kept for the workloads of a namespace whose spec is invalid, and maxRecords for all.
	maxNamespaceRecords = 1 << 20
	maxRecords          = 8 << 20
	// recordBytes is the memory of a record without its spec and inputs, in bytes.
	recordBytes = 1 << 10
	// maxNamespaceFormer is how many bytes of StatefulSets are kept while they are recreated, and maxFormer for all.
	maxNamespaceFormer = 1 << 20
	maxFormer          = 8 << 20
)

// Records remembers the records of workloads whose spec is invalid, so that a deleted workload object can be recreated. After a restart, a
// deleted workload object with an invalid spec is reported as missing.
type Records struct {
	records *shares.Store[Key, workloadRecord]
	mu      sync.Mutex
	// owners has the names of the remembered workloads, by owner, with the UID of the owner: an owner that is created again has nothing of its
	// predecessor.
	owners map[ownerKey]map[string]types.UID
	// declined are the rollouts that have stalled and are not undone.
	declined map[Key]declinedRollback
	// replaced are the numbers of pods of StatefulSets that are deleted without their pods and recreated. former are the StatefulSets among
	// these that other managers have added to, as they were last seen.
	replaced map[Key]int32
	former   *shares.Store[Key, *appsv1.StatefulSet]
	// freed are the Services that were refused after former Services had been deleted for their node ports.
	freed map[Key]freedPorts
	// before has the records that a plan reads in addition, and does not change, nil for the memory of reconciles.
	before *Records
}

// freedPorts is why a Service was refused once its node ports were free.
type freedPorts struct {
	// service describes the Service, and until is the time until which the refusal counts.
	service string
	until   time.Time
	err     error
}

// NewRecords returns an empty memory.
func NewRecords() *Records {
	return &Records{
		records: shares.New[Key, workloadRecord](maxNamespaceRecords, maxRecords), owners: map[ownerKey]map[string]types.UID{}, declined: map[Key]declinedRollback{},
		replaced: map[Key]int32{}, former: shares.New[Key, *appsv1.StatefulSet](maxNamespaceFormer, maxFormer), freed: map[Key]freedPorts{},
	}
}

// Foresee returns the memory of a plan, which has the records of the memory of reconciles, and adds nothing to it.
func (l *Records) Foresee() *Records {
	foreseen := NewRecords()
	foreseen.before = l
	return foreseen
}

// Memory has what the operator remembers of one workload.
type Memory struct {
	// record is the last applied record, and known is true if there is one.
	record workloadRecord
	Known  bool
	// declined is a rollout that has stalled and is not undone.
	declined declinedRollback
	// Replaced is the number of pods of a StatefulSet that is deleted without its pods and recreated, nil for any other workload, and after a
	// restart of the operator. Former is that StatefulSet, nil if other managers have added nothing to it, or the memory had no room.
	Replaced *int32
	Former   client.Object
	// freed is why a Service was refused once its node ports were free.
	freed freedPorts
}

// remembrance is what a decision adds to the memory of a workload, nil for what stays.
type remembrance struct {
	record   *workloadRecord
	declined *declinedRollback
}

// Recall returns the memory of a workload of an owner with a UID.
func (l *Records) Recall(key Key, owner types.UID) Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ownerOf(key) == owner:
	case l.before != nil:
		before := l.before.Recall(key, owner)
		return Memory{record: before.record, Known: before.Known}
	default:
		return Memory{}
	}
	record, known := l.records.Get(key.Owner.Namespace, key)
	memory := Memory{record: record, Known: known, declined: l.declined[key], freed: l.freed[key]}
	if pods, ok := l.replaced[key]; ok {
		memory.Replaced = &pods
		if set, ok := l.former.Get(key.Owner.Namespace, key); ok {
			memory.Former = set
		}
	}
	return memory
}

// setOwner sets the owner of the memory of a workload, and drops that of another owner of its name. l.mu is held.
func (l *Records) setOwner(key Key, owner types.UID) {
	if l.ownerOf(key) != owner {
		l.dropWorkload(key)
	}
	of := key.owner()
	if l.owners[of] == nil {
		l.owners[of] = map[string]types.UID{}
	}
	l.owners[of][key.Workload] = owner
}

// ownerOf returns the UID of the owner of the memory of a workload, empty if there is none. l.mu is held.
func (l *Records) ownerOf(key Key) types.UID { return l.owners[key.owner()][key.Workload] }

// dropWorkload drops all that is remembered of a workload. l.mu is held.
func (l *Records) dropWorkload(key Key) {
	l.records.Delete(key.Owner.Namespace, key)
	delete(l.declined, key)
	delete(l.replaced, key)
	l.former.Delete(key.Owner.Namespace, key)
	delete(l.freed, key)
	l.dropName(key)
}

// dropName drops the name of a workload, and with the last one its owner. l.mu is held.
func (l *Records) dropName(key Key) {
	of := key.owner()
	delete(l.owners[of], key.Workload)
	if len(l.owners[of]) == 0 {
		delete(l.owners, of)
	}
}

// RememberReplaced keeps the number of pods of a StatefulSet that is about to be deleted without them, and drops it, with the StatefulSet, for nil.
func (l *Records) RememberReplaced(key Key, owner types.UID, pods *int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pods != nil {
		l.setOwner(key, owner)
		l.replaced[key] = *pods
		return
	}
	delete(l.replaced, key)
	l.former.Delete(key.Owner.Namespace, key)
	l.dropEmpty(key)
}

// RememberFormer keeps a StatefulSet whose number of pods RememberReplaced has, and drops it for nil. Without room, the number alone stays.
func (l *Records) RememberFormer(key Key, owner types.UID, set *appsv1.StatefulSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.replaced[key]; set == nil || !known || l.ownerOf(key) != owner {
		l.former.Delete(key.Owner.Namespace, key)
		return
	}
	l.former.Put(key.Owner.Namespace, key, set, heap.Size(set))
}

// dropEmpty drops the name of a workload without a memory. l.mu is held.
func (l *Records) dropEmpty(key Key) {
	_, recorded := l.records.Get(key.Owner.Namespace, key)
	_, declined := l.declined[key]
	_, replaced := l.replaced[key]
	if _, freed := l.freed[key]; !recorded && !declined && !replaced && !freed {
		l.dropName(key)
	}
}

// rememberFreed keeps why the Service of a workload was refused after a former Service had been deleted for its node ports, and drops that for a nil error.
func (l *Records) rememberFreed(key Key, owner types.UID, memory freedPorts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if memory.err == nil {
		delete(l.freed, key)
		l.dropEmpty(key)
		return
	}
	l.setOwner(key, owner)
	l.freed[key] = memory
}

// rememberWorkload adds to the memory of a workload.
func (l *Records) rememberWorkload(key Key, owner types.UID, add remembrance) {
	if add.record != nil {
		l.rememberRecord(key, owner, *add.record)
	}
	if add.declined != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.setOwner(key, owner)
		l.declined[key] = *add.declined
	}
}

// rememberRecord keeps a record, in place of an earlier one.
func (l *Records) rememberRecord(key Key, owner types.UID, record workloadRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setOwner(key, owner)
	l.records.Put(key.Owner.Namespace, key, record, recordBytes+len(record.spec)+len(record.inputs))
}

// Forget drops the last applied record of a workload. The number of pods of its replaced StatefulSet stays until there is a StatefulSet.
func (l *Records) Forget(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records.Delete(key.Owner.Namespace, key)
	l.dropEmpty(key)
}

// ForgetOwner drops all records of an owner that is gone.
func (l *Records) ForgetOwner(manager string, owner types.NamespacedName) {
	l.RetainWorkloads(manager, owner, nil)
}

// RetainWorkloads drops the records of all workloads of an owner but those with the names.
func (l *Records) RetainWorkloads(manager string, owner types.NamespacedName, names sets.Set[string]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := ownerKey{manager, owner}
	for name := range l.owners[of] {
		if !names.Has(name) {
			l.dropWorkload(of.keyOf(name))
		}
	}
}
