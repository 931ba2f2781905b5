package examples

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/v1/validation"
)

// longest is how long a value may be to be kept as a fact. Of a longer one, the sum is kept.
const longest = 200

// facts are what a workload means: values by the path of their field.
type facts map[string]string

// meaning returns what a Deployment and the Services that lead to its pods mean, with the defaults of Kubernetes stated. Labels and
// selectors are left out: that each Service leads to the pods of its workload is checked by itself.
func meaning(t testing.TB, d *appsv1.Deployment, services []*corev1.Service) facts {
	t.Helper()
	d = d.DeepCopy()
	stateDefaults(d)
	found := facts{}
	found.add(t, "deployment", d.Spec)
	found.add(t, "annotations", d.Spec.Template.Annotations)
	for _, s := range services {
		s = s.DeepCopy()
		stateServiceDefaults(s, &d.Spec.Template.Spec)
		found.add(t, "service["+s.Name+"]", s.Spec)
		found.add(t, "service["+s.Name+"].annotations", s.Annotations)
	}
	return found
}

// add adds the fields of a value.
func (f facts) add(t testing.TB, at string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	f.flatten(at, tree)
}

// flatten adds the leaves of a tree. Items of a list are told apart by their key, if they have one.
func (f facts) flatten(at string, node any) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			f.flatten(at+"."+key, value)
		}
	case []any:
		for i, item := range node {
			f.flatten(at+"["+keyOf(item, i)+"]", item)
		}
	case nil:
	default:
		data, _ := json.Marshal(node) // It was JSON.
		if text := string(data); len(text) <= longest {
			f[at] = text
		} else {
			sum := sha256.Sum256(data)
			f[at] = "sha256:" + hex.EncodeToString(sum[:])
		}
	}
}

// keyOf is what tells an item of a list from the others.
func keyOf(item any, i int) string {
	object, _ := item.(map[string]any)
	for _, key := range []string{"containerPort", "port"} {
		if object[key] != nil && object["protocol"] != nil {
			return fmt.Sprint(object["protocol"], "/", object[key])
		}
	}
	for _, key := range []string{"mountPath", "topologyKey", "name"} {
		if text, ok := object[key].(string); ok {
			return text
		}
	}
	return fmt.Sprint(i)
}

// stateDefaults states what Kubernetes would, and takes out of a Deployment what only tells its pods from others.
func stateDefaults(d *appsv1.Deployment) {
	s := &d.Spec
	s.Selector = nil
	s.Replicas = ptr.To(ptr.Deref(s.Replicas, 1))
	s.RevisionHistoryLimit = ptr.To(ptr.Deref(s.RevisionHistoryLimit, 10))
	s.ProgressDeadlineSeconds = ptr.To(ptr.Deref(s.ProgressDeadlineSeconds, 600))
	s.Strategy.Type = cmp.Or(s.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		quarter := intstr.FromString("25%")
		u := s.Strategy.RollingUpdate
		u.MaxSurge, u.MaxUnavailable = ptr.To(ptr.Deref(u.MaxSurge, quarter)), ptr.To(ptr.Deref(u.MaxUnavailable, quarter))
	}
	// What is left of a template besides the pod are its annotations, which are facts of their own.
	s.Template.Labels = nil
	pod := &s.Template.Spec
	pod.RestartPolicy = cmp.Or(pod.RestartPolicy, corev1.RestartPolicyAlways)
	pod.DNSPolicy = cmp.Or(pod.DNSPolicy, corev1.DNSClusterFirst)
	pod.TerminationGracePeriodSeconds = ptr.To(ptr.Deref(pod.TerminationGracePeriodSeconds, 30))
	pod.DeprecatedServiceAccount = ""
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].LabelSelector = nil
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			stateContainerDefaults(&list[i], pod.Containers)
		}
	}
}

func stateContainerDefaults(c *corev1.Container, all []corev1.Container) {
	tag, tagged, pinned := validation.ImageTag(c.Image)
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if tag == "latest" || !tagged && !pinned {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	for i := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	if s := c.SecurityContext; s != nil && !ptr.Deref(s.Privileged, false) {
		s.Privileged = nil
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p == nil {
			continue
		}
		p.TimeoutSeconds, p.PeriodSeconds = cmp.Or(p.TimeoutSeconds, 1), cmp.Or(p.PeriodSeconds, 10)
		p.SuccessThreshold, p.FailureThreshold = cmp.Or(p.SuccessThreshold, 1), cmp.Or(p.FailureThreshold, 3)
		own := append([]corev1.Container{*c}, all...)
		if p.HTTPGet != nil {
			p.HTTPGet.Scheme, p.HTTPGet.Path = cmp.Or(p.HTTPGet.Scheme, corev1.URISchemeHTTP), cmp.Or(p.HTTPGet.Path, "/")
			p.HTTPGet.Port = numberOf(p.HTTPGet.Port, own)
		}
		if p.TCPSocket != nil {
			p.TCPSocket.Port = numberOf(p.TCPSocket.Port, own)
		}
		if p.GRPC != nil {
			p.GRPC.Service = ptr.To(ptr.Deref(p.GRPC.Service, ""))
		}
	}
}

// numberOf returns the number of a port, which containers may know by a name.
func numberOf(port intstr.IntOrString, containers []corev1.Container) intstr.IntOrString {
	for _, c := range containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal {
				return intstr.FromInt32(p.ContainerPort)
			}
		}
	}
	return port
}

func stateServiceDefaults(s *corev1.Service, pod *corev1.PodSpec) {
	s.Spec.Selector = nil
	s.Spec.Type = cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP)
	s.Spec.SessionAffinity = cmp.Or(s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		p.TargetPort = numberOf(p.TargetPort, pod.Containers)
	}
}

// difference is one field in which a workload differs from its original; a value that is not there is empty.
type difference struct{ path, was, is string }

func (d difference) String() string {
	return fmt.Sprintf("%s: %s -> %s", d.path, cmp.Or(d.was, "absent"), cmp.Or(d.is, "absent"))
}

// differences returns the fields in which two workloads differ, in the order of their paths.
func differences(was, is facts) []difference {
	var all []difference
	for path, value := range was {
		if is[path] != value {
			all = append(all, difference{path, value, is[path]})
		}
	}
	for path, value := range is {
		if _, known := was[path]; !known {
			all = append(all, difference{path, "", value})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return strings.Compare(a.path, b.path) })
	return all
}
