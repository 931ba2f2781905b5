package resource

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// What follows builds a workload from the record of an earlier spec, for as long as the present one cannot be in force. The
// workload has the record as it was given, so that nothing is written where nothing has changed. A record that holds no spec
// is ErrNoSpec. What newer rules would refuse is built all the same, as it runs already; but a record whose patch cannot be
// applied, or states labels that would make the pods another resource's, is an error.

// AppFromRecord returns the workload that an App meant when the record was written.
func AppFromRecord(app *appv1.App, record string, seen BuildOptions) (*Workload, error) {
	past := *app
	past.Spec = appv1.AppSpec{}
	if err := decodeWorkload(record, &past.Spec, &past.Spec.WorkloadSpec); err != nil {
		return nil, err
	}
	w, _ := App(&past, seen)
	return w.recordedAs(record)
}

// ModelBoxFromRecord returns the workload that a ModelBox meant when the record was written.
func ModelBoxFromRecord(box *appv1.ModelBox, record string, seen BuildOptions) (*Workload, error) {
	past := *box
	past.Spec = appv1.ModelBoxSpec{}
	if err := decodeWorkload(record, &past.Spec, &past.Spec.WorkloadSpec); err != nil {
		return nil, err
	}
	w, _ := ModelBox(&past, seen)
	return w.recordedAs(record)
}

// UnitedDeploymentFromRecord returns the workload that the template of a UnitedDeployment meant when the record was written,
// with the present number of pods: that is no part of the template.
func UnitedDeploymentFromRecord(ud *appv1.UnitedDeployment, record string, seen BuildOptions) (*Workload, error) {
	past := *ud
	past.Spec.Template = &appv1.WorkloadSpec{}
	if err := decodeWorkload(record, past.Spec.Template, past.Spec.Template); err != nil {
		return nil, err
	}
	w, _ := UnitedDeployment(&past, seen)
	return w.recordedAs(record)
}

// CloudManagerDatabaseFromRecord returns the workload that a CloudManager's database meant when the record was written. The
// names of all components are stated.
func CloudManagerDatabaseFromRecord(cm *appv1.CloudManager, record string, seen BuildOptions) (*Workload, error) {
	past := *cm
	db := &past.Spec.DB.StatefulSet
	*db = appv1.Database{}
	if err := decodeComponent(record, db, &db.Component, cm.Spec.DB.StatefulSet.Name); err != nil {
		return nil, err
	}
	w, _ := CloudManagerDatabase(&past, seen)
	return w.recordedAs(record)
}

// CloudManagerIdentityFromRecord is CloudManagerDatabaseFromRecord for the identity tier.
func CloudManagerIdentityFromRecord(cm *appv1.CloudManager, record string, seen BuildOptions) (*Workload, error) {
	past := *cm
	identity := &past.Spec.Identity.Deployment
	*identity = appv1.Component{}
	if err := decodeComponent(record, identity, identity, cm.Spec.Identity.Deployment.Name); err != nil {
		return nil, err
	}
	w, _ := CloudManagerIdentity(&past, seen)
	return w.recordedAs(record)
}

// CloudManagerFrontFromRecord is CloudManagerDatabaseFromRecord for the front tier.
func CloudManagerFrontFromRecord(cm *appv1.CloudManager, record string, seen BuildOptions) (*Workload, error) {
	past := *cm
	front := &past.Spec.Front.Deployment
	*front = appv1.Component{}
	if err := decodeComponent(record, front, front, cm.Spec.Front.Deployment.Name); err != nil {
		return nil, err
	}
	w, _ := CloudManagerFront(&past, seen)
	return w.recordedAs(record)
}

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

// decodeComponent reads a record into the spec of a CloudManager's component of a name.
func decodeComponent(record string, spec any, component *appv1.Component, name string) error {
	if err := decodeWorkload(record, spec, &component.WorkloadSpec); err != nil {
		return err
	}
	if component.Name != name {
		return fmt.Errorf("the record is of component %q, not of %q", component.Name, name)
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
// Otherwise the size is believed if the main container of the live pod template has its amounts, as after a restore from a
// backup; and the rendering is for the caller to find out, by what it makes of the spec.
func BelievableInputs(recorded Inputs, owned bool, live *corev1.PodTemplateSpec, container string) (Inputs, bool) {
	if !owned && !hasAmounts(live, container, recorded.Size.Amounts) {
		recorded.Size = ResolvedSize{}
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
