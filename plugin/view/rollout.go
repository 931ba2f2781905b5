package view

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// Rollout is how the pods of the latest version became ready over time. The times are those that Kubernetes has stored in the pods.
type Rollout struct {
	Version string
	Wanted  int
	// Ready are the times, since the beginning, at which one more pod was ready: 0 for a pod that was ready before.
	Ready []time.Duration
	// Elapsed is the time since the beginning, Left the time until all pods are ready at this rate, 0 if that is unknown.
	Elapsed, Left time.Duration
}

// leastReady is how many pods have to be ready before their rate means something.
const leastReady = 3

// RolloutOf returns the rollout that is under way, nil if there is none, or if the resource has several workloads. Another number of pods, and pods that
// were lost, are no rollout.
func RolloutOf(s *Snapshot) *Rollout {
	if s.Resource.State() != StateRolling || len(s.Resource.Workloads) != 1 {
		return nil
	}
	groups := s.podGroups()
	at := slices.IndexFunc(groups, func(g podGroup) bool { return g.newest && !g.canary })
	if at < 0 || len(groups[at].pods) == 0 || s.isRolledOut(groups, &groups[at]) {
		return nil
	}
	newest := &groups[at]
	began := s.rolloutBegan(newest)
	r := &Rollout{Version: VersionOf(newest.image), Wanted: newest.wanted, Elapsed: s.Now.Sub(began)}
	sooner := 0
	for i := range newest.pods {
		since, ready := readySince(&newest.pods[i])
		if !ready {
			continue
		}
		if since.Before(began) {
			sooner++
		}
		r.Ready = append(r.Ready, max(0, since.Sub(began)))
	}
	slices.Sort(r.Ready)
	if n := len(r.Ready) - sooner; n >= leastReady && len(r.Ready) < r.Wanted {
		r.Left = r.Elapsed * time.Duration(r.Wanted-len(r.Ready)) / time.Duration(n)
	}
	return cleanView(r)
}

// isRolledOut reports whether all pods of a workload have the latest version, although some may be missing.
func (s *Snapshot) isRolledOut(groups []podGroup, newest *podGroup) bool {
	earlier := slices.ContainsFunc(groups, func(g podGroup) bool { return g.workload == newest.workload && !g.newest && len(g.pods) > 0 })
	return !earlier && slices.ContainsFunc(s.Deployments, func(d appsv1.Deployment) bool { return d.Name == newest.workload && health.LostPods(&d) })
}

// rolloutBegan returns when the rollout to the latest version began: when the first of its pods was created, or when the template of the workload was written
// if that is later. A rollout back finds pods that were kept.
func (s *Snapshot) rolloutBegan(newest *podGroup) time.Time {
	began := s.Now
	for i := range newest.pods {
		if created := newest.pods[i].CreationTimestamp.Time; created.Before(began) {
			began = created
		}
	}
	if written := s.templateWritten(newest.workload); written.After(began) && written.Before(s.Now) {
		return written
	}
	return began
}

// templateWritten returns when the template of a workload was written. Without managed fields, it is about when the resource became unready, unless it was
// unready before.
func (s *Snapshot) templateWritten(workload string) time.Time {
	at := slices.IndexFunc(s.Deployments, func(d appsv1.Deployment) bool { return d.Name == workload })
	if at >= 0 {
		if written := health.TemplateWritten(&s.Deployments[at]); !written.IsZero() {
			return written
		}
	}
	if ready := meta.FindStatusCondition(s.Resource.Status.Conditions, appv1.ConditionReady); ready != nil {
		return ready.LastTransitionTime.Time
	}
	return time.Time{}
}

// readySince returns the time since which a pod is ready.
func readySince(pod *corev1.Pod) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}
