package validation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// The API server's own range of node ports, unless it was started with another (--service-node-port-range).
const (
	nodePortLeast = 30000
	nodePortMost  = 32767
)

// AppWarnings returns what is allowed in an App and seldom meant: a line each, which begins with the field.
func AppWarnings(app *appv1.App) []string {
	return append(AnnotationWarnings(app.Annotations),
		warnings(&app.Spec.WorkloadSpec, app.Spec.Replicas, corev1.ServiceTypeClusterIP, field.NewPath("spec"))...)
}

// ModelBoxWarnings is AppWarnings for a ModelBox.
func ModelBoxWarnings(box *appv1.ModelBox) []string {
	return append(AnnotationWarnings(box.Annotations),
		warnings(&box.Spec.WorkloadSpec, box.Spec.Replicas, corev1.ServiceTypeNodePort, field.NewPath("spec"))...)
}

// UnitedDeploymentWarnings is AppWarnings for a UnitedDeployment.
func UnitedDeploymentWarnings(ud *appv1.UnitedDeployment) []string {
	said := AnnotationWarnings(ud.Annotations)
	if ud.Spec.Template == nil {
		return said
	}
	return append(said, warnings(ud.Spec.Template, ud.Spec.Replicas, corev1.ServiceTypeClusterIP, field.NewPath("spec", "template"))...)
}

// CloudManagerWarnings is AppWarnings for a CloudManager.
func CloudManagerWarnings(cm *appv1.CloudManager) []string {
	spec := field.NewPath("spec")
	tier := func(w *appv1.WorkloadSpec, path *field.Path) []string {
		return warnings(w, w.Replicas, corev1.ServiceTypeClusterIP, path)
	}
	said := slices.Concat(
		AnnotationWarnings(cm.Annotations),
		tier(&cm.Spec.Front.Deployment.WorkloadSpec, spec.Child("front", "deployment")),
		tier(&cm.Spec.Identity.Deployment.WorkloadSpec, spec.Child("identity", "deployment")),
		tier(&cm.Spec.DB.StatefulSet.WorkloadSpec, spec.Child("db", "statefulSet")),
	)
	if cm.Spec.DB.RootPass != "" {
		said = append(said, warning(spec.Child("db", "rootPass"),
			"is in clear text: anyone who can read this CloudManager can read it. Move it to a Secret, and set spec.db.rootPassSecretRef to that Secret"))
	}
	return said
}

// AnnotationWarnings warns of annotations of a custom resource that have the operator's prefix and no effect. A value of an
// annotation is never repeated.
func AnnotationWarnings(annotations map[string]string) []string {
	var said []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !reserved(key) {
			continue
		}
		at := field.NewPath("metadata", "annotations").Key(key)
		switch key {
		case appv1.AnnotationPaused:
			said = append(said, warning(at, "is no longer read; set spec.paused: true"))
		case appv1.AnnotationAdopt, appv1.AnnotationAcceptOverrides:
			if value := annotations[key]; value != "true" && value != "false" {
				said = append(said, warning(at, `has no effect; it must be "true" or "false"`))
			}
		case appv1.AnnotationRefresh:
		default:
			said = append(said, warning(at, "is not known to the operator and has no effect; check its name, or remove it"))
		}
	}
	return said
}

// warnings returns those of a workload at the path. serviceType is its kind's default.
func warnings(spec *appv1.WorkloadSpec, replicas *int32, serviceType corev1.ServiceType, path *field.Path) []string {
	said := floating(spec.Image, path.Child("image"))
	for i := range spec.InitContainers {
		said = append(said, floating(spec.InitContainers[i].Image, path.Child("initContainers").Index(i).Child("image"))...)
	}
	for i := range spec.Containers {
		said = append(said, floating(spec.Containers[i].Image, path.Child("containers").Index(i).Child("image"))...)
	}
	if !spec.Size.Named() && len(spec.Resources.Requests)+len(spec.Resources.Limits) == 0 {
		said = append(said, warning(path.Child("resources"),
			"are not set: pods are scheduled as if they used no resources, and are evicted first. Set requests, or set spec.size"))
	}
	if all(spec.RollingUpdate, replicas) {
		said = append(said, warning(path.Child("rollingUpdate"), fmt.Sprintf(
			"of %s lets a rollout remove all pods at once; set it to less than the number of replicas", spec.RollingUpdate.String())))
	}
	if spec.PodTemplate != nil {
		said = append(said, warning(path.Child("podTemplate"), "is deprecated; use podTemplatePatch, which has the same meaning and restarts nothing"))
	}
	return append(said, unusualPorts(spec, serviceType, path.Child("ports"))...)
}

// ImageTag returns the tag of an image, whether one is stated, and whether a digest is.
func ImageTag(image string) (tag string, tagged, pinned bool) {
	name, _, pinned := strings.Cut(image, "@")
	// A colon before the last slash is that of a registry's port.
	_, tag, tagged = strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag, tagged, pinned
}

// floating warns of an image whose name can stand for another one after each push.
func floating(image string, path *field.Path) []string {
	tag, tagged, pinned := ImageTag(image)
	switch {
	case image == "" || pinned || tagged && tag != "latest":
		return nil
	case !tagged:
		return []string{warning(path, fmt.Sprintf(
			"%q has no tag, which means latest: nodes may run different versions, depending on when they pulled it. Set a version tag or a digest", image))}
	}
	return []string{warning(path, fmt.Sprintf(
		"%q is a moving tag: nodes may run different versions, depending on when they pulled it. Set a version tag or a digest", image))}
}

// all reports whether a rolling update may take as many pods away as are wanted. Of a percentage the number is rounded down.
func all(rollingUpdate *intstr.IntOrString, replicas *int32) bool {
	pods := 1
	if replicas != nil {
		pods = int(*replicas)
	}
	if rollingUpdate == nil || pods == 0 {
		return false
	}
	if rollingUpdate.Type == intstr.String && strings.HasSuffix(rollingUpdate.StrVal, "%") {
		return rollingUpdate.StrVal == "100%"
	}
	number, err := strconv.Atoi(rollingUpdate.String())
	return err == nil && number >= pods
}

// unusualPorts warns of ports of the nodes that most clusters refuse. Without a Service that offers them they do not count.
func unusualPorts(spec *appv1.WorkloadSpec, serviceType corev1.ServiceType, path *field.Path) []string {
	if spec.Service.Type != "" {
		serviceType = spec.Service.Type
	}
	if serviceType == corev1.ServiceTypeClusterIP || spec.Service.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	var said []string
	for i, p := range spec.Ports {
		if p.NodePort != 0 && (p.NodePort < nodePortLeast || p.NodePort > nodePortMost) {
			said = append(said, warning(path.Index(i).Child("nodePort"), fmt.Sprintf(
				"%d is outside of %d-%d, the default range of the API server's --service-node-port-range. Use a port in the range, or remove it",
				p.NodePort, nodePortLeast, nodePortMost)))
		}
	}
	return said
}

// warning is a warning in the form of an error of this package.
func warning(path *field.Path, words string) string { return path.String() + ": " + words }
