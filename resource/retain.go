package resource

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Argo CD does not prune an object with these annotations. A retained object has no owner and has the label
// app.kubernetes.io/instance: an Argo CD application of the same name that tracks by label would regard the object as its own.
const (
	annotationSyncOptions    = "argocd.argoproj.io/sync-options"
	annotationCompareOptions = "argocd.argoproj.io/compare-options"
)

// pruneGuards are the annotations that protect a retained object from deletion by tools.
var pruneGuards = map[string]string{
	annotationSyncOptions:    "Prune=false,Delete=false",
	annotationCompareOptions: "IgnoreExtraneous",
}

// Guarded reports whether an object has all the annotations of pruneGuards, with any value.
func Guarded(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	for key := range pruneGuards {
		if _, ok := annotations[key]; !ok {
			return false
		}
	}
	return true
}

// Guard adds the annotations that protect an object from deletion by tools.
func Guard(obj metav1.Object) { obj.SetAnnotations(mergedMaps(obj.GetAnnotations(), pruneGuards)) }

// retainedMeta returns metadata without an owner reference. Its annotations name the resource that the object is kept for, and
// protect the object from deletion by tools.
func (w *Workload) retainedMeta(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.OwnerReferences = nil
	meta.Annotations = mergedMaps(meta.Annotations, pruneGuards, map[string]string{appv1.AnnotationRetainedFor: w.RetainedFor})
	return meta
}

// WithVolume returns the workload with the immutable fields and the requested size of a live claim, or of a live claim template, in its
// claims. The size is the request, not the provisioned capacity.
func (w *Workload) WithVolume(live *corev1.PersistentVolumeClaimSpec) *Workload {
	kept := *w
	kept.Claims = slices.Clone(w.Claims)
	for i := range kept.Claims {
		wanted := &kept.Claims[i].Spec
		wanted.AccessModes = live.AccessModes
		wanted.StorageClassName = live.StorageClassName
		wanted.Resources = storageRequest(*live.Resources.Requests.Storage())
	}
	return &kept
}

// WithoutNodePorts returns the workload with Services that leave the node ports of some ports to another one: the cluster has each once.
func (w *Workload) WithoutNodePorts(taken []appv1.Port) *Workload {
	kept := *w
	kept.Ports = slices.Clone(w.Ports)
	for i := range kept.Ports {
		if slices.ContainsFunc(taken, func(port appv1.Port) bool { return port.NodePort == kept.Ports[i].NodePort }) {
			kept.Ports[i].NodePort = 0
		}
	}
	return &kept
}

// WithClaimTemplates returns the workload with the annotations of live claim templates that lack the guards, as a template is immutable. The
// claims themselves get the guards.
func (w *Workload) WithClaimTemplates(live []corev1.PersistentVolumeClaim) *Workload {
	kept := *w
	kept.Claims = slices.Clone(w.Claims)
	for i := range kept.Claims {
		wanted := &kept.Claims[i]
		for j := range live {
			if live[j].Name == wanted.Name && maps.Equal(mergedMaps(live[j].Annotations, pruneGuards), wanted.Annotations) {
				wanted.Annotations = live[j].Annotations
			}
		}
	}
	return &kept
}
