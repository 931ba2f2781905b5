package validation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// The API server's own range of node ports, unless it was started with another (--service-node-port-range).
const (
	nodePortLeast = 30000
	nodePortMost  = 32767
)

// AnnotationWarnings warns of annotations of a custom resource that have the operator's prefix and no effect, and of a hold. A value
// of an annotation is never repeated.
func AnnotationWarnings(obj metav1.Object) []string {
	var said []string
	annotations := obj.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if crowded(said) {
			break
		}
		if !reserved(key) {
			continue
		}
		if says := annotationWarning(key, annotations[key], historyOf(obj)); says != "" {
			said = append(said, warning(keyIn(field.NewPath("metadata", "annotations"), key), says))
		}
	}
	return said
}

// historyOf returns the history in the status of a resource, nil for a kind whose Deployment cannot be held at an earlier ReplicaSet, nor
// adopted without its template.
func historyOf(obj metav1.Object) *appv1.HistoryStatus {
	if kept, ok := obj.(interface{ History() *appv1.HistoryStatus }); ok {
		return kept.History()
	}
	return nil
}

// annotationWarning returns the warning of an annotation of the operator, empty for none.
func annotationWarning(key, value string, history *appv1.HistoryStatus) string {
	switch key {
	case appv1.AnnotationAdopt:
		switch {
		case value == appv1.AdoptWithoutRestart && history == nil:
			return messageAdoptNeedsRestart
		case value != "true" && value != "false" && value != appv1.AdoptWithoutRestart:
			return messageAdoptValueInvalid
		}
	case appv1.AnnotationAcceptOverrides:
		if value != "true" && value != "false" {
			return messageOverridesValueInvalid
		}
	case appv1.AnnotationRefresh:
	case appv1.AnnotationPlan:
		return messagePlanOnlyForDryRun
	case appv1.AnnotationHold:
		return holdWarning(value, history)
	case appv1.AnnotationPromote, appv1.AnnotationAbort:
		switch {
		case history == nil:
			return messageCanaryNotAvailable
		case value == "":
			return messageCanaryUIDIsEmpty
		}
	default:
		return messageAnnotationUnknown
	}
	return ""
}

// holdWarning returns the warning of a hold. The last good ReplicaSet is named, and that it runs now if it does: a release that was ready is
// the last good one, also if it was found to be bad later.
func holdWarning(value string, history *appv1.HistoryStatus) string {
	switch {
	case history == nil:
		return messageHoldNotAvailable
	case value == "":
		return messageHoldIsEmpty
	case len(validation.IsDNS1123Subdomain(value)) > 0:
		return messageHoldNameInvalid
	case value != appv1.HoldLastGood || history.LastGood == nil:
		return messageHoldInForce
	}
	format := messageHoldLastGood
	if history.LastGood.ReplicaSet == history.ReplicaSet {
		format = messageHoldRunsNow
	}
	return fmt.Sprintf(format, cut(history.LastGood.ReplicaSet, maxValue), cut(history.LastGood.Image, maxValue))
}

// plainWarnings returns the warnings of a workload without defaults at a path. serviceType is the default of its kind.
func plainWarnings(spec *appv1.WorkloadSpec, replicas *int32, serviceType corev1.ServiceType, path *field.Path) []string {
	return slices.Concat(imageWarnings(spec, path), resourcesWarnings(spec, path), warnings(spec, spec, replicas, serviceType, path))
}

// warnings returns the warnings of a workload at a path, apart from its images and its resources. with has the defaults too.
func warnings(spec, with *appv1.WorkloadSpec, replicas *int32, serviceType corev1.ServiceType, path *field.Path) []string {
	return slices.Concat(rolloutWarnings(with, replicas, path), podWarnings(spec, path), serviceWarnings(spec, serviceType, path.Child("service")),
		privilegedPorts(spec, with, path), unusualPorts(with, serviceType, path.Child("ports")))
}

// imageWarnings returns a warning for each image whose name can stand for another image later.
func imageWarnings(spec *appv1.WorkloadSpec, path *field.Path) []string {
	said := floating(spec.Image, path.Child("image"))
	for i := range spec.InitContainers {
		if crowded(said) {
			break
		}
		said = append(said, floating(spec.InitContainers[i].Image, path.Child("initContainers").Index(i).Child("image"))...)
	}
	for i := range spec.Containers {
		if crowded(said) {
			break
		}
		said = append(said, floating(spec.Containers[i].Image, path.Child("containers").Index(i).Child("image"))...)
	}
	return said
}

