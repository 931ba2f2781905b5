package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/clusterkinds"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Deps is what every controller works with.
type Deps struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads objects from the API server that the cache does not have, or whose view must be current.
	Live client.Reader
	// ClusterKinds knows which of the kinds are there that a cluster may lack.
	ClusterKinds *clusterkinds.Kinds
	// Engine writes the children, in a plan by dry runs (Mode). journal has the outcomes of a plan.
	Engine  *apply.Engine
	Mode    apply.Mode
	journal *journal
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock is the clock of the process.
	Clock clock.PassiveClock
	// RouteGrace is for how long a former Service stays once the Ingress and the HTTPRoute lead to its successor.
	RouteGrace time.Duration
	// Today are the inputs that a new workload is built with, but for its size.
	Today resource.Inputs
	// Sizes knows what the named sizes stand for.
	Sizes *Sizes
	// Content watches the ConfigMaps and Secrets that pods use.
	Content *content.Watch
	// Disabled are the features that are switched off.
	Disabled []string
	// watched has the types that are watched, and how.
	watched watchSet
	// Records remembers the last applied records of workloads whose spec is invalid.
	Records *lastRecords
	// Pending remembers which state of a paused resource the plan in its status describes.
	Pending *pendingPlans
}

// newSkeleton returns the reconciler of a kind, with its steps.
func newSkeleton[T reconciler.Resource](s *Deps, k *kind, empty func() reconciler.Stored[T], steps reconciler.Steps[T]) *reconciler.Reconciler[T] {
	return &reconciler.Reconciler[T]{
		Kind:     k.Name,
		Client:   s.Client,
		Recorder: s.Recorder,
		Clock:    s.Clock,
		New:      empty,
		Steps:    withPending(s, k, steps),
		OnDeleted: func(name types.NamespacedName) {
			s.Engine.Forget(name, k.manager)
			s.Records.forgetOwner(k.manager, name)
			s.Pending.forgetOwner(k.manager, name)
			s.Content.Forget(content.Owner{Kind: k.Name, NamespacedName: name})
		},
	}
}

// target is one workload as its kind sees it: the input of its reconcile. It is made once and not written afterwards.
type target struct {
	// owner is the custom resource, manager its kind's field manager, name the name of the workload object.
	owner         client.Object
	manager, name string
	// tier is the component of a CloudManager, empty for other kinds. database is true for the component that keeps data.
	tier     string
	database bool
	// scalable is the owner's kind if the owner's scale subresource is this workload's, empty otherwise.
	scalable string
	// spec is the workload's spec, and errs its errors. undecodable is the reason why the spec cannot be decoded, nil otherwise; with
	// a reason, spec is empty.
	spec        resource.Spec
	errs        field.ErrorList
	undecodable error
	// around is the valid part of the spec's fields for auxiliary objects, nil for a kind that has no such fields.
	around *appv1.ServingSpec
	// tutorial is the record that a tutorial's operator left, nil if there is none.
	tutorial *string
	// mustWait is true where the spec may not be applied for now, paused where nothing may be written, as that is the user's wish.
	mustWait, paused bool
	// config is the content rollout of the resource, nil for a kind that follows no content.
	config *configTarget
	// status, servingStatus and history are where to report. servingStatus is nil for a kind without auxiliary objects, and history
	// for a kind that holds no ReplicaSets.
	status        *appv1.WorkloadStatus
	servingStatus *appv1.ServingStatus
	history       *appv1.HistoryStatus
	// release is where to report what is being released, nil for a kind without releases.
	release *appv1.ReleaseStatus
}

// objectKind returns the kind of the workload object.
func (d *target) objectKind() string {
	if d.database {
		return "StatefulSet"
	}
	return "Deployment"
}

// result is what came of the reconcile of one workload.
type result struct {
	report reconciler.Report
	// seen is the observation after the reconcile.
	seen *observed
	// lastApplied is the record of the earlier spec that was applied in the place of the present one, empty if none was.
	lastApplied string
	// secretChecked is true once a database's Secret was found, or made, as it should be.
	secretChecked bool
}

// applier applies a workload, or, while the owner is paused, finds out whether there is anything to apply.
type applier func(ctx context.Context, seen *observed, w *resource.Workload, how application) *applied

// reconcileWorkload observes the objects of a workload, applies what its spec means, and reports how its pods are doing.
func (s *Deps) reconcileWorkload(ctx context.Context, d *target) (reconciler.Report, error) {
	seen, err := s.observeWorkload(ctx, d)
	if err != nil {
		return reconciler.Report{}, err
	}
	done, err := s.reconcileObserved(ctx, d, seen)
	return done.report, err
}

