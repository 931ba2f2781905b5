package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// The files of docs/uniteddeployment.md: the sample, and the Deployment that it holds.
const (
	unitedSample = "config/samples/app_v1_uniteddeployment.yaml"
	heldSample   = "config/samples/example-deployment.yaml"
)

// newUnited returns a UnitedDeployment that holds the Deployment web at two pods.
func newUnited(namespace string) *appv1.UnitedDeployment {
	return fixture.NewUnitedDeployment(namespace, "holder", "web")
}

// newForeign returns a Deployment of one pod as a user writes one.
func newForeign(namespace string) *appsv1.Deployment {
	return fixture.NewDeployment(namespace, "web")
}

// holdsPods waits until a UnitedDeployment is Ready with this number of pods, and returns which they are.
func holdsPods(t testing.TB, ud *appv1.UnitedDeployment, n int) []types.UID {
	t.Helper()
	plane.Until(t, ud, func() error {
		want, running := fmt.Sprintf("%d/%[1]d", n), len(pods(t, ud.Namespace))
		if ud.Status.Ready != want || ud.Status.AvailableReplicas != int32(n) || running != n {
			return fmt.Errorf("ready %s with %d pods, want %s", ud.Status.Ready, running, want)
		}
		return nil
	})
	ready(t, ud)
	plane.Stands(t, ud, "Synced=True/Synced")
	return uids(t, ud.Namespace)
}

// TestUnitedDeploymentSample takes the sample through its life with kubectl: before its Deployment is there, next to it, and
// after it. No pod that it need not remove may restart.
func TestUnitedDeploymentSample(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	k := newKubectl(t, ns)
	k.run("apply", "-f", unitedSample)
	k.run("wait", "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=DeploymentNotFound", "--timeout="+harness.Patience.String(), "hud/example-united-deployment")
	k.run("apply", "-f", heldSample)
	k.run("wait", "--for=condition=Ready", "--timeout="+harness.Patience.String(), "hud/example-united-deployment")
	ud := &appv1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "example-united-deployment"}}
	before := holdsPods(t, ud, 2)

	header := []string{"NAME", "DEPLOYMENT", "READY", "UPDATED", "STATUS", "AGE"}
	row := []string{"example-united-deployment", "example-deployment", "2/2", "2", "Ready"}
	for _, name := range []string{"hud", "uniteddeployment"} {
		if rows := k.table("get", name); len(rows) != 2 || !slices.Equal(rows[0], header) || len(rows[1]) != 6 || !slices.Equal(rows[1][:5], row) {
			t.Errorf("kubectl get %s: %q", name, rows)
		}
	}
	if ours := k.run("get", "app-operator"); !strings.Contains(ours, "example-united-deployment") {
		t.Errorf("it is not in the category app-operator:\n%s", ours)
	}
	if all := k.run("get", "all"); strings.Contains(all, "uniteddeployment") {
		t.Errorf("it is in the category all:\n%s", all)
	}

	k.run("scale", "hud/example-united-deployment", "--replicas=4")
	k.run("wait", "--for=jsonpath={.status.ready}=4/4", "--timeout="+harness.Patience.String(), "hud/example-united-deployment")
	after := holdsPods(t, ud, 4)
	if n := shared(before, after); n != 2 || replicaSets(t, ns) != 1 {
		t.Errorf("%d of 2 pods are left, in %d ReplicaSets", n, replicaSets(t, ns))
	}
	k.run("scale", "deployment/example-deployment", "--replicas=5")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "example-deployment"}}
	plane.Until(t, d, func() error {
		if d.Status.ObservedGeneration != d.Generation || *d.Spec.Replicas != 4 {
			return fmt.Errorf("%d replicas", *d.Spec.Replicas)
		}
		return nil
	})
	held := holdsPods(t, ud, 4)
	for _, words := range []string{"Synced", "scaled to 2 replicas", "from 2 to 4", "from 5 to 4"} {
		if events := k.run("events", "--for", "uniteddeployment/example-united-deployment"); !strings.Contains(events, words) {
			t.Errorf("kubectl events does not say %q:\n%s", words, events)
		}
	}

	k.run("delete", "hud/example-united-deployment")
	plane.Gone(t, ud)
	m.Idle(t)
	if diff := cmp.Diff(held, uids(t, ns)); diff != "" || *read(t, d).Spec.Replicas != 4 {
		t.Errorf("%d replicas, pods after the deletion (-before +after):\n%s", *d.Spec.Replicas, diff)
	}
	k.run("delete", "-f", heldSample)
}

