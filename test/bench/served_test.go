package bench

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// served is how many Apps are made with everything around their pods.
const served = 1000

// plain and everything are the Apps that are compared.
const (
	plain      = "plain Apps"
	everything = "Apps with everything"
)

// BenchmarkServed makes Apps with all that can stand around their pods, and as many plain ones on a control plane of their own: what
// the manager asks for each, and what memory it takes, while it makes them and in a new manager over what is there.
func BenchmarkServed(b *testing.B) {
	memory := map[string]figures{}
	restart := map[string]figures{}
	for _, of := range []string{plain, everything} {
		w := headless(b)
		submit := w.submit
		if of == everything {
			w.serveAll(b)
			submit = w.submitServed
		}
		o := w.start(b, "")
		o.settle(b)
		asked := w.requests(b)
		each(b, served, submit)
		took := o.through(b, served)
		cost := w.requests(b).since(asked)
		delete(cost, "post apps")
		found.count("making one of the "+of, served, cost)
		memory[of] = o.figures(b)
		o.stop(b)
		o = w.start(b, "")
		again := o.through(b, served)
		restart[of] = o.figures(b)
		o.stop(b)
		found.add("memory, once "+of+" are made", served, manager, "MiB", memory[of].resident)
		found.add("restart over "+of+", memory", served, manager, "MiB", restart[of].resident)
		found.add("restart over "+of, served, manager, "s", again)
		progress("%d %s: made in %.1f s with %.0f MiB; a new manager is idle after %.2f s, with %.0f MiB; %s", served, of, took,
			memory[of].resident, again, restart[of].resident, cost)
		w.end(b)
	}
	found.add("memory, everything ÷ plain", served, manager, "×", memory[everything].resident/memory[plain].resident)
	found.add("restart, memory, everything ÷ plain", served, manager, "×", restart[everything].resident/restart[plain].resident)
}

// serveAll has the API server serve the kinds as well that a cluster may lack, and makes the content that the Apps follow.
func (w *world) serveAll(b *testing.B) {
	b.Helper()
	w.Define(b, harness.HTTPRouteDefinition(b))
	w.Define(b, harness.PodMonitorDefinition())
	for _, list := range []client.ObjectList{&gatewayv1.HTTPRouteList{}, &monitoringv1.PodMonitorList{}} {
		harness.Eventually(b, func() error { return w.client.List(b.Context(), list) })
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "settings"}, Data: map[string]string{"level": "1"}}
	if err := w.client.Create(b.Context(), config); err != nil {
		b.Fatal(err)
	}
}

// submitServed creates the App of a number with all that can stand around its pods.
func (w *world) submitServed(ctx context.Context, i int) error {
	app := w.app(i)
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	host := appv1.Hostname(app.Name + ".example.com")
	app.Spec.ServingSpec = appv1.ServingSpec{
		ServiceAccount:   &appv1.ServiceAccountSpec{},
		Ingress:          &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: host}}},
		HTTPRoute:        &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public", Namespace: "gateways"}}, Hostnames: []appv1.Hostname{host}},
		Autoscaling:      &appv1.AutoscalingSpec{MaxReplicas: 10},
		DisruptionBudget: &appv1.DisruptionBudgetSpec{},
		NetworkPolicy:    &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
		PodMonitor:       &appv1.PodMonitorSpec{},
		ConfigRollout:    appv1.ConfigRolloutOnChange,
		Rollback:         appv1.RollbackOnStall,
	}
	return w.client.Create(ctx, app)
}
