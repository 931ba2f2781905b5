package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/resource"
)

// In a wave of a rollout of AppDefaults, a workload takes the present defaults without a change of its spec. The leader grants that; this file
// finds out whether the workload still can, and records the wave with the defaults.

// WaveGrants has the resources that may take the present defaults in a wave.
type WaveGrants interface {
	// Grant returns the grant of a resource, and whether there is one.
	Grant(ctx context.Context, id waves.ID) (waves.Grant, bool, error)
	// InWaves reports whether the present defaults reach the resources of a namespace in waves.
	InWaves(ctx context.Context, namespace string) (bool, error)
	// Try notes that a resource with a grant begins to write.
	Try(id waves.ID)
	// Note notes whether the API server has refused what a resource with a grant has written.
	Note(id waves.ID, refused bool)
	// Decline ends the grant of a resource in a state, in which it cannot take the defaults.
	Decline(id waves.ID, state string)
}

// WaveState returns the state of a resource in which it declines a grant of defaults with a digest. unknown is the namespace of AppDefaults that count and
// are not known, empty if all are known. A write that changes nothing which a grant depends on makes no other state.
func WaveState(owner client.Object, digest, unknown string) string {
	asked := func(name string) string { // As the cache has it of a large resource.
		return stored.ShortenValue(owner.GetAnnotations()[name], stored.MaxReducedAnnotation)
	}
	state := fmt.Sprintf("%d %q %q %s %s", owner.GetGeneration(), asked(appv1.AnnotationRefresh), asked(appv1.AnnotationHold), digest, unknown)
	for _, kind := range []string{appv1.ConditionReady, appv1.ConditionStalled} {
		if is := conditionOf(owner, kind); is != nil {
			state += " " + string(is.Status)
		}
	}
	return state
}

// conditionOf returns a condition of a resource, nil if it has none.
func conditionOf(owner client.Object, kind string) *metav1.Condition {
	switch of := owner.(type) {
	case interface {
		Condition(name string) *metav1.Condition
	}:
		return of.Condition(kind)
	case reconciler.Resource:
		return meta.FindStatusCondition(of.CommonStatus().Conditions, kind)
	}
	return nil
}

// waveID returns the ID of the resource in a rollout.
func (in *Input) waveID() waves.ID {
	return waves.ID{Kind: in.Kind.Name, NamespacedName: client.ObjectKeyFromObject(in.Owner)}
}

// joinWave returns the input with the wave that the workload takes the present defaults in, if it has a grant. A workload that cannot take
// them declines. A plan has no wave: it is about a change.
func (r *Reconciler) joinWave(ctx context.Context, in *Input, live *appsv1.Deployment, present *resource.PresentDefaults) (*Input, error) {
	if r.Waves == nil {
		return in, nil
	}
	joined, id := *in, in.waveID()
	rolls, err := r.Waves.InWaves(ctx, in.Owner.GetNamespace())
	if err != nil {
		return nil, err
	}
	joined.awaitsWave = rolls
	if r.IsPlan() {
		return &joined, nil
	}
	grant, granted, err := r.Waves.Grant(ctx, id)
	if err != nil || !granted {
		return &joined, err
	}
	today := r.Today.WithPresentDefaults(present, in.Spec, in.Name)
	recorded, ours := in.ownInputs(live)
	switch {
	case ours && recorded.HasPresentDefaults(in.Spec, &today): // The record is part of the next decision, and so is what becomes of the resource.
		r.Waves.Decline(id, "")
		return &joined, nil
	case !ours: // No wave begins with such a workload. The operator writes its record again, which changes no state.
		r.Waves.Decline(id, "")
		return &joined, nil
	case present.Unknown != "", !in.canTake(live, &recorded, &today), len(in.errorsWith(&today, present.Sizes)) > 0:
		r.Waves.Decline(id, WaveState(in.Owner, today.DefaultsDigest(), present.Unknown))
		return &joined, nil
	case !grant.Tried && !in.isFit(live, &recorded, grant.Repairs): // It has changed since the grant, and may be for another wave.
		r.Waves.Decline(id, "")
		return &joined, nil
	}
	r.Waves.Try(id)
	joined.wave, joined.awaitsWave = newWave(&grant, r.Clock.Now()), false
	return &joined, nil
}

// noteWave notes the end of a reconcile in which the workload takes defaults in a wave.
func (r *Reconciler) noteWave(in *Input, err error) {
	if in.wave.IsZero() {
		return
	}
	var stalled *reconciler.StalledError
	var failed *reconciler.FailedError
	refused := errors.As(err, &stalled) || errors.As(err, &failed) && failed.Reason == appv1.ReasonForbidden
	r.Waves.Note(in.waveID(), refused)
}

