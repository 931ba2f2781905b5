package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
	"huolala.cn/app-operator/resource"
)

// The maximum numbers of resources that a survey reads from the API server as the cache has only a part of them: of a namespace, and of all. The
// next survey reads others: a judgement is remembered until its resource changes.
const (
	maxNamespaceReads = 20
	maxReads          = 200
)

// judgement is what follows from a spec, the records of a Deployment and the present defaults.
type judgement struct {
	// generation is the generation of the resource, version the version of the defaults, and record is the sum of the records and of who owns them: the records
	// themselves are long.
	generation int64
	record     [sha256.Size]byte
	version    string
	// deployment is the state of the Deployment that has the records.
	deployment objectState
	// current is true if the record has the present defaults, whose digest is digest. paused is true for a paused resource, and exempt for a resource that is
	// left out by its release, by its record, which may not be the operator's, or by a rollback that other defaults do not end. wave is the wave of the record.
	current, paused, exempt bool
	digest                  string
	wave                    resource.Wave
	// rollback is the rollback of the resource that is in force.
	rollback workload.Rollback
}

// objectState is a state of an object: each change of an object changes its resource version.
type objectState struct {
	uid     types.UID
	version string
}

// stateOf returns the state of a Deployment, nil for none.
func stateOf(live *appsv1.Deployment) objectState {
	if live == nil {
		return objectState{}
	}
	return objectState{live.UID, live.ResourceVersion}
}

// judgements has the judgements of the latest survey of each AppDefaults, by the namespace of the AppDefaults: most resources have not changed
// since. The zero value is ready for use.
type judgements struct {
	mu       sync.Mutex
	bySurvey map[string]map[types.UID]*judgement
	// incomplete has the AppDefaults, by their namespace, whose latest survey has not judged all resources of their rollout.
	incomplete map[string]incompleteSurveys
}

// incompleteSurveys are surveys one after the other that have not judged all resources of a rollout, of a generation of AppDefaults.
type incompleteSurveys struct {
	since      time.Time
	count      int
	generation int64
}

// The limits for resources without a judgement, which hold up a wave: a user may change them faster than they are read. Beyond both the time and the number of
// surveys one after the other, they are exempt.
const (
	maxIncomplete        = time.Minute
	maxIncompleteSurveys = 10
)

// awaitsJudgement notes whether a survey has judged all resources of its rollout, and reports whether the next wave waits for that.
func (j *judgements) awaitsJudgement(namespace string, complete bool, generation int64, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if complete {
		delete(j.incomplete, namespace)
		return false
	}
	if j.incomplete == nil {
		j.incomplete = map[string]incompleteSurveys{}
	}
	surveys, known := j.incomplete[namespace]
	if !known || surveys.generation != generation {
		surveys = incompleteSurveys{since: now, generation: generation}
	}
	surveys.count++
	j.incomplete[namespace] = surveys
	return now.Sub(surveys.since) < maxIncomplete || surveys.count <= maxIncompleteSurveys
}

// judgeResource returns the judgement on a resource with a Deployment, nil for none. A resource beyond the maximum numbers of reads is
// exempt until another survey reads it.
func (s *survey) judgeResource(ctx context.Context, k *kind, obj stored.Observed, live *appsv1.Deployment, in *namespaceSurvey) (*judgement, error) {
	known, state := s.findJudgement(obj, in.version), stateOf(live)
	if known != nil && known.deployment == state {
		s.judged[obj.GetUID()] = known
		return known, nil
	}
	sum := sumRecords(k, live)
	if known != nil && known.record == sum { // Something else of the Deployment has changed.
		same := *known
		same.deployment = state
		s.judged[obj.GetUID()] = &same
		return &same, nil
	}
	spec, of := obj, live
	if obj.Reduced() || live != nil && children.IsPartial(live) {
		if in.reads >= maxNamespaceReads || s.reads >= maxReads {
			s.left = true
			if in.follows && s.unjudged == "" {
				s.unjudged = obj.GetNamespace()
			}
			return &judgement{exempt: true}, nil
		}
		in.reads++
		s.reads++
		ctx, release := answers.HoldPart(ctx) // No judgement holds up the next one.
		defer release()
		var err error
		began := s.deps.Clock.Now()
		spec, of, err = s.readWhole(ctx, k, obj)
		s.reading += s.deps.Clock.Since(began)
		if err != nil || spec == nil {
			return &judgement{exempt: true}, err
		}
	}
	made := newJudgement(k, spec, of, in)
	made.record, made.deployment = sum, state
	s.judged[obj.GetUID()] = made
	return made, nil
}

