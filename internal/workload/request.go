package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// How has the way to apply a workload.
type How struct {
	// Whole is true to write nothing new if a part of the workload is refused.
	Whole bool
	// Earlier is true for an earlier spec. Around has the fields of the present spec for the objects around the pods. By an earlier spec, only objects that Around
	// does not ask for are pruned; with nil, no object is pruned.
	Earlier bool
	Around  *appv1.ServingSpec
	// Alone is true to leave out the independent objects, which have the present spec already.
	Alone bool
	// Prerequisites is true to apply the prerequisites of the first pod alone.
	Prerequisites bool
	// canary is the change of the canary.
	canary canaryChange
}

// newApplyRequest returns the request for the workload's objects. Objects that the operator has applied for the owner, and that the workload no
// longer has, are pruned: at once under the workload's name, and under an earlier name once the pods of the workload are ready.
// serviceGrace is for how long a former Service stays yet.
func (r *Reconciler) newApplyRequest(ctx context.Context, in *Input, w *resource.Workload, seen *Observed) (req *apply.Request, serviceGrace time.Duration, err error) {
	req = NewRequest(in)
	req.Policy.DefaultLabels = w.DefaultLabels
	var wanted []client.Object
	pods := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: in.Name}}
	for _, obj := range w.Objects() {
		if seen.LeavesService(in.Owner, obj) {
			wanted = append(wanted, obj)
			continue
		}
		child, err := r.childOf(ctx, in, obj, pods, seen)
		if err != nil {
			return nil, 0, err
		}
		child.StatedLabels = w.StatedLabels(obj)
		wanted = append(wanted, obj)
		req.Objects = append(req.Objects, child)
	}
	former := seen.Owned.Without(wanted...)
	for _, service := range []*corev1.Service{seen.Service, seen.former} {
		if service != nil { // The Service of a tutorial's operator has no mark of this operator.
			former = append(former, children.Inventory{service}.Without(slices.Concat(wanted, former)...)...)
		}
	}
	for _, obj := range former {
		if seen.isCanary(obj) || in.leavesFormer(obj, former) {
			continue
		}
		account, ok := obj.(*corev1.ServiceAccount)
		waits := ok && seen.isNamed(account, in.Owner) || !isReplaced(in, obj, w, seen)
		if !waits {
			grace := remainingGrace(r.ServiceGrace, in, w, obj, seen)
			waits, serviceGrace = grace > 0, max(serviceGrace, grace)
		}
		if !waits || r.IsPlan() { // A plan has what follows, too.
			req.Prune = append(req.Prune, obj)
		}
	}
	return req, serviceGrace, nil
}

// leavesFormer reports whether a former object stays: a UnitedDeployment that names another Deployment leaves the Deployment that it made before, and
// the Service that leads to its pods.
func (in *Input) leavesFormer(obj client.Object, former children.Inventory) bool {
	if in.Kind.Name != resource.KindUnitedDeployment.Name {
		return false
	}
	isDeployment := func(obj client.Object, name string) bool {
		_, ok := obj.(*appsv1.Deployment)
		return ok && obj.GetName() == name
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return isDeployment(obj, obj.GetName())
	}
	of := cmp.Or(service.Spec.Selector[appv1.LabelPart], service.Spec.Selector[appv1.LabelName])
	return of != in.Name && slices.ContainsFunc(former, func(obj client.Object) bool { return isDeployment(obj, of) })
}

// isReplaced reports whether an object that the workload no longer has can be deleted. A Service of another name is deleted once its
// successor exists and the pods are ready; without a successor, a Service that selects the pods is deleted at once.
func isReplaced(in *Input, obj client.Object, w *resource.Workload, seen *Observed) bool {
	service, ok := obj.(*corev1.Service)
	if !ok || len(w.Ports) == 0 {
		return obj.GetName() == in.Name || ok && maps.Equal(service.Spec.Selector, w.Selector) || seen.isReady(in.Owner)
	}
	return seen.Service != nil && metav1.IsControlledBy(seen.Service, in.Owner) && health.Service(seen.Service).Ready && seen.isReady(in.Owner)
}

