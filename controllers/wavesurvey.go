package controllers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
	// counted has the numbers of all of them, and those that cannot take the defaults.
	counted appv1.AppDefaultsStatus
	// members are those that follow the rollout of the AppDefaults, and messages why each of them has stalled.
	members  []waves.Member
	messages map[waves.ID]string

	of          string
	deps        *Deps
	memory      *judgements
	grants      map[waves.ID]waves.Grant
	deployments map[types.NamespacedName]*appsv1.Deployment
	namespaces  map[string]*namespaceSurvey
}

// namespaceSurvey has what counts for the resources of a namespace.
type namespaceSurvey struct {
	present resource.PresentDefaults
	// version changes with present, and follows is true if the resources follow the rollout of the AppDefaults.
	version string
	follows bool
}

// judgement is what follows from a spec, a record and the present defaults.
type judgement struct {
	// generation and version are those of the judgement, and record is the sum of the record: the record itself is long.
	generation int64
	record     [sha256.Size]byte
	version    string
	// current is true if the record has the present defaults, whose digest is digest. exempt is true for a resource that is left out by its spec
	// or by its record. wave is the wave of the record.
	current, exempt bool
	digest          string
	wave            resource.Wave
}

// judgements remembers the judgement on each resource: most have not changed since the last survey. The zero value is ready for use.
type judgements struct {
	mu    sync.Mutex
	known map[types.UID]*judgement
}

// survey returns the resources that the AppDefaults of a namespace count for.
func (r *AppDefaultsReconciler) survey(ctx context.Context, namespace string) (*survey, error) {
	made := &survey{
		messages: map[waves.ID]string{}, of: namespace, deps: &r.Deps, memory: &r.judged, deployments: map[types.NamespacedName]*appsv1.Deployment{},
		namespaces: map[string]*namespaceSurvey{},
	}
	// The order matters. A grant ends once its resource has seen its record in the cache, so the list has the record of each grant that has ended. A
	// status that is newer than the record counts as one that is not about the record.
	made.grants = r.grants.All()
	var deployments appsv1.DeploymentList
	scope := r.defaults.scopeOf(namespace)
	if err := r.Client.List(ctx, &deployments, scope, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Deployments: %w", err)
	}
	for i := range deployments.Items {
		made.deployments[client.ObjectKeyFromObject(&deployments.Items[i])] = &deployments.Items[i]
	}
	for _, k := range kinds() {
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
			return made.look(ctx, &k, obj)
		}); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// look adds one resource.
func (s *survey) look(ctx context.Context, k *kind, obj stored.Observed) error {
	in, err := s.namespace(ctx, obj.GetNamespace())
	if err != nil {
		return err
	}
	member, judged := s.newMember(k, obj, in)
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
		return nil
	}
	s.members = append(s.members, member)
	if stalled := obj.Condition(appv1.ConditionStalled); member.Stalled {
		s.messages[member.ID] = stalled.Message
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

// namespace returns what counts for the resources of a namespace.
func (s *survey) namespace(ctx context.Context, namespace string) (*namespaceSurvey, error) {
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
	made.follows = of == s.of && rollout.IsWaves()
	for _, ns := range defaults.namespacesFor(namespace) {
		known, err := defaults.read(ctx, ns)
		if err != nil {
			return nil, err
		}
		made.version += fmt.Sprintf("%s/%d ", known.uid, known.generation)
	}
	s.namespaces[namespace] = made
	return made, nil
}

// newMember returns a resource as a rollout has it, with the judgement on it.
func (s *survey) newMember(k *kind, obj stored.Observed, in *namespaceSurvey) (waves.Member, *judgement) {
	id := waves.ID{Kind: k.Name, NamespacedName: client.ObjectKeyFromObject(obj)}
	live := s.deployments[id.NamespacedName]
	if live != nil && !metav1.IsControlledBy(live, obj) {
		live = nil
	}
	judged := s.memory.judge(obj, live, in)
	grant, granted := s.grants[id]
	made := waves.Member{ID: id, Current: judged.current, Granted: grant.Wave, Refused: grant.Refused, Exempt: judged.exempt || obj.GetDeletionTimestamp() != nil}
	if wave := judged.wave; !wave.IsZero() {
		made.Wave, made.TakenAt = wave.Number, wave.At.Time
		if granted && grant.IsUsed(wave.Number, wave.At.Time) {
			s.deps.grants.Forget(id)
			made.Granted = 0
		}
	}
	if ready := obj.Condition(appv1.ConditionReady); ready != nil {
		made.Ready, made.Since = ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == obj.GetGeneration(), ready.LastTransitionTime.Time
	}
	if stalled := obj.Condition(appv1.ConditionStalled); stalled != nil {
		made.Stalled = stalled.Status == metav1.ConditionTrue
	}
	if is := obj.Defaults(); is != nil {
		made.Invalid = is.Invalid != ""
		made.Reported = made.Wave > 0 && is.Wave != nil && is.Wave.Time.Equal(made.TakenAt)
		made.WasReady = made.Reported && is.WasReady
	}
	if obj.GetAnnotations()[appv1.AnnotationHold] != "" {
		made.Exempt = true
	}
	if state := s.deps.grants.Declined(id); state != "" && state == workload.WaveState(obj, judged.digest) {
		made.Exempt = true
	}
	if live != nil {
		made.RolledBack, made.RolledBackEarlier = workload.RolledBackFrom(k.Kind, live, judged.digest)
	}
	return made, judged
}

// judge returns the judgement on a resource with a Deployment, nil for none.
func (j *judgements) judge(obj stored.Observed, live *appsv1.Deployment, in *namespaceSurvey) *judgement {
	record := ""
	if live != nil {
		record = live.Annotations[appv1.AnnotationLastAppliedInputs]
	}
	sum := sha256.Sum256([]byte(record))
	j.mu.Lock()
	defer j.mu.Unlock()
	known := j.known[obj.GetUID()]
	if known == nil || known.generation != obj.GetGeneration() || known.record != sum || known.version != in.version {
		known = newJudgement(obj, record, sum, in)
		if j.known == nil {
			j.known = map[types.UID]*judgement{}
		}
		j.known[obj.GetUID()] = known
	}
	return known
}

// forget drops the judgement on a resource that is gone.
func (j *judgements) forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.known, uid)
}

// newJudgement judges a resource by the record on its Deployment, whose sum is sum.
func newJudgement(obj stored.Observed, record string, sum [sha256.Size]byte, in *namespaceSurvey) *judgement {
	made := &judgement{generation: obj.GetGeneration(), record: sum, version: in.version, exempt: true}
	spec, typed := decodeServed(obj)
	if spec == nil {
		return made
	}
	today := resource.Inputs{}.WithPresentDefaults(&in.present, spec, obj.GetName())
	made.digest = today.DefaultsDigest()
	used, err := resource.DecodeInputs(record)
	if err != nil {
		return made
	}
	made.wave, made.current = used.Wave, used.HasPresentDefaults(spec, &today)
	made.exempt = used.Kept || workload.HasOwnRelease(spec) || isPaused(typed)
	return made
}

// isPaused reports whether a resource whose kind takes defaults is paused.
func isPaused(obj client.Object) bool {
	switch typed := obj.(type) {
	case *appv1.App:
		return typed.Spec.Paused
	case *appv1.ModelBox:
		return typed.Spec.Paused
	}
	return false
}
