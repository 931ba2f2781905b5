package resource

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// podIdentity are the labels by which Services and tools find the pods of a workload.
var podIdentity = []string{
	appv1.LabelName, appv1.LabelInstance, appv1.LabelApp, appv1.LabelModelBox, appv1.LabelUnitedDeployment, appv1.LabelCloudManager,
	appv1.LabelCanary, appv1.LabelTask,
}

// withoutSelectors returns labels of a pod for a Job: without the labels by which a selector or podIdentity finds the pod, and without
// the labels that Kubernetes sets on the pods of each Job.
func withoutSelectors(labels, selector map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, selects := selector[key]
		return selects || slices.Contains(podIdentity, key) || rules.IsJobLabel(key)
	})
	return kept
}

// endingAnnotations returns the annotations of a pod that ends, by the pod template of a workload. The API server refuses a former AppArmor annotation
// that names no container of the pod: the annotation of the main container, by its name in the template, follows the container, and the annotations of
// other containers that the pod lacks are left out.
func endingAnnotations(template *corev1.PodTemplateSpec, main string, pod *corev1.PodSpec) map[string]string {
	kept := WithoutConfig(template).Annotations
	for key, value := range template.Annotations {
		name, armor := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		named := func(c corev1.Container) bool { return c.Name == name }
		if !armor || slices.ContainsFunc(pod.Containers, named) || slices.ContainsFunc(pod.InitContainers, named) {
			continue
		}
		delete(kept, key)
		if name == main {
			kept[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+pod.Containers[0].Name] = value
		}
	}
	return kept
}

// endingPod returns the spec of a pod that ends, by the pod spec of a workload: the container of that name, or else the first one, without
// what only serving pods have, and the sidecars.
func endingPod(template *corev1.PodSpec, container string) corev1.PodSpec {
	pod := template.DeepCopy()
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == container })
	pod.Containers = []corev1.Container{pod.Containers[max(at, 0)]}
	pod.InitContainers = sidecarContainers(pod.InitContainers)
	main := &pod.Containers[0]
	main.Ports, main.LivenessProbe, main.ReadinessProbe, main.StartupProbe, main.Lifecycle = nil, nil, nil, nil, nil
	endPod(pod)
	return *pod
}

// ReadinessGateRun is the readiness gate of each pod that ends. Nothing sets its condition, so that such a pod is never ready: a Service
// that selects the pod by an inherited label sends it no request, and a PodDisruptionBudget does not count it as healthy. A Job does not wait
// for readiness.
const ReadinessGateRun corev1.PodConditionType = "app.huolala.cn/serves"

// endPod changes the spec of a pod to the spec of a pod that ends.
func endPod(pod *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			list[i].ResizePolicy = nil // The API server rejects RestartContainer in a pod that is never restarted.
		}
	}
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: ReadinessGateRun}}
	pod.TopologySpreadConstraints = nil // These are about the pods that serve.
}

// endingJob returns the spec of a Job that runs the command of its pod once, and retries it a number of times. A deadline of nil is none.
func endingJob(template corev1.PodTemplateSpec, retries int32, deadline *int64) batchv1.JobSpec {
	return batchv1.JobSpec{
		Template:              template,
		BackoffLimit:          &retries,
		ActiveDeadlineSeconds: deadline,
		PodReplacementPolicy:  ptr.To(batchv1.Failed), // No second pod next to a pod that ends.
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			// The node is drained, for instance.
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}},
	}
}

// overrideVariables returns variables with further variables, which replace those of the same name. A variable can refer to the variables before it
// alone: the further ones come last, in their order, but for those that a remaining variable refers to, which come where the replaced one was. A
// further one that replaces a variable comes before those that refer to it, as the replaced one did.
func overrideVariables(vars, further []corev1.EnvVar) []corev1.EnvVar {
	made, placed := make([]corev1.EnvVar, 0, len(vars)+len(further)), make([]bool, len(further))
	replaced, replacing := indexesByName(vars), indexesByName(further)
	lastNeeded := lastReferences(vars, replacing)
	var place func(at int)
	place = func(at int) {
		if placed[at] {
			return
		}
		placed[at] = true
		var needed []int
		for _, name := range referencesIn(further[at].Value) {
			for _, i := range replacing[name] {
				if i < at || replaced[name] != nil {
					needed = append(needed, i)
				}
			}
		}
		slices.Sort(needed)
		for _, i := range needed {
			place(i)
		}
		made = append(made, further[at])
	}
	for i, v := range vars {
		by := replacing[v.Name]
		if by == nil {
			made = append(made, v)
		} else if lastNeeded[v.Name] > i {
			place(by[0])
		}
	}
	for at := range further {
		place(at)
	}
	return made
}

// indexesByName returns the indexes of variables by their names: a list can have a name twice.
func indexesByName(vars []corev1.EnvVar) map[string][]int {
	indexes := map[string][]int{}
	for i := range vars {
		indexes[vars[i].Name] = append(indexes[vars[i].Name], i)
	}
	return indexes
}

// lastReferences returns, by the name that it refers to, the index of the last variable that is not replaced.
func lastReferences(vars []corev1.EnvVar, replacing map[string][]int) map[string]int {
	last := map[string]int{}
	for i := range vars {
		if replacing[vars[i].Name] == nil {
			for _, name := range referencesIn(vars[i].Value) {
				last[name] = i
			}
		}
	}
	return last
}

// reference matches a reference to a variable in a value, and an escaped one up to its parenthesis, as Kubernetes reads a value.
var reference = regexp.MustCompile(`\$\$|\$\(([^)]*)\)`)

// referencesIn returns the names of the variables that a value refers to, each once.
func referencesIn(value string) []string {
	if !strings.Contains(value, "$(") {
		return nil
	}
	var names []string
	for _, match := range reference.FindAllStringSubmatch(value, -1) {
		if match[1] != "" {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// overrideItems returns a list with further items. A further item replaces the item of the same key, in its place. A new one comes right before the
// next further item that replaces one, or last: containers start in their order.
func overrideItems[T any](list, further []T, key func(T) string) []T {
	listed, replacing := map[string]bool{}, map[string]int{}
	for _, item := range list {
		listed[key(item)] = true
	}
	for i, item := range further {
		if _, ok := replacing[key(item)]; !ok {
			replacing[key(item)] = i
		}
	}
	made, placed := make([]T, 0, len(list)+len(further)), make([]bool, len(further))
	place := func(i int) {
		if !placed[i] {
			made, placed[i] = append(made, further[i]), true
		}
	}
	before := 0 // All new items up to here are placed.
	for _, item := range list {
		at, ok := replacing[key(item)]
		if !ok {
			made = append(made, item)
			continue
		}
		for ; before < at; before++ {
			if !listed[key(further[before])] {
				place(before)
			}
		}
		place(at)
	}
	for i := range further {
		place(i)
	}
	return made
}
