package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// containerPort is the key of a container port for the API server.
type containerPort struct {
	number   int32
	protocol corev1.Protocol
}

// portsOf returns the ports of the Service, the container ports that the main container declares for the Service, and all
// container ports of the main container. The list of all ports begins with the offered ports.
func portsOf(spec *appv1.WorkloadSpec, in BuildInputs) (service []corev1.ServicePort, offered, all []corev1.ContainerPort) {
	if in.Rendering == RenderingTutorial {
		service, offered = tutorialPorts(spec.Ports)
	} else {
		service, offered = namedPorts(spec.Ports, spec.ContainerPorts, slices.Concat(sidecarContainers(spec.InitContainers), spec.Containers))
	}
	all = slices.Clip(offered)
	for _, p := range spec.ContainerPorts {
		declared := corev1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)}
		if !slices.ContainsFunc(all, func(other corev1.ContainerPort) bool {
			return other.ContainerPort == declared.ContainerPort && other.Protocol == declared.Protocol
		}) {
			all = append(all, declared)
		}
	}
	return service, offered, all
}

// namedPorts returns the ports of the Service, and the container ports that the main container declares for the Service.
//
// A numeric target port is declared with the name of its Service port, if the name is valid for a container port and unused in
// the pod. A named target port leads to the container port of that name, from another port of the spec, another container or a
// patch; unnamedTargets finds the names without a container port. As a name has one protocol, a port of another protocol gets a
// numeric target. The main container does not declare ports of the pod's other containers. Ports in the spec's containerPorts
// keep their own names, and are declared here only if a Service port leads to them.
func namedPorts(spec []appv1.Port, stated []appv1.ContainerPort, others []corev1.Container) ([]corev1.ServicePort, []corev1.ContainerPort) {
	var container []corev1.ContainerPort
	declared := map[containerPort]int{}
	names, elsewhere := map[string]bool{}, map[containerPort]bool{}
	for _, other := range others {
		for _, p := range other.Ports {
			elsewhere[containerPort{p.ContainerPort, containerProtocol(p)}] = true
			names[p.Name] = true
		}
	}
	ownNames, byName := map[containerPort]string{}, map[string]containerPort{}
	for _, p := range stated {
		if p.Name != "" {
			key := containerPort{p.ContainerPort, cmp.Or(p.Protocol, corev1.ProtocolTCP)}
			ownNames[key], byName[p.Name], names[p.Name] = p.Name, key, true
		}
	}
	declare := func(name string, number int32, protocol corev1.Protocol) {
		key := containerPort{number, protocol}
		if elsewhere[key] {
			return
		}
		i, found := declared[key]
		if !found {
			i = len(container)
			declared[key] = i
			container = append(container, corev1.ContainerPort{Name: ownNames[key], ContainerPort: number, Protocol: protocol})
		}
		if container[i].Name == "" && !names[name] && len(validation.IsValidPortName(name)) == 0 {
			container[i].Name = name
			names[name] = true
		}
	}
	for _, p := range spec {
		target := targetPort(p)
		if own, found := byName[target.StrVal]; found {
			declare("", own.number, own.protocol)
		} else if target.Type == intstr.Int {
			declare(p.Name, target.IntVal, portProtocol(p))
		}
	}
	targets := make([]intstr.IntOrString, len(spec))
	for i, p := range spec {
		targets[i] = targetPort(p)
		of := slices.IndexFunc(container, func(c corev1.ContainerPort) bool { return c.Name != "" && c.Name == targets[i].StrVal })
		if of >= 0 && container[of].Protocol != portProtocol(p) {
			targets[i] = intstr.FromInt32(container[of].ContainerPort)
			declare("", targets[i].IntVal, portProtocol(p))
		}
	}
	return offeredPorts(spec, targets), container
}

// offeredPorts returns the Service ports with their targets.
func offeredPorts(spec []appv1.Port, targets []intstr.IntOrString) []corev1.ServicePort {
	names := portNames(spec)
	service := make([]corev1.ServicePort, 0, len(spec))
	for i, p := range spec {
		service = append(service, corev1.ServicePort{
			Name:        names[i],
			Protocol:    portProtocol(p),
			AppProtocol: p.AppProtocol,
			Port:        p.Port,
			TargetPort:  targets[i],
			NodePort:    p.NodePort,
		})
	}
	return service
}

// unnamedTargets returns an error for each named target port that no container of the pod declares. Such a Service port has no
// endpoints.
func unnamedTargets(w *Workload, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, i := range undeclaredTargets(w.Ports, &w.Template.Spec) {
		name := w.Ports[i].TargetPort.StrVal
		message := fmt.Sprintf(messagePortNotFound, name, w.Ports[i].Protocol)
		if _, err := strconv.ParseUint(name, 10, 16); err == nil { // No port of a container has a number for a name.
			message = fmt.Sprintf(messageNumberAsName, name)
		}
		errs = append(errs, field.Invalid(path.Index(i).Child("targetPort"), name, message))
	}
	return errs
}

// undeclaredTargets returns the indexes of the Service ports with a named target that no container of a pod declares.
func undeclaredTargets(ports []corev1.ServicePort, pod *corev1.PodSpec) []int {
	known := map[string][]corev1.Protocol{}
	for _, c := range servingContainers(pod) {
		for _, p := range c.Ports {
			known[p.Name] = append(known[p.Name], containerProtocol(p))
		}
	}
	var undeclared []int
	for i, p := range ports {
		if p.TargetPort.Type == intstr.String && !slices.Contains(known[p.TargetPort.StrVal], p.Protocol) {
			undeclared = append(undeclared, i)
		}
	}
	return undeclared
}

// portNames returns the name of each Service port. Kubernetes requires names if a Service has several ports; an omitted name
// becomes <protocol>-<number>.
func portNames(spec []appv1.Port) []string {
	names := make([]string, len(spec))
	taken := map[string]bool{}
	for i, p := range spec {
		names[i] = p.Name
		taken[p.Name] = true
	}
	if len(spec) < 2 {
		return names
	}
	for i, p := range spec {
		if names[i] != "" {
			continue
		}
		base := fmt.Sprintf("%s-%d", strings.ToLower(string(portProtocol(p))), p.Port)
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names[i] = name
		taken[name] = true
	}
	return names
}

// portProtocol returns the protocol of a port, TCP by default.
func portProtocol(p appv1.Port) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

func containerProtocol(p corev1.ContainerPort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

// targetPort returns the target of a port. The default, also for the 0 or "" that the tutorials' operators stored, is the port's
// own number.
func targetPort(p appv1.Port) intstr.IntOrString {
	if p.TargetPort == nil || *p.TargetPort == intstr.FromInt32(0) || *p.TargetPort == intstr.FromString("") {
		return intstr.FromInt32(p.Port)
	}
	return *p.TargetPort
}

// tutorialPorts returns the ports of the Service, and the container ports as the tutorials' operators declared them: the number
// of each target port, always with TCP.
func tutorialPorts(spec []appv1.Port) ([]corev1.ServicePort, []corev1.ContainerPort) {
	targets := make([]intstr.IntOrString, len(spec))
	var declared []corev1.ContainerPort
	seen := map[int32]bool{}
	for i, p := range spec {
		targets[i] = targetPort(p)
		number := targets[i].IntVal
		if number == 0 || seen[number] {
			continue
		}
		seen[number] = true
		declared = append(declared, corev1.ContainerPort{ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
	return offeredPorts(spec, targets), declared
}
