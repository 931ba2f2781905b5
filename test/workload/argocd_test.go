package workload

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// argocd is what Argo CD says of a resource's health.
type argocd struct {
	t      *testing.T
	script string
	// asked has the answers that were awaited, by kind.
	asked map[string]sets.Set[string]
}

// newArgoCD reads the health check that docs/gitops.md gives to Argo CD.
func newArgoCD(t *testing.T) *argocd {
	t.Helper()
	data, err := os.ReadFile("../../config/gitops/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch struct {
		Data map[string]string `json:"data"`
	}
	var customizations map[string]map[string]string
	err = yaml.UnmarshalStrict(data, &patch)
	if err == nil {
		err = yaml.UnmarshalStrict([]byte(patch.Data["resource.customizations"]), &customizations)
	}
	script := customizations[appv1.GroupVersion.Group+"/*"]["health.lua"]
	if err != nil || script == "" {
		t.Fatalf("no health check: %v", err)
	}
	return &argocd{t, script, map[string]sets.Set[string]{}}
}

// health runs the check as Argo CD does: with the resource as obj, and without the libraries that reach out.
func (a *argocd) health(obj map[string]any) (status, message string, err error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	l.SetGlobal("obj", luaValue(l, obj))
	if err := l.DoString(a.script); err != nil {
		return "", "", err
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the check returns %v, want a table", l.Get(-1))
	}
	return lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message")), nil
}

