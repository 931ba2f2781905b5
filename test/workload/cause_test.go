package workload

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestFailingImage rolls out an image whose pods fail: the status says why at once, Stalled comes with the progress
// deadline, the earlier pods go on, and a better image fixes all.
func TestFailingImage(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]struct {
		reason string
		words  []string
	}{
		"imagepullbackoff.test/x:1": {appv1.ReasonImagePullBackOff, []string{`"imagepullbackoff.test/x:1" cannot be pulled`, "not found"}},
		"crashloopbackoff.test/x:1": {appv1.ReasonCrashLoopBackOff, []string{"exits with code 1"}},
		"oomkilled.test/x:1":        {appv1.ReasonOOMKilled, []string{"raise resources.limits.memory"}},
	} {
		t.Run(want.reason, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			app := newApp(ns)
			plane.Create(t, app)
			ready(t, app)
			before := uids(t, ns)
			j := harness.Follow[*appv1.App](t, plane, &appv1.AppList{}, ns)
			plane.Change(t, app, func() { app.Spec.Image = image })
			plane.Stands(t, app, "Ready=False/"+want.reason, "Reconciling=True/"+want.reason, "Stalled=False")
			harness.Says(t, app, "Ready", append(want.words, "Deployment web", `container "web"`)...)

			// Any client may own a field that the App does not speak of. The deadline is short from here on: the state above would
			// end with it.
			d := read(t, deployment(app))
			plane.Change(t, d, func() { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](3) })
			plane.Stands(t, app, "Ready=False/"+want.reason, "Reconciling=False", "Stalled=True/"+want.reason)
			harness.Says(t, app, "Ready", append(want.words, "Deployment web", "no progress for 3 s")...)
			served(t, j, app, before)
			stalledEvent(t, ns, want.reason)

			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
			ready(t, app)
			if n := *read(t, d).Spec.ProgressDeadlineSeconds; n != 3 {
				t.Errorf("the deadline that another writer owns has become %d", n)
			}
		})
	}
}

// served checks that the pods of before were there all the time, and that the App never said otherwise.
func served(t *testing.T, j *harness.Journal[*appv1.App], app *appv1.App, before []types.UID) {
	t.Helper()
	if n := shared(before, uids(t, app.Namespace)); n != len(before) {
		t.Errorf("%d of %d earlier pods are left", n, len(before))
	}
	for _, state := range j.UpTo(t, app) {
		if state.Status.AvailableReplicas < 2 || state.Status.ReadyReplicas < 2 {
			t.Errorf("during the rollout %d pods were available, %d ready", state.Status.AvailableReplicas, state.Status.ReadyReplicas)
		}
	}
}

// stalledEvent checks that exactly one warning tells that the App of a namespace has become stalled.
func stalledEvent(t *testing.T, namespace, reason string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var list eventsv1.EventList
		if err := plane.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		n := 0
		for _, e := range list.Items {
			if e.Regarding.Kind == "App" && e.Type == corev1.EventTypeWarning {
				n++
				if e.Reason != "Err"+reason {
					return fmt.Errorf("a warning of reason %s: %s", e.Reason, e.Note)
				}
			}
		}
		if n != 1 {
			return fmt.Errorf("%d warnings about the App", n)
		}
		return nil
	})
}

// TestNeverReady creates an App whose first image cannot be pulled. Once it can, the same pods come up, and the App with
// them.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Image = "imagepullbackoff.test/x:1"
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/ImagePullBackOff", "Reconciling=True", "Stalled=False")
	plane.Until(t, app, func() error {
		if app.Status.Ready != "0/2" || app.Status.UnavailableReplicas != 2 {
			return fmt.Errorf("ready %s, %d unavailable: %s", app.Status.Ready, app.Status.UnavailableReplicas, harness.Message(app, "Ready"))
		}
		return nil
	})
	before := uids(t, ns)
	for _, pod := range pods(t, ns) {
		plane.ChangeStatus(t, &pod, func() { running(&pod) })
	}
	ready(t, app)
	if !slices.Equal(before, uids(t, ns)) {
		t.Errorf("the pods are others now")
	}
}

// running makes all containers of a pod run and be ready.
func running(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		s.Ready, s.Started = true, ptr.To(true)
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	}
	setReady(pod, corev1.ConditionTrue)
}

// setReady sets a pod's readiness.
func setReady(pod *corev1.Pod, status corev1.ConditionStatus) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = status, metav1.Now()
		}
	}
}

