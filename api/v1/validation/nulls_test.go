package validation

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestNullWarnings has patches as a file has them, and as they arrive: a null that is missing is warned about, for both kinds with a patch.
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
		app := &appv1.App{}
		app.Spec.Image = "a:1"
		app.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"podTemplatePatch":` + c.file + `}}`}
		app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(c.arrived)}
		box := &appv1.ModelBox{ObjectMeta: app.ObjectMeta}
		box.Spec.WorkloadSpec = app.Spec.WorkloadSpec
		for _, said := range [][]string{AppWarnings(app), ModelBoxWarnings(box)} {
			found := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, messageNullDropped) })
			if (found >= 0) != (c.at != "") || found >= 0 && !strings.HasPrefix(said[found], c.at+": ") {
				t.Errorf("%s: %q, want a warning of %q", name, said, c.at)
			}
		}
	}
}
