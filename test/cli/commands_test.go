package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

const badImage = "imagepullbackoff.test/x:1"

// standing returns an error unless the reason of Ready is this one, for the latest generation.
func standing(app *appv1.App, reason string) error {
	for _, c := range app.Status.Conditions {
		if c.Type == appv1.ConditionReady && c.Reason == reason && app.Status.ObservedGeneration == app.Generation {
			return nil
		}
	}
	return fmt.Errorf("not %s: %+v", reason, app.Status.Conditions)
}

// newApp creates an App and waits for it with the plug-in.
func newApp(t *testing.T, u *user, image string) *appv1.App {
	t.Helper()
	app := fixture.NewApp(u.namespace, "web")
	app.Spec.Image, app.Spec.Replicas = image, ptr.To[int32](2)
	plane.Create(t, app)
	says(t, u.run("wait", "web"), "2 of 2 ready")
	return app
}

// administrator returns an administrator in a namespace of the shared manager.
func administrator(t *testing.T) *user {
	t.Helper()
	ns, _ := plane.Shared(t)
	return as(t, plane.Config, ns)
}

// TestLook has a rollout that fails: list, tree, why and wait say so, from wherever they are asked.
func TestLook(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	says(t, u.run("why", "web"), "is Ready", "2 of 2 pods ready")
	says(t, u.run("list"), "App/web", "2/2", "Ready")
	if out := u.run("list", "--not-ready", "-o", "name"); out != "" {
		t.Errorf("not ready: %s", out)
	}

	plane.Change(t, app, func() { app.Spec.Image = badImage })
	code, out, said := u.try("wait", "web", "--grace", "1s")
	if code != 1 {
		t.Errorf("wait has the exit status %d\n%s%s", code, out, said)
	}
	says(t, said, badImage, "cannot be pulled", "why web")
	why := u.run("why", "web")
	says(t, why, "ImagePullBackOff", "cannot be pulled", "root cause", "Fix spec.image", "kubectl happ rollback web --to 1")
	says(t, u.run("tree", "web"), "App/web", "Deployment/web", "(rev 2)", "(rev 1)", "Pod/web-", badImage, "Service/web")

	pods := &corev1.PodList{}
	if err := plane.Client.List(t.Context(), pods, client.InNamespace(u.namespace)); err != nil || len(pods.Items) == 0 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	plane.Change(t, app, func() { app.Spec.ServiceAccount = &appv1.ServiceAccountSpec{} })
	plane.Until(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "web"}}, func() error { return nil })
	for _, from := range []string{"app/web", "happ/web", "pod/" + pods.Items[0].Name, "deploy/web", "svc/web", "sa/web"} {
		says(t, u.run("why", from), "App "+u.namespace+"/web")
	}
	var tree view.Tree
	if err := json.Unmarshal([]byte(u.run("tree", "web", "-o", "json")), &tree); err != nil || tree.Root.Name != "web" || tree.APIVersion != view.APIVersion {
		t.Errorf("the tree is %+v, %v", tree, err)
	}
	if code, _, said := u.try("wait", "web", "--timeout", "1s", "--fail", "never"); code != 3 {
		t.Errorf("wait that is never over has the exit status %d: %s", code, said)
	}
	for _, args := range [][]string{{"why", "gone"}, {"why", "secret/x"}, {"tree", "pod/gone"}, {"wait", "a/b/c"}} {
		if code, _, said := u.try(args...); code == 0 || said == "" {
			t.Errorf("%v has the exit status %d: %s", args, code, said)
		}
	}
}

