package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// settleConfig creates a ConfigMap and an App that follows it, and plays the Deployment's controller.
func settleConfig(t testing.TB, app *appv1.App, config *corev1.ConfigMap) *appsv1.Deployment {
	t.Helper()
	plane.Create(t, config, app)
	settleFollower(t, app)
	d := deployment(app)
	plane.Read(t, d)
	return d
}

// settleFollower plays the Deployment's controller until an App is ready that follows content.
func settleFollower(t testing.TB, app *appv1.App) {
	t.Helper()
	plane.Stands(t, app, progressing...)
	d := deployment(app)
	plane.Until(t, app, func() error {
		completeRollout(t, d) // Once more, if the content was recorded on it meanwhile, which is a new generation.
		for _, condition := range []string{appv1.ConditionReady, appv1.ConditionConfigFollowed} {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, condition) {
				return fmt.Errorf("the App is not %s", condition)
			}
		}
		return nil
	})
	plane.Stands(t, app, "Ready=True", "ConfigFollowed=True/Followed")
}

// awaitConfigSum waits until the annotation of a Deployment's pods is another one than before, and returns it.
func awaitConfigSum(t testing.TB, d *appsv1.Deployment, before string) string {
	t.Helper()
	sum := ""
	plane.Until(t, d, func() error {
		if sum = d.Spec.Template.Annotations[appv1.AnnotationConfig]; sum == before || sum == "" {
			return fmt.Errorf("the annotation of the pods is %q", sum)
		}
		return nil
	})
	return sum
}

// recordedConfig is what is recorded on a Deployment of the content that its pods use.
func recordedConfig(t testing.TB, d *appsv1.Deployment) resource.ConfigInputs {
	t.Helper()
	plane.Read(t, d)
	in, err := resource.DecodeInputs(d.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		t.Fatal(err)
	}
	return in.Config
}

// awaitQuietContent returns once content that had changed before would have replaced pods: once it has for another App.
func awaitQuietContent(t testing.TB, namespace string) {
	t.Helper()
	name := fmt.Sprintf("canary-%d", time.Now().UnixNano())
	app, config := newFollower(namespace, name), newConfigMap(namespace, name, map[string]string{"level": "1"})
	app.Spec.Envs[0].ValueFrom.ConfigMapKeyRef.Name = name
	d := settleConfig(t, app, config)
	setData(t, config, "level", "2")
	awaitConfigSum(t, d, "")
	plane.Delete(t, app)
}

