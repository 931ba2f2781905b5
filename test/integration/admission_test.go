package integration

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

// parseResource is a resource of a kind as a user writes it, in YAML.
func parseResource(t testing.TB, namespace, name, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	obj.SetGroupVersionKind(appv1.GroupVersion.WithKind(kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// asTyped returns the resource as its own type, to be read.
func asTyped(t testing.TB, obj *unstructured.Unstructured) harness.Resource {
	t.Helper()
	var r harness.Resource
	switch obj.GetKind() {
	case "App":
		r = &appv1.App{}
	case "ModelBox":
		r = &appv1.ModelBox{}
	case "UnitedDeployment":
		r = &appv1.UnitedDeployment{}
	case "CloudManager":
		r = &appv1.CloudManager{}
	}
	r.SetNamespace(obj.GetNamespace())
	r.SetName(obj.GetName())
	return r
}

// TestAdmissionRefuses writes resources that break each rule beyond the schema. A webhook refuses them, and where there is
// none the controller says so in the same words.
func TestAdmissionRefuses(t *testing.T) {
	t.Parallel()
	ns, open := plane.Namespace(t), plane.Namespace(t)
	startGuarded(t, ns)
	plane.Start(t, open)
	tiers := func(front, identity, db string) string {
		return fmt.Sprintf("{front: {deployment: {image: 'a:1', %s}}, identity: {deployment: {image: 'a:1', %s}}, db: {statefulSet: {image: 'a:1', storage: {size: 1Gi}, %s}}}",
			front, identity, db)
	}
	for i, c := range []struct{ kind, spec string }{
		{"App", `{image: 'a:1', minReadySeconds: 600}`},
		{"App", `{image: 'a:1', envs: [{name: A, value: hunter2, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`},
		{"App", `{image: 'a:1', envs: [{name: 'A=B'}], volumeMounts: [{name: data, mountPath: /data}]}`},
		{"App", `{image: 'a:1', labels: {app.kubernetes.io/managed-by: me}}`},
		{"App", `{image: 'a:1', resources: {requests: {example.com/gpu: 1}}}`},
		{"App", `{image: 'a:1', podTemplatePatch: {spec: {moon: 1}}}`},
		{"App", `{image: 'a:1', podTemplatePatch: {spec: {hostAliases: 1}}}`},
		{"App", `{image: 'a:1', podTemplatePatch: {spec: {containers: [{env: [{name: A, value: hunter2}]}]}}}`},
		{"App", `{image: 'a:1', podTemplatePatch: {metadata: {labels: {app.huolala.cn/modelbox: other}}}}`},
		{"App", `{image: 'a:1', ports: [{port: 80, targetPort: http}]}`},
		{"ModelBox", `{image: 'a:1', name: main, containers: [{name: main, image: 'a:1'}]}`},
		{"ModelBox", `{image: 'a:1', annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8}}`},
		{"UnitedDeployment", `{deploymentName: x, replicas: 1, template: {image: 'a:1', envFrom: [{}]}}`},
		{"UnitedDeployment", `{deploymentName: x2, replicas: 1, template: {image: 'a:1', podTemplatePatch: {spec: {moon: 1}}}}`},
		{"CloudManager", tiers("", "", "envs: [{name: 'A=B'}]")},
		{"CloudManager", tiers("", "", "volumes: [{name: datadir, emptyDir: {}}]")},
		{"CloudManager", tiers("podTemplatePatch: {spec: {moon: 1}}", "", "")},
	} {
		t.Run(fmt.Sprint(c.kind, i), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("case-", i)
			late := parseResource(t, open, name, c.kind, c.spec)
			plane.Create(t, late)
			stalled := asTyped(t, late)
			if c.kind == "CloudManager" && strings.Contains(c.spec, "moon") {
				// Its tier is not built yet, and says so all the same.
				plane.Until(t, stalled, func() error {
					if m := harness.Message(stalled, appv1.ConditionFrontReady); !strings.Contains(m, "moon") {
						return fmt.Errorf("front says %q", m)
					}
					return nil
				})
				return
			}
			plane.Stands(t, stalled, "Stalled=True/Invalid")

			err := plane.Client.Create(t.Context(), parseResource(t, ns, name, c.kind, c.spec))
			// Of several errors the API's form is [a, b], that of a condition a; b.
			for _, words := range strings.Split(harness.Message(stalled, "Stalled"), "; ") {
				if c.kind == "CloudManager" {
					_, after, found := strings.Cut(words, ": spec.")
					if found {
						words = "spec." + after
					}
				}
				if wrong := checkTurnedAway(err, words); wrong != nil {
					t.Error(wrong)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the refusal repeats a value")
			}
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
				t.Errorf("the refusal has no causes for programs: %v", err)
			}
			if err := checkTurnedAway(plane.Client.Create(t.Context(), parseResource(t, ns, name, c.kind, c.spec), client.DryRunAll)); err != nil {
				t.Errorf("dry-run: %v", err)
			}
			plane.Absent(t, parseResource(t, ns, name, c.kind, c.spec))
		})
	}
}

// TestAdmissionWarns writes resources that are right and seldom meant. Each is taken, with a warning that names the field.
func TestAdmissionWarns(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	const small = "image: 'a:1', size: small"
	tiers := "{front: {deployment: {" + small + "}}, identity: {deployment: {" + small + "}}, db: {rootPass: hunter2, statefulSet: {" + small + ", storage: {size: 1Gi}}}}"
	for _, c := range []struct {
		kind, spec string
		want       []string
	}{
		{"App", `{` + small + `}`, nil},
		{"App", `{image: 'r.example:5000/a@sha256:` + strings.Repeat("0f", 32) + `', size: small}`, nil},
		{"App", `{image: 'a', size: small}`, []string{"spec.image: \"a\" has no tag"}},
		{"App", `{image: 'r.example:5000/a:latest', size: small}`, []string{"spec.image: \"r.example:5000/a:latest\" is a moving tag"}},
		{"App", `{` + small + `, initContainers: [{name: i, image: b}], containers: [{name: c, image: 'b:latest'}]}`,
			[]string{"spec.initContainers[0].image:", "spec.containers[0].image:"}},
		{"App", `{image: 'a:1'}`, []string{"spec.resources: are not set"}},
		{"App", `{image: 'a:1', resources: {limits: {cpu: 1}}}`, nil},
		{"App", `{` + small + `, rollingUpdate: 100%}`, []string{"spec.rollingUpdate: is 100%, so"}},
		{"App", `{` + small + `, rollingUpdate: 3, replicas: 3}`, []string{"spec.rollingUpdate: is 3, so"}},
		{"App", `{` + small + `, rollingUpdate: 2, replicas: 3}`, nil},
		{"App", `{` + small + `, ports: [{port: 80, nodePort: 80}]}`, nil}, // No Service offers it.
		{"App", `{` + small + `, service: {type: NodePort}, ports: [{port: 80, nodePort: 30000}, {port: 81, nodePort: 32768}]}`, []string{"spec.ports[1].nodePort: 32768 is outside of 30000-32767"}},
		{"ModelBox", `{` + small + `, ports: [{port: 80, nodePort: 29999}]}`, []string{"spec.ports[0].nodePort: 29999"}},
		{"UnitedDeployment", `{deploymentName: x, replicas: 2, template: {` + small + `, rollingUpdate: 2}}`, []string{"spec.template.rollingUpdate: is 2, so"}},
		{"UnitedDeployment", `{deploymentName: x, replicas: 2}`, nil},
		{"CloudManager", tiers, []string{"spec.db.rootPass: is in clear text"}},
		{"App", `{` + small + `, configRollout: Never}`, nil},
		{"App", `{` + small + `, configRollout: OnChange}`, []string{"spec.configRollout: has no effect"}},
		{"ModelBox", `{` + small + `, configRollout: OnChange, envFrom: [{configMapRef: {name: settings}}]}`, nil},
		{"ModelBox", `{` + small + `, configRollout: OnChange, podTemplatePatch: {spec: {containers: [{name: web, envFrom: [{secretRef: {name: db-auth}}]}]}}}`,
			[]string{"spec.configRollout: the operator does not follow Secrets in this cluster, so a change of db-auth replaces no pods"}},
	} {
		u := newUser(t)
		if err := u.Create(t.Context(), parseResource(t, ns, "web", c.kind, c.spec), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		got := u.warnings()
		if len(got) != len(c.want) {
			t.Errorf("%s %s: warnings %q, want %q", c.kind, c.spec, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) || strings.Contains(got[i], "hunter2") {
				t.Errorf("%s: warning %q, want %q", c.spec, got[i], want)
			}
		}
	}
}

// TestAdmissionPodSecurity writes Apps into namespaces with a Pod Security Standard. What the namespace will refuse is told.
func TestAdmissionPodSecurity(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	namespace := &corev1.Namespace{}
	namespace.Name = ns
	plane.Read(t, namespace)
	const (
		plain      = `image: 'a:1', size: small`
		restricted = plain + `, podSecurityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`
		sidecar    = plain + `, containers: [{name: side, image: 'a:1', securityContext: {privileged: true}}]`
		before     = plain + `, initContainers: [{name: first, image: 'a:1', securityContext: {privileged: true}}]`
		patched    = plain + `, podTemplatePatch: {spec: {hostNetwork: true}}`
	)
	for _, c := range []struct {
		level, spec, want string
	}{
		{"", sidecar, ""},
		{"privileged", sidecar, ""},
		{"baseline", plain, ""},
		{"baseline", sidecar, `container "side" must not set securityContext.privileged=true`},
		{"baseline", before, `container "first" must not set`},
		{"baseline", patched, "hostNetwork=true"},
		{"baseline", plain + `, securityContext: {privileged: true}`, `container "web" must not set`},
		{"restricted", plain, "runAsNonRoot"},
		{"restricted", restricted, ""},
	} {
		plane.Change(t, namespace, func() {
			if namespace.Labels["pod-security.kubernetes.io/enforce"] = c.level; c.level == "" {
				delete(namespace.Labels, "pod-security.kubernetes.io/enforce")
			}
		})
		u := newUser(t)
		if err := u.Create(t.Context(), parseResource(t, ns, "web", "App", "{"+c.spec+"}"), client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(u.warnings(), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: warnings %q, want %q", c.level, c.spec, got, c.want)
		}
		if c.want != "" && !strings.HasPrefix(got, "namespace "+ns+" rejects the pods of web by its Pod Security Standard "+c.level) {
			t.Errorf("the warning is %q", got)
		}
	}
}

// TestAdmissionNeighbours writes resources that are in the way of others'. Each is taken, as the other one may be about to
// go, with a warning in the words of the status.
func TestAdmissionNeighbours(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	m := startGuarded(t, ns)
	u := newUser(t)
	// said has a resource be created that is Stalled: the warning is what the status says, or general, where the status says more of objects
	// of others than a creation may learn.
	said := func(t *testing.T, field string, r harness.Resource, general string) {
		t.Helper()
		if err := u.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		warned := u.warnings()
		plane.Stands(t, r, "Stalled=True")
		want := field + ": " + cmp.Or(general, harness.Message(r, "Stalled"))
		if !slices.Contains(warned, want) {
			t.Errorf("warnings are %q\nwant %q", warned, want)
		}
		// What is not new is not said again.
		plane.Change(t, r, func() { r.SetLabels(map[string]string{"a": "b"}) })
		if err := u.Update(t.Context(), r, client.DryRunAll); err != nil || len(u.warnings()) > 0 {
			t.Errorf("an update without a change: %v", err)
		}
	}

	plane.Create(t, newHandMade(ns, "taken"), newHandMadeService(ns, "taken-too"))
	m.Idle(t)
	said(t, "metadata.name", newApp(ns, "taken"), "")
	said(t, "metadata.name", newApp(ns, "taken-too"), serviceInTheWay(ns, "taken-too"))
	adopted := newApp(ns, "adopted")
	plane.Create(t, newHandMade(ns, "adopted"))
	m.Idle(t)
	adopted.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	if err := u.Create(t.Context(), adopted); err != nil {
		t.Fatal(err)
	}
	for _, w := range u.warnings() {
		if strings.HasPrefix(w, "metadata.name") {
			t.Errorf("what may be taken over is warned of: %s", w)
		}
	}
	set := namedStatefulSet(ns, "taken-db")
	set.Spec.Selector = newHandMade(ns, "x").Spec.Selector
	set.Spec.Template = newHandMade(ns, "x").Spec.Template
	plane.Create(t, set)
	m.Idle(t)
	cm := newCloudManager(ns)
	cm.Spec.DB.StatefulSet.Name = "taken-db"
	if err := u.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	plane.Stands(t, cm, "Stalled=True/ResourceExists")
	if want := "spec.db.statefulSet.name: StatefulSet taken-db exists and was not created by this resource"; !slices.ContainsFunc(u.warnings(), func(w string) bool { return strings.HasPrefix(w, want) }) {
		t.Errorf("no warning begins with %q", want)
	}

	// Of a UnitedDeployment.
	createInPlace(t, newApp(ns, "ours"))
	said(t, "spec.deploymentName", newUnited(ns, "on-ours", "ours"), scaledByOther("ours"))
	plane.Create(t, newUnited(ns, "first", "site"))
	m.Idle(t)
	second := newUnited(ns, "second", "site")
	said(t, "spec.deploymentName", second, scaledByOther("site"))
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	scaler.Namespace, scaler.Name = ns, "scaler"
	scaler.Spec.MaxReplicas = 3
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "scaled"}
	plane.Create(t, newHandMade(ns, "scaled"), scaler)
	m.Idle(t)
	said(t, "spec.deploymentName", newUnited(ns, "on-scaled", "scaled"), scaledByOther("scaled"))
	// Another Deployment is another question.
	plane.Read(t, second)
	second.Spec.DeploymentName = "scaled"
	if err := u.Update(t.Context(), second, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(u.warnings(), "; "); !strings.HasPrefix(got, "spec.deploymentName: UnitedDeployment on-scaled is older") && !strings.HasPrefix(got, "spec.deploymentName: HorizontalPodAutoscaler scaler") {
		t.Errorf("warnings are %q", got)
	}
}

// serviceInTheWay is what the creation of an App is warned of whose Service is another's: what that selects is not read for a creation.
func serviceInTheWay(ns, name string) string {
	return "Service " + name + " exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, " +
		"or, if the Service selects no pods of others, run \"kubectl annotate app/" + name + " -n " + ns + " " + appv1.AnnotationAdopt + `=without-restart" to adopt it`
}

// scaledByOther is what the creation of a UnitedDeployment is warned of whose Deployment something else scales: a creation proves
// nothing, so that no other object is named.
func scaledByOther(deployment string) string {
	return "Deployment " + deployment + " is scaled by another resource or an autoscaler; the status of this resource names it. " +
		"Change spec.deploymentName, or delete the other one"
}

// TestAdmissionUnchanged has an App stored that the rules do not allow. It can be labelled, annotated, finalized, reported on
// deleted and paused; what it may not is break them in another way.
func TestAdmissionUnchanged(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	app, box := invalidApp(ns, "old"), &appv1.ModelBox{}
	box.Namespace, box.Name, box.Spec.Image = ns, "box", "a:1"
	plane.Create(t, app, box)
	startGuarded(t, ns)
	plane.Stands(t, app, "Stalled=True/Invalid")
	u := newUser(t)
	for _, change := range []func(){
		func() { app.Labels = map[string]string{"a": "b"} },
		func() { app.Annotations = map[string]string{"a": "b"} },
		func() { app.Finalizers = []string{"test.example.com/hold"} },
	} {
		if err := updateWithRetry(t, u, app, change); err != nil {
			t.Error(err)
		}
	}
	plane.Read(t, app)
	plane.ChangeStatus(t, app, func() { app.Status.Endpoint = "nowhere" })
	if said := u.warnings(); len(said) > 0 {
		t.Errorf("warnings: %q", said)
	}
	longer := func() { app.Spec.MinReadySeconds = ptr.To[int32](700) }
	if err := checkTurnedAway(updateWithRetry(t, u, app, longer), "spec.progressDeadlineSeconds"); err != nil {
		t.Error(err)
	}
	if err := updateWithRetry(t, u, app, func() { app.Spec.Paused = true }); err != nil || !strings.Contains(strings.Join(u.warnings(), "\n"), "spec.progressDeadlineSeconds") {
		t.Errorf("an App that was invalid before is paused: %v", err)
	}
	plane.Delete(t, app)
	if err := updateWithRetry(t, u, app, func() { app.Finalizers = nil }); err != nil {
		t.Errorf("the finalizer of an App that goes: %v", err)
	}
	plane.Gone(t, app)

	// Nothing is stated in what was stored before.
	plane.Read(t, box)
	plane.Change(t, box, func() { box.Spec.Image = "a:2" })
	if plane.Read(t, box); box.Spec.Name != "" {
		t.Errorf("an update has stated the name %q", box.Spec.Name)
	}
}

// TestAdmissionDefaults writes new resources. What follows from their names is stated, and nothing else is changed.
func TestAdmissionDefaults(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	spec := func(name, kind, spec string) map[string]any {
		obj := parseResource(t, ns, name, kind, spec)
		if err := plane.Client.Create(t.Context(), obj, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return obj.Object["spec"].(map[string]any)
	}
	const quantities = "image: a, resources: {requests: {cpu: 1000m}}, containers: [{name: side, image: b}]"
	for _, c := range []struct{ given, want string }{
		{"{" + quantities + "}", "{" + quantities + ", name: box, imagePullPolicy: IfNotPresent}"},
		{"{name: main, " + quantities + "}", "{" + quantities + ", name: main, imagePullPolicy: IfNotPresent}"},
	} {
		var want map[string]any
		if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, spec("box", "ModelBox", c.given)); diff != "" {
			t.Errorf("ModelBox (-want +got):\n%s", diff)
		}
	}
	got := spec("cm", "CloudManager", "{front: {deployment: {image: a, name: mine}}, identity: {deployment: {image: a}}, db: {statefulSet: {image: a, storage: {size: 1Gi}}}}")
	for path, want := range map[string]string{"front/deployment": "mine", "identity/deployment": "cm-identity", "db/statefulSet": "cm-db"} {
		if name, _, _ := unstructured.NestedString(got, append(strings.Split(path, "/"), "name")...); name != want {
			t.Errorf("%s has the name %q, want %q", path, name, want)
		}
	}
	// The schema says best what is wrong with what cannot be read.
	for _, broken := range []string{"{}", "{image: 1}", "{image: a, replicas: many}", "[]"} {
		box := parseResource(t, ns, "box", "ModelBox", "{}")
		var value any
		if err := yaml.Unmarshal([]byte(broken), &value); err != nil {
			t.Fatal(err)
		}
		box.Object["spec"] = value
		if err := plane.Client.Create(t.Context(), box, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec") || strings.Contains(err.Error(), "webhook") {
			t.Errorf("%s: %v", broken, err)
		}
	}
	box := parseResource(t, ns, "", "ModelBox", "{image: a}")
	box.SetGenerateName("box-")
	if err := plane.Client.Create(t.Context(), box); err != nil {
		t.Fatal(err)
	}
}

// TestDefaultChangesNothing makes a ModelBox again whose Deployment has outlived it, once its default is stated at admission,
// and the operator is a newer one. The pods stay as they are.
func TestDefaultChangesNothing(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	older := plane.Start(t, ns, harness.WithRendering(resource.RenderingTutorial))
	box := &appv1.ModelBox{}
	box.Namespace, box.Name, box.Spec.Image = ns, "box", "a:1"
	plane.Create(t, box)
	plane.Stands(t, box, progressing...)
	d := namedDeployment(ns, "box")
	plane.Read(t, d)
	template := d.Spec.Template
	older.Stop(t)
	plane.Delete(t, box, client.PropagationPolicy("Orphan"))
	// In the place of the garbage collector, which does not run here.
	if err := updateWithRetry(t, plane.Client, box, func() { box.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	plane.Gone(t, box)
	plane.Change(t, d, func() { d.OwnerReferences = nil })

	m := startGuarded(t, ns)
	again := &appv1.ModelBox{}
	again.Namespace, again.Name, again.Spec.Image = ns, "box", "a:1"
	again.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, again)
	if again.Spec.Name != "box" {
		t.Fatalf("the name stated is %q", again.Spec.Name)
	}
	plane.Stands(t, again, progressing...)
	m.Idle(t)
	sameTemplate(t, d, template)
}

// TestAdmissionDown has the API server ask webhooks that do not answer. Whatever is written is taken, in time, and the
// controller says of it what they would have.
func TestAdmissionDown(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T, port int){
		"gone": func(*testing.T, int) {},
		"frozen": func(t *testing.T, port int) {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				var held []net.Conn // Or they would be closed as garbage.
				for {
					conn, err := l.Accept()
					if err != nil {
						break
					}
					held = append(held, conn)
				}
				for _, conn := range held {
					_ = conn.Close()
				}
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := plane.Namespace(t)
			opts := plane.Webhooks(t, ns)
			m := plane.Start(t, ns, harness.WithWebhooks(opts))
			awaitWebhooks(t, ns)
			app := invalidApp(ns, "web")
			told := plane.Client.Create(t.Context(), app)
			if err := checkTurnedAway(told); err != nil {
				t.Fatal(err)
			}
			m.Stop(t)
			listen(t, opts.Port)
			// Of a connection that was kept open, the API server learns with the next request.
			setShippedTimeouts(t, ns)
			began := time.Now()
			plane.Create(t, app)
			t.Logf("it took %s", time.Since(began).Round(time.Millisecond))
			plane.Start(t, ns)
			plane.Stands(t, app, "Stalled=True/Invalid")
			if words := harness.Message(app, "Stalled"); !strings.Contains(told.Error(), words) {
				t.Errorf("the controller says %q, the webhook said %q", words, told)
			}
		})
	}
}

// setShippedTimeouts has the API server wait for the webhooks of a namespace for as long as in production: briefly.
func setShippedTimeouts(t *testing.T, ns string) {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	config.Name = "app-operator-validating-webhook-configuration-" + ns
	plane.Read(t, config)
	plane.Change(t, config, func() {
		for i := range config.Webhooks {
			config.Webhooks[i].TimeoutSeconds = ptr.To[int32](2)
		}
	})
}

// TestAdmissionForbidden asks webhooks whose manager cannot read namespaces. They answer, without that warning.
func TestAdmissionForbidden(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns, harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Resource == "namespaces" {
			return harness.Answer(apierrors.NewForbidden(corev1.Resource("namespaces"), ns, errors.New("for the test"))), nil
		}
		return send()
	}))
	u := newUser(t)
	if err := u.Create(t.Context(), parseResource(t, ns, "web", "App", "{image: 'a:1', size: small, securityContext: {privileged: true}}")); err != nil {
		t.Fatal(err)
	}
	if said := u.warnings(); len(said) > 0 {
		t.Errorf("warnings: %q", said)
	}
	if err := checkTurnedAway(plane.Client.Create(t.Context(), invalidApp(ns, "bad"))); err != nil {
		t.Error(err)
	}
}

// TestAdmissionWarnsOfUnreadableScale has an autoscaler target resources that do and do not state their replicas.
func TestAdmissionWarnsOfUnreadableScale(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	startGuarded(t, ns)
	u := newUser(t)
	for _, kind := range []string{"App", "ModelBox"} {
		name := strings.ToLower(kind)
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		scaler.Spec.MaxReplicas = 3
		scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: appv1.GroupVersion.String(), Kind: kind, Name: name}
		plane.Create(t, scaler)
		warning := "spec.replicas: is not set, so the HorizontalPodAutoscaler that targets it cannot read the scale of this " + kind
		for spec, warns := range map[string]bool{"{image: 'a:1'}": true, "{image: 'a:1', replicas: 2}": false} {
			harness.Eventually(t, func() error {
				if err := u.Create(t.Context(), parseResource(t, ns, name, kind, spec), client.DryRunAll); err != nil {
					return err
				}
				said := strings.Join(u.warnings(), "; ")
				if strings.Contains(said, warning) != warns {
					return fmt.Errorf("%s %s: warnings %q", kind, spec, said)
				}
				return nil
			})
		}
	}
}
