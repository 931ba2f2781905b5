package validation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// dnsPort is the port of DNS.
const dnsPort = 53

// leastPods returns the number of pods below which nothing scales the workload, nil if the spec does not state the number. A workload with an
// unstated number keeps its live number, and a new workload has one pod.
func leastPods(spec *appv1.ServingSpec, replicas *int32) *int32 {
	if spec.Autoscaling == nil || ptr.Deref(replicas, 1) == 0 { // 0 stops it, with an autoscaler too.
		return replicas
	}
	return ptr.To(ptr.Deref(spec.Autoscaling.MinReplicas, 1))
}

// UnstatedPodsWarnings returns the warnings of an App or ModelBox that depend on the number of pods, for a spec that does not state the number.
func UnstatedPodsWarnings(workload *appv1.WorkloadSpec, spec *appv1.ServingSpec, pods int32) []string {
	if leastPods(spec, workload.Replicas) != nil {
		return nil
	}
	path := field.NewPath("spec")
	return slices.Concat(rolloutWarnings(workload, &pods, path), budgetWarnings(spec.DisruptionBudget, &pods, path))
}

// budgetWarnings returns the warning of a budget that lets no pod be evicted, none if the number of pods is not known.
func budgetWarnings(budget *appv1.DisruptionBudgetSpec, replicas *int32, path *field.Path) []string {
	if budget == nil || budget.MinAvailable == nil || ptr.Deref(replicas, 0) == 0 {
		return nil
	}
	// As the controller of PodDisruptionBudgets counts (k8s.io/kubernetes/pkg/controller/disruption).
	needed, err := intstr.GetScaledValueFromIntOrPercent(budget.MinAvailable, int(*replicas), true)
	if err != nil || needed < int(*replicas) {
		return nil
	}
	return []string{warning(path.Child("disruptionBudget", "minAvailable"), fmt.Sprintf(messageBudgetAllowsNoEviction, budget.MinAvailable.String(), *replicas))}
}

// servingWarnings returns the warnings of the auxiliary objects. stated are the fields without defaults.
func servingWarnings(stated *appv1.ServingSpec, with *Effective, path *field.Path) []string {
	var said []string
	spec, workload := with.Serving, with.Workload
	exposed := []string{}
	for _, block := range []struct {
		name   string
		stated bool
	}{{"ingress", spec.Ingress != nil}, {"httpRoute", spec.HTTPRoute != nil}} {
		if !block.stated {
			continue
		}
		exposed = append(exposed, block.name)
		if workload.Service.ClusterIP == corev1.ClusterIPNone {
			said = append(said, warning(path.Child(block.name), messageRouteToHeadlessService))
		}
	}
	said = append(said, repeatedPaths(spec, path)...)
	said = append(said, ingressClass(spec.Ingress, workload, path.Child("ingress", "className"))...)
	if stated.Autoscaling != nil {
		said = append(said, metricWarnings(stated.Autoscaling.Metrics, path.Child("autoscaling", "metrics"))...)
	}
	said = append(said, budgetWarnings(spec.DisruptionBudget, leastPods(spec, workload.Replicas), path)...)
	at := path.Child("networkPolicy")
	if policy := stated.NetworkPolicy; policy != nil {
		said = append(said, networkWarnings(policy, at)...)
		if policy.Egress != nil && !allowsPort(policy.Egress, dnsPort) {
			said = append(said, warning(at.Child("egress"), messageEgressWithoutDNS))
		}
	}
	if policy := spec.NetworkPolicy; policy != nil {
		if policy.Ingress != nil && !allowsOtherNamespaces(policy.Ingress) {
			for _, name := range exposed {
				said = append(said, warning(at.Child("ingress"), fmt.Sprintf(messageIngressExcludesController, name)))
			}
			if spec.PodMonitor != nil {
				said = append(said, warning(at.Child("ingress"), messageIngressExcludesPrometheus))
			}
		}
	}
	return said
}

// AnnotationIngressClass is the former place of the class of an Ingress.
const AnnotationIngressClass = "kubernetes.io/ingress.class"

// FormerIngressClass returns the class that the former annotation states for an Ingress, and whether there is one: the annotation of the block takes
// precedence over the annotation of all objects. The block may be nil.
func FormerIngressClass(block *appv1.IngressSpec, workload *appv1.WorkloadSpec) (class string, stated bool) {
	if block != nil {
		if class, stated = block.Annotations[AnnotationIngressClass]; stated {
			return class, true
		}
	}
	class, stated = workload.Annotations[AnnotationIngressClass]
	return class, stated
}

// ingressClass warns of an Ingress with two classes: the API server creates none whose former annotation has another class than the field.
func ingressClass(s *appv1.IngressSpec, workload *appv1.WorkloadSpec, at *field.Path) []string {
	if s == nil || s.ClassName == nil {
		return nil
	}
	class, stated := FormerIngressClass(s, workload)
	if !stated || class == *s.ClassName {
		return nil
	}
	return []string{warning(at, messageIngressClassDiffers)}
}

// repeatedPaths returns a warning for each path that differs from another one by slashes at its end, where paths are compared by their
// elements: the Ingress and the HTTPRoute then hold the same path twice.
func repeatedPaths(spec *appv1.ServingSpec, path *field.Path) []string {
	var said []string
	warn := func(paths []appv1.HTTPPath, pathType string, at *field.Path) {
		first := map[string]int{}
		for i, p := range paths {
			if crowded(said) {
				break
			}
			elements := strings.TrimRight(string(p), "/")
			if j, ok := first[elements]; ok {
				said = append(said, warning(at.Index(i), fmt.Sprintf(messagePathRepeated, at.Index(j), pathType)))
				continue
			}
			first[elements] = i
		}
	}
	if s := spec.Ingress; s != nil && cmp.Or(s.PathType, networkingv1.PathTypePrefix) == networkingv1.PathTypePrefix {
		for i := range s.Rules {
			warn(s.Rules[i].Paths, string(networkingv1.PathTypePrefix), path.Child("ingress", "rules").Index(i).Child("paths"))
		}
	}
	if s := spec.HTTPRoute; s != nil && cmp.Or(s.PathType, "PathPrefix") == "PathPrefix" {
		warn(s.Paths, "PathPrefix", path.Child("httpRoute", "paths"))
	}
	return said
}

// allowsPort reports whether any rule allows a port.
func allowsPort(rules []networkingv1.NetworkPolicyEgressRule, port int32) bool {
	for _, rule := range rules {
		if len(rule.Ports) == 0 {
			return true
		}
		for _, p := range rule.Ports {
			if p.Port == nil || p.Port.Type == intstr.String ||
				p.Port.IntVal <= port && port <= ptr.Deref(p.EndPort, p.Port.IntVal) {
				return true
			}
		}
	}
	return false
}

// allowsOtherNamespaces reports whether any rule allows clients outside of the pods' namespace.
func allowsOtherNamespaces(rules []networkingv1.NetworkPolicyIngressRule) bool {
	for _, rule := range rules {
		if len(rule.From) == 0 {
			return true
		}
		for _, peer := range rule.From {
			if peer.NamespaceSelector != nil || peer.IPBlock != nil {
				return true
			}
		}
	}
	return false
}
