package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRunName has names of each length and with each character at the cut: the name of the Job is a name of a pod and the value of a label.
func TestRunName(t *testing.T) {
	for _, name := range []string{"a", "web", strings.Repeat("a", 52) + "-b", strings.Repeat("a", 52) + ".b", strings.Repeat("a", 63), strings.Repeat("a", 253)} {
		got := RunName(name, "x7k2p")
		if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 || len(got) > 63 || !strings.HasSuffix(got, "-run-x7k2p") || got[0] != name[0] {
			t.Errorf("%s: %s, %v", name, got, errs)
		}
	}
}

// deploymentOfRun returns the live Deployment of an App with all that its pods can have.
func deploymentOfRun(t *testing.T) *appsv1.Deployment {
	t.Helper()
	app := appOf(t, `{image: a, command: [serve], args: [x], ports: [{port: 80}], envs: [{name: A, value: "1"}],
		probes: {liveness: {httpGet: {port: 80}}}, containers: [{name: log, image: log}],
		initContainers: [{name: once, image: i}, {name: proxy, image: p, restartPolicy: Always}],
		podLabels: {team: red, color: blue, tier: one}, podAnnotations: {inject: "true", kubectl.kubernetes.io/default-container: log}, serviceAccountName: robot}`)
	w, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app.Name}}
	d.Spec.Template, d.Spec.Selector = w.Template, &metav1.LabelSelector{
		MatchLabels: w.Selector, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}},
	}
	d.Spec.Template.Spec.Containers[0].Image = "a:in-force"
	d.Spec.Template.Annotations[appv1.AnnotationConfig] = "followed content"
	return d
}

// TestRunJob has a Deployment with all that its pods can have: the Job has what the command needs, and nothing by which a Service or the
// Deployment finds its pod.
func TestRunJob(t *testing.T) {
	d := deploymentOfRun(t)
	before := d.DeepCopy()
	selecting := func(selector map[string]string) corev1.Service {
		return corev1.Service{Spec: corev1.ServiceSpec{Selector: selector}}
	}
	services := []corev1.Service{selecting(nil), selecting(map[string]string{"team": "red"}), selecting(map[string]string{"color": "green"})}
	job := RunJob(d, services, &Run{For: "web", Name: "web-run-x7k2p", Command: []string{"migrate", "up"}, TTL: 3600})
	pod := &job.Spec.Template.Spec
	want := corev1.Container{
		Name: before.Spec.Template.Spec.Containers[0].Name, Image: "a:in-force", Command: []string{"migrate", "up"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
		ImagePullPolicy: corev1.PullIfNotPresent, Resources: before.Spec.Template.Spec.Containers[0].Resources, SecurityContext: before.Spec.Template.Spec.Containers[0].SecurityContext,
	}
	if diff := cmp.Diff([]corev1.Container{want}, pod.Containers); diff != "" {
		t.Errorf("the container: %s", diff)
	}
	if len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != "proxy" || pod.RestartPolicy != corev1.RestartPolicyNever || pod.ServiceAccountName != "robot" {
		t.Errorf("the pod is %+v", pod)
	}
	wantLabels := map[string]string{"color": "blue", appv1.LabelComponent: "app", appv1.LabelRun: "web"}
	if diff := cmp.Diff(wantLabels, job.Spec.Template.Labels); diff != "" {
		t.Errorf("the labels of the pod: %s", diff)
	}
	wantAnnotations := map[string]string{"inject": "true", annotationDefaultContainer: want.Name}
	if diff := cmp.Diff(wantAnnotations, job.Spec.Template.Annotations); diff != "" {
		t.Errorf("the annotations of the pod: %s", diff)
	}
	if job.Namespace != "shop" || job.Name != "web-run-x7k2p" || len(job.OwnerReferences) != 0 || *job.Spec.BackoffLimit != 0 || *job.Spec.TTLSecondsAfterFinished != 3600 ||
		job.Spec.ActiveDeadlineSeconds != nil || cmp.Diff(job.Labels, map[string]string{appv1.LabelRun: "web"}) != "" {
		t.Errorf("the Job is %+v", job)
	}
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("the Deployment is changed: %s", diff)
	}
}

// TestRunWithInput has a run with an input and a terminal, and one with a deadline.
func TestRunWithInput(t *testing.T) {
	d := deploymentOfRun(t)
	job := RunJob(d, nil, &Run{For: "web", Name: "web-run-1", Command: []string{"sh"}, Stdin: true, TTY: true, Deadline: 60})
	if main := job.Spec.Template.Spec.Containers[0]; !main.Stdin || !main.StdinOnce || !main.TTY || *job.Spec.ActiveDeadlineSeconds != 60 {
		t.Errorf("the container is %+v, the Job %+v", main, job.Spec)
	}
	if job.Spec.Template.Labels["team"] != "red" {
		t.Errorf("without Services, the labels of the pod are %v", job.Spec.Template.Labels)
	}
}

func checkMainContainer(t *testing.T, d *appsv1.Deployment, want string) {
	t.Helper()
	if got := MainContainer(d); got.Name != want {
		t.Errorf("with %s: %s, want %s", d.Annotations[appv1.AnnotationLastAppliedSpec], got.Name, want)
	}
}

// TestMainContainer has containers of others before the main container, which has the name of the record, or else of the Deployment.
func TestMainContainer(t *testing.T) {
	for want, record := range map[string]string{
		"web": `{"image":"a"}`, "cart": `{"containerName":"cart"}`, "model": `{"name":"model"}`, "sidecar": `{"containerName":"gone"}`,
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{
			appv1.AnnotationLastAppliedSpec: record, appv1.AnnotationLastAppliedInputs: `{"rendering":2}`,
		}}}
		for _, name := range []string{"sidecar", "web", "cart", "model"} {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: name, Image: name + ":1"})
		}
		if want == "sidecar" {
			d.Name = "other"
		}
		checkMainContainer(t, d, want)
		d.Annotations[appv1.AnnotationLastAppliedSpec] = zip(t, []byte(record)) // Of a long spec.
		checkMainContainer(t, d, want)
		if want == "cart" { // As AppDefaults state it.
			d.Annotations[appv1.AnnotationLastAppliedSpec] = `{"image":"a"}`
			d.Annotations[appv1.AnnotationLastAppliedInputs] = BuildInputs{Rendering: 2, Defaults: recordDefaults(recordedDefaults{Fields: appv1.Defaults{ContainerName: "cart"}})}.Encode()
		}
		checkMainContainer(t, d, want)
		job := RunJob(d, nil, &Run{For: "web", Name: "web-run-x7k2p", Command: []string{"migrate"}})
		if got := job.Spec.Template.Spec.Containers; len(got) != 1 || got[0].Image != want+":1" {
			t.Errorf("with %s, a run has %v", record, got)
		}
		task := &appv1.Task{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: appv1.TaskSpec{App: "web", Schedule: "0 5 * * *"}}
		task.Spec.Command = []string{"report"}
		built, errs := Task(task, &Base{Template: &d.Spec.Template, Main: want}, ResolvedSize{})
		if got := built.CronJob.Spec.JobTemplate.Spec.Template.Spec.Containers; len(errs) > 0 || len(got) != 1 || got[0].Image != want+":1" {
			t.Errorf("with %s, a Task has %v: %v", record, got, errs)
		}
	}
}
