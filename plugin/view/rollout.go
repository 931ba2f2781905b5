package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Rollout is how the pods of the latest version became ready over time. The times are those that Kubernetes has stored in the pods.
type Rollout struct {
	Version string
	Wanted  int
	// Ready are the times, since the first pod of the version was created, at which one more pod was ready.
	Ready []time.Duration
	// Elapsed is the time since the first pod was created, Left the time until all pods are ready at this rate, 0 if that is unknown.
	Elapsed, Left time.Duration
}

// leastReady is how many pods have to be ready before their rate means something.
const leastReady = 3

// RolloutOf returns the rollout that is under way, nil if there is none, or if the resource has several workloads.
func RolloutOf(s *Snapshot) *Rollout {
	if s.Resource.State() != StateRolling || len(s.Resource.Workloads) != 1 {
		return nil
	}
	groups := s.podGroups()
	at := slices.IndexFunc(groups, func(g podGroup) bool { return g.newest && !g.canary })
	if at < 0 || len(groups[at].pods) == 0 {
		return nil
	}
	newest := &groups[at]
	began := s.Now
	for i := range newest.pods {
		if created := newest.pods[i].CreationTimestamp.Time; created.Before(began) {
			began = created
		}
	}
	r := &Rollout{Version: VersionOf(newest.image), Wanted: newest.wanted, Elapsed: s.Now.Sub(began)}
	for i := range newest.pods {
		if since, ready := readySince(&newest.pods[i]); ready {
			r.Ready = append(r.Ready, max(0, since.Sub(began)))
		}
	}
	slices.Sort(r.Ready)
	if n := len(r.Ready); n >= leastReady && n < r.Wanted {
		r.Left = r.Elapsed * time.Duration(r.Wanted-n) / time.Duration(n)
	}
	return cleanView(r)
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
