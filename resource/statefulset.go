package resource

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// buildStatefulSet returns the StatefulSet that runs the workload's pods, each with volumes of its own.
func buildStatefulSet(w *Workload) *appsv1.StatefulSet {
	meta := w.objectMeta()
	meta.Labels, meta.Annotations = w.overriddenLabels(w.OwnLabels), mergedMaps(w.Annotations, w.OwnAnnotations, w.Record)
	whenDeleted := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if !w.Retain {
		whenDeleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet"},
		ObjectMeta: meta,
		Spec: appsv1.StatefulSetSpec{
			Replicas:             w.Replicas,
			Selector:             &metav1.LabelSelector{MatchLabels: w.Selector},
			Template:             w.Template,
			VolumeClaimTemplates: w.Claims,
			ServiceName:          HeadlessName(w.Name),
			// With OrderedReady, a pod that never becomes ready would block the rollout of its own fix
			// (kubernetes/kubernetes#67250).
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			MinReadySeconds:      w.MinReadySeconds,
			RevisionHistoryLimit: w.RevisionHistoryLimit,
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: whenDeleted,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
}

// HeadlessName returns the name of the Service that gives each pod of a StatefulSet a DNS name.
func HeadlessName(workload string) string { return workload + "-headless" }

// buildHeadless returns the headless Service, which gives each pod of the workload's StatefulSet a DNS name even before the pod
// is ready. The Service records the inputs as well: the operator deletes the StatefulSet to grow its volumes, and recreates it
// with the inputs of its pods.
func buildHeadless(w *Workload) *corev1.Service {
	meta := w.objectMeta()
	meta.Name = HeadlessName(w.Name)
	meta.Annotations = mergedMaps(w.Annotations, map[string]string{
		appv1.AnnotationLastAppliedInputs: w.Record[appv1.AnnotationLastAppliedInputs],
	})
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 w.headlessSelector,
			Ports:                    append([]corev1.ServicePort(nil), w.Ports...),
			PublishNotReadyAddresses: true,
		},
	}
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].NodePort = 0
	}
	return service
}

// claimTemplate returns the volume claim template of the data volume. It states every field, as server-side apply treats the list
// of templates as atomic. Apart from the storage, no field depends on the spec, as the templates are immutable.
func claimTemplate(w *Workload, s *appv1.Storage) corev1.PersistentVolumeClaim {
	mode := s.AccessModes
	if mode == "" {
		mode = corev1.ReadWriteOnce
	}
	return corev1.PersistentVolumeClaim{
		ObjectMeta: w.claimMeta(DataVolume),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{mode},
			Resources:        storageRequest(s.Size),
			StorageClassName: s.Class,
			VolumeMode:       ptr.To(corev1.PersistentVolumeFilesystem),
		},
	}
}

// Claim returns the desired state of an existing claim: the size of its template.
func Claim(w *Workload, name string) *corev1.PersistentVolumeClaim {
	meta := w.claimMeta(name)
	meta.Namespace = w.Namespace
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta,
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: w.Claims[0].Spec.Resources},
	}
}

// ClaimOrdinal returns the ordinal of the pod that a claim belongs to. ok is false if the name is not the name of a claim of the
// workload.
func ClaimOrdinal(workload, claim string) (ordinal int32, ok bool) {
	digits, ok := strings.CutPrefix(claim, DataVolume+"-"+workload+"-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || strconv.FormatInt(n, 10) != digits || n < 0 {
		return 0, false
	}
	return int32(n), true
}

// claimMeta returns the metadata of a claim or of its template.
func (w *Workload) claimMeta(name string) metav1.ObjectMeta {
	return w.retainedMeta(metav1.ObjectMeta{Name: name, Labels: w.claimLabels})
}

func storageRequest(size resource.Quantity) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: resourceList(corev1.ResourceList{corev1.ResourceStorage: size})}
}
