package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/test/harness"
)

// TestAdmissionDenies has an admission policy refuse the Deployment. Nothing tells when a policy is changed, so the App must
// go on by itself once it is gone, without a change of its spec.
func TestAdmissionDenies(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns)
	rule := admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: rule,
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "not in this namespace"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	plane.Create(t, policy, binding)
	t.Cleanup(func() { remove(t, policy) })
	tries(t, ns, func(_ string, err error) bool { return apierrors.IsInvalid(err) })

	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Forbidden", "Reconciling=True/Forbidden", "Stalled=False/NotStalled")
	harness.Says(t, app, "Ready", "Deployment web: ", "ValidatingAdmissionPolicy", "not in this namespace")
	harness.Eventually(t, func() error {
		said := notes(t, app)
		if !slices.ContainsFunc(said, func(note string) bool {
			return strings.HasPrefix(note, "Warning ErrForbidden: Deployment web: ") && strings.Contains(note, "not in this namespace")
		}) {
			return fmt.Errorf("events %q lack a warning", said)
		}
		return nil
	})
	plane.Delete(t, binding)
	plane.Stands(t, app, progressing...)
	children(t, app)
}
