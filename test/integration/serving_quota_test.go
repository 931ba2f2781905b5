package integration

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// limitObjects has a quota limit the number of objects of a type in a namespace without any, and waits until it is in force:
// there is no controller here that counts them. probe is one that the API server takes otherwise.
func limitObjects(t *testing.T, quota *corev1.ResourceQuota, counted corev1.ResourceName, hard string, probe client.Object) {
	t.Helper()
	limits := corev1.ResourceList{counted: resource.MustParse(hard)}
	plane.Read(t, quota)
	plane.Change(t, quota, func() { quota.Spec.Hard = limits })
	plane.ChangeStatus(t, quota, func() {
		quota.Status = corev1.ResourceQuotaStatus{Hard: limits, Used: corev1.ResourceList{counted: resource.MustParse("0")}}
	})
	harness.Eventually(t, func() error {
		obj, _ := probe.DeepCopyObject().(client.Object)
		err := plane.Client.Create(t.Context(), obj, client.DryRunAll)
		if refused := err != nil && strings.Contains(err.Error(), "exceeded quota"); refused != (hard == "0") {
			return fmt.Errorf("the quota of %s %s is not in force: %w", hard, counted, err)
		}
		return nil
	})
}

// TestQuotas has a quota in the way of one child of an App with all that can stand around its pods. The condition names it, the other
// children are made and written once, only the one that is refused is tried again, and once the quota grows it is made.
func TestQuotas(t *testing.T) {
	t.Parallel()
	children := map[string]block{
		"service": {
			object: &corev1.Service{}, resource: "services",
			foreign: func(obj client.Object) {
				obj.(*corev1.Service).Spec.Ports = []corev1.ServicePort{{Port: 1}}
			},
		},
		"deployment": {
			object: &appsv1.Deployment{}, resource: "deployments.apps",
			foreign: func(obj client.Object) {
				d, labels := obj.(*appsv1.Deployment), map[string]string{"a": "b"}
				d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
				d.Spec.Template.Labels = labels
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
			},
		},
	}
	for name, b := range blocks {
		children[name] = b
	}
	for name, b := range children {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			counted, probe := corev1.ResourceName("count/"+b.resource), b.named(ns, "probe")
			b.foreign(probe)
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "few"}}
			plane.Create(t, quota)
			limitObjects(t, quota, counted, "0", probe)
			m := plane.Start(t, ns, harness.WithForbidden())
			app := newServed(ns, "web", blockNames...)
			plane.Create(t, app)
			plane.Stands(t, app, "Applied=False/"+appv1.ReasonForbidden)
			harness.Says(t, app, "Applied", "exceeded quota: few", "limited: "+string(counted)+"=0")
			const tries = 4
			harness.Eventually(t, func() error {
				if n := m.Requests.Writes()["patch "+b.short()]; n < tries {
					return fmt.Errorf("it was tried %d times", n)
				}
				return nil
			})
			for other, c := range children {
				if other == name || other == "deployment" && b.first || other == "ingress" && name == "service" {
					continue // An account and a policy are there before the first pod, and a Service before what leads to it.
				}
				plane.Read(t, c.named(ns, "web"))
				if n := m.Requests.Writes()["patch "+c.short()]; n != 1 {
					t.Errorf("%s was written %d times", c.short(), n)
				}
			}
			if writes := m.Requests.Writes(); writes["patch apps/status"] >= tries {
				t.Errorf("the status is written for each try: %v", writes)
			}

			limitObjects(t, quota, counted, "9", probe)
			plane.Stands(t, app, "Applied=True/Applied", "Stalled=False")
			for _, c := range children {
				plane.Read(t, c.named(ns, "web"))
			}
			m.Idle(t)
		})
	}
}
