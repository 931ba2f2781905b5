// Package workload reconciles one workload of any kind: a Deployment, or the StatefulSet of a database, with its Service and its auxiliary
// objects. A reconcile observes the live objects (Observed), decides which spec is in force (decision), applies that spec (ApplyResult), and reports
// (Result). Each of these values is made once. The kinds make the Input, and write the Result to their status.
package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// Reconciler reconciles workloads of all kinds.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads objects from the API server that the cache does not have, or whose view must be current.
	Live client.Reader
	// ClusterKinds knows which of the kinds are there that a cluster may lack. Nil stands for a cluster with all kinds.
	ClusterKinds *clusterkinds.Kinds
	// Engine writes the children, in a plan by dry runs (Mode). Journal has the outcomes of a plan, and is nil in a reconcile.
	Engine  *apply.Engine
	Mode    apply.Mode
	Journal *Journal
	// Clock is the clock of the process.
	Clock clock.PassiveClock
	// ServiceGrace is for how long a former Service stays once its successor exists, and the Ingress and the HTTPRoute lead to the successor.
	ServiceGrace time.Duration
	// Today are the inputs of a new workload, apart from its defaults and its size.
	Today resource.BuildInputs
	// Defaults reads the defaults and the sizes.
	Defaults DefaultsReader
	// Waves grants the present defaults to resources whose wave has come; nil for a manager that has no waves.
	Waves WaveGrants
	// Content watches the ConfigMaps and Secrets that pods use.
	Content *content.Watch
	// Records remembers the last applied records of workloads whose spec is invalid.
	Records *Records
	// PodCauses remembers the causes of pods that the cache does not find. It is nil in a plan.
	PodCauses *PodCauses
}

// DefaultsReader reads the AppDefaults that count.
type DefaultsReader interface {
	// Present returns the defaults and the sizes that count for the resources of a namespace now.
	Present(ctx context.Context, namespace string) (resource.PresentDefaults, error)
}

// Applier applies the objects of a workload. While the owner is paused, it finds out whether there is anything to apply. The outcomes have
// the observation after the apply.
type Applier func(ctx context.Context, in *Input, seen *Observed, w *resource.Workload, how How) *ApplyResult

// Result is the result of the reconcile of one workload.
type Result struct {
	// Report and Status are reported to the user.
	Report reconciler.Report
	Status Status
	// PodsReady is true if the pods of the workload object are ready, whatever the pods of its canary do.
	PodsReady bool
	// Seen is the observation after the reconcile.
	Seen *Observed
	// LastApplied is the record of the earlier spec that was applied in the place of the present one, empty if none was.
	LastApplied string
	// SecretChecked is true once the Secret of a database was found, or made, with the right password.
	SecretChecked bool
}

// IsPlan reports whether the reconcile is the dry run of a plan, which writes nothing.
func (r *Reconciler) IsPlan() bool { return r.Mode == apply.DryRun }

// ForgetRenamed drops the memory of the workloads of an owner by other names than these, which are all that a later reconcile can ask for: a user can
// rename a workload for ever. A plan forgets nothing.
func (r *Reconciler) ForgetRenamed(k resource.Kind, owner client.Object, names ...string) {
	if r.IsPlan() {
		return
	}
	manager, key, kept := k.FieldManager(), client.ObjectKeyFromObject(owner), sets.New(names...)
	r.Records.RetainWorkloads(manager, key, kept)
	if r.PodCauses != nil {
		r.PodCauses.RetainWorkloads(manager, key, kept)
	}
}

// Reconcile observes the objects of a workload, decides which spec is in force, applies that spec, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, in *Input) (Result, error) {
	in, err := r.takeDefaults(ctx, in)
	if err != nil {
		return Result{Status: in.Before}, err
	}
	seen, err := r.Observe(ctx, in)
	if err != nil {
		return Result{Status: in.Before}, err
	}
	result, err := r.ReconcileObserved(ctx, in, seen, r.ApplyDeployment)
	r.noteWave(in, err)
	return result, err
}

