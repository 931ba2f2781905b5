package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
)

// waveHandover is for how long after its first reconcile a manager begins no wave. Within that time its cache has what the leader before it has
// written.
const waveHandover = 10 * time.Second

// rolloutResult is the result of a look at the rollout of AppDefaults.
type rolloutResult struct {
	waves.Decision
	// inWaves is false where changed defaults reach the resources with their next change.
	inWaves bool
	// soak is the soak of the rollout in waves.
	soak time.Duration
	// by is the namespace of other AppDefaults whose waves bring the present defaults, "" for none.
	by string
	// again is the time until the next look where no event triggers one, 0 for none.
	again time.Duration
	// unread is a namespace whose large resources are still to be read, "" for none.
	unread string
}

// decideRollout decides on the rollout of AppDefaults in a namespace. Invalid AppDefaults begin no wave, and neither does a survey that has not judged
// all resources.
func (r *AppDefaultsReconciler) decideRollout(known *knownDefaults, found *survey) rolloutResult {
	now, inWaves := r.Clock.Now(), known.valid != nil && known.valid.Rollout.IsWaves()
	unread := r.judged.awaitsJudgement(found.of, !inWaves || found.unjudged == "", known.generation, now)
	if !inWaves {
		return rolloutResult{}
	}
	rollout, left := known.valid.Rollout, r.firstReconcile(now).Add(r.handoverTime()).Sub(now)
	made := rolloutResult{inWaves: true, soak: rollout.WaveSoak(), Decision: waves.Decide(&waves.Rollout{
		Members: found.members, Size: rollout.WaveSize(len(found.members)), Soak: rollout.WaveSoak(), Now: now, Pending: left > 0 || len(known.wrong) > 0 || unread,
		Salt: fmt.Sprintf("%s/%d", known.uid, known.generation), Latest: found.wave, Soaked: found.soaked,
	})}
	made.again = made.Again
	if unread {
		made.unread = found.unjudged
	}
	if left > 0 && (made.Waiting > 0 || made.Wave > made.Soaked.Wave) {
		made.again = reconciler.MinRequeue(made.again, left)
	}
	return made
}

// firstReconcile returns the time of the first reconcile of this manager.
func (r *AppDefaultsReconciler) firstReconcile(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.IsZero() {
		r.first = now
	}
	return r.first
}

// handoverTime returns for how long the manager begins no wave.
func (r *AppDefaultsReconciler) handoverTime() time.Duration {
	if r.WaveHandover != nil {
		return *r.WaveHandover
	}
	return waveHandover
}

// grantWave grants the defaults to the resources of a wave that begins.
func (r *AppDefaultsReconciler) grantWave(of *stored.AppDefaults, made *rolloutResult) {
	if len(made.Take) == 0 {
		return
	}
	r.grants.Give(waves.Grant{Of: client.ObjectKeyFromObject(of), Wave: made.Wave, Repairs: made.Repairs, At: r.Clock.Now()}, made.Take)
	r.Recorder.Eventf(of, nil, corev1.EventTypeNormal, appv1.ReasonWave, "Reconcile", messageWaveBegins, made.Wave,
		message.Count(len(made.Take), "resource"), listIDs(made.Take))
}

// wavesOfOthers returns the namespace of other AppDefaults whose waves bring the present defaults to the resources of a namespace, "" for none.
func (r *AppDefaultsReconciler) wavesOfOthers(ctx context.Context, namespace string) (string, error) {
	of, rollout, err := r.defaults.rolloutFor(ctx, namespace)
	if err != nil || of == namespace || !rollout.IsWaves() {
		return "", err
	}
	return of, nil
}

// setAwaiting sets the conditions of valid AppDefaults whose resources await the waves of the AppDefaults of another namespace.
func setAwaiting(found *survey, by string, set setCondition) {
	words := fmt.Sprintf(messageWaveOfOthers, message.Count(found.awaiting, "resource"), by)
	set(appv1.ConditionRolledOut, false, appv1.ReasonWave, words)
	set(appv1.ConditionStalled, false, appv1.ReasonWave, words)
	set(appv1.ConditionReconciling, true, appv1.ReasonWave, words)
	set(appv1.ConditionReady, false, appv1.ReasonWave, words)
}

