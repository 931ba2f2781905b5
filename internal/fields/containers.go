package fields

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// PodSpec returns the pods' spec of an object, nil if it has none.
func PodSpec(obj client.Object) *corev1.PodSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &obj.Spec.Template.Spec
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}

// podSpecPath returns the path of the pods' spec in an object.
func podSpecPath(obj client.Object) []any {
	if _, ok := obj.(*batchv1.CronJob); ok {
		return []any{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	return []any{"spec", "template", "spec"}
}

// duplicateContainers returns the live containers that are ours under another name, as a rename by hand or a copy leaves them: without
// this rule they would run next to ours. A container that the literal does not name is a twin if
//
//   - it runs the same as one of ours in the same list, as stated or as observed: an image of the same repository, the
//     same command and arguments, each variable that ours states with the same value, and each port that ours states; or
//   - it has the name of one of ours in the other list, which the API server does not allow.
//
// Every other container stays: an injected sidecar has another image, and a worker of the same image another command, other
// arguments or other variables.
func duplicateContainers(wanted, live client.Object) []fieldpath.Path {
	stated, found := PodSpec(wanted), PodSpec(live)
	if stated == nil || found == nil {
		return nil
	}
	var paths []fieldpath.Path
	for _, list := range []struct {
		name                string
		ours, theirs, other []corev1.Container
	}{
		{"containers", stated.Containers, found.Containers, stated.InitContainers},
		{"initContainers", stated.InitContainers, found.InitContainers, stated.Containers},
	} {
		for i := range list.theirs {
			c := &list.theirs[i]
			if containerOf(list.ours, c.Name) == nil && (containerOf(list.other, c.Name) != nil || isCopyOfOurs(c, list.ours, list.theirs)) {
				paths = append(paths, fieldpath.MakePathOrDie(append(podSpecPath(wanted), list.name, fieldpath.KeyByFields("name", c.Name))...))
			}
		}
	}
	return paths
}

func containerOf(list []corev1.Container, name string) *corev1.Container {
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// isCopyOfOurs reports whether a container runs the same as one of ours.
func isCopyOfOurs(c *corev1.Container, ours, live []corev1.Container) bool {
	for i := range ours {
		was := containerOf(live, ours[i].Name)
		if runsSame(c, &ours[i]) || was != nil && runsSame(c, was) {
			return true
		}
	}
	return false
}

func runsSame(c, ours *corev1.Container) bool {
	if imageRepository(c.Image) != imageRepository(ours.Image) || !slices.Equal(c.Command, ours.Command) || !slices.Equal(c.Args, ours.Args) {
		return false
	}
	for _, want := range ours.Env {
		if !slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool {
			return has.Name == want.Name && has.Value == want.Value && (has.ValueFrom == nil) == (want.ValueFrom == nil)
		}) {
			return false
		}
	}
	for _, want := range ours.Ports {
		if !slices.ContainsFunc(c.Ports, func(has corev1.ContainerPort) bool { return has.ContainerPort == want.ContainerPort }) {
			return false
		}
	}
	return true
}

// imageRepository returns an image's name without tag and digest.
func imageRepository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		image = image[:i]
	}
	return image
}
