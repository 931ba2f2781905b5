package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// The indexes of the cache by which a workload is observed.
const (
	// IndexInstance finds pods by the name of the custom resource that they belong to, or by the label app.kubernetes.io/instance in the
	// selector of an adopted workload object; see InstanceKeys.
	IndexInstance = "instance"
	// IndexTarget finds autoscalers by their target; see children.ScaleTarget.
	IndexTarget = "target"
)

// InstanceKeys returns the values by which a pod is found in the index: of the label app.kubernetes.io/instance, which a spec can state, and
// of the label of the operator's kinds.
func InstanceKeys(pod client.Object) []string {
	of := pod.GetLabels()
	keys := []string{of[appv1.LabelInstance]}
	for _, key := range []string{
		appv1.LabelApp, appv1.LabelModelBox, appv1.LabelUnitedDeployment, appv1.LabelCloudManager, appv1.LabelTask, appv1.LabelBeforeRollout,
	} {
		if value, ok := of[key]; ok && !slices.Contains(keys, value) {
			keys = append(keys, value)
		}
	}
	return keys
}

// Observe reads the objects of a workload from the cache.
func (r *Reconciler) Observe(ctx context.Context, in *Input) (*Observed, error) {
	key := client.ObjectKey{Namespace: in.Owner.GetNamespace(), Name: in.Name}
	seen := &Observed{At: r.Clock.Now(), Remembered: r.Records.Recall(in.Key(), in.Owner.GetUID())}
	live, err := GetOrNil(ctx, r.Client, key, &appsv1.Deployment{})
	if err != nil {
		return nil, err
	}
	if seen, err = ObserveService(ctx, r.Client, in, seen, in.Spec.Workload().ServiceName(in.Name)); err != nil {
		return nil, err
	}
	if in.Tier == "" {
		if seen.Owned, err = r.Engine.Observe(ctx, in.Owner, in.fieldManager()); err != nil {
			return nil, err
		}
	}
	if seen.Autoscalers, err = observeAutoscalers(ctx, r.Client, in, key); err != nil {
		return nil, err
	}
	if in.Kind.Serves {
		if seen.canary, err = observeCanary(ctx, r.Client, in, seen.Owned); err != nil {
			return nil, err
		}
	}
	if seen.jobs, err = observeJobs(ctx, r.Client, in); err != nil {
		return nil, err
	}
	if seen.jobPods, err = observeJobPods(ctx, r.Client, in, seen.jobs); err != nil {
		return nil, err
	}
	if live != nil {
		seen.Object = live
		if seen.Pods, err = ListPods(ctx, r.Client, in.Owner, live.GetName(), seen.Selector()); err != nil {
			return nil, err
		}
		seen.Pods, seen.canary.pods = splitPods(seen.Pods, seen.canary.name)
		seen.unlabelled = r.observeUnlabelled(ctx, in, seen, live)
		seen = seen.WithOwnership(r.Client.Scheme(), in, live).WithObject(live)
	}
	if seen.canary.object != nil {
		seen = seen.withCanary(seen.canary.object)
	}
	return seen, nil
}

// observeCanary returns the Deployment with the name of the canary. Without a wish for a canary, only a Deployment of the owner counts.
func observeCanary(ctx context.Context, c client.Client, in *Input, owned children.Inventory) (observedCanary, error) {
	canary := observedCanary{name: resource.CanaryName(in.Name)}
	if in.canarySpec() != nil || in.Before.Release.Canary != nil {
		live, err := GetOrNil(ctx, c, client.ObjectKey{Namespace: in.Owner.GetNamespace(), Name: canary.name}, &appsv1.Deployment{})
		canary.object = live
		return canary, err
	}
	for _, obj := range owned {
		if live, ok := obj.(*appsv1.Deployment); ok && live.Name == canary.name {
			canary.object = live
		}
	}
	return canary, nil
}

// ObserveService returns the observation with the Service of a name as the cache has it, and, if the workload has another name, the
// Service of that name.
func ObserveService(ctx context.Context, c client.Client, in *Input, seen *Observed, name string) (*Observed, error) {
	after := *seen
	key := client.ObjectKey{Namespace: in.Owner.GetNamespace(), Name: name}
	live, err := GetOrNil(ctx, c, key, &corev1.Service{})
	after.Services = Services{ServiceName: name, Service: live}
	if err != nil || name == in.Name || in.Tier != "" {
		return &after, err
	}
	key.Name = in.Name
	after.former, err = GetOrNil(ctx, c, key, &corev1.Service{})
	return &after, err
}

