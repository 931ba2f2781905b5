package integration

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// newDefaults makes the AppDefaults of a namespace.
func newDefaults(t *testing.T, namespace, fields string) *appv1.AppDefaults {
	t.Helper()
	made := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: appv1.AppDefaultsName}}
	setDefaultFields(t, made, fields)
	plane.Create(t, made)
	return made
}

// setDefaultFields sets the defaults by their YAML.
func setDefaultFields(t *testing.T, defaults *appv1.AppDefaults, fields string) {
	t.Helper()
	defaults.Spec.Defaults = appv1.Defaults{}
	if err := yaml.UnmarshalStrict([]byte(fields), &defaults.Spec.Defaults); err != nil {
		t.Fatal(err)
	}
}

// awaitDefaults waits until the pods of an App have an annotation, and the status says whether the App has the present defaults.
func awaitDefaults(t *testing.T, app *appv1.App, annotation, current string) {
	t.Helper()
	d := deployment(app)
	plane.Until(t, d, func() error {
		if got := d.Spec.Template.Annotations["a"]; got != annotation {
			return fmt.Errorf("the pods have %q, want %q", got, annotation)
		}
		return nil
	})
	plane.Until(t, app, func() error {
		got := "none"
		if used := app.Status.Defaults; used != nil {
			got = fmt.Sprint(used.Current)
		}
		if got != current {
			return fmt.Errorf("current is %s, want %s", got, current)
		}
		return nil
	})
}

// TestEditedDefaultsWriteNothing edits AppDefaults over several Apps: nothing but statuses is written, an App takes them with its next change or
// a refresh, a namespace's own take precedence, and deleted ones count as empty ones.
func TestEditedDefaultsWriteNothing(t *testing.T) {
	t.Parallel()
	own, ns := plane.Namespace(t), plane.Namespace(t)
	defaults := newDefaults(t, own, "podAnnotations: {a: '1'}\ndisruptionBudget: {}")
	m := plane.Start(t, ns, harness.WithOwnNamespace(own))
	var apps []*appv1.App
	for i := range 3 {
		app := newApp(ns, fmt.Sprintf("web-%d", i))
		createInPlace(t, app)
		awaitDefaults(t, app, "1", "true")
		apps = append(apps, app)
	}
	plane.Until(t, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0"}}, func() error { return nil })
	plane.Until(t, defaults, func() error {
		if s := &defaults.Status; s.Apps != 3 || s.Current != 3 || s.Pending != 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	m.Idle(t)
	m.Requests.Reset()
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "podAnnotations: {a: '2'}") })
	for _, app := range apps {
		awaitDefaults(t, app, "1", "false")
	}
	checkAppRequests(t, m, "edited AppDefaults", map[string]int{"patch apps/status": 3})
	plane.Until(t, defaults, func() error {
		if s := &defaults.Status; s.Apps != 3 || s.Current != 0 || s.Pending != 3 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	m.Stop(t)
	m = plane.Start(t, ns, harness.WithOwnNamespace(own))
	checkAppRequests(t, m, "a restart", map[string]int{})

	setAnnotation(t, apps[0], appv1.AnnotationRefresh, "1")
	awaitDefaults(t, apps[0], "2", "true")
	plane.Absent(t, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0"}})
	plane.Read(t, apps[1])
	plane.Change(t, apps[1], func() { apps[1].Spec.Replicas = ptr.To[int32](3) })
	awaitDefaults(t, apps[1], "1", "false")
	near := newDefaults(t, ns, "podAnnotations: {a: '3'}")
	awaitDefaults(t, apps[0], "2", "false")
	setImage(t, apps[1], "nginx:1.17")
	awaitDefaults(t, apps[1], "3", "true")
	plane.Delete(t, near)
	plane.Delete(t, defaults)
	awaitDefaults(t, apps[1], "3", "false")
	setAnnotation(t, apps[1], appv1.AnnotationRefresh, "1")
	awaitDefaults(t, apps[1], "", "none")
	m.Idle(t)
	m.Requests.Reset()
	checkRequests(t, m, "settled", map[string]int{})
}

// TestDefaultsOfTheSystemNamespace has AppDefaults where the manager runs by default, with the Role of that namespace alone, and AppDefaults of
// another namespace. They roll out in waves, although the cache has only a part of each object. The test needs a control plane of its own, as
// these AppDefaults count for all namespaces.
func TestDefaultsOfTheSystemNamespace(t *testing.T) {
	t.Parallel()
	p := startOptionalPlane(t)
	ns := p.Namespace(t)
	system, own := &appv1.AppDefaults{}, &appv1.AppDefaults{}
	for namespace, defaults := range map[string]*appv1.AppDefaults{harness.SystemNamespace: system, ns: own} {
		defaults.Namespace, defaults.Name = namespace, appv1.AppDefaultsName
		setDefaultFields(t, defaults, "podAnnotations: {"+namespace+": '1', long: "+strings.Repeat("x", 60_000)+"}")
	}
	system.Spec.Rollout = &appv1.DefaultsRollout{Type: appv1.RolloutWaves, Size: ptr.To(intstr.FromInt32(1)), Soak: "0s"}
	app := newApp(ns, "web")
	p.Create(t, system, own, app)
	m := p.Start(t, ns, harness.WithNamespaceCache(1))
	d := deployment(app)
	has := func(value string) {
		t.Helper()
		p.Until(t, d, func() error {
			if got := d.Spec.Template.Annotations; got[harness.SystemNamespace] != value || got[ns] != "1" {
				return fmt.Errorf("the pods have %q and %q", got[harness.SystemNamespace], got[ns])
			}
			return nil
		})
		p.ChangeStatus(t, d, func() { play.SetAvailable(d) })
		p.Stands(t, app, "Ready=True")
		p.Until(t, system, func() error { return isRolledOut(system) })
	}
	has("1")
	p.Change(t, system, func() { system.Spec.Defaults.PodAnnotations[harness.SystemNamespace] = "2" })
	has("2")
	m.Idle(t)
	if !slices.ContainsFunc(m.Requests.All(), func(q harness.Request) bool {
		return q.Verb == "create" && q.Resource == "events" && q.Namespace == harness.SystemNamespace && q.Code < http.StatusBadRequest
	}) {
		t.Error("there was no event about the rollout")
	}
}

// TestHostileDefaultsStayInTheirNamespace has AppDefaults of a tenant, which state everything, count for nothing elsewhere.
func TestHostileDefaultsStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	own, hostile, ns := plane.Namespace(t), plane.Namespace(t), plane.Namespace(t)
	newDefaults(t, hostile, "podAnnotations: {a: hostile}\ncontainers: [{name: miner, image: miner}]\nhostAliases: [{ip: 10.0.0.1, hostnames: [bank.example.com]}]")
	m := plane.Start(t, ns, harness.WithOwnNamespace(own), harness.WithNamespaces(hostile))
	app, theirs := newApp(ns, "web"), newApp(hostile, "web")
	createInPlace(t, app)
	createInPlace(t, theirs)
	awaitDefaults(t, theirs, "hostile", "true")
	awaitDefaults(t, app, "", "none")
	m.Idle(t)
	d := deployment(app)
	plane.Read(t, d)
	if spec := d.Spec.Template.Spec; len(spec.Containers) != 1 || len(spec.HostAliases) > 0 {
		t.Errorf("the pods are %+v", spec)
	}
	wrong := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "another"}}
	if err := plane.Client.Create(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "must be default") {
		t.Errorf("another name: %v", err)
	}
}

