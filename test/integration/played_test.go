package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/play"
)

// The tests play the controllers of Deployments and StatefulSets, which do not run here.

// completeRollout has all pods of a Deployment be available.
func completeRollout(t testing.TB, d *appsv1.Deployment) {
	t.Helper()
	plane.Read(t, d)
	plane.ChangeStatus(t, d, func() { play.SetAvailable(d) })
}

// completeNextRollout waits for a change of a Deployment, and has its pods be available.
func completeNextRollout(t testing.TB, d *appsv1.Deployment) {
	t.Helper()
	generation := d.Generation
	plane.Until(t, d, func() error {
		if d.Generation == generation {
			return errors.New("the Deployment has not changed")
		}
		return nil
	})
	completeRollout(t, d)
}

// setReadyPods has so many pods of a StatefulSet be available, and its rollout be complete.
func setReadyPods(t testing.TB, set *appsv1.StatefulSet, ready int32) {
	t.Helper()
	plane.Read(t, set)
	plane.ChangeStatus(t, set, func() { play.SetReady(set, ready) })
}

// timeOutRollout has the rollout of a Deployment make no progress in time.
func timeOutRollout(t testing.TB, d *appsv1.Deployment) {
	t.Helper()
	plane.Read(t, d)
	plane.ChangeStatus(t, d, func() { play.SetTimedOut(d) })
}

// setRollingOut has the rollout of a Deployment begin, with a condition Progressing.
func setRollingOut(t testing.TB, d *appsv1.Deployment, status corev1.ConditionStatus, reason string) {
	t.Helper()
	plane.Read(t, d)
	plane.ChangeStatus(t, d, func() { play.SetRollingOut(d, status, reason) })
}

// makeReplicaSet creates the ReplicaSet of the template that a Deployment has, and runs its pods.
func makeReplicaSet(t testing.TB, d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	t.Helper()
	plane.Read(t, d)
	set := play.NewReplicaSet(d, hash)
	plane.Create(t, set)
	runPods(t, d, set)
	return set
}

// runPods has one pod of a ReplicaSet be all that there is, and the Deployment be available with it.
func runPods(t testing.TB, d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	t.Helper()
	old := &corev1.PodList{}
	if err := plane.Client.List(t.Context(), old, client.InNamespace(d.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range old.Items {
		plane.Delete(t, &old.Items[i])
	}
	plane.Create(t, play.NewPod(set))
	completeRollout(t, d)
}

// awaitLastGood waits until a ReplicaSet is the last good one.
func awaitLastGood(t testing.TB, app *appv1.App, d *appsv1.Deployment, name string) {
	t.Helper()
	plane.Until(t, app, func() error {
		if good := app.Status.LastGood; good == nil || good.ReplicaSet != name {
			completeRollout(t, d) // Its pod may be seen later than its figures.
			return fmt.Errorf("the history is %+v", app.Status.HistoryStatus)
		}
		return nil
	})
}

// awaitRestoredPods waits until a Deployment is back at the image of a ReplicaSet, and runs its pods.
func awaitRestoredPods(t testing.TB, d *appsv1.Deployment, set *appsv1.ReplicaSet) {
	t.Helper()
	awaitImage(t, d, set.Spec.Template.Spec.Containers[0].Image)
	runPods(t, d, set)
}

// goodHash is the end of the name of a ReplicaSet that ran well.
const goodHash = "good"

// makeEarlierGood has another ReplicaSet, of another image and another port of the Service, be the last good one of an App that is in place.
func makeEarlierGood(t testing.TB, app *appv1.App) {
	t.Helper()
	d := deployment(app)
	plane.Read(t, d)
	set := play.NewReplicaSet(d, goodHash)
	record := set.Annotations[appv1.AnnotationLastAppliedSpec]
	for was, is := range map[string]string{`"nginx:1.16.1"`: `"nginx:1.15"`, `"port":8080`: `"port":8081`} {
		if !strings.Contains(record, was) {
			t.Fatalf("the record has no %s: %s", was, record)
		}
		record = strings.Replace(record, was, is, 1)
	}
	set.Annotations[appv1.AnnotationLastAppliedSpec] = record
	set.Spec.Template.Spec.Containers[0].Image = "nginx:1.15"
	plane.Create(t, set)
	plane.Read(t, app)
	plane.ChangeStatus(t, app, func() { app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: set.Name, Image: "nginx:1.15"} })
}

// playControllers stands in for the controllers of StatefulSets and Deployments, and for the garbage collector where it
// leaves what a StatefulSet had: whatever is asked for is up at once. It ends with the test.
func playControllers(t testing.TB, namespace string) {
	t.Helper()
	repeatUntilEnd(t, func(ctx context.Context) {
		playStatefulSets(ctx, namespace)
		playDeployments(ctx, namespace)
	})
}

// repeatUntilEnd calls round again and again until the test ends.
func repeatUntilEnd(t testing.TB, round func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticks := time.Tick(200 * time.Millisecond); ctx.Err() == nil; <-ticks {
			round(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// playStatefulSets is one round of playControllers. The next round tries again what fails.
func playStatefulSets(ctx context.Context, namespace string) {
	var sets appsv1.StatefulSetList
	_ = plane.Client.List(ctx, &sets, client.InNamespace(namespace))
	for i := range sets.Items {
		set := &sets.Items[i]
		before := set.DeepCopy()
		if set.DeletionTimestamp != nil {
			set.Finalizers = nil
			_ = plane.Client.Patch(ctx, set, client.MergeFrom(before))
			continue
		}
		n := *set.Spec.Replicas
		if set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == n {
			continue
		}
		play.SetReady(set, n)
		_ = plane.Client.Status().Patch(ctx, set, client.MergeFrom(before))
	}
}

// playDeployments is one round of playControllers, of Deployments.
func playDeployments(ctx context.Context, namespace string) {
	var deployments appsv1.DeploymentList
	_ = plane.Client.List(ctx, &deployments, client.InNamespace(namespace))
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas {
			continue
		}
		before := d.DeepCopy()
		play.SetAvailable(d)
		_ = plane.Client.Status().Patch(ctx, d, client.MergeFrom(before))
	}
}