// readWhole reads a resource and its Deployment, nil for a resource that is gone, and for a Deployment that is gone or of another controller.
func (s *survey) readWhole(ctx context.Context, k *kind, obj stored.Observed) (stored.Observed, *appsv1.Deployment, error) {
	key := client.ObjectKeyFromObject(obj)
	empty, ok := k.empty().(stored.Observed)
	if !ok {
		return nil, nil, fmt.Errorf("%s has another type", k.Name)
	}
	whole, err := workload.GetOrNil(ctx, s.deps.Client, key, empty)
	if err != nil || whole == nil {
		return nil, nil, err
	}
	live, err := workload.GetOrNil(ctx, s.deps.Client, key, &appsv1.Deployment{})
	if err != nil {
		return nil, nil, err
	}
	return whole, ownDeployment(live, obj), nil
}

// sumRecords returns a sum that changes with the records of a Deployment, and with whether the operator owns them: another tool can write the same values. The
// cache has no records of a Deployment that it keeps in part: its version counts.
func sumRecords(k *kind, live *appsv1.Deployment) [sha256.Size]byte {
	switch {
	case live == nil:
		return [sha256.Size]byte{}
	case children.IsPartial(live):
		return sha256.Sum256([]byte(live.ResourceVersion))
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%t %t\n%s\n%s", workload.OwnsWaveRecord(k.Kind, live), workload.OwnsMark(k.Kind, live), // A hash has no errors.
		live.Annotations[appv1.AnnotationLastAppliedInputs], live.Annotations[appv1.AnnotationHeld])
	return [sha256.Size]byte(sum.Sum(nil))
}

// findJudgement returns the judgement of the survey before for a resource, nil for none. The records count in addition.
func (s *survey) findJudgement(obj stored.Observed, version string) *judgement {
	known := s.before[obj.GetUID()]
	if known == nil || known.generation != obj.GetGeneration() || known.version != version {
		return nil
	}
	return known
}

// ofLatest returns the judgements of the latest survey of a namespace's AppDefaults.
func (j *judgements) ofLatest(namespace string) map[types.UID]*judgement {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bySurvey[namespace]
}

// keepLatest keeps the judgements of a survey in place of the judgements of the survey before it. AppDefaults that are gone have none.
func (j *judgements) keepLatest(namespace string, made map[types.UID]*judgement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bySurvey == nil {
		j.bySurvey = map[string]map[types.UID]*judgement{}
	}
	if len(made) == 0 {
		delete(j.incomplete, namespace)
	}
	if delete(j.bySurvey, namespace); len(made) > 0 {
		j.bySurvey[namespace] = made
	}
}

// newJudgement judges a resource by the records on its Deployment, nil for none.
func newJudgement(k *kind, obj stored.Observed, live *appsv1.Deployment, in *namespaceSurvey) *judgement {
	made := &judgement{generation: obj.GetGeneration(), version: in.version, exempt: true}
	spec, typed := decodeServed(obj)
	if spec == nil {
		return made
	}
	today := resource.BuildInputs{}.WithPresentDefaults(&in.present, spec, obj.GetName())
	made.digest, made.paused = today.DefaultsDigest(), isPaused(typed)
	if live == nil {
		return made
	}
	made.rollback = workload.RolledBackFrom(k.Kind, live, made.digest)
	used, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return made
	}
	made.wave, made.current = used.Wave, used.HasPresentDefaults(spec, &today)
	made.exempt = used.Kept || workload.HasOwnRelease(spec) || made.rollback.StaysBack() || !workload.OwnsWaveRecord(k.Kind, live)
	return made
}