// ReconcileObserved is Reconcile for a workload that was observed already, with the function that applies its objects. If a part of the
// present spec is refused, the last applied spec stays in force: that is the only second attempt.
func (r *Reconciler) ReconcileObserved(ctx context.Context, in *Input, observed *Observed, applyWorkload Applier) (Result, error) {
	want, seen, err := r.reachDecision(ctx, in, observed)
	if err != nil {
		return Result{Status: in.Before, Seen: observed}, err
	}
	before, done := r.Journal.size(), &ApplyResult{Seen: seen}
	if want.workload != nil {
		done = applyWorkload(ctx, in, seen, want.workload, want.how)
	}
	if want.job.spec != nil && (done.Err == nil || seen.Deployment() == nil || seen.isOwned(in.Owner)) { // See tryAdoption.
		r.Journal.noteJob(before, want.job.name)
	}
	if next, ok := r.newDecider(in, done.Seen).afterRefusal(want, done); ok {
		r.rememberDecision(ctx, in, next)
		if next.workload != nil {
			done = done.followedBy(applyWorkload(ctx, in, done.Seen, next.workload, next.how))
		}
		want = next
	} else if want.isApplied(done) {
		r.Records.Forget(in.Key())
	}
	if want.job.spec != nil && done.Err == nil && !r.IsPlan() {
		done = done.followedBy(r.startJob(ctx, in, &want.job, done))
	}
	return newResult(in, want, done)
}

// maxRounds is the maximum number of calls of decideSpec for a reconcile: a decision can need a ReplicaSet, and content.
const maxRounds = 3

// reachDecision returns the decision on the spec in force, and the observation with everything that was read for the decision.
func (r *Reconciler) reachDecision(ctx context.Context, in *Input, seen *Observed) (*decision, *Observed, error) {
	seen, err := r.observeInputs(ctx, in, seen)
	if err != nil {
		return nil, nil, err
	}
	for range maxRounds {
		want, ask, err := r.newDecider(in, seen).decideSpec()
		switch {
		case err != nil:
			return nil, nil, err
		case ask == nil:
			r.rememberDecision(ctx, in, want)
			if in.Kind.Serves {
				noteContent(r.Content, in, seen, &want.content)
			}
			return want, seen, nil
		}
		if seen, err = r.readNeed(ctx, in, seen, ask); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("the decision on %s needs more than %d rounds", in.Name, maxRounds)
}

// newDecider returns the decider for an observation.
func (r *Reconciler) newDecider(in *Input, seen *Observed) decider {
	return decider{compare: r.Engine, in: in, seen: seen, secrets: in.followsContent() && r.Content.Secrets(), foresees: r.IsPlan()}
}

// readNeed returns the observation with the answer to a need of a decision.
func (r *Reconciler) readNeed(ctx context.Context, in *Input, seen *Observed, ask *need) (*Observed, error) {
	after := *seen
	if ask.replicaSet != "" {
		after.replicaSet = readReplicaSet(ctx, r.Live, in.Owner.GetNamespace(), ask.replicaSet)
		return &after, nil
	}
	var err error
	after.content, err = readContent(ctx, r.Content, in, seen, ask.content)
	return &after, err
}

// rememberDecision adds to the memory of later reconciles. The result of a request that failed because the process ends is not remembered.
func (r *Reconciler) rememberDecision(ctx context.Context, in *Input, want *decision) {
	add := want.remember
	if ctx.Err() != nil {
		add.declined = nil
	}
	r.Records.rememberWorkload(in.Key(), in.Owner.GetUID(), add)
}

// LastApplied returns the workload as it was last applied, nil if that is not known. It remembers the record of a live workload object.
func (r *Reconciler) LastApplied(in *Input, seen *Observed) (*resource.Workload, error) {
	workload, record, err := r.newDecider(in, seen).lastApplied()
	r.Records.rememberWorkload(in.Key(), in.Owner.GetUID(), remembrance{record: record})
	return workload, err
}

// isApplied reports whether the present spec was applied, so that no earlier record of the workload is needed.
func (want *decision) isApplied(done *ApplyResult) bool {
	return want.source == sourcePresent && !done.isStale() && (!want.how.Whole || done.Err == nil)
}

// errorAfterApply returns the error of a decision and its apply: the reason why the present spec is not in force, together with the
// obstacles to the spec that is applied in its place.
func (want *decision) errorAfterApply(in *Input, done *ApplyResult) error {
	err := done.Err
	switch {
	case want.refusal == nil:
		return err
	case want.source != sourceLastApplied:
		return withTrouble(want.refusal, err)
	case want.workload == nil:
		return want.refusal
	}
	refusal := want.refusal
	if in.isDatabase() && err == nil {
		refusal = appendMessage(refusal, messageDatabaseKept)
	}
	if want.how.Alone {
		return reconciler.Aggregate(refusal, err)
	}
	return withTrouble(refusal, err)
}

// InvalidResource returns the error for a spec that cannot be decoded. The live objects stay unchanged.
func InvalidResource(undecodable error) error {
	return reconciler.Stalled(appv1.ReasonInvalid, "%s", undecodable)
}

// InvalidSpec returns the error for a spec that breaks the rules beyond the schema, nil for a valid spec. The live workload stays
// unchanged.
func InvalidSpec(errs field.ErrorList) error {
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
