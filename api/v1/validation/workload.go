// Package validation holds the rules for custom resources that a schema cannot express. Its functions are pure. The controllers
// call them before they build an object, so that an error names a field of the user's spec rather than a field of the object.
package validation

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// kindDefaults are the additions of a kind to a workload's spec.
type kindDefaults struct {
	// container is the main container's name if the spec states none.
	container string
	// minReadySeconds is the kind's default.
	minReadySeconds int32
	// volumes are further volumes of the pod.
	volumes []string
	// ownsComponent is true if the operator relies on the label app.kubernetes.io/component of the objects.
	ownsComponent bool
	// endless is true if a rollout has no deadline, as with a StatefulSet.
	endless bool
	// inherits is true if the pod has further volumes and containers, which are not known here.
	inherits bool
}

// workload validates a workload at a path.
func workload(spec *appv1.WorkloadSpec, f kindDefaults, path *field.Path) field.ErrorList {
	f.container = cmp.Or(spec.ContainerName, f.container)
	p := podOf(spec, f, path)
	errs := p.check()
	errs = append(errs, knownProfile(spec.SecurityProfile, path.Child("securityProfile"))...)
	errs = append(errs, rollingUpdate(spec, path)...)
	errs = append(errs, mainPorts(spec, path.Child("containerPorts"))...)
	errs = append(errs, sizeName(spec.Size, path.Child("size"))...)
	errs = append(errs, spread(spec.TopologySpreadConstraints, true, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, ports(spec.Ports, path.Child("ports"))...)
	errs = append(errs, service(spec, path)...)
	if !f.endless {
		errs = append(errs, deadline(spec, f.minReadySeconds, path)...)
	}
	errs = append(errs, metadata(spec, path)...)
	if f.ownsComponent {
		errs = append(errs, noComponent(spec.Labels, path.Child("labels"))...)
		errs = append(errs, noComponent(spec.WorkloadLabels, path.Child("workloadLabels"))...)
		errs = append(errs, noComponent(spec.Service.Labels, path.Child("service", "labels"))...)
	}
	return collected(append(errs, p.annotations(spec.PodAnnotations, path.Child("podAnnotations"))...))
}

// noComponent refuses the label app.kubernetes.io/component of an object whose role the operator sets.
func noComponent(given map[string]string, path *field.Path) field.ErrorList {
	if _, stated := given[appv1.LabelComponent]; stated {
		return field.ErrorList{field.Forbidden(path.Key(appv1.LabelComponent), messageComponentLabelSetByOperator)}
	}
	return nil
}

// sizeName checks that a size has a name that AppDefaults can define. Whether they do is not known here.
func sizeName(given appv1.Size, path *field.Path) field.ErrorList {
	if given == "" {
		return nil
	}
	return faults(path, string(given), validation.IsDNS1123Label(string(given)))
}

// deadline checks that a pod can become available before the rollout counts as stuck.
func deadline(spec *appv1.WorkloadSpec, minReadySeconds int32, path *field.Path) field.ErrorList {
	ready := minReadySeconds
	if spec.MinReadySeconds != nil {
		ready = *spec.MinReadySeconds
	}
	switch limit := spec.ProgressDeadlineSeconds; {
	case limit != nil && *limit <= ready:
		return field.ErrorList{field.Invalid(path.Child("progressDeadlineSeconds"), *limit,
			fmt.Sprintf(messageProgressDeadlineMustExceedMinReady, ready))}
	case limit == nil && ready >= defaultDeadline:
		return field.ErrorList{field.Invalid(path.Child("minReadySeconds"), ready,
			fmt.Sprintf(messageMinReadyMustBeBelowProgressDeadline, defaultDeadline))}
	}
	return nil
}

// defaultDeadline is Kubernetes' default for progressDeadlineSeconds.
const defaultDeadline = 600

// ports checks that no port, and no node port, is asked for twice with one protocol. Whether a node port is in the cluster's range,
// and free, is for the cluster to say.
func ports(list []appv1.Port, path *field.Path) field.ErrorList {
	type number struct {
		value    int32
		protocol corev1.Protocol
	}
	var errs field.ErrorList
	ports, nodePorts := map[number]bool{}, map[number]bool{}
	for i, p := range list {
		if full(errs) {
			break
		}
		protocol := cmp.Or(p.Protocol, corev1.ProtocolTCP)
		port, nodePort := number{p.Port, protocol}, number{p.NodePort, protocol}
		if ports[port] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("port"), p.Port))
		}
		if p.NodePort != 0 && nodePorts[nodePort] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		}
		ports[port], nodePorts[nodePort] = true, true
		if p.AppProtocol != nil {
			errs = append(errs, faults(path.Index(i).Child("appProtocol"), *p.AppProtocol, validation.IsQualifiedName(*p.AppProtocol))...)
		}
	}
	return errs
}

// service checks the settings of the Service, even without ports. The Service's own annotations override the annotations of every
// object.
func service(spec *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("service")
	if class := spec.Service.LoadBalancerClass; class != nil {
		errs = append(errs, faults(at.Child("loadBalancerClass"), *class, validation.IsQualifiedName(*class))...)
	}
	errs = append(errs, serviceFields(&spec.Service, at)...)
	const ranges, mode, hints = corev1.AnnotationLoadBalancerSourceRangesKey, corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints
	where := func(key string) *field.Path {
		if _, own := spec.Service.Annotations[key]; own {
			return at.Child("annotations").Key(key)
		}
		return path.Child("annotations").Key(key)
	}
	all := maps.Clone(spec.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, spec.Service.Annotations)
	if list, stated := all[ranges]; stated {
		if spec.Service.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(where(ranges), messageSourceRangesKeyNeedsLoadBalancer))
		}
		if strings.TrimSpace(list) != "" {
			for _, cidr := range strings.Split(list, ",") {
				if full(errs) {
					break
				}
				errs = append(errs, validation.IsValidCIDRForLegacyField(where(ranges), strings.TrimSpace(cidr), true, nil)...)
			}
		}
	}
	if m, stated := all[mode]; stated {
		if h, both := all[hints]; both && h != m {
			errs = append(errs, field.Invalid(where(mode), m, fmt.Sprintf(messageTopologyModeMustEqualHints, hints)))
		}
	}
	return errs
}
