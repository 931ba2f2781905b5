package apply

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/reconciler"
)

// Mode is how far Run carries out a request.
type Mode int

const (
	// Write writes the objects.
	Write Mode = iota
	// DryRun sends dry runs in place of the writes: admission and refusals of the API server are part of the outcomes.
	DryRun
	// Local sends no request. The outcomes follow from the live objects of the request, before admission. Whether an object would change is
	// exact. A local run needs whole live objects to return the fields that an adoption removes and keeps.
	Local
)

// Request has the objects that one owner is to have. Run does not change it.
type Request struct {
	// Owner is the custom resource. It controls the objects.
	Owner client.Object
	// Manager is the field manager of the writes. All owners of a kind share it, and no other kind has it: under one
	// shared manager, a partial apply for one kind would remove fields that were applied for another kind.
	Manager string
	// Objects are the wanted objects.
	Objects []Object
	// Prune are live objects to delete if the owner controls them, once all wanted objects are applied.
	Prune  []client.Object
	Policy Policy
	Before Before
}

// Policy is what an owner accepts.
type Policy struct {
	// Adopt takes over live objects that nothing controls.
	Adopt bool
	// AllOrNothing writes no new part of a request if the API server refuses another part of it; see Outcomes.Refusal.
	AllOrNothing bool
	// AcceptOverrides accepts the values that the API server stores in place of stated ones.
	AcceptOverrides bool
	// DefaultLabels are the labels of the objects that the owner does not state, apart from Object.StatedLabels. An adopted object keeps
	// its own values of them.
	DefaultLabels []string
}

// Before is the state of an owner before the request.
type Before struct {
	// Existed reports whether the owner was reconciled before. A missing object is then created only after the owner was
	// read from the API server: the view of an owner that is being deleted may be outdated.
	Existed bool
	// Overridden is the message of earlier outcomes, also of another process, about fields that the API server did not keep. It
	// counts for an object until the object is written.
	Overridden string
	// SpecChanged is true if the owner has another generation than the status is about.
	SpecChanged bool
	// Deleted are the kinds of the objects that earlier dry runs of the same plan would delete.
	Deleted []string
}

// deletesKind reports whether earlier dry runs of the plan would delete an object of a kind.
func (b *Before) deletesKind(kind string) bool { return slices.Contains(b.Deleted, kind) }

// Object is one wanted object.
type Object struct {
	// Desired is the wanted literal: type, name and all fields of the owner. The values of a Secret are in data: the API server never
	// returns stringData. A PersistentVolumeClaim has metadata and its size: its StatefulSet creates it, and the engine only grows it.
	Desired client.Object
	// Live is the last observed object, nil if there is none.
	Live client.Object
	// StatedLabels are the labels that the owner states for this object alone.
	StatedLabels map[string]string
	// Retained is an object that outlives the owner. Desired has no owner reference, and names its owner by the annotation
	// app.huolala.cn/retained-for, as "<kind>.<name>".
	Retained bool
	// Replace deletes a live object that differs, instead of updating it, and leaves alone the objects that it controls, unless
	// ReplacePods is set, which deletes them with it. The next run recreates it.
	Replace, ReplacePods bool
	// Former is the object of this name that was deleted to be recreated, nil if there is none or it is not known. The recreated object has what
	// other managers had added to its pod template.
	Former client.Object
	// Prerequisite is an object that must be in place before any object behind it is created or replaced, as a database's
	// password is before the database.
	Prerequisite bool
	// Independent is an object that is created whether or not the prerequisites before it are in place.
	Independent bool
	// Unavailable, if set, is why an object of this kind can be neither read nor written. It is the error of the object.
	Unavailable error
	// Auxiliary is an object around the pods. An obstacle to it holds up no other object, unless the object is a Prerequisite, and is
	// not in the error of Run but in the Outcome and in Outcomes.Trouble.
	Auxiliary bool
	// LeadsTo is the object of the request, by type and name, that an Auxiliary object makes reachable. While the owner does not control
	// it, the Auxiliary object stays unchanged: it would lead to an object of another owner.
	LeadsTo client.Object
	// AboutPodsOf is the object of the request, by type and name, whose pods an object selects, scales, restricts or scrapes. While that
	// object exists, and the owner neither controls it nor takes it over in this run, an Auxiliary object stays unchanged: the pods are those of others.
	// Any other object stays unchanged while the adoption of that object is withheld.
	AboutPodsOf client.Object
}

// Outcome is the result for one object.
type Outcome struct {
	// Change is the change, without an action if nothing came of the object.
	Change
	// Object is the wanted object of the request.
	Object Object
	// Live is the object after the run; in a dry or local run, and if nothing was written, the observed object.
	Live client.Object
	// Err is the obstacle to the object, nil if there is none.
	Err error
	// NotWritten reports that the object certainly was not written and still differs from Desired: another object is an obstacle, or
	// the API server refuses or forbids the write.
	NotWritten bool
	// Withheld reports that a dry run would not write the object, because the API server refuses another part of the request.
	Withheld bool
	// Adopted reports that a dry run would adopt the object.
	Adopted bool
	// Before and After are the object before and after a dry or local run, nil if there is none.
	Before, After client.Object
	// Differences are the fields that a dry run changes.
	Differences []describe.Difference
	// TakenOver reports that the owner does not control the object yet, or applies it for the first time.
	TakenOver bool
	// Unasked reports that the API server has not answered a dry run in time, or that a webhook supports no dry runs.
	Unasked bool
}

// Outcomes are the results of a request.
type Outcomes struct {
	// Objects has one outcome for each wanted object, in the order of the request.
	Objects []Outcome
	// Pruned has one outcome for each deleted object.
	Pruned []Outcome
	// Refusal is why no new part of an AllOrNothing request was written, nil if the parts were written.
	Refusal error
	// unpruned are the obstacles to the deletion of auxiliary objects, and the deletions that have not ended.
	unpruned []error
	// taken are the messages about the objects of others that have the names of wanted objects.
	taken []string
}

// Changes returns the changes of the objects in the order of the request, and then the deletions.
func (o *Outcomes) Changes() ChangeSet {
	var changes ChangeSet
	for i := range o.Objects {
		if c := o.Objects[i].Change; c.Action != "" {
			changes = append(changes, c)
		}
	}
	for i := range o.Pruned {
		changes = append(changes, o.Pruned[i].Change)
	}
	return changes
}

// Trouble returns the obstacles to auxiliary objects and to deletions, nil if there are none. The error of Run does not have them.
func (o *Outcomes) Trouble() error {
	errs := slices.Clone(o.unpruned)
	for i := range o.Objects {
		if o.Objects[i].Object.Auxiliary {
			errs = append(errs, o.Objects[i].Err)
		}
	}
	return o.nameTaken(reconciler.Aggregate(errs...))
}
