package validation

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// metadata checks the labels and annotations of all objects.
func metadata(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	errs := labels(spec.Labels, path.Child("labels"))
	errs = append(errs, labels(spec.PodLabels, path.Child("podLabels"))...)
	errs = append(errs, labels(spec.WorkloadLabels, path.Child("workloadLabels"))...)
	errs = append(errs, labels(spec.Service.Labels, path.Child("service", "labels"))...)
	errs = append(errs, annotations(spec.Annotations, path.Child("annotations"))...)
	errs = append(errs, annotations(spec.PodAnnotations, path.Child("podAnnotations"))...)
	errs = append(errs, annotations(spec.WorkloadAnnotations, path.Child("workloadAnnotations"))...)
	errs = append(errs, annotations(spec.Service.Annotations, path.Child("service", "annotations"))...)
	return append(errs, size(spec, path)...)
}

// operators is how many bytes of an object's annotations are left for the operator's own, where the spec's record is but a hash.
const operators = 8 << 10

// maxAnnotations is how many bytes the user's annotations of an object may have.
const maxAnnotations = apivalidation.TotalAnnotationSizeLimitB - operators

// annotationBytes is how many bytes annotations have.
func annotationBytes(annotations map[string]string) int {
	n := 0
	for key, value := range annotations {
		n += len(key) + len(value)
	}
	return n
}

// size checks that the annotations of every object, and of the Service and the workload object with their own annotations, leave room
// for the operator's.
func size(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	const most = maxAnnotations
	every := annotationBytes(spec.Annotations)
	if every > most {
		return field.ErrorList{field.TooLong(path.Child("annotations"), "", most)}
	}
	var errs field.ErrorList
	if every+annotationBytes(spec.Service.Annotations) > most {
		errs = append(errs, field.TooLong(path.Child("service", "annotations"), "", most-every))
	}
	if every+annotationBytes(spec.WorkloadAnnotations) > most {
		errs = append(errs, field.TooLong(path.Child("workloadAnnotations"), "", most-every))
	}
	return errs
}

// labelMap checks labels in the order of their keys: a message that changes is a write of the status, and an event.
func labelMap(given map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if full(errs) {
			break
		}
		errs = append(errs, metav1validation.ValidateLabelName(key, path)...)
		errs = append(errs, faults(keyIn(path, key), given[key], validation.IsValidLabelValue(given[key]))...)
	}
	return errs
}

// annotationMap checks annotations in the order of their keys.
func annotationMap(given map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if full(errs) {
			break
		}
		errs = append(errs, faults(path, key, validation.IsQualifiedName(strings.ToLower(key)))...)
	}
	if apivalidation.ValidateAnnotationsSize(given) != nil {
		errs = append(errs, field.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}

// labels checks that labels are well formed, and none of them the operator's.
func labels(given map[string]string, path *field.Path) field.ErrorList {
	errs := labelMap(given, path)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if full(errs) {
			break
		}
		if OperatorLabel(key) {
			errs = append(errs, field.Forbidden(keyIn(path, key), messageKeySetByOperator))
		}
	}
	return errs
}

// identifyingLabels refuses the labels by which the operator finds an object: the object has the operator's values in any case.
func identifyingLabels(given map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range []string{appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent} {
		if _, stated := given[key]; stated {
			errs = append(errs, field.Forbidden(keyIn(path, key), messageKeySetByOperator))
		}
	}
	return errs
}

// OperatorLabel reports whether a label is the operator's alone to set.
func OperatorLabel(key string) bool {
	return key == appv1.LabelManagedBy || reserved(key)
}

// annotations checks that annotations are well formed, and none of them the operator's or the Deployment controller's.
func annotations(given map[string]string, path *field.Path) field.ErrorList {
	errs := annotationMap(given, path)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if full(errs) {
			break
		}
		switch {
		case reserved(key):
			errs = append(errs, field.Forbidden(keyIn(path, key), messageKeySetByOperator))
		case strings.HasPrefix(key, "deployment.kubernetes.io/"):
			// The revision, for one, counts rollouts: the two would undo each other's for ever.
			errs = append(errs, field.Forbidden(keyIn(path, key), messageKeySetByDeploymentController))
		}
	}
	return errs
}

// reserved reports whether a key is under the operator's prefix.
func reserved(key string) bool { return strings.HasPrefix(key, appv1.GroupVersion.Group+"/") }

