// Package validation holds the rules on our kinds that a schema cannot: pure functions that the controllers call before
// they build anything, so that an error names the field that the user wrote rather than the one that it became.
package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// App returns what is wrong with an App's spec, nothing if it is right.
func App(app *appv1.App) field.ErrorList {
	return workload(&app.Spec.WorkloadSpec, frame{container: app.Name}, field.NewPath("spec"))
}

// ModelBox returns what is wrong with a ModelBox's spec, nothing if it is right.
func ModelBox(box *appv1.ModelBox) field.ErrorList {
	f := frame{container: box.Spec.Name, minReadySeconds: appv1.ModelBoxMinReadySeconds}
	if f.container == "" {
		f.container = box.Name
	}
	return workload(&box.Spec.WorkloadSpec, f, field.NewPath("spec"))
}

// frame is what a workload's kind adds to its spec.
type frame struct {
	// container is the main container's name.
	container string
	// minReadySeconds is the kind's default.
	minReadySeconds int32
	// volumes are further volumes of the pod.
	volumes []string
}

// workload returns what is wrong with a workload at the path.
func workload(spec *appv1.WorkloadSpec, f frame, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, Resources(&spec.Resources, path.Child("resources"))...)
	errs = append(errs, envs(spec.Envs, path.Child("envs"))...)
	errs = append(errs, envFrom(spec.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, ports(spec.Ports, path.Child("ports"))...)
	errs = append(errs, deadline(spec, f.minReadySeconds, path)...)
	errs = append(errs, pod(spec, f, path)...)
	return append(errs, metadata(spec, path)...)
}

// Resources checks that no quantity is negative and no request is above its limit
// (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/). Resources that cannot be
// overcommitted, which are all but cpu, memory and ephemeral-storage, need a limit that equals the request.
func Resources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(r.Limits) {
		if q := r.Limits[name]; q.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), q.String(), "must not be negative"))
		}
	}
	for _, name := range sorted(r.Requests) {
		request, at := r.Requests[name], path.Child("requests").Key(string(name))
		limit, limited := r.Limits[name]
		switch {
		case request.Sign() < 0:
			errs = append(errs, field.Invalid(at, request.String(), "must not be negative"))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must not be above the limit of %s", limit.String())))
		case overcommits(name):
		case !limited:
			errs = append(errs, field.Required(path.Child("limits").Key(string(name)), "this resource needs a limit that equals the request"))
		case request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must equal the limit of %s for this resource", limit.String())))
		}
	}
	return errs
}

func overcommits(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// envs checks that each variable has a value or exactly one source, and a name that a container takes
// (k8s.io/apimachinery/pkg/util/validation, IsRelaxedEnvVarName).
func envs(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		v, at := &vars[i], path.Index(i)
		for _, message := range validation.IsRelaxedEnvVarName(v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, message))
		}
		if v.ValueFrom == nil {
			continue
		}
		if v.Value != "" {
			// The value itself is left out of the error: it may be a secret.
			errs = append(errs, field.Forbidden(at.Child("valueFrom"), "must not be set beside value; take one of them away"))
		}
		from := v.ValueFrom
		sources := count(from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FileKeyRef != nil)
		if sources != 1 {
			errs = append(errs, field.Invalid(at.Child("valueFrom"), fmt.Sprintf("%d sources", sources), "must name exactly one source"))
		}
	}
	return errs
}

// envFrom checks that each entry names one ConfigMap or one Secret.
func envFrom(sources []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range sources {
		s, at := &sources[i], path.Index(i)
		switch n := count(s.ConfigMapRef != nil, s.SecretRef != nil); {
		case n != 1:
			errs = append(errs, field.Invalid(at, fmt.Sprintf("%d sources", n), "must name exactly one of configMapRef and secretRef"))
		case s.ConfigMapRef != nil && s.ConfigMapRef.Name == "":
			errs = append(errs, field.Required(at.Child("configMapRef", "name"), "the name of a ConfigMap"))
		case s.SecretRef != nil && s.SecretRef.Name == "":
			errs = append(errs, field.Required(at.Child("secretRef", "name"), "the name of a Secret"))
		}
	}
	return errs
}

// deadline checks that a pod can become available before the rollout counts as stuck.
func deadline(spec *appv1.WorkloadSpec, minReadySeconds int32, path *field.Path) field.ErrorList {
	ready := minReadySeconds
	if spec.MinReadySeconds != nil {
		ready = *spec.MinReadySeconds
	}
	switch limit := spec.ProgressDeadlineSeconds; {
	case limit != nil && *limit <= ready:
		return field.ErrorList{field.Invalid(path.Child("progressDeadlineSeconds"), *limit,
			fmt.Sprintf("must be above minReadySeconds, which is %d", ready))}
	case limit == nil && ready >= defaultDeadline:
		return field.ErrorList{field.Invalid(path.Child("minReadySeconds"), ready,
			fmt.Sprintf("must be below progressDeadlineSeconds, which is %d unless it is set", defaultDeadline))}
	}
	return nil
}

// defaultDeadline is Kubernetes' default for progressDeadlineSeconds.
const defaultDeadline = 600

// ports checks what the list's keys in the schema do not: that no node port is asked for twice with one protocol.
func ports(list []appv1.Port, path *field.Path) field.ErrorList {
	type nodePort struct {
		number   int32
		protocol corev1.Protocol
	}
	var errs field.ErrorList
	taken := map[nodePort]bool{}
	for i, p := range list {
		key := nodePort{p.NodePort, p.Protocol}
		if p.NodePort != 0 && taken[key] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), p.NodePort))
		}
		taken[key] = true
	}
	return errs
}

// count returns how many of the conditions hold.
func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// sorted returns the names in a list, so that errors come in the same order each time.
func sorted(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