// TestConfigRolloutBudgets counts the requests of an App that follows a ConfigMap.
func TestConfigRolloutBudgets(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	m.Idle(t)
	app := newFollower(ns, "web")
	config := newConfigMap(ns, "settings", map[string]string{"level": "1", "unused": "1"})
	d := deployment(app)
	template := func() corev1.PodTemplateSpec { plane.Read(t, d); return *d.Spec.Template.DeepCopy() }
	var was corev1.PodTemplateSpec

	for _, step := range []struct {
		what     string
		do       func()
		want     map[string]int
		restarts bool
	}{
		{"create", func() { plane.Create(t, config, app) },
			map[string]int{"patch deployments": 1, "patch services": 1, "patch apps/status": 1, "get configmaps": 1, "create events": 1}, true},
		{"pods become available", func() { completeRollout(t, d) }, map[string]int{"patch apps/status": 1}, false},
		{"an unused key", func() { setData(t, config, "unused", "2") },
			map[string]int{"get configmaps": 1, "patch apps/status": 1}, false},
		{"a used key", func() { setData(t, config, "level", "2") },
			map[string]int{"get configmaps": 1, "patch deployments": 1, "patch apps/status": 1, "create events": 1}, true},
		{"pods become available", func() { completeRollout(t, d) }, map[string]int{"patch apps/status": 1}, false},
		{"nothing", func() {}, map[string]int{}, false},
		{"the ConfigMap is deleted", func() { plane.Delete(t, config); awaitQuietContent(t, ns) }, nil, false},
		{"it is there again", func() {
			config = newConfigMap(ns, "settings", map[string]string{"level": "2"})
			plane.Create(t, config)
		}, map[string]int{"get configmaps": 1, "patch apps/status": 1}, false},
		{"the image, of known content", func() { setImage(t, app, "nginx:1.17") },
			map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1}, true},
		{"pods become available", func() { completeRollout(t, d) }, map[string]int{"patch apps/status": 1}, false},
		{"the Service alone", func() {
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.Service.Annotations = map[string]string{"a": "b"} })
		}, map[string]int{"patch deployments": 2, "patch services": 1, "patch apps/status": 1, "create events": 1}, false},
		{"turned off", func() {
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.ConfigRollout = appv1.ConfigRolloutNever })
		}, map[string]int{"patch deployments": 1, "patch apps/status": 1, "create events": 1}, false},
		{"a used key while it is off", func() { setData(t, config, "level", "3"); awaitQuietContent(t, ns) }, nil, false},
		{"turned on again", func() {
			plane.Read(t, app)
			plane.Change(t, app, func() { app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange })
		}, map[string]int{"get configmaps": 1, "patch deployments": 1, "patch apps/status": 1, "create events": 1}, false},
		{"nothing is new then", func() { awaitQuietContent(t, ns) }, nil, false},
		{"restart", func() { m.Stop(t); m = plane.Start(t, ns) }, map[string]int{}, false},
		{"delete", func() { plane.Delete(t, app) }, map[string]int{}, false},
	} {
		m.Idle(t) // The last step may have been about another App.
		m.Requests.Reset()
		step.do()
		if step.want != nil {
			checkRequests(t, m, step.what, step.want)
		} else if got := countsOf(m, "web", "settings"); len(got) > 0 {
			t.Errorf("%s: %v", step.what, got)
		}
		if now := template(); !step.restarts && !equalAsJSON(now, was) {
			t.Errorf("%s: the pod template has changed: %v", step.what, diffOf(was, now))
		} else {
			was = now
		}
	}
}

func equalAsJSON(a, b corev1.PodTemplateSpec) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// heldClock tells the time, or the same time for as long as it is held.
type heldClock struct{ at atomic.Pointer[time.Time] }

func (c *heldClock) hold() {
	now := time.Now()
	c.at.Store(&now)
}

func (c *heldClock) release() { c.at.Store(nil) }

