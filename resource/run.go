package resource

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// runNamePrefix is how many characters of the name of a resource the name of the Job of a run has: at most 63 characters in all, as the
// Job's name is a label of its pods.
const runNamePrefix = 53

// annotationDefaultContainer names the container whose log kubectl shows.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// Run is a command that a user runs in a pod like those of a Deployment.
type Run struct {
	// For is the name of the resource, Name the name of the Job, see RunName.
	For, Name string
	// Command is the command with its arguments.
	Command []string
	// Stdin has the container keep its standard input open for one client, TTY gives it a terminal.
	Stdin, TTY bool
	// Deadline is how many seconds the Job has, 0 for no limit. TTL is how many seconds the Job stays once it has ended.
	Deadline int64
	TTL      int32
}

// RunName returns the name of the Job of a run: the beginning of the resource's name, "-run-", and the suffix, which has five characters.
func RunName(name, suffix string) string {
	return strings.TrimRight(name[:min(len(name), runNamePrefix)], "-.") + "-run-" + suffix
}

// RunJob returns the Job of a run. Its pod is built by the pod template of the live Deployment, without the labels by which the Deployment,
// one of the Services or the operator finds pods. The Job has no owner: once it has ended, it is deleted after its TTL.
func RunJob(d *appsv1.Deployment, services []corev1.Service, run *Run) *batchv1.Job {
	label := map[string]string{appv1.LabelRun: run.For}
	pod := endingPod(&d.Spec.Template.Spec, MainContainer(d).Name)
	main := &pod.Containers[0]
	main.Command, main.Args = run.Command, nil
	main.Stdin, main.StdinOnce, main.TTY = run.Stdin, run.Stdin, run.TTY
	annotations := endingAnnotations(&d.Spec.Template, main.Name, &pod)
	if annotations[annotationDefaultContainer] != "" {
		annotations[annotationDefaultContainer] = main.Name
	}
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: run.Name, Labels: label},
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: mergedMaps(unselectedLabels(d, services), label), Annotations: annotations},
				Spec:       pod,
			},
			BackoffLimit:            ptr.To[int32](0), // A user's command runs once.
			TTLSecondsAfterFinished: &run.TTL,
		},
	}
	if run.Deadline > 0 {
		job.Spec.ActiveDeadlineSeconds = &run.Deadline
	}
	return job
}

// MainContainer returns the main container of a live Deployment: by the record of its spec and of its defaults, else by the name of the Deployment. Others may
// have put a container before it. The first container is the main one where the name is not known, as with a hash in place of the record.
func MainContainer(d *appsv1.Deployment) *corev1.Container {
	var recorded struct {
		ContainerName string `json:"containerName"`
		Name          string `json:"name"` // Of a ModelBox.
	}
	containers := d.Spec.Template.Spec.Containers
	unread := DecodeSpec(d.Annotations[appv1.AnnotationLastAppliedSpec], &recorded)
	inputs, unknown := DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs])
	if unread != nil || unknown != nil {
		return &containers[0]
	}
	if recorded.Name == d.Name { // The same as no name.
		recorded.Name = ""
	}
	defaults, _ := inputs.Defaults.defaultedFields(&appv1.WorkloadSpec{}, &appv1.ServingSpec{}, nil)
	for _, name := range []string{recorded.ContainerName, recorded.Name, defaults.ContainerName, d.Name} {
		if at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name }); at >= 0 {
			return &containers[at]
		}
	}
	return &containers[0]
}

// unselectedLabels returns the labels of the pods of a Deployment without those by which the Deployment, one of the Services or the operator
// finds pods.
func unselectedLabels(d *appsv1.Deployment, services []corev1.Service) map[string]string {
	pods := d.Spec.Template.Labels
	// The operator's cache has the objects with this label.
	selecting := map[string]string{appv1.LabelManagedBy: appv1.ManagedBy}
	if selector := d.Spec.Selector; selector != nil {
		maps.Copy(selecting, selector.MatchLabels)
		for i := range selector.MatchExpressions {
			selecting[selector.MatchExpressions[i].Key] = ""
		}
	}
	for i := range services {
		if selector := services[i].Spec.Selector; len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(pods)) {
			maps.Copy(selecting, selector)
		}
	}
	return withoutSelectors(pods, selecting)
}