// NewRequest returns a request for objects of the owner.
func NewRequest(in *Input, objects ...apply.Object) *apply.Request {
	annotations := in.Owner.GetAnnotations()
	return &apply.Request{
		Owner:   in.Owner,
		Manager: in.fieldManager(),
		Objects: objects,
		Policy:  apply.Policy{Adopt: in.adoptsObjects(), AcceptOverrides: annotations[appv1.AnnotationAcceptOverrides] == "true"},
		Before:  apply.Before{Existed: in.existedBefore(), Overridden: in.overriddenMessage(), SpecChanged: in.isNewSpec()},
	}
}

// ApplyDeployment is the Applier of a Deployment, its Service and its auxiliary objects. The order counts: the part of the workload is chosen before
// the canary is added, which that part would remove; a refused change of the Service leaves the request before anything is tried; and node ports are
// freed last, by the only write before the run.
func (r *Reconciler) ApplyDeployment(ctx context.Context, in *Input, seen *Observed, w *resource.Workload, how How) *ApplyResult {
	if w.ServiceName != seen.ServiceName {
		var err error
		if seen, err = ObserveService(ctx, r.Client, in, seen, w.ServiceName); err != nil {
			return FailApply(seen, err)
		}
	}
	w, err := r.keepLiveTemplate(ctx, in, w, seen)
	if err != nil {
		return FailApply(seen, err)
	}
	req, grace, err := r.newApplyRequest(ctx, in, w, seen)
	if err != nil {
		return FailApply(seen, err)
	}
	how.limitRequest(w, req, seen.Object != nil && !seen.isOwned(in.Owner))
	addCanary(req, seen, &how.canary)
	headless := RefuseHeadlessChange(in, r.Client.Scheme(), req, seen.Service)
	if err := r.refuseRestart(ctx, in, w, seen, req); err != nil {
		return FailApply(seen, err)
	}
	switch {
	case in.Paused:
		out := r.FindPending(ctx, req, seen, grace)
		out.Err = reconciler.Aggregate(headless, out.Err)
		return out
	case headless != nil && req.Policy.AllOrNothing:
		return &ApplyResult{Seen: seen, Err: headless, Refused: headless}
	case headless != nil && AdoptsObject(req):
		return FailApply(seen, nameRestart(in, headless, true))
	}
	freed, refused, err := r.FreeNodePorts(ctx, in, w, seen, req)
	if err != nil {
		return FailApply(seen, err)
	}
	if refused != nil {
		return refused
	}
	dropped, undropped, err := r.dropForeignScaler(ctx, in, seen)
	if err != nil {
		return FailApply(seen, err)
	}
	adopts := AdoptsObject(req)
	done, err := r.RunFreed(ctx, in, w, req, freed)
	if err == nil {
		seen = seen.withoutPruned(req.Prune)
	}
	out := NewApplyResult(seen, &done, grace)
	out.Changes = []apply.ChangeSet{slices.Concat(freed, dropped, done.Changes())}
	if undropped != nil {
		out.troubles = append(out.troubles, undropped)
	}
	if out.canaryWithheld && err == nil {
		err = missingPrerequisite(out.auxiliary)
	}
	out.Err = reconciler.Aggregate(nameRestart(in, err, adopts), headless)
	return out
}

// RunRequest carries out a request in a mode, and notes the outcomes of a plan.
func (r *Reconciler) RunRequest(ctx context.Context, req *apply.Request, mode apply.Mode) (apply.Outcomes, error) {
	request := *req
	request.Before.Deleted = r.Journal.deletedKinds()
	done, err := r.Engine.Run(ctx, request, mode)
	r.Journal.noteOutcomes(&done, mode)
	return done, err
}

// limitRequest changes a new request to a part of a workload. unowned is true while the owner does not control the live workload object.
func (how *How) limitRequest(w *resource.Workload, req *apply.Request, unowned bool) {
	req.Policy.AllOrNothing = how.Whole
	if how.Earlier {
		stays := how.staysNextToEarlier(w, req)
		req.Prune = slices.DeleteFunc(req.Prune, stays)
	}
	if how.Alone {
		req.Objects = slices.DeleteFunc(req.Objects, func(c apply.Object) bool { return c.Independent })
	}
	if how.Prerequisites {
		req.Objects = slices.DeleteFunc(req.Objects, func(c apply.Object) bool {
			return !c.Prerequisite || unowned && c.AboutPodsOf != nil // Its pods are not the owner's before the adoption.
		})
	}
}

