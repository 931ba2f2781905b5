package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// subresourceScale is the subresource that "kubectl scale" writes.
const subresourceScale = "scale"

// warnScale warns of "kubectl scale" on a resource whose Deployment an autoscaler scales.
func (h *handler[T]) warnScale(ctx context.Context, req *admission.Request) admission.Warnings {
	now, before := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	if json.Unmarshal(req.Object.Raw, now) != nil || json.Unmarshal(req.OldObject.Raw, before) != nil {
		return nil
	}
	return h.ignoredReplicas(ctx, h.askerOf(ctx, now, before), now, &before.Spec.Replicas, &now.Spec.Replicas)
}

// ignoredReplicas warns of another number of pods while an autoscaler decides the number. 0 pods stop a workload with an autoscaler, too. obj
// has the name of the Deployment.
func (s *validators) ignoredReplicas(ctx context.Context, who *asker, obj client.Object, was, is *int32) []string {
	if is == nil || *is == 0 || ptr.Deref(was, *is) == *is || ptr.Deref(was, 0) == 0 || who.grantAnswer(topicIgnoredReplicas) != full {
		return nil
	}
	scaler := s.autoscalerOf(ctx, obj.GetNamespace(), "Deployment", obj.GetName())
	if scaler == "" {
		return nil
	}
	return []string{fmt.Sprintf(messageReplicasIgnored, scaler, obj.GetName())}
}

// unstatedReplicas warns of a spec that does not state the number of pods, by the live number: of the Deployment that the resource owns, unless
// an autoscaler scales it. A new Deployment has one pod. How many pods an adopted Deployment will have is not known before.
func (s *validators) unstatedReplicas(ctx context.Context, who *asker, obj client.Object, workload *appv1.WorkloadSpec, spec *appv1.ServingSpec) []string {
	fewest := validation.UnstatedPodsWarnings(workload, spec, 1) // With more pods, there are no more warnings.
	if len(fewest) == 0 {
		return nil
	}
	told := who.grantAnswer(topicUnstatedReplicas)
	if told == nothing {
		return nil
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	switch {
	case !s.readCached(ctx, deployment, deployment):
		return fewest
	case told != full || !metav1.IsControlledBy(deployment, obj) || s.autoscalerOf(ctx, obj.GetNamespace(), "Deployment", obj.GetName()) != "":
		return nil
	}
	return validation.UnstatedPodsWarnings(workload, spec, ptr.Deref(deployment.Spec.Replicas, 1))
}
