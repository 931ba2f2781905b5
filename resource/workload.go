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
	rules "huolala.cn/app-operator/api/v1/validation"
)

// Workload is the intermediate form between a custom resource and its Kubernetes objects.
type Workload struct {
	// Name and Namespace are shared by all objects, except for the names of the Services and the Secret.
	Name, Namespace string
	// Owner is the owner reference of every object. The custom resource is the controller.
	Owner metav1.OwnerReference
	// Path is the path of the workload's spec in the custom resource. Profile is the security profile that the spec states.
	Path    *field.Path
	Profile appv1.SecurityProfile
	// Labels are the labels of every object. DefaultLabels are the keys of labels that the spec does not state; on an adopted
	// object, existing values take precedence over them.
	Labels        map[string]string
	DefaultLabels []string
	// OwnLabels are the labels that the spec states for the workload object alone. They override the labels of every object.
	OwnLabels map[string]string
	// Annotations are the annotations of every object, OwnAnnotations the further annotations of the workload object.
	Annotations, OwnAnnotations map[string]string
	// Record holds the annotations of the workload object that record the spec and the inputs of the build.
	Record map[string]string
	// Recorded is true if the record holds the whole spec rather than its hash.
	Recorded bool
	// Selector selects the pods. As a selector is immutable, a live selector is kept.
	Selector map[string]string
	// serviceSelector and headlessSelector are the selectors of the Service and of the headless Service. They differ from Selector next to a workload object of
	// others.
	serviceSelector, headlessSelector map[string]string
	// Replicas is the desired number of pods, nil if the spec states none or an autoscaler decides. With nil, the API server
	// defaults a new object to 1, and a live object keeps its number.
	Replicas *int32
	// Template is the pod template.
	Template corev1.PodTemplateSpec
	// TemplateKept is true if the operator leaves the live pod template of the Deployment as it is.
	TemplateKept bool
	// Strategy is the rollout strategy of a Deployment.
	Strategy appsv1.DeploymentStrategy
	// MinReadySeconds is the time that a new pod must be ready before it counts as available.
	MinReadySeconds int32
	// RevisionHistoryLimit is the number of old revisions to keep, nil for the default of Kubernetes.
	RevisionHistoryLimit *int32
	// ProgressDeadlineSeconds is the maximum time of a rollout without progress, nil for the default of Kubernetes.
	ProgressDeadlineSeconds *int32
	// ServiceName is the name of the Service.
	ServiceName string
	// Ports are the ports of the Service; without ports there is no Service.
	Ports []corev1.ServicePort
	// Access holds the other fields of the Service, always with a type. Its annotations override the annotations of every object.
	Access appv1.ServiceSpec
	// Serving holds the fields of the auxiliary objects; nil for a kind without auxiliary objects.
	Serving *appv1.ServingSpec
	// Canary is the canary next to the workload object, nil for none. No builder of a kind sets it.
	Canary *Canary
	// Claims are the volume claim templates of a workload with data.
	Claims []corev1.PersistentVolumeClaim
	// RetainedFor is the custom resource that owns the data, as "<kind>.<name>", empty for a workload without data. If Retain is
	// true, the data outlives the custom resource.
	RetainedFor string
	Retain      bool
	// claimLabels are the labels of the claims, which do not depend on the spec.
	claimLabels map[string]string
	// ownsComponent is true if the spec cannot override the label app.kubernetes.io/component.
	ownsComponent bool
	// refused is true if the patch of the pod template was not applied, or set forbidden labels.
	refused bool
	// container is the name of the main container.
	container string
	// kept is the live pod template that the operator leaves as it is, nil if there is none or it is not known.
	kept *corev1.PodTemplateSpec
	// otherAutoscaler is true if another HorizontalPodAutoscaler scales the workload.
	otherAutoscaler bool
}