// setWaves adds a rollout in waves to the status of valid AppDefaults.
func setWaves(status *appv1.AppDefaultsStatus, found *survey, made *rolloutResult, set setCondition) {
	// No wave has a lower number than one before it: a record counts up to the number of the status.
	status.Wave, status.Skipped = max(made.Wave, found.wave), int32(len(made.Skipped)) //nolint:gosec // Resources are counted.
	status.SoakedWave, status.SoakedSeconds = made.Soaked.Wave, int64(made.Soaked.Soak.Seconds())
	failed := make([]appv1.FailedDefaults, 0, len(made.Stalled))
	for i := range made.Stalled {
		words := found.messages[made.Stalled[i]]
		switch late := slices.Contains(made.Late, made.Stalled[i]); {
		case late && words == "":
			words = messageWaveLate
		case late:
			words = messageWaveLate + "; " + words
		}
		failed = append(failed, newFailed(&made.Stalled[i], words))
	}
	failed = appendOthers(sortFailed(failed), status.Failed, made.Stalled) // The resources that have stopped the rollout are the first.
	status.Failed = failed[:min(len(failed), maxFailedDefaults)]
	if len(status.Failed) == 0 {
		status.Failed = nil
	}
	reason, words := made.reasonAndMessage(isRolledOut(status))
	rolledOut := reason == appv1.ReasonRolledOut
	set(appv1.ConditionRolledOut, rolledOut, reason, words)
	stalled, going := reason == appv1.ReasonWaveStalled, reason == appv1.ReasonWave
	set(appv1.ConditionStalled, stalled, reason, words)
	set(appv1.ConditionReconciling, going, reason, words)
	set(appv1.ConditionReady, !stalled && !going, reason, words)
	// A rollout may end without a resource that took the defaults in a wave.
	if ended := soakedOf(status); ended.Wave > made.Soaked.Wave {
		status.SoakedWave, status.SoakedSeconds = ended.Wave, int64(made.soak.Seconds())
	}
}

// appendOthers appends the resources of others to failed that are not among the stalled ones, so that each resource is named once.
func appendOthers(failed, others []appv1.FailedDefaults, stalled []waves.ID) []appv1.FailedDefaults {
	for i := range others {
		id := waves.ID{Kind: others[i].Kind, NamespacedName: types.NamespacedName{Namespace: others[i].Namespace, Name: others[i].Name}}
		if !slices.Contains(stalled, id) {
			failed = append(failed, others[i])
		}
	}
	return failed
}

// isRolledOut reports whether a status, before its conditions are set, has the end of a rollout of its generation.
func isRolledOut(status *appv1.AppDefaultsStatus) bool {
	was := meta.FindStatusCondition(status.Conditions, appv1.ConditionRolledOut)
	return was != nil && was.ObservedGeneration == status.ObservedGeneration && (was.Reason == appv1.ReasonRolledOut || was.Reason == appv1.ReasonSkipped)
}

// describeStop names the resources that stop a rollout: first the failed ones, then the late ones.
func (made *rolloutResult) describeStop() string {
	var parts []string
	if failed := slices.DeleteFunc(slices.Clone(made.Stalled), func(id waves.ID) bool { return slices.Contains(made.Late, id) }); len(failed) > 0 {
		parts = append(parts, listIDs(failed)+" stalled")
	}
	if len(made.Late) > 0 {
		parts = append(parts, listIDs(made.Late)+" "+messageWaveLate)
	}
	return strings.Join(parts, ", ")
}

