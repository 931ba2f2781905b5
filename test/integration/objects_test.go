package integration

import (
	"fmt"
	"math/rand"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
)

// newApp returns an App of two pods with one port.
var newApp = fixture.NewApp

// newFullApp returns an App in whose spec every field is set.
func newFullApp(namespace, name string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.ImagePullPolicy = corev1.PullAlways
	app.Spec.Command = []string{"nginx"}
	app.Spec.Args = []string{"-g", "daemon off;"}
	app.Spec.Envs = []corev1.EnvVar{
		{Name: "DEMO", Value: "app"},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	app.Spec.Resources = corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{"cpu": apiresource.MustParse("500m"), "memory": apiresource.MustParse("500Mi")},
		Requests: corev1.ResourceList{"cpu": apiresource.MustParse("100m"), "memory": apiresource.MustParse("100Mi")},
	}
	app.Spec.Ports = []appv1.Port{
		{Name: "http", Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80)), AppProtocol: ptr.To("http")},
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: ptr.To(intstr.FromInt32(5353))},
	}
	return app
}

// deployment and service are the App's children, to be read.
var deployment, service = fixture.Deployment, fixture.Service

// invalidApp is an App that the schema takes and the rules do not.
func invalidApp(ns, name string) *appv1.App {
	app := newApp(ns, name)
	app.Spec.MinReadySeconds, app.Spec.ProgressDeadlineSeconds = ptr.To[int32](600), ptr.To[int32](600)
	return app
}

// parseApp returns an App with a spec as a user writes it, in YAML.
func parseApp(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	app := &unstructured.Unstructured{}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	app.Object = map[string]any{"spec": fields}
	app.SetGroupVersionKind(appv1.GroupVersion.WithKind("App"))
	app.SetNamespace(namespace)
	app.SetName(name)
	return app
}

// newConfigMap returns a ConfigMap.
func newConfigMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// newFollower returns an App that follows the key "level" of the ConfigMap "settings".
func newFollower(namespace, name string) *appv1.App {
	app := newApp(namespace, name)
	app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
	app.Spec.Envs = []corev1.EnvVar{{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "level"}}}}
	return app
}

// newAutoscaler returns an HPA for an object of the App's name. Here it is only an object: the test scales in its place.
func newAutoscaler(app client.Object, apiVersion, kind string) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: app.GetNamespace(), Name: "scaler-of-" + app.GetName()}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: app.GetName()}
	h.Spec.MaxReplicas = 10
	return h
}

// newTemplate returns a UnitedDeployment with a template.
func newTemplate(namespace, name, deployment string) *appv1.UnitedDeployment {
	ud := newUnited(namespace, name, deployment)
	ud.Spec.Template = &appv1.WorkloadSpec{
		Image: "nginx:1.16.1",
		Ports: []appv1.Port{{Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80))}},
	}
	return ud
}

// newUnited returns a UnitedDeployment that holds a Deployment at two pods.
var newUnited = fixture.NewUnitedDeployment

// newHandMade returns a Deployment as a user writes one.
func newHandMade(namespace, name string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}}}
	d.Spec.Replicas = ptr.To[int32](3)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"run": name}}
	d.Spec.Template.Labels = map[string]string{"run": name}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "httpd", Env: []corev1.EnvVar{{Name: "DEMO", Value: "hand"}}}}
	return d
}

// newHandMadeService returns the Service of a Deployment of newHandMade.
func newHandMadeService(namespace, name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "a"}}}
	s.Spec.Selector = map[string]string{"run": name}
	s.Spec.Ports = []corev1.ServicePort{{Name: "main", Port: 80}}
	return s
}

// newHandMadeSet returns a StatefulSet as a user writes one.
func newHandMadeSet(namespace, name string) *appsv1.StatefulSet {
	set := namedStatefulSet(namespace, name)
	set.Spec = appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"run": name}}, ServiceName: name,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"run": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "postgres:16"}}},
		},
	}
	return set
}

// childLabels are those of every child of an App.
func childLabels(name string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       name,
		"app.kubernetes.io/instance":   name,
		"app.kubernetes.io/component":  "app",
		"app.kubernetes.io/managed-by": "app-operator",
	}
}

// newDefaultProbe is a default probe as the API server has it.
func newDefaultProbe(period, failures, timeout int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: timeout, SuccessThreshold: 1,
	}
}

// restrictedContexts are security contexts that the strictest Pod Security Standard takes.
func restrictedContexts() (*corev1.PodSecurityContext, *corev1.SecurityContext) {
	yes, no := true, false
	return &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		&corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// newIncompressibleText returns a text that hardly compresses, the same each time.
func newIncompressibleText(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	src := rand.New(rand.NewSource(int64(n)))
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[src.Intn(len(letters))]
	}
	return string(text)
}

// newVariables returns environment variables of n bytes in all.
func newVariables(text string) []corev1.EnvVar {
	const each = 5000
	var vars []corev1.EnvVar
	for ; len(text) > each; text = text[each:] {
		vars = append(vars, corev1.EnvVar{Name: fmt.Sprintf("V%d", len(vars)), Value: text[:each]})
	}
	return append(vars, corev1.EnvVar{Name: "LAST", Value: text})
}

func containerOf(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }

func parseQuantity(s string) apiresource.Quantity { return apiresource.MustParse(s) }

// fromYAML returns a tree as it is in JSON, nil for nothing.
func fromYAML(t *testing.T, text string) any {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return tree
}

// namedClaim is a claim as the StatefulSet controller makes it of the template.
func namedClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{
				appv1.LabelManagedBy: appv1.ManagedBy, appv1.LabelCloudManager: "cm", appv1.LabelPart: "db",
			},
			Annotations: map[string]string{appv1.AnnotationRetainedFor: "CloudManager.cm"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To("local-path"),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("20Gi")}},
		},
	}
}