// BuildOptions are the inputs of a builder besides the custom resource.
type BuildOptions struct {
	// Selector is the selector of the live workload object, nil without a live object.
	Selector map[string]string
	// Foreign is true if the live workload object belongs to others: the Services have the selector of the kind, and lead to none of its pods. ForeignService is
	// true if the live Service belongs to others, too: it is compared as an adoption of both would leave it.
	Foreign, ForeignService bool
	// Inputs shape the pod template in addition to the spec; see ChooseInputs.
	Inputs BuildInputs
	// LostReplicas is the number of pods of a StatefulSet that was deleted without its pods and is created again; nil for any other object.
	LostReplicas *int32
	// Autoscaled is true if a HorizontalPodAutoscaler that is not from the spec decides the number of pods.
	Autoscaled bool
	// OtherAutoscaler is true if a HorizontalPodAutoscaler other than the workload's own targets the workload object.
	OtherAutoscaler bool
	// LiveReplicas is the desired number of pods of the live workload object, nil without a live object.
	LiveReplicas *int32
	// Serving holds the valid fields of the auxiliary objects; nil means the fields of the custom resource.
	Serving *appv1.ServingSpec
	// Sizes are the sizes that exist; nil to accept any name.
	Sizes Sizes
	// Unrecorded omits the record of the spec, for objects that are only compared, never written.
	Unrecorded bool
}

// workloadMeta describes a workload apart from its spec, with the defaults of its kind.
type workloadMeta struct {
	// name is the name of the objects; namespace is the namespace of the custom resource.
	name, namespace string
	// instance is the custom resource's name; component is the role of the workload in it.
	instance, component string
	// owner is the controller reference of the objects.
	owner metav1.OwnerReference
	// container is the default name of the main container; workload sets it to the actual name.
	container string
	// selector selects the pods of a new workload object.
	selector map[string]string
	// path is the path of the workload's spec in the custom resource.
	path *field.Path
	// minReadySeconds and serviceType are the kind's defaults.
	minReadySeconds int32
	serviceType     corev1.ServiceType
	// restarts is true for a kind whose containers have a liveness probe by default.
	restarts bool
	// claims are the names of the volumes with a claim for each pod.
	claims []string
	// ownsComponent is true if the spec cannot override the label app.kubernetes.io/component of the objects.
	ownsComponent bool
}

// buildWorkload builds the common part of all kinds. The errors are about the podTemplatePatch, the ports, the pod labels, the size and the
// defaults.
func buildWorkload(p workloadMeta, spec *appv1.WorkloadSpec, seen BuildOptions) (*Workload, field.ErrorList) {
	p.container = cmp.Or(spec.ContainerName, p.container)
	selector, ofService, ofHeadless := p.selectors(seen)
	w := &Workload{
		Name:                    p.name,
		Namespace:               p.namespace,
		Owner:                   p.owner,
		OwnLabels:               spec.WorkloadLabels,
		Path:                    p.path,
		Profile:                 spec.SecurityProfile,
		Annotations:             spec.Annotations,
		OwnAnnotations:          spec.WorkloadAnnotations,
		ownsComponent:           p.ownsComponent,
		Selector:                selector,
		serviceSelector:         ofService,
		headlessSelector:        ofHeadless,
		Strategy:                rolloutStrategy(spec),
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
	own := w.setLabels(p, spec, selector)
	if w.Access.Type == "" {
		w.Access.Type = defaultServiceType(p, w.Access.ClusterIP)
	}
	identity := mergedMaps(own, statedLabels(spec.PodLabels), p.selector, selector)
	if seen.Inputs.Rendering == RenderingTutorial {
		identity = selector
	}
	servicePorts, pod := buildPod(p, spec, selector, seen.Inputs)
	w.Ports = servicePorts
	w.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: mergedMaps(spec.PodLabels, identity), Annotations: spec.PodAnnotations},
		Spec:       pod,
	}
	errs, usable := patchTemplate(&w.Template, spec, identity, p)
	w.refused = !usable
	if sum := seen.Inputs.Config.Sum; sum != "" {
		w.Template.Annotations = mergedMaps(w.Template.Annotations, map[string]string{appv1.AnnotationConfig: sum})
	}
	errs = append(errs, selectedOtherwise(spec.PodLabels, selector, p)...)
	restrictTemplate(&w.Template, spec.SecurityProfile)
	applyServerDefaults(&w.Template.Spec)
	if usable && seen.Inputs.Rendering != RenderingTutorial {
		errs = append(errs, unnamedTargets(w, p.path.Child("ports"))...)
		errs = append(errs, rules.WholePod(spec, &w.Template, p.container, p.path)...)
	}
	if usable {
		errs = append(errs, undeclaredPort(w, p.path.Child("podMonitor"))...)
	}
	return w, append(errs, inputErrors(&seen, p.path)...)
}

