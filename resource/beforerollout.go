package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// jobNamePrefix is how many characters of the name of a workload the name of its Job has, jobNameHash how many of a hash follow: 63
	// characters with the hyphen, as the Job's name is a label of its pods.
	jobNamePrefix, jobNameHash = 52, 10
	// causeHash is how many characters of a hash AnnotationRollout has.
	causeHash = 16
	// defaultCommandDeadline is the time that a command has by default, in seconds.
	defaultCommandDeadline = 600
)

// Rollout identifies the rollout of a pod template.
type Rollout struct {
	// workload is the name of the workload, sum a hash of the rollout.
	workload, sum string
	// Cause is the value of AnnotationRollout: a hash of what a user has asked for. It does not depend on defaults, sizes and renderings, by which the
	// pod template may be another one.
	Cause string
}

// NewRollout returns the rollout of a workload. It depends on the owner, the pod template without the digest of followed content, the value of
// the refresh annotation, and the command. identity is that of what a user asks for of the pods.
func NewRollout(w *Workload, identity, refresh string, spec *appv1.BeforeRolloutSpec) Rollout {
	// Structs of texts, numbers and lists always have a JSON form.
	data, _ := json.Marshal([]any{w.Owner.UID, WithoutConfig(&w.Template), refresh, spec})
	cause, _ := json.Marshal([]any{w.Owner.UID, identity, refresh, spec})
	return Rollout{workload: w.Name, sum: hexSum(data), Cause: hexSum(cause)[:causeHash]}
}

// JobAfter returns the name of the Job of the rollout after another Job, so that the same template has another Job each time.
func (r Rollout) JobAfter(before string) string {
	return r.workload[:min(len(r.workload), jobNamePrefix)] + "-" + hexSum([]byte(r.sum + before))[:jobNameHash]
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// WithoutConfig returns a pod template without the digest of the content that the pods follow.
func WithoutConfig(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	kept := *template
	kept.Annotations = maps.Clone(template.Annotations)
	delete(kept.Annotations, appv1.AnnotationConfig)
	return &kept
}

// BuildJob returns the Job that runs a command before the rollout of a workload, by the pod template of the workload. cause is that of the rollout.
func BuildJob(w *Workload, spec *appv1.BeforeRolloutSpec, name, cause string) *batchv1.Job {
	meta := w.objectMeta()
	label := map[string]string{appv1.LabelBeforeRollout: w.Name}
	meta.Name, meta.Labels = name, mergedMaps(w.Labels, label)
	meta.OwnerReferences[0].Controller = nil // The reason is at JobOwner of internal/health.
	meta.Annotations = mergedMaps(meta.Annotations, map[string]string{appv1.AnnotationRollout: cause})
	pod := commandPod(&w.Template.Spec, w.container, spec)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: meta,
		Spec: endingJob(corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      mergedMaps(withoutSelectors(w.Template.Labels, w.Selector), label),
				Annotations: endingAnnotations(&w.Template, w.container, &pod),
			},
			Spec: pod,
		}, ptr.Deref(spec.Retries, 0), ptr.To(int64(ptr.Deref(spec.DeadlineSeconds, defaultCommandDeadline)))),
	}
}

// commandPod returns the pod spec of the Job of a command: the main container with the command, and the sidecars.
func commandPod(template *corev1.PodSpec, container string, spec *appv1.BeforeRolloutSpec) corev1.PodSpec {
	pod := endingPod(template, container)
	main := &pod.Containers[0]
	main.Command, main.Args, main.Env = spec.Command, spec.Args, overrideVariables(main.Env, spec.Envs)
	return pod
}
