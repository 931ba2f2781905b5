package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// handMade is a Deployment of others, by the name of an App.
func handMade(ns string) *appsv1.Deployment {
	d := fixture.NewDeployment(ns, "web")
	labels := map[string]string{"run": "web"}
	d.Spec = appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels}}
	d.Spec.Template.Labels = map[string]string{"run": "web", "team": "a"}
	d.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "main", Image: "httpd:2.4", WorkingDir: "/srv", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}},
		{Name: "sidecar", Image: "busybox:1"},
	}
	return d
}

// handMadeService leads to its pods.
func handMadeService(ns string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: fixture.Meta(ns, "web")}
	s.Spec = corev1.ServiceSpec{Selector: map[string]string{"run": "web"}, Ports: []corev1.ServicePort{{Port: 8080}}}
	return s
}

// imported creates the App that import prints, and waits until it reports what is in its way.
func imported(t *testing.T, u *user) *appv1.App {
	t.Helper()
	text := u.run("import", "web")
	app := &appv1.App{}
	if err := yaml.UnmarshalStrict([]byte(text), app); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(app.Annotations) > 0 || !strings.Contains(text, "kubectl happ adopt web -n "+u.namespace) {
		t.Errorf("an annotation outlives the adoption, or no command is named:\n%s", text)
	}
	says(t, u.run("import", "--all", "--verify"), "App "+u.namespace+"/web: the same as Deployment web, Service web")
	plane.Create(t, app)
	plane.Stands(t, app, "Applied=False/ResourceExists")
	return app
}

// TestImportAndAdopt makes an App of a Deployment, and has it take over what it was made of: no pod restarts, and a refresh changes in
// the pods just what an App adds.
func TestImportAndAdopt(t *testing.T) {
	t.Parallel()
	u := planner(t)
	d, s := handMade(u.namespace), handMadeService(u.namespace)
	plane.Create(t, d, s)
	app := imported(t, u)
	plane.Until(t, d, func() error {
		if d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d pods are available", d.Status.AvailableReplicas)
		}
		return nil
	})
	template, pods := *d.Spec.Template.DeepCopy(), podNames(t, u.namespace)
	says(t, u.run("adopt", "web", "--yes"), "Deployment web", "no pod is replaced", "App "+u.namespace+"/web has taken over its objects")
	plane.Stands(t, app, "Applied=True/TemplateKept", "Ready=True")
	says(t, u.run("adopt", "web", "--yes"), "There is nothing to take over")
	if plane.Read(t, app); app.Annotations[appv1.AnnotationAdopt] != "" {
		t.Errorf("the annotation is left: %v", app.Annotations)
	}
	plane.Read(t, d)
	if diff := cmp.Diff(template, d.Spec.Template); diff != "" {
		t.Errorf("the pod template (-before +after):\n%s", diff)
	}
	if now := podNames(t, u.namespace); now != pods {
		t.Errorf("pods are %s, and were %s", now, pods)
	}
	code, out, said := u.try("plan", "web", "--refresh", "-o", "json")
	if code != 1 {
		t.Fatalf("exit status %d\n%s%s", code, out, said)
	}
	if strings.Contains(out, "sidecar") || strings.Contains(out, "image") || strings.Contains(out, "workingDir") {
		t.Errorf("a refresh changes what the App was made of:\n%s", out)
	}
}

// TestAdoptRefuses has what an adoption would have to restart pods for: nothing is done.
func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	u := planner(t)
	d, s := handMade(u.namespace), handMadeService(u.namespace)
	plane.Create(t, d, s)
	app := imported(t, u)
	plane.Read(t, s)
	plane.Change(t, s, func() { s.Spec.Selector = map[string]string{"team": "a"} })
	code, out, said := u.try("adopt", "web", "--yes")
	if code != 1 || !strings.Contains(said, "AdoptionRestarts") || !strings.Contains(said, "changed nothing") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	if code, out, said = u.try("adopt", "hud/web", "--yes"); code != 1 || !strings.Contains(said, "only resources of the kinds App and ModelBox can") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	for _, argument := range []string{"none", "statefulset/web", "deployment/none"} {
		if code, out, said = u.try("import", argument); code == 0 || said == "" || out != "" {
			t.Errorf("import %s: exit status %d\n%s%s", argument, code, out, said)
		}
	}
	plane.Read(t, d)
	plane.Read(t, app)
	if len(d.OwnerReferences) > 0 || slices.Contains([]string{"true", appv1.AdoptWithoutRestart}, app.Annotations[appv1.AnnotationAdopt]) {
		t.Errorf("something was done: %v, %v", d.OwnerReferences, app.Annotations)
	}
}

// TestAdoptTiers has a CloudManager take over the children of an earlier one with a restart: later tiers wait for earlier ones, and follow.
func TestAdoptTiers(t *testing.T) {
	t.Parallel()
	u := planner(t)
	office := fixture.NewCloudManager(u.namespace, "office")
	plane.Create(t, office)
	plane.Stands(t, office, "Ready=True", "Applied=True")
	u.run("eject", "cmgr/office", "--delete", "--yes")
	plane.Gone(t, office)
	again := fixture.NewCloudManager(u.namespace, "office")
	plane.Create(t, again)
	plane.Stands(t, again, "Applied=False/ResourceExists")
	says(t, u.run("why", "cmgr/office"), "kubectl happ adopt cloudmanager/office --restart -n "+u.namespace)
	if code, out, said := u.try("adopt", "cmgr/office", "--yes"); code != 1 || !strings.Contains(said, "cannot adopt without a restart") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	says(t, u.run("adopt", "cmgr/office", "--restart", "--yes", "--timeout", harness.Patience.String()), "DependencyNotReady: Waiting for ", "CloudManager "+u.namespace+"/office has taken over its objects")
	plane.Stands(t, again, "Applied=True", "Ready=True")
	if again.Annotations[appv1.AnnotationAdopt] != "" {
		t.Errorf("the annotation is left: %v", again.Annotations)
	}
}
