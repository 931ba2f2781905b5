package resource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Workload is the middle shape between a custom resource and the objects it means: pods, and how they are reached.
type Workload struct {
	// Name and Namespace are those of every object.
	Name, Namespace string
	// Owner is the controller reference of every object.
	Owner metav1.OwnerReference
	// Labels are on every object. DefaultLabels are the keys of these that the spec does not state and that give way, on an object that
	// is adopted, to what others have set.
	Labels        map[string]string
	DefaultLabels []string
	// Annotations are on every object.
	Annotations map[string]string
	// Record is on the workload object alone, as annotations: what it was built from.
	Record map[string]string
	// Recorded is true if the record holds the spec itself, and not its hash alone.
	Recorded bool
	// Selector selects the pods. It is immutable, so the live one is kept where there is one.
	Selector map[string]string
	// Replicas is the number of pods; nil where the spec states none, or an autoscaler decides. The API server gives a new
	// object one pod then, and a live one keeps the number it has.
	Replicas *int32
	// Template is what each pod is made from.
	Template corev1.PodTemplateSpec
	// TemplateKept is true where the Deployment states no Template: the one that lives stays.
	TemplateKept bool
	// Strategy is how pods are replaced.
	Strategy appsv1.DeploymentStrategy
	// MinReadySeconds is how long a new pod must be ready before it counts.
	MinReadySeconds int32
	// RevisionHistoryLimit is how many old templates are kept, nil for the cluster's default.
	RevisionHistoryLimit *int32
	// ProgressDeadlineSeconds is how long a rollout may make no progress, nil for the cluster's default.
	ProgressDeadlineSeconds *int32
	// ServiceName is the name of the Service.
	ServiceName string
	// Ports are what the Service offers; without any there is no Service.
	Ports []corev1.ServicePort
	// Access is how the Service offers them. Its type is set; its annotations come on top of those of every object.
	Access appv1.ServiceSpec
	// Serving is what stands around the pods; nil for a kind that has no such fields.
	Serving *appv1.ServingSpec
	// Claims are the templates of the volume claims that each pod has, for a workload that keeps data.
	Claims []corev1.PersistentVolumeClaim
	// RetainedFor is whose the data is, as "<kind>.<name>". Retain says whether it outlives that resource.
	RetainedFor string
	Retain      bool
	// claimLabels are those of the claims, which nothing in the spec changes.
	claimLabels map[string]string
	// refused is true if the pod template lacks the spec's patch, or has labels by it that no pods may have.
	refused bool
	// container is the main container's name.
	container string
	// otherAutoscaler is true where an autoscaler that is not the workload's scales it.
	otherAutoscaler bool
}

// BuildOptions is what a builder needs to know in addition to the custom resource.
type BuildOptions struct {
	// Selector is that of the live workload object, nil if there is none.
	Selector map[string]string
	// Inputs shape the pod template in addition to the spec; see ChooseInputs.
	Inputs Inputs
	// Autoscaled is true where a HorizontalPodAutoscaler that the spec does not ask for decides the number of pods.
	Autoscaled bool
	// OtherAutoscaler is true where a HorizontalPodAutoscaler that is not the workload's own targets the workload object.
	OtherAutoscaler bool
	// LiveReplicas is the number of pods that the live workload object asks for, nil if there is none.
	LiveReplicas *int32
	// Serving is what stands around the pods, as far as it is valid; nil for a kind that has no such fields.
	Serving *appv1.ServingSpec
	// Unrecorded leaves out the record of the spec, for objects that are looked at and never written.
	Unrecorded bool
}

// workloadMeta says the workload and the custom resource that is to be built, and what its kind has for defaults.
type workloadMeta struct {
	// name is that of the objects, namespace that of the custom resource.
	name, namespace string
	// instance is the custom resource's name, component the workload's role in it.
	instance, component string
	// owner is the controller reference of the objects.
	owner metav1.OwnerReference
	// container is the main container's name if the spec states none, and from then on the name that it has.
	container string
	// selector selects the pods of a new workload object.
	selector map[string]string
	// path is where the workload's spec is in the custom resource.
	path *field.Path
	// minReadySeconds and serviceType are the kind's defaults.
	minReadySeconds int32
	serviceType     corev1.ServiceType
	// restarts is true for a kind whose containers have a liveness probe by default.
	restarts bool
	// claims are the volumes that each pod has of claims of its own.
	claims []string
	// ownsComponent is true where the label app.kubernetes.io/component of the objects tells what they are for.
	ownsComponent bool
}

