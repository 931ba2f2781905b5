package validation

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// containerForms are the places of a container in a spec: a format for its fields, and the path that errors and warnings begin with. In the
// main container, some fields have other names.
var containerForms = map[string]struct{ spec, at string }{
	"main":    {"{%s}", "spec"},
	"next":    {"{containers: [{name: side, image: 'i:1', %s}]}", "spec.containers[0]"},
	"initial": {"{initContainers: [{name: first, image: 'i:1', restartPolicy: Always, %s}]}", "spec.initContainers[0]"},
	"patched": {"{podTemplatePatch: {spec: {containers: [{name: web, %s}]}}}", "spec.podTemplatePatch.spec.containers[web]"},
}

// appOf returns an App named web without any warning but for what a spec adds.
func appOf(t *testing.T, spec string) *appv1.App {
	t.Helper()
	app := &appv1.App{}
	app.Name, app.Namespace = "web", "shop"
	if err := yaml.Unmarshal([]byte("{spec: "+spec+"}"), app); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	app.Spec.Image = "i:1"
	if !app.Spec.Size.Named() && len(app.Spec.Resources.Requests)+len(app.Spec.Resources.Limits) == 0 {
		app.Spec.Size = appv1.SizeSmall
	}
	return app
}

// checkWarned checks that there is one warning, with its field and some words, or none for empty words.
func checkWarned(t *testing.T, app *appv1.App, spec, at, words string) {
	t.Helper()
	said := AppWarnings(app, nil)
	if words == "" {
		if len(said) > 0 {
			t.Errorf("%s: %q, want none", spec, said)
		}
		return
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], at+": ") || !strings.Contains(said[0], words) {
		t.Errorf("%s: %q, want one at %s with %q", spec, said, at, words)
	}
}

// TestUnitsThatMakeNoSense has each quantity of a spec, with units that go with its resource and units that do not.
func TestUnitsThatMakeNoSense(t *testing.T) {
	quantities := map[string]map[string]string{
		"memory": {
			"1m": "m is a thousandth of a byte", "100m": "like 100Mi", "1.5": "m is a thousandth of a byte", "512": "add the unit", "100k": "add the unit",
			"0": "", "1Mi": "", "0.1Gi": "", "1G": "",
		},
		"cpu": {"1Gi": "more than any node has", "500M": "like 500m", "100k": "more than any node has", "0": "", "1m": "", "0.5": "", "512": ""},
	}
	quantities["ephemeral-storage"], quantities["storage"] = quantities["memory"], quantities["memory"]
	for place, form := range containerForms {
		for _, name := range []string{"memory", "ephemeral-storage", "cpu"} {
			for _, list := range []string{"requests", "limits"} {
				for q, words := range quantities[name] {
					spec := fmt.Sprintf(form.spec, fmt.Sprintf(`resources: {%s: {%s: %q}}`, list, name, q))
					checkWarned(t, appOf(t, spec), place+": "+spec, fmt.Sprintf("%s.resources.%s[%s]", form.at, list, name), words)
				}
			}
		}
	}
	for spec, at := range map[string]string{
		`{volumes: [{name: v, emptyDir: {sizeLimit: %q}}]}`:                                                                           "spec.volumes[0].emptyDir.sizeLimit",
		`{volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: %q}}}}}}]}`:                    "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
		`{podTemplatePatch: {spec: {volumes: [{name: v, emptyDir: {sizeLimit: %q}}]}}}`:                                               "spec.podTemplatePatch.spec.volumes[0].emptyDir.sizeLimit",
		`{podTemplatePatch: {spec: {resources: {limits: {memory: %q}}}}}`:                                                             "spec.podTemplatePatch.spec.resources.limits[memory]",
		`{autoscaling: {maxReplicas: 2, metrics: [{resource: {name: memory, target: {averageValue: %q}}}]}}`:                          "spec.autoscaling.metrics[0].resource.target.averageValue",
		`{autoscaling: {maxReplicas: 2, metrics: [{containerResource: {name: memory, container: web, target: {averageValue: %q}}}]}}`: "spec.autoscaling.metrics[0].containerResource.target.averageValue",
	} {
		for q, words := range quantities["memory"] {
			spec := fmt.Sprintf(spec, q)
			checkWarned(t, appOf(t, spec), spec, at, words)
		}
	}
	for q, words := range quantities["memory"] {
		cm := &appv1.CloudManager{}
		if err := yaml.Unmarshal(fmt.Appendf(nil, `{spec: {db: {statefulSet: {storage: {size: %q}}}}}`, q), cm); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(CloudManagerWarnings(cm), "\n")
		if at := "spec.db.statefulSet.storage.size: "; strings.Contains(said, at) != (words != "") || !strings.Contains(said, words) {
			t.Errorf("storage.size %s: %s, want %q", q, said, words)
		}
	}
}

