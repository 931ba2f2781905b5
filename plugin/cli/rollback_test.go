package cli

import (
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRollbackAsksInTime has no answer to the dry run: the question has the pods of other revisions.
func TestRollbackAsksInTime(t *testing.T) {
	f := revisionServer(t, "web-3")
	silent := func(q *http.Request) (*http.Response, error) {
		if q.URL.Query().Get("dryRun") != "" {
			<-q.Context().Done()
			return nil, q.Context().Err()
		}
		return f.serveTrip(q)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, said, err := f.runWith(t.Context(), t, silent, "rollback", "web", "--to", "2")
		if took := time.Since(began); err == nil || !strings.Contains(said+err.Error(), "Restore this? No pod restarts.") || took > planWithin+time.Second {
			t.Errorf("after %s: %v\n%s", took, err, said)
		}
	})
}

// TestRollbackAsks has the question before a rollback: the number of pods is that of the operator's plan, which builds the recorded spec with the inputs of
// today. Without a plan, and for a plan that leaves the pods for later, it is that of the pods of other revisions: one pod.
func TestRollbackAsks(t *testing.T) {
	replaces := func(kept int32, change func(*plan.Plan)) runtime.Object {
		p := &plan.Plan{Objects: []plan.Object{{
			Kind: "Deployment", Name: "web", Action: plan.Changed, Pods: &plan.Pods{Replaced: true, Running: 3, Wanted: 3, Kept: kept},
		}}}
		change(p)
		return answeredPlan(t, p)
	}
	as := func(*plan.Plan) {}
	canary := func(action plan.Action) runtime.Object {
		return answeredPlan(t, &plan.Plan{Objects: []plan.Object{{
			Kind: "Deployment", Name: "web-canary", Action: action, Pods: &plan.Pods{Canary: true, Running: 3, Wanted: 1},
		}}})
	}
	problem := func(reason string) runtime.Object {
		return answeredPlan(t, &plan.Plan{Objects: []plan.Object{}, Problem: &plan.Problem{Reason: reason}})
	}
	pod := corev1.Pod{ObjectMeta: objectMeta("web-3-a")}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-3", UID: "web-3", Controller: ptr.To(true)}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	fails := func(app *appv1.App) {
		app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonApplyFailed}}
	}
	paused := func(app *appv1.App) { app.Spec.Paused = true }
	held := func(app *appv1.App) { app.Annotations = map[string]string{appv1.AnnotationHold: "web-3"} }
	for name, c := range map[string]struct {
		answer runtime.Object // To the dry run.
		change func(*appv1.App)
		asks   string
		said   string
	}{
		"a canary is created":   {canary(plan.Created), func(*appv1.App) {}, "Restore this? 3 pods restart once the canary is promoted. ", ""},
		"a canary is another":   {canary(plan.Recreated), func(*appv1.App) {}, "Restore this? 3 pods restart once the canary is promoted. ", ""},
		"a canary is removed":   {canary(plan.Deleted), func(*appv1.App) {}, "Restore this? No pod restarts. ", ""},
		"a canary, and paused":  {canary(plan.Created), paused, "Restore this? 3 pods restart once it is resumed and the canary is promoted. ", ""},
		"all pods restart":      {replaces(0, as), func(*appv1.App) {}, "Restore this? 3 pods restart. ", "rolled back to revision 2\n"},
		"one pod restarts":      {replaces(2, as), func(*appv1.App) {}, "Restore this? 1 pod restarts. ", "rolled back to revision 2\n"},
		"all pods are kept":     {replaces(3, as), func(*appv1.App) {}, "Restore this? No pod restarts. ", "rolled back to revision 2\n"},
		"no plan":               {nil, func(*appv1.App) {}, "Restore this? 1 pod restarts. ", "rolled back to revision 2\n"},
		"a refused plan":        {status(apierrors.NewBadRequest("not today")), func(*appv1.App) {}, "Restore this? 1 pod restarts. ", ""},
		"an incomplete plan":    {replaces(0, func(p *plan.Plan) { p.Incomplete = true }), func(*appv1.App) {}, "Restore this? 1 pod restarts. ", ""},
		"a plan with obstacle":  {replaces(0, func(p *plan.Plan) { p.Problem = &plan.Problem{Reason: "ApplyFailed"} }), func(*appv1.App) {}, "Restore this? 1 pod restarts. ", ""},
		"an obstacle of before": {problem(appv1.ReasonApplyFailed), fails, "Restore this? 1 pod restarts. ", ""},
		"an earlier tier":       {problem(appv1.ReasonDependencyNotReady), func(*appv1.App) {}, "Restore this? 1 pod restarts. ", ""},
		"held by its plan":      {problem(appv1.ReasonHeld), held, "Restore this? No pod restarts. ", ""},
		"gone back by its plan": {problem(appv1.ReasonRolledBack), func(*appv1.App) {}, "Restore this? No pod restarts. ", ""},
		"it is paused":          {replaces(0, as), paused, "Restore this? 3 pods restart once it is resumed. ", "rolled back to revision 2; it is paused, so this takes effect once it is resumed\n"},
		"it is held":            {replaces(3, as), held, "Restore this? No pod restarts. ", `rolled back to revision 2; it is held at web-3, so this takes effect after "kubectl happ unhold web -n shop"` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := revisionServer(t, "web-3")
			c.change(f.objects["apps/web"].(*appv1.App)) //nolint:forcetypeassert // It is made there.
			list := f.answer
			f.answer = func(q *http.Request, body string) runtime.Object {
				switch path.Base(q.URL.Path) {
				case "pods":
					return &corev1.PodList{Items: []corev1.Pod{pod}}
				case "replicasets":
					sets := list(q, body).(*appsv1.ReplicaSetList).DeepCopy() //nolint:forcetypeassert // revisionServer lists them.
					for i := range sets.Items {
						sets.Items[i].UID = types.UID(sets.Items[i].Name)
					}
					return sets
				}
				if q.URL.Query().Get("dryRun") != "" {
					if !strings.Contains(body, "app.huolala.cn~1plan") {
						t.Errorf("the dry run asks for no plan: %s", body)
					}
					return c.answer
				}
				return list(q, body)
			}
			args := []string{"rollback", "web", "--to", "2", "--force"}
			if code, out, said := f.run(t, args...); code != 1 || !strings.Contains(said, c.asks) || len(f.writes) > 0 {
				t.Errorf("exit status %d, writes %q\n%s%s", code, f.writes, out, said)
			}
			if code, out, said := f.run(t, append(args, "--yes")...); code != 0 || !strings.Contains(out, c.said) || len(f.writes) != 1 {
				t.Errorf("with --yes: exit status %d, writes %q\n%s%s", code, f.writes, out, said)
			}
		})
	}
}