// workload maps what all kinds share. It returns what is wrong with the spec's podTemplatePatch.
func workload(p workloadMeta, spec *appv1.WorkloadSpec, seen BuildOptions) (*Workload, field.ErrorList) {
	p.container = cmp.Or(spec.ContainerName, p.container)
	selector := seen.Selector
	if selector == nil {
		selector = p.selector
	}
	w := &Workload{
		Name:                    p.name,
		Namespace:               p.namespace,
		Owner:                   p.owner,
		Annotations:             spec.Annotations,
		Selector:                selector,
		Strategy:                strategy(spec),
		MinReadySeconds:         ptr.Deref(spec.MinReadySeconds, p.minReadySeconds),
		RevisionHistoryLimit:    spec.RevisionHistoryLimit,
		ProgressDeadlineSeconds: spec.ProgressDeadlineSeconds,
		ServiceName:             spec.ServiceName(p.name),
		Access:                  *spec.Service.DeepCopy(),
		Serving:                 seen.Serving,
		TemplateKept:            seen.Inputs.Kept,
		container:               p.container,
		otherAutoscaler:         seen.OtherAutoscaler,
		Replicas:                desiredReplicas(spec.Replicas, seen),
	}
	own := w.label(p, spec, selector)
	if w.Access.Type == "" {
		w.Access.Type = p.serviceType
		if w.Access.ClusterIP == corev1.ClusterIPNone {
			w.Access.Type = corev1.ServiceTypeClusterIP
		}
	}
	identity := merged(own, statedLabels(spec.PodLabels), p.selector, selector)
	if seen.Inputs.Rendering == RenderingTutorial {
		identity = selector
	}
	servicePorts, pod := pod(p, spec, selector, seen.Inputs)
	w.Ports = servicePorts
	w.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: merged(spec.PodLabels, identity), Annotations: spec.PodAnnotations},
		Spec:       pod,
	}
	errs, usable := patchTemplate(&w.Template, spec, identity, p)
	w.refused = !usable
	if sum := seen.Inputs.Config.Sum; sum != "" {
		w.Template.Annotations = merged(w.Template.Annotations, map[string]string{appv1.AnnotationConfig: sum})
	}
	errs = append(errs, selectedOtherwise(spec.PodLabels, selector, p)...)
	restrict(&w.Template, spec.SecurityProfile)
	applyServerDefaults(&w.Template.Spec)
	if usable && seen.Inputs.Rendering != RenderingTutorial {
		errs = append(errs, unnamedTargets(w, p.path.Child("ports"))...)
	}
	if usable {
		errs = append(errs, undeclaredPort(w, p.path.Child("podMonitor"))...)
	}
	return w, errs
}

// label sets the labels of the objects and of the claims, and returns those that are the operator's.
func (w *Workload) label(p workloadMeta, spec *appv1.WorkloadSpec, selector map[string]string) map[string]string {
	own := map[string]string{
		appv1.LabelName:      p.name,
		appv1.LabelInstance:  p.instance,
		appv1.LabelComponent: p.component,
		appv1.LabelManagedBy: appv1.ManagedBy,
	}
	stated := statedLabels(spec.Labels)
	w.Labels = merged(spec.Labels, own, stated)
	if p.ownsComponent {
		w.Labels[appv1.LabelComponent] = p.component
	}
	for _, key := range []string{appv1.LabelComponent, appv1.LabelInstance, appv1.LabelName} {
		if _, given := stated[key]; !given {
			w.DefaultLabels = append(w.DefaultLabels, key)
		}
	}
	w.claimLabels = merged(own, selector)
	return own
}

// statedLabels returns those of a spec's labels that take the place of the operator's.
func statedLabels(given map[string]string) map[string]string {
	stated := map[string]string{}
	for _, key := range []string{appv1.LabelName, appv1.LabelComponent} {
		if value, ok := given[key]; ok {
			stated[key] = value
		}
	}
	return stated
}

// selectedOtherwise returns an error for each label that takes the place of one of the operator's by which the live workload
// object selects its pods: a selector cannot be changed.
func selectedOtherwise(given, selector map[string]string, p workloadMeta) field.ErrorList {
	var errs field.ErrorList
	stated := statedLabels(given)
	for _, key := range slices.Sorted(maps.Keys(stated)) {
		if value, selects := selector[key]; selects && value != stated[key] {
			errs = append(errs, field.Invalid(p.path.Child("podLabels").Key(key), stated[key], fmt.Sprintf(messageLabelSelected, p.name, value)))
		}
	}
	return errs
}

// record notes on the workload what it was built from: the spec, and the inputs in addition to it. identity returns the part of the
// spec that shapes the pods.
func (w *Workload) record(spec any, identity func() json.RawMessage, seen BuildOptions) {
	if seen.Unrecorded {
		return
	}
	var record string
	record, w.Recorded = EncodeSpec(spec, identity, w.Annotations)
	w.Record = map[string]string{
		appv1.AnnotationLastAppliedSpec:   record,
		appv1.AnnotationLastAppliedInputs: seen.Inputs.Encode(),
	}
}

// meta is the metadata that all objects of a workload share.
func (w *Workload) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            w.Name,
		Namespace:       w.Namespace,
		Labels:          w.Labels,
		Annotations:     w.Annotations,
		OwnerReferences: []metav1.OwnerReference{w.Owner},
	}
}

// merged returns all entries of several maps, nil if there are none; of equal keys the last one counts.
func merged(parts ...map[string]string) map[string]string {
	var all map[string]string
	for _, part := range parts {
		if len(part) > 0 && all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, part)
	}
	return all
}
