package resource

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// patchedApp returns an App with a patch in YAML.
func patchedApp(t testing.TB, patch string) *appv1.App {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	app := appOf(t, "{image: a, ports: [{port: 80}]}")
	app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: data}
	return app
}

// TestPatchErrors has patches that are wrong: the fields that the errors name, and words of them. Each has a value, hunter2,
// that no error repeats.
func TestPatchErrors(t *testing.T) {
	const container = "podTemplatePatch.spec.containers[0]"
	for name, c := range map[string]struct {
		patch string
		want  []string
		says  string
	}{
		"container without a name":   {`{spec: {containers: [{image: a, env: [{name: A, value: hunter2}]}]}}`, []string{container + ".name"}, "identifies the item"},
		"container by a null":        {`{spec: {containers: [{name: null, args: [hunter2]}]}}`, []string{container + ".name"}, "identifies the item"},
		"container by nothing":       {`{spec: {containers: [{name: "", args: [hunter2]}]}}`, []string{container + ".name"}, "identifies the item"},
		"container by an object":     {`{spec: {containers: [{name: {hunter2: hunter2}}]}}`, []string{container + ".name"}, "identifies the item"},
		"container that is text":     {`{spec: {containers: [hunter2]}}`, []string{container}, "must be an object"},
		"variable without a name":    {`{spec: {containers: [{name: app, env: [{value: hunter2}]}]}}`, []string{container + ".env[0].name"}, "identifies the item"},
		"port without a number":      {`{spec: {containers: [{name: app, ports: [{name: hunter2}]}]}}`, []string{container + ".ports[0].containerPort"}, "identifies the item"},
		"mount without a path":       {`{spec: {containers: [{name: app, volumeMounts: [{name: hunter2}]}]}}`, []string{container + ".volumeMounts[0].mountPath"}, "identifies the item"},
		"volume without a name":      {`{spec: {volumes: [{hostPath: {path: hunter2}}]}}`, []string{"podTemplatePatch.spec.volumes[0].name"}, "identifies the item"},
		"init container":             {`{spec: {initContainers: [{env: [{name: A, value: hunter2}]}]}}`, []string{"podTemplatePatch.spec.initContainers[0].name"}, "identifies the item"},
		"deleted without a name":     {`{spec: {containers: [{$patch: delete, args: [hunter2]}]}}`, []string{container + ".name"}, "identifies the item"},
		"two at once":                {`{spec: {volumes: [{}], containers: [{args: [hunter2]}]}}`, []string{container + ".name", "podTemplatePatch.spec.volumes[0].name"}, ""},
		"list that is text":          {`{spec: {containers: hunter2}}`, []string{"podTemplatePatch"}, ""},
		"list that is an object":     {`{spec: {containers: [{name: app, env: {hunter2: hunter2}}]}}`, []string{"podTemplatePatch"}, ""},
		"value that is an object":    {`{spec: {containers: [{name: app, env: [{name: A, value: {a: hunter2}}]}]}}`, []string{"podTemplatePatch"}, "env.value must be a string; this object is not"},
		"value that is a number":     {`{spec: {containers: [{name: app, env: [{name: A, value: 20271}]}]}}`, []string{"podTemplatePatch"}, "env.value must be a string; this number is not"},
		"number that is text":        {`{spec: {terminationGracePeriodSeconds: hunter2}}`, []string{"podTemplatePatch"}, "terminationGracePeriodSeconds must be an integer of 64 bits; this string is not"},
		"number that is a fraction":  {`{spec: {terminationGracePeriodSeconds: 20271.5}}`, []string{"podTemplatePatch"}, "terminationGracePeriodSeconds must be an integer of 64 bits; this number is not"},
		"time":                       {`{metadata: {creationTimestamp: hunter2}}`, []string{"podTemplatePatch"}, ""},
		"quantity":                   {`{spec: {containers: [{name: app, resources: {limits: {cpu: hunter2}}}]}}`, []string{"podTemplatePatch"}, ""},
		"unknown field":              {`{spec: {moon: hunter2}}`, []string{"podTemplatePatch"}, `unknown field "spec.moon"`},
		"unknown field of variables": {`{spec: {containers: [{name: app, env: [{name: A, valeu: hunter2}]}]}}`, []string{"podTemplatePatch"}, "valeu"},
		"directive unknown":          {`{spec: {containers: [{name: app, $patch: hunter2}]}}`, []string{"podTemplatePatch"}, "directives"},
		"directive of an object":     {`{spec: {$patch: {hunter2: hunter2}}}`, []string{"podTemplatePatch"}, "directives"},
		"order that does not fit":    {`{spec: {$setElementOrder/containers: [{name: hunter2}], containers: [{name: app, args: [hunter2]}]}}`, []string{"podTemplatePatch"}, "directives"},
		"order that is text":         {`{spec: {$setElementOrder/containers: hunter2}}`, []string{"podTemplatePatch"}, "directives"},
		"keys that are text":         {`{spec: {$retainKeys: hunter2, hostNetwork: true}}`, []string{"podTemplatePatch"}, "directives"},
		"kept by an object":          {`{spec: {$retainKeys: [{a: hunter2}], hostNetwork: true}}`, []string{"podTemplatePatch"}, "directives"},
		"container of another name":  {`{spec: {containers: [{name: main, env: [{name: A, value: hunter2}]}]}}`, []string{"podTemplatePatch.spec.containers[main].image"}, `the main container is named "app"`},
		"no main container":          {`{spec: {containers: [{$patch: replace}, {name: other, image: a, args: [hunter2]}]}}`, []string{"podTemplatePatch.spec.containers"}, "must not remove the main container"},
		"a list":                     {`[hunter2]`, []string{"podTemplatePatch"}, "must be an object"},
		"text":                       {`hunter2`, []string{"podTemplatePatch"}, "must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := App(patchedApp(t, c.patch), latest)
			var got []string
			for _, err := range errs {
				got = append(got, strings.TrimPrefix(err.Field, "spec."))
				if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "20271") {
					t.Errorf("the error repeats a value: %s", text)
				} else if !strings.Contains(text, c.says) {
					t.Errorf("the error does not say %q: %s", c.says, text)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s\n%v", diff, errs)
			}
		})
	}
}

