package resource

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// The annotations by which Argo CD leaves an object alone that no resource owns. A retained object has the label
// app.kubernetes.io/instance, and an application of that name that tracks by label takes the object for its own.
const (
	annotationSyncOptions    = "argocd.argoproj.io/sync-options"
	annotationCompareOptions = "argocd.argoproj.io/compare-options"
)

// pruneGuards are the annotations of a retained object that keep tools from deleting it.
var pruneGuards = map[string]string{
	annotationSyncOptions:    "Prune=false,Delete=false",
	annotationCompareOptions: "IgnoreExtraneous",
}

// Guarded reports whether an object has all annotations that keep tools from deleting it, with any value.
func Guarded(obj metav1.Object) bool {
	annotations := obj.GetAnnotations()
	for key := range pruneGuards {
		if _, ok := annotations[key]; !ok {
			return false
		}
	}
	return true
}

// Guard gives an object the annotations that keep tools from deleting it.
func Guard(obj metav1.Object) { obj.SetAnnotations(merged(obj.GetAnnotations(), pruneGuards)) }

// retained returns metadata without an owner. Its annotations say which resource the object is kept for, and keep tools
// from deleting it.
func (w *Workload) retained(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.OwnerReferences = nil
	meta.Annotations = merged(meta.Annotations, pruneGuards, map[string]string{appv1.AnnotationRetainedFor: w.RetainedFor})
	return meta
}

// KeepVolume has the workload's volumes be as a live claim, or the template for it, has them. The size is not that of what was
// provided, but what was asked for.
func (w *Workload) KeepVolume(live *corev1.PersistentVolumeClaimSpec) {
	for i := range w.Claims {
		wanted := &w.Claims[i].Spec
		wanted.AccessModes = live.AccessModes
		wanted.StorageClassName = live.StorageClassName
		wanted.Resources = claimed(*live.Resources.Requests.Storage())
	}
}

// KeepClaimTemplates leaves the annotations of claim templates as they are where the live ones were made without the
// guards: a template cannot be changed. The claims themselves get them.
func (w *Workload) KeepClaimTemplates(live []corev1.PersistentVolumeClaim) {
	for i := range w.Claims {
		wanted := &w.Claims[i]
		for j := range live {
			if live[j].Name == wanted.Name && maps.Equal(merged(live[j].Annotations, pruneGuards), wanted.Annotations) {
				wanted.Annotations = live[j].Annotations
			}
		}
	}
}
