package webhooks

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// addDisabled adds to the errors of a spec which of its fields are switched off.
func (s *validators) addDisabled(spec *appv1.ServingSpec, release *appv1.ReleaseSpec, errs field.ErrorList) field.ErrorList {
	at := field.NewPath("spec")
	return slices.Concat(errs, validation.DisabledFeatures(spec, s.disabled, at), validation.DisabledReleases(release, s.disabled, at))
}

// aroundOthers warns of other objects that conflict with the auxiliary objects. was is the previous serving spec, nil for a new resource.
func (s *validators) aroundOthers(ctx context.Context, who *asker, obj client.Object, spec, was *appv1.ServingSpec, replicas *int32) []string {
	var said []string
	if spec.Ingress != nil {
		said = append(said, s.sharedHosts(ctx, who, obj, spec.Ingress)...)
	}
	if spec.Autoscaling != nil {
		said = append(said, s.otherAutoscaler(ctx, who, obj)...)
	}
	if was != nil && was.Autoscaling != nil && spec.Autoscaling == nil && replicas != nil && who.grantAnswer(topicAutoscalingRemoved) == full {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
		if s.readCached(ctx, deployment, deployment) && ptr.Deref(deployment.Spec.Replicas, 1) != *replicas {
			said = append(said, fmt.Sprintf(messageAutoscalingRemoved, ptr.Deref(deployment.Spec.Replicas, 1), *replicas))
		}
	}
	return said
}

// otherAutoscaler warns of an autoscaler of others that targets the Deployment.
func (s *validators) otherAutoscaler(ctx context.Context, who *asker, obj client.Object) []string {
	told := who.grantAnswer(topicAutoscaler)
	if told == nothing {
		return nil
	}
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.cache.List(ctx, &scalers, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", obj.GetName(), "error", err.Error())
		return nil
	}
	for i := range scalers.Items {
		scaler := &scalers.Items[i]
		target := scaler.Spec.ScaleTargetRef
		adopted := scaler.Name == obj.GetName() && wantsAdoption(obj) && metav1.GetControllerOf(scaler) == nil
		if target.Kind == "Deployment" && target.Name == obj.GetName() && !metav1.IsControlledBy(scaler, obj) && !adopted {
			return []string{fmt.Sprintf(messageOtherAutoscaler, scalerName(told, scaler.Name), obj.GetName())}
		}
	}
	return nil
}

// ownersOfPaths returns the controllers of Ingresses, other than a resource, by each host and path that the Ingresses route.
func ownersOfPaths(ingresses []networkingv1.Ingress, except client.Object) map[string]string {
	owners := map[string]string{}
	for i := range ingresses {
		c := metav1.GetControllerOf(&ingresses[i])
		if c == nil || c.UID == except.GetUID() {
			continue
		}
		for _, rule := range ingresses[i].Spec.Rules {
			if rule.HTTP == nil {
				continue
			}
			for _, path := range rule.HTTP.Paths {
				owners[rule.Host+path.Path] = c.Kind + " " + c.Name
			}
		}
	}
	return owners
}

// sharedHosts warns of hosts and paths that lead to another resource of the namespace too.
func (s *validators) sharedHosts(ctx context.Context, who *asker, obj client.Object, spec *appv1.IngressSpec) []string {
	if s.isApart(&networkingv1.Ingress{}) {
		return nil
	}
	told := who.grantAnswer(topicHost)
	if told == nothing {
		return nil
	}
	var all networkingv1.IngressList
	if err := s.cache.List(ctx, &all, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", obj.GetName(), "error", err.Error())
		return nil
	}
	taken := ownersOfPaths(all.Items, obj)
	var said []string
	for _, rule := range spec.Rules {
		for _, path := range resource.PathsOf(rule.Paths) {
			other := taken[string(rule.Host)+string(path)]
			if other != "" && told == general {
				other = messageOtherResource
			}
			if other != "" {
				said = append(said, fmt.Sprintf(messageSharedHost, string(rule.Host)+string(path), other))
			}
		}
	}
	return said
}