// TestPatchNeverPanics applies random patches, with directives and values where they do not belong: the code that merges is not
// ours. No error repeats a value.
func TestPatchNeverPanics(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 5_000 {
		data, err := json.Marshal(randomPatch(random, 5))
		if err != nil {
			t.Fatal(err)
		}
		app := appOf(t, "{image: a, ports: [{port: 80}]}")
		app.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: data}
		w, errs := App(app, latest)
		for _, err := range errs {
			if strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error repeats a value: %v of %s", err, data)
			}
		}
		if len(errs) == 0 {
			hasIdentity(t, w, string(data))
		}
	}
}

// randomPatch returns a random value with the names of a pod template's fields, and of directives.
func randomPatch(random *rand.Rand, depth int) any {
	if depth > 0 {
		switch random.IntN(8) {
		case 0, 1, 2, 3:
			object := map[string]any{}
			for range random.IntN(4) {
				names := []string{
					"metadata", "spec", "labels", "annotations", "containers", "initContainers", "volumes", "env", "ports", "name", "resources", "limits",
					"hostNetwork", "command", "securityContext", "affinity", "tolerations", "nodeSelector", "topologySpreadConstraints", "imagePullSecrets",
					"$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "finalizers", "ownerReferences",
					"app.huolala.cn/modelbox", "app.kubernetes.io/name", "valueFrom", "emptyDir", "readinessProbe", "httpGet", "containerPort",
				}
				object[names[random.IntN(len(names))]] = randomPatch(random, depth-1)
			}
			return object
		case 4, 5:
			list := []any{}
			for range random.IntN(3) {
				list = append(list, randomPatch(random, depth-1))
			}
			return list
		}
	}
	return []any{nil, true, 80, 1.5, "hunter2", "app", "replace", "delete", "merge", ""}[random.IntN(10)]
}

