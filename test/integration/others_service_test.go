package integration

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestForeignService puts a Service of the wanted name in the way that serves others, in part or not at all. What the status, the plan and
// the warning say of it is what an adoption then does: no pod that the Service selects is lost.
func TestForeignService(t *testing.T) {
	t.Parallel()
	const shared, own = "is for pods that do not belong to this resource", "kubectl annotate app/web -n "
	for name, c := range map[string]struct {
		selector map[string]string
		// others are the labels of a pod that is not the App's.
		others  map[string]string
		adopted bool
		// idle is the selector of another Deployment, which has no pods.
		idle map[string]string
	}{
		"the same":               {map[string]string{"run": "web"}, nil, true, nil},
		"of others":              {map[string]string{"app": "other"}, map[string]string{"app": "other"}, false, nil},
		"of others at zero":      {map[string]string{"app": "other"}, nil, true, nil},
		"without a selector":     {nil, nil, false, nil},
		"shared":                 {map[string]string{"tier": "all"}, map[string]string{"tier": "all"}, false, nil},
		"wider, for itself":      {map[string]string{"tier": "all"}, nil, true, nil},
		"wider by one label":     {map[string]string{"tier": "all"}, map[string]string{"tier": "all", "run": "other"}, false, nil},
		"narrower":               {map[string]string{"run": "web", "tier": "all"}, map[string]string{"run": "other", "tier": "all"}, true, nil},
		"shared, at zero":        {map[string]string{"tier": "all"}, nil, false, map[string]string{"tier": "all", "run": "other"}},
		"of idle others":         {map[string]string{"app": "other"}, nil, false, map[string]string{"app": "other"}},
		"next to idle others":    {map[string]string{"run": "web", "tier": "all"}, nil, true, map[string]string{"tier": "all", "run": "other"}},
		"narrower, of a variant": {map[string]string{"run": "web", "track": "canary"}, map[string]string{"run": "web", "track": "canary"}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			m := startGuarded(t, ns)
			d, s := newHandMade(ns, "web"), newHandMadeService(ns, "shared")
			d.Spec.Template.Labels = map[string]string{"run": "web", "tier": "all"}
			s.Spec.Selector = c.selector
			plane.Create(t, d)
			app := newApp(ns, "web")
			app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
			plane.Create(t, app)
			plane.Stands(t, app, progressing...)
			plane.Create(t, s)
			if c.others != nil {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other", Labels: c.others}}
				pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "httpd"}}
				plane.Create(t, pod)
			}
			if c.idle != nil {
				idle := newHandMade(ns, "idle")
				idle.Spec.Replicas, idle.Spec.Selector.MatchLabels, idle.Spec.Template.Labels = ptr.To[int32](0), c.idle, c.idle
				plane.Create(t, idle)
			}
			was := readWhole(t, s)
			u := newUser(t)
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Annotations, app.Spec.Service.Name = nil, "shared" })
			plane.Stands(t, app, exists...)
			harness.Says(t, app, "Stalled", map[bool]string{true: own, false: shared}[c.adopted])
			if said := harness.Message(app, "Stalled"); !strings.HasPrefix(said, "Service shared exists and ") || !c.adopted && strings.Contains(said, own) {
				t.Errorf("the condition says %q", said)
			}
			for _, value := range []string{"true", appv1.AdoptWithoutRestart} {
				plane.Read(t, app)
				wanted := app.DeepCopy()
				wanted.Annotations = map[string]string{appv1.AnnotationAdopt: value}
				if err := u.Update(t.Context(), wanted.DeepCopy(), client.DryRunAll); err != nil {
					t.Fatal(err)
				}
				warned := strings.Join(u.warnings(), "\n")
				restarts := value != "true" && !maps.Equal(c.selector, d.Spec.Selector.MatchLabels)
				if adopts := strings.Contains(warned, "Service shared exists and will be adopted"); adopts != (c.adopted && !restarts) || !c.adopted && !strings.Contains(warned, shared) {
					t.Errorf("%s: the warning is %s", value, warned)
				}
				made := askPlan(t, plane.Client, wanted)
				switch {
				case !c.adopted && (made.Problem == nil || !strings.Contains(made.Problem.Message, shared) || strings.Contains(made.Problem.Message, own)):
					t.Errorf("%s: the plan is %+v, %v", value, made, made.Problem)
				case c.adopted && !restarts && made.Problem != nil, c.adopted && restarts && (made.Problem == nil || made.Problem.Reason != appv1.ReasonAdoptionRestarts):
					t.Errorf("%s: the plan is %+v, %v", value, made, made.Problem)
				}
			}
			setAnnotation(t, app, appv1.AnnotationAdopt, "true")
			if !c.adopted {
				m.Idle(t)
				plane.Stands(t, app, exists...)
				harness.Says(t, app, "Stalled", shared)
				if strings.Contains(harness.Message(app, "Stalled"), own) {
					t.Errorf("the condition advises an adoption: %s", harness.Message(app, "Stalled"))
				}
				checkUntouched(t, s, was)
				return
			}
			plane.Stands(t, app, progressing...)
			plane.Read(t, s)
			if !metav1.IsControlledBy(s, app) || !maps.Equal(s.Spec.Selector, d.Spec.Selector.MatchLabels) {
				t.Errorf("the Service is %v", s)
			}
		})
	}
}
