package integration

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// direction is one direction of a NetworkPolicy.
type direction struct {
	// closed allows nothing in the direction, and opened allows all.
	closed, opened *appv1.NetworkPolicySpec
	kind           networkingv1.PolicyType
}

var directions = map[string]direction{
	"ingress": {
		&appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}},
		&appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
		networkingv1.PolicyTypeIngress,
	},
	"egress": {
		&appv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{}},
		&appv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{}}},
		networkingv1.PolicyTypeEgress,
	},
}

// TestClosedDirectionStaysClosed has rules of others in a direction for which an App states an empty list: they are added to the policy of the
// App, they are in a policy that the App adopts, or they are there when the App closes the direction. None stays.
func TestClosedDirectionStaysClosed(t *testing.T) {
	t.Parallel()
	for name, way := range directions {
		for how, play := range map[string]func(t *testing.T, app *appv1.App, way direction){
			"added":   addRules,
			"adopted": adoptRules,
			"closed":  closeRules,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ns, m := plane.Shared(t)
				app := newServed(ns, "web")
				app.Spec.NetworkPolicy = way.closed.DeepCopy()
				play(t, app, way)
				policy := policyOf(app)
				plane.Until(t, policy, func() error {
					if s := policy.Spec; len(s.Ingress) > 0 || len(s.Egress) > 0 || fmt.Sprint(s.PolicyTypes) != fmt.Sprint([]networkingv1.PolicyType{way.kind}) {
						return fmt.Errorf("the policy is %v", s)
					}
					if !metav1.IsControlledBy(policy, app) {
						return fmt.Errorf("the policy is not adopted: %v", listEvents(t, app))
					}
					return nil
				})
				m.Idle(t)
				plane.Stands(t, app, "Applied=True")
			})
		}
	}
}

func policyOf(app *appv1.App) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
}

// openPolicy states the rules of an opened direction in a policy.
func openPolicy(policy *networkingv1.NetworkPolicy, way direction) {
	policy.Spec.Ingress, policy.Spec.Egress = way.opened.Ingress, way.opened.Egress
}

// addRules creates the App, and adds a rule to its policy.
func addRules(t *testing.T, app *appv1.App, way direction) {
	t.Helper()
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=True")
	policy := policyOf(app)
	plane.Read(t, policy)
	plane.Change(t, policy, func() { openPolicy(policy, way) }, intruder)
}

// adoptRules creates an App that adopts a policy of its pods with a rule.
func adoptRules(t *testing.T, app *appv1.App, way direction) {
	t.Helper()
	policy := policyOf(app)
	policy.Spec.PodSelector, policy.Spec.PolicyTypes = *ownPods(), []networkingv1.PolicyType{way.kind}
	openPolicy(policy, way)
	plane.Create(t, policy)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
}

// closeRules creates an App whose policy has a rule that another manager states too, and takes the rule out of the App.
func closeRules(t *testing.T, app *appv1.App, way direction) {
	t.Helper()
	app.Spec.NetworkPolicy = way.opened.DeepCopy()
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=True")
	policy := policyOf(app)
	plane.Read(t, policy)
	stated := policyOf(app)
	stated.TypeMeta = metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"}
	stated.Spec.PodSelector, stated.Spec.PolicyTypes = policy.Spec.PodSelector, policy.Spec.PolicyTypes
	openPolicy(stated, way)
	if err := plane.Client.Patch(t.Context(), stated, client.Apply, client.FieldOwner("kustomize")); err != nil { //nolint:staticcheck // The typed literal is what there is here.
		t.Fatal(err)
	}
	plane.Change(t, app, func() { app.Spec.NetworkPolicy = way.closed.DeepCopy() })
}

// TestRuleWithoutEffectStays adds a rule of another manager in a direction that an App does not restrict. The rule has no effect, and stays.
func TestRuleWithoutEffectStays(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newServed(ns, "web")
	app.Spec.NetworkPolicy = directions["egress"].closed.DeepCopy()
	addRules(t, app, directions["ingress"])
	m.Idle(t)
	setImage(t, app, "nginx:2")
	awaitImage(t, deployment(app), "nginx:2")
	m.Idle(t)
	policy := policyOf(app)
	plane.Read(t, policy)
	if len(policy.Spec.Ingress) != 1 || len(policy.Spec.Egress) != 0 {
		t.Errorf("the policy is %v", policy.Spec)
	}
	plane.Stands(t, app, "Applied=True")
}
