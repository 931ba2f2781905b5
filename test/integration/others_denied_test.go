package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/test/harness"
)

// TestAdmissionDenies has an admission policy refuse the Deployment. Nothing tells when a policy is changed, so the App must
// go on by itself once it is gone, without a change of its spec.
func TestAdmissionDenies(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
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
	t.Cleanup(func() { removeAtEnd(t, policy) })
	awaitPolicy(t, ns, func(_ string, err error) bool { return apierrors.IsInvalid(err) })

	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Forbidden", "Reconciling=True/Forbidden", "Stalled=False/NotStalled")
	harness.Says(t, app, "Ready", "Deployment web: ", "ValidatingAdmissionPolicy", "not in this namespace")
	harness.Eventually(t, func() error {
		said := listEvents(t, app)
		if !slices.ContainsFunc(said, func(note string) bool {
			return strings.HasPrefix(note, "Warning ErrForbidden: Deployment web: ") && strings.Contains(note, "not in this namespace")
		}) {
			return fmt.Errorf("events %q lack a warning", said)
		}
		return nil
	})
	plane.Delete(t, binding)
	plane.Stands(t, app, progressing...)
	readChildren(t, app)
}

// TestAdmissionDeniesTheNewSpec has an admission policy refuse the new image of an App: edits of the Deployment are still
// repaired, by the last applied spec.
func TestAdmissionDeniesTheNewSpec(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, _ := createInPlace(t, app)
	was := app.Spec.Image
	rule := admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}, Rule: rule,
			}}},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: `!object.spec.template.spec.containers.exists(c, c.image == "nginx:7.7")`, Message: "not this image",
		}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: ns, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	plane.Create(t, policy, binding)
	t.Cleanup(func() { removeAtEnd(t, policy) })
	harness.Eventually(t, func() error {
		probe := newHandMade(ns, "probe")
		probe.Spec.Template.Spec.Containers[0].Image = "nginx:7.7"
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})

	setImage(t, app, "nginx:7.7")
	plane.Stands(t, app, "Applied=False/Forbidden", "Ready=False/Forbidden", "Stalled=False/NotStalled")
	m.Idle(t)
	settled := readWhole(t, d)
	plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
	awaitImage(t, d, was)
	if spec := readWhole(t, d)["spec"]; !cmp.Equal(spec, settled["spec"]) {
		t.Errorf("the Deployment is not as it was:\n%s", cmp.Diff(settled["spec"], spec))
	}
	plane.Delete(t, binding)
	awaitImage(t, d, "nginx:7.7")
	plane.Stands(t, app, progressing...)
}