// TestRollback returns from an image that cannot be pulled, but not behind the back of a tool that applies the App from Git.
func TestRollback(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	plane.Change(t, app, func() {
		app.Spec.Image, app.Spec.Replicas = badImage, ptr.To[int32](3)
		app.Spec.Envs = []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "hunter2"}}
	})
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonImagePullBackOff) })
	history := u.run("history", "web")
	says(t, history, "2 *", "image nginx:1 → "+badImage, "+envs")
	for _, text := range []string{history, u.run("history", "web", "--diff", "1..2"), u.run("history", "web", "-o", "json"), u.run("history", "web", "--revision", "2")} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the value of a password is shown:\n%s", text)
		}
	}
	says(t, u.run("history", "web", "--revision", "2", "--show-values"), "hunter2")

	plane.Change(t, app, func() { metav1.SetMetaDataAnnotation(&app.ObjectMeta, "argocd.argoproj.io/tracking-id", "web") })
	code, _, said := u.try("rollback", "web", "--to", "1", "--yes")
	if code == 0 {
		t.Error("rolled back against Git")
	}
	says(t, said, "Argo CD", "--force")
	if code, _, said := u.try("rollback", "web", "--to", "1", "--force"); code == 0 {
		t.Errorf("rolled back without asking: %s", said)
	}
	says(t, u.run("rollback", "web", "--to", "1", "--yes", "--force", "--wait"), badImage+" → nginx:1", "rolled back to revision 1")
	plane.Read(t, app)
	if app.Spec.Image != "nginx:1" || *app.Spec.Replicas != 3 || app.Spec.Envs != nil {
		t.Errorf("after the rollback: image %s, %d replicas, %v", app.Spec.Image, *app.Spec.Replicas, app.Spec.Envs)
	}
	says(t, u.run("rollback", "web", "--to", "3", "--yes", "--force"), "already")
}

// TestChange pauses, resumes, refreshes and restarts.
func TestChange(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	says(t, u.run("pause", "web"), "paused")
	says(t, u.run("pause", "web"), "already")
	plane.Change(t, app, func() { app.Spec.Image = "nginx:2" })
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonPaused) })
	says(t, u.run("why", "web"), "Paused", "happ resume web")
	says(t, u.run("resume", "web", "--wait"), "resumed", "2 of 2 ready")

	d := fixture.Deployment(app)
	plane.Read(t, d)
	if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:2" {
		t.Errorf("after resume --wait, the Deployment has %s", image)
	}
	generation := d.Generation
	says(t, u.run("refresh", "web", "--yes", "--wait"), "refreshed")
	plane.Read(t, app)
	if app.Annotations[appv1.AnnotationRefresh] == "" {
		t.Error("no annotation")
	}
	says(t, u.run("refresh", "--all", "--wave", "10%", "--yes"), "Nothing waits")
	if code, _, _ := u.try("refresh"); code == 0 {
		t.Error("refreshed nothing that is named")
	}
	says(t, u.run("restart", "web", "--yes", "--wait"), "restarted")
	plane.Read(t, d)
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || d.Generation == generation {
		t.Error("the pods were not replaced")
	}
	if code, _, said := u.try("restart", "web"); code == 0 || !strings.Contains(said, "--yes") {
		t.Errorf("restarted without asking: %s", said)
	}
}

