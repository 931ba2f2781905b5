package resource

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	rules "huolala.cn/app-operator/api/v1/validation"
)

// patchTemplate applies a strategic merge patch to a pod template, and then states again what makes it this workload's:
// the labels of its identity, and that the operator's annotations are its own. A patch that cannot be applied leaves the
// template as it is; one that makes of it what no pod can be is applied, and is an error as well.
func patchTemplate(template *corev1.PodTemplateSpec, patch *runtime.RawExtension, identity map[string]string, p part) field.ErrorList {
	if patch == nil || len(patch.Raw) == 0 {
		return nil
	}
	path := p.path.Child("podTemplatePatch")
	plain, err := json.Marshal(template)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	patched, err := strategicpatch.StrategicMergePatch(plain, patch.Raw, corev1.PodTemplateSpec{})
	if err != nil {
		return field.ErrorList{field.Invalid(path, "a patch", "is no strategic merge patch for a pod template: "+err.Error())}
	}
	var result corev1.PodTemplateSpec
	unknown, err := kjson.UnmarshalStrict(patched, &result)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "a patch", "makes no pod template: "+err.Error())}
	}
	var errs field.ErrorList
	for _, err := range unknown {
		// As in: unknown field "spec.containers[0].x"
		errs = append(errs, field.Invalid(path, "a patch", err.Error()+", which a pod template does not have"))
	}
	main := slices.IndexFunc(result.Spec.Containers, func(c corev1.Container) bool { return c.Name == p.container })
	if main < 0 {
		errs = append(errs, field.Invalid(path.Child("spec", "containers"), "a patch",
			fmt.Sprintf("must keep the main container, %q", p.container)))
	}
	if len(errs) > 0 {
		return errs
	}
	// A patch puts what it adds in front, and the first container is the one that kubectl means if nobody says otherwise.
	first := result.Spec.Containers[main]
	result.Spec.Containers = slices.Insert(slices.Delete(result.Spec.Containers, main, main+1), 0, first)
	result.Labels = merged(result.Labels, identity)
	maps.DeleteFunc(result.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, appv1.GroupVersion.Group+"/") })
	errs = rules.PodTemplate(template, &result, p.claims, path)
	*template = result
	return errs
}
