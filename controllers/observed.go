package controllers

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// observed is the live state of one workload. It is read once in a reconcile and never written afterwards: an apply, and a further
// read, make a new value.
type observed struct {
	// at is the time of the reconcile. verdict is the health of the workload object at that time.
	at      time.Time
	verdict health.Verdict
	// object is the workload object: a Deployment, or the StatefulSet of a database. It is nil if there is none.
	object client.Object
	// pods are the pods of the workload object.
	pods []corev1.Pod
	// serviceName is the name of the Service that was looked for, and service the Service, nil if there is none. former is the
	// Service with the workload's own name where serviceName is another one.
	serviceName     string
	service, former *corev1.Service
	// owned is all that the operator has applied for the owner.
	owned apply.Inventory
	// autoscaler is the name of an autoscaler that targets the workload object and is not the owner's, ownerAutoscaler the name of
	// an autoscaler that targets the custom resource; empty if there is none.
	autoscaler, ownerAutoscaler string
	// scaled is true where an autoscaler targets the workload object that the spec does not ask for: another one, or a former one
	// of the owner's.
	scaled bool
	// remembered is what the operator remembers of the workload from earlier reconciles.
	remembered memory
	// today are the inputs of a new workload; see observeInputs.
	today resource.Inputs
	// replicaSet and content are the answers to a need of decide, nil before it has asked.
	replicaSet *replicaSetRead
	content    *contentRead
	// canary is the part about the canary of a Deployment.
	canary observedCanary

	observedDatabase
}

// observedDatabase is the part of an observation for a database. It is empty for other workloads.
type observedDatabase struct {
	// cm is the CloudManager, name the name of the database. existed is true if there was a StatefulSet before, by the status.
	cm      *appv1.CloudManager
	name    string
	existed bool
	// headless is the headless Service, claims are the claims of the database's pods that the cache has.
	headless *corev1.Service
	claims   []corev1.PersistentVolumeClaim
}

// deployment returns the live Deployment, nil if there is none.
func (o *observed) deployment() *appsv1.Deployment {
	d, _ := o.object.(*appsv1.Deployment)
	return d
}

// set returns the live StatefulSet, nil if there is none.
func (o *observed) set() *appsv1.StatefulSet {
	set, _ := o.object.(*appsv1.StatefulSet)
	return set
}

// selector is the selector of the live workload object, nil if there is none.
func (o *observed) selector() map[string]string {
	var selector *metav1.LabelSelector
	switch live := o.object.(type) {
	case *appsv1.Deployment:
		selector = live.Spec.Selector
	case *appsv1.StatefulSet:
		selector = live.Spec.Selector
	}
	if selector == nil {
		return nil
	}
	return selector.MatchLabels
}

// template is the pod template of the live workload object, an empty one if there is none.
func (o *observed) template() corev1.PodTemplateSpec {
	switch live := o.object.(type) {
	case *appsv1.Deployment:
		return live.Spec.Template
	case *appsv1.StatefulSet:
		return live.Spec.Template
	}
	return corev1.PodTemplateSpec{}
}

// replicas returns spec.replicas of the live Deployment, nil without a Deployment.
func (o *observed) replicas() *int32 {
	if live := o.deployment(); live != nil {
		return ptr.To(ptr.Deref(live.Spec.Replicas, 1))
	}
	return nil
}

// otherAutoscaler reports whether an autoscaler of others targets the live Deployment, or the Deployment to be.
func (o *observed) otherAutoscaler() bool { return o.cm == nil && o.autoscaler != "" }

// options returns the build options for the live workload object. An autoscaler takes over the present number of pods: a new
// object that states no number begins with one pod.
func (o *observed) options(in resource.Inputs, serving *appv1.ServingSpec) resource.BuildOptions {
	return resource.BuildOptions{
		Selector: o.selector(), Inputs: in, Autoscaled: o.scaled && o.object != nil,
		OtherAutoscaler: o.otherAutoscaler(), LiveReplicas: o.replicas(), Serving: serving,
	}
}

// recordedInputs returns the record of the inputs of a database whose StatefulSet is gone and is to be recreated as it was, empty
// for any other workload.
func (o *observed) recordedInputs() string {
	if o.object == nil && o.headless != nil && metav1.IsControlledBy(o.headless, o.cm) {
		return o.headless.Annotations[appv1.AnnotationLastAppliedInputs]
	}
	return ""
}