// TestRestartIsOfTheResource restarts resources of all kinds: what they control, whatever else has a name of theirs, and nothing where
// something is in the way of a part.
func TestRestartIsOfTheResource(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	foreign := func(name string) *appsv1.Deployment {
		labels := map[string]string{"of": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: name}}
		d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "nginx:1"}}
		return d
	}
	restarted := func(name string) bool {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: name}}
		plane.Read(t, d)
		return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != ""
	}
	box, taken, united := fixture.NewModelBox(u.namespace, "box"), fixture.NewApp(u.namespace, "taken"), &appv1.UnitedDeployment{}
	box.Spec.Name = "nginx"
	united.Namespace, united.Name, united.Spec.DeploymentName, united.Spec.Replicas = u.namespace, "united", "others", ptr.To[int32](1)
	plane.Create(t, foreign("nginx"), foreign("taken"), foreign("others"), box, taken, united)
	plane.Stands(t, taken, "Ready=False/"+appv1.ReasonResourceExists)
	plane.Stands(t, box, "Ready=True")

	says(t, u.run("history", "mbox/box"), "1 *")
	says(t, u.run("restart", "mbox/box", "--yes", "--wait"), "Deployment "+u.namespace+"/box restarted")
	if _, _, said := u.try("restart", "taken", "--yes"); !strings.Contains(said, "taken is not controlled by App "+u.namespace+"/taken") {
		t.Errorf("a Deployment of others: %s", said)
	}
	says(t, u.run("restart", "ud/united", "--yes"), "others restarted")
	refused := &appv1.UnitedDeployment{}
	refused.Namespace, refused.Name, refused.Spec.DeploymentName, refused.Spec.Replicas = u.namespace, "refused", "web", ptr.To[int32](1)
	plane.Create(t, fixture.NewApp(u.namespace, "web"))
	plane.Stands(t, fixture.NewApp(u.namespace, "web"), "Ready=True")
	plane.Create(t, refused)
	plane.Stands(t, refused, "Ready=False/"+appv1.ReasonScaleConflict)
	if _, _, said := u.try("restart", "ud/refused", "--yes"); !strings.Contains(said, "restarts none of its pods") {
		t.Errorf("a Deployment that it may not scale: %s", said)
	}
	if out := u.run("restart", "mbox/box", "deploy/box", "modelbox/box", "--yes"); strings.Count(out, "restarted") != 1 {
		t.Errorf("one resource by three names:\n%s", out)
	}
	for name, want := range map[string]bool{"box": true, "nginx": false, "taken": false, "others": true, "web": false} {
		if got := restarted(name); got != want {
			t.Errorf("Deployment %s: restarted is %t, want %t", name, got, want)
		}
	}

	office := fixture.NewCloudManager(u.namespace, "office")
	plane.Create(t, office)
	plane.Stands(t, office, "Ready=True")
	some := as(t, plane.ProxyAs(t, account(t, u.namespace, "some", slices.DeleteFunc(rightsOf("restart"), func(r plugin.Right) bool {
		return r.Verb == "patch" && r.Resource == "deployments"
	})), nil).Config(), u.namespace)
	if _, _, said := some.try("restart", "cmgr/office", "--yes"); !strings.Contains(said, "you may not restart Deployment") {
		t.Errorf("without a right for a part: %s", said)
	}
	var sets appsv1.StatefulSetList
	if err := plane.Client.List(t.Context(), &sets, client.InNamespace(u.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		if sets.Items[i].Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "" {
			t.Errorf("StatefulSet %s was restarted", sets.Items[i].Name)
		}
	}
}

// TestRefreshInWaves refreshes Apps of an earlier rendering one after the other, and ends at the first one that does not come up.
func TestRefreshInWaves(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	u := as(t, plane.Config, ns)
	m := plane.Start(t, ns, harness.WithRendering(0))
	names := []string{"a", "b", "c"}
	for _, name := range names {
		app := fixture.NewApp(ns, name)
		plane.Create(t, app)
		u.run("wait", name)
	}
	m.Stop(t)
	plane.Start(t, ns)
	for _, name := range names {
		app := fixture.NewApp(ns, name)
		plane.Until(t, app, func() error {
			if app.Status.LatestRendering == 0 {
				return errors.New("nothing waits")
			}
			return nil
		})
	}
	// No pod can be created any more.
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "none"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	plane.Create(t, quota)
	plane.Until(t, quota, func() error { return lacksQuota(quota) })
	code, out, said := u.try("refresh", "--all", "--wave", "1", "--yes")
	if code == 0 || strings.Count(out, "refreshed\n") != 1 {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	says(t, said, "2 of 3 were not refreshed")
}

// stallWithTime waits until an App is Stalled and its Deployment has ten minutes for the next rollout. The deadline is of another writer, as a write of the
// operator starts it again. The controller of Deployments may see progress late, and then the App stalls once more.
func stallWithTime(t *testing.T, app *appv1.App) {
	t.Helper()
	const short, enough = 3, 600
	d := fixture.Deployment(app)
	plane.Until(t, d, func() error { return nil })
	plane.Until(t, app, func() error {
		plane.Read(t, d)
		stalled, deadline := meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionStalled), *d.Spec.ProgressDeadlineSeconds
		switch {
		case app.Status.ObservedGeneration != app.Generation || d.Status.ObservedGeneration != d.Generation:
			return errors.New("the status is not about the spec")
		case stalled && deadline == enough:
			return nil
		case stalled:
			plane.Change(t, d, func() { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](enough) })
		case deadline == enough:
			plane.Change(t, d, func() { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](short) })
		}
		return fmt.Errorf("Stalled is %t with a deadline of %d s: %+v, %+v", stalled, deadline, meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionReady), d.Status)
	})
}

