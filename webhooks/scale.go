package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"huolala.cn/app-operator/internal/guard"
)

// subresourceScale is the subresource that "kubectl scale" writes.
const subresourceScale = "scale"

// warnScale warns of "kubectl scale" on a resource whose Deployment an autoscaler scales.
func (h *handler[T]) warnScale(ctx context.Context, req *admission.Request) admission.Warnings {
	now, before := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	if json.Unmarshal(req.Object.Raw, now) != nil || json.Unmarshal(req.OldObject.Raw, before) != nil {
		return nil
	}
	guard.Prove(ctx, func() bool { return h.proven(ctx, now, before) })
	return h.ignoredReplicas(ctx, h.askerOf(ctx, now, before), now, &before.Spec.Replicas, &now.Spec.Replicas)
}

// ignoredReplicas warns of another number of pods while an autoscaler decides the number. 0 pods stop a workload with an autoscaler, too. obj
// has the name of the Deployment.
func (s *validators) ignoredReplicas(ctx context.Context, who *asker, obj client.Object, was, is *int32) []string {
	if is == nil || *is == 0 || ptr.Deref(was, *is) == *is || ptr.Deref(was, 0) == 0 || who.gets(topicIgnoredReplicas) != full {
		return nil
	}
	scaler := s.autoscaler(ctx, obj.GetNamespace(), "Deployment", obj.GetName())
	if scaler == "" {
		return nil
	}
	return []string{fmt.Sprintf(messageReplicasIgnored, scaler, obj.GetName())}
}
