package chaos

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestLimits has a namespace's quota and limits in the way of most of what is asked for. Nobody is restarted for that, the
// manager does not insist, and once they are raised all goes on by itself.
func TestLimits(t *testing.T) {
	t.Parallel()
	ns, n := plane.Namespace(t), of(6, 20)
	quota := &corev1.ResourceQuota{ObjectMeta: objectMeta(ns, "few"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourceServices: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("3"),
	}}}
	limits := &corev1.LimitRange{ObjectMeta: objectMeta(ns, "small"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
	}}}}
	plane.Create(t, quota, limits)
	plane.Until(t, quota, func() error {
		if len(quota.Status.Hard) == 0 {
			return errors.New("the quota is not in force yet")
		}
		return nil
	})
	x := plane.Proxy(t, nil)
	harness.Spawn(t, program, x.Config(), ns).Ready(t)
	var apps []*appv1.App
	for i := range n {
		app := newApp(objectMeta(ns, fmt.Sprintf("app-%d", i))).(*appv1.App)
		if i%3 == 0 {
			app.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")} // Above the limit.
		}
		plane.Create(t, app)
		apps = append(apps, app)
	}
	reasons := map[string]int{}
	for _, app := range apps {
		plane.Until(t, app, func() error {
			if app.Status.ObservedGeneration < 1 || len(app.Status.Conditions) == 0 || app.Status.Conditions[0].Reason == "Progressing" {
				return fmt.Errorf("it does not say what is in its way: %+v", app.Status.Conditions)
			}
			return nil
		})
		reasons[app.Status.Conditions[0].Reason]++
	}
	if reasons[appv1.ReasonForbidden] == 0 {
		t.Errorf("none ran into the quota: %v", reasons)
	}
	x.Requests.Reset()
	began, away := time.Now(), time.Duration(of(3, 60))*time.Second
	pause(t, away)
	sent, late := 0, 0
	for _, q := range x.Requests.All() {
		if sent++; q.Sent.Sub(began) > away/2 {
			late++
		}
	}
	// Each is tried less and less often, so twice at most in this half: at first in milliseconds, at last once a minute. A try
	// is a write of the Service, of the status and of an event.
	if most := 2 * 3 * n; late > most {
		t.Errorf("%d requests of %d Apps that run into a quota in the second half of %s, want at most %d", late, n, away, most)
	}

	plane.Read(t, quota)
	plane.Change(t, quota, func() {
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourceServices: resource.MustParse("100"), corev1.ResourcePods: resource.MustParse("100")}
	})
	plane.Delete(t, limits)
	began = time.Now()
	for _, app := range apps {
		plane.Until(t, app, func() error { return (&script{controlled: true}).settled(app) })
	}
	results.add(t, "quota and LimitRange", n, []time.Duration{time.Since(began)}, "until all are Ready; %d requests while in the way, %d of them in the second half; %v", sent, late, reasons)
}

// TestNamespaceDeleted deletes a namespace in which users are at work, with a manager that has another one to work on.
func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	other := plane.Namespace(t)
	var took []time.Duration
	runs := of(1, 5)
	for i := range runs {
		ns := &corev1.Namespace{}
		ns.GenerateName = "doomed-"
		plane.Create(t, ns)
		x := plane.Proxy(t, nil)
		process := harness.Spawn(t, program, x.Config(), ns.Name+","+other)
		process.Ready(t)
		n := of(8, 30)
		for j := range n {
			plane.Create(t, kinds[j%len(kinds)].make(objectMeta(ns.Name, fmt.Sprintf("%s-%d", kinds[j%len(kinds)].name, j))))
		}
		pause(t, time.Duration(rand.Intn(500))*time.Millisecond)
		began := time.Now()
		plane.Delete(t, ns)
		app := newApp(objectMeta(other, fmt.Sprintf("bystander-%d", i)))
		plane.Create(t, app)
		plane.Stands(t, app, "Ready=True", "Stalled=False")
		plane.Gone(t, ns)
		took = append(took, time.Since(began))
		x.Requests.AwaitQuiet(t)
		if sent := len(x.Requests.All()); sent > 60*n {
			t.Errorf("%d requests for %d resources of a namespace that is deleted", sent, n)
		}
		process.Signal(t, syscall.SIGKILL)
		<-process.Ended()
	}
	results.add(t, "namespace deleted under load", runs, took, "until it is gone; its neighbour went on")
}