// TestDefaultsAtAdmission has the webhook refuse AppDefaults and Apps that cannot work, and answer a dry run with the plan.
func TestDefaultsAtAdmission(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	u := newUser(t)
	for what, c := range map[string]struct{ spec, says string }{
		"a size above its limit":        {"sizes: {a: {requests: {cpu: 2}, limits: {cpu: 1}}}", "spec.sizes[a]"},
		"custom":                        {"sizes: {custom: {limits: {cpu: 1}}}", "custom"},
		"size and resources":            {"defaults: {size: small, resources: {limits: {cpu: 1}}}", "mutually exclusive"},
		"a Service's name":              {"defaults: {service: {name: a}}", "no default"},
		"a mount of no volume":          {"defaults: {volumeMounts: [{name: a, mountPath: /a}]}", "volumeMounts"},
		"a port that is not declared":   {"defaults: {containers: [{name: proxy, image: 'a:1', readinessProbe: {httpGet: {port: metrics}}}]}", "declare"},
		"a root that must not be one":   {"defaults: {podSecurityContext: {runAsNonRoot: true}, containers: [{name: log, image: 'a:1', securityContext: {runAsUser: 0}}]}", "runAsUser"},
		"a probe of a named port":       {"defaults: {probes: {readiness: {httpGet: {port: http}}}}", ""},
		"a class that is no name":       {"whenStated: {ingress: {className: A}}", "className"},
		"a block of no kind":            {"whenStated: {httpRoute: {pathType: Regex}}", "pathType"},
		"a parent twice":                {"whenStated: {httpRoute: {parentRefs: [{name: a}, {name: a}]}}", "parentRefs[1]"},
		"blocks":                        {"whenStated: {httpRoute: {parentRefs: [{name: a}]}, ingress: {className: a}, podMonitor: {labels: {a: b}}}", ""},
		"a budget that excludes itself": {"defaults: {disruptionBudget: {minAvailable: 1, maxUnavailable: 1}}", "mutually exclusive"},
	} {
		made := &appv1.AppDefaults{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: appv1.AppDefaultsName}}
		if err := yaml.UnmarshalStrict([]byte(c.spec), &made.Spec); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, func() error { // The webhooks may not be served yet.
			err := u.Create(t.Context(), made.DeepCopy(), client.DryRunAll)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				return fmt.Errorf("%s: %w; want %q", what, err, c.says)
			}
			return nil
		})
	}
	unknown := sizedApp(ns, "web", "huge")
	if err := u.Create(t.Context(), unknown, client.DryRunAll); err != nil || !strings.Contains(strings.Join(u.warnings(), "\n"), "large, medium, small, custom") {
		t.Errorf("an unknown size: %v", err)
	}
	app, none := newApp(ns, "web"), newApp(ns, "none")
	none.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	createInPlace(t, app)
	createInPlace(t, none)
	defaults := newDefaults(t, ns, "podAnnotations: {a: '1'}")
	awaitDefaults(t, app, "", "false")
	plane.Until(t, defaults, func() error {
		changed := defaults.DeepCopy()
		setDefaultFields(t, changed, "podAnnotations: {a: '2'}\ndisruptionBudget: {}\nrollback: OnStall")
		u := newUser(t)
		if err := u.Update(t.Context(), changed, client.DryRunAll); err != nil {
			return err
		}
		all := strings.Join(u.plan(), "\n")
		for _, want := range []string{"2 Apps: 1 pod template changes, ", "1 get a PodDisruptionBudget", "1 would be invalid: " + ns + "/none: spec.rollback"} {
			if !strings.Contains(all, want) {
				return fmt.Errorf("no %q in %q", want, all)
			}
		}
		return nil
	})
	plane.Change(t, defaults, func() { setDefaultFields(t, defaults, "rollback: OnStall") })
	awaitDefaults(t, none, "", "false")
	update := func(image string) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The manager writes the status.
			plane.Read(t, none)
			scaled := none.DeepCopy()
			scaled.Spec.Replicas, scaled.Spec.Image = ptr.To[int32](4), image
			return u.Update(t.Context(), scaled, client.DryRunAll)
		})
	}
	if err := update(none.Spec.Image); err != nil || strings.Contains(strings.Join(u.warnings(), "\n"), "spec.rollback") {
		t.Errorf("an App that takes no defaults is scaled: %v", err)
	}
	if err := update("nginx:1.17"); err != nil || !strings.Contains(strings.Join(u.warnings(), "\n"), "spec.rollback") {
		t.Errorf("an App that takes them: %v", err)
	}
}

