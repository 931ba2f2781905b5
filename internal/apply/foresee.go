package apply

import (
	"context"
	"errors"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/reconciler"
)

// Foresight is what an engine that carries nothing out was asked to do. It is for one goroutine.
type Foresight struct {
	objects []Foreseen
	// adopts is set once an object of the present request is to be adopted.
	adopts bool
}

// Foreseen is what would be done to one object.
type Foreseen struct {
	Change
	// Before is the object as it lives, nil if there is none. After is the object as the API server would have it, nil if it was
	// not asked.
	Before, After client.Object
	// Differences are the fields that would change.
	Differences []describe.Difference
	// TakenOver says that the object is not the owner's yet.
	TakenOver bool
	// Trouble is what is in the way of an object around the pods, so that nothing is done to it; nil if nothing is.
	Trouble error
	// Unasked says that the API server has not answered in time, or that it knows no dry run of the change. What of the object
	// would change is then not known.
	Unasked bool
	// auxiliary is that of the child, adopts is true for an object that is to be adopted.
	auxiliary, adopts bool
}

// Objects returns what would be done, without what would stay as it is.
func (f *Foresight) Objects() []Foreseen {
	return slices.DeleteFunc(slices.Clone(f.objects), func(o Foreseen) bool {
		return o.Trouble == nil && (o.Action == Unchanged || o.Action == "")
	})
}

// note keeps what would be done to an object. What is asked for first counts: a request that is refused is followed by one for
// what was applied earlier.
func (f *Foresight) note(found Foreseen) {
	if !slices.ContainsFunc(f.objects, func(o Foreseen) bool { return o.Kind == found.Kind && o.Name == found.Name }) {
		f.objects = append(f.objects, found)
	}
}

// Foresee returns an engine that writes nothing: what it is asked to do it previews, and notes in f. It shares with the engine
// what that remembers, and changes nothing of it.
func (e *Engine) Foresee(f *Foresight) *Engine {
	return &Engine{
		client: dryClient{e.client}, live: e.live, comparer: e.comparer,
		conflicts: e.conflicts, scaleMemory: e.scaleMemory, disabled: e.disabled, foresight: f,
	}
}

// Foresees reports whether the engine writes nothing.
func (e *Engine) Foresees() bool { return e != nil && e.foresight != nil }

// foreseeRequest is Apply of an engine that writes nothing. An object that is refused is Held, as it would be.
func (e *Engine) foreseeRequest(ctx context.Context, req *Request) (ChangeSet, error) {
	from := len(e.foresight.objects)
	e.foresight.adopts = false
	changes, err := e.Preview(ctx, req)
	refused := req.Whole && Refused(err)
	if refused {
		req.refusal = err
	}
	if e.foresight.adopts {
		for i := range req.Children {
			if isTaken(req.Children[i].Trouble) {
				err = req.nameTaken(reconciler.Aggregate(err, req.Children[i].Trouble))
			}
		}
	}
	if err != nil && (refused || e.foresight.adopts) {
		e.foresight.withhold(from, refused, req.Existed)
	}
	for i := range req.Children {
		req.Children[i].NotWritten = Refused(err) || isForbidden(err)
	}
	return changes, err
}

// withhold takes back what was noted from an index on: if a part is refused, nothing of what is new is written without the rest of it; and
// nothing is adopted, nor created for an owner that was not reconciled before. Objects around the pods are written all the same unless they
// are adopted, and all together with what was applied earlier if that follows.
func (f *Foresight) withhold(from int, refused, existed bool) {
	kept := f.objects[:from:from]
	for _, o := range f.objects[from:] {
		switch {
		case o.adopts, !o.auxiliary && (refused || o.Action == Created && !existed):
			kept = append(kept, Foreseen{Change: Change{Kind: o.Kind, Name: o.Name}})
		case !refused || !o.auxiliary:
			kept = append(kept, o)
		}
	}
	f.objects = kept
}

// deletes reports whether an object of a kind would be deleted.
func (f *Foresight) deletes(kind string) bool {
	return slices.ContainsFunc(f.objects, func(o Foreseen) bool { return o.Action == Deleted && o.Kind == kind })
}