// everywhere is a text of many scripts, in two directions, with what is beyond the basic plane.
const everywhere = `火拉拉 – Ünïcödé Ελλάδα עברית العربية हिन्दी 🚚 "'\<&> ` + "\t\u00a0\u2028é"

// TestLarge leads resources through their life that are as large, and as odd, as they may be; and has refused, in words that
// say what to do, what may not be.
func TestLarge(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	harness.Spawn(t, program, plane.ManagerConfig(), ns).Ready(t)
	large := newApp(objectMeta(ns, "large")).(*appv1.App)
	const each, envs = 1 << 10, 250
	for i := range envs {
		large.Spec.Envs = append(large.Spec.Envs, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: rand.String(each)})
	}
	odd := newApp(objectMeta(ns, "odd")).(*appv1.App)
	odd.Annotations = map[string]string{"example.com/text": everywhere}
	odd.Spec.Annotations = map[string]string{"example.com/text": everywhere}
	odd.Spec.PodAnnotations = map[string]string{"example.com/text": everywhere}
	odd.Spec.Envs = append(odd.Spec.Envs, corev1.EnvVar{Name: "TEXT", Value: everywhere})
	odd.Spec.Args = []string{everywhere, ""}
	ported := newModelBox(objectMeta(ns, "ported")).(*appv1.ModelBox)
	ported.Spec.Ports = manyPorts(100)
	for _, obj := range []harness.Resource{large, odd, ported} {
		plane.Create(t, obj)
		plane.Stands(t, obj, "Ready=True", "Stalled=False")
	}
	d := &appsv1.Deployment{ObjectMeta: objectMeta(ns, "odd")}
	plane.Read(t, d)
	pod := d.Spec.Template
	for what, is := range map[string]string{
		"annotation": d.Annotations["example.com/text"], "pod annotation": pod.Annotations["example.com/text"],
		"argument": pod.Spec.Containers[0].Args[0], "variable": pod.Spec.Containers[0].Env[1].Value,
	} {
		if is != everywhere {
			t.Errorf("the %s is %q", what, is)
		}
	}
	plane.Read(t, large)
	plane.Change(t, large, func() { large.Spec.Envs[0].Value, large.Spec.Replicas = "another", ptr.To[int32](2) })
	plane.Stands(t, large, "Ready=True", "Stalled=False")

	refused(t, ns, "500 ports", func(app *appv1.App) { app.Spec.Ports = manyPorts(500) }, "spec.ports", "100")
	refused(t, ns, "a label of many scripts", func(app *appv1.App) { app.Spec.Labels = map[string]string{"team": everywhere} }, "spec.labels", "valid")
	refused(t, ns, "a pod label of many scripts", func(app *appv1.App) { app.Spec.PodLabels = map[string]string{"команда": "x"} }, "spec.podLabels", "valid")
	refused(t, ns, "a variable without a name", func(app *appv1.App) { app.Spec.Envs = []corev1.EnvVar{{Name: "A=B"}} }, "spec.envs[0].name")
	results.add(t, "250 KiB of variables, 100 ports, text of many scripts", 3, nil, "500 ports and labels of many scripts are refused")
}

func manyPorts(n int) []appv1.Port {
	var ports []appv1.Port
	for i := range n {
		ports = append(ports, appv1.Port{Name: fmt.Sprintf("p%d", i), Port: int32(8000 + i)})
	}
	return ports
}

// refused creates an App that must not be: either it is refused, or it is Stalled and has no children. Either way it is said
// which field it is, and what is wrong with it.
func refused(t *testing.T, ns, what string, spoil func(*appv1.App), words ...string) {
	t.Helper()
	app := newApp(objectMeta(ns, "refused")).(*appv1.App)
	spoil(app)
	var said string
	if err := plane.Client.Create(t.Context(), app); err != nil {
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		said = err.Error()
	} else {
		plane.Stands(t, app, "Ready=False/Invalid", "Stalled=True/Invalid")
		said = harness.Message(app, "Stalled")
		plane.Absent(t, &appsv1.Deployment{ObjectMeta: objectMeta(ns, "refused")})
		plane.Delete(t, app)
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%s: it is not said %q: %s", what, word, said)
		}
	}
}