// annotations checks the annotations of a pod that Kubernetes reads.
func (p *pod) annotations(given map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if full(errs) {
			break
		}
		value, at := given[key], keyIn(at, key)
		container, armoured := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		switch {
		case key == corev1.MirrorPodAnnotationKey && p.spec.NodeName == "":
			errs = append(errs, field.Forbidden(at, messageAnnotationOnlyForStaticPods))
		case key == corev1.PodDeletionCost:
			if _, err := strconv.ParseInt(value, 10, 32); err != nil || !deletionCost.MatchString(value) {
				errs = append(errs, field.Invalid(at, value, messageDeletionCostMustBeWholeNumber))
			}
		case key == tolerationsKey && value != "":
			var list []corev1.Toleration
			if err := json.Unmarshal([]byte(value), &list); err != nil {
				errs = append(errs, field.Invalid(at, value, messageTolerationsAnnotationMustBeJSON))
			}
			errs = append(errs, tolerations(list, at)...)
		case key == corev1.SeccompPodAnnotationKey, strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix):
			errs = append(errs, seccompAnnotation(value, at)...)
		case armoured:
			errs = append(errs, p.appArmorAnnotation(container, value, at)...)
		}
	}
	return append(errs, p.contradictions(given, at)...)
}

// tolerationsKey is what tolerations were stated in before there was a field for them.
const tolerationsKey = "scheduler.alpha.kubernetes.io/tolerations"

var deletionCost = regexp.MustCompile(`^(0|[1-9][0-9]*|-[0-9]+)$`)

func seccompAnnotation(value string, at *field.Path) field.ErrorList {
	if name, local := strings.CutPrefix(value, corev1.SeccompLocalhostProfileNamePrefix); local {
		return descends(name, at)
	}
	return oneOf(at, value, corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined)
}

func (p *pod) appArmorAnnotation(container, value string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := p.spec.Containers[0].Name == mainOfDefaults // Each App has its own name of the main container.
	p.each(func(c *corev1.Container, _ place) { found = found || c.Name == container })
	if !found && !p.inherits {
		errs = append(errs, field.Invalid(at, container, messageAnnotationMustNameContainer))
	}
	if !strings.HasPrefix(value, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
		errs = append(errs, oneOf(at, value, "", corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, corev1.DeprecatedAppArmorBetaProfileNameUnconfined)...)
	}
	return errs
}

// contradictions checks that an annotation and the field that has come in its place do not say two things.
func (p *pod) contradictions(given map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	differs := func(key string, fits bool) {
		if !fits {
			errs = append(errs, field.Invalid(keyIn(at, key), given[key], messageAnnotationMustEqualSecurityContext))
		}
	}
	var seccompOfPod *corev1.SeccompProfile
	var armourOfPod *corev1.AppArmorProfile
	if s := p.spec.SecurityContext; s != nil {
		seccompOfPod, armourOfPod = s.SeccompProfile, s.AppArmorProfile
	}
	if value, stated := given[corev1.SeccompPodAnnotationKey]; stated && seccompOfPod != nil {
		differs(corev1.SeccompPodAnnotationKey, sameSeccomp(value, seccompOfPod))
	}
	windows := p.spec.OS != nil && p.spec.OS.Name == corev1.Windows
	p.each(func(c *corev1.Container, _ place) {
		if full(errs) {
			return
		}
		armour := armourOfPod
		if s := c.SecurityContext; s != nil {
			key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name
			if value, stated := given[key]; stated && s.SeccompProfile != nil {
				differs(key, sameSeccomp(value, s.SeccompProfile))
			}
			if s.AppArmorProfile != nil {
				armour = s.AppArmorProfile
			}
		}
		key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if value, stated := given[key]; stated && armour != nil && !windows {
			differs(key, sameAppArmor(value, armour))
		}
	})
	return errs
}

func sameSeccomp(value string, profile *corev1.SeccompProfile) bool {
	switch profile.Type {
	case corev1.SeccompProfileTypeUnconfined:
		return value == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		return value == corev1.SeccompProfileRuntimeDefault || value == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		return value == corev1.SeccompLocalhostProfileNamePrefix+ptr.Deref(profile.LocalhostProfile, "")
	}
	return true
}

func sameAppArmor(value string, profile *corev1.AppArmorProfile) bool {
	switch profile.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		return value == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return value == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		return value == corev1.DeprecatedAppArmorBetaProfileNamePrefix+ptr.Deref(profile.LocalhostProfile, "")
	}
	return true
}
