package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// undisturbed checks that the pods are those of before, all of one ReplicaSet.
func undisturbed(t *testing.T, namespace string, before []types.UID, after string) {
	t.Helper()
	if now := uids(t, namespace); !slices.Equal(before, now) || replicaSets(t, namespace) != 1 {
		t.Errorf("%s: %d of %d pods are left, in %d ReplicaSets", after, shared(before, now), len(before), replicaSets(t, namespace))
	}
}

// TestManagerRestart stops the manager, unnoticed by the pods, and starts one of a newer release, whose other
// rendering waits until the image changes.
func TestManagerRestart(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithRendering(resource.RenderingTutorial))
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)
	m = plane.RestartAtRest(t, m, ns, harness.WithRendering(resource.RenderingTutorial))
	undisturbed(t, ns, before, "restart")
	m.Stop(t)

	m = plane.Start(t, ns)
	plane.Until(t, app, func() error {
		if app.Status.Rendering != resource.RenderingTutorial || app.Status.LatestRendering != resource.RenderingLatest {
			return fmt.Errorf("rendering %d of %d", app.Status.Rendering, app.Status.LatestRendering)
		}
		return nil
	})
	ready(t, app)
	m.Idle(t)
	undisturbed(t, ns, before, "upgrade")
	plane.Change(t, app, func() { app.Spec.Replicas = new(int32(3)) })
	ready(t, app)
	if n := shared(before, uids(t, ns)); n != 2 || replicaSets(t, ns) != 1 {
		t.Errorf("%d of 2 pods survived the scaling", n)
	}

	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	if app.Status.Rendering != resource.RenderingLatest || app.Status.LatestRendering != 0 {
		t.Errorf("rendering %d of %d after a change of the image", app.Status.Rendering, app.Status.LatestRendering)
	}
	if n := shared(before, uids(t, ns)); n != 0 || replicaSets(t, ns) != 2 {
		t.Errorf("%d pods survived the change of the image", n)
	}
}

// TestUpgradeBetweenBuilds replaces this tree's build by one with a rendering that exists for the test alone: the pods stay until the
// image changes.
func TestUpgradeBetweenBuilds(t *testing.T) {
	t.Parallel()
	older, err := build()
	if err != nil {
		t.Fatal(err)
	}
	newer, err := harness.BuildNextManager(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ns := plane.Namespace(t)
	run := func(program string) *harness.Process {
		p := harness.Spawn(t, program, plane.ManagerConfig(), ns)
		p.Ready(t)
		return p
	}
	app := newApp(ns)
	renders := func(rendering, latest, failures int32) {
		t.Helper()
		plane.Until(t, app, func() error {
			if app.Status.Rendering != rendering || app.Status.LatestRendering != latest {
				return fmt.Errorf("rendering %d, latest %d", app.Status.Rendering, app.Status.LatestRendering)
			}
			return nil
		})
		ready(t, app)
		d := &appsv1.Deployment{}
		d.Namespace, d.Name = ns, app.Name
		plane.Read(t, d)
		if got := d.Spec.Template.Spec.Containers[0].ReadinessProbe.FailureThreshold; got != failures {
			t.Errorf("rendering %d: the readiness probe fails after %d attempts", rendering, got)
		}
	}
	plane.Create(t, app)
	p := run(older)
	renders(resource.RenderingLatest, 0, 3)
	before := uids(t, ns)
	stop(t, p)

	p = run(newer)
	renders(resource.RenderingLatest, harness.NextRendering, 3)
	undisturbed(t, ns, before, "upgrade")
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	renders(harness.NextRendering, 0, 4)
	if n := shared(before, uids(t, ns)); n != 0 || replicaSets(t, ns) != 2 {
		t.Errorf("%d pods survived the change of the image", n)
	}
	stop(t, p)
}

// TestRefresh asks for the newer rendering without a change of the spec.
func TestRefresh(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns, harness.WithRendering(resource.RenderingTutorial))
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	m.Stop(t)

	m = plane.Start(t, ns)
	plane.Change(t, app, func() { app.Annotations = map[string]string{appv1.AnnotationRefresh: "1"} })
	plane.Until(t, app, func() error {
		if app.Status.Rendering != resource.RenderingLatest {
			return fmt.Errorf("rendering %d", app.Status.Rendering)
		}
		return nil
	})
	ready(t, app)
	before := uids(t, ns)
	m.Stop(t)
	plane.Start(t, ns).Idle(t)
	if !slices.Equal(before, uids(t, ns)) {
		t.Error("the same refresh was acted on twice")
	}
}

