package controllers

import (
	"fmt"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// sizedWorld is a world with an App of the size small that has been reconciled.
func sizedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, "App"), `{"image":"nginx:1","size":"small","replicas":1}`))
	w.settle("App")
	w.requests = nil
	return w
}

// TestEditedInputsDoNotRestart lets others write each record of a Deployment: the pod template stays as it is, and the record is
// restored.
func TestEditedInputsDoNotRestart(t *testing.T) {
	forEach(t, map[string]string{
		"no record": "", "no JSON": "{", "no rendering": `{"rendering":0}`, "an unknown rendering": `{"rendering":1}`, "a later rendering": `{"rendering":99}`,
		"a refresh":    resource.BuildInputs{Rendering: resource.RenderingLatest, Refresh: "1"}.Encode(),
		"another size": resource.BuildInputs{Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve("large")}.Encode(),
	}, func(t *testing.T, _, value string) {
		w := sizedWorld(t)
		before := w.deployment()
		edited := w.deployment()
		edited.Annotations[appv1.AnnotationLastAppliedInputs] = value
		if value == "" {
			delete(edited.Annotations, appv1.AnnotationLastAppliedInputs)
		}
		w.update(edited)
		w.restart()
		w.settle("App")
		after := w.deployment()
		if fmt.Sprint(after.Spec.Template) != fmt.Sprint(before.Spec.Template) {
			t.Errorf("the record %q restarts the pods", value)
		}
		if got, want := after.Annotations[appv1.AnnotationLastAppliedInputs], before.Annotations[appv1.AnnotationLastAppliedInputs]; got != want {
			t.Errorf("the record %q became %q, want %q", value, got, want)
		}
	})
}

// TestUpgradeKeepsTheTemplate reconciles Apps of earlier renderings with today's operator, with their record and without it: no
// pod restarts until a refresh is asked for, or the spec changes.
func TestUpgradeKeepsTheTemplate(t *testing.T) {
	for _, rendering := range resource.Renderings()[1:] {
		for _, lost := range []bool{false, true} {
			what := fmt.Sprintf("rendering %d, record lost: %t", rendering, lost)
			t.Run(what, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:1", `[{"name":"http","port":80,"targetPort":8080}]`)))
				w.Today.Rendering = rendering
				w.settle("App")
				before := w.deployment()
				if lost {
					edited := w.deployment()
					delete(edited.Annotations, appv1.AnnotationLastAppliedInputs)
					w.update(edited)
				}
				w.Today.Rendering = resource.RenderingLatest
				w.restart()
				w.settle("App")
				if after := w.deployment(); fmt.Sprint(after.Spec.Template) != fmt.Sprint(before.Spec.Template) {
					t.Errorf("%s: the pods restart", what)
				}
				if got := w.status("App"); got.Rendering != rendering || got.LatestRendering != resource.RenderingLatest {
					t.Errorf("%s: the status says %d, and %d is the latest", what, got.Rendering, got.LatestRendering)
				}
				w.annotate("App", appv1.AnnotationRefresh, "now")
				w.settle("App")
				if got := w.status("App"); got.Rendering != resource.RenderingLatest || got.LatestRendering != 0 {
					t.Errorf("%s, after a refresh: the status says %d, and %d is the latest", what, got.Rendering, got.LatestRendering)
				}
			})
		}
	}
}
