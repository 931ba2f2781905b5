package workload

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/test/harness"
)

// TestReplaceKeepsPods replaces a StatefulSet to change what cannot be changed, with the cluster's own controllers at work:
// its pods go on, and are the new one's.
func TestReplaceKeepsPods(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	owner := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
	owner.Spec.Image = "mariadb:10.3"
	plane.Create(t, owner)
	engine := apply.New(plane.Client, plane.Client, clock.RealClock{})
	labels := map[string]string{"app": "db"}
	wanted := func(service string) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: "db",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, appv1.GroupVersion.WithKind("App"))},
			},
			Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](2), ServiceName: service, PodManagementPolicy: appsv1.ParallelPodManagement,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "mariadb:10.3"}}},
				},
			},
		}
	}
	live := wanted("")
	settle := func(service string) map[string]types.UID {
		t.Helper()
		harness.Eventually(t, func() error {
			child := apply.Object{Desired: wanted(service), Replace: true}
			switch err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live); {
			case err == nil:
				child.Live = live.DeepCopy()
			case !apierrors.IsNotFound(err):
				return err
			}
			_, err := engine.Run(t.Context(), apply.Request{Owner: owner, Manager: "app-operator/test", Objects: []apply.Object{child}}, apply.Write)
			var waiting *reconciler.WaitingError
			if err != nil && !errors.As(err, &waiting) && !errors.Is(err, reconciler.ErrStale) {
				t.Fatal(err)
			}
			if v := health.StatefulSet(live, nil); err != nil || !v.Ready || live.Spec.ServiceName != service {
				return fmt.Errorf("StatefulSet of Service %s: %+v, %w", live.Spec.ServiceName, v, err)
			}
			return nil
		})
		var pods corev1.PodList
		if err := plane.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		uids := map[string]types.UID{}
		for i := range pods.Items {
			if !metav1.IsControlledBy(&pods.Items[i], live) {
				t.Errorf("pod %s has the owners %v", pods.Items[i].Name, pods.Items[i].OwnerReferences)
			}
			uids[pods.Items[i].Name] = pods.Items[i].UID
		}
		return uids
	}
	before := settle("one")
	first := live.UID
	after := settle("another")
	if live.UID == first {
		t.Error("the StatefulSet is the same")
	}
	if diff := cmp.Diff(before, after); diff != "" || len(before) != 2 {
		t.Errorf("pods (-before +after):\n%s", diff)
	}
}