// Now implements clock.PassiveClock.
func (c *heldClock) Now() time.Time {
	if at := c.at.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// Since implements clock.PassiveClock.
func (c *heldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// TestConfigRolloutOneApply changes an App and its ConfigMap together, in both orders. The pods are replaced once. The time that a new
// spec waits does not go by before the manager has seen both, however slow the machine is.
func TestConfigRolloutOneApply(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	clk := &heldClock{}
	m := plane.Start(t, ns, harness.WithClock(clk))
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1"})
	d := settleConfig(t, app, config)
	for i, both := range []func(){
		func() { setData(t, config, "level", "2"); setImage(t, app, "nginx:1.17") },
		func() { setImage(t, app, "nginx:1.18"); setData(t, config, "level", "3") },
	} {
		plane.Read(t, d)
		before := d.Generation
		m.Requests.Reset()
		clk.hold()
		both()
		m.Idle(t)
		if plane.Read(t, d); d.Generation != before {
			t.Errorf("order %d: the spec has not waited", i)
		}
		clk.release()
		awaitImage(t, d, fmt.Sprintf("nginx:1.%d", 17+i))
		completeRollout(t, d)
		plane.Stands(t, app, "Ready=True")
		awaitQuietContent(t, ns)
		if plane.Read(t, d); d.Generation != before+1 {
			t.Errorf("order %d: the Deployment has changed %d times", i, d.Generation-before)
		}
		if got := countsOf(m, "settings"); got["get configmaps"] != 1 {
			t.Errorf("order %d: %v", i, got)
		}
	}
}

// TestConfigRolloutShared has many Apps use one ConfigMap: it is read once for all, and a restart of the manager reads and writes
// nothing.
func TestConfigRolloutShared(t *testing.T) {
	t.Parallel()
	apps := fixture.Of(30, 100)
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	config := newConfigMap(ns, "settings", map[string]string{"level": "1"})
	plane.Create(t, config)
	newOne := func(i int) *appv1.App {
		app := newFollower(ns, fmt.Sprintf("app-%d", i))
		app.Spec.Ports = nil
		return app
	}
	forEachNumber(t, apps, func(i int) { plane.Create(t, newOne(i)) })
	forEachNumber(t, apps, func(i int) { settleFollower(t, newOne(i)) })
	m.Idle(t)
	if got := countsOf(m, "settings"); got["get configmaps"] != 1 {
		t.Errorf("%d Apps of one ConfigMap: %v", apps, got)
	}
	m.Stop(t)
	m = plane.Start(t, ns)
	harness.Eventually(t, func() error { // The content is looked at once the Apps are, which may take longer than it takes to look idle.
		if got := listsOf(m, "configmaps"); got == 0 {
			return errors.New("a restart has not listed the ConfigMaps yet")
		}
		return nil
	})
	checkRequests(t, m, "restart", map[string]int{})
	if got := listsOf(m, "configmaps"); got != 1 {
		t.Errorf("a restart lists the ConfigMaps %d times", got)
	}
	m.Requests.Reset()
	setData(t, config, "level", "2")
	forEachNumber(t, apps, func(i int) {
		awaitConfigSum(t, deployment(newOne(i)), "")
		plane.Stands(t, newOne(i), progressing...)
	})
	m.Idle(t)
	if got := m.Requests.Counts(); got["get configmaps"] != 1 || got["patch deployments"] != apps || got["patch apps/status"] != apps {
		t.Errorf("a change that concerns %d Apps: %v", apps, got)
	}
}

// TestConfigRolloutWhileDown changes content while no manager runs: an unused key does nothing, and a used one replaces the pods
// once one runs again.
func TestConfigRolloutWhileDown(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1", "unused": "1"})
	d := settleConfig(t, app, config)
	// In this order: the annotation stays once a used key has changed.
	for _, c := range []struct {
		key  string
		want map[string]int
	}{
		{"unused", map[string]int{"get configmaps": 1, "patch apps/status": 1}},
		{"level", map[string]int{"get configmaps": 1, "patch deployments": 1, "patch apps/status": 1, "create events": 1}},
	} {
		key, want := c.key, c.want
		m.Idle(t)
		m.Stop(t)
		completeRollout(t, d)
		setData(t, config, key, "2")
		m = plane.Start(t, ns)
		plane.Until(t, app, func() error {
			plane.Read(t, config)
			if got := app.Status.Config[0].ResourceVersion; got != config.ResourceVersion {
				return fmt.Errorf("%s: the version of the status is %s, want %s", key, got, config.ResourceVersion)
			}
			return nil
		})
		m.Idle(t) // An event follows the status.
		got := m.Requests.Counts()
		if key == "unused" {
			got["patch apps/status"] = 1 // One more tells of the pods.
		}
		if err := diffOf(want, got); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if changed := recordedConfig(t, d).Sum != ""; changed != (got["patch deployments"] > 0) {
			t.Errorf("%s: the annotation is there: %t", key, changed)
		}
	}
}

// TestConfigRolloutForbiddenInOneNamespace takes the right to the ConfigMaps of one of two namespaces away: resources of the other one are followed.
func TestConfigRolloutForbiddenInOneNamespace(t *testing.T) {
	t.Parallel()
	allowed, forbidden := plane.Namespace(t), plane.Namespace(t)
	plane.Start(t, allowed, harness.WithNamespaces(forbidden), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Namespace == forbidden && q.Resource == "configmaps" {
			return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("no right"))), nil
		}
		return send()
	}))
	for ns, want := range map[string]string{forbidden: "ConfigFollowed=False/Forbidden", allowed: "ConfigFollowed=True/Followed"} {
		app := newFollower(ns, "web")
		plane.Create(t, newConfigMap(ns, "settings", map[string]string{"level": "1"}), app)
		plane.Stands(t, app, want, "Applied=True")
	}
}

