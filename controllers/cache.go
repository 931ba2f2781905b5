package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/stored"
)

// The indexes of the cache.
const (
	// indexInstance finds pods by the custom resource that they belong to.
	indexInstance = "instance"
	// indexTarget finds autoscalers by what they scale, as targetKey writes it.
	indexTarget = "target"
	// indexController finds children by the CloudManager that controls them.
	indexController = "controller"
	// indexWanted finds CloudManagers by the names of their children.
	indexWanted = "wanted"
)

// ParseNamespaces reads the namespaces to watch from a comma-separated list; an empty one means all, and so does no name.
func ParseNamespaces(list string) []string {
	var namespaces []string
	for _, ns := range strings.Split(list, ",") {
		if ns = strings.TrimSpace(ns); ns != "" {
			namespaces = append(namespaces, ns)
		}
	}
	return namespaces
}

// CacheOptions says what the manager's cache holds: all of what is ours, and of everything else no more than decisions
// need, so that memory does not grow with the rest of the cluster. namespaces limits it; none means all.
func CacheOptions(namespaces []string) cache.Options {
	opts := cache.Options{
		DefaultTransform:         trimResource,
		DefaultWatchErrorHandler: watches.noteFailure,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:  {Transform: trimDeployment},
			&appsv1.StatefulSet{}: {Transform: trimStatefulSet},
			&corev1.Service{}:     {Transform: trimService},
			&corev1.PersistentVolumeClaim{}: {
				Transform: trimClaim,
				Label:     labels.SelectorFromSet(labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}),
			},
			&corev1.Pod{}: {
				Transform: trimPod,
				Label:     labels.SelectorFromSet(labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}),
			},
			&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: trimAutoscaler},
		},
	}
	if len(namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts
}

// AddIndexes adds the indexes that the controllers look things up by.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, indexInstance, func(obj client.Object) []string {
		return []string{obj.GetLabels()[appv1.LabelInstance]}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &autoscalingv2.HorizontalPodAutoscaler{}, indexTarget, func(obj client.Object) []string {
		return []string{scaleTarget(obj)}
	}); err != nil {
		return err
	}
	if err := addCloudManagerIndexes(ctx, indexer); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &stored.UnitedDeployment{}, stored.IndexDeployment, func(obj client.Object) []string {
		if ud, ok := obj.(*stored.UnitedDeployment); ok {
			if typed, err := ud.Decode(); err == nil {
				return []string{typed.Spec.DeploymentName}
			}
		}
		return nil // It names none as long as nobody knows what it says.
	})
}

// scaleTarget says what an autoscaler scales.
func scaleTarget(obj client.Object) string {
	scaler, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return ""
	}
	return targetKey(scaler.Spec.ScaleTargetRef.Kind, scaler.Spec.ScaleTargetRef.Name)
}

func targetKey(kind, name string) string { return kind + "/" + name }

// ours tells whether an object was made by this operator, or by a tutorial's for a kind of ours.
func ours(obj client.Object) bool {
	if obj.GetLabels()[appv1.LabelManagedBy] == appv1.ManagedBy {
		return true
	}
	c := metav1.GetControllerOf(obj)
	return c != nil && ofGroup(c)
}

// ofGroup tells whether an owner is of a kind of ours, in any version.
func ofGroup(owner *metav1.OwnerReference) bool {
	return strings.HasPrefix(owner.APIVersion, appv1.GroupVersion.Group+"/")
}

// identity is the metadata that tells whose a foreign object is.
func identity(obj metav1.ObjectMeta) metav1.ObjectMeta {
	trimmed := metav1.ObjectMeta{
		Name:              obj.Name,
		Namespace:         obj.Namespace,
		UID:               obj.UID,
		ResourceVersion:   obj.ResourceVersion,
		Generation:        obj.Generation,
		DeletionTimestamp: obj.DeletionTimestamp,
		OwnerReferences:   obj.OwnerReferences,
	}
	if sum, ok := obj.Annotations[appv1.AnnotationLastAppliedHash]; ok {
		trimmed.Annotations = map[string]string{appv1.AnnotationLastAppliedHash: sum}
	}
	trimmed.ManagedFields = apply.Marks(obj.ManagedFields)
	return trimmed
}

// thrifty takes out of an object of ours what nobody asks for: who owns which fields of its status.
func thrifty(obj client.Object) {
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	}))
}

// share makes label selectors that say the same one map. What is in a cache is never written to.
func share(template *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	if maps.Equal(template.Labels, selector.MatchLabels) {
		template.Labels = selector.MatchLabels
	}
	for _, c := range template.Spec.TopologySpreadConstraints {
		if c.LabelSelector != nil && maps.Equal(c.LabelSelector.MatchLabels, selector.MatchLabels) {
			c.LabelSelector.MatchLabels = selector.MatchLabels
		}
	}
}

