package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// survey has the resources that AppDefaults count for, by the records on their Deployments and by their statuses.
type survey struct {
	// counted has the numbers of all of them, and the resources that cannot take the defaults.
	counted appv1.AppDefaultsStatus
	// members are the resources that follow the rollout of the AppDefaults, and messages why some of them are not ready.
	members  []waves.Member
	messages map[waves.ID]string
	// awaiting is the number of resources that follow another rollout, do not have the present defaults, and can take them in a wave.
	awaiting int

	of   string
	deps *Deps
	// before has the judgements of the previous survey, and judged has the judgements of this survey.
	before, judged map[types.UID]*judgement
	grants         map[waves.ID]waves.Grant
	deployments    map[types.NamespacedName]*appsv1.Deployment
	namespaces     map[string]*namespaceSurvey
	// wave is the number of the latest wave by the status of before, and soaked the latest wave whose soak has ended.
	wave   int32
	soaked waves.Soaked
	// reads is the number of resources read for a judgement, as the cache has only a part of them. left is true if some are left. unjudged is a
	// namespace with such resources that follow the rollout, "" for none.
	reads    int
	left     bool
	unjudged string
	// reading is the time that the reads took.
	reading time.Duration
}

// namespaceSurvey has what counts for the resources of a namespace.
type namespaceSurvey struct {
	present resource.PresentDefaults
	// version changes with present, and follows is true if the resources follow the rollout of the AppDefaults. soak is the soak of the rollout that they follow,
	// and soaked the latest wave of that rollout whose soak has ended.
	version string
	follows bool
	soak    time.Duration
	soaked  waves.Soaked
	// reads is the number of resources of this namespace read for a judgement.
	reads int
}

// maxUnknownWave is the maximum number of a wave that counts in a record while a status has no wave, as after a time without waves.
const maxUnknownWave = 1 << 20

// countedWave returns the number of a recorded wave as far as the number counts: each user who can write the workload can forge the record, and the status
// has the number of each wave before the wave begins.
func (s *survey) countedWave(recorded int32) int32 {
	if s.wave < 1 {
		return min(recorded, maxUnknownWave)
	}
	return min(recorded, s.wave)
}

// soakedOf returns the latest wave whose soak has ended, by a status, as far as that can be true. A rollout that has ended has no later wave: the status of an
// earlier release has this reason alone.
func soakedOf(status *appv1.AppDefaultsStatus) waves.Soaked {
	wave := min(status.SoakedWave, status.Wave)
	if rolledOut := meta.FindStatusCondition(status.Conditions, appv1.ConditionRolledOut); wave == 0 && rolledOut != nil && rolledOut.Reason == appv1.ReasonRolledOut {
		wave = status.Wave
	}
	seconds := min(status.SoakedSeconds, int64(appv1.MaxWaveSoak.Seconds()))
	return waves.Soaked{Wave: wave, Soak: time.Duration(seconds) * time.Second}
}

