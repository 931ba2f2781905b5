package resource

import (
	"cmp"
	"strconv"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// metricsPath is the default path of the metrics.
const metricsPath = "/metrics"

// PodMonitor returns the PodMonitor of the workload's pods. It returns nil if the spec has no podMonitor or no container declares
// the port.
func PodMonitor(w *Workload) *monitoringv1.PodMonitor {
	spec := w.Serving.PodMonitor
	if spec == nil {
		return nil
	}
	endpoint := monitoringv1.PodMetricsEndpoint{
		Path: cmp.Or(spec.Path, metricsPath), Interval: monitoringv1.Duration(spec.Interval),
	}
	port, ok := w.scrapedPort(spec.Port)
	switch {
	case !ok:
		return nil
	case port.Type == intstr.String:
		endpoint.Port = ptr.To(port.StrVal)
	default:
		endpoint.PortNumber = ptr.To(port.IntVal)
	}
	monitor := &monitoringv1.PodMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PodMonitorsKind},
		ObjectMeta: w.objectMeta(),
		Spec: monitoringv1.PodMonitorSpec{
			Selector:            metav1.LabelSelector{MatchLabels: w.Selector},
			PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{endpoint},
		},
	}
	monitor.Labels = mergedMaps(w.Labels, spec.Labels)
	for _, key := range []string{appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent, appv1.LabelManagedBy} {
		monitor.Labels[key] = w.Labels[key] // The operator finds the object by these labels.
	}
	return monitor
}

// scrapedPort returns the port that a block refers to in the pods: in the kept pod template if that declares the port, else in the template of the
// workload.
func (w *Workload) scrapedPort(port *intstr.IntOrString) (intstr.IntOrString, bool) {
	if w.kept != nil {
		if found, ok := scrapedIn(&w.kept.Spec, w.scaledContainer(), port); ok {
			return found, true
		}
	}
	return scrapedIn(&w.Template.Spec, w.container, port)
}

// scrapedIn returns the TCP port of a container that a block refers to by name or number; by default the first TCP port of the
// main container, by its name if it has a name. It reports whether a container declares the port.
func scrapedIn(pod *corev1.PodSpec, main string, port *intstr.IntOrString) (intstr.IntOrString, bool) {
	for _, container := range servingContainers(pod) {
		for _, p := range container.Ports {
			switch {
			case cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP:
			case port == nil && container.Name != main:
			case port == nil && p.Name != "":
				return intstr.FromString(p.Name), true
			case port == nil:
				return intstr.FromInt32(p.ContainerPort), true
			case *port == intstr.FromString(p.Name), *port == intstr.FromInt32(p.ContainerPort):
				return *port, true
			}
		}
	}
	return intstr.IntOrString{}, false
}

// undeclaredPort returns an error for a PodMonitor of a port that no container declares: Prometheus would silently scrape
// nothing.
func undeclaredPort(w *Workload, path *field.Path) field.ErrorList {
	if w.Serving == nil || w.Serving.PodMonitor == nil {
		return nil
	}
	if _, ok := w.scrapedPort(w.Serving.PodMonitor.Port); ok {
		return nil
	}
	if w.Serving.PodMonitor.Port == nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, messageNoPortToScrape)}
	}
	var known []string
	for _, container := range servingContainers(&w.Template.Spec) {
		for _, p := range container.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				known = append(known, cmp.Or(p.Name, strconv.Itoa(int(p.ContainerPort))))
			}
		}
	}
	return field.ErrorList{field.Invalid(path.Child("port"), w.Serving.PodMonitor.Port.String(), messageScrapedPortNotFound+strings.Join(known, ", "))}
}
