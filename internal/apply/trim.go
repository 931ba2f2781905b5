package apply

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// isOurs reports whether this operator, or a tutorial's for a kind of ours, created an object.
func isOurs(obj client.Object) bool {
	if isManaged(obj) {
		return true
	}
	c := metav1.GetControllerOf(obj)
	return c != nil && IsOfOurGroup(c)
}

// IsOfOurGroup reports whether an owner is of a kind of ours, in any version.
func IsOfOurGroup(owner *metav1.OwnerReference) bool {
	return strings.HasPrefix(owner.APIVersion, appv1.GroupVersion.Group+"/")
}

// identityMeta returns the metadata that identifies an object and its owners.
func identityMeta(obj metav1.ObjectMeta) metav1.ObjectMeta {
	trimmed := metav1.ObjectMeta{
		Name:              obj.Name,
		Namespace:         obj.Namespace,
		UID:               obj.UID,
		ResourceVersion:   obj.ResourceVersion,
		Generation:        obj.Generation,
		DeletionTimestamp: obj.DeletionTimestamp,
		OwnerReferences:   obj.OwnerReferences,
	}
	if sum, ok := obj.Annotations[appv1.AnnotationLastAppliedHash]; ok {
		trimmed.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: sum}
	}
	trimmed.ManagedFields = Marks(obj.ManagedFields)
	return trimmed
}

// dropStatusManagedFields removes from an object of ours who owns which fields of its status, which no decision needs.
func dropStatusManagedFields(obj client.Object) {
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	}))
}

// internSelectors makes one map of label selectors that are equal. An object in the cache is never written to.
func internSelectors(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	if maps.Equal(template.Labels, selector.MatchLabels) {
		template.Labels = selector.MatchLabels
	}
	for _, c := range template.Spec.TopologySpreadConstraints {
		if c.LabelSelector != nil && maps.Equal(c.LabelSelector.MatchLabels, selector.MatchLabels) {
			c.LabelSelector.MatchLabels = selector.MatchLabels
		}
	}
}

func trimDeployment(obj client.Object) {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	if isOurs(d) {
		dropStatusManagedFields(d)
		internSelectors(&d.Spec.Template, d.Spec.Selector)
		return
	}
	d.ObjectMeta = identityMeta(d.ObjectMeta)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: d.Spec.Replicas, Selector: d.Spec.Selector,
		// For the words on a rollout that a UnitedDeployment waits for.
		Paused: d.Spec.Paused, ProgressDeadlineSeconds: d.Spec.ProgressDeadlineSeconds,
	}
}

func trimStatefulSet(obj client.Object) {
	s, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return
	}
	if isOurs(s) {
		dropStatusManagedFields(s)
		internSelectors(&s.Spec.Template, s.Spec.Selector)
		return
	}
	s.ObjectMeta = identityMeta(s.ObjectMeta)
	s.Spec, s.Status = appsv1.StatefulSetSpec{Replicas: s.Spec.Replicas, Selector: s.Spec.Selector}, appsv1.StatefulSetStatus{}
}

// trimClaim removes the status of a claim.
func trimClaim(obj client.Object) {
	if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
		claim.Status = corev1.PersistentVolumeClaimStatus{}
	}
}

func trimService(obj client.Object) {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	if isOurs(s) {
		dropStatusManagedFields(s)
		return
	}
	s.ObjectMeta = identityMeta(s.ObjectMeta)
	headless := s.Spec.ClusterIP == corev1.ClusterIPNone
	s.Spec, s.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	if headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone // That cannot be changed by an adoption.
	}
}

// trimPod keeps which resource a pod belongs to and why it does not run.
func trimPod(obj client.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	trimmed := corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: identityMeta(pod.ObjectMeta)}
	trimmed.Labels = pod.Labels
	trimmed.Status.Phase = pod.Status.Phase
	trimmed.Status.Conditions = pod.Status.Conditions
	trimmed.Status.InitContainerStatuses = pod.Status.InitContainerStatuses
	trimmed.Status.ContainerStatuses = pod.Status.ContainerStatuses
	*pod = trimmed
}

func trimAutoscaler(obj client.Object) {
	scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return
	}
	if isOurs(scaler) {
		dropStatusManagedFields(scaler)
		scaler.Status.CurrentMetrics = nil // They change all the time.
		return
	}
	trimmed := autoscalingv2.HorizontalPodAutoscaler{TypeMeta: scaler.TypeMeta, ObjectMeta: identityMeta(scaler.ObjectMeta)}
	trimmed.Spec.ScaleTargetRef = scaler.Spec.ScaleTargetRef
	*scaler = trimmed
}

// trimBudget removes the status of a budget, which changes with the pods.
func trimBudget(obj client.Object) {
	if budget, ok := obj.(*policyv1.PodDisruptionBudget); ok {
		dropStatusManagedFields(budget)
		budget.Status = policyv1.PodDisruptionBudgetStatus{}
	}
}
