package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestPodTemplate patches pod templates. What the patch states must live, and nothing of it once it is removed.
func TestPodTemplate(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	const sidecars = "containers: [{name: log, image: log}, {name: proxy, image: proxy}]"
	for i, c := range []struct{ extra, patch, live, want string }{
		{"", "{spec: {hostNetwork: true}}", inContainer + "ports", "[{containerPort: 80, hostPort: 80, protocol: TCP}]"},
		{"", "{spec: {topologySpreadConstraints: null}}", inPod + "topologySpreadConstraints", ""},
		{"", "{spec: {topologySpreadConstraints: [{$patch: replace}]}}", inPod + "topologySpreadConstraints", ""},
		{"", "{spec: {containers: [{name: NAME, tty: true}]}}", inContainer + "tty", "true"},
		{"", "{spec: {containers: [{name: NAME, livenessProbe: null, startupProbe: null}]}}", inContainer + "livenessProbe", ""},
		{"", "{spec: {containers: [{name: NAME, ports: [{containerPort: 80, name: patched}]}]}}", inContainer + "ports.0.name", "patched"},
		{sidecars, "{spec: {containers: [{name: log, $patch: delete}]}}", inPod + "containers.1.name", "proxy"},
		{sidecars, "{spec: {containers: [{name: added, image: added}]}}", inPod + "containers.1.image", "added"},
		{sidecars, "{spec: {$setElementOrder/containers: [{name: NAME}, {name: proxy}, {name: log}]}}", inPod + "containers.1.name", "proxy"},
		{"envs: [{name: A, value: a}, {name: B, value: b}]", "{spec: {containers: [{name: NAME, env: [{name: A, $patch: delete}]}]}}", inContainer + "env", "[{name: B, value: b}]"},
		{"volumes: [{name: a, emptyDir: {}}]", "{spec: {volumes: [{name: a, $retainKeys: [name, hostPath], hostPath: {path: /a}}]}}", inPod + "volumes", `[{name: a, hostPath: {path: /a, type: ""}}]`},
		{"volumeMounts: [{name: a, mountPath: /a}]", "{spec: {volumes: [{name: a, emptyDir: {}}]}}", inPod + "volumes", "[{name: a, emptyDir: {}}]"},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {limits: {cpu: null}}}]}}", inContainer + "resources.limits.cpu", ""},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {requests: {memory: null}}}]}}", inContainer + "resources.requests.memory", ""},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {limits: null}}]}}", inContainer + "resources.limits", ""},
		{"size: small", "{spec: {containers: [{name: NAME, resources: null}]}}", inContainer + "resources", "{}"},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {limits: {$patch: replace, memory: 1Gi}}}]}}", inContainer + "resources.limits", "{memory: 1Gi}"},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {limits: {$patch: delete}}}]}}", inContainer + "resources.limits", ""},
		{"size: small", "{spec: {containers: [{name: NAME, resources: {limits: {$patch: replace, cpu: null, memory: 1Gi}}}]}}", inContainer + "resources.limits", "{memory: 1Gi}"},
		{"", "{spec: {containers: [{name: added, image: added, resources: {limits: {cpu: null}}}]}}", inPod + "containers.1.resources", "{}"},
		{"volumes: [{name: a, emptyDir: {sizeLimit: 1Gi}}]", "{spec: {volumes: [{name: a, emptyDir: {sizeLimit: null}}]}}", inPod + "volumes", "[{name: a, emptyDir: {}}]"},
		{"volumes: [{name: a, emptyDir: {}}]", "{spec: {volumes: [{name: a, emptyDir: null, hostPath: {path: /a}}]}}", inPod + "volumes", `[{name: a, hostPath: {path: /a, type: ""}}]`},
		{"nodeSelector: {a: b}", "{spec: {nodeSelector: {a: null, c: d}}}", inPod + "nodeSelector", "{c: d}"},
		{"podAnnotations: {a: b}", "{metadata: {annotations: {a: c}, labels: {d: e}}}", inTemplate + "metadata.annotations", "{a: c}"},
		{"podLabels: {a: b}", "{metadata: {labels: {a: c}}}", inTemplate + "metadata.labels.a", "c"},
		{"serviceAccountName: a", "{spec: {serviceAccountName: null, serviceAccount: b}}", inPod + "serviceAccountName", "b"},
		// The identity is restored.
		{"", "{metadata: {labels: {$patch: replace, a: b}}}", inTemplate + "metadata.labels.a", "b"},
		{"", "{metadata: {annotations: {app.huolala.cn/mine: a}}}", inTemplate + "metadata.annotations", ""},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, fmt.Sprintf("web-%d", i))
			setFields(t, &app.Spec.WorkloadSpec, c.extra)
			if strings.HasPrefix(c.extra, "volumeMounts") {
				app.Spec.PodTemplatePatch = parsePatch(t, c.patch) // They would be mounts of nothing.
			}
			d, _ := createInPlace(t, app)
			before := d.Spec.Template
			// Written whole, as a merge patch has no way to say null.
			patch := func() { app.Spec.PodTemplatePatch = parsePatch(t, strings.ReplaceAll(c.patch, "NAME", app.Name)) }
			if err := updateWithRetry(t, plane.Client, app, patch); err != nil {
				t.Fatal(err)
			}
			plane.Stands(t, app, progressing...)
			if err := diffOf(fromYAML(t, c.want), lookUpPath(statesOf(t, app), c.live)); err != nil {
				t.Errorf("%s: %v", c.live, err)
			}
			plane.Read(t, d)
			if got := d.Spec.Template.Labels[appv1.LabelApp]; got != app.Name {
				t.Errorf("the label that selects the pods is %q", got)
			}
			m.Idle(t)

			if err := updateWithRetry(t, plane.Client, app, func() {
				app.Spec.PodTemplatePatch = nil
				if strings.HasPrefix(c.extra, "volumeMounts") {
					app.Spec.PodTemplatePatch = parsePatch(t, c.patch)
				}
			}); err != nil {
				t.Fatal(err)
			}
			plane.Stands(t, app, progressing...)
			plane.Read(t, d)
			if diff := cmp.Diff(before, d.Spec.Template); diff != "" {
				t.Errorf("after the patch is removed (-before +after):\n%s", diff)
			}
		})
	}
}

