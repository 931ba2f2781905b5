package children

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/heap"
)

// reduceDeployment keeps what a UnitedDeployment reads of a Deployment that it scales and does not control.
func reduceDeployment(from, to client.Object) (cut bool) {
	d, isDeployment := from.(*appsv1.Deployment)
	kept, ok := to.(*appsv1.Deployment)
	if !ok || !isDeployment {
		return false
	}
	kept.Spec.Replicas, kept.Spec.Paused = d.Spec.Replicas, d.Spec.Paused
	kept.Spec.ProgressDeadlineSeconds = d.Spec.ProgressDeadlineSeconds
	kept.Status = d.Status
	kept.Status.Conditions = nil
	for _, name := range []appsv1.DeploymentConditionType{appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure} {
		i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == name })
		if i < 0 {
			continue
		}
		c := d.Status.Conditions[i]
		c.Reason = truncateText(c.Reason, maxKeptKind)
		if c.Status = truncateText(c.Status, maxKeptKind); name == appsv1.DeploymentReplicaFailure {
			// The whole object has the values that the message must not have.
			c.Message = health.KeepRejection(c.Message, d, maxKeptMessage)
		} else {
			c.Message = truncateText(c.Message, maxKeptProgress)
		}
		kept.Status.Conditions = append(kept.Status.Conditions, c)
	}
	kept.Spec.Selector, cut = reduceSelector(d.Spec.Selector)
	return cut
}

func reduceStatefulSet(from, to client.Object) (cut bool) {
	s, isSet := from.(*appsv1.StatefulSet)
	kept, ok := to.(*appsv1.StatefulSet)
	if !ok || !isSet {
		return false
	}
	kept.Spec.Replicas = s.Spec.Replicas
	kept.Spec.Selector, cut = reduceSelector(s.Spec.Selector)
	return cut
}

// reduceSelector returns a selector, nil for a selector that is too long to keep.
func reduceSelector(selector *metav1.LabelSelector) (kept *metav1.LabelSelector, cut bool) {
	if selector == nil {
		return nil, false
	}
	size := 0
	for key, value := range selector.MatchLabels {
		size += labelSize(key, value)
	}
	for _, rule := range selector.MatchExpressions {
		size += labelSize(rule.Key, string(rule.Operator)) + labelOverhead
		for _, value := range rule.Values {
			size += labelSize("", value)
		}
	}
	if size > maxKeptSelector {
		return nil, true
	}
	return selector.DeepCopy(), false
}

// labelOverhead is about how much memory a label takes next to its text.
const labelOverhead = 32

func labelSize(key, value string) int { return len(key) + len(value) + labelOverhead }

func reduceService(from, to client.Object) bool {
	s, isService := from.(*corev1.Service)
	if kept, ok := to.(*corev1.Service); ok && isService && s.Spec.ClusterIP == corev1.ClusterIPNone {
		kept.Spec.ClusterIP = corev1.ClusterIPNone // That cannot be changed by an adoption.
	}
	return false
}

// reduceAutoscaler keeps what an autoscaler scales. A cut name matches no object.
func reduceAutoscaler(from, to client.Object) bool {
	scaler, isScaler := from.(*autoscalingv2.HorizontalPodAutoscaler)
	if kept, ok := to.(*autoscalingv2.HorizontalPodAutoscaler); ok && isScaler {
		target := scaler.Spec.ScaleTargetRef
		kept.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{
			APIVersion: truncateText(target.APIVersion, maxKeptVersion), Kind: truncateText(target.Kind, maxKeptKind+1), Name: truncateText(target.Name, maxKeptName+1),
		}
	}
	return false
}

// reducePod keeps which resource a pod belongs to, since when it exists and why it does not run: of its labels the operator's, and of the others the
// shortest, and the containers that health has a cause of.
func reducePod(from, to client.Object) bool {
	pod, isPod := from.(*corev1.Pod)
	kept, ok := to.(*corev1.Pod)
	if !ok || !isPod {
		return false
	}
	kept.Labels = reduceLabels(pod.Labels)
	kept.CreationTimestamp, kept.Annotations, kept.ManagedFields = pod.CreationTimestamp, nil, nil
	for i := range kept.OwnerReferences {
		kept.OwnerReferences[i].APIVersion = ""
	}
	kept.Status.Phase = truncateText(pod.Status.Phase, maxKeptKind)
	health.KeepCauses(pod, &kept.Status, maxKeptMessage)
	if _, ok := kept.Labels[appv1.LabelCloudManager]; ok { // A renamed component reads it, see workload.AvailableSince.
		kept.Status.Conditions = append(kept.Status.Conditions, reduceReady(pod.Status.Conditions)...)
	}
	return false
}

