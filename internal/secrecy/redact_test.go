package secrecy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

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

// TestPartsOfValues has words with a part of a value alone, as the runtime of a container, a policy or a driver of volumes says it.
func TestPartsOfValues(t *testing.T) {
	main := func(change func(*corev1.Container)) Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "production", Name: "shop-web"}}
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
		change(&d.Spec.Template.Spec.Containers[0])
		return d
	}
	withValue := func(value string) Object {
		return main(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "V", Value: value}} })
	}
	driver := &appsv1.Deployment{}
	driver.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{VolumeAttributes: map[string]string{"key": private}}}}}
	flex := &appsv1.Deployment{}
	flex.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Options: map[string]string{"key": private}}}}}
	for name, obj := range map[string]Object{
		"the option of a flexVolume":     flex,
		"the value of a flag":            main(func(c *corev1.Container) { c.Args = []string{"--password=" + private} }),
		"the password of a URL":          withValue("postgres://shop:" + private + "@db.example.com/shop"),
		"the token of a header":          withValue("Bearer " + private),
		"a line":                         withValue("-----BEGIN KEY-----\n" + private + "\n-----END KEY-----\n"),
		"the value of a key of JSON":     withValue(`{"auth": "` + private + `"}`),
		"a text in a list of JSON":       withValue(`{"x": {"y": [1, "` + private + `"]}}`),
		"the decoded password of a URL":  withValue("postgres://shop:" + strings.Replace(private, "C", "%43", 1) + "@db.example.com/shop"),
		"the parameter of a query":       withValue("https://shop.example.com/hook?token=" + private + "&x=1"),
		"the attribute of a CSI volume":  driver,
		"the query of a probe":           main(func(c *corev1.Container) { c.LivenessProbe = httpProbe("/h?" + private) }),
		"the parameter of a probe's URL": main(func(c *corev1.Container) { c.LivenessProbe = httpProbe("/h?token=" + private) }),
	} {
		if text := RedactText("it fails with "+private+" in it", obj); strings.Contains(text, private) || !strings.Contains(text, "it fails with") {
			t.Errorf("%s: %s", name, text)
		}
		if text := RedactForeign("it fails with "+private+" in it", obj); strings.Contains(text, private) {
			t.Errorf("%s, of others: %s", name, text)
		}
	}
}

// TestPublicWords has answers that name what is missing or wrong. The record of the spec, and the values of flags, have the same words.
func TestPublicWords(t *testing.T) {
	const record = `{"image":"registry.example.com/shop/web:2","envs":[{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"name":"db-credentials","key":"password"}}}]}`
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "production", Name: "shop-web", Annotations: map[string]string{
		appv1.AnnotationLastAppliedSpec: record, corev1.LastAppliedConfigAnnotation: `{"kind": "Deployment", "strategy": "RollingUpdate"}`,
	}}}
	pod := &d.Spec.Template.Spec
	pod.ServiceAccountName, pod.PriorityClassName = "web-account", "critical-apps"
	pod.RuntimeClassName = ptr.To("kata-containers")
	pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull-credentials"}}
	pod.Volumes = []corev1.Volume{
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "projected-secret"}}},
		}}}},
		{Name: "app-data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-claim"}}},
		{Name: "app-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web-config"}}}},
	}
	pod.Containers = []corev1.Container{{
		Name: "container", Image: "registry.example.com/shop/web:2",
		Args: []string{"--host=shop-web", "--namespace=production", "--secret=db-credentials", "--config=web-config", "--data=data-claim", "--runtime=kata-containers", "--projected=projected-secret", "--registry=registry.example.com"},
		Env: []corev1.EnvVar{{Name: "DB_PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db-credentials"}, Key: "password",
		}}}},
	}}
	for _, words := range []string{
		`deployments "shop-web" is forbidden in namespace production`, `secret "db-credentials" not found`, "couldn't find key password in Secret production/db-credentials",
		"no PriorityClass with name critical-apps was found", `serviceaccount "web-account" not found`, `persistentvolumeclaim "data-claim" not found`,
		`configmap "web-config" not found`, `volumeMounts[0].name: Not found: "app-data"`, `Deployment.apps "shop-web" is invalid: strategy RollingUpdate`,
		"the image registry.example.com/shop/web:2 is not signed", "Unable to retrieve image pull secret pull-credentials",
		`RuntimeClass "kata-containers" not found`, `secret "projected-secret" not found`, "failed to pull from registry.example.com",
	} {
		if text := RedactText(words, d, d); text != words {
			t.Errorf("%s: %s", words, text)
		}
	}
}

// TestPartsOfLongValues has a script with more lines than are looked for, and than an object of others may have values: the words about it are shown, without
// the first lines.
func TestPartsOfLongValues(t *testing.T) {
	var script strings.Builder
	for i := range 2 * maxPartBytes / 16 {
		fmt.Fprintf(&script, "line-%010d\n", i)
	}
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"sh", script.String(), "--password=" + private}}}
	for name, redact := range map[string]func(string, Object) string{"own": func(words string, of Object) string { return RedactText(words, of) }, "foreign": RedactForeign} {
		if text := redact("it fails in line-0000000007 of it", d); strings.Contains(text, "0000007") || !strings.Contains(text, "it fails in") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if found, few := privateValues(ownLimits, d); len(found) > maxPartBytes/minPart || !few {
		t.Errorf("%d values and parts; few: %t", len(found), few)
	}
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path}}}
}