// yamlBlock is a YAML example of a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesOfThePlatformPage applies each example of docs/platform.md: the API server takes them, and the policy refuses an App.
func TestExamplesOfThePlatformPage(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "platform.md"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, match := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(match[1]), &obj.Object); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, obj.GetKind())
		switch obj.GetKind() {
		case "Namespace":
			obj.SetName(ns + "-example")
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			obj.SetName(ns)
		default:
			obj.SetNamespace(ns)
		}
		if obj.GetKind() == "ValidatingAdmissionPolicyBinding" {
			for value, path := range map[string][]string{ns: {"spec", "policyName"}} {
				if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
					t.Fatal(err)
				}
			}
			labels := map[string]string{"kubernetes.io/metadata.name": ns}
			if err := unstructured.SetNestedStringMap(obj.Object, labels, "spec", "matchResources", "namespaceSelector", "matchLabels"); err != nil {
				t.Fatal(err)
			}
		}
		if obj.GetKind() == "AppDefaults" { // A namespace has one.
			_ = plane.Client.Delete(t.Context(), obj.DeepCopy())
		}
		if err := plane.Client.Create(t.Context(), obj); err != nil {
			t.Errorf("%s: %v", obj.GetKind(), err)
		}
		plane.DeleteAfter(t, obj)
	}
	for _, kind := range []string{"AppDefaults", "App", "Namespace", "ValidatingAdmissionPolicy", "ResourceQuota"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("the page has no example of a %s", kind)
		}
	}
	harness.Eventually(t, func() error { // A policy counts a little later.
		err := plane.Client.Create(t.Context(), newApp(ns, "foreign"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "must be of registry.example.com") {
			return errors.Join(errors.New("an image of another registry is admitted"), err)
		}
		return nil
	})
}

// TestSyncOfDefaults applies Apps and the AppDefaults that they depend on as Flux does, through the webhooks: a dry run of each object, then each of
// them, the Apps first. The Apps are Invalid until the AppDefaults are there, and go on by themselves.
func TestSyncOfDefaults(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	objects := []*unstructured.Unstructured{
		parseResource(t, ns, "sized", "App", `{image: 'a:1', size: huge}`),
		parseResource(t, ns, "routed", "App", `{image: 'a:1', ports: [{port: 80}], httpRoute: {hostnames: [a.example.com]}}`),
		parseResource(t, ns, appv1.AppDefaultsName, "AppDefaults",
			`{sizes: {huge: {requests: {cpu: 7}}}, whenStated: {httpRoute: {parentRefs: [{name: public}]}}}`),
	}
	for _, obj := range objects {
		if err := plane.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("a dry run: %v", err)
		}
	}
	for _, obj := range objects[:2] {
		plane.Create(t, obj)
		plane.Stands(t, asTyped(t, obj), "Stalled=True/Invalid")
	}
	plane.Create(t, objects[2])
	for _, obj := range objects[:2] {
		plane.Stands(t, asTyped(t, obj), progressing...)
	}
}
