package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// intruder is a writer of fields that are ours.
const intruder = client.FieldOwner("intruder")

// createInPlace creates an App and waits until its children are in place.
func createInPlace(t testing.TB, app *appv1.App) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	plane.Create(t, app)
	plane.Stands(t, app, progressing...)
	return readChildren(t, app)
}

// setImage changes the App's image.
func setImage(t testing.TB, app *appv1.App, image string) {
	t.Helper()
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = image })
}

// setAnnotation sets an annotation, or removes it if the value is empty.
func setAnnotation(t testing.TB, obj client.Object, key, value string) {
	t.Helper()
	plane.Read(t, obj)
	plane.Change(t, obj, func() {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		obj.SetAnnotations(annotations)
	})
}

// setPaused pauses a resource of any kind, or ends that.
func setPaused(t testing.TB, obj client.Object, paused bool) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"paused": %t}}`, paused))
	if err := plane.Client.Patch(t.Context(), obj, patch); err != nil {
		t.Fatal(err)
	}
}

// setFields sets fields of a spec that are written in YAML.
func setFields(t *testing.T, spec *appv1.WorkloadSpec, fields string) {
	t.Helper()
	if strings.HasPrefix(fields, "ports:") {
		spec.Ports = nil // Or the items of the two lists would be merged.
	}
	if err := yaml.UnmarshalStrict([]byte(fields), spec); err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
}

// setData changes a ConfigMap.
func setData(t testing.TB, config *corev1.ConfigMap, key, value string) {
	t.Helper()
	plane.Read(t, config)
	plane.Change(t, config, func() { config.Data[key] = value })
}

// setReplicas changes how many pods a UnitedDeployment asks for.
func setReplicas(t testing.TB, ud *appv1.UnitedDeployment, n int32) {
	t.Helper()
	plane.Read(t, ud)
	plane.Change(t, ud, func() { ud.Spec.Replicas = ptr.To(n) })
}

// editWithRetry changes an object as another client does that reads, changes and writes, and tries again if it was too late.
func editWithRetry(t testing.TB, obj client.Object, mutate func()) {
	t.Helper()
	if err := updateWithRetry(t, plane.Client, obj, mutate, intruder); err != nil {
		t.Fatal(err)
	}
}

// updateWithRetry reads an object, changes it and writes it whole, again while others have written in between: a manager that runs may
// write the status at any time. It returns the API server's answer.
func updateWithRetry(t testing.TB, c client.Writer, obj client.Object, mutate func(), opts ...client.UpdateOption) error {
	t.Helper()
	var err error
	harness.Eventually(t, func() error {
		plane.Read(t, obj)
		mutate()
		if err = c.Update(t.Context(), obj, opts...); apierrors.IsConflict(err) {
			return err
		}
		return nil
	})
	return err
}

// scaleTo sets the number of replicas through the scale subresource, as an HPA and "kubectl scale" do.
func scaleTo(t testing.TB, obj client.Object, replicas int32) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		to := &autoscalingv1.Scale{}
		if err := plane.Client.SubResource("scale").Get(t.Context(), obj, to); err != nil {
			return err
		}
		to.Spec.Replicas = replicas
		return plane.Client.SubResource("scale").Update(t.Context(), obj, client.WithSubResourceBody(to),
			client.FieldOwner("kube-controller-manager"))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// forEachNumber calls do for 0 to n-1, several at a time.
func forEachNumber(t *testing.T, n int, do func(i int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := make(chan int)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			// A test that fails within do ends its goroutine alone; the others must not wait for it.
			defer cancel()
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			t.Fatal("one of them failed")
		}
	}
	close(next)
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// awaitNextSecond waits until what is created is younger than obj: creation times are in seconds.
func awaitNextSecond(t testing.TB, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), GenerateName: "probe-"}}
		if err := plane.Client.Create(t.Context(), probe, client.DryRunAll); err != nil {
			return err
		}
		if !obj.GetCreationTimestamp().Time.Before(probe.CreationTimestamp.Time) {
			return errors.New("it is still the same second")
		}
		return nil
	})
}

// removeAtEnd deletes an object of the cluster when the test has ended, and with it the test's own context.
func removeAtEnd(t *testing.T, obj client.Object) {
	if err := plane.Client.Delete(context.Background(), obj); err != nil {
		t.Logf("delete %T %s: %v", obj, obj.GetName(), err)
	}
}
