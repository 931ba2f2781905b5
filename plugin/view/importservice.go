package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// importService states the Service that leads to the pods, and returns it; nil if there is none. others are the Services that lead to the pods
// and stay as they are.
func (i *importing) importService() (found *corev1.Service, others []string) {
	found, others = i.findService()
	if found == nil {
		return nil, others
	}
	spec := &found.Spec
	into := &i.App.Spec.Service
	for _, p := range spec.Ports {
		port := appv1.Port{Name: p.Name, Port: p.Port, AppProtocol: p.AppProtocol}
		if nodePortStated(found, &p) {
			port.NodePort = p.NodePort
			i.noteNodePort(found, &p)
		}
		if p.Protocol != corev1.ProtocolTCP {
			port.Protocol = p.Protocol
		}
		if target := p.TargetPort; target != intstr.FromInt32(p.Port) && target != (intstr.IntOrString{}) {
			port.TargetPort = &target
		}
		i.App.Spec.Ports = append(i.App.Spec.Ports, port)
	}
	if found.Name != i.App.Name {
		into.Name = found.Name
	}
	if spec.Type != corev1.ServiceTypeClusterIP {
		into.Type = spec.Type
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		into.ClusterIP = spec.ClusterIP
	}
	into.LoadBalancerClass, into.LoadBalancerSourceRanges = spec.LoadBalancerClass, spec.LoadBalancerSourceRanges
	if spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
		into.ExternalTrafficPolicy = spec.ExternalTrafficPolicy
	}
	if spec.SessionAffinity != corev1.ServiceAffinityNone {
		into.SessionAffinity, into.SessionAffinityConfig = spec.SessionAffinity, spec.SessionAffinityConfig
	}
	into.PublishNotReadyAddresses, into.TrafficDistribution = spec.PublishNotReadyAddresses, spec.TrafficDistribution
	into.InternalTrafficPolicy = unlessDefault(spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	if policy := spec.IPFamilyPolicy; policy != nil && *policy != corev1.IPFamilyPolicySingleStack {
		into.IPFamilyPolicy = policy
	}
	if isStated(found, "f:spec", "f:ipFamilies") {
		into.IPFamilies = spec.IPFamilies
	}
	i.noteServiceFields(found)
	return found, others
}

// noteServiceFields notes the fields of a Service that an App cannot state, unless the cluster chose them.
func (i *importing) noteServiceFields(s *corev1.Service) {
	spec, name := &s.Spec, "Service "+s.Name
	for _, f := range []struct {
		field  string
		stated bool
	}{
		{"spec.allocateLoadBalancerNodePorts", !ptr.Deref(spec.AllocateLoadBalancerNodePorts, true)},
		{"spec.clusterIP", spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone && isStated(s, "f:spec", "f:clusterIP")},
		{"spec.externalIPs", len(spec.ExternalIPs) > 0},
		{"spec.healthCheckNodePort", spec.HealthCheckNodePort != 0 && isStated(s, "f:spec", "f:healthCheckNodePort")},
		{"spec.loadBalancerIP", spec.LoadBalancerIP != ""},
	} {
		if f.stated {
			i.addNote(name, f.field, "stays as it is while the Service exists; an App cannot state it")
		}
	}
}

// isStated reports whether a user or a tool has set a field, and not the cluster: a field that the API server allocates belongs to no
// manager. All fields of an object that is not from a cluster are stated. The path has keys of metadata.managedFields.
func isStated(obj metav1.Object, path ...string) bool {
	if obj.GetUID() == "" {
		return true
	}
	return slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var tree map[string]any
		if entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &tree) != nil {
			return false
		}
		for _, key := range path {
			below, owned := tree[key].(map[string]any)
			if !owned {
				return false
			}
			tree = below
		}
		return true
	})
}

// nodePortStated reports whether a port of a Service has a node port that a user has chosen, or may have chosen: an object without managed fields, such
// as an export of kubectl, does not show that, and a port that clients know is not lost.
func nodePortStated(s *corev1.Service, p *corev1.ServicePort) bool {
	item := fmt.Sprintf(`k:{"port":%d,"protocol":%q}`, p.Port, p.Protocol)
	return p.NodePort != 0 && (len(s.ManagedFields) == 0 || isStated(s, "f:spec", "f:ports", item, "f:nodePort"))
}

// noteNodePort notes a node port of an object from a cluster that has no managed fields: the cluster may have chosen the port.
func (i *importing) noteNodePort(s *corev1.Service, p *corev1.ServicePort) {
	if s.UID != "" && len(s.ManagedFields) == 0 {
		i.addNote("Service "+s.Name, fmt.Sprintf("spec.ports[%d/%s].nodePort", p.Port, cmp.Or(p.Protocol, corev1.ProtocolTCP)), "is in the App; the cluster may have chosen it, which "+
			"metadata.managedFields alone would show. The same cluster can have no second Service with this node port")
	}
}

// findService returns the Service of the pods. Of the Services that have no controller and select the same pods, it is the Service with the
// Deployment's name, or else the first.
func (i *importing) findService() (found *corev1.Service, others []string) {
	for n := range i.from.Services {
		s := &i.from.Services[n]
		same, name := maps.Equal(s.Spec.Selector, i.selector), "Service "+s.Name
		switch {
		case len(s.Spec.Selector) == 0 || !selectsLabels(s.Spec.Selector, i.from.Deployment.Spec.Template.Labels):
			if s.Name == i.App.Name {
				i.addNote(name, "spec.selector", "leads to other pods; with ports, the App would be in its way")
			}
			continue
		case !same:
			i.addNote(name, "spec.selector", "selects the pods by other labels than the Deployment; the Service stays as it is, and leads to the pods as before")
		case i.sharedWith(s) != "":
			i.addNote(name, "spec.selector", "also selects the pods of %s; the Service stays as it is, and leads to the pods as before", i.sharedWith(s))
		case len(s.Spec.Ports) == 0:
			i.addNote(name, "spec.ports", "are none, and an App without ports has no Service; the Service stays as it is")
		case metav1.GetControllerOf(s) != nil:
			i.addNote(name, "metadata.ownerReferences", "name another owner; the Service stays as it is")
		case found == nil:
			found = s
			continue
		case s.Name == i.App.Name:
			i.addNote("Service "+found.Name, "spec", "is not taken over, as an App has one Service; it stays as it is")
			others, found = append(others, found.Name), s
			continue
		default:
			i.addNote(name, "spec", "is not taken over, as an App has one Service; it stays as it is")
		}
		others = append(others, s.Name)
	}
	return found, others
}

// sharedWith returns the first other workload whose pods a Service selects, empty if there is none.
func (i *importing) sharedWith(s *corev1.Service) string {
	for _, other := range i.from.Others {
		if selectsLabels(s.Spec.Selector, other.Labels) {
			return other.Kind + " " + other.Name
		}
	}
	return ""
}

// selectsLabels reports whether a selector selects pods with these labels.
func selectsLabels(selector, pods map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(pods))
}
