package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestAdoptionRefused adopts objects, and one of them cannot be as the spec wants it. None of them may be changed: neither its
// owners, nor its managed fields, nor its template. Once the obstacle is removed, the adoption goes through.
func TestAdoptionRefused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, c := range map[string]struct {
		// made is what the Service made by hand states, wanted what the spec does.
		made, wanted string
		port         int32
		reason       string
		says         []string
	}{
		"to-headless": {"", corev1.ClusterIPNone, 0, appv1.ReasonImmutableField, []string{"Service to-headless is rejected by the API server", "clusterIP"}},
		"from-headless": {corev1.ClusterIPNone, "", 0, appv1.ReasonImmutableField,
			[]string{"Service from-headless is headless", "Set service.clusterIP to None, or delete the Service"}},
		"port-taken": {"", "", 30061, appv1.ReasonNodePortTaken, []string{"Service port-taken", "30061"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.port != 0 {
				holder := newHandMadeService(ns, "holder-of-"+name)
				holder.Spec.Type, holder.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, c.port
				plane.Create(t, holder)
			}
			d, s := newHandMade(ns, name), newHandMadeService(ns, name)
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "envoy"})
			s.Spec.ClusterIP = c.made
			plane.Create(t, d)
			plane.Create(t, s)
			deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
			app := newApp(ns, name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			app.Spec.Service.ClusterIP = c.wanted
			if c.port != 0 {
				app.Spec.Service.Type, app.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, c.port
			}
			plane.Create(t, app)
			plane.Stands(t, app, "Ready=False/"+c.reason, "Stalled=True/"+c.reason)
			harness.Says(t, app, "Stalled", c.says...)
			m.Idle(t)
			checkUntouched(t, d, deploymentWas)
			checkUntouched(t, s, serviceWas)

			plane.Delete(t, s)
			if c.port != 0 {
				plane.Read(t, app)
				plane.Change(t, app, func() { app.Spec.Ports[0].NodePort = 0 })
			}
			plane.Stands(t, app, progressing...)
			readChildren(t, app)
		})
	}
}

// TestAdoptionLeavesAllAlone adopts a Deployment next to a Service that cannot be adopted, as it belongs to another object.
func TestAdoptionLeavesAllAlone(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	d, s := newHandMade(ns, "web"), controlled(t, newHandMadeService(ns, "web"))
	plane.Create(t, d)
	plane.Create(t, s)
	deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
	plane.Stands(t, app, exists...)
	m.Idle(t)
	checkUntouched(t, d, deploymentWas)
	checkUntouched(t, s, serviceWas)
}

// TestRefusedPart changes the image together with a part of the spec that the API server refuses for the Service. Nothing of
// it may be applied, the last applied spec stays in force, and the corrected one is applied.
func TestRefusedPart(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	holder := newApp(ns, "holder")
	holder.Spec.Service.Type, holder.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30062
	createInPlace(t, holder)
	for name, c := range map[string]struct {
		reason string
		mutate func(*appv1.AppSpec)
	}{
		"out-of-range": {appv1.ReasonInvalid, func(s *appv1.AppSpec) {
			s.Service.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 80
		}},
		"immutable": {appv1.ReasonImmutableField, func(s *appv1.AppSpec) { s.Service.ClusterIP = corev1.ClusterIPNone }},
		"taken": {appv1.ReasonNodePortTaken, func(s *appv1.AppSpec) {
			s.Service.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30062
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, name)
			d, s := createInPlace(t, app)
			right := app.Spec.DeepCopy()
			deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
			plane.Change(t, app, func() {
				app.Spec.Image = "nginx:7.7"
				c.mutate(&app.Spec)
			})
			plane.Stands(t, app, "Ready=False/"+c.reason, "Stalled=True/"+c.reason)
			harness.Says(t, app, "Stalled", "Service "+name)
			m.Idle(t)
			checkUntouched(t, d, deploymentWas)
			checkUntouched(t, s, serviceWas)

			plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "theirs" })
			awaitImage(t, d, right.Image)
			if c.reason == appv1.ReasonImmutableField {
				// Without the Service, nothing is in the way of the new spec.
				plane.Delete(t, s)
				awaitImage(t, d, "nginx:7.7")
			} else {
				awaitRestored(t, s)
				awaitRestored(t, d)
				awaitImage(t, d, right.Image)
				plane.Stands(t, app, "Ready=False/"+c.reason, "Stalled=True/"+c.reason)
			}

			plane.Read(t, app)
			plane.Change(t, app, func() {
				right.DeepCopyInto(&app.Spec)
				app.Spec.Image = "nginx:7.8"
				app.Spec.Service.ClusterIP = ""
				if c.reason == appv1.ReasonImmutableField {
					app.Spec.Service.ClusterIP = corev1.ClusterIPNone
				}
			})
			plane.Stands(t, app, progressing...)
			awaitImage(t, d, "nginx:7.8")
		})
	}
}

// awaitRestored deletes an object and waits until there is another one of its name, with the type that a Service had.
func awaitRestored(t *testing.T, obj client.Object) {
	t.Helper()
	plane.Read(t, obj)
	old := obj.GetUID()
	plane.Delete(t, obj)
	harness.Eventually(t, func() error {
		err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil && obj.GetUID() == old {
			return apierrors.NewConflict(corev1.Resource("object"), obj.GetName(), nil)
		}
		return err
	})
	if s, ok := obj.(*corev1.Service); ok && s.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service is restored with the type %s", s.Spec.Type)
	}
}

// TestRefusedDeployment changes the port together with a field that the API server refuses for the Deployment: the Service must
// stay as it is.
func TestRefusedDeployment(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	d, s := createInPlace(t, app)
	deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
	plane.Change(t, app, func() {
		app.Spec.Ports[0].Port = 9090
		app.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Near"}}}}}}}
	})
	plane.Stands(t, app, "Ready=False/Invalid", "Stalled=True/Invalid")
	if said := harness.Message(app, "Stalled"); !strings.Contains(said, "affinity") {
		t.Errorf("the message is %q", said)
	}
	m.Idle(t)
	checkUntouched(t, d, deploymentWas)
	checkUntouched(t, s, serviceWas)
	awaitRestored(t, s)
	if got := portsOf(d, s); !strings.Contains(got, ":8080/") && s.Spec.Ports[0].Port == 9090 {
		t.Errorf("ports are %s", got)
	}
}
