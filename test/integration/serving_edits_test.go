package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestServingLosesOwner removes the owner references of each object around the pods. The object is restored in place, and its App
// keeps it.
func TestServingLosesOwner(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newServed(ns, "web", blockNames...)
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=True")
	completeRollout(t, deployment(app))
	plane.Stands(t, app, "Ready=True", "Applied=True")
	for _, name := range blockNames {
		m.Idle(t)
		obj := blocks[name].named(ns, "web")
		plane.Read(t, obj)
		uid := obj.GetUID()
		plane.Change(t, obj, func() { obj.SetOwnerReferences(nil) }, intruder)
		plane.Until(t, obj, func() error {
			if !metav1.IsControlledBy(obj, app) || obj.GetUID() != uid {
				return fmt.Errorf("%s: the object has no owner, or is another one", name)
			}
			return nil
		})
		m.Idle(t)
		plane.Stands(t, app, "Ready=True", "Applied=True")
	}
}

// TestBudgetIsRestored exchanges the two members of a budget, where only one can be set, in both directions.
func TestBudgetIsRestored(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	one := ptr.To(intstr.FromInt32(1))
	for name, c := range map[string]struct {
		spec   appv1.DisruptionBudgetSpec
		theirs func(*policyv1.PodDisruptionBudgetSpec)
	}{
		"maximum": {
			appv1.DisruptionBudgetSpec{MaxUnavailable: one},
			func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable, s.MinAvailable = nil, one },
		},
		"minimum": {
			appv1.DisruptionBudgetSpec{MinAvailable: one},
			func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable, s.MaxUnavailable = nil, one },
		},
	} {
		app := newServed(ns, name)
		app.Spec.DisruptionBudget = &c.spec
		plane.Create(t, app)
		plane.Stands(t, app, "Applied=True")
		m.Idle(t)
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		plane.Read(t, budget)
		plane.Change(t, budget, func() { c.theirs(&budget.Spec) }, intruder)
		plane.Until(t, budget, func() error {
			if fmt.Sprint(budget.Spec.MinAvailable, budget.Spec.MaxUnavailable) != fmt.Sprint(c.spec.MinAvailable, c.spec.MaxUnavailable) {
				return fmt.Errorf("at least %v, at most %v", budget.Spec.MinAvailable, budget.Spec.MaxUnavailable)
			}
			return nil
		})
		m.Idle(t)
		plane.Stands(t, app, "Applied=True")
	}
}

// TestAdoptionLeavesOthers asks for the adoption of objects that restrict or scale what others run. They stay as they are.
func TestAdoptionLeavesOthers(t *testing.T) {
	t.Parallel()
	for name, b := range blocks {
		if b.own == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			foreign := b.named(ns, "web")
			b.foreign(foreign)
			plane.Create(t, foreign)
			m := plane.Start(t, ns)
			app := newServed(ns, "web", name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			plane.Create(t, app)
			plane.Stands(t, app, "Applied=False/"+appv1.ReasonResourceExists)
			m.Idle(t)
			before := foreign.GetGeneration()
			plane.Read(t, foreign)
			if metav1.GetControllerOf(foreign) != nil || foreign.GetGeneration() != before {
				t.Errorf("the object is %v", foreign)
			}
		})
	}
}

// TestForeignBlocksInOneSentence has an object of others by the name of an App, about the pods of the App or of others, with the operator's
// label or without it. What the plan has, and the warning of a change, agrees with what an adoption then does.
func TestForeignBlocksInOneSentence(t *testing.T) {
	t.Parallel()
	for name, b := range blocks {
		for _, own := range []bool{false, true} {
			for _, labelled := range []bool{false, true} {
				if own && b.own == nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/own=%t/labelled=%t", name, own, labelled), func(t *testing.T) {
					t.Parallel()
					playForeignBlock(t, name, own, labelled)
				})
			}
		}
	}
}