// reduceReady returns since when a pod is ready, nothing for a pod that is not.
func reduceReady(conditions []corev1.PodCondition) []corev1.PodCondition {
	for i := range conditions {
		if c := &conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return []corev1.PodCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return nil
}

// reduceJob keeps the state of a Job.
func reduceJob(from, to client.Object) bool {
	job, isJob := from.(*batchv1.Job)
	kept, ok := to.(*batchv1.Job)
	if !ok || !isJob {
		return false
	}
	kept.CreationTimestamp, kept.ManagedFields = job.CreationTimestamp, nil
	if owner := health.JobOwner(job); owner != nil {
		kept.Labels = map[string]string{appv1.LabelBeforeRollout: truncateText(job.Labels[appv1.LabelBeforeRollout], maxKeptKind)}
		kept.OwnerReferences = keptOwners([]metav1.OwnerReference{*owner}, 1)
	}
	if cause, ok := job.Annotations[appv1.AnnotationRollout]; ok {
		setAnnotation(kept, appv1.AnnotationRollout, truncateText(cause, maxKeptHash))
	}
	is := &job.Status
	kept.Spec.Suspend = job.Spec.Suspend
	kept.Status = batchv1.JobStatus{
		StartTime: is.StartTime, CompletionTime: is.CompletionTime, Active: is.Active, Succeeded: is.Succeeded, Failed: is.Failed,
		Terminating: is.Terminating, Ready: is.Ready,
	}
	for i := range is.Conditions {
		c := &is.Conditions[i]
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			kept.Status.Conditions = append(kept.Status.Conditions, batchv1.JobCondition{
				Type: c.Type, Status: c.Status, Reason: truncateText(c.Reason, maxKeptKind), LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	return false
}

// readLabels are the labels of pods and claims that decisions read, and that selectors of the operator have. The API server limits a value to 63
// bytes.
var readLabels = []string{
	appv1.LabelManagedBy, appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent, appv1.LabelPart, appv1.LabelCanary, appv1.LabelBeforeRollout,
	appv1.LabelApp, appv1.LabelModelBox, appv1.LabelUnitedDeployment, appv1.LabelCloudManager, appv1.LabelTask,
	appsv1.StatefulSetPodNameLabel, appsv1.DefaultDeploymentUniqueLabelKey,
}

// IsPodLabelKept reports whether the cache keeps a label of each pod that has it.
func IsPodLabelKept(key string) bool { return slices.Contains(readLabels, key) }

// maxSortedLabels is the maximum number of labels that reduceLabels sorts.
const maxSortedLabels = 1000

// reduceLabels returns the labels that decisions read, and of the others the shortest ones up to a length, none of more than maxSortedLabels.
func reduceLabels(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for _, key := range readLabels {
		if value, ok := labels[key]; ok {
			kept[key] = truncateText(value, maxKeptKind)
		}
	}
	if len(labels) > maxSortedLabels {
		return kept
	}
	size := func(key string) int { return labelSize(key, labels[key]) }
	total := 0
	for _, key := range slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b))
	}) {
		if slices.Contains(readLabels, key) {
			continue
		}
		if total += size(key); total > maxKeptLabels {
			break
		}
		kept[key] = labels[key]
	}
	return kept
}

// reduceClaim keeps a claim, of its status only why its volume does not grow, and of a large claim what wakes a reconcile: the operator reads such a claim where it needs
// more of it.
func reduceClaim(from, to client.Object) (cut bool) {
	claim, isClaim := from.(*corev1.PersistentVolumeClaim)
	kept, ok := to.(*corev1.PersistentVolumeClaim)
	if !ok || !isClaim {
		return false
	}
	whole := *claim
	whole.Status = health.KeepResizeFailure(&claim.Status, maxKeptMessage)
	dropStatusManagedFields(&whole)
	if !IsPartial(claim) && heap.Size(&whole) <= maxKeptClaim {
		*kept = whole
		return false
	}
	kept.Labels, kept.OwnerReferences, kept.Status = reduceLabels(claim.Labels), keptOwners(claim.OwnerReferences, 2), whole.Status
	if size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		kept.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	return true
}
