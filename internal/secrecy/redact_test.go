package secrecy

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

const private = "S3CR3T-VALUE"

// TestRedactText quotes each kind of private value of each kind of object, as a policy does that denies an object with its words.
func TestRedactText(t *testing.T) {
	meta := metav1.ObjectMeta{Annotations: map[string]string{"shop.example/key": private}}
	record := metav1.ObjectMeta{Annotations: map[string]string{appv1.AnnotationLastAppliedSpec: private}}
	template := func(c corev1.Container) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	hook := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{private}}}}
	objects := map[string]Object{
		"annotation of a Deployment": &appsv1.Deployment{ObjectMeta: meta}, "annotation of a Service": &corev1.Service{ObjectMeta: meta},
		"annotation of an Ingress": &networkingv1.Ingress{ObjectMeta: meta}, "annotation of a ServiceAccount": &corev1.ServiceAccount{ObjectMeta: meta},
		"record of a spec":    &appsv1.Deployment{ObjectMeta: record},
		"annotation of a pod": &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: meta}}},
		"variable":            &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template(corev1.Container{Env: []corev1.EnvVar{{Name: "T", Value: private}}})}},
		"argument":            &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template(corev1.Container{Args: []string{private}})}},
		"variable of a Job":   &batchv1.Job{Spec: batchv1.JobSpec{Template: template(corev1.Container{Env: []corev1.EnvVar{{Name: "T", Value: private}}})}},
		"variable of a CronJob": &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{
			Spec: batchv1.JobSpec{Template: template(corev1.Container{Env: []corev1.EnvVar{{Name: "T", Value: private}}})},
		}}},
		"annotation of the Jobs of a CronJob": &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: meta}}},
		"command of a hook":                   &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template(corev1.Container{Lifecycle: hook})}},
		"value of a Secret":                   &corev1.Secret{Data: map[string][]byte{"key": []byte(private)}},
		"Secret, base 64":                     &corev1.Secret{Data: map[string][]byte{"key": []byte("S3CR3T")}},
		"beginning of a secret":               &corev1.Secret{Data: map[string][]byte{"key": []byte(strings.Repeat("S3CR3T-VALUE", 200))}},
	}
	words := `pods "web-1" is forbidden: policy denied request: the value is S3CR3T-VALUE, or UzNDUjNU, ` + strings.Repeat(private, 100)
	for name, obj := range objects {
		text := RedactText(words, obj)
		if strings.Contains(name, "base 64") {
			if text != Withheld {
				t.Errorf("%s: %s", name, text)
			}
			continue
		}
		if strings.Contains(name, "beginning") {
			text = RedactText(strings.Repeat(private, 200), obj)
		}
		if strings.Contains(text, private) {
			t.Errorf("%s: %s", name, text)
		}
	}
	var none *appsv1.Deployment
	if text := RedactText(words, nil, none); text != words {
		t.Errorf("without an object: %s", text)
	}
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appv1.AnnotationAdopt: "true"}}}
	if text := RedactText("replicas must be true", own); text != "replicas must be true" {
		t.Errorf("an annotation of the operator: %s", text)
	}
}
