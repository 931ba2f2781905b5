package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestJobName has rollouts that differ in one part: each has a Job of its own, by a name that is a label. The digest of followed content changes
// no name.
func TestJobName(t *testing.T) {
	spec, other := &appv1.BeforeRolloutSpec{Command: []string{"migrate"}}, &appv1.BeforeRolloutSpec{Command: []string{"other"}}
	a, b := corev1.PodTemplateSpec{}, corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
	names := map[string]bool{}
	for _, r := range []struct {
		owner           types.UID
		template        corev1.PodTemplateSpec
		refresh, before string
		spec            *appv1.BeforeRolloutSpec
	}{
		{"", a, "", "", spec}, {"1", a, "", "", spec}, {"1", b, "", "", spec}, {"1", a, "x", "", spec}, {"1", a, "", "x", spec}, {"1", a, "", "", other},
	} {
		w := &Workload{Name: strings.Repeat("a", 63), Owner: metav1.OwnerReference{UID: r.owner}, Template: r.template}
		name := NewRollout(w, "", r.refresh, r.spec).JobAfter(r.before)
		w.Template.Annotations = map[string]string{appv1.AnnotationConfig: "followed content"}
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 || len(name) != 63 || names[name] || name != NewRollout(w, "", r.refresh, r.spec).JobAfter(r.before) {
			t.Errorf("%+v: %s, %v", r, name, errs)
		}
		names[name] = true
	}
}

// TestBuildJob has a workload with all that its pods can have: the Job has what the command needs, and nothing by which a Service or the
// workload finds its pod.
func TestBuildJob(t *testing.T) {
	app := appOf(t, `{image: a, command: [serve], args: [x], ports: [{port: 80}], envs: [{name: A, value: "1"}, {name: B, value: "2"}],
		probes: {liveness: {httpGet: {port: 80}}}, lifecycle: {preStop: {sleep: {seconds: 1}}},
		containers: [{name: log, image: log}], initContainers: [{name: once, image: i}, {name: proxy, image: p, restartPolicy: Always}],
		podLabels: {team: red, app.kubernetes.io/instance: x, job-name: x, batch.kubernetes.io/controller-uid: x},
		podAnnotations: {inject: "true", container.apparmor.security.beta.kubernetes.io/log: runtime/default, container.apparmor.security.beta.kubernetes.io/once: runtime/default,
			container.apparmor.security.beta.kubernetes.io/proxy: runtime/default, container.apparmor.security.beta.kubernetes.io/app: runtime/default}, nodeSelector: {disk: ssd}, serviceAccountName: robot}`)
	w, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}, Selector: map[string]string{"team": "red"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	job := BuildJob(w, &appv1.BeforeRolloutSpec{Command: []string{"migrate"}, Args: []string{"up"}, Envs: []corev1.EnvVar{{Name: "B", Value: "3"}}}, "web-1", "cause")
	pod := &job.Spec.Template.Spec
	want := corev1.Container{
		Name: "app", Image: "a", Command: []string{"migrate"}, Args: []string{"up"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "3"}},
		ImagePullPolicy: corev1.PullIfNotPresent,
	}
	is := pod.Containers[0]
	if is.Name != want.Name || is.Image != want.Image || cmp.Diff(is.Command, want.Command) != "" || cmp.Diff(is.Args, want.Args) != "" || cmp.Diff(is.Env, want.Env) != "" ||
		is.Ports != nil || is.LivenessProbe != nil || is.ReadinessProbe != nil || is.Lifecycle != nil {
		t.Errorf("the container is %+v", is)
	}
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != "proxy" || pod.RestartPolicy != corev1.RestartPolicyNever ||
		pod.NodeSelector["disk"] != "ssd" || pod.ServiceAccountName != "robot" || pod.TopologySpreadConstraints != nil {
		t.Errorf("the pod is %+v", pod)
	}
	labels := job.Spec.Template.Labels
	const armor = "container.apparmor.security.beta.kubernetes.io/"
	wantAnnotations := map[string]string{"inject": "true", armor + "proxy": "runtime/default", armor + "app": "runtime/default"}
	if diff := cmp.Diff(wantAnnotations, job.Spec.Template.Annotations); diff != "" {
		t.Errorf("the annotations of the pod: %s", diff)
	}
	for _, key := range []string{"team", appv1.LabelApp, appv1.LabelName, appv1.LabelInstance, "job-name", "batch.kubernetes.io/controller-uid"} {
		if labels[key] != "" {
			t.Errorf("the pod has the label %s: %s", key, labels[key])
		}
	}
	if labels[appv1.LabelBeforeRollout] != app.Name || labels[appv1.LabelManagedBy] != appv1.ManagedBy {
		t.Errorf("the pod has the labels %v", labels)
	}
	if w.Template.Spec.Containers[0].Command[0] != "serve" || len(w.Template.Spec.Containers) != 2 || w.Template.Labels["team"] != "red" {
		t.Error("the workload is changed")
	}
}