// luaValue is a value of JSON in Lua.
func luaValue(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(l, item))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, item := range v {
			table.Append(luaValue(l, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

// says waits until Argo CD says so of a resource as it is in the API server.
func (a *argocd) says(obj client.Object, kind, status string, words ...string) {
	a.t.Helper()
	if a.asked[kind] == nil {
		a.asked[kind] = sets.New[string]()
	}
	a.asked[kind].Insert(status)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(appv1.GroupVersion.WithKind(kind))
	harness.Eventually(a.t, func() error {
		if err := plane.Client.Get(a.t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		is, message, err := a.health(live.Object)
		if err == nil && is != status {
			err = fmt.Errorf("Argo CD says %s (%s), want %s", is, message, status)
		}
		for _, word := range words {
			if err == nil && !strings.Contains(message, word) {
				err = fmt.Errorf("Argo CD does not say %q: %s", word, message)
			}
		}
		return err
	})
	if status == "Progressing" {
		return
	}
	// Of a spec that the operator has not seen nothing is known.
	live.SetGeneration(live.GetGeneration() + 1)
	if is, message, err := a.health(live.Object); err != nil || is != "Progressing" || !strings.Contains(message, "not looked at") {
		a.t.Errorf("after a change of the spec Argo CD says %s (%s), %v", is, message, err)
	}
}

// TestArgoCD takes each kind through what can become of it, and asks the health check of docs/gitops.md at each point.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	app, box, ud := newApp(ns), newModelBox(ns), newUnited(ns)
	box.Name, ud.Spec.DeploymentName = "box", "theirs"
	task := fixture.NewTask(ns, "task")
	defaults := &appv1.AppDefaults{ObjectMeta: fixture.Meta(ns, appv1.AppDefaultsName)}
	plane.Create(t, defaults, app, box, ud, task)
	newKubectl(t, ns).run("apply", "-f", cloudManagerSample)
	cm := &appv1.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cloudmanager-sample"}}
	argo := newArgoCD(t)

	argo.says(app, "App", "Progressing", "not looked at")
	plane.Start(t, ns)
	argo.says(app, "App", "Healthy", "Ready: ")
	argo.says(box, "ModelBox", "Healthy", "Ready: ")
	argo.says(cm, "CloudManager", "Healthy", "Ready: ")
	argo.says(task, "Task", "Healthy", "NoRun: ")
	argo.says(defaults, "AppDefaults", "Healthy", "Applied: ")
	argo.says(ud, "UnitedDeployment", "Progressing", "DeploymentNotFound: ", "theirs")

	theirs := newForeign(ns)
	theirs.Name = "theirs"
	plane.Create(t, theirs)
	argo.says(ud, "UnitedDeployment", "Healthy", "Ready: ")
	plane.Change(t, ud, func() { ud.Spec.DeploymentName = "web" })
	argo.says(ud, "UnitedDeployment", "Degraded", "ScaleConflict: ", "web")

	plane.Change(t, app, func() { app.Spec.Image = "imagepullbackoff.test/x:1" })
	argo.says(app, "App", "Progressing", "ImagePullBackOff: ")
	plane.Change(t, app, func() { app.Spec.Paused, app.Spec.Image = true, "imagepullbackoff.test/x:2" })
	argo.says(app, "App", "Suspended", "Paused: ")
	plane.Change(t, app, func() { app.Spec.Paused, app.Spec.ProgressDeadlineSeconds = false, ptr.To[int32](2) })
	argo.says(app, "App", "Degraded", "ImagePullBackOff: ", "2 s")

	plane.Change(t, box, func() { box.Spec.Image = "imagepullbackoff.test/x:1" })
	argo.says(box, "ModelBox", "Progressing", "ImagePullBackOff: ")

	plane.Read(t, cm)
	plane.Change(t, cm, func() { cm.Spec.Front.Deployment.Image = "crashloopbackoff.test/x:1" })
	argo.says(cm, "CloudManager", "Progressing", "CrashLoopBackOff: ")
	// The database's only pod is replaced by one that fails.
	plane.Change(t, cm, func() { cm.Spec.DB.StatefulSet.Image = "crashloopbackoff.test/x:1" })
	argo.says(cm, "CloudManager", "Degraded", "CrashLoopBackOff: ", "cm-db")
	plane.Change(t, cm, func() { cm.Spec.DB.RootPass = "another" })
	argo.says(cm, "CloudManager", "Degraded", "rootPass")

	plane.Read(t, task)
	plane.Change(t, task, func() { task.Spec.Image = "jobfails.test/report:1" })
	nextRuns(t, task, "jobfails.test/report:1")
	startRun(t, task, "failing")
	argo.says(task, "Task", "Degraded", "RunFailed: ")
	plane.Change(t, task, func() { task.Spec.Image = fixture.Image })
	nextRuns(t, task, fixture.Image)
	startRun(t, task, "succeeding")
	argo.says(task, "Task", "Healthy", "Succeeded: ")
	plane.Read(t, task)
	plane.Change(t, task, func() { task.Spec.Suspended = true })
	argo.says(task, "Task", "Suspended", "Suspended: ")

	plane.Read(t, defaults)
	plane.Change(t, defaults, func() { defaults.Spec.Defaults.VolumeMounts = []corev1.VolumeMount{{Name: "none", MountPath: "/none"}} })
	argo.says(defaults, "AppDefaults", "Degraded", "Invalid: ")

	for _, k := range fixture.Kinds {
		if !argo.asked[k.Name].HasAll("Healthy") || argo.asked[k.Name].Len() < 2 {
			t.Errorf("the health of the kind %s was asked for in the states %v", k.Name, sets.List(argo.asked[k.Name]))
		}
	}
}

// TestArgoCDOfConditions checks what the health check makes of the conditions Applied, Ready and Stalled.
func TestArgoCDOfConditions(t *testing.T) {
	t.Parallel()
	argo := newArgoCD(t)
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "why"}
	}
	ready, notReady := condition("Ready", "True", "Ready"), condition("Ready", "False", "Progressing")
	for name, c := range map[string]struct {
		observed     int64
		conditions   []any
		want, saying string
	}{
		"not looked at":                {-1, nil, "Progressing", "not looked at"},
		"well":                         {1, []any{ready, condition("Applied", "True", "Applied")}, "Healthy", "Ready: why"},
		"well without Applied":         {1, []any{ready}, "Healthy", "Ready: why"},
		"changed by admission":         {1, []any{ready, condition("Applied", "True", "Overridden")}, "Healthy", "Ready: why"},
		"on its way":                   {1, []any{notReady, condition("Applied", "True", "Applied")}, "Progressing", "Progressing: why"},
		"paused":                       {1, []any{condition("Ready", "Unknown", "Paused"), condition("Applied", "False", "Paused")}, "Suspended", "Paused: why"},
		"held":                         {1, []any{condition("Ready", "False", "Held"), condition("Applied", "False", "Held")}, "Suspended", "Held: why"},
		"a Task is suspended":          {1, []any{condition("Ready", "True", "Suspended"), condition("Applied", "True", "Applied")}, "Suspended", "Suspended: why"},
		"a run goes on":                {1, []any{condition("Ready", "True", "Running"), condition("Applied", "True", "Applied")}, "Healthy", "Running: why"},
		"a run has failed":             {1, []any{condition("Ready", "False", "RunFailed"), condition("Stalled", "True", "RunFailed")}, "Degraded", "RunFailed: why"},
		"the App of a Task is missing": {1, []any{condition("Ready", "Unknown", "DependencyNotReady"), condition("Applied", "False", "DependencyNotReady")}, "Progressing", "DependencyNotReady: why"},
		"a canary waits":               {1, []any{condition("Ready", "Unknown", "Canary"), condition("Applied", "False", "Canary")}, "Suspended", "Canary: why"},
		"a canary fails":               {1, []any{notReady, condition("Applied", "False", "Canary"), condition("Stalled", "True", "CrashLoopBackOff")}, "Degraded", "CrashLoopBackOff: why"},
		"a command runs":               {1, []any{condition("Ready", "False", "BeforeRollout"), condition("Applied", "False", "BeforeRollout")}, "Progressing", "BeforeRollout: why"},
		"a command fails":              {1, []any{notReady, condition("Applied", "False", "BeforeRolloutFailed"), condition("Stalled", "True", "BeforeRolloutFailed")}, "Degraded", "BeforeRolloutFailed: why"},
		"rolled back":                  {1, []any{notReady, condition("Applied", "False", "RolledBack"), condition("Stalled", "True", "RolledBack")}, "Degraded", "RolledBack: why"},
		"invalid":                      {1, []any{notReady, condition("Applied", "False", "Invalid"), condition("Stalled", "True", "Invalid")}, "Degraded", "Invalid: why"},
		"paused and stalled":           {1, []any{notReady, condition("Applied", "False", "Paused"), condition("Stalled", "True", "ImagePullBackOff")}, "Degraded", "ImagePullBackOff: why"},
		"refused, and tried again":     {1, []any{notReady, condition("Applied", "False", "Forbidden")}, "Progressing", "Progressing: why"},
		"an optional child in trouble": {1, []any{ready, condition("Applied", "False", "Forbidden")}, "Healthy", "Ready: why"},
	} {
		status, message, err := argo.health(map[string]any{
			"metadata": map[string]any{"generation": int64(1)},
			"status":   map[string]any{"observedGeneration": c.observed, "conditions": c.conditions},
		})
		if err != nil || status != c.want || !strings.Contains(message, c.saying) {
			t.Errorf("%s: %s (%s), %v; want %s (%s)", name, status, message, err, c.want, c.saying)
		}
	}
}

// TestArgoCDWithoutStatus checks that a resource without a status, or with a part of one, is no error.
func TestArgoCDWithoutStatus(t *testing.T) {
	t.Parallel()
	argo := newArgoCD(t)
	for name, obj := range map[string]map[string]any{
		"new":              {"metadata": map[string]any{"generation": int64(1)}},
		"without metadata": {"metadata": map[string]any{}},
		"no conditions":    {"metadata": map[string]any{"generation": int64(1)}, "status": map[string]any{"observedGeneration": int64(1)}},
		"no message": {"metadata": map[string]any{}, "status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "reason": "Progressing"},
		}}},
	} {
		if status, _, err := argo.health(obj); status != "Progressing" {
			t.Errorf("%s: %s, %v", name, status, errors.Join(err))
		}
	}
}
