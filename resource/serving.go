package resource

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// objectsBefore returns the auxiliary objects that must exist before the first pod starts: the ServiceAccount and the NetworkPolicy.
func (w *Workload) objectsBefore() []Object {
	if w.Serving == nil {
		return nil
	}
	var objects []Object
	if account := ServiceAccount(w); account != nil {
		objects = append(objects, account)
	}
	if policy := NetworkPolicy(w); policy != nil {
		objects = append(objects, policy)
	}
	return objects
}

// objectsAround returns the auxiliary objects that are applied after the Service.
func (w *Workload) objectsAround() []Object {
	if w.Serving == nil {
		return nil
	}
	var objects []Object
	if scaler := HorizontalPodAutoscaler(w); scaler != nil {
		objects = append(objects, scaler)
	}
	if budget := PodDisruptionBudget(w); budget != nil {
		objects = append(objects, budget)
	}
	if ingress := Ingress(w); ingress != nil {
		objects = append(objects, ingress)
	}
	if route := HTTPRoute(w); route != nil {
		objects = append(objects, route)
	}
	if monitor := PodMonitor(w); monitor != nil {
		objects = append(objects, monitor)
	}
	return objects
}

// serviceBackend returns the number of the TCP port of the Service that a block refers to by name or number, by default the first
// TCP port. It reports whether the Service has the port.
func (w *Workload) serviceBackend(port *intstr.IntOrString) (int32, bool) {
	i := slices.IndexFunc(w.Ports, func(p corev1.ServicePort) bool {
		switch {
		case cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP:
			return false
		case port == nil:
			return true
		case port.Type == intstr.String:
			return p.Name == port.StrVal
		}
		return p.Port == port.IntVal
	})
	if i < 0 {
		return 0, false
	}
	return w.Ports[i].Port, true
}

// annotatedMeta returns the shared metadata with further annotations.
func (w *Workload) annotatedMeta(annotations map[string]string) metav1.ObjectMeta {
	meta := w.objectMeta()
	meta.Annotations = mergedMaps(w.Annotations, annotations)
	return meta
}

// AccountName returns the name of the ServiceAccount that the operator creates for a workload, empty if it creates none.
func AccountName(serving *appv1.ServingSpec, name string) string {
	if serving == nil || serving.ServiceAccount == nil {
		return ""
	}
	return name
}

// Hosts returns the host names of the Ingress and the HTTPRoute, separated by commas.
func Hosts(serving *appv1.ServingSpec) string {
	if serving == nil {
		return ""
	}
	var hosts []string
	if serving.Ingress != nil {
		for _, rule := range serving.Ingress.Rules {
			hosts = append(hosts, string(rule.Host))
		}
	}
	if serving.HTTPRoute != nil {
		for _, host := range serving.HTTPRoute.Hostnames {
			if !slices.Contains(hosts, string(host)) {
				hosts = append(hosts, string(host))
			}
		}
	}
	return strings.Join(hosts, ",")
}

// SetReplicas sets the number of pods from the spec, or to nil if an autoscaler decides.
func (w *Workload) SetReplicas(stated *int32, seen BuildOptions) {
	w.Replicas = desiredReplicas(stated, seen)
}

// desiredReplicas returns the desired number of pods, nil to keep the live number. The autoscaler of the spec decides it, except
// for the initial number and for a change to or from 0: an autoscaler ignores a workload with 0 pods.
func desiredReplicas(stated *int32, seen BuildOptions) *int32 {
	switch {
	case seen.Autoscaled, stated == nil && seen.LostReplicas != nil:
		return seen.LostReplicas
	case seen.Serving == nil || seen.Serving.Autoscaling == nil || seen.OtherAutoscaler:
		return stated
	}
	scaling := seen.Serving.Autoscaling
	least := ptr.Deref(scaling.MinReplicas, 1)
	switch {
	case stated != nil && *stated == 0:
		return ptr.To[int32](0)
	case seen.LiveReplicas == nil:
		return ptr.To(min(max(ptr.Deref(stated, least), least), scaling.MaxReplicas))
	case *seen.LiveReplicas == 0:
		return ptr.To(least)
	}
	return nil
}
