package cli

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestRestartOfPausedRollouts restarts nothing while the rollouts of the Deployment are paused, also of a Deployment of others.
func TestRestartOfPausedRollouts(t *testing.T) {
	for name, c := range map[string]struct {
		owned, paused bool
		argument      string
		want          string
	}{
		"an App":                       {true, true, "web", `kubectl rollout resume deployment/web`},
		"a UnitedDeployment":           {false, true, "ud/web", `kubectl rollout resume deployment/web`},
		"an App whose rollouts go on":  {true, false, "web", "Deployment shop/web restarted"},
		"a Deployment of someone else": {false, false, "web", "not controlled by App shop/web"},
	} {
		app, united := &appv1.App{ObjectMeta: objectMeta("web")}, &appv1.UnitedDeployment{ObjectMeta: objectMeta("web")}
		united.Spec.DeploymentName = "web"
		d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
		d.Spec.Paused = c.paused
		if c.owned {
			d.OwnerReferences = []metav1.OwnerReference{{UID: app.UID, Controller: ptr.To(true)}}
		}
		f := newFakeServer(t, map[string]runtime.Object{"apps/web": app, "uniteddeployments/web": united, "deployments/web": d})
		code, out, said := f.run(t, "restart", c.argument, "--yes")
		done := strings.Contains(c.want, "restarted")
		if !strings.Contains(out+said, c.want) || (code == 0) != done || (len(f.writes) > 0) != done {
			t.Errorf("%s: exit status %d, %q, writes %q; want %q", name, code, out+said, f.writes, c.want)
		}
	}
}
