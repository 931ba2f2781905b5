package resource

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// buildErrors returns the errors of building an App named web from a spec.
func buildErrors(t *testing.T, spec string) []string {
	t.Helper()
	app := &appv1.App{}
	app.Name = "web"
	if err := yaml.Unmarshal([]byte("{spec: "+spec+"}"), app); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	app.Spec.Image = "i:1"
	_, errs := App(app, BuildOptions{Inputs: BuildInputs{Rendering: RenderingLatest}})
	var said []string
	for _, err := range errs {
		said = append(said, err.Error())
	}
	return said
}

// podPlace is a container of a spec: a format for fields of the container, the path of the container, and the names of its fields.
type podPlace struct{ spec, at, liveness, readiness, startup, ports string }

// podPlaces have the container ports http in the container and side in another one.
var podPlaces = map[string]podPlace{
	"main, by its Service":    {"{%s, ports: [{port: 80, name: http}], containers: [{name: side, image: i, ports: [{name: side, containerPort: 1}]}]}", "spec", "probes: {liveness: %s}", "probes: {readiness: %s}", "probes: {startup: %s}", "http"},
	"main, by containerPorts": {"{%s, containerPorts: [{containerPort: 80, name: http}], containers: [{name: side, image: i, ports: [{name: side, containerPort: 1}]}]}", "spec", "probes: {liveness: %s}", "probes: {readiness: %s}", "probes: {startup: %s}", "http"},
	"main, by a patch":        {"{%s, podTemplatePatch: {spec: {containers: [{name: web, ports: [{name: http, containerPort: 1}]}]}}}", "spec", "probes: {liveness: %s}", "probes: {readiness: %s}", "probes: {startup: %s}", "http"},
	"next":                    {"{ports: [{port: 1, name: side}], containers: [{name: a, image: i, ports: [{name: http, containerPort: 80}], %s}]}", "spec.containers[0]", "livenessProbe: %s", "readinessProbe: %s", "startupProbe: %s", "http"},
	"sidecar":                 {"{ports: [{port: 1, name: side}], initContainers: [{name: a, image: i, restartPolicy: Always, ports: [{name: http, containerPort: 80}], %s}]}", "spec.initContainers[0]", "livenessProbe: %s", "readinessProbe: %s", "startupProbe: %s", "http"},
	"main in a patch":         {"{containerPorts: [{containerPort: 80, name: http}], podTemplatePatch: {spec: {containers: [{name: web, %s}]}}}", "spec.podTemplatePatch.spec.containers[web]", "livenessProbe: %s", "readinessProbe: %s", "startupProbe: %s", "http"},
	"next in a patch":         {"{ports: [{port: 1, name: side}], podTemplatePatch: {spec: {containers: [{name: a, image: i, ports: [{name: http, containerPort: 80}], %s}]}}}", "spec.podTemplatePatch.spec.containers[a]", "livenessProbe: %s", "readinessProbe: %s", "startupProbe: %s", "http"},
	"sidecar in a patch":      {"{ports: [{port: 1, name: side}], podTemplatePatch: {spec: {initContainers: [{name: a, image: i, restartPolicy: Always, ports: [{name: http, containerPort: 80}], %s}]}}}", "spec.podTemplatePatch.spec.initContainers[a]", "livenessProbe: %s", "readinessProbe: %s", "startupProbe: %s", "http"},
}

// TestPortNamesOfProbes has each probe and action that connects to a port by its name, in each container: with the name of a port of the
// container, of a port of another container, and of none.
func TestPortNamesOfProbes(t *testing.T) {
	for name, p := range podPlaces {
		handlers := map[string]string{
			"liveness": p.liveness, "readiness": p.readiness, "startup": p.startup,
			"postStart": "lifecycle: {postStart: %s}", "preStop": "lifecycle: {preStop: %s}",
		}
		for handler, format := range handlers {
			for _, action := range []string{"httpGet", "tcpSocket"} {
				at := strings.NewReplacer(": {", ".", ": %s", "", "}", "").Replace(format)
				at = fmt.Sprintf("%s.%s.%s.port: ", p.at, at, action)
				for port, right := range map[string]bool{"http": true, "80": true, "side": false, "gone": false} {
					spec := fmt.Sprintf(p.spec, fmt.Sprintf(format, fmt.Sprintf("{%s: {port: %s}}", action, port)))
					said := buildErrors(t, spec)
					if right && len(said) > 0 || !right && (len(said) != 1 || !strings.HasPrefix(said[0], at) || !strings.Contains(said[0], "which declares http")) {
						t.Errorf("%s, %s: %s: %q, want %v at %s", name, handler, spec, said, right, at)
					}
				}
			}
		}
	}
}

// TestRootThatMustNotBe has each place of the user and of runAsNonRoot.
func TestRootThatMustNotBe(t *testing.T) {
	const none = ""
	for spec, want := range map[string]string{
		`{securityContext: {runAsUser: 0, runAsNonRoot: true}}`:                                                                              "spec.securityContext.runAsUser",
		`{podSecurityContext: {runAsUser: 0, runAsNonRoot: true}}`:                                                                           "spec.podSecurityContext.runAsUser",
		`{podSecurityContext: {runAsUser: 0}, securityContext: {runAsNonRoot: true}}`:                                                        "spec.podSecurityContext.runAsUser",
		`{podSecurityContext: {runAsNonRoot: true}, securityContext: {runAsUser: 0}}`:                                                        "spec.securityContext.runAsUser",
		`{podSecurityContext: {runAsNonRoot: true}, containers: [{name: a, image: i, securityContext: {runAsUser: 0}}]}`:                     "spec.containers[0].securityContext.runAsUser",
		`{podSecurityContext: {runAsNonRoot: true}, initContainers: [{name: a, image: i, securityContext: {runAsUser: 0}}]}`:                 "spec.initContainers[0].securityContext.runAsUser",
		`{podSecurityContext: {runAsNonRoot: true}, podTemplatePatch: {spec: {containers: [{name: web, securityContext: {runAsUser: 0}}]}}}`: "spec.podTemplatePatch.spec.containers[web].securityContext.runAsUser",
		`{securityContext: {runAsNonRoot: true}, podTemplatePatch: {spec: {securityContext: {runAsUser: 0}}}}`:                               "spec.podTemplatePatch.spec.securityContext.runAsUser",
		`{securityProfile: restricted, securityContext: {runAsUser: 0, runAsNonRoot: true}}`:                                                 "spec.securityContext.runAsUser",
		`{podSecurityContext: {runAsUser: 0, runAsNonRoot: true}, securityContext: {runAsUser: 1}}`:                                          none,
		`{podSecurityContext: {runAsUser: 0, runAsNonRoot: true}, securityContext: {runAsNonRoot: false}}`:                                   none,
		`{securityProfile: restricted, securityContext: {runAsUser: 0}}`:                                                                     none,
		`{securityProfile: restricted, podSecurityContext: {runAsUser: 0}}`:                                                                  none,
		`{securityProfile: restricted, initContainers: [{name: a, image: i, securityContext: {runAsUser: 0}}]}`:                              none,
		`{podSecurityContext: {runAsUser: 0}}`:                                                                                               none,
		`{podSecurityContext: {runAsNonRoot: true}}`:                                                                                         none,
	} {
		said := buildErrors(t, spec)
		if want == none && len(said) > 0 || want != none && (len(said) != 1 || !strings.HasPrefix(said[0], want+": ") || !strings.Contains(said[0], "set another user")) {
			t.Errorf("%s: %q, want %q", spec, said, want)
		}
	}
}
