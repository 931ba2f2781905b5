package validation

import (
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// metadata checks the labels and annotations of all objects.
func metadata(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	errs := labels(spec.Labels, path.Child("labels"))
	errs = append(errs, labels(spec.PodLabels, path.Child("podLabels"))...)
	errs = append(errs, annotations(spec.Annotations, path.Child("annotations"))...)
	errs = append(errs, annotations(spec.PodAnnotations, path.Child("podAnnotations"))...)
	errs = append(errs, annotations(spec.Service.Annotations, path.Child("service", "annotations"))...)
	return append(errs, metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
}

// labels checks that labels are well formed, and none of them the operator's.
func labels(given map[string]string, path *field.Path) field.ErrorList {
	own := []string{appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent, appv1.LabelManagedBy}
	errs := metav1validation.ValidateLabels(given, path)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(own, key) || reserved(key) {
			errs = append(errs, field.Forbidden(path.Key(key), "is set by the operator"))
		}
	}
	return errs
}

// annotations checks that annotations are well formed, and none of them the operator's or the Deployment controller's.
func annotations(given map[string]string, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(given, path)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		switch {
		case reserved(key):
			errs = append(errs, field.Forbidden(path.Key(key), "is set by the operator"))
		case strings.HasPrefix(key, "deployment.kubernetes.io/"):
			// The revision, for one, counts rollouts: the two would undo each other's for ever.
			errs = append(errs, field.Forbidden(path.Key(key), "is set by Kubernetes' Deployment controller"))
		}
	}
	return errs
}

// reserved tells whether a key is under the operator's prefix.
func reserved(key string) bool { return strings.HasPrefix(key, appv1.GroupVersion.Group+"/") }
