package resource

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// decodeWorkload reads a record into a spec that has a workload in it.
func decodeWorkload(record string, spec any, workload *appv1.WorkloadSpec) error {
	if err := DecodeSpec(record, spec); err != nil {
		return err
	}
	if workload.Image == "" {
		return errors.New("unreadable spec: no image")
	}
	return nil
}

// recordedAs returns the workload with the record that it was built from.
func (w *Workload) recordedAs(record string) (*Workload, error) {
	if w.refused {
		return nil, errors.New("the patch of the pod template in the record cannot be applied")
	}
	w.Record[appv1.AnnotationLastAppliedSpec], w.Recorded = record, true
	return w, nil
}

// BelievableInputs returns what can be believed of inputs that lie on a live workload object, where others may write too, and
// whether that includes the rendering. While the annotation is the operator's own (owned: in managedFields), all of it is.
// Otherwise the sum of the content is that of the live pod template, as another one would restart the pods; the size is believed
// if the main container of the live pod template has its amounts, as after a restore from a backup; and the rendering is for the
// caller to find out, by what it makes of the spec.
func BelievableInputs(recorded Inputs, owned bool, live *corev1.PodTemplateSpec, container string) (Inputs, bool) {
	if !owned && !hasAmounts(live, container, recorded.Size.Amounts) {
		recorded.Size = ResolvedSize{}
	}
	if !owned {
		recorded.Config.Sum = ConfigOf(live).Sum
	}
	return recorded, owned
}

// hasAmounts reports whether a container of a pod template has requests and limits of these amounts.
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

// TemplateSize returns how much a pod template states, to tell which of two that both hold in a live one states more.
func TemplateSize(template *corev1.PodTemplateSpec) int { return len(canonical(template)) }