func trimDeployment(in any) (any, error) {
	d, ok := in.(*appsv1.Deployment)
	if !ok {
		return in, nil
	}
	if ours(d) {
		thrifty(d)
		share(&d.Spec.Template, d.Spec.Selector)
		return d, nil
	}
	d.ObjectMeta = identity(d.ObjectMeta)
	d.Spec = appsv1.DeploymentSpec{
		Replicas: d.Spec.Replicas, Selector: d.Spec.Selector,
		// For the words on a rollout that a UnitedDeployment waits for.
		Paused: d.Spec.Paused, ProgressDeadlineSeconds: d.Spec.ProgressDeadlineSeconds,
	}
	return d, nil
}

func trimStatefulSet(in any) (any, error) {
	s, ok := in.(*appsv1.StatefulSet)
	if !ok {
		return in, nil
	}
	if ours(s) {
		thrifty(s)
		share(&s.Spec.Template, s.Spec.Selector)
		return s, nil
	}
	s.ObjectMeta = identity(s.ObjectMeta)
	s.Spec, s.Status = appsv1.StatefulSetSpec{Replicas: s.Spec.Replicas, Selector: s.Spec.Selector}, appsv1.StatefulSetStatus{}
	return s, nil
}

// maxOthersAnnotations is how long, in bytes, the annotations of others may be that are kept of a custom resource.
const maxOthersAnnotations = 4 << 10

// readAnnotations are the annotations of a custom resource that reconciles read, but for the record of a tutorial, and how long
// their values may be to be kept as they are. That of a refresh is recorded.
var readAnnotations = map[string]int{appv1.AnnotationAdopt: 16, appv1.AnnotationAcceptOverrides: 16, appv1.AnnotationRefresh: 64 << 10}

// trimResource takes out of the metadata of a custom resource all that no decision needs, and that may be as long as all the
// rest: who owns which fields, labels, owners, finalizers, and annotations of others that are many or long. A change of a
// short one has the resource looked at.
func trimResource(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	obj.SetManagedFields(nil)
	obj.SetLabels(nil)
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
	obj.SetAnnotations(trimAnnotations(obj))
	return obj, nil
}

// trimAnnotations returns the annotations of a custom resource that are kept, nil for none. They are in a map of their own, as
// one does not shrink with what is deleted from it.
func trimAnnotations(obj client.Object) map[string]string {
	var kept, others map[string]string
	size := 0
	for key, value := range obj.GetAnnotations() {
		most, read := readAnnotations[key]
		switch _, app := obj.(*stored.App); {
		case read:
			kept = with(kept, key, shorten(value, most))
		case key == appv1.AnnotationTutorialSpec && app:
			kept = with(kept, key, value)
		case key != corev1.LastAppliedConfigAnnotation:
			if size += len(key) + len(value); size <= maxOthersAnnotations {
				others = with(others, key, value)
			}
		}
	}
	if size <= maxOthersAnnotations {
		for key, value := range others {
			kept = with(kept, key, value)
		}
	}
	return kept
}

func with(annotations map[string]string, key, value string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}

// shorten returns the value of an annotation, or what tells it from others if it is too long to be kept.
func shorten(value string, most int) string {
	if len(value) <= most {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// trimClaim keeps what a claim asks for; what it got is nobody's concern here.
func trimClaim(in any) (any, error) {
	if claim, ok := in.(*corev1.PersistentVolumeClaim); ok {
		claim.Status = corev1.PersistentVolumeClaimStatus{}
	}
	return in, nil
}

func trimService(in any) (any, error) {
	s, ok := in.(*corev1.Service)
	if !ok {
		return in, nil
	}
	if ours(s) {
		thrifty(s)
		return s, nil
	}
	s.ObjectMeta = identity(s.ObjectMeta)
	headless := s.Spec.ClusterIP == corev1.ClusterIPNone
	s.Spec, s.Status = corev1.ServiceSpec{}, corev1.ServiceStatus{}
	if headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone // That cannot be changed by an adoption.
	}
	return s, nil
}

// trimPod keeps what tells whose a pod is and why it does not run.
func trimPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	trimmed := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: identity(pod.ObjectMeta)}
	trimmed.Labels = pod.Labels
	trimmed.Status.Phase = pod.Status.Phase
	trimmed.Status.Conditions = pod.Status.Conditions
	trimmed.Status.InitContainerStatuses = pod.Status.InitContainerStatuses
	trimmed.Status.ContainerStatuses = pod.Status.ContainerStatuses
	return trimmed, nil
}

func trimAutoscaler(in any) (any, error) {
	scaler, ok := in.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return in, nil
	}
	trimmed := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: scaler.TypeMeta, ObjectMeta: identity(scaler.ObjectMeta)}
	trimmed.Spec.ScaleTargetRef = scaler.Spec.ScaleTargetRef
	return trimmed, nil
}
