package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
	"sigs.k8s.io/yaml"
)

// stagesOf reads the stages as kwok is given them, strictly, and returns those of one kind.
func stagesOf(t *testing.T, kind string) lifecycle.Lifecycle {
	t.Helper()
	path := filepath.Join(t.TempDir(), stagesFile)
	if err := writeStages(path); err != nil {
		t.Fatal(err)
	}
	var found []*internalversion.Stage
	for document := range bytes.SplitSeq(read(t, path), []byte("\n---\n")) {
		stage := &v1alpha1.Stage{}
		if err := yaml.UnmarshalStrict(document, stage); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		internal, err := internalversion.ConvertToInternalStage(stage)
		if err != nil {
			t.Fatal(err)
		}
		if internal.Spec.ResourceRef.Kind == kind {
			found = append(found, internal)
		}
	}
	stages, err := lifecycle.NewLifecycle(found)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// TestPodStages checks that no pod is ever in two minds, and that none is touched again once its fate is met.
func TestPodStages(t *testing.T) {
	pending := func(image string) *corev1.Pod {
		return &corev1.Pod{
			Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}, {Name: "d", Image: "d"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	settled := func(image string, phase corev1.PodPhase) *corev1.Pod {
		pod := pending(image)
		pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}
		return pod
	}
	ofJob := func(pod *corev1.Pod) *corev1.Pod {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}}
		return pod
	}
	deleted := func(pod *corev1.Pod) *corev1.Pod {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return pod
	}
	stages := stagesOf(t, "Pod")
	for _, c := range []struct {
		pod   *corev1.Pod
		stage string
	}{
		{pending("nginx"), "pod-ready"},
		{pending("docker.io/library/nginx:1.29"), "pod-ready"},
		{pending("imagepullbackoff.test.example/a"), "pod-ready"},
		{pending("imagepullbackoff.test/shop/web:1"), "pod-image-pull-back-off"},
		{pending("crashloopbackoff.test/web@sha256:0"), "pod-crash-loop-back-off"},
		{pending("oomkilled.test/web"), "pod-crash-loop-back-off"},
		{settled("nginx", corev1.PodRunning), ""},
		{settled("imagepullbackoff.test/web", corev1.PodPending), ""},
		{settled("crashloopbackoff.test/web", corev1.PodRunning), ""},
		{ofJob(settled("nginx", corev1.PodRunning)), "pod-complete"},
		{ofJob(settled("nginx", corev1.PodSucceeded)), ""},
		{ofJob(settled("oomkilled.test/web", corev1.PodRunning)), ""},
		{ofJob(settled("jobfails.test/web", corev1.PodRunning)), "pod-fail"},
		{settled("jobfails.test/web", corev1.PodRunning), ""},
		{ofJob(settled("jobruns.test/web", corev1.PodRunning)), ""},
		{deleted(pending("imagepullbackoff.test/web")), "pod-delete"},
		{deleted(settled("oomkilled.test/web", corev1.PodRunning)), "pod-delete"},
		{deleted(ofJob(settled("nginx", corev1.PodRunning))), "pod-delete"},
	} {
		event := &lifecycle.Event{Data: c.pod}
		possible, err := stages.ListAllPossible(context.Background(), event)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, stage := range possible {
			names = append(names, stage.Name())
		}
		if c.stage == "" && len(names) > 0 || c.stage != "" && (len(names) != 1 || names[0] != c.stage) {
			t.Errorf("%s, %s: stages %v instead of %q", c.pod.Spec.Containers[0].Image, c.pod.Status.Phase, names, c.stage)
		}
	}
}

func TestNodeStages(t *testing.T) {
	node := simulatedNode(0)
	stages := stagesOf(t, "Node")
	for _, want := range []string{"node-initialize", "node-heartbeat"} {
		possible, err := stages.ListAllPossible(context.Background(), &lifecycle.Event{Data: node})
		if err != nil || len(possible) != 1 || possible[0].Name() != want {
			t.Errorf("%v, %v instead of %s", possible, err, want)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
}