// newWave returns the record of the wave of a grant at a time.
func newWave(grant *waves.Grant, at time.Time) resource.Wave {
	return resource.Wave{Number: grant.Wave, Repairs: grant.Repairs, At: metav1.NewTime(at.UTC().Truncate(time.Second))}
}

// ownInputs returns the recorded inputs of a live Deployment. ours is true if the owner controls the Deployment, and the operator owns the record.
func (in *Input) ownInputs(live *appsv1.Deployment) (recorded resource.BuildInputs, ours bool) {
	if live == nil || !metav1.IsControlledBy(live, in.Owner) || !in.OwnsRecord(live) {
		return recorded, false
	}
	recorded, err := inputsOf(live)
	return recorded, err == nil
}

// canTake reports whether the workload can take today's defaults, which its recorded inputs do not have, without another change.
func (in *Input) canTake(live *appsv1.Deployment, recorded, today *resource.BuildInputs) bool {
	if in.Paused || in.Owner.GetAnnotations()[appv1.AnnotationHold] != "" || recorded.Kept || in.reshapesPods(recorded) || HasOwnRelease(in.Spec) {
		return false
	}
	if refresh := in.Owner.GetAnnotations()[appv1.AnnotationRefresh]; refresh != "" && refresh != recorded.Refresh {
		return false
	}
	if mark := in.markOf(live); mark.ReplicaSet != "" && !mark.failedWithOthers(today.DefaultsDigest()) {
		return false
	}
	changed, err := in.Spec.Changed(recordOf(live), resource.ScopePods)
	return err == nil && !changed
}

// HasOwnRelease reports whether a change of the pods waits for more than the readiness of the pods: for a promotion, or for a command.
func HasOwnRelease(spec resource.Spec) bool {
	release := spec.Release()
	return release != nil && (release.Canary != nil || release.BeforeRollout != nil)
}

// isFit reports whether the resource is ready, or is not because of the defaults that it took in an earlier wave, or has stalled and is repaired.
func (in *Input) isFit(live *appsv1.Deployment, recorded *resource.BuildInputs, repairs bool) bool {
	if !recorded.Wave.IsZero() || in.markOf(live).ReplicaSet != "" {
		return true
	}
	is := func(kind string) bool {
		condition := conditionOf(in.Owner, kind)
		return condition != nil && condition.Status == metav1.ConditionTrue
	}
	return is(appv1.ConditionReady) || repairs && is(appv1.ConditionStalled)
}

// errorsWith returns the errors of the spec with today's inputs.
func (in *Input) errorsWith(today *resource.BuildInputs, sizes resource.Sizes) []error {
	with := in.withDefaults(today.Defaults)
	_, wrong := in.Spec.Build(resource.BuildOptions{Inputs: *today, Sizes: sizes, Unrecorded: true})
	var errs []error
	for _, err := range append(wrong, with.Errs...) {
		errs = append(errs, err)
	}
	return errs
}

// takeWave returns chosen inputs with today's defaults, and joins is true, if the workload takes them in a wave.
func (c decider) takeWave(chosen resource.BuildInputs, specChanged bool) (inputs resource.BuildInputs, joins bool) {
	if c.in.wave.IsZero() || specChanged || chosen.Kept {
		return chosen, false
	}
	return chosen.TakeDefaults(&c.seen.today, c.in.wave), true
}

// waveToKeep returns the wave of a workload that takes defaults with a change of its own: the former wave if the workload has not been ready since it
// took the same defaults in that wave, also if it has gone back since. So a change of a resource that has stalled a rollout does not let the rollout go on.
func (c decider) waveToKeep(history resource.Provenance, taken *resource.BuildInputs) resource.Wave {
	mark := c.in.markOf(c.seen.Object)
	if mark.Failed != nil {
		if failed := cmp.Or(mark.Failed.Defaults, mark.Failed.Taken); failed != "" && failed == taken.DefaultsDigest() {
			return mark.Failed.Wave
		}
	}
	if good := c.in.Before.History.LastGood; mark.rolledBack() || good != nil && mark.ReplicaSet == good.ReplicaSet {
		return resource.Wave{} // The pods of the last good ReplicaSet were ready once, so its defaults are not the cause, though its pods may not be ready again yet.
	}
	was, err := resource.DecodeInputs(history.Inputs)
	if err != nil || !history.Ours || was.Wave.IsZero() || !resource.DefaultsCurrent(c.in.Spec.WithDefaults(""), was.Defaults, taken.Defaults) {
		return resource.Wave{}
	}
	if is := c.in.Before.Defaults.Defaults; is != nil && is.Wave.Equal(&was.Wave.At) && is.WasReady {
		return resource.Wave{}
	}
	return was.Wave
}