// isOwned reports whether the live workload object has the owner as its controller.
func (o *observed) isOwned(owner client.Object) bool {
	return o.object != nil && metav1.IsControlledBy(o.object, owner)
}

// isReady reports whether the pods of the owner's live Deployment are ready, which does not depend on the time.
func (o *observed) isReady(owner client.Object) bool {
	return o.deployment() != nil && o.isOwned(owner) && o.verdict.Ready
}

// liveObject returns the live object that a wanted object is compared with, nil if there is none. Of a type without a field of its
// own it is the object in the inventory.
func (o *observed) liveObject(wanted client.Object) client.Object {
	if o.isCanary(wanted) {
		if o.canary.object != nil {
			return o.canary.object
		}
		return nil
	}
	_, isSet := wanted.(*appsv1.StatefulSet)
	_, isDeployment := wanted.(*appsv1.Deployment)
	if isDeployment || isSet && o.cm != nil {
		return o.object
	}
	if _, isService := wanted.(*corev1.Service); isService {
		live := o.service
		if o.cm != nil && wanted.GetName() == resource.HeadlessName(o.name) {
			live = o.headless
		}
		if live != nil {
			return live
		}
		return nil
	}
	for _, live := range o.owned {
		if reflect.TypeOf(live) == reflect.TypeOf(wanted) && live.GetName() == wanted.GetName() {
			return live
		}
	}
	return nil
}

// withObject returns the observation with another workload object, as it is after a write.
func (o *observed) withObject(live client.Object) *observed {
	after := *o
	after.object = live
	after.verdict = judge(live, o.pods, o.at)
	return &after
}

// isCanary reports whether an object is the Deployment of the canary, by its name.
func (o *observed) isCanary(obj client.Object) bool {
	_, ok := obj.(*appsv1.Deployment)
	return ok && o.canary.name != "" && obj.GetName() == o.canary.name
}

// withCanary returns the observation with another Deployment of the canary.
func (o *observed) withCanary(live *appsv1.Deployment) *observed {
	after := *o
	after.canary.object = live
	after.canary.verdict = health.Deployment(live, o.canary.pods, o.at)
	return &after
}

// after returns the observation as it is after children were applied.
func (o *observed) after(done []apply.Outcome) *observed {
	after := *o
	for i := range done {
		switch live := done[i].Live.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			if deployment, ok := live.(*appsv1.Deployment); ok && o.isCanary(deployment) {
				after = *after.withCanary(deployment)
			} else if live != o.object {
				after = *after.withObject(live)
			}
		case *corev1.Service:
			if after.cm != nil && live.Name == resource.HeadlessName(after.name) {
				after.headless = live
			} else {
				after.service = live
			}
		}
	}
	return &after
}

// judge returns the health of a workload object at a time.
func judge(live client.Object, pods []corev1.Pod, at time.Time) health.Verdict {
	switch live := live.(type) {
	case *appsv1.Deployment:
		return health.Deployment(live, pods, at)
	case *appsv1.StatefulSet:
		return health.StatefulSet(live, pods)
	}
	return health.Verdict{}
}

// observeWorkload reads the objects of a workload from the cache.
func (s *Deps) observeWorkload(ctx context.Context, d *target) (*observed, error) {
	key := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: d.name}
	seen := &observed{at: s.Clock.Now(), remembered: s.Records.recall(d.recordKey())}
	live, err := getOrNil(ctx, s.Client, key, &appsv1.Deployment{})
	if err != nil {
		return nil, err
	}
	if seen, err = s.observeService(ctx, d, seen, d.spec.Workload().ServiceName(d.name)); err != nil {
		return nil, err
	}
	if d.tier == "" {
		if seen.owned, err = s.Engine.Observe(ctx, d.owner, d.manager); err != nil {
			return nil, err
		}
	}
	if seen.autoscaler, seen.scaled, err = s.observeAutoscalers(ctx, d, key); err != nil {
		return nil, err
	}
	if d.scalable != "" {
		if seen.ownerAutoscaler, err = s.findAutoscaler(ctx, d.scalable, client.ObjectKeyFromObject(d.owner)); err != nil {
			return nil, err
		}
	}
	if d.release != nil {
		if seen.canary, err = s.observeCanary(ctx, d, seen.owned); err != nil {
			return nil, err
		}
	}
	if live != nil {
		seen.object = live
		if seen.pods, err = s.listPods(ctx, d.owner, seen.selector()); err != nil {
			return nil, err
		}
		seen.pods, seen.canary.pods = splitPods(seen.pods, seen.canary.name)
		seen = seen.withObject(live)
	}
	if seen.canary.object != nil {
		seen = seen.withCanary(seen.canary.object)
	}
	return seen, nil
}