// observeAutoscalers returns the autoscalers that target the Deployment or its owner.
func observeAutoscalers(ctx context.Context, c client.Client, in *Input, key client.ObjectKey) (seen Autoscalers, err error) {
	// The list does not wait for what this process has written, which is the autoscaler of the owner's name alone.
	own := client.ObjectKey{Namespace: in.Owner.GetNamespace(), Name: in.Name}
	if _, err := GetOrNil(ctx, c, own, &autoscalingv2.HorizontalPodAutoscaler{}); err != nil {
		return seen, err
	}
	scalers, err := listAutoscalers(ctx, c, "Deployment", key)
	if err != nil {
		return seen, err
	}
	for i := range scalers {
		scaler := &scalers[i]
		switch {
		case metav1.IsControlledBy(scaler, in.Owner):
			seen.Scaled = seen.Scaled || !in.wantsAutoscaler()
		case in.wantsAutoscaler() && scaler.Name == in.Name && in.mayOwn(scaler):
		case seen.Autoscaler == "" || scaler.Name < seen.Autoscaler:
			seen.Autoscaler = scaler.Name
		}
	}
	seen.Scaled = seen.Scaled || seen.Autoscaler != ""
	if in.Kind.Serves {
		seen.ownerAutoscaler, err = FindAutoscaler(ctx, c, in.Kind.Name, client.ObjectKeyFromObject(in.Owner))
	}
	return seen, err
}

// FindAutoscaler returns the name of an autoscaler that targets a workload object, empty if there is none.
func FindAutoscaler(ctx context.Context, c client.Client, kind string, key client.ObjectKey) (string, error) {
	scalers, err := listAutoscalers(ctx, c, kind, key)
	first := ""
	for i := range scalers {
		if name := scalers[i].Name; first == "" || name < first {
			first = name
		}
	}
	return first, err
}

// listAutoscalers returns the autoscalers that target a workload object.
func listAutoscalers(ctx context.Context, c client.Client, kind string, key client.ObjectKey) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := c.List(ctx, &scalers, client.InNamespace(key.Namespace),
		client.MatchingFields{IndexTarget: children.ScaledObject{Kind: kind, Name: key.Name}.String()}); err != nil {
		return nil, fmt.Errorf("list autoscalers: %w", err)
	}
	return scalers.Items, nil
}

// ListPods returns the pods of an owner's that the selector of a workload object selects. The cache cuts the longest labels of a pod: a pod that
// lacks a label of the selector for that belongs to the workload object of this name by its controller.
func ListPods(ctx context.Context, c client.Client, owner client.Object, name string, selector map[string]string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	kept, others := map[string]string{}, map[string]string{}
	for key, value := range selector {
		if children.IsPodLabelKept(key) {
			kept[key] = value
		} else {
			others[key] = value
		}
	}
	// A selector that is kept since an adoption may have the label of the index, and its pods have it with that value.
	instance := cmp.Or(selector[appv1.LabelInstance], owner.GetName())
	if err := c.List(ctx, &pods, client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{IndexInstance: instance},
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(kept)}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		for key, value := range others {
			if is, ok := pod.Labels[key]; ok && is != value || !ok && !runsFor(&pod, name) {
				return true
			}
		}
		return false
	}), nil
}

// runsFor reports whether the controller of a pod is the StatefulSet of a name, or a ReplicaSet of the Deployment of that name or of its canary.
func runsFor(pod *corev1.Pod, name string) bool {
	by := metav1.GetControllerOfNoCopy(pod)
	return by != nil && by.Name == name || ofDeployment(pod, name) || ofDeployment(pod, name+appv1.CanarySuffix)
}

// observeInputs returns the observation with the inputs that the workload is built with if it is new.
func (r *Reconciler) observeInputs(ctx context.Context, in *Input, seen *Observed) (*Observed, error) {
	after := *seen
	present, err := r.Defaults.Present(ctx, in.Owner.GetNamespace())
	if err != nil {
		return nil, err
	}
	after.platform = platform{today: r.Today, sizes: present.Sizes, defaulted: present.Fields != nil || present.Unknown != "", unknown: present.Unknown}
	with := in
	if in.Kind.Serves && in.Undecodable == nil {
		after.today.Defaults = resource.TakeDefaults(&present, in.Spec.WithDefaults(""))
		with = in.withDefaults(after.today.Defaults)
	}
	after.today.Size = present.Sizes.Resolve(with.Spec.Workload().Size)
	after.today.ServiceAccount = resource.AccountName(with.Around, in.Name)
	return &after, nil
}

// GetOrNil reads one object from the cache, nil if there is none.
func GetOrNil[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, obj T) (T, error) {
	var none T
	switch err := reconciler.Get(ctx, c, key, obj); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}
