package workload

import (
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// Observed is the live state of one workload. An apply or a further read makes a new Observed. Auxiliary objects are read by the apply.
type Observed struct {
	// At is the time of the reconcile. Verdict is the health of the workload object at that time.
	At      time.Time
	Verdict health.Verdict
	// Object is the workload object: a Deployment, or the StatefulSet of a database. It is nil if there is none.
	Object client.Object
	// taken is why the owner cannot have the live workload object, nil if it controls or adopts it. foreign is true for an object of others: another
	// owner controls it, or nothing does and nothing shows that the operator has applied it for the kind. serviceForeign is true for a live Service that the owner does not control.
	taken                   error
	foreign, serviceForeign bool
	// Pods are the pods of the workload object that the cache has. unlabelled are further pods, for their causes alone.
	Pods       []corev1.Pod
	unlabelled unlabelledPods
	Services
	// Owned is all that the operator has applied for the owner.
	Owned children.Inventory
	Autoscalers
	// Remembered is what the operator remembers of the workload from earlier reconciles.
	Remembered Memory
	platform
	// replicaSet and content are the answers to a need of decideSpec, nil before it has asked.
	replicaSet *replicaSetRead
	content    *contentRead
	// canary is the part about the canary of a Deployment.
	canary observedCanary
	// jobs are the Jobs before rollouts, the latest first. They are not read for a spec without a command.
	jobs []batchv1.Job
	// jobPods are the pods of the Jobs that have not ended.
	jobPods []corev1.Pod

	// Data is the observation of the volumes of a database, nil for other workloads.
	Data Data
}

// Services are the Services of a workload.
type Services struct {
	// ServiceName is the name of the Service that was looked for, and Service the Service, nil if there is none. former is the
	// Service with the workload's own name where ServiceName is another one.
	ServiceName     string
	Service, former *corev1.Service
}

// Autoscalers are the autoscalers that target a workload object or its owner.
type Autoscalers struct {
	// Autoscaler is the name of an autoscaler that targets the workload object and is not the owner's, ownerAutoscaler the name of
	// an autoscaler that targets the custom resource; empty if there is none.
	Autoscaler, ownerAutoscaler string
	// Scaled is true where an autoscaler targets the workload object that the spec does not ask for: another autoscaler, or a former
	// one of the owner's.
	Scaled bool
}

// platform has the inputs that do not depend on the spec alone: the inputs of the manager and of AppDefaults.
type platform struct {
	// today are the inputs of a new workload; see observeInputs.
	today resource.BuildInputs
	// sizes are the sizes that exist, and defaulted is true if an AppDefaults counts for the owner.
	sizes     resource.Sizes
	defaulted bool
	// unknown is the namespace of AppDefaults that count and are not known, empty if all are known.
	unknown string
}

// Data is the observation of a database apart from its workload object: its volumes and its headless Service. An apply makes a new
// value.
type Data interface {
	// LostInputs returns the record of the inputs of a StatefulSet that is gone and is recreated with these inputs, empty if there is
	// no record.
	LostInputs() string
	// LostReplicas returns the number of pods of a StatefulSet that was deleted without its pods, nil if there are none.
	LostReplicas() *int32
	// Volume returns the claim, or the template of a claim, that states the live volumes; nil if none is known.
	Volume(seen *Observed) *corev1.PersistentVolumeClaim
	// Note returns the trouble of the volumes although the spec is in force, without a reason if nothing is.
	Note() reconciler.ReasonAndMessage
	// LiveObject returns the live object that a wanted object is compared with, nil if there is none. ok is false for a wanted object
	// that is no part of Data.
	LiveObject(wanted client.Object) (live client.Object, ok bool)
	// After returns the observation after the apply of an object. ok is false for an object that is no part of Data.
	After(live client.Object) (after Data, ok bool)
}

// Deployment returns the live Deployment, nil if there is none.
func (o *Observed) Deployment() *appsv1.Deployment {
	d, _ := o.Object.(*appsv1.Deployment)
	return d
}

// StatefulSet returns the live StatefulSet, nil if there is none.
func (o *Observed) StatefulSet() *appsv1.StatefulSet {
	set, _ := o.Object.(*appsv1.StatefulSet)
	return set
}

// Selector is the selector of the live workload object, nil if there is none.
func (o *Observed) Selector() map[string]string {
	var selector *metav1.LabelSelector
	switch live := o.Object.(type) {
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

// podTemplate is the pod template of the live workload object, an empty one if there is none.
func (o *Observed) podTemplate() corev1.PodTemplateSpec {
	switch live := o.Object.(type) {
	case *appsv1.Deployment:
		return live.Spec.Template
	case *appsv1.StatefulSet:
		return live.Spec.Template
	}
	return corev1.PodTemplateSpec{}
}

// liveReplicas returns spec.replicas of the live Deployment, nil without a Deployment.
func (o *Observed) liveReplicas() *int32 {
	if live := o.Deployment(); live != nil {
		return ptr.To(ptr.Deref(live.Spec.Replicas, 1))
	}
	return nil
}

// otherAutoscaler reports whether an autoscaler of others targets the live Deployment, or the Deployment to be.
func (o *Observed) otherAutoscaler() bool { return o.Data == nil && o.Autoscaler != "" }

// buildOptions returns the build options for the live workload object. An autoscaler takes over the present number of pods: a new
// object that states no number begins with one pod.
func (o *Observed) buildOptions(inputs resource.BuildInputs, serving *appv1.ServingSpec) resource.BuildOptions {
	lost := o.lostReplicas()
	return resource.BuildOptions{
		Selector: o.selectorToBuild(), Foreign: o.foreign, ForeignService: o.serviceForeign, Inputs: inputs, Sizes: o.sizes, Serving: serving,
		Autoscaled: o.Scaled && (o.Object != nil || lost != nil), LostReplicas: lost, OtherAutoscaler: o.otherAutoscaler(), LiveReplicas: o.liveReplicas(),
	}
}

// lostInputs returns the record of the inputs of a database whose StatefulSet is gone and is recreated with these inputs, empty for any
// other workload.
func (o *Observed) lostInputs() string {
	if o.Object != nil || o.Data == nil {
		return ""
	}
	return o.Data.LostInputs()
}

// lostReplicas returns the number of pods that a database keeps whose StatefulSet is gone, nil for any other workload.
func (o *Observed) lostReplicas() *int32 {
	if o.Object != nil || o.Data == nil {
		return nil
	}
	return o.Data.LostReplicas()
}

// isOwned reports whether the live workload object has the owner as its controller.
func (o *Observed) isOwned(owner client.Object) bool {
	return o.Object != nil && metav1.IsControlledBy(o.Object, owner)
}

// isReady reports whether the pods of the owner's live Deployment are ready, which does not depend on the time.
func (o *Observed) isReady(owner client.Object) bool {
	return o.Deployment() != nil && o.isOwned(owner) && o.Verdict.Ready
}

// LiveObject returns the live object that a wanted object is compared with, nil if there is none. Of a type without a field of its
// own it is the object in the inventory.
func (o *Observed) LiveObject(wanted client.Object) client.Object {
	if o.isCanary(wanted) {
		if o.canary.object != nil {
			return o.canary.object
		}
		return nil
	}
	_, isSet := wanted.(*appsv1.StatefulSet)
	_, isDeployment := wanted.(*appsv1.Deployment)
	if isDeployment || isSet && o.Data != nil {
		return o.Object
	}
	if o.Data != nil {
		if live, ok := o.Data.LiveObject(wanted); ok {
			return live
		}
	}
	if _, isService := wanted.(*corev1.Service); isService {
		if o.Service != nil {
			return o.Service
		}
		return nil
	}
	for _, live := range o.Owned {
		if reflect.TypeOf(live) == reflect.TypeOf(wanted) && live.GetName() == wanted.GetName() {
			return live
		}
	}
	return nil
}

// WithObject returns the observation with another workload object, as it is after a write.
func (o *Observed) WithObject(live client.Object) *Observed {
	after := *o
	after.Object = live
	if !lacksManagedBy(after.podTemplate()) {
		after.unlabelled.again = 0
	}
	after.Verdict = after.unlabelled.withRequeue(healthVerdict(live, slices.Concat(o.Pods, o.unlabelled.pods), o.At))
	return &after
}

// isCanary reports whether an object is the Deployment of the canary, by its name.
func (o *Observed) isCanary(obj client.Object) bool {
	_, ok := obj.(*appsv1.Deployment)
	return ok && o.canary.name != "" && obj.GetName() == o.canary.name
}

// withCanary returns the observation with another Deployment of the canary.
func (o *Observed) withCanary(live *appsv1.Deployment) *Observed {
	after := *o
	after.canary.object = live
	after.canary.verdict = health.Deployment(live, o.canary.pods, o.At)
	return &after
}

// afterApply returns the observation as it is after children were applied.
func (o *Observed) afterApply(done []apply.Outcome) *Observed {
	after := *o
	for i := range done {
		switch live := done[i].Live.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			if deployment, ok := live.(*appsv1.Deployment); ok && o.isCanary(deployment) {
				after = *after.withCanary(deployment)
			} else if live != o.Object {
				after = *after.WithObject(live)
			}
		case *corev1.Service:
			if after.Data != nil {
				if data, ok := after.Data.After(live); ok {
					after.Data = data
					continue
				}
			}
			after.Service = live
		}
	}
	return &after
}

// withoutPruned returns the observation after the deletion of objects: without the Service, if it is among them.
func (o *Observed) withoutPruned(pruned []client.Object) *Observed {
	isObserved := func(obj client.Object) bool {
		service, ok := obj.(*corev1.Service)
		return ok && o.Service != nil && service.UID == o.Service.UID && service.Name == o.Service.Name
	}
	if !slices.ContainsFunc(pruned, isObserved) {
		return o
	}
	after := *o
	after.Service = nil
	return &after
}

// healthVerdict returns the health of a workload object at a time.
func healthVerdict(live client.Object, pods []corev1.Pod, at time.Time) health.Verdict {
	switch live := live.(type) {
	case *appsv1.Deployment:
		return health.Deployment(live, pods, at)
	case *appsv1.StatefulSet:
		return health.StatefulSet(live, pods)
	}
	return health.Verdict{}
}