// parsePatch returns a patch that is written in YAML.
func parsePatch(t *testing.T, text string) *runtime.RawExtension {
	t.Helper()
	return &runtime.RawExtension{Raw: marshalJSON(t, fromYAML(t, text))}
}

// TestInvalidPodTemplate has patches that are none. What lives must stay as it is, and the App must say where the fault is.
func TestInvalidPodTemplate(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for i, c := range []struct{ patch, says string }{
		{"{spec: {hostNetwrok: true}}", `spec.podTemplatePatch: `},
		{"{spec: {hostNetwrok: true}}", `"spec.hostNetwrok"`},
		{"{spec: {containers: [{name: NAME, imagePullPolcy: Always}]}}", `"spec.containers[0].imagePullPolcy"`},
		{"{sepc: {}}", `"sepc"`},
		{"{spec: {hostNetwork: 1}}", "spec.hostNetwork"},
		{"{spec: {hostAliases: 1}}", "spec.podTemplatePatch"},
		{"{spec: {containers: [{image: a}]}}", "spec.podTemplatePatch"},
		{"{spec: {containers: [{name: NAME, $patch: delete}]}}", `spec.podTemplatePatch.spec.containers: `},
		{"{spec: {containers: [{$patch: replace}, {name: other, image: a}]}}", "must not remove the main container"},
		{"{spec: {containers: [{name: NAME, image: null}]}}", "image"},
		{"{spec: {restartPolicy: Never}}", "spec.podTemplatePatch.spec.restartPolicy"},
		{"{metadata: {labels: {a: b c}}}", "spec.podTemplatePatch.metadata.labels"},
		{"{metadata: {labels: {app.huolala.cn/app: other}}}", "spec.podTemplatePatch.metadata.labels[app.huolala.cn/app]"},
		{"{metadata: {labels: {app.huolala.cn/modelbox: other}}}", "spec.podTemplatePatch.metadata.labels[app.huolala.cn/modelbox]"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			app := newApp(ns, fmt.Sprintf("web-%d", i))
			d, s := createInPlace(t, app)
			deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
			if err := updateWithRetry(t, plane.Client, app, func() {
				app.Spec.PodTemplatePatch = parsePatch(t, strings.ReplaceAll(c.patch, "NAME", app.Name))
				app.Spec.Image = "nginx:1.17"
			}); err != nil {
				t.Fatal(err)
			}
			plane.Stands(t, app, "Ready=False/Invalid", "Reconciling=False/Invalid", "Stalled=True/Invalid")
			harness.Says(t, app, "Stalled", c.says)
			m.Idle(t)
			checkUntouched(t, d, deploymentWas)
			checkUntouched(t, s, serviceWas)

			if err := updateWithRetry(t, plane.Client, app, func() { app.Spec.PodTemplatePatch = nil }); err != nil {
				t.Fatal(err)
			}
			plane.Stands(t, app, progressing...)
			awaitImage(t, d, "nginx:1.17")
		})
	}
}

