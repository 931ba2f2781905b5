package view

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
)

// toolMark is a label or annotation by which a tool finds the objects that the tool has applied. From an import on, the tool applies
// the App in place of these objects.
type toolMark struct{ prefix, tool string }

var toolMarks = []toolMark{
	{"meta.helm.sh/", "Helm"},
	{"helm.sh/resource-policy", "Helm"},
	{"helm.sh/hook", "Helm"},
	{"argocd.argoproj.io/", "Argo CD"},
	{"kustomize.toolkit.fluxcd.io/", "Flux"},
	{"helm.toolkit.fluxcd.io/", "Flux"},
	{"objectset.rio.cattle.io/", "Rancher"},
}

// clusterMarks are the beginnings of the annotations that the cluster, kubectl and the operator set by themselves.
var clusterMarks = []string{
	appv1.GroupVersion.Group + "/", "deployment.kubernetes.io/", corev1.LastAppliedConfigAnnotation, AnnotationRestarted,
	"autoscaling.alpha.kubernetes.io/", "kubernetes.io/change-cause",
}

// toolOf returns the tool that a label or annotation is for, empty for any other.
func toolOf(key string) string {
	for _, mark := range toolMarks {
		if strings.HasPrefix(key, mark.prefix) {
			return mark.tool
		}
	}
	return ""
}

// ownLabels returns the labels of an object that its user has set, without the labels of the operator and of tools.
func ownLabels(given map[string]string) map[string]string {
	own := maps.Clone(given)
	maps.DeleteFunc(own, func(key, _ string) bool { return validation.OperatorLabel(key) || toolOf(key) != "" })
	return own
}

// ownAnnotations returns the annotations of an object that its user has set, without the annotations of the cluster, the operator and tools.
func ownAnnotations(given map[string]string) map[string]string {
	own := maps.Clone(given)
	maps.DeleteFunc(own, func(key, _ string) bool {
		return toolOf(key) != "" || slices.ContainsFunc(clusterMarks, func(mark string) bool { return strings.HasPrefix(key, mark) })
	})
	return own
}

// defaultLabel reports whether a label of an object has the value that the operator sets for an App without this label.
func (i *importing) defaultLabel(key, value string) bool {
	switch key {
	case appv1.LabelName, appv1.LabelInstance:
		return value == i.App.Name
	case appv1.LabelComponent:
		return value == "app"
	}
	return false
}

// importMetadata states the labels and annotations of the Deployment and of its Service, nil if there is none: what both have for all
// objects, and else for the one object.
func (i *importing) importMetadata(service *corev1.Service) {
	d, spec := i.from.Deployment, &i.App.Spec.WorkloadSpec
	labels := i.statedLabels("Deployment", d)
	spec.WorkloadAnnotations = i.statedAnnotations("Deployment", d)
	if spec.Labels = labels; service != nil {
		name := "Service " + service.Name
		spec.Service.Annotations = i.statedAnnotations(name, service)
		spec.Labels, spec.WorkloadLabels, spec.Service.Labels = commonEntries(labels, i.statedLabels(name, service))
	}
	// What the operator would set for both objects by itself is stated for an object that has another value, and left out otherwise.
	for _, stated := range []*map[string]string{&spec.Labels, &spec.WorkloadLabels, &spec.Service.Labels} {
		maps.DeleteFunc(*stated, i.defaultLabel)
		nilIfEmpty(stated)
	}
	nilIfEmpty(&spec.WorkloadAnnotations)
	nilIfEmpty(&spec.Service.Annotations) // The block of a Service without fields is not printed.
}

// nilIfEmpty makes an empty map nil.
func nilIfEmpty(m *map[string]string) {
	if len(*m) == 0 {
		*m = nil
	}
}

// commonEntries returns the entries that two maps have in common, and the others of each.
func commonEntries(a, b map[string]string) (both, onlyA, onlyB map[string]string) {
	both, onlyA, onlyB = map[string]string{}, maps.Clone(a), maps.Clone(b)
	for key, value := range a {
		if other, ok := b[key]; ok && other == value {
			both[key] = value
			delete(onlyA, key)
			delete(onlyB, key)
		}
	}
	return both, onlyA, onlyB
}

// statedLabels returns the labels of an object that the App states, and notes the others.
func (i *importing) statedLabels(object string, obj metav1.Object) map[string]string {
	given := obj.GetLabels()
	for _, key := range slices.Sorted(maps.Keys(given)) {
		at := "metadata.labels[" + key + "]"
		switch tool := toolOf(key); {
		case tool != "":
			i.addNote(object, at, "is for %s, which is to apply the App; it stays on the object, and is not in the App", tool)
		case key == appv1.LabelManagedBy && given[key] != appv1.ManagedBy:
			i.addNote(object, at, "becomes "+appv1.ManagedBy)
		}
	}
	return ownLabels(given)
}

// statedAnnotations returns the annotations of an object that the App states, and notes the annotations of tools.
func (i *importing) statedAnnotations(object string, obj metav1.Object) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if tool := toolOf(key); tool != "" {
			i.addNote(object, "metadata.annotations["+key+"]", "is for %s, which is to apply the App; it stays on the object, and is not in the App", tool)
		}
	}
	return ownAnnotations(obj.GetAnnotations())
}

// noteMetadata notes the labels and annotations of an object around the pods that the App has no field for.
func (i *importing) noteMetadata(object string, obj metav1.Object, annotated bool) {
	const text = "stays as it is while the object exists; an App cannot state it for this object"
	labels := i.statedLabels(object, obj)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[key]; i.App.Spec.Labels[key] != value && !i.defaultLabel(key, value) {
			i.addNote(object, "metadata.labels["+key+"]", text)
		}
	}
	if annotated {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(i.statedAnnotations(object, obj))) {
		i.addNote(object, "metadata.annotations["+key+"]", text)
	}
}

// importPodMetadata states the labels and annotations of the pods, with the labels of the selector: a Service that selects other labels
// than the Deployment selects by them, also the pods of a new Deployment.
func (i *importing) importPodMetadata() {
	template, spec := &i.from.Deployment.Spec.Template, &i.App.Spec.WorkloadSpec
	spec.PodLabels = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		value, at := template.Labels[key], "spec.template.metadata.labels["+key+"]"
		selected, selects := i.selector[key]
		switch {
		case key == appv1.LabelApp && value == i.App.Name:
		case validation.OperatorLabel(key) && selects && selected == value:
			i.addNote("Deployment", at, "stays while the Deployment exists, as its selector has it; the operator sets it otherwise in a new one")
		case validation.OperatorLabel(key):
			i.addNote("Deployment", at, "is the operator's to set; the next change replaces it")
		case !i.defaultLabel(key, value):
			spec.PodLabels[key] = value
		}
	}
	spec.PodAnnotations = ownAnnotations(template.Annotations)
}
