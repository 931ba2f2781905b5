package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

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
	// defaultCommandDeadline is the time that a command has by default, in seconds.
	defaultCommandDeadline = 600
)

// Rollout identifies the rollout of a pod template.
type Rollout struct {
	// workload is the name of the workload, sum a hash of the rollout.
	workload, sum string
}

// NewRollout returns the rollout of a workload. It depends on the owner, the pod template without the digest of followed content, the value of
// the refresh annotation, and the command.
func NewRollout(w *Workload, refresh string, spec *appv1.BeforeRolloutSpec) Rollout {
	// Structs of texts, numbers and lists always have a JSON form.
	data, _ := json.Marshal([]any{w.Owner.UID, WithoutConfig(&w.Template), refresh, spec})
	return Rollout{w.Name, hexSum(data)}
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

// BuildJob returns the Job that runs a command before the rollout of a workload, by the pod template of the workload.
func BuildJob(w *Workload, spec *appv1.BeforeRolloutSpec, name string) *batchv1.Job {
	meta := w.meta()
	label := map[string]string{appv1.LabelBeforeRollout: w.Name}
	meta.Name, meta.Labels = name, merged(w.Labels, label)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: merged(w.jobLabels(), label), Annotations: WithoutConfig(&w.Template).Annotations},
				Spec:       w.jobPod(spec),
			},
			BackoffLimit:          ptr.To(ptr.Deref(spec.Retries, 0)),
			ActiveDeadlineSeconds: ptr.To(int64(ptr.Deref(spec.DeadlineSeconds, defaultCommandDeadline))),
			PodReplacementPolicy:  ptr.To(batchv1.Failed), // No second pod next to a pod that ends.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				// The node is drained, for instance.
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
		},
	}
}

// jobLabels returns the labels of the pod of a Job: those of the workload's pods without the labels that select these pods.
func (w *Workload) jobLabels() map[string]string {
	labels := maps.Clone(w.Template.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		_, selects := w.Selector[key]
		return selects || slices.Contains(podIdentity, key)
	})
	return labels
}

// podIdentity are the labels by which Services and tools find the pods of a workload.
var podIdentity = []string{
	appv1.LabelName, appv1.LabelInstance, appv1.LabelApp, appv1.LabelModelBox, appv1.LabelUnitedDeployment, appv1.LabelCloudManager,
	appv1.LabelCanary,
}

// jobPod returns the spec of the pod of a Job: the main container with another command, and the sidecars.
func (w *Workload) jobPod(spec *appv1.BeforeRolloutSpec) corev1.PodSpec {
	pod := w.Template.Spec.DeepCopy()
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == w.container })
	container := pod.Containers[max(at, 0)]
	container.Command, container.Args = spec.Command, spec.Args
	container.Env = overrideVariables(container.Env, spec.Envs)
	pod.Containers, pod.InitContainers = []corev1.Container{container}, sidecars(pod.InitContainers)
	main := &pod.Containers[0]
	main.Ports, main.LivenessProbe, main.ReadinessProbe, main.StartupProbe, main.Lifecycle = nil, nil, nil, nil, nil
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			list[i].ResizePolicy = nil // The API server rejects RestartContainer in a pod that is never restarted.
		}
	}
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.TopologySpreadConstraints = nil // These are about the pods that serve.
	return *pod
}

// overrideVariables returns variables without those of a name that further ones have, and the further ones.
func overrideVariables(vars, further []corev1.EnvVar) []corev1.EnvVar {
	kept := slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(further, func(f corev1.EnvVar) bool { return f.Name == v.Name })
	})
	return append(kept, further...)
}