// surveyResources returns the resources that AppDefaults count for.
func (r *AppDefaultsReconciler) surveyResources(ctx context.Context, of *stored.AppDefaults) (_ *survey, err error) {
	namespace := of.Namespace
	made := &survey{
		wave: of.Status.Value.Wave, soaked: soakedOf(&of.Status.Value),
		messages: map[waves.ID]string{}, of: namespace, deps: &r.Deps, deployments: map[types.NamespacedName]*appsv1.Deployment{},
		namespaces: map[string]*namespaceSurvey{}, before: r.judged.ofLatest(namespace),
	}
	made.judged = make(map[types.UID]*judgement, len(made.before))
	defer func() {
		if err != nil { // What a failed survey has read counts for the next one.
			kept := maps.Clone(made.before)
			maps.Copy(kept, made.judged)
			made.judged = kept
		}
		r.judged.keepLatest(namespace, made.judged)
	}()
	// The order matters. A grant ends once its resource has seen its record in the cache, so the list has the record of each grant that has ended. A
	// status that is newer than the record does not count as a status about the record.
	made.grants = r.grants.All()
	var deployments appsv1.DeploymentList
	scope := r.defaults.scopeOf(namespace)
	if err := r.Client.List(ctx, &deployments, scope, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	for i := range deployments.Items {
		made.deployments[client.ObjectKeyFromObject(&deployments.Items[i])] = &deployments.Items[i]
	}
	for _, k := range allKinds() {
		if !k.Serves {
			continue
		}
		list := k.list()
		if err := r.Client.List(ctx, list, scope, client.UnsafeDisableDeepCopy); err != nil { // The list is not changed.
			return nil, fmt.Errorf("list %s: %w", k.Plural, err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(stored.Observed)
			if !ok {
				return errors.New("the list has another type")
			}
			return made.addResource(ctx, &k, obj)
		}); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// addResource adds one resource.
func (s *survey) addResource(ctx context.Context, k *kind, obj stored.Observed) error {
	in, err := s.surveyNamespace(ctx, obj.GetNamespace())
	if err != nil {
		return err
	}
	member, judged, err := s.newMember(ctx, k, obj, in)
	if err != nil {
		return err
	}
	s.counted.Apps++
	switch {
	case member.Invalid:
		s.counted.Failed = append(s.counted.Failed, newFailed(&member.ID, obj.Defaults().Invalid))
		s.counted.Pending++
	case judged.current:
		s.counted.Current++
	default:
		s.counted.Pending++
	}
	if !in.follows {
		if (&waves.Rollout{Soak: in.soak, Soaked: in.soaked, Now: s.deps.Clock.Now()}).Awaits(&member) {
			s.awaiting++
		}
		return nil
	}
	s.members = append(s.members, member)
	if is := obj.Condition(appv1.ConditionReady); is != nil && !member.Ready {
		s.messages[member.ID] = is.Message
	}
	return nil
}

// newFailed returns a resource that cannot take the defaults, or has stalled with them.
func newFailed(id *waves.ID, why string) appv1.FailedDefaults {
	return appv1.FailedDefaults{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Message: message.Quote(why)}
}

// sortFailed sorts resources, and keeps the first ones.
func sortFailed(failed []appv1.FailedDefaults) []appv1.FailedDefaults {
	slices.SortFunc(failed, func(a, b appv1.FailedDefaults) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return failed[:min(len(failed), maxFailedDefaults)]
}

// surveyNamespace returns what counts for the resources of a namespace.
func (s *survey) surveyNamespace(ctx context.Context, namespace string) (*namespaceSurvey, error) {
	if known := s.namespaces[namespace]; known != nil {
		return known, nil
	}
	made, defaults := &namespaceSurvey{}, s.deps.defaults
	var err error
	if made.present, err = defaults.Present(ctx, namespace); err != nil {
		return nil, err
	}
	of, rollout, err := defaults.rolloutFor(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if rollout.IsWaves() {
		made.follows, made.soak = of == s.of, rollout.WaveSoak()
	}
	for _, ns := range defaults.namespacesFor(namespace) {
		known, err := defaults.readDefaults(ctx, ns)
		if err != nil {
			return nil, err
		}
		made.version += fmt.Sprintf("%s/%d ", known.uid, known.generation)
		if ns == of {
			made.soaked = known.soaked
		}
	}
	s.namespaces[namespace] = made
	return made, nil
}

// newMember returns a resource as a rollout has it, with the judgement on it.
func (s *survey) newMember(ctx context.Context, k *kind, obj stored.Observed, in *namespaceSurvey) (waves.Member, *judgement, error) {
	id := waves.ID{Kind: k.Name, NamespacedName: client.ObjectKeyFromObject(obj)}
	live := ownDeployment(s.deployments[id.NamespacedName], obj)
	judged, err := s.judgeResource(ctx, k, obj, live, in)
	if err != nil {
		return waves.Member{}, nil, err
	}
	grant, granted := s.grants[id]
	if granted && obj.GetDeletionTimestamp() != nil { // It is reconciled no more.
		s.deps.grants.Forget(id)
		grant, granted = waves.Grant{}, false
	}
	made := waves.Member{
		ID: id, UID: obj.GetUID(), Current: judged.current, Granted: grant.Wave, GrantedAt: grant.At, Refused: grant.Refused, Exempt: judged.exempt,
		Left:       judged.paused || obj.GetAnnotations()[appv1.AnnotationHold] != "" || obj.GetDeletionTimestamp() != nil,
		RolledBack: judged.rollback.Present, RolledBackEarlier: judged.rollback.Others, RolledBackOwn: judged.rollback.StaysBack(),
	}
	if wave := judged.wave; !wave.IsZero() {
		made.Wave, made.TakenAt, made.Repairs = s.countedWave(wave.Number), wave.At.Time, wave.Repairs
		if granted && grant.IsUsed(wave.Number, wave.At.Time) {
			s.deps.grants.Forget(id)
			made.Granted = 0
		}
	}
	switch { // A grant counts, and after a rollback the wave that failed: the record has an earlier wave.
	case made.Granted > 0:
		made.Repairs = grant.Repairs
	case made.RolledBack || made.RolledBackEarlier:
		made.Repairs = judged.rollback.Repairs
	}
	s.addConditions(&made, obj)
	if state := s.deps.grants.Declined(id); state != "" && !judged.current && state == workload.WaveState(obj, judged.digest, in.present.Unknown) {
		made.Exempt = true
	}
	return made, judged, nil
}

// addConditions adds what follows from the status of a resource. A resource was ready until now if its status is about an earlier spec.
func (s *survey) addConditions(m *waves.Member, obj stored.Observed) {
	stalled, applied := obj.Condition(appv1.ConditionStalled), obj.Condition(appv1.ConditionApplied)
	m.Stalled = stalled != nil && stalled.Status == metav1.ConditionTrue
	unapplied := applied != nil && applied.Status == metav1.ConditionFalse
	m.Refuses = m.Stalled && unapplied && stalled.Reason == applied.Reason
	if is := obj.Defaults(); is != nil {
		m.Invalid = is.Invalid != ""
		m.Reported = m.Wave > 0 && is.Wave != nil && is.Wave.Time.Equal(m.TakenAt)
		m.WasReady, m.ReadyFor = m.Reported && is.WasReady, time.Duration(is.ReadySeconds)*time.Second
		if is.ReadyUntil != nil {
			m.ReadyUntil = is.ReadyUntil.Time
		}
	}
	ready := obj.Condition(appv1.ConditionReady)
	if ready == nil {
		return
	}
	m.Since = ready.LastTransitionTime.Time
	m.Unapplied = unapplied && ready.Status != metav1.ConditionTrue && ready.Reason == applied.Reason // Objects around the pods do not count.
	switch is := ready.Status == metav1.ConditionTrue; {
	case is && ready.ObservedGeneration == obj.GetGeneration():
		m.Ready = true
	case is:
		now := s.deps.Clock.Now()
		m.Since = now
		if length := workload.ReadyFor(ready, m.TakenAt, now); length >= m.ReadyFor {
			m.ReadyFor, m.ReadyUntil = length, now
		}
	}
}

// ownDeployment returns a Deployment, nil for a Deployment of another controller.
func ownDeployment(live *appsv1.Deployment, owner client.Object) *appsv1.Deployment {
	if live == nil || !metav1.IsControlledBy(live, owner) {
		return nil
	}
	return live
}
