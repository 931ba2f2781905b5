package validation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// envs checks that each variable has a value or exactly one source, and a name that a container takes
// (k8s.io/apimachinery/pkg/util/validation, IsRelaxedEnvVarName). No error repeats a value: it may be a secret.
func envs(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		if full(errs) {
			break
		}
		v, at := &vars[i], path.Index(i)
		errs = append(errs, faults(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName(v.Name))...)
		if v.ValueFrom == nil {
			continue
		}
		at = at.Child("valueFrom")
		if v.Value != "" {
			errs = append(errs, field.Forbidden(at, messageValueExcludesValueFrom))
		}
		if n := set(*v.ValueFrom); n != 1 {
			errs = append(errs, field.Invalid(at, fmt.Sprintf(messageCountOfSources, n), messageValueFromNeedsOneSource))
		}
		errs = append(errs, source(v.ValueFrom, at)...)
	}
	return errs
}

// source checks where a variable has its value from.
func source(from *corev1.EnvVarSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref := from.FieldRef; ref != nil {
		errs = append(errs, fieldRef(ref, ofVariable, at.Child("fieldRef"))...)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		errs = append(errs, resourceFieldRef(ref, at.Child("resourceFieldRef"))...)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		errs = append(errs, subdomain(ref.Name, at.Child("configMapKeyRef", "name"))...)
		errs = append(errs, faults(at.Child("configMapKeyRef", "key"), ref.Key, validation.IsConfigMapKey(ref.Key))...)
	}
	if ref := from.SecretKeyRef; ref != nil {
		errs = append(errs, subdomain(ref.Name, at.Child("secretKeyRef", "name"))...)
		errs = append(errs, faults(at.Child("secretKeyRef", "key"), ref.Key, validation.IsConfigMapKey(ref.Key))...)
	}
	if ref := from.FileKeyRef; ref != nil {
		at := at.Child("fileKeyRef")
		errs = append(errs, faults(at.Child("key"), ref.Key, validation.IsRelaxedEnvVarName(ref.Key))...)
		switch {
		case ref.Path == "":
			errs = append(errs, field.Required(at.Child("path"), messageVariableFileRequired))
		case backsteps(ref.Path):
			errs = append(errs, field.Invalid(at.Child("path"), ref.Path, messagePathMustNotContainDotDot))
		}
	}
	return errs
}

// envFrom checks that each entry names one ConfigMap or one Secret.
func envFrom(sources []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range sources {
		if full(errs) {
			break
		}
		s, at := &sources[i], path.Index(i)
		if s.Prefix != "" {
			errs = append(errs, faults(at.Child("prefix"), s.Prefix, validation.IsRelaxedEnvVarName(s.Prefix))...)
		}
		if (s.ConfigMapRef != nil) == (s.SecretRef != nil) {
			errs = append(errs, field.Invalid(at, messageItsSource, messageEnvFromNeedsOneSource))
			continue
		}
		if s.ConfigMapRef != nil {
			errs = append(errs, envObject(s.ConfigMapRef.Name, messageConfigMapRequired, at.Child("configMapRef", "name"))...)
		} else {
			errs = append(errs, envObject(s.SecretRef.Name, messageSecretRequired, at.Child("secretRef", "name"))...)
		}
	}
	return errs
}

// envObject checks the name of an object that variables come from. As for the API server it may be the beginning of one, and
// end with a dash.
func envObject(name, what string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, what)}
	}
	return faults(at, name, apivalidation.NameIsDNSSubdomain(name, true))
}

// files checks that variables that are read from a file name the volume it is in.
func (p *pod) files(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		if full(errs) {
			break
		}
		from := vars[i].ValueFrom
		if from == nil || from.FileKeyRef == nil {
			continue
		}
		name, at := from.FileKeyRef.VolumeName, path.Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
		if source, known := p.volumes[name]; known && source.EmptyDir == nil {
			errs = append(errs, field.Invalid(at, name, messageVariableFileNeedsEmptyDir))
		}
		errs = append(errs, p.volume(name, at)...)
	}
	return errs
}

// The fields of a pod that a variable or a file can be filled from.
var (
	ofVariable = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.host", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	ofFile = sets.New("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations")
)

// fieldRef checks that a field of a pod is named that is known.
func fieldRef(ref *corev1.ObjectFieldSelector, known sets.Set[string], at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("apiVersion"), ref.APIVersion, "", "v1")
	name, key, keyed := keyed(ref.FieldPath)
	at = at.Child("fieldPath")
	switch {
	case keyed && name == "metadata.labels":
		return append(errs, faults(at, ref.FieldPath, validation.IsQualifiedName(key))...)
	case keyed && name == "metadata.annotations":
		return append(errs, faults(at, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key)))...)
	case keyed || !known.Has(name):
		offered := append(sets.List(known.Clone().Delete("spec.host")), "metadata.labels['<key>']", "metadata.annotations['<key>']")
		return append(errs, field.NotSupported(at, ref.FieldPath, offered))
	}
	return errs
}

// keyed splits a path like metadata.labels['key'].
func keyed(path string) (name, key string, ok bool) {
	inner, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	name, key, ok = strings.Cut(inner, "['")
	if !ok || name == "" {
		return path, "", false
	}
	return name, key, true
}

// resourceFieldRef checks that a resource of a container is named, and a unit that it is counted in.
func resourceFieldRef(ref *corev1.ResourceFieldSelector, at *field.Path) field.ErrorList {
	units := sets.New("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
	_, name, _ := strings.Cut(ref.Resource, ".")
	switch {
	case ref.Resource == "limits.cpu" || ref.Resource == "requests.cpu":
		units = sets.New("1", "1m")
	case strings.HasPrefix(ref.Resource, "limits.hugepages-"), strings.HasPrefix(ref.Resource, "requests.hugepages-"):
	case ref.Resource == "limits."+name || ref.Resource == "requests."+name:
		if name == "memory" || name == "ephemeral-storage" {
			break
		}
		fallthrough
	default:
		return field.ErrorList{field.NotSupported(at.Child("resource"), ref.Resource, []string{
			"limits.cpu", "limits.memory", "limits.ephemeral-storage", "limits.hugepages-<size>",
			"requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.hugepages-<size>",
		})}
	}
	if unit := rounded(ref.Divisor); unit.Cmp(resource.Quantity{}) != 0 && !units.Has(unit.String()) {
		return field.ErrorList{field.NotSupported(at.Child("divisor"), unit.String(), sets.List(units))}
	}
	return nil
}
