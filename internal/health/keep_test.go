package health

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestKeepCauses keeps of pods what their causes are read from: the causes stay the same, with as little text as a limit allows.
func TestKeepCauses(t *testing.T) {
	long := strings.Repeat("word ", 1000)
	several := ended(&corev1.ContainerStateTerminated{ExitCode: 2, Message: long})
	several.Status.ContainerStatuses = append([]corev1.ContainerStatus{{Name: "runs", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		several.Status.ContainerStatuses...)
	again := container(corev1.ContainerStatus{
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
	})
	again.Status.ContainerStatuses = append(again.Status.ContainerStatuses, waiting("ErrImagePull", "no such image").Status.ContainerStatuses...)
	for name, pod := range map[string]corev1.Pod{
		"runs":                  container(corev1.ContainerStatus{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}),
		"pulls":                 waiting("ImagePullBackOff", "Back-off pulling image \"registry/web:v2\": ErrImagePull: "+long),
		"invalid image":         waiting("InvalidImageName", ""),
		"loops":                 loops("10s", &corev1.ContainerStateTerminated{ExitCode: 1, Message: long}),
		"out of memory":         ended(&corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}),
		"several containers":    several,
		"runs again":            again,
		"command":               waiting("RunContainerError", `failed to start "serve --password=secret": `+long+` serve --password=secret`),
		"config":                waiting("CreateContainerConfigError", `secret "x" not found`),
		"initial container":     initial(ended(&corev1.ContainerStateTerminated{ExitCode: 4})),
		"initial is done":       initial(ended(&corev1.ContainerStateTerminated{})),
		"cannot be scheduled":   unschedulable("0/3 nodes are available: " + long),
		"cannot be scheduled 2": unschedulable("0/3 nodes are available"),
	} {
		kept := corev1.Pod{}
		KeepCauses(&pod, &kept.Status, 320)
		kept.OwnerReferences = pod.OwnerReferences
		if got, want := CauseOf(&kept), CauseOf(&pod); got != want {
			t.Errorf("%s: the cause became %v, want %v", name, got, want)
		}
		if got, want := lastCauseOf(&kept), lastCauseOf(&pod); got != want {
			t.Errorf("%s: the cause of a rollout became %v, want %v", name, got, want)
		}
		for _, s := range kept.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && (len(w.Message) > 320 || strings.Contains(w.Message, "password=secret")) {
				t.Errorf("%s: kept is %q", name, w.Message)
			}
		}
	}
}

// TestKeepCauseOfManyValues has a long error of a container of an App that has more values, or a longer file, than are looked for in other objects of others:
// the error is kept.
func TestKeepCauseOfManyValues(t *testing.T) {
	var variables []corev1.EnvVar
	var file strings.Builder
	for i := range 100 {
		variables = append(variables, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: fmt.Sprintf("S3CR3T-%0700d", i)})
	}
	for i := range 2600 {
		fmt.Fprintf(&file, "key-%04d=S3CR3T-%04d\n", i, i)
	}
	for name, env := range map[string][]corev1.EnvVar{"variables": variables, "a file": {{Name: "FILE", Value: file.String()}}} {
		pod := waiting("CreateContainerError", "no such volume for S3CR3T-0007 "+strings.Repeat("word ", 100)+variables[7].Value)
		pod.Spec.Containers = []corev1.Container{{Name: "main", Env: env}}
		kept := corev1.PodStatus{}
		KeepCauses(&pod, &kept, 320)
		if words := kept.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(words, "no such volume for ") || name == "a file" && strings.Contains(words, "S3CR3T") {
			t.Errorf("%s: %s", name, words)
		}
	}
}
