package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// forgeApply applies an object as it lives, with an edit, under the name of the operator's own field manager. By its managed fields
// it looks as if the operator had applied it so.
func forgeApply(t *testing.T, obj client.Object, edit func()) {
	t.Helper()
	plane.Read(t, obj)
	edit()
	gvk, err := plane.Client.GroupVersionKindFor(obj)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	if err := plane.Client.Patch(t.Context(), obj, client.RawPatch(types.ApplyPatchType, marshalJSON(t, obj)),
		client.FieldOwner("app-operator/app"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// forgeries are edits under the operator's name: the field of each, as an event names it, and whether it is there.
var forgeries = map[string]struct {
	field  string
	edit   func(*appsv1.Deployment, *corev1.Service)
	forged func(*appsv1.Deployment, *corev1.Service) bool
}{
	"image": {
		"image", func(d *appsv1.Deployment, _ *corev1.Service) { containerOf(d).Image = "forged" },
		func(d *appsv1.Deployment, _ *corev1.Service) bool { return containerOf(d).Image == "forged" },
	},
	"variable": {
		"env[DEMO]", func(d *appsv1.Deployment, _ *corev1.Service) { containerOf(d).Env[0].Value = "forged" },
		func(d *appsv1.Deployment, _ *corev1.Service) bool { return containerOf(d).Env[0].Value == "forged" },
	},
	"label": {
		"metadata.labels[app.kubernetes.io/name]",
		func(d *appsv1.Deployment, _ *corev1.Service) { d.Labels["app.kubernetes.io/name"] = "forged" },
		func(d *appsv1.Deployment, _ *corev1.Service) bool {
			return d.Labels["app.kubernetes.io/name"] == "forged"
		},
	},
	"port": {
		"ports[8080/TCP].targetPort",
		func(_ *appsv1.Deployment, s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(99) },
		func(_ *appsv1.Deployment, s *corev1.Service) bool { return s.Spec.Ports[0].TargetPort.IntValue() == 99 },
	},
}

// TestForgedManager edits the children of an App under the name of the operator's own field manager, while the operator runs and
// while it does not. managedFields show nothing, and yet it is repaired, and no admission policy is blamed for it.
func TestForgedManager(t *testing.T) {
	t.Parallel()
	for name, c := range forgeries {
		for _, how := range []string{"running", "stopped"} {
			t.Run(name+"-"+how, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				m := plane.Start(t, ns)
				app := newApp(ns, "web")
				app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}}
				d, s := createInPlace(t, app)
				completeRollout(t, d)
				plane.Stands(t, app, "Ready=True", "Applied=True/Applied")
				m.Idle(t)
				if how == "stopped" {
					m.Stop(t)
				}
				child := client.Object(d)
				if name == "port" {
					child = s
				}
				forgeApply(t, child, func() { c.edit(d, s) })
				if how == "stopped" {
					m = plane.Start(t, ns)
				}
				plane.Until(t, child, func() error {
					if c.forged(d, s) {
						return fmt.Errorf("%s is not repaired: %s, %q", c.field, harness.Message(app, "Applied"), listEvents(t, app))
					}
					return nil
				})
				m.Idle(t)
				completeRollout(t, d)
				plane.Stands(t, app, "Ready=True", "Applied=True/Applied", "Stalled=False")
				repairedEvent(t, app, ": "+c.field)
				for _, note := range listEvents(t, app) {
					if strings.Contains(note, "admission") || strings.Contains(note, "did not keep") {
						t.Errorf("the API server is blamed: %s", note)
					}
				}
			})
		}
	}
}

// repairedEvent waits for an event on a repair that has the words.
func repairedEvent(t *testing.T, app *appv1.App, words string) {
	t.Helper()
	harness.Eventually(t, func() error {
		said := listEvents(t, app)
		if !slices.ContainsFunc(said, func(note string) bool {
			return strings.HasPrefix(note, "Normal Repaired: Repaired ") && strings.Contains(note, words)
		}) {
			return fmt.Errorf("events %q lack a repair with %q", said, words)
		}
		return nil
	})
}

// TestForgedManagerUnderAdmission edits an App's Deployment under the operator's name while an admission policy replaces the
// App's image: that one field is not kept hides no other, neither while the operator runs nor when it starts again.
func TestForgedManagerUnderAdmission(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := clocktesting.NewFakePassiveClock(time.Now())
	m := plane.Start(t, ns, harness.WithClock(clk))
	makeMirrorPolicy(t, ns)
	app := newApp(ns, "web")
	plane.Create(t, app)
	plane.Stands(t, app, notKept...)
	d, _ := readChildren(t, app)
	for _, how := range []string{"running", "stopped"} {
		m.Idle(t)
		if how == "stopped" {
			m.Stop(t)
		}
		forgeApply(t, d, func() { containerOf(d).ImagePullPolicy = corev1.PullNever })
		if how == "stopped" {
			m = plane.Start(t, ns, harness.WithClock(clk))
		}
		plane.Until(t, d, func() error {
			if containerOf(d).ImagePullPolicy == corev1.PullNever {
				return fmt.Errorf("%s: not repaired: %s", how, harness.Message(app, "Applied"))
			}
			return nil
		})
		m.Idle(t)
		plane.Stands(t, app, notKept...)
		if message := harness.Message(app, "Applied"); strings.Contains(message, "imagePullPolicy") {
			t.Errorf("%s: admission is blamed: %s", how, message)
		}
	}
}