// observeCanary returns the Deployment with the name of the canary. Without a wish for a canary, only one of the owner counts.
func (s *Deps) observeCanary(ctx context.Context, d *target, owned apply.Inventory) (observedCanary, error) {
	canary := observedCanary{name: resource.CanaryName(d.name)}
	if d.canarySpec() != nil || d.release.Canary != nil {
		live, err := getOrNil(ctx, s.Client, client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: canary.name}, &appsv1.Deployment{})
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

// observeService returns the observation with the Service of a name as the cache has it, and, if the workload has another name, the
// Service of that name.
func (s *Deps) observeService(ctx context.Context, d *target, seen *observed, name string) (*observed, error) {
	after := *seen
	after.serviceName, after.former = name, nil
	key := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: name}
	var err error
	if after.service, err = getOrNil(ctx, s.Client, key, &corev1.Service{}); err != nil || name == d.name || d.tier != "" {
		return &after, err
	}
	key.Name = d.name
	after.former, err = getOrNil(ctx, s.Client, key, &corev1.Service{})
	return &after, err
}

// observeAutoscalers returns the name of an autoscaler of others that targets the Deployment, and whether an autoscaler targets the
// Deployment that the spec does not ask for.
func (s *Deps) observeAutoscalers(ctx context.Context, d *target, key client.ObjectKey) (other string, scaled bool, err error) {
	// The list does not wait for what this process has written, which is the autoscaler of the owner's name alone.
	own := client.ObjectKey{Namespace: d.owner.GetNamespace(), Name: d.name}
	if _, err := getOrNil(ctx, s.Client, own, &autoscalingv2.HorizontalPodAutoscaler{}); err != nil {
		return "", false, err
	}
	scalers, err := s.listAutoscalers(ctx, "Deployment", key)
	if err != nil {
		return "", false, err
	}
	for i := range scalers {
		scaler := &scalers[i]
		switch {
		case metav1.IsControlledBy(scaler, d.owner):
			scaled = scaled || !d.wantsAutoscaler()
		case d.wantsAutoscaler() && scaler.Name == d.name && d.mayOwn(scaler):
		case other == "" || scaler.Name < other:
			other = scaler.Name
		}
	}
	return other, scaled || other != "", nil
}

// findAutoscaler returns the name of an autoscaler that targets a workload object, empty if there is none.
func (s *Deps) findAutoscaler(ctx context.Context, kind string, key client.ObjectKey) (string, error) {
	scalers, err := s.listAutoscalers(ctx, kind, key)
	first := ""
	for i := range scalers {
		if name := scalers[i].Name; first == "" || name < first {
			first = name
		}
	}
	return first, err
}

// listAutoscalers returns the autoscalers that target a workload object.
func (s *Deps) listAutoscalers(ctx context.Context, kind string, key client.ObjectKey) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := s.Client.List(ctx, &scalers, client.InNamespace(key.Namespace),
		client.MatchingFields{indexTarget: apply.ScaledObject{Kind: kind, Name: key.Name}.String()}); err != nil {
		return nil, fmt.Errorf("list autoscalers: %w", err)
	}
	return scalers.Items, nil
}

// listPods returns the pods of an owner's that a selector selects.
func (s *Deps) listPods(ctx context.Context, owner client.Object, selector map[string]string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	// A selector that is kept since an adoption may have the label of the index, and its pods have it with that value.
	instance := cmp.Or(selector[appv1.LabelInstance], owner.GetName())
	if err := s.Client.List(ctx, &pods, client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{indexInstance: instance},
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods.Items, nil
}

// observeInputs returns the observation with the inputs that the workload is built with if it is new.
func (s *Deps) observeInputs(ctx context.Context, d *target, seen *observed) (*observed, error) {
	after := *seen
	after.today = s.Today
	var err error
	after.today.Size, err = s.Sizes.resolveSize(ctx, d.spec.Workload().Size)
	after.today.ServiceAccount = resource.AccountName(d.around, d.name)
	return &after, err
}

// getOrNil reads one object from the cache, nil if there is none.
func getOrNil[T client.Object](ctx context.Context, c client.Client, key client.ObjectKey, obj T) (T, error) {
	var none T
	switch err := reconciler.Get(ctx, c, key, obj); {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}