// foreseeChild notes what would be done to a child. An answer that is late is noted as such, and is no error.
func (e *Engine) foreseeChild(ctx context.Context, req *Request, p *plan, change *Change, err error) error {
	if e.foresight == nil {
		return err
	}
	found := Foreseen{
		Change: *change, Before: p.before, After: p.after, Differences: p.differences, TakenOver: p.takeover || p.claimed,
		auxiliary: p.child.Auxiliary, adopts: p.adoptsObject(req),
	}
	e.foresight.adopts = e.foresight.adopts || found.adopts
	var refused *reconciler.StalledError
	switch {
	case errors.As(err, &refused) && refused.Reason == appv1.ReasonNodePortTaken && p.action == Created && e.foresight.deletes(p.gvk.Kind):
		found.After, err = nil, nil // The port is free once the object is deleted that has it now.
	case err != nil && ctx.Err() != nil, err != nil && noDryRun(err):
		found.Unasked, err = true, nil
	case err != nil:
		return err
	}
	e.foresight.note(found)
	return err
}

// foreseeTrouble notes what is in the way of an object around the pods.
func (e *Engine) foreseeTrouble(child *Child, err error) {
	if e.foresight == nil || err == nil || errors.Is(err, reconciler.ErrStale) {
		return
	}
	gvk, wrong := apiutil.GVKForObject(child.Desired, e.client.Scheme())
	if wrong != nil {
		return
	}
	e.foresight.note(Foreseen{Change: Change{Kind: gvk.Kind, Name: child.Desired.GetName()}, Trouble: err, auxiliary: true})
}

// keepReplicas has an object keep its number of pods: it is handed over before the object is written.
func keepReplicas(after, live client.Object) {
	switch after := after.(type) {
	case *appsv1.Deployment:
		if live, ok := live.(*appsv1.Deployment); ok {
			after.Spec.Replicas = live.Spec.Replicas
		}
	case *appsv1.StatefulSet:
		if live, ok := live.(*appsv1.StatefulSet); ok {
			after.Spec.Replicas = live.Spec.Replicas
		}
	}
}

// foreseeScale notes a change of the number of pods of an object that is not the owner's.
func (e *Engine) foreseeScale(req *ScaleRequest) Change {
	change := Change{Action: Unchanged, Kind: "Deployment", Name: req.Deployment.Name}
	if ptr.Deref(req.Deployment.Spec.Replicas, 1) != req.Replicas {
		change.Action, change.Fields = Scaled, []string{"replicas"}
	}
	after := req.Deployment.DeepCopy()
	after.Spec.Replicas = &req.Replicas
	to := strconv.Itoa(int(req.Replicas))
	e.foresight.note(Foreseen{
		Change: change, Before: req.Deployment, After: after,
		Differences: []describe.Difference{{Path: "replicas", How: describe.FieldModified, To: &to}},
	})
	return change
}

// errForeseen is the error of a write of an engine that writes nothing.
var errForeseen = errors.New("a plan writes nothing")

// dryClient refuses all writes that are no dry run.
type dryClient struct{ client.Client }

// Patch implements client.Writer.
func (c dryClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	all := (&client.PatchOptions{}).ApplyOptions(opts)
	if len(all.DryRun) == 0 {
		return errForeseen
	}
	return c.Client.Patch(ctx, obj, patch, append(slices.Clone(opts), client.DisableReadYourWritesConsistency)...)
}

// Create implements client.Writer.
func (c dryClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	all := (&client.CreateOptions{}).ApplyOptions(opts)
	if len(all.DryRun) == 0 {
		return errForeseen
	}
	return c.Client.Create(ctx, obj, append(slices.Clone(opts), client.DisableReadYourWritesConsistency)...)
}

// Update implements client.Writer.
func (dryClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errForeseen
}

// Delete implements client.Writer.
func (dryClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return errForeseen
}

// DeleteAllOf implements client.Writer.
func (dryClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errForeseen
}

// Apply implements client.Writer.
func (dryClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errForeseen
}

// Status implements client.StatusClient.
func (c dryClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c dryClient) SubResource(name string) client.SubResourceClient {
	return dryPart{c.Client.SubResource(name)}
}

// dryPart refuses all writes of a subresource.
type dryPart struct{ client.SubResourceClient }

// Create implements client.SubResourceWriter.
func (dryPart) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errForeseen
}

// Update implements client.SubResourceWriter.
func (dryPart) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errForeseen
}

// Patch implements client.SubResourceWriter.
func (dryPart) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return errForeseen
}

// Apply implements client.SubResourceWriter.
func (dryPart) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errForeseen
}

// ReadOnly returns a client that reads with c, and writes nothing.
func ReadOnly(c client.Client) client.Client { return dryClient{c} }
