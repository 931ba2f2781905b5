package integration

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// keeping is how an App stands whose pod template is that of before the adoption.
var keeping = append([]string{"Applied=True/TemplateKept"}, progressing...)

// keptDeployment returns an App with a Deployment that others made, and whose pod template it keeps.
func keptDeployment(t *testing.T, ns, name string) (*appv1.App, *appsv1.Deployment) {
	t.Helper()
	d := newHandMade(ns, name)
	plane.Create(t, d, newHandMadeService(ns, name))
	app := newApp(ns, name)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
	plane.Create(t, app)
	plane.Stands(t, app, keeping...)
	plane.Read(t, d)
	return app, d
}

// TestKeptRecords lets other writers at the records on Deployments whose pod template is kept: the records are repaired, and the
// template stays.
func TestKeptRecords(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for i, key := range []string{
		appv1.AnnotationLastAppliedSpec, appv1.AnnotationLastAppliedInputs, appv1.AnnotationLastAppliedHash, appv1.LabelManagedBy,
	} {
		for j, value := range []string{"", "edited", `{"rendering":2}`, `{"image":"nginx:1"}`} {
			t.Run(fmt.Sprintf("%s=%s", key, value), func(t *testing.T) {
				t.Parallel()
				app, d := keptDeployment(t, ns, fmt.Sprintf("web-%d-%d", i, j))
				template := *d.Spec.Template.DeepCopy()
				plane.Change(t, d, func() {
					if delete(d.Annotations, key); value != "" {
						d.Annotations[key] = value
					}
					if key == appv1.LabelManagedBy {
						d.Labels[key] = "edited"
					}
					*d.Spec.Replicas = 7
				})
				plane.Until(t, d, func() error {
					if *d.Spec.Replicas != 2 || d.Labels[appv1.LabelManagedBy] != appv1.ManagedBy {
						return fmt.Errorf("the Deployment is not repaired: %d replicas, %v", *d.Spec.Replicas, d.Labels)
					}
					return nil
				})
				m.Idle(t)
				sameTemplate(t, d, template)
				plane.Stands(t, app, keeping...)
				if in, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs]); err != nil || !in.Kept {
					t.Errorf("the record is %+v, %v", in, err)
				}
			})
		}
	}
}

// TestTemplateKept edits a pod template that is kept, which stays as it is. A refresh makes it the App's.
func TestTemplateKept(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app, d := keptDeployment(t, ns, "web")
	m.Idle(t)
	if in, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs]); err != nil || !in.Kept || *d.Spec.Replicas != 2 {
		t.Fatalf("the record is %+v, %v, with %d replicas", in, err, *d.Spec.Replicas)
	}
	if app.Status.Rendering != 0 || app.Status.LatestRendering != 0 {
		t.Errorf("the status has renderings %d and %d; none made the template", app.Status.Rendering, app.Status.LatestRendering)
	}

	plane.Change(t, d, func() { d.Spec.Template.Spec.Containers[0].Image = "httpd:2" })
	m.Idle(t)
	template := *d.Spec.Template.DeepCopy()
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Replicas = nil })
	m.Idle(t)
	plane.Stands(t, app, keeping...)
	sameTemplate(t, d, template)

	setAnnotation(t, app, appv1.AnnotationRefresh, "1")
	plane.Stands(t, app, append([]string{"Applied=True/Applied"}, progressing...)...)
	m.Idle(t)
	plane.Read(t, d)
	if c := d.Spec.Template.Spec.Containers; len(c) != 1 || c[0].Image != app.Spec.Image {
		t.Errorf("after a refresh the containers are %+v", c)
	}
}

// TestKeptDeploymentDeleted deletes a Deployment whose template is kept: there is nothing left to keep, and the App makes its own.
func TestKeptDeploymentDeleted(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app, d := keptDeployment(t, ns, "gone")
	plane.Delete(t, d)
	plane.Stands(t, app, append([]string{"Applied=True/Applied"}, progressing...)...)
	plane.Until(t, d, func() error {
		if c := d.Spec.Template.Spec.Containers; len(c) != 1 || c[0].Image != app.Spec.Image {
			return fmt.Errorf("the containers are %+v", c)
		}
		return nil
	})
}

// TestAdoptionRestarts has what an adoption cannot take over without a restart: nothing is touched, and the App says what is in the way.
func TestAdoptionRestarts(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, c := range map[string]struct {
		says string
		make func(ns, name string) (selector metav1.LabelSelector, service corev1.ServiceSpec)
	}{
		"other-selector": {"selects pods by app=other", func(_, name string) (metav1.LabelSelector, corev1.ServiceSpec) {
			return metav1.LabelSelector{MatchLabels: map[string]string{"run": name}},
				corev1.ServiceSpec{Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 80}}}
		}},
		"expressions": {"field is immutable", func(_, name string) (metav1.LabelSelector, corev1.ServiceSpec) {
			labels := map[string]string{"run": name}
			return metav1.LabelSelector{
				MatchLabels: labels, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "run", Operator: metav1.LabelSelectorOpExists}},
			}, corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}
		}},
		"headless": {"is headless", func(_, name string) (metav1.LabelSelector, corev1.ServiceSpec) {
			labels := map[string]string{"run": name}
			return metav1.LabelSelector{MatchLabels: labels},
				corev1.ServiceSpec{Selector: labels, ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := newHandMade(ns, name), newHandMadeService(ns, name)
			selector, spec := c.make(ns, name)
			d.Spec.Selector, s.Spec = &selector, spec
			plane.Create(t, d, s)
			wasD, wasS := readWhole(t, d), readWhole(t, s)
			app := newApp(ns, name)
			app.Annotations = map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart}
			plane.Create(t, app)
			plane.Stands(t, app, "Applied=False/AdoptionRestarts", "Ready=False/AdoptionRestarts", "Stalled=True/AdoptionRestarts")
			harness.Says(t, app, "Ready", c.says)
			harness.Says(t, app, "Ready", "The operator has changed nothing")
			m.Idle(t)
			checkUntouched(t, d, wasD)
			checkUntouched(t, s, wasS)
		})
	}
}