// TestMountPaths has each path of a container's volumes, as it can be meant and as it cannot.
func TestMountPaths(t *testing.T) {
	paths := map[string]string{
		"x": "is not absolute", "a/b": "is not absolute", "/": "is the root", "//": "is the root", "/a:b": "contains ':'", "/a/../b": "must not contain '..'",
		"/taken/": "is the same path as", "/a": "", "/a/b.c": "", `C:\data`: "",
	}
	for place, form := range containerForms {
		for _, list := range []struct{ fields, at string }{
			{`volumeMounts: [{name: w, mountPath: /taken}, {name: v, mountPath: %q}]`, "volumeMounts[1].mountPath"},
			{`volumeMounts: [{name: w, mountPath: /taken}], volumeDevices: [{name: v, devicePath: %q}]`, "volumeDevices[0].devicePath"},
		} {
			if place == "main" && strings.Contains(list.at, "Device") {
				continue // Only a patch gives the main container devices.
			}
			for path, words := range paths {
				spec := fmt.Sprintf(form.spec, fmt.Sprintf(list.fields, path))
				checkWarned(t, appOf(t, spec), place+": "+spec, form.at+"."+list.at, words)
			}
		}
	}
}

// TestServiceWithoutEffect has each field of a Service without ports, and the field that a Service without an outside ignores.
func TestServiceWithoutEffect(t *testing.T) {
	for _, s := range []string{
		"name: a", "type: NodePort", "type: LoadBalancer", "clusterIP: None", "annotations: {a: b}", "type: LoadBalancer, loadBalancerClass: a",
		"externalTrafficPolicy: Local", "sessionAffinity: ClientIP", "sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}",
		"loadBalancerSourceRanges: [10.0.0.0/8]", "publishNotReadyAddresses: true", "internalTrafficPolicy: Local", "trafficDistribution: PreferClose",
		"ipFamilies: [IPv4]", "ipFamilyPolicy: SingleStack",
	} {
		spec := "{service: {" + s + "}}"
		first, _, _ := strings.Cut(s, ":")
		checkWarned(t, appOf(t, spec), spec, "spec.service", "has no effect without ports")
		checkWarned(t, appOf(t, spec), spec, "spec.service", first)
	}
	for spec, words := range map[string]string{
		`{ports: [{port: 8080}], service: {externalTrafficPolicy: Local}}`:                     "has no effect with the type ClusterIP",
		`{ports: [{port: 8080}], service: {type: ClusterIP, externalTrafficPolicy: Cluster}}`:  "has no effect with the type ClusterIP",
		`{ports: [{port: 8080}], service: {type: NodePort, externalTrafficPolicy: Local}}`:     "",
		`{ports: [{port: 8080}], service: {type: LoadBalancer, externalTrafficPolicy: Local}}`: "",
		`{ports: [{port: 8080}], service: {type: NodePort}}`:                                   "",
		`{}`: "",
	} {
		checkWarned(t, appOf(t, spec), spec, "spec.service.externalTrafficPolicy", words)
	}
}

// TestPatchOfComputedFields has the fields of a pod that Kubernetes computes, and refuses in each pod that states another value.
func TestPatchOfComputedFields(t *testing.T) {
	for fields, c := range map[string]struct{ at, words string }{
		"priority: 10":                      {"priority", "priorityClassName"},
		"priority: 0":                       {"priority", "priorityClassName"},
		"overhead: {cpu: 100m}":             {"overhead", "runtimeClassName"},
		"priorityClassName: gold":           {},
		"preemptionPolicy: Never":           {},
		"terminationGracePeriodSeconds: 10": {},
	} {
		spec := "{podTemplatePatch: {spec: {" + fields + "}}}"
		checkWarned(t, appOf(t, spec), spec, "spec.podTemplatePatch.spec."+c.at, c.words)
	}
}

