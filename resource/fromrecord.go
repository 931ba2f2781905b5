package resource

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// decodeWorkload decodes a record into spec; workload points into spec. A record without an image is an error.
func decodeWorkload(record string, spec any, workload *appv1.WorkloadSpec) error {
	if err := DecodeSpec(record, spec); err != nil {
		return err
	}
	if workload.Image == "" {
		return errors.New("unreadable spec: no image")
	}
	return nil
}

// recordedAs returns the workload with an existing record, unchanged. It returns an error if the recorded patch of the pod
// template cannot be applied.
func (w *Workload) recordedAs(record string) (*Workload, error) {
	if w.refused {
		return nil, errors.New("the patch of the pod template in the record cannot be applied")
	}
	w.Record[appv1.AnnotationLastAppliedSpec], w.Recorded = record, true
	return w, nil
}

// ReliableInputs returns the reliable part of the inputs in the annotation of a live workload object, which other writers can edit.
// If owned, which is true if managedFields has the operator as the annotation's owner, all inputs are. Otherwise it takes the sum of
// the content from the live pod template, as another sum would restart the pods. It keeps the size if the main container of the live
// template has the same amounts, as after a restore from a backup. The rendering is not reliable then: the caller has to derive it by
// a comparison of the built template.
func ReliableInputs(recorded BuildInputs, owned bool, live *corev1.PodTemplateSpec, container string) BuildInputs {
	if owned {
		return recorded
	}
	if !hasAmounts(live, container, recorded.Size.Amounts) {
		recorded.Size = ResolvedSize{}
	}
	recorded.Config.Sum = ConfigOf(live).Sum
	return recorded
}

// hasAmounts reports whether a container of a pod template has these requests and limits, with or without others.
func hasAmounts(template *corev1.PodTemplateSpec, container string, amounts Amounts) bool {
	covers := func(has, want corev1.ResourceList) bool {
		for name, amount := range resourceList(want) {
			if q, ok := has[name]; !ok || q.Cmp(amount) != 0 {
				return false
			}
		}
		return true
	}
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; c.Name == container {
			return covers(c.Resources.Requests, amounts.Requests) && covers(c.Resources.Limits, amounts.Limits)
		}
	}
	return false
}

// TemplateSize returns the length of a pod template as JSON. Of two templates that both match a live one, the longer one states
// more.
func TemplateSize(template *corev1.PodTemplateSpec) int { return len(canonicalJSON(template)) }