// TestPaused pauses an App: its pods go on, its status stays live, and what was asked for meanwhile is done at its end.
func TestPaused(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	before := uids(t, ns)
	m.Idle(t)
	m.Requests.Reset()

	plane.Change(t, app, func() { app.Spec.Paused = true })
	plane.Stands(t, app, "Ready=True", "Reconciling=False/Paused", "Stalled=False")
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	plane.Stands(t, app, "Reconciling=False/Paused")
	undisturbed(t, ns, before, "pause")
	pod := pods(t, ns)[0]
	plane.Delete(t, &pod)
	harness.Eventually(t, func() error {
		now := pods(t, ns)
		if len(now) != 2 || shared(before, uids(t, ns)) != 1 {
			return fmt.Errorf("%d pods, %d of them earlier ones", len(now), shared(before, uids(t, ns)))
		}
		return nil
	})
	m.Idle(t)
	plane.Stands(t, app, "Reconciling=False/Paused")
	plane.Until(t, app, func() error {
		if app.Status.Ready != "2/2" {
			return fmt.Errorf("ready %s", app.Status.Ready)
		}
		return nil
	})
	if writes := m.Requests.Stored(); writes["patch deployments"]+writes["patch services"] != 0 {
		t.Errorf("writes while paused: %v", writes)
	}

	plane.Change(t, app, func() { app.Spec.Paused = false })
	plane.Until(t, app, func() error {
		for _, pod := range pods(t, ns) {
			if pod.Spec.Containers[0].Image != "nginx:1.17.0" {
				return fmt.Errorf("pod %s runs %s", pod.Name, pod.Spec.Containers[0].Image)
			}
		}
		return nil
	})
	ready(t, app)
}

// TestTutorial takes over an App that the tutorials' operator has made and runs: no pod notices. A change of the spec is
// then rolled out as any other, under the old selector.
func TestTutorial(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	app := tutorialApp(t, ns)
	d := deployment(app)
	plane.Until(t, d, func() error {
		if d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d pods available", d.Status.AvailableReplicas)
		}
		return nil
	})
	before, clusterIP := uids(t, ns), read(t, service(app)).Spec.ClusterIP

	m := plane.Start(t, ns)
	ready(t, app)
	m.Idle(t)
	undisturbed(t, ns, before, "take-over")
	if app.Status.Rendering != resource.RenderingTutorial || app.Status.Selector != "app.example.com/v1=web" {
		t.Errorf("rendering %d, selector %s", app.Status.Rendering, app.Status.Selector)
	}
	if ip := read(t, service(app)).Spec.ClusterIP; ip != clusterIP {
		t.Errorf("the Service's address is %s and was %s", ip, clusterIP)
	}

	plane.Change(t, app, func() { app.Spec.Image, app.Spec.Envs = "imagepullbackoff.test/x:1", nil })
	plane.Stands(t, app, "Ready=False/ImagePullBackOff")
	plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
	ready(t, app)
	for _, pod := range pods(t, ns) {
		if pod.Labels["app.example.com/v1"] != "web" || len(pod.Spec.Containers[0].Env) != 0 {
			t.Errorf("pod %s has labels %v and environment %v", pod.Name, pod.Labels, pod.Spec.Containers[0].Env)
		}
	}
}

// tutorialApp makes an App with its children as the tutorials' operator does.
func tutorialApp(t *testing.T, namespace string) *appv1.App {
	t.Helper()
	app := newApp(namespace)
	app.Spec.Envs = []corev1.EnvVar{{Name: "DEMO", Value: "app"}}
	plane.Create(t, app)
	owner := client.FieldOwner("manager")
	labels := map[string]string{"app.example.com/v1": app.Name}
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: app.Name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(app, appv1.GroupVersion.WithKind("App")),
	}}
	for _, obj := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metadata, Spec: appsv1.DeploymentSpec{
			Replicas: app.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: app.Name, Image: app.Spec.Image, Ports: []corev1.ContainerPort{{ContainerPort: 80}},
					Env: app.Spec.Envs, ImagePullPolicy: corev1.PullIfNotPresent,
				}}},
			},
		}},
		&corev1.Service{ObjectMeta: metadata, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(80)}}, Selector: labels,
		}},
	} {
		if err := plane.Client.Create(t.Context(), obj, owner); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := json.Marshal(app.Spec)
	if err != nil {
		t.Fatal(err)
	}
	app.Annotations = map[string]string{appv1.AnnotationTutorialSpec: string(spec)}
	if err := plane.Client.Update(t.Context(), app, owner); err != nil {
		t.Fatal(err)
	}
	return app
}