// TestUnitedDeploymentAutoscaled lets an autoscaler come to a held Deployment and go, and another scale the
// UnitedDeployment itself.
func TestUnitedDeploymentAutoscaled(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	ud := newUnited(ns)
	plane.Create(t, newForeign(ns), ud)
	before := holdsPods(t, ud, 2)
	autoscaler := func(target autoscalingv2.CrossVersionObjectReference, least int32) client.Object {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "scaler"}}
		hpa.Spec.ScaleTargetRef, hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = target, ptr.To(least), 9
		plane.Create(t, hpa)
		return hpa
	}

	hpa := autoscaler(autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, 5)
	plane.Stands(t, ud, "Ready=False/ScaleConflict", "Stalled=True/ScaleConflict")
	harness.Says(t, ud, "Stalled", "HorizontalPodAutoscaler scaler")
	plane.Until(t, ud, func() error {
		if ud.Status.Ready != "5/5" {
			return errors.New("the autoscaler's pods: " + ud.Status.Ready)
		}
		return nil
	})
	m.Idle(t)
	if n := len(pods(t, ns)); n != 5 {
		t.Errorf("%d pods next to the autoscaler", n)
	}
	plane.Delete(t, hpa)
	holdsPods(t, ud, 2)

	autoscaler(autoscalingv2.CrossVersionObjectReference{APIVersion: appv1.GroupVersion.String(), Kind: "UnitedDeployment", Name: "holder"}, 3)
	after := holdsPods(t, ud, 3)
	if *ud.Spec.Replicas != 3 {
		t.Errorf("spec.replicas is %d", *ud.Spec.Replicas)
	}
	if shared(before, after) == 0 || replicaSets(t, ns) != 1 {
		t.Errorf("%d pods are left, in %d ReplicaSets", shared(before, after), replicaSets(t, ns))
	}
}

// TestUnitedDeploymentTrouble holds Deployments of others whose pods do not come up: the status says what the Deployment
// knows.
func TestUnitedDeploymentTrouble(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	d, ud := newForeign(ns), newUnited(ns)
	d.Spec.ProgressDeadlineSeconds = ptr.To[int32](2)
	plane.Create(t, d, ud)
	held := holdsPods(t, ud, 2)
	k := newKubectl(t, ns)
	k.run("rollout", "pause", "deployment/web")
	k.run("set", "image", "deployment/web", "nginx=imagepullbackoff.test/nginx")
	plane.Until(t, ud, func() error {
		if said := harness.Message(ud, "Ready"); !strings.Contains(said, "kubectl rollout resume deployment/web") {
			return errors.New(said)
		}
		return nil
	})
	k.run("rollout", "resume", "deployment/web")
	plane.Stands(t, ud, "Ready=False/ProgressDeadlineExceeded", "Stalled=True/ProgressDeadlineExceeded", "Synced=True/Synced")
	harness.Says(t, ud, "Stalled", "Deployment web", "no progress for 2 s")
	k.run("rollout", "undo", "deployment/web")
	if after := holdsPods(t, ud, 2); shared(held, after) == 0 {
		t.Error("no earlier pod is left")
	}
}

// TestUnitedDeploymentOwned makes a Deployment of a template, which goes with the UnitedDeployment unless that is deleted
// with --cascade=orphan, and says why its pods do not run.
func TestUnitedDeploymentOwned(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			collected(t, ns)
			canary := newUnited(ns)
			plane.Create(t, canary)
			plane.Delete(t, canary, client.PropagationPolicy(metav1.DeletePropagationForeground))
			plane.Gone(t, canary)
			m := plane.Start(t, ns)
			ud := newUnited(ns)
			ud.Spec.Template = &appv1.WorkloadSpec{Image: "imagepullbackoff.test/nginx", Ports: []appv1.Port{{Port: 80}}}
			plane.Create(t, ud)
			plane.Stands(t, ud, "Ready=False/ImagePullBackOff", "Synced=True/Synced")
			plane.Change(t, ud, func() { ud.Spec.Template.Image = "nginx:1.16.1" })
			before := holdsPods(t, ud, 2)
			plane.Change(t, ud, func() { ud.Spec.Replicas = ptr.To[int32](3) })
			after := holdsPods(t, ud, 3)
			if shared(before, after) != 2 {
				t.Errorf("%d of 2 pods are left after scaling", shared(before, after))
			}
			m.Idle(t)

			plane.Delete(t, ud, client.PropagationPolicy(policy))
			plane.Gone(t, ud)
			if policy == metav1.DeletePropagationBackground {
				empty(t, ns)
				return
			}
			m.Idle(t)
			if diff := cmp.Diff(after, uids(t, ns)); diff != "" {
				t.Errorf("pods (-before +after):\n%s", diff)
			}
		})
	}
}

// TestUnitedDeploymentExplained checks that "kubectl explain" has a text on every field of ours.
func TestUnitedDeploymentExplained(t *testing.T) {
	t.Parallel()
	crd := read(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "uniteddeployments.app.huolala.cn"}})
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	explains(t, map[string]apiextensionsv1.JSONSchemaProps{
		"hud": *root, "hud.spec": spec, "hud.spec.template": spec.Properties["template"], "hud.status": root.Properties["status"],
	})
}