// playForeignBlock plans, announces and carries out the adoption of the object of a block.
func playForeignBlock(t *testing.T, name string, own, labelled bool) {
	t.Helper()
	ns, b := plane.Namespace(t), blocks[name]
	foreign := b.named(ns, "web")
	b.foreign(foreign)
	if own {
		b.own(foreign)
	}
	if labelled {
		foreign.SetLabels(map[string]string{appv1.LabelManagedBy: appv1.ManagedBy})
	}
	plane.Create(t, foreign)
	m := startGuarded(t, ns)
	app := newServed(ns, "web", name)
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=False")
	m.Idle(t)

	u := newUser(t)
	plane.Read(t, app)
	wanted := app.DeepCopy()
	wanted.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	warned := ""
	harness.Eventually(t, func() error {
		if err := u.Update(t.Context(), wanted.DeepCopy(), client.DryRunAll); err != nil {
			return err
		}
		if warned = strings.Join(u.warnings(), "\n"); len(u.plan()) == 0 {
			return errors.New("the API server did not wait for the webhook, as on a busy machine")
		}
		return nil
	})
	refused, planned := "", askPlan(t, plane.Client, wanted)
	for _, object := range planned.Objects {
		if object.Name == "web" && object.Problem != nil {
			refused = object.Problem.Message
		}
	}
	setAnnotation(t, app, appv1.AnnotationAdopt, "true")
	m.Idle(t)
	plane.Read(t, foreign)
	plane.Read(t, app)
	adopted := metav1.IsControlledBy(foreign, app)
	const announced = " web exists and will be adopted"
	switch {
	case adopted && (refused != "" || strings.Contains(warned, "do not belong to this resource")):
		t.Errorf("the object is adopted. The plan: %s. The warning: %s", refused, warned)
	case adopted && labelled && !strings.Contains(warned, announced):
		t.Errorf("the adoption is not announced: %s", warned)
	case !adopted && (refused == "" || strings.Contains(warned, announced)):
		t.Errorf("the object is not adopted. The plan: %+v. The warning: %s", planned, warned)
	case !adopted && !strings.Contains(harness.Message(app, "Applied"), refused):
		t.Errorf("the condition says %q, the plan %q", harness.Message(app, "Applied"), refused)
	}
}

// TestIngressWaitsForTheService gives an App's Service a name that another owner's Service has. No request goes to that one: an
// Ingress that is there stays as it was, and none is created.
func TestIngressWaitsForTheService(t *testing.T) {
	t.Parallel()
	for of, foreign := range map[string]func(ns string){
		"nobody": func(ns string) {
			plane.Create(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "taken"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			})
		},
		"another App": func(ns string) { plane.Create(t, newServed(ns, "taken")) },
	} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			ns, m := plane.Shared(t)
			foreign(ns)
			plane.Until(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "taken"}}, func() error { return nil })
			app := newServed(ns, "web", "ingress")
			late := newServed(ns, "late", "ingress")
			late.Spec.Service.Name = "taken"
			plane.Create(t, app)
			plane.Create(t, late)
			plane.Stands(t, late, "Applied=False/"+appv1.ReasonResourceExists, "Exposed=False/"+appv1.ReasonResourceExists)
			plane.Absent(t, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "late"}})

			plane.Stands(t, app, "Applied=True")
			completeRollout(t, deployment(app))
			plane.Stands(t, app, "Applied=True", "Ready=True")
			plane.Change(t, app, func() {
				app.Spec.Service.Name = "taken"
				app.Spec.Ingress.Rules[0].Host = "new.example.com"
			})
			plane.Stands(t, app, "Applied=False/"+appv1.ReasonResourceExists, "Exposed=False/"+appv1.ReasonResourceExists)
			m.Idle(t)
			ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
			plane.Read(t, ingress)
			if rule := ingress.Spec.Rules[0]; rule.Host == "new.example.com" || rule.HTTP.Paths[0].Backend.Service.Name != "web" {
				t.Errorf("%s leads to Service %s", rule.Host, rule.HTTP.Paths[0].Backend.Service.Name)
			}

			giveEndpoint(t, ns, "free", true)
			plane.Change(t, app, func() { app.Spec.Service.Name = "free" })
			plane.Until(t, ingress, func() error {
				if rule := ingress.Spec.Rules[0]; rule.Host != "new.example.com" || rule.HTTP.Paths[0].Backend.Service.Name != "free" {
					return fmt.Errorf("%s leads to Service %s", rule.Host, rule.HTTP.Paths[0].Backend.Service.Name)
				}
				return nil
			})
			plane.Stands(t, app, "Applied=True")
			m.Idle(t)
		})
	}
}

// TestServingOfAnInvalidSpec has a spec that was never applied, as another part of it is invalid: no condition promises an object.
func TestServingOfAnInvalidSpec(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newServed(ns, "web", "ingress", "autoscaling")
	app.Spec.Labels = map[string]string{appv1.LabelManagedBy: "another"}
	plane.Create(t, app)
	invalid := "/" + appv1.ReasonInvalid
	plane.Stands(t, app, "Applied=False"+invalid, "Exposed=False"+invalid, "Autoscaled=False"+invalid)
	plane.Absent(t, blocks["ingress"].named(ns, "web"))
}