// TestRefreshOfStalledApps corrects AppDefaults by which Apps have stalled, and refreshes the Apps, which are Stalled still: the status of before does not
// count. The rollouts after the refresh have all the time that they need.
func TestRefreshOfStalledApps(t *testing.T) {
	t.Parallel()
	s := emptySite(t, administrator(t))
	defaults := &appv1.AppDefaults{ObjectMeta: fixture.Meta(s.u.namespace, appv1.AppDefaultsName)}
	defaults.Spec.Defaults.NodeSelector = map[string]string{"disk": "none"}
	plane.Create(t, defaults)
	plane.Until(t, defaults, func() error {
		if !meta.IsStatusConditionTrue(defaults.Status.Conditions, appv1.ConditionValid) {
			return errors.New("the manager has not seen the AppDefaults")
		}
		return nil
	})
	names := []string{"a", "b", "c"}
	for _, name := range names {
		app := fixture.NewApp(s.u.namespace, name)
		plane.Create(t, app)
		stallWithTime(t, app)
	}
	plane.Change(t, defaults, func() { defaults.Spec.Defaults.NodeSelector = nil })
	for _, name := range names {
		app := fixture.NewApp(s.u.namespace, name)
		plane.Until(t, app, func() error { return lacksDefaults(app) })
	}
	says(t, s.u.run("refresh", "--all", "--wave", "1", "--yes"), "a refreshed", "b refreshed", "c refreshed")
}

// TestEject prints the children, and deletes the App without touching them.
func TestEject(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	out := u.run("eject", "web")
	says(t, out, "kind: Deployment", "kind: Service", "image: nginx:1")
	for _, word := range []string{"ownerReferences", "last-applied", "resourceVersion", "managedFields", "uid:", "status:", "managed-by: app-operator\n  name"} {
		if strings.Contains(out, word) {
			t.Errorf("%q in\n%s", word, out)
		}
	}
	folder := t.TempDir()
	u.run("eject", "web", "-o", folder)
	if _, err := os.Stat(filepath.Join(folder, "deployment-web.yaml")); err != nil {
		t.Error(err)
	}
	d, before := fixture.Deployment(app), podNames(t, u.namespace)
	plane.Read(t, d)
	uid := d.UID
	u.run("eject", "web", "--delete", "--yes")
	plane.Gone(t, app)
	plane.Until(t, d, func() error {
		if len(d.OwnerReferences) > 0 {
			return errors.New("it still has an owner")
		}
		return nil
	})
	if after := podNames(t, u.namespace); d.UID != uid || after != before {
		t.Errorf("Deployment %s was %s, the pods are %s and were %s", d.UID, uid, after, before)
	}
}

