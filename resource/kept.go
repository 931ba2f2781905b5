package resource

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NamesTemplate reports whether the operator leaves the live pod template as it is, and objects of the workload name containers or ports of the pods.
func (w *Workload) NamesTemplate() bool {
	named := slices.ContainsFunc(w.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.Type == intstr.String })
	return w.TemplateKept && (named || w.Serving != nil && (w.Serving.Autoscaling != nil || w.Serving.PodMonitor != nil))
}

// WithKeptTemplate returns the workload with the live pod template that the operator leaves as it is. The autoscaler and the PodMonitor are then about
// the containers and ports of the live template.
func (w *Workload) WithKeptTemplate(live *corev1.PodTemplateSpec) *Workload {
	if !w.NamesTemplate() || len(live.Spec.Containers) == 0 {
		return w
	}
	kept := *w
	kept.kept = live
	return &kept
}

// UndeclaredPorts returns what leads to a port by its name, and finds none in a kept pod template, as words for a message.
func (w *Workload) UndeclaredPorts() []string {
	if w.kept == nil {
		return nil
	}
	var found []string
	for _, i := range undeclaredTargets(w.Ports, &w.kept.Spec) {
		found = append(found, fmt.Sprintf(messageKeptPort, w.Ports[i].TargetPort.StrVal, w.Ports[i].Protocol))
	}
	if w.Serving != nil && w.Serving.PodMonitor != nil {
		if _, ok := scrapedIn(&w.kept.Spec, w.scaledContainer(), w.Serving.PodMonitor.Port); !ok {
			found = append(found, messageKeptScrape)
		}
	}
	return found
}

// scaledContainer returns the name of the main container of the pods: of the kept pod template, if there is one.
func (w *Workload) scaledContainer() string {
	if w.kept == nil {
		return w.container
	}
	return ContainerOf(w.kept.Spec.Containers, w.container).Name
}

// ContainerOf returns the container with the name of the main container, or the first one. There is at least one.
func ContainerOf(containers []corev1.Container, main string) *corev1.Container {
	named := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == main })
	return &containers[max(0, named)]
}