// TestFailingPod lets a pod of a Ready App fail: the App is no longer Ready and says why, until the pod is well again.
func TestFailingPod(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		waiting corev1.ContainerStateWaiting
		words   []string
	}{
		appv1.ReasonCrashLoopBackOff: {
			corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container"},
			[]string{"exits soon after each start"},
		},
		appv1.ReasonContainerConfigError: {
			corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: `configmap "settings" not found`},
			[]string{`configmap "settings" not found`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, _ := plane.Shared(t)
			app := newApp(ns)
			plane.Create(t, app)
			ready(t, app)

			pod := pods(t, ns)[0]
			plane.ChangeStatus(t, &pod, func() {
				s := &pod.Status.ContainerStatuses[0]
				s.Ready, s.Started = false, ptr.To(false)
				s.State = corev1.ContainerState{Waiting: &state.waiting}
				setReady(&pod, corev1.ConditionFalse)
			})
			plane.Stands(t, app, "Ready=False/"+name, "Reconciling=True/"+name, "Stalled=False")
			harness.Says(t, app, "Ready", append(state.words, `container "web": `)...)
			plane.Until(t, app, func() error {
				if app.Status.Ready != "1/2" || app.Status.AvailableReplicas != 1 {
					return fmt.Errorf("ready %s, %d available", app.Status.Ready, app.Status.AvailableReplicas)
				}
				return nil
			})

			plane.ChangeStatus(t, &pod, func() { running(&pod) })
			ready(t, app)
		})
	}
}

// TestUnschedulable asks for more than any node has.
func TestUnschedulable(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")}
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Unschedulable", "Reconciling=True/Unschedulable", "Stalled=False")
	harness.Says(t, app, "Ready", "Deployment web", "scheduling: ", "Insufficient cpu")

	plane.Change(t, app, func() {
		app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	ready(t, app)
}

// TestQuota runs into a quota on pods and goes on by itself when that is raised.
func TestQuota(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	quota := newQuota(t, ns, corev1.ResourcePods, "1")
	app := newApp(ns)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/QuotaExceeded", "Reconciling=True/QuotaExceeded", "Stalled=False")
	harness.Says(t, app, "Ready", "Deployment web: pods cannot be created", "exceeded quota: few", "limited: pods=1")

	plane.Change(t, quota, func() { quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse("10") })
	ready(t, app)
}

// TestChildQuota runs into a quota on the App's own children and goes on by itself when that is raised.
func TestChildQuota(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithForbidden())
	quota := newQuota(t, ns, corev1.ResourceServices, "0")
	app := newApp(ns)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Forbidden", "Reconciling=True/Forbidden", "Stalled=False")
	harness.Says(t, app, "Ready", "Service web", "exceeded quota: few", "limited: services=0")

	plane.Change(t, quota, func() { quota.Spec.Hard[corev1.ResourceServices] = resource.MustParse("10") })
	ready(t, app)
	read(t, service(app))
}

// newQuota makes a quota of a namespace and waits until it is in force.
func newQuota(t testing.TB, namespace string, name corev1.ResourceName, most string) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"}}
	quota.Spec.Hard = corev1.ResourceList{name: resource.MustParse(most)}
	plane.Create(t, quota)
	plane.Until(t, quota, func() error {
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("the quota is not in force yet: %+v", quota.Status)
		}
		return nil
	})
	return quota
}

// TestPodsRejected runs into the namespace's security standard.
func TestPodsRejected(t *testing.T) {
	t.Parallel()
	const standard = "pod-security.kubernetes.io/enforce"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plane.Namespace(t)}}
	plane.Start(t, ns.Name)
	plane.Change(t, read(t, ns), func() { ns.Labels[standard] = "restricted" })
	app := newApp(ns.Name)
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/PodsRejected", "Reconciling=True/PodsRejected", "Stalled=False")
	harness.Says(t, app, "Ready", "Deployment web: pods cannot be created", `violates PodSecurity "restricted`)

	plane.Change(t, ns, func() { delete(ns.Labels, standard) })
	ready(t, app)
}

// TestEvictedPod lets a pod be evicted. Its remains stay for the cluster's own time, and are no cause of anything: not of
// the App being not Ready, and not of what is wrong later.
func TestEvictedPod(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)

	evicted := pods(t, ns)[0]
	plane.ChangeStatus(t, &evicted, func() {
		evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
		s := &evicted.Status.ContainerStatuses[0]
		s.Ready, s.Started = false, ptr.To(false)
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}}
		setReady(&evicted, corev1.ConditionFalse)
	})
	harness.Eventually(t, func() error {
		if n := len(pods(t, ns)); n != 3 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	ready(t, app)

	plane.Change(t, app, func() {
		app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100k")}
	})
	plane.Stands(t, app, "Ready=False/Unschedulable")
	harness.Says(t, app, "Ready", "scheduling: ")
	read(t, &evicted)
}