// TestConfigRolloutWithoutSecrets has a manager that follows Secrets, and may not watch those of the namespace: ConfigMaps are followed, and a
// condition has the cause.
func TestConfigRolloutWithoutSecrets(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	plane.Start(t, ns, harness.WithSecrets(), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Namespace == ns && q.Resource == "secrets" {
			return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("no right"))), nil
		}
		return send()
	}))
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1"})
	app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}}}}
	plane.Create(t, config, app)
	plane.Stands(t, app, "ConfigFollowed=False/Forbidden", "Applied=True")
	d := deployment(app)
	plane.Read(t, d)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	sum := d.Spec.Template.Annotations[appv1.AnnotationConfig]
	setData(t, config, "level", "2")
	awaitConfigSum(t, d, sum)
	plane.Stands(t, app, "ConfigFollowed=False/Forbidden", "Applied=True")
}

// TestConfigRolloutForbidden takes the right to ConfigMaps away. A condition tells of it, and all else goes on; once the right is
// there, content is followed.
func TestConfigRolloutForbidden(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	forbidden := true
	var mu sync.Mutex
	forbids := func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if forbidden && q.Resource == "configmaps" {
			return harness.Answer(apierrors.NewForbidden(schema.GroupResource{Resource: q.Resource}, q.Name, errors.New("no right"))), nil
		}
		return send()
	}
	m := plane.Start(t, ns, harness.WithFault(forbids))
	app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1"})
	plane.Create(t, config, app)
	plane.Stands(t, app, "ConfigFollowed=False/Forbidden", "Applied=True", "Stalled=False")
	harness.Says(t, app, appv1.ConditionConfigFollowed, "ConfigMaps", "permission")
	d := deployment(app)
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True", "ConfigFollowed=False/Forbidden")
	setImage(t, app, "nginx:1.17")
	awaitImage(t, d, "nginx:1.17")
	completeRollout(t, d)
	plane.Stands(t, app, "Ready=True")
	plain := newApp(ns, "plain")
	createInPlace(t, plain)
	plane.Read(t, plain)
	if meta.FindStatusCondition(plain.Status.Conditions, appv1.ConditionConfigFollowed) != nil {
		t.Error("an App that follows nothing has the condition")
	}
	if c := recordedConfig(t, d); c.Follows() {
		t.Errorf("recorded without the right: %+v", c)
	}
	mu.Lock()
	forbidden = false
	mu.Unlock()
	plane.Until(t, d, func() error {
		if c := recordedConfig(t, d); !c.Follows() {
			return errors.New("the content is not recorded")
		}
		return nil
	})
	completeRollout(t, d)
	plane.Stands(t, app, "ConfigFollowed=True/Followed", "Ready=True")
	m.Idle(t)
	was := *deploymentOf(t, d).Spec.Template.DeepCopy()
	setData(t, config, "level", "2")
	awaitConfigSum(t, d, "")
	was.Annotations = d.Spec.Template.Annotations
	sameTemplate(t, d, was)
}

func deploymentOf(t testing.TB, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	plane.Read(t, d)
	return d
}

// TestPlainAppFollowsNothing counts the requests for ConfigMaps of a manager whose Apps do not ask for any.
func TestPlainAppFollowsNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := plane.Start(t, ns)
	app := newFollower(ns, "web")
	app.Spec.ConfigRollout = ""
	createInPlace(t, app)
	on := newApp(ns, "nothing")
	on.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
	createInPlace(t, on)
	plane.Stands(t, on, "ConfigFollowed=True/Followed")
	m.Idle(t)
	for _, q := range m.Requests.All() {
		if q.Resource == "configmaps" || q.Resource == "secrets" {
			t.Errorf("a request: %s", q)
		}
	}
	if c := recordedConfig(t, deployment(app)); !c.Equal(resource.ConfigInputs{}) {
		t.Errorf("recorded: %+v", c)
	}
}

