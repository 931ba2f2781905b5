package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
)

// Other objects in the cluster only cause warnings. The order in which a user applies and removes objects must not matter: an object in the
// way may be about to be deleted, for example by the same change.

// warnTaken warns of children whose names others have.
func (s *validators) warnTaken(ctx context.Context, who *asker, owner client.Object, children []child) []string {
	told := nothing
	if len(children) > 0 {
		told = who.grantAnswer(topicTaken)
	}
	if told == nothing {
		return nil
	}
	var said []string
	adopt := wantsAdoption(owner)
	for _, child := range children {
		live, ok := emptyLike(child.object)
		if !ok || !s.readCached(ctx, child.object, live) {
			continue
		}
		var stalled *reconciler.StalledError
		if errors.As(apply.Taken(s.scheme, owner, child.object, live, adopt), &stalled) {
			said = append(said, child.name.String()+": "+takenMessage(told, child.object, live, stalled.Message))
		}
	}
	return said
}

// takenMessage returns the warning that a name is taken: words, or, for an object that another controls and the asker may not see, a text
// without the owner.
func takenMessage(told disclosure, wanted, live client.Object, words string) string {
	if told == full || metav1.GetControllerOf(live) == nil && live.GetAnnotations()[appv1.AnnotationRetainedFor] == "" {
		return words
	}
	return fmt.Sprintf(messageOwnedByOther, wanted.GetObjectKind().GroupVersionKind().Kind, wanted.GetName())
}

// readCached reads an object of the namespace and name of another from the cache. What cannot be read counts as missing.
func (s *validators) readCached(ctx context.Context, like, into client.Object) bool {
	if s.isApart(like) {
		return false
	}
	err := s.cache.Get(ctx, client.ObjectKeyFromObject(like), into)
	if client.IgnoreNotFound(err) != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", like.GetName(), "error", err.Error())
	}
	return err == nil
}

// isApart reports whether the objects of a type are not in the manager's cache: to read one there would start to watch the type.
func (s *validators) isApart(obj client.Object) bool { return s.planner != nil && s.planner.Apart(obj) }

// heldByOthers warns of a UnitedDeployment that has to keep off the Deployment that it names.
func (s *validators) heldByOthers(ctx context.Context, who *asker, ud *appv1.UnitedDeployment) []string {
	told := who.grantAnswer(topicScaleOwner)
	if told == nothing {
		return nil
	}
	held, err := s.scaleOwners(ctx, ud)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", ud.Name, "error", err.Error())
		return nil
	}
	if words := validation.ScaleConflict(ud, held); words != "" {
		if told == general {
			words = fmt.Sprintf(messageScaledByOther, ud.Spec.DeploymentName)
		}
		return []string{"spec.deploymentName: " + words}
	}
	return nil
}

// unreadableScale warns of a resource that does not state its replicas although an autoscaler targets it: the API server
// answers a request for the scale of such a resource with an error.
func (s *validators) unreadableScale(ctx context.Context, who *asker, kind string, obj client.Object, replicas *int32) []string {
	if replicas != nil {
		return nil
	}
	told := who.grantAnswer(topicScale)
	if told == nothing {
		return nil
	}
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.cache.List(ctx, &scalers, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", obj.GetName(), "error", err.Error())
		return nil
	}
	for i := range scalers.Items {
		if target := scalers.Items[i].Spec.ScaleTargetRef; target.Kind == kind && target.Name == obj.GetName() {
			return []string{fmt.Sprintf(messageReplicasUnstated, scalerName(told, scalers.Items[i].Name), kind)}
		}
	}
	return nil
}

// scalerName returns how a warning names an autoscaler.
func scalerName(told disclosure, name string) string {
	if told == full {
		return "HorizontalPodAutoscaler " + name
	}
	return messageSomeAutoscaler
}

// scaleOwners finds the other owners of the Deployment's number of pods.
func (s *validators) scaleOwners(ctx context.Context, ud *appv1.UnitedDeployment) (validation.ScaleOwners, error) {
	var held validation.ScaleOwners
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ud.Namespace, Name: ud.Spec.DeploymentName}}
	if held.Missing = !s.readCached(ctx, deployment, deployment); !held.Missing {
		if c := metav1.GetControllerOf(deployment); c != nil && strings.HasPrefix(c.APIVersion, appv1.GroupVersion.Group+"/") {
			held.Controller = c
		}
	}
	var others stored.UnitedDeploymentList
	if err := s.cache.List(ctx, &others, client.InNamespace(ud.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingFields{stored.IndexDeployment: ud.Spec.DeploymentName}); err != nil {
		return held, fmt.Errorf("list UnitedDeployments: %w", err)
	}
	held.OldestClaimant = validation.OldestClaimant(&ud.ObjectMeta, others.Metadata())
	held.Autoscaler = s.autoscalerOf(ctx, ud.Namespace, "Deployment", ud.Spec.DeploymentName)
	return held, nil
}

// autoscalerOf returns the name of an autoscaler that targets a workload object, empty if none is known.
func (s *validators) autoscalerOf(ctx context.Context, namespace, kind, name string) string {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.cache.List(ctx, &scalers, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", name, "error", err.Error())
		return ""
	}
	first := ""
	for i := range scalers.Items {
		target := scalers.Items[i].Spec.ScaleTargetRef
		if found := scalers.Items[i].Name; target.Kind == kind && target.Name == name && (first == "" || found < first) {
			first = found
		}
	}
	return first
}