// waveOf returns the status about the wave in which the workload took the defaults that it has: what the former status has about the same wave.
func waveOf(in *Input, used *resource.BuildInputs) appv1.WaveInUse {
	if used.Wave.IsZero() {
		return appv1.WaveInUse{}
	}
	made := appv1.WaveInUse{Wave: used.Wave.At.DeepCopy()}
	if before := in.Before.Defaults.Defaults; before != nil && before.Wave != nil && before.Wave.Equal(made.Wave) {
		made.WasReady, made.ReadySeconds, made.ReadyUntil = before.WasReady, before.ReadySeconds, before.ReadyUntil
	}
	return made
}

// failedWithOthers reports whether the hold is a rollback from other defaults than those with a digest.
func (h *holdMark) failedWithOthers(digest string) bool {
	return h.rolledBack() && h.Failed.Defaults != "" && h.Failed.Defaults != digest
}

// Rollback has the cause of a rollback that is in force: defaults, or a change of the resource. At most one field is true, apart from Repairs.
type Rollback struct {
	// Present is true after a rollback from the present defaults, Others after a rollback from other defaults, and Own after one from a change of the resource
	// alone. A change with the present defaults of a wave counts as these defaults, since no spec has been ready with them. OwnAndOthers is true for such a
	// change with other defaults.
	Present, Others, Own, OwnAndOthers bool
	// Repairs is true if the defaults that failed were taken in a wave of resources that had stalled before.
	Repairs bool
}

// OwnsWaveRecord reports whether the operator owns the record of a live Deployment, so that the workload can take defaults in a wave.
func OwnsWaveRecord(k resource.Kind, live *appsv1.Deployment) bool {
	return (&Input{Kind: k}).OwnsRecord(live)
}

// StaysBack reports whether other defaults do not end the rollback, as the change may be the cause.
func (r Rollback) StaysBack() bool { return r.Own || r.OwnAndOthers }

// OwnsMark reports whether the operator owns the mark of a hold, a rollback or an aborted canary on a live Deployment.
func OwnsMark(k resource.Kind, live *appsv1.Deployment) bool {
	return (&Input{Kind: k}).markOf(live) != holdMark{}
}

// RolledBackFrom returns the cause of the rollback of a live Deployment, the zero value without a rollback. The abort of a canary counts as a rollback if the canary
// ran with defaults of a wave, with which no pods have been ready. digest is the digest of the present defaults.
func RolledBackFrom(k resource.Kind, live *appsv1.Deployment, digest string) Rollback {
	mark := (&Input{Kind: k}).markOf(live)
	if !mark.wentBack() {
		return Rollback{}
	}
	failed, others := mark.Failed, mark.failedWithOthers(digest)
	made := Rollback{Repairs: failed.Wave.Repairs, Others: others, Present: failed.Defaults != "" && !others}
	if failed.Defaults == "" {
		made.Own, made.Present = failed.Taken == "", failed.Taken != "" && failed.Taken == digest
		made.OwnAndOthers = !made.Own && !made.Present
	}
	return made
}

// NoteReady notes in the status about the defaults of a wave that the pods were ready with them, and that all objects have the spec in force.
func NoteReady(status *appv1.DefaultsStatus) {
	noted := *status.Defaults
	noted.WasReady = true
	status.Defaults = &noted
}

// NoteLoss notes in the status about the defaults of a wave for how long the resource was ready with them, if that is the longest time. former is the former
// status, and before the former condition Ready, of a resource that is not ready any more.
func NoteLoss(status, former *appv1.DefaultsStatus, before *metav1.Condition, now time.Time) {
	is, was := status.Defaults, former.Defaults
	if was == nil || !is.Wave.Equal(was.Wave) || !was.WasReady || before == nil || before.Status != metav1.ConditionTrue {
		return
	}
	seconds := int64(ReadyFor(before, is.Wave.Time, now).Seconds())
	if is.ReadyUntil != nil && seconds < is.ReadySeconds {
		return
	}
	noted := *is
	noted.ReadySeconds, noted.ReadyUntil = seconds, &metav1.Time{Time: now.UTC().Truncate(time.Second)}
	status.Defaults = &noted
}

// ReadyFor returns for how long the condition Ready has been True since a time, 0 for a time or a transition in the future.
func ReadyFor(ready *metav1.Condition, since, now time.Time) time.Duration {
	if ready.LastTransitionTime.After(since) {
		since = ready.LastTransitionTime.Time
	}
	return max(0, now.Sub(since))
}