// TestNUL has each text that the process of a container gets, with the character that none of them can have.
func TestNUL(t *testing.T) {
	for place, form := range containerForms {
		if place == "patched" {
			continue // PodTemplate has the same rules.
		}
		env, probe := "env", "livenessProbe"
		fields := map[string]string{
			`workingDir: "a\0b"`:                                  "workingDir",
			`terminationMessagePath: "/a\0b"`:                     "terminationMessagePath",
			`volumeDevices: [{name: claim, devicePath: "/a\0b"}]`: "volumeDevices[0].devicePath",
		}
		if place == "main" {
			env, probe, fields = "envs", "liveness", map[string]string{}
		}
		fields[`command: [a, "a\0b"]`], fields[`args: ["a\0b"]`] = "command[1]", "args[0]"
		fields[env+`: [{name: A, value: "a\0b"}]`] = env + "[0].value"
		fields[`volumeMounts: [{name: v, mountPath: "/a\0b"}]`] = "volumeMounts[0].mountPath"
		fields[`volumeMounts: [{name: v, mountPath: /a, subPath: "a\0b"}]`] = "volumeMounts[0].subPath"
		fields[`volumeMounts: [{name: v, mountPath: /a, subPathExpr: "a\0b"}]`] = "volumeMounts[0].subPathExpr"
		fields[`lifecycle: {preStop: {exec: {command: ["a\0b"]}}}`] = "lifecycle.preStop.exec.command[0]"
		fields[`lifecycle: {postStart: {exec: {command: ["a\0b"]}}}`] = "lifecycle.postStart.exec.command[0]"
		if place == "main" {
			fields[`probes: {liveness: {exec: {command: ["a\0b"]}}}`] = "probes.liveness.exec.command[0]"
		} else {
			fields[probe+`: {exec: {command: ["a\0b"]}}`] = probe + ".exec.command[0]"
		}
		for field, at := range fields {
			spec := fmt.Sprintf(form.spec, field)
			app := appOf(t, strings.TrimSuffix(spec, "}")+", volumes: [{name: v, emptyDir: {}}, {name: claim, persistentVolumeClaim: {claimName: c}}]}")
			errs := App(app)
			if len(errs) != 1 || errs[0].Field != form.at+"."+at || !strings.Contains(errs[0].Error(), "NUL") || nul(errs[0].Error()) {
				t.Errorf("%s: %v, want one at %s.%s", spec, errs, form.at, at)
			}
		}
	}
	app := appOf(t, `{volumes: [{name: v, hostPath: {path: "/a\0b"}}]}`)
	if errs := App(app); len(errs) != 1 || errs[0].Field != "spec.volumes[0].hostPath.path" {
		t.Errorf("a path of the node: %v", errs)
	}
}

// TestReservedNames has names whose objects Kubernetes creates and keeps.
func TestReservedNames(t *testing.T) {
	for _, c := range []struct{ name, namespace, spec, want string }{
		{"default", "shop", `{serviceAccount: {}}`, "spec.serviceAccount"},
		{"default", "shop", `{serviceAccountName: default}`, ""},
		{"web", "shop", `{serviceAccount: {}}`, ""},
		{"kubernetes", "default", `{ports: [{port: 80}]}`, "spec.service.name"},
		{"web", "default", `{ports: [{port: 80}], service: {name: kubernetes}}`, "spec.service.name"},
		{"kubernetes", "default", `{ports: [{port: 80}], service: {name: web}}`, ""},
		{"kubernetes", "default", `{}`, ""},
		{"kubernetes", "shop", `{ports: [{port: 80}]}`, ""},
	} {
		app := appOf(t, c.spec)
		app.Name, app.Namespace = c.name, c.namespace
		box := &appv1.ModelBox{ObjectMeta: app.ObjectMeta}
		box.Spec.WorkloadSpec, box.Spec.ServingSpec = app.Spec.WorkloadSpec, app.Spec.ServingSpec
		for kind, errs := range map[string][]string{"App": at(App(app)), "ModelBox": at(ModelBox(box))} {
			if got := strings.Join(errs, " "); got != c.want {
				t.Errorf("%s %s/%s %s: errors at %q, want %q", kind, c.namespace, c.name, c.spec, got, c.want)
			}
		}
	}
}