// reasonAndMessage returns the reason and the message of the condition RolledOut of a rollout in waves. was is true if the rollout had ended before: a
// resource that is to be read again begins no rollout.
func (made *rolloutResult) reasonAndMessage(was bool) (reason, words string) {
	skipped := len(made.Skipped)
	switch left := made.Rest - skipped; {
	case len(made.Stalled) > 0:
		return appv1.ReasonWaveStalled, fmt.Sprintf(messageWaveStalled, made.describeStop(), message.Count(left, "resource"))
	case len(made.Take)+len(made.Busy) > 0:
		of := slices.Concat(made.Take, made.Busy) // A wave begins only while no resource is busy.
		return appv1.ReasonWave, fmt.Sprintf(messageWaveUnderWay, made.Wave, message.Count(len(of), "resource"), listIDs(of), made.Waiting, skipped)
	case made.unread != "" && (made.Waiting > 0 || made.Rest > 0 && !was):
		return appv1.ReasonWave, fmt.Sprintf(messageWaveUnread, message.Count(made.Rest, "resource"), made.unread)
	case made.Waiting > 0:
		return appv1.ReasonWave, fmt.Sprintf(messageWaveWaits, message.Count(made.Waiting, "resource"))
	case made.Rest > 0:
		return appv1.ReasonSkipped, fmt.Sprintf(messageWaveSkipped, message.Count(skipped, "resource"), cmp.Or(listIDs(made.Skipped), "none"), left)
	}
	return appv1.ReasonRolledOut, fmt.Sprintf(messageRolledOut, made.Current)
}

// maxListed is how many names a message has at most.
const maxListed = 5

// listIDs returns the names of resources, the first ones of many.
func listIDs(ids []waves.ID) string {
	var names []string
	for i := range ids {
		names = append(names, ids[i].String())
	}
	slices.Sort(names)
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf(messageListedMore, strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// setCondition sets a condition.
type setCondition func(kind string, is bool, reason, text string)

// emitRollout sends an event when a rollout has stalled, or stalls with others, and when it has ended.
func (r *AppDefaultsReconciler) emitRollout(of *stored.AppDefaults, before, after *appv1.AppDefaultsStatus) {
	was, is := meta.FindStatusCondition(before.Conditions, appv1.ConditionRolledOut), meta.FindStatusCondition(after.Conditions, appv1.ConditionRolledOut)
	if was == nil || is == nil || was.Reason == is.Reason && (stopOf(was) == stopOf(is) || is.Reason != appv1.ReasonWaveStalled) {
		return
	}
	switch is.Reason {
	case appv1.ReasonWaveStalled:
		r.Recorder.Eventf(of, nil, corev1.EventTypeWarning, "Err"+is.Reason, "Reconcile", "%s", is.Message)
	case appv1.ReasonRolledOut, appv1.ReasonSkipped:
		if was.Reason == appv1.ReasonWave || was.Reason == appv1.ReasonWaveStalled {
			r.Recorder.Eventf(of, nil, corev1.EventTypeNormal, is.Reason, "Reconcile", "%s", is.Message)
		}
	}
}

// stopOf returns the part of a condition RolledOut with the reason Stalled that names the resources: the numbers change with each change of another resource.
func stopOf(rolledOut *metav1.Condition) string {
	stop, _, _ := strings.Cut(rolledOut.Message, messageWaveWithout)
	return stop
}

// rolloutChanged reports whether an event of a resource changes a rollout in waves.
func rolloutChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(stored.Observed)
	after, also := e.ObjectNew.(stored.Observed)
	if !ok || !also {
		return true
	}
	same := func(kind string) bool {
		was, is := before.Condition(kind), after.Condition(kind)
		return was == nil && is == nil || was != nil && is != nil && was.Status == is.Status && was.ObservedGeneration == is.ObservedGeneration &&
			was.LastTransitionTime.Equal(&is.LastTransitionTime)
	}
	return before.GetGeneration() != after.GetGeneration() || !equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
		!same(appv1.ConditionReady) || !same(appv1.ConditionStalled)
}

// inWaves reports whether the AppDefaults of a namespace roll out in waves, or the waves of others count for them.
func (r *AppDefaultsReconciler) inWaves(ctx context.Context, namespace string) bool {
	_, rollout, err := r.defaults.rolloutFor(ctx, namespace)
	return err == nil && rollout.IsWaves()
}

// newSetCondition returns a function that sets conditions of AppDefaults of a generation.
func newSetCondition(conditions *[]metav1.Condition, generation int64) setCondition {
	return func(kind string, is bool, reason, text string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: generation})
	}
}
