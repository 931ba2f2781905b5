package validation

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestNullWarnings has patches as a file has them, and as they arrive: a null that is missing is warned about, for each kind with a patch.
func TestNullWarnings(t *testing.T) {
	for name, c := range map[string]struct{ file, arrived, at string }{
		"kept":                {`{"spec":{"affinity":null}}`, `{"spec":{"affinity":null}}`, ""},
		"dropped":             {`{"spec":{"affinity":null}}`, `{"spec":{}}`, "spec.podTemplatePatch.spec.affinity"},
		"dropped with all":    {`{"spec":{"affinity":null}}`, `{}`, "spec.podTemplatePatch.spec.affinity"},
		"dropped in an item":  {`{"spec":{"containers":[{"name":"a","readinessProbe":null}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, "spec.podTemplatePatch.spec.containers[0].readinessProbe"},
		"changed by others":   {`{"spec":{"containers":[{"name":"a","readinessProbe":null}]}}`, `{"spec":{"containers":[]}}`, ""},
		"a word":              {`{"spec":{"nodeName":"null"}}`, `{}`, ""},
		"no JSON":             {`{"spec":null`, `{}`, ""},
		"another type":        {`{"spec":null}`, `[]`, "spec.podTemplatePatch.spec"},
		"as deep as possible": {strings.Repeat("[", 20000) + "null", `{}`, ""},
	} {
		for path, warningsOf := range carriersOfPatches {
			at := c.at
			if at != "" {
				at = path + strings.TrimPrefix(at, "spec.podTemplatePatch")
			}
			file := c.file
			for _, name := range slices.Backward(strings.Split(path, ".")) {
				file = `{"` + name + `":` + file + `}`
			}
			meta := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: file}}
			for _, said := range warningsOf(meta, &runtime.RawExtension{Raw: []byte(c.arrived)}) {
				found := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, messageNullDropped) })
				if (found >= 0) != (at != "") || found >= 0 && !strings.HasPrefix(said[found], at+": ") {
					t.Errorf("%s at %s: %q, want a warning of %q", name, path, said, at)
				}
			}
		}
	}
}

// carriersOfPatches has functions that return the warnings of each kind with a patch, by the path of the patch.
var carriersOfPatches = map[string]func(metav1.ObjectMeta, *runtime.RawExtension) [][]string{
	"spec.podTemplatePatch": func(meta metav1.ObjectMeta, patch *runtime.RawExtension) [][]string {
		app, box, task := &appv1.App{ObjectMeta: meta}, &appv1.ModelBox{ObjectMeta: meta}, &appv1.Task{ObjectMeta: meta}
		app.Spec.PodTemplatePatch, box.Spec.PodTemplatePatch, task.Spec.PodTemplatePatch = patch, patch, patch
		return [][]string{AppWarnings(app, nil), ModelBoxWarnings(box, nil), TaskWarnings(task)}
	},
	"spec.template.podTemplatePatch": func(meta metav1.ObjectMeta, patch *runtime.RawExtension) [][]string {
		ud := &appv1.UnitedDeployment{ObjectMeta: meta}
		ud.Spec.Template = &appv1.WorkloadSpec{}
		ud.Spec.Template.PodTemplatePatch = patch
		return [][]string{UnitedDeploymentWarnings(ud)}
	},
	"spec.front.deployment.podTemplatePatch": func(meta metav1.ObjectMeta, patch *runtime.RawExtension) [][]string {
		cm := &appv1.CloudManager{ObjectMeta: meta}
		cm.Spec.Front.Deployment.PodTemplatePatch = patch
		return [][]string{CloudManagerWarnings(cm)}
	},
	"spec.identity.deployment.podTemplatePatch": func(meta metav1.ObjectMeta, patch *runtime.RawExtension) [][]string {
		cm := &appv1.CloudManager{ObjectMeta: meta}
		cm.Spec.Identity.Deployment.PodTemplatePatch = patch
		return [][]string{CloudManagerWarnings(cm)}
	},
	"spec.db.statefulSet.podTemplatePatch": func(meta metav1.ObjectMeta, patch *runtime.RawExtension) [][]string {
		cm := &appv1.CloudManager{ObjectMeta: meta}
		cm.Spec.DB.StatefulSet.PodTemplatePatch = patch
		return [][]string{CloudManagerWarnings(cm)}
	},
}
