// Package fieldtest has the objects that the tests of packages which compare objects share.
package fieldtest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Owner is the UID of the resource that owns Deployment and Service.
const Owner = "owner-uid"

// The operations of managed fields.
const (
	Apply  = metav1.ManagedFieldsOperationApply
	Update = metav1.ManagedFieldsOperationUpdate
)

// Deployment is a literal with every kind of field that server-side apply merges in a way of its own.
func Deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "app.huolala.cn/v1", Kind: "App", Name: "web", UID: Owner, Controller: ptr.To(true),
			}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"disk": "ssd"},
					Tolerations:  []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
					Volumes:      []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
					Containers: []corev1.Container{{
						Name: "web", Image: "nginx:1", Command: []string{"nginx", "-g"},
						Env:       []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}},
						EnvFrom:   []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
						Ports:     []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
					}},
				},
			},
		},
	}
}

// LiveDeployment is the same as the API server keeps it: with its defaults, and with what controllers write.
func LiveDeployment() *appsv1.Deployment {
	d := Deployment()
	d.UID, d.ResourceVersion, d.Generation = "live-uid", "7", 3
	d.CreationTimestamp = metav1.Now()
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = ptr.To[int32](10), ptr.To[int32](600)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromString("25%")),
		},
	}
	pod := &d.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default-scheduler"
	pod.SecurityContext = &corev1.PodSecurityContext{}
	pod.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	pod.Containers[0].TerminationMessagePath = "/dev/termination-log"
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2}
	return d
}

// Service returns a desired Service.
func Service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

// LiveService returns the Service of Service as an API server has it, with the defaults that it sets.
func LiveService() *corev1.Service {
	s := Service()
	s.UID, s.ResourceVersion = "live-uid", "7"
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, ptr.To(corev1.IPFamilyPolicySingleStack)
	s.Spec.SessionAffinity, s.Spec.InternalTrafficPolicy = corev1.ServiceAffinityNone, ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	return s
}

// Entry is an entry of managedFields.
func Entry(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "apps/v1",
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}
