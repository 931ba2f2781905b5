package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// labelledServices creates headless Services with the operator's label, and keeps them.
func labelledServices(ctx context.Context, t *testing.T, v *victim, began func()) {
	annotation := strings.Repeat("x", 250_000)
	keepObjects(ctx, t, of(100, 2100), began, func(i int) client.Object {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: v.hostile[i%len(v.hostile)], Name: fmt.Sprintf("big-%d", i),
				Labels: map[string]string{"app.kubernetes.io/managed-by": "app-operator"}, Annotations: map[string]string{"example.com/big": annotation},
			},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}},
		}
	})
}

// largeApps creates Apps with long variables, and keeps them: in each namespace more than the cache has room for, but in the short form. They
// are paused: each has its spec in the cache and a plan in its status, and the API server has no children to store.
func largeApps(ctx context.Context, t *testing.T, v *victim, began func()) {
	keepObjects(ctx, t, of(20, 260), began, func(i int) client.Object {
		app := newApp(objectMeta(v.hostile[i%len(v.hostile)], fmt.Sprintf("big-%d", i))).(*appv1.App)
		app.Spec.Paused = true
		app.Spec.Envs = nil
		for j := range 600 {
			app.Spec.Envs = append(app.Spec.Envs, corev1.EnvVar{Name: fmt.Sprintf("V%d", j), Value: strings.Repeat("v", 960)})
		}
		return app
	})
}

// largePolicies creates NetworkPolicies with the operator's label, whose rules decode into 24 times the bytes of an answer, and Apps that ask to take
// them over. Each reconcile of an App reads its policy whole.
func largePolicies(ctx context.Context, t *testing.T, v *victim, began func()) {
	rules := make([]networkingv1.NetworkPolicyIngressRule, 650_000)
	keepObjects(ctx, t, 2*of(4, 24), began, func(i int) client.Object {
		ns, name := v.hostile[0], fmt.Sprintf("policy-%d", i/2)
		if i%2 == 1 {
			app := takesOver(ns, name)
			app.Spec.NetworkPolicy = &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}
			return app
		}
		return &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelApp: name}},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"z": "z"}}, Ingress: rules},
		}
	})
}

// largeJobs creates suspended Jobs with many arguments, and Apps that ask to take over ServiceAccounts: for each, the manager looks for other users of
// the account among the Jobs.
func largeJobs(ctx context.Context, t *testing.T, v *victim, began func()) {
	args := make([]string, 150_000)
	for i := range args {
		args[i] = fmt.Sprintf("x%d", i)
	}
	apps := of(2, 12)
	keepObjects(ctx, t, 2*apps+of(10, 120), began, func(i int) client.Object {
		ns, name := v.hostile[0], fmt.Sprintf("account-%d", i/2)
		switch {
		case i >= 2*apps:
			return &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("job-%d", i)},
				Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a", Args: args}},
				}}},
			}
		case i%2 == 1:
			app := takesOver(ns, name)
			app.Spec.ServiceAccount = &appv1.ServiceAccountSpec{Annotations: map[string]string{"a": "b"}}
			return app
		}
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	})
}

// takesOver returns an App without pods that asks to take over existing objects of its name.
func takesOver(namespace, name string) *appv1.App {
	app := newApp(objectMeta(namespace, name)).(*appv1.App)
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	app.Spec.Replicas = ptr.To[int32](0)
	return app
}

// keepObjects creates objects, eight at a time, then begins, and deletes them at its end. The App of another tenant is measured once they are
// there: while they are created, the API server is busy.
func keepObjects(ctx context.Context, t *testing.T, count int, began func(), newObject func(i int) client.Object) {
	const workers = 8
	created := make([][]client.Object, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < count && ctx.Err() == nil; i += workers {
				obj := newObject(i)
				if err := again(ctx, func() error { return plane.Client.Create(ctx, obj) }, apierrors.IsAlreadyExists); err != nil {
					if ctx.Err() == nil {
						t.Errorf("create an object: %v", err)
					}
					return
				}
				created[worker] = append(created[worker], obj)
			}
		})
	}
	group.Wait()
	began()
	<-ctx.Done()
	deletion := context.WithoutCancel(ctx)
	for _, obj := range slices.Concat(created...) {
		if err := again(deletion, func() error { return plane.Client.Delete(deletion, obj) }, apierrors.IsNotFound); err != nil {
			t.Errorf("delete an object: %v", err)
		}
	}
}

// again makes a request until it succeeds, or fails with an error by which an earlier try has succeeded: an etcd on a busy machine may not
// answer in time. It gives up after ten tries, or when the context ends.
func again(ctx context.Context, request func() error, done func(error) bool) error {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10, Cap: 10 * time.Second}
	return retry.OnError(backoff, func(error) bool { return ctx.Err() == nil }, func() error {
		if err := request(); err != nil && !done(err) {
			return err
		}
		return nil
	})
}

// dryRunsOfErrors makes twelve dry runs at a time of a spec that has an error for each of its mounts, and again after a pause: the API server
// needs more memory and time for such a spec than the manager.
func dryRunsOfErrors(ctx context.Context, _ *testing.T, v *victim, began func()) {
	var group sync.WaitGroup
	for worker := range 12 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				app := newApp(objectMeta(v.hostile[0], fmt.Sprintf("errors-%d", worker))).(*appv1.App)
				app.Spec.Containers = containersWithoutVolumes(60, 400)
				_ = plane.Client.Create(ctx, app, client.DryRunAll) // It is refused, or not answered in time.
				if i == 1 {
					began()
				}
				linger(ctx, slow)
			}
		})
	}
	group.Wait()
	began()
}

// containersWithoutVolumes are containers whose mounts name volumes that the pod lacks: each mount is an error.
func containersWithoutVolumes(containers, mounts int) []corev1.Container {
	made := make([]corev1.Container, containers)
	for i := range made {
		made[i] = corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "a", VolumeMounts: make([]corev1.VolumeMount, mounts)}
		for j := range made[i].VolumeMounts {
			made[i].VolumeMounts[j] = corev1.VolumeMount{Name: fmt.Sprintf("v%d", j), MountPath: fmt.Sprintf("/%d", j)}
		}
	}
	return made
}