// TestServing shows and ejects an App with all that can stand around its pods.
func TestServing(t *testing.T) {
	t.Parallel()
	plane.Define(t, harness.HTTPRouteDefinition(t))
	plane.Define(t, harness.PodMonitorDefinition())
	u := administrator(t)
	app := fixture.NewApp(u.namespace, "web")
	app.Spec.Image, app.Spec.Replicas = "nginx:1", ptr.To[int32](2)
	app.Spec.Ports[0].Name = "http"
	app.Spec.ServingSpec = appv1.ServingSpec{
		ServiceAccount: &appv1.ServiceAccountSpec{}, DisruptionBudget: &appv1.DisruptionBudgetSpec{}, NetworkPolicy: &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}},
		PodMonitor: &appv1.PodMonitorSpec{}, Ingress: &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "shop.example.com"}}},
		HTTPRoute: &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}, Hostnames: []appv1.Hostname{"shop.example.com"}},
	}
	plane.Create(t, app)
	u.run("wait", "web")
	kinds := []string{"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor", "Ingress", "HTTPRoute"}
	harness.Eventually(t, func() error { // The kinds that were defined just now are looked for once in a while.
		tree, ejected := u.run("tree", "web"), u.run("eject", "web")
		for _, kind := range kinds {
			if !strings.Contains(tree, kind+"/web ") || !strings.Contains(ejected, "\nkind: "+kind+"\n") {
				return fmt.Errorf("%s is not shown:\n%s\n%s", kind, tree, ejected)
			}
		}
		return nil
	})
	says(t, u.run("tree", "web"), "shop.example.com")
	ejectServing(t, u, app)
}

// ejectServing ejects an App with children of all types: the children stay, without the marks of the operator.
func ejectServing(t *testing.T, u *user, app *appv1.App) {
	t.Helper()
	u.run("eject", "web", "--delete", "--yes")
	plane.Gone(t, app)
	for _, child := range append(fixture.Children(), &gatewayv1.HTTPRoute{}, &monitoringv1.PodMonitor{}) {
		list := plane.ListOf(t, child)
		if err := plane.Client.List(t.Context(), list, client.InNamespace(u.namespace), client.MatchingLabels{appv1.LabelManagedBy: appv1.ManagedBy}); err != nil {
			t.Fatal(err)
		}
		left, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("%T has the label of the operator: %+v", child, left)
		}
	}
}

func podNames(t *testing.T, namespace string) string {
	t.Helper()
	pods := &corev1.PodList{}
	if err := plane.Client.List(t.Context(), pods, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return strings.Join(names, " ")
}

// TestKinds looks at a resource of each kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	d := fixture.NewDeployment(u.namespace, "foreign")
	plane.Create(t, d, fixture.NewApp(u.namespace, "web"), fixture.NewModelBox(u.namespace, "box"),
		fixture.NewUnitedDeployment(u.namespace, "held", d.Name), fixture.NewCloudManager(u.namespace, "office"))
	u.run("wait", "web", "mbox/box", "hud/held", "cmgr/office")
	says(t, u.run("list", "-o", "name"), "app.app.huolala.cn/web", "modelbox.app.huolala.cn/box",
		"uniteddeployment.app.huolala.cn/held", "cloudmanager.app.huolala.cn/office")
	says(t, u.run("tree", "hud/held"), "UnitedDeployment/held", "Deployment/foreign", "holds its number of pods", "Pod/foreign-")
	says(t, u.run("tree", "cmgr/office"), "StatefulSet/", "PersistentVolumeClaim/", "Deployment/identity", "Deployment/front")
	says(t, u.run("why", "mbox/box"), "ModelBox "+u.namespace+"/box is Ready")
	says(t, u.run("history", "cmgr/office", "--part", "front"), "REV", "1 *")
	if code, _, said := u.try("history", "hud/held"); code == 0 || !strings.Contains(said, "belongs to another") {
		t.Errorf("exit status %d: %s", code, said)
	}
	says(t, u.run("check"), "definition", "CloudManager", "AppDefaults", "rights       all commands, in namespace "+u.namespace)
	says(t, u.run("__complete", "wait", "mbox/"), "mbox/box")
	if code, _, said := u.try("why", "deploy/foreign"); code == 0 || !strings.Contains(said, "belongs to no App") {
		t.Errorf("exit status %d: %s", code, said)
	}
}