// TestSchemaRefusesPatches writes what is no patch at all.
func TestSchemaRefusesPatches(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for _, text := range []string{"text", "[]", "1"} {
		err := plane.Client.Create(t.Context(), parseApp(t, ns, "web", "{image: a, podTemplatePatch: "+text+"}"))
		if err == nil || !strings.Contains(err.Error(), "spec.podTemplatePatch: Invalid value") {
			t.Errorf("%s: %v, want it to be refused", text, err)
		}
	}
}

// TestAppliedNulls applies patches with nulls and directives server-side. Each must be stored as it is, at the creation and at an update.
func TestAppliedNulls(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for i, patch := range []string{
		"{spec: null}",
		"{spec: {containers: null, volumes: null}}",
		"{spec: {containers: [{name: a, env: null, resources: null}]}}",
		"{spec: {initContainers: [{name: a, resources: {limits: null, requests: {cpu: null}}}]}}",
		"{spec: {containers: [{name: a, resources: {limits: {$patch: replace, memory: 1Gi}, requests: {$patch: delete}}}]}}",
		"{spec: {volumes: [{name: a, emptyDir: null}, {name: b, emptyDir: {sizeLimit: null}}]}}",
	} {
		for _, name := range []string{"updated", fmt.Sprintf("created-%d", i)} {
			app := newApp(ns, name)
			data := fmt.Appendf(nil, `{"apiVersion": "app.huolala.cn/v1", "kind": "App", "metadata": {"name": "%s"}, "spec": {"image": "a", "podTemplatePatch": %s}}`, name, parsePatch(t, patch).Raw)
			if err := plane.Client.Patch(t.Context(), app, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner("a")); err != nil {
				t.Errorf("%s of %s: %v", name, patch, err)
				continue
			}
			plane.Read(t, app)
			if err := diffOf(fromYAML(t, patch), fromYAML(t, string(app.Spec.PodTemplatePatch.Raw))); err != nil {
				t.Errorf("%s of %s: %v", name, patch, err)
			}
		}
	}
}

// TestSecretsInPatches checks that a value in a patch, which may be a password, is in no message.
func TestSecretsInPatches(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for name, text := range map[string]string{
		"unknown":  "{spec: {containers: [{name: unknown, env: [{name: A, valeu: hunter2}]}]}}",
		"type":     "{spec: {containers: [{name: type, env: [{name: A, value: {hunter2: hunter2}}]}]}}",
		"list":     "{spec: {containers: [{name: list, args: hunter2}]}}",
		"nameless": "{spec: {containers: [{env: [{name: A, value: hunter2}]}]}}",
		"keys":     "{spec: {$retainKeys: [{a: hunter2}]}}",
	} {
		app := newApp(ns, name)
		app.Spec.PodTemplatePatch = parsePatch(t, text)
		plane.Create(t, app)
		plane.Stands(t, app, "Stalled=True/Invalid")
		if message := harness.Message(app, "Stalled"); strings.Contains(message, "hunter2") {
			t.Errorf("%s: the message repeats a value: %s", name, message)
		}
	}
	var list corev1.EventList
	if err := plane.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if strings.Contains(list.Items[i].Message, "hunter2") {
			t.Errorf("an event repeats a value: %s", list.Items[i].Message)
		}
	}
}