// TestConfigRolloutSecrets follows Secrets with the rights of the component secret-rollout. What is made of a value cannot be tried, and
// equal values of two Secrets cannot be told to be equal.
func TestConfigRolloutSecrets(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	grantSecrets(t, ns)
	log := &harness.Log{}
	m := plane.Start(t, ns, harness.WithSecrets(), harness.WithLog(log))
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{"password": []byte("first-secret-value")}}
	}
	sums := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		app, s := newApp(ns, name), secret(name)
		app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
		app.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
		plane.Create(t, s, app)
		plane.Stands(t, app, progressing...)
		d := deployment(app)
		completeRollout(t, d)
		plane.Change(t, s, func() { s.Data["password"] = []byte("second-secret-value") })
		sums[awaitConfigSum(t, d, "")] = true
		sums[recordedConfig(t, d).Objects["Secret/"+name]] = true
		plane.Stands(t, app, "ConfigFollowed=True/Followed")
		completeRollout(t, d)
	}
	if len(sums) != 4 {
		t.Errorf("equal values have equal sums: %v", sums)
	}
	for _, value := range []string{"first-secret-value", "second-secret-value"} {
		plane.UndisclosedApps(t, ns, value, log, "Secret/one", "Secret/two")
	}
	m.Idle(t)
	m.Stop(t)
	m = plane.Start(t, ns, harness.WithSecrets())
	plane.Stands(t, newApp(ns, "one"), "Ready=True")
	checkRequests(t, m, "restart", map[string]int{"get secrets": 1}) // The key.
}

// grantSecrets gives the managers the rights of the component secret-rollout in a namespace.
func grantSecrets(t testing.TB, namespace string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(), "config/components/secret-rollout/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "secret-rollout"}
	plane.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: role.Rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.SystemNamespace, Name: harness.ServiceAccount}},
	})
}

// TestConfigRolloutKilled kills the manager at each request of a rollout for new content, before the API server gets it and after, in
// the short form at one of the two.
// The next manager ends the rollout, and makes no second one.
func TestConfigRolloutKilled(t *testing.T) {
	t.Parallel()
	moments := map[string]harness.Fault{"before": mishaps["refused"], "after": mishaps["lost"]}
	turns := fixture.Turns(t, "before", "after")
	for _, what := range []string{"get configmaps", "patch deployments", "patch apps/status"} {
		for _, name := range turns() {
			mishap := moments[name]
			t.Run(strings.ReplaceAll(what, "/", "-")+" "+name, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				m := plane.Start(t, ns)
				app, config := newFollower(ns, "web"), newConfigMap(ns, "settings", map[string]string{"level": "1"})
				d := settleConfig(t, app, config)
				m.Idle(t)
				m.Stop(t)
				setData(t, config, "level", "2")

				var killed *harness.Manager
				ready, dead := make(chan struct{}), make(chan struct{})
				var once sync.Once
				killed = plane.Launch(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
					if q.Verb+" "+q.Resource != what || q.Namespace != ns {
						return send()
					}
					<-ready
					resp, err := mishap(q, send)
					once.Do(func() { killed.Kill(); close(dead) })
					return resp, err
				}))
				close(ready)
				select {
				case <-dead:
				case <-time.After(harness.Patience):
					t.Fatal("the request was not sent")
				}
				killed.Stop(t)
				next := plane.Start(t, ns)
				sum := awaitConfigSum(t, d, "")
				next.Idle(t)
				completeRollout(t, d)
				plane.Stands(t, app, "Ready=True")
				awaitQuietContent(t, ns)
				if c := recordedConfig(t, d); c.Sum != sum || d.Spec.Template.Annotations[appv1.AnnotationConfig] != sum {
					t.Errorf("a second rollout: %+v", c)
				}
				if n := len(app.Status.Config); n != 1 {
					t.Errorf("the status has %d objects", n)
				}
			})
		}
	}
}
