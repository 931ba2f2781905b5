package view

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Snapshot is a resource with the objects below it that a client could read. Objects of others may be among them.
type Snapshot struct {
	Resource     Resource
	Deployments  []appsv1.Deployment
	StatefulSets []appsv1.StatefulSet
	ReplicaSets  []appsv1.ReplicaSet
	Pods         []corev1.Pod
	Services     []corev1.Service
	Autoscalers  []autoscalingv2.HorizontalPodAutoscaler
	// Around are the objects of AroundTypes.
	Around []unstructured.Unstructured
	Claims []corev1.PersistentVolumeClaim
	// CronJobs are the CronJobs of the name of a Task. Jobs are the Jobs of commands before rollouts, or of the runs of a Task.
	CronJobs []batchv1.CronJob
	Jobs     []batchv1.Job
	Events   []corev1.Event
	// Missing are the kinds, in the plural, that could not be listed, each with the reason.
	Missing []Missing
	// Now is the present time.
	Now time.Time
	// public is true for a copy that PublicCopy has made.
	public bool
}

// Missing is a kind of objects that could not be listed.
type Missing struct {
	// Kinds is the kind in the plural, such as "Pods".
	Kinds string `json:"kinds"`
	// Why is the reason, such as "you may not list them in shop".
	Why string `json:"why"`
}

func (m Missing) String() string { return m.Kinds + " (" + m.Why + ")" }

// lacksKind reports whether a kind, in the plural, could not be listed.
func (s *Snapshot) lacksKind(kinds string) bool {
	return slices.ContainsFunc(s.Missing, func(m Missing) bool { return m.Kinds == kinds })
}

// controlsObject reports whether the object of a uid controls another one.
func controlsObject(uid types.UID, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == uid
}

// LacksService reports whether the Service that the status names is missing.
func (s *Snapshot) LacksService() bool {
	return s.Resource.Service != "" && !slices.ContainsFunc(s.Services, func(service corev1.Service) bool {
		return controlsObject(s.Resource.ObjectMeta.UID, &service)
	})
}

// lacksWantedService reports whether the spec has ports and the resource has no Service, as far as Services can be listed.
func (s *Snapshot) lacksWantedService() bool {
	return s.Resource.WantsService && s.Resource.IsObserved() && !s.lacksKind(kindsServices) && !slices.ContainsFunc(s.Services, func(service corev1.Service) bool {
		return controlsObject(s.Resource.ObjectMeta.UID, &service)
	})
}

// LacksWorkloads reports whether the resource has no Deployment or StatefulSet, as far as these can be listed.
func (s *Snapshot) LacksWorkloads() bool {
	return !s.lacksKind(kindsDeployments) && !s.lacksKind(kindsStatefulSets) && len(s.relatedDeployments()) == 0 && len(s.statefulSets()) == 0
}

// relatedDeployments returns those Deployments that belong to the resource, or that it names, in the order in which they start.
func (s *Snapshot) relatedDeployments() []*appsv1.Deployment {
	rank := func(d *appsv1.Deployment) int {
		if isCanary(d) {
			return len(s.Resource.Workloads)
		}
		return slices.IndexFunc(s.Resource.Workloads, func(w Workload) bool { return w.Kind == KindDeployment && w.Name == d.Name })
	}
	var found []*appsv1.Deployment
	for i := range s.Deployments {
		d := &s.Deployments[i]
		if controlsObject(s.Resource.ObjectMeta.UID, d) || !isCanary(d) && rank(d) >= 0 {
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b *appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// isCanary reports whether a Deployment is the canary of a resource, which has to control it.
func isCanary(d *appsv1.Deployment) bool { return d.Labels[appv1.LabelCanary] != "" }

// statefulSets returns the StatefulSets that belong to the resource.
func (s *Snapshot) statefulSets() []*appsv1.StatefulSet {
	var found []*appsv1.StatefulSet
	for i := range s.StatefulSets {
		if controlsObject(s.Resource.ObjectMeta.UID, &s.StatefulSets[i]) {
			found = append(found, &s.StatefulSets[i])
		}
	}
	return found
}

// replicaSets returns the ReplicaSets of a Deployment, the newest revision first.
func (s *Snapshot) replicaSets(of types.UID) []*appsv1.ReplicaSet {
	var found []*appsv1.ReplicaSet
	for i := range s.ReplicaSets {
		if controlsObject(of, &s.ReplicaSets[i]) {
			found = append(found, &s.ReplicaSets[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(cmp.Compare(revisionOf(b), revisionOf(a)), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// annotationRevision is where the controller of Deployments writes the number of a revision.
const annotationRevision = "deployment.kubernetes.io/revision"

// revisionOf returns the number of a revision, 0 if there is none yet.
func revisionOf(obj metav1.Object) int64 {
	n, err := strconv.ParseInt(obj.GetAnnotations()[annotationRevision], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// podsOf returns the pods that an object controls, those in trouble first.
func (s *Snapshot) podsOf(uid types.UID) []corev1.Pod {
	found := podsControlledBy(uid, s.Pods)
	sortPods(found)
	return found
}

// podsControlledBy returns the pods that an object controls.
func podsControlledBy(uid types.UID, pods []corev1.Pod) []corev1.Pod {
	var found []corev1.Pod
	for i := range pods {
		if controlsObject(uid, &pods[i]) {
			found = append(found, pods[i])
		}
	}
	return found
}

// podsOfDeployment returns the pods of all of a Deployment's ReplicaSets. Where those cannot be listed, it returns the pods that the selector of the
// Deployment selects: of these, a canary has the pods with the label of a canary, and any other Deployment the pods without.
func (s *Snapshot) podsOfDeployment(d *appsv1.Deployment) []corev1.Pod {
	var found []corev1.Pod
	if s.lacksKind(kindsReplicaSets) {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		for i := range s.Pods {
			ofCanary := s.Pods[i].Labels[appv1.LabelCanary] != ""
			if err == nil && selector.Matches(labels.Set(s.Pods[i].Labels)) && ofCanary == isCanary(d) {
				found = append(found, s.Pods[i])
			}
		}
		sortPods(found)
		return found
	}
	for _, rs := range s.replicaSets(d.UID) {
		found = append(found, s.podsOf(rs.UID)...)
	}
	return found
}

// podReady reports whether a pod is ready and stays.
func podReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func countReady(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if podReady(&pods[i]) {
			n++
		}
	}
	return n
}

// podRank orders pods: failing, starting, terminating, ready.
func podRank(pod *corev1.Pod) int {
	switch {
	case podCause(pod).Reason != "":
		return 0
	case podReady(pod):
		return 3
	case pod.DeletionTimestamp != nil:
		return 2
	}
	return 1
}

func sortPods(pods []corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(podRank(&a), podRank(&b)), cmp.Compare(a.Name, b.Name))
	})
}