// staysNextToEarlier returns a function that reports whether a former object stays while an earlier spec is in force: an object that the present spec asks for, an
// object that the pods need, and an Ingress, HTTPRoute or PodMonitor that waits for a port of the present spec.
func (how *How) staysNextToEarlier(w *resource.Workload, req *apply.Request) func(client.Object) bool {
	if how.Around == nil || len(req.Prune) == 0 {
		return func(client.Object) bool { return true }
	}
	present := *w
	present.Serving = how.Around
	asked := children.Inventory{}
	for _, obj := range present.Objects() {
		asked = append(asked, obj)
	}
	routes := 0
	for i := range req.Objects {
		if children.TypeOf(req.Objects[i].Desired).Routes {
			routes++
		}
	}
	for _, isAsked := range []bool{how.Around.Ingress != nil, how.Around.HTTPRoute != nil} {
		if isAsked {
			routes--
		}
	}
	return func(obj client.Object) bool {
		row := children.TypeOf(obj)
		_, account := obj.(*corev1.ServiceAccount)
		_, monitor := obj.(*monitoringv1.PodMonitor) // Its port may be one of the present spec.
		return account || monitor && how.Around.PodMonitor != nil || !row.Auxiliary || row.Routes && routes < 0 || len(children.Inventory{obj}.Without(asked...)) == 0
	}
}

// addCanary adds to a request the change of the canary. A Deployment of others never becomes a canary.
func addCanary(req *apply.Request, seen *Observed, canary *canaryChange) {
	if canary.fate == canaryDropped {
		req.Prune = append(req.Prune, seen.canary.object)
	}
	if canary.fate != canaryApplied && canary.fate != canaryReplaced {
		return
	}
	req.Policy.Adopt = false
	for i := range req.Objects {
		if object := &req.Objects[i]; seen.isCanary(object.Desired) {
			object.Replace, object.ReplacePods = canary.fate == canaryReplaced, true
		}
	}
	if canary.alone {
		req.Objects = slices.DeleteFunc(req.Objects, func(o apply.Object) bool { return !o.Prerequisite && !seen.isCanary(o.Desired) })
	}
}

// FindPending finds out, without a request to the API server, whether there is anything to apply.
func (r *Reconciler) FindPending(ctx context.Context, req *apply.Request, seen *Observed, grace time.Duration) *ApplyResult {
	done, err := r.RunRequest(ctx, req, apply.Local)
	out, changes := NewApplyResult(seen, &done, grace), done.Changes()
	out.Changes = nil // Nothing is written.
	out.Seen, out.Err, out.Refused, out.notWritten = seen, err, nil, false
	if changes.Waits() {
		_, line := changes.Summary()
		out.pending, out.heldBack = true, line+describeRollouts(req)+"; "+digestDesired(req)+"\n"
	}
	return out
}

// describeRollouts returns the generation of each live workload object of a request, and whether all its pods are updated.
func describeRollouts(req *apply.Request) string {
	said := ""
	describe := func(generation, observed int64, pods, updated int32) {
		said += fmt.Sprintf("; %d %t", generation, observed == generation && updated == pods)
	}
	for i := range req.Objects {
		switch live := req.Objects[i].Live.(type) {
		case *appsv1.Deployment:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		case *appsv1.StatefulSet:
			describe(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)
		}
	}
	return said
}

// digestDesired returns a digest of the objects that a request states.
func digestDesired(req *apply.Request) string {
	desired := make([]any, len(req.Objects))
	for i := range req.Objects {
		desired[i] = req.Objects[i].Desired
	}
	return DigestDesired(desired...)
}

// DigestDesired returns a digest of the desired objects that a pause holds back: another value of the same fields is another change.
func DigestDesired(desired ...any) string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(desired) // An object of the API always has a JSON form.
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// NewChild returns an object as a child of the engine's. live may be a nil pointer.
func NewChild[T any, P interface {
	*T
	client.Object
}](desired, live P) apply.Object {
	c := apply.Object{Desired: desired}
	if live != nil {
		c.Live = live
	}
	return c
}

// AdoptsObject reports whether a request has an object that exists and that the owner does not control yet. The owner never controls a
// retained object or a claim.
func AdoptsObject(req *apply.Request) bool {
	return req.Policy.Adopt && slices.ContainsFunc(req.Objects, func(c apply.Object) bool {
		_, claim := c.Live.(*corev1.PersistentVolumeClaim)
		return c.Live != nil && !claim && !c.Retained && !metav1.IsControlledBy(c.Live, req.Owner)
	})
}
