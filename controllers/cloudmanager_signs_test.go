package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// TestOwnsRole has an adopted object whose role others have edited: the role is the operator's only if the operator owns the label, or if the record of the labels
// that the object keeps has it.
func TestOwnsRole(t *testing.T) {
	manager := resource.KindCloudManager.FieldManager()
	const record, label = `{"f:metadata":{"f:annotations":{"f:` + appv1.AnnotationKeptLabels + `":{}}}}`, `{"f:metadata":{"f:labels":{"f:` + appv1.LabelComponent + `":{}}}}`
	for name, c := range map[string]struct {
		kept, owned string
		by          string
		want        bool
	}{
		"the operator set it":         {"", label, manager, true},
		"others set it":               {"", label, "kubectl", false},
		"a record of the role":        {appv1.LabelComponent + "=identity", record, manager, true},
		"a record of other labels":    {"app.kubernetes.io/name=id", record, manager, false},
		"a record that others made":   {appv1.LabelComponent + "=identity", record, "kubectl", false},
		"neither a label nor records": {"", record, manager, false},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "id", Labels: map[string]string{appv1.LabelComponent: "front"}}}
		if c.kept != "" {
			d.Annotations = map[string]string{appv1.AnnotationKeptLabels: c.kept}
		}
		d.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: c.by, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(c.owned)},
		}}
		if got := signs.OwnsRole(d); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