// reconcileObserved is reconcileWorkload for a workload that was observed already.
func (s *Deps) reconcileObserved(ctx context.Context, d *target, seen *observed) (result, error) {
	return s.executeReconcile(ctx, d, seen, func(ctx context.Context, seen *observed, w *resource.Workload, how application) *applied {
		return s.applyWorkload(ctx, d, seen, w, how)
	})
}

// executeReconcile is the reconcile of an observed workload: it decides which spec is in force, applies it, and reports. If a part of
// the present spec is refused, the last applied spec stays in force.
func (s *Deps) executeReconcile(ctx context.Context, d *target, observed *observed, apply applier) (result, error) {
	want, seen, err := s.decide(ctx, d, observed)
	if err != nil {
		return result{seen: observed}, err
	}
	done := &applied{seen: seen}
	if want.workload != nil {
		done = apply(ctx, seen, want.workload, want.how)
	}
	err = want.resolve(d, done)
	if next, ok := s.newDecider(d, done.seen).afterRefusal(want, done); ok {
		s.remember(ctx, d, next)
		if next.workload != nil {
			done = done.then(apply(ctx, done.seen, next.workload, next.how))
		}
		want, err = next, next.resolve(d, done)
	} else if want.source == sourcePresent && !done.isStale() && (!want.how.whole || done.err == nil) {
		s.Records.forgetRecord(d.recordKey())
	}
	return s.reportResult(d, want, done, err), err
}

// maxRounds is how often decide is called at most: it can ask for a ReplicaSet, and for content.
const maxRounds = 3

// decide returns the decision on the spec in force, and the observation with everything that was read for the decision.
func (s *Deps) decide(ctx context.Context, d *target, seen *observed) (*decision, *observed, error) {
	seen, err := s.observeInputs(ctx, d, seen)
	if err != nil {
		return nil, nil, err
	}
	for range maxRounds {
		want, ask, err := s.newDecider(d, seen).decide()
		switch {
		case err != nil:
			return nil, nil, err
		case ask == nil:
			s.remember(ctx, d, want)
			if d.config != nil {
				s.noteContent(d, seen, &want.content)
			}
			return want, seen, nil
		}
		if seen, err = s.readNeed(ctx, d, seen, ask); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("the decision on %s needs more than %d rounds", d.name, maxRounds)
}

func (s *Deps) newDecider(d *target, seen *observed) decider {
	return decider{compare: s.Engine, d: d, seen: seen, secrets: d.config != nil && d.config.follow && s.Content.Secrets()}
}

// readNeed returns the observation with what a decision needs to know.
func (s *Deps) readNeed(ctx context.Context, d *target, seen *observed, ask *need) (*observed, error) {
	after := *seen
	if ask.replicaSet != "" {
		after.replicaSet = s.readReplicaSet(ctx, d, ask.replicaSet)
		return &after, nil
	}
	var err error
	after.content, err = s.readContent(ctx, d, seen, ask.content)
	return &after, err
}

// remember adds to the memory of later reconciles. The result of a request that failed because the process ends is not remembered.
func (s *Deps) remember(ctx context.Context, d *target, want *decision) {
	add := want.remember
	if ctx.Err() != nil {
		add.declined = nil
	}
	s.Records.remember(d.recordKey(), add)
}

// resolve returns the error of a decision and its apply: the reason why the present spec is not in force, together with the obstacles to the
// spec that is applied in its place.
func (want *decision) resolve(d *target, done *applied) error {
	err := done.last
	switch {
	case want.refusal == nil:
		return err
	case want.source != sourceLastApplied:
		return withTrouble(want.refusal, err)
	case want.workload == nil:
		return want.refusal
	}
	refusal := want.refusal
	if d.database && err == nil {
		refusal = appendMessage(refusal, messageDatabaseKept)
	}
	if want.how.alone {
		return reconciler.Aggregate(refusal, err)
	}
	return withTrouble(refusal, err)
}

// invalidResource returns the error for a spec that cannot be decoded. The live objects stay unchanged.
func invalidResource(undecodable error) error {
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", undecodable)
}

// invalidSpec returns the error for a spec that breaks the rules beyond the schema, nil for a valid spec. The live workload stays
// unchanged.
func invalidSpec(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	const most = 5 // A condition's message is limited, and a user fixes one thing at a time.
	said := make([]string, 0, most+1)
	for _, err := range validation.List(errs[:min(len(errs), most)]) {
		said = append(said, err.Error())
	}
	switch more := len(errs) - most; {
	case len(errs) > validation.MaxErrors: // The rules have stopped to look.
		said = append(said, fmt.Sprintf(messageFaultsAndMany, validation.MaxErrors-most))
	case more > 0:
		said = append(said, fmt.Sprintf(messageFaultsAndMore, more))
	}
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", strings.Join(said, "; "))
}