// selectors returns the selector of the pods, which that of the live object decides, and those of the Service and the headless Service.
func (p workloadMeta) selectors(seen BuildOptions) (ofPods, ofService, ofHeadless map[string]string) {
	if ofPods = seen.Selector; ofPods == nil {
		ofPods = p.selector
	}
	ofService, ofHeadless = ofPods, ofPods
	if seen.Foreign {
		ofHeadless = p.selector
	}
	if seen.Foreign && !seen.ForeignService {
		ofService = p.selector
	}
	return ofPods, ofService, ofHeadless
}

// inputErrors returns the errors of the size and of the defaults.
func inputErrors(seen *BuildOptions, path *field.Path) field.ErrorList {
	errs := seen.Inputs.Defaults.tooLong(path)
	if seen.Sizes != nil {
		errs = append(seen.Inputs.Size.Undefined(seen.Sizes, path.Child("size")), errs...)
	}
	return errs
}

// defaultServiceType returns the type of a Service for which the spec states none: a headless Service has no other type than ClusterIP.
func defaultServiceType(p workloadMeta, clusterIP string) corev1.ServiceType {
	if clusterIP == corev1.ClusterIPNone {
		return corev1.ServiceTypeClusterIP
	}
	return p.serviceType
}

// setLabels sets the labels of the objects and of the claims, and returns the operator's own labels.
func (w *Workload) setLabels(p workloadMeta, spec *appv1.WorkloadSpec, selector map[string]string) map[string]string {
	own := map[string]string{
		appv1.LabelName:      p.name,
		appv1.LabelInstance:  p.instance,
		appv1.LabelComponent: p.component,
		appv1.LabelManagedBy: appv1.ManagedBy,
	}
	stated := statedLabels(spec.Labels)
	w.Labels = mergedMaps(spec.Labels, own, stated)
	if p.ownsComponent {
		w.Labels[appv1.LabelComponent] = p.component
	}
	for _, key := range []string{appv1.LabelComponent, appv1.LabelInstance, appv1.LabelName} {
		if _, given := stated[key]; !given {
			w.DefaultLabels = append(w.DefaultLabels, key)
		}
	}
	w.claimLabels = mergedMaps(own, selector)
	return own
}

// statedLabels returns the labels of a spec that override the operator's labels.
func statedLabels(given map[string]string) map[string]string {
	stated := map[string]string{}
	for _, key := range []string{appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent} {
		if value, ok := given[key]; ok {
			stated[key] = value
		}
	}
	return stated
}

// selectedOtherwise returns an error for each label of the spec that differs from the live workload object's selector, which is
// immutable.
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

// setRecord sets the workload's record of the spec and the inputs. identity returns the part of the spec that shapes the pods.
func (w *Workload) setRecord(spec any, identity func() json.RawMessage, seen BuildOptions) {
	if seen.Unrecorded {
		return
	}
	var record string
	record, w.Recorded = EncodeSpec(spec, identity, mergedMaps(w.Annotations, w.OwnAnnotations))
	w.Record = map[string]string{
		appv1.AnnotationLastAppliedSpec:   record,
		appv1.AnnotationLastAppliedInputs: seen.Inputs.Encode(),
	}
}

// objectMeta returns the metadata that all objects of a workload share.
func (w *Workload) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            w.Name,
		Namespace:       w.Namespace,
		Labels:          w.Labels,
		Annotations:     w.Annotations,
		OwnerReferences: []metav1.OwnerReference{w.Owner},
	}
}

// StatedLabels returns the labels that the spec states for an object of the workload alone; nil if there are none. An adopted object does
// not keep its own values of these labels.
func (w *Workload) StatedLabels(obj metav1.Object) map[string]string {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet:
		return w.OwnLabels
	case *corev1.Service:
		if obj.GetName() == w.ServiceName {
			return w.Access.Labels
		}
	}
	return nil
}

// overriddenLabels returns the labels of every object with the labels that the spec states for one object. Labels that only the operator
// sets stay.
func (w *Workload) overriddenLabels(stated map[string]string) map[string]string {
	if len(stated) == 0 {
		return w.Labels
	}
	all := mergedMaps(w.Labels, stated)
	all[appv1.LabelManagedBy] = appv1.ManagedBy
	if w.ownsComponent {
		all[appv1.LabelComponent] = w.Labels[appv1.LabelComponent]
	}
	return all
}

// mergedMaps returns all entries of several maps, nil for no entries; the last value of a key takes precedence.
func mergedMaps(parts ...map[string]string) map[string]string {
	var all map[string]string
	for _, part := range parts {
		if len(part) > 0 && all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, part)
	}
	return all
}
