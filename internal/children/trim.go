package children

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// IsOfOurGroup reports whether an owner is of a kind of ours, in any version.
func IsOfOurGroup(owner *metav1.OwnerReference) bool {
	return strings.HasPrefix(owner.APIVersion, appv1.GroupVersion.Group+"/")
}

// dropStatusManagedFields removes from an object of ours who owns which fields of its status, which no decision needs.
func dropStatusManagedFields(obj client.Object) {
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	}))
}

// trimService removes who owns which fields of the status of a Service. Of a Service with a load balancer it keeps when the status was last changed, in an entry without
// fields.
func trimService(obj client.Object) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return
	}
	var last *metav1.ManagedFieldsEntry
	for _, entry := range service.ManagedFields {
		if entry.Subresource == "status" && entry.Time != nil && (last == nil || entry.Time.After(last.Time.Time)) {
			last = &metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource, Time: entry.Time}
		}
	}
	dropStatusManagedFields(service)
	if last != nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		service.ManagedFields = append(service.ManagedFields, *last)
	}
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
	if d, ok := obj.(*appsv1.Deployment); ok {
		dropStatusManagedFields(d)
		shareInputs(d)
		internSelectors(&d.Spec.Template, d.Spec.Selector)
	}
}

func trimStatefulSet(obj client.Object) {
	if s, ok := obj.(*appsv1.StatefulSet); ok {
		dropStatusManagedFields(s)
		internSelectors(&s.Spec.Template, s.Spec.Selector)
	}
}

// trimCronJob removes from the status the names of the Jobs. Of the active ones it keeps whether there is one.
func trimCronJob(obj client.Object) {
	if job, ok := obj.(*batchv1.CronJob); ok {
		dropStatusManagedFields(job)
		if len(job.Status.Active) > 0 {
			job.Status.Active = make([]corev1.ObjectReference, 1)
		}
	}
}

func trimAutoscaler(obj client.Object) {
	if scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		dropStatusManagedFields(scaler)
		scaler.Status.CurrentMetrics = nil // They change all the time.
	}
}

// trimBudget removes the status of a budget, which changes with the pods.
func trimBudget(obj client.Object) {
	if budget, ok := obj.(*policyv1.PodDisruptionBudget); ok {
		dropStatusManagedFields(budget)
		budget.Status = policyv1.PodDisruptionBudgetStatus{}
	}
}