// hasIdentity fails the test if the pods lack a label of their own, or have one that is another resource's.
func hasIdentity(t *testing.T, w *Workload, patch string) {
	t.Helper()
	want := map[string]string{
		appv1.LabelApp: "app", appv1.LabelName: "app", appv1.LabelInstance: "app", appv1.LabelComponent: "app", appv1.LabelManagedBy: appv1.ManagedBy,
	}
	got := map[string]string{}
	for key, value := range w.Template.Labels {
		if strings.HasPrefix(key, "app.huolala.cn/") || want[key] != "" {
			got[key] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels of the pods by the patch %s (-want +got):\n%s", patch, diff)
	}
}

// TestPatchOfLabels has patches that state labels of the operator's, which make pods those of another resource and endpoints of
// its Service.
func TestPatchOfLabels(t *testing.T) {
	const labels = "spec.podTemplatePatch.metadata.labels"
	for name, c := range map[string]struct {
		patch string
		want  []string
	}{
		"of the user's":          {`{metadata: {labels: {tier: web}}}`, nil},
		"of another resource":    {`{metadata: {labels: {app.huolala.cn/modelbox: other}}}`, []string{labels + "[app.huolala.cn/modelbox]"}},
		"of the operator's":      {`{metadata: {labels: {app.huolala.cn/new: a}}}`, []string{labels + "[app.huolala.cn/new]"}},
		"of its own":             {`{metadata: {labels: {app.huolala.cn/app: other}}}`, []string{labels + "[app.huolala.cn/app]"}},
		"of its own, as it is":   {`{metadata: {labels: {app.huolala.cn/app: app}}}`, []string{labels + "[app.huolala.cn/app]"}},
		"of its own, removed":    {`{metadata: {labels: {app.huolala.cn/app: null}}}`, []string{labels + "[app.huolala.cn/app]"}},
		"of another's, removed":  {`{metadata: {labels: {app.huolala.cn/modelbox: null}}}`, []string{labels + "[app.huolala.cn/modelbox]"}},
		"recommended":            {`{metadata: {labels: {app.kubernetes.io/name: a, app.kubernetes.io/component: b}}}`, []string{labels + "[app.kubernetes.io/component]", labels + "[app.kubernetes.io/name]"}},
		"all, replaced":          {`{metadata: {labels: {$patch: replace, app.huolala.cn/modelbox: other}}}`, []string{labels + "[app.huolala.cn/modelbox]"}},
		"all, replaced by some":  {`{metadata: {labels: {$patch: replace, tier: web}}}`, nil},
		"all, deleted":           {`{metadata: {labels: {$patch: delete}}}`, nil},
		"all, null":              {`{metadata: {labels: null}}`, nil},
		"metadata, replaced":     {`{metadata: {$patch: replace, labels: {app.huolala.cn/modelbox: other}}}`, []string{labels + "[app.huolala.cn/modelbox]"}},
		"metadata, kept in part": {`{metadata: {$retainKeys: [labels], labels: {app.huolala.cn/modelbox: other}}}`, []string{labels + "[app.huolala.cn/modelbox]"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := patchedApp(t, c.patch)
			w, errs := App(app, latest)
			if diff := cmp.Diff(c.want, fieldsOf(errs)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if len(errs) == 0 {
				hasIdentity(t, w, c.patch)
			}
			for key, want := range map[string]string{appv1.LabelApp: "app", appv1.LabelManagedBy: appv1.ManagedBy} {
				if w.Template.Labels[key] != want {
					t.Errorf("label %s is %q, want %q", key, w.Template.Labels[key], want)
				}
			}
		})
	}
}

// TestPatchNulls has patches with a null, which removes a field wherever the null is. No null is decoded as a value, such as a quantity of 0.
func TestPatchNulls(t *testing.T) {
	const spec = `{image: a, resources: {limits: {cpu: 1, memory: 2Gi}, requests: {cpu: 1, memory: 2Gi}}, nodeSelector: {a: b}, volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}`
	for patch, want := range map[string]func(*corev1.PodSpec) bool{
		`containers: [{name: app, resources: {limits: {cpu: null}}}]`: func(p *corev1.PodSpec) bool {
			r := p.Containers[0].Resources
			return !hasResource(r.Limits, "cpu") && hasResource(r.Limits, "memory") && hasResource(r.Requests, "cpu")
		},
		`containers: [{name: app, resources: {requests: {memory: null, example.com/absent: null}}}]`: func(p *corev1.PodSpec) bool {
			r := p.Containers[0].Resources
			return len(r.Requests) == 1 && hasResource(r.Requests, "cpu") && hasResource(r.Limits, "memory")
		},
		`containers: [{name: app, resources: {limits: null}}]`: func(p *corev1.PodSpec) bool {
			return p.Containers[0].Resources.Limits == nil && p.Containers[0].Resources.Requests != nil
		},
		`containers: [{name: app, resources: null}]`: func(p *corev1.PodSpec) bool {
			return p.Containers[0].Resources.Limits == nil && p.Containers[0].Resources.Requests == nil
		},
		`containers: [{name: app, resources: {limits: {$patch: delete}}}]`: func(p *corev1.PodSpec) bool {
			return len(p.Containers[0].Resources.Limits) == 0 && p.Containers[0].Resources.Requests != nil
		},
		`containers: [{name: app, resources: {limits: {$patch: replace, cpu: null, memory: 3Gi}}}]`: func(p *corev1.PodSpec) bool {
			limits := p.Containers[0].Resources.Limits
			return len(limits) == 1 && limits.Memory().String() == "3Gi"
		},
		`containers: [{name: app, resources: {limits: {$patch: replace, example.com/a: 1}, requests: null}}]`: func(p *corev1.PodSpec) bool {
			r := p.Containers[0].Resources
			return len(r.Limits) == 1 && hasResource(r.Limits, "example.com/a") && r.Requests == nil
		},
		`containers: [{name: added, image: a, resources: {limits: {$patch: replace, memory: 3Gi}}}]`: func(p *corev1.PodSpec) bool {
			return len(p.Containers) == 2 && p.Containers[1].Resources.Limits.Memory().String() == "3Gi"
		},
		`initContainers: [{name: added, image: a, resources: {requests: {$patch: replace, memory: 3Gi}}}]`: func(p *corev1.PodSpec) bool {
			return len(p.InitContainers) == 1 && p.InitContainers[0].Resources.Requests.Memory().String() == "3Gi"
		},
		`containers: [{name: added, image: a, resources: {limits: {cpu: null}}}]`: func(p *corev1.PodSpec) bool {
			return len(p.Containers) == 2 && len(p.Containers[1].Resources.Limits) == 0
		},
		`volumes: [{name: v, emptyDir: {sizeLimit: null}}]`: func(p *corev1.PodSpec) bool {
			return p.Volumes[0].EmptyDir != nil && p.Volumes[0].EmptyDir.SizeLimit == nil
		},
		`volumes: [{name: v, emptyDir: null, hostPath: {path: /a}}]`: func(p *corev1.PodSpec) bool {
			return p.Volumes[0].EmptyDir == nil && p.Volumes[0].HostPath != nil
		},
		`volumes: [{name: w, emptyDir: null, hostPath: {path: /a}}]`: func(p *corev1.PodSpec) bool {
			return len(p.Volumes) == 2 && p.Volumes[0].EmptyDir == nil && p.Volumes[1].EmptyDir != nil
		},
		`nodeSelector: {$patch: replace, a: null, c: d}`: func(p *corev1.PodSpec) bool {
			return cmp.Equal(p.NodeSelector, map[string]string{"c": "d"})
		},
		`terminationGracePeriodSeconds: 9007199254740993`: func(p *corev1.PodSpec) bool { // A float64 has no such number.
			return *p.TerminationGracePeriodSeconds == 9007199254740993
		},
	} {
		app := appOf(t, spec)
		app.Spec.PodTemplatePatch = patchedApp(t, "{spec: {"+patch+"}}").Spec.PodTemplatePatch
		w, errs := App(app, latest)
		if len(errs) > 0 {
			t.Errorf("%s: %v", patch, errs)
			continue
		}
		if !want(&w.Template.Spec) {
			t.Errorf("%s: the pod has %+v", patch, w.Template.Spec)
		}
	}
}

// TestReplacedAmounts replaces the limits of a container, also of one without limits: they are what the patch states.
func TestReplacedAmounts(t *testing.T) {
	for _, spec := range []string{`{image: a}`, `{image: a, resources: {requests: {cpu: 1}}}`, `{image: a, resources: {limits: {cpu: 2}}}`} {
		app := appOf(t, spec)
		app.Spec.PodTemplatePatch = patchedApp(t, `{spec: {containers: [{name: app, resources: {limits: {$patch: replace, memory: 1Gi}}}]}}`).Spec.PodTemplatePatch
		w, errs := App(app, latest)
		if len(errs) > 0 {
			t.Errorf("%s: %v", spec, errs)
			continue
		}
		if limits := w.Template.Spec.Containers[0].Resources.Limits; len(limits) != 1 || limits.Memory().String() != "1Gi" {
			t.Errorf("%s: the limits are %v", spec, limits)
		}
	}
}

func hasResource(list corev1.ResourceList, name corev1.ResourceName) bool {
	_, found := list[name]
	return found
}