// resourcesWarnings returns a warning for a main container without requests and limits.
func resourcesWarnings(spec *appv1.WorkloadSpec, path *field.Path) []string {
	if !spec.Size.Named() && len(spec.Resources.Requests)+len(spec.Resources.Limits) == 0 {
		return []string{warning(path.Child("resources"), messageResourcesNotSet)}
	}
	return nil
}

// ImageTag returns the tag of an image, whether one is stated, and whether a digest is.
func ImageTag(image string) (tag string, tagged, pinned bool) {
	name, _, pinned := strings.Cut(image, "@")
	// A colon before the last slash precedes the port of a registry.
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
		return []string{warning(path, fmt.Sprintf(messageImageWithoutTag, cut(image, maxValue)))}
	}
	return []string{warning(path, fmt.Sprintf(messageImageTagMoves, cut(image, maxValue)))}
}

// rolloutWarnings returns a warning for each field that lets a rollout remove all pods.
func rolloutWarnings(spec *appv1.WorkloadSpec, replicas *int32, path *field.Path) []string {
	var said []string
	if all(spec.RollingUpdate, replicas) {
		said = append(said, warning(path.Child("rollingUpdate"), fmt.Sprintf(messageRolloutRemovesAllPods, spec.RollingUpdate.String())))
	}
	if all(spec.MaxUnavailable, replicas) {
		said = append(said, warning(path.Child("maxUnavailable"), fmt.Sprintf(messageRolloutRemovesAllPods, spec.MaxUnavailable.String())))
	}
	return said
}

// all reports whether a rolling update may take as many pods away as are wanted. Of a percentage the number is rounded down.
// Without a known number of pods, only 100% is as many.
func all(rollingUpdate *intstr.IntOrString, replicas *int32) bool {
	if rollingUpdate == nil || replicas != nil && *replicas == 0 {
		return false
	}
	if rollingUpdate.Type == intstr.String && strings.HasSuffix(rollingUpdate.StrVal, "%") {
		return rollingUpdate.StrVal == "100%"
	}
	number, err := strconv.Atoi(rollingUpdate.String())
	return err == nil && replicas != nil && number >= int(*replicas)
}

// firstUnprivileged is the first port that a process needs no privilege to listen on, as nodes have it by default.
const firstUnprivileged = 1024

// privilegedPorts warns of stated ports of the main container that its security profile, which may be a default, may keep it from listening on.
// What user the image has, and where the node's unprivileged ports begin, is not known here.
func privilegedPorts(spec, with *appv1.WorkloadSpec, path *field.Path) []string {
	if with.SecurityProfile != appv1.SecurityProfileRestricted {
		return nil
	}
	if s := with.SecurityContext; s != nil && s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "NET_BIND_SERVICE") {
		return nil
	}
	var said []string
	check := func(number int32, at *field.Path) {
		if number > 0 && number < firstUnprivileged && !crowded(said) {
			said = append(said, warning(at, fmt.Sprintf(messagePortNeedsPrivilege, number, firstUnprivileged)))
		}
	}
	for i, p := range spec.Ports {
		switch {
		case p.TargetPort == nil:
			check(p.Port, path.Child("ports").Index(i).Child("port"))
		case p.TargetPort.Type == intstr.Int:
			check(p.TargetPort.IntVal, path.Child("ports").Index(i).Child("targetPort"))
		}
	}
	for i, p := range spec.ContainerPorts {
		check(p.ContainerPort, path.Child("containerPorts").Index(i).Child("containerPort"))
	}
	return said
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
		if p.NodePort != 0 && !crowded(said) && (p.NodePort < nodePortLeast || p.NodePort > nodePortMost) {
			said = append(said, warning(path.Index(i).Child("nodePort"),
				fmt.Sprintf(messageNodePortOutsideOfRange, p.NodePort, nodePortLeast, nodePortMost)))
		}
	}
	return said
}

// warning is a warning in the form of an error of this package.
func warning(path *field.Path, words string) string { return path.String() + ": " + words }
