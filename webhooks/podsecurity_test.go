package webhooks

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// TestRestrictedUndone has each field that undoes the security profile restricted, and fields that do not.
func TestRestrictedUndone(t *testing.T) {
	s := newValidators(t, emptyWorld{}, emptyWorld{})
	never := func() bool { return false }
	for fields, words := range map[string]string{
		`securityContext: {privileged: true}`:                                                             "privileged",
		`securityContext: {allowPrivilegeEscalation: true}`:                                               "allowPrivilegeEscalation",
		`securityContext: {capabilities: {add: [SYS_ADMIN]}}`:                                             "SYS_ADMIN",
		`securityContext: {capabilities: {drop: [CHOWN]}}`:                                                "capabilities.drop",
		`securityContext: {runAsNonRoot: false}`:                                                          "runAsNonRoot",
		`securityContext: {runAsUser: 0}`:                                                                 "runAsUser=0",
		`securityContext: {seccompProfile: {type: Unconfined}}`:                                           "seccompProfile",
		`securityContext: {appArmorProfile: {type: Unconfined}}`:                                          "AppArmor",
		`securityContext: {procMount: Unmasked}, podTemplatePatch: {spec: {hostUsers: false}}`:            "procMount",
		`securityContext: {seLinuxOptions: {type: spc_t}}`:                                                "seLinuxOptions",
		`podSecurityContext: {runAsNonRoot: false}`:                                                       "runAsNonRoot",
		`podSecurityContext: {runAsUser: 0}`:                                                              "runAsUser=0",
		`podSecurityContext: {seccompProfile: {type: Unconfined}}`:                                        "seccompProfile",
		`podSecurityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}`:                              "sysctls",
		`podSecurityContext: {windowsOptions: {hostProcess: true}}`:                                       "hostProcess",
		`volumes: [{name: v, hostPath: {path: /a}}]`:                                                      "hostPath",
		`volumes: [{name: v, nfs: {server: a, path: /a}}]`:                                                "nfs",
		`podTemplatePatch: {spec: {hostNetwork: true}}`:                                                   "hostNetwork",
		`podTemplatePatch: {spec: {hostPID: true}}`:                                                       "hostPID",
		`podTemplatePatch: {spec: {hostIPC: true}}`:                                                       "hostIPC",
		`podTemplatePatch: {spec: {containers: [{name: web, ports: [{containerPort: 1, hostPort: 1}]}]}}`: "hostPort",
		`podTemplatePatch: {spec: {containers: [{name: web, securityContext: {privileged: true}}]}}`:      `container "web"`,
		`containers: [{name: side, image: "i:1", securityContext: {privileged: true}}]`:                   `container "side"`,
		`initContainers: [{name: first, image: "i:1", securityContext: {runAsUser: 0}}]`:                  `container "first"`,
		`securityContext: {readOnlyRootFilesystem: true, runAsUser: 1000}`:                                "",
		`securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}`:                                      "",
		`volumes: [{name: v, emptyDir: {}}]`:                                                              "",
		`podSecurityContext: {fsGroup: 1000}`:                                                             "",
	} {
		for profile, undone := range map[string]bool{"securityProfile: restricted,": words != "", "": false} {
			app := &appv1.App{}
			app.Name = "web"
			if err := yaml.Unmarshal([]byte("{spec: {image: 'i:1', "+profile+" "+fields+"}}"), app); err != nil {
				t.Fatalf("%s: %v", fields, err)
			}
			w, _ := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
			said := s.podSecurity(t.Context(), &asker{mayLook: never, mayAsk: never}, "shop", []*resource.Workload{w})
			if text := strings.Join(said, "\n"); undone != (len(said) == 1) || undone && (!strings.HasPrefix(text, "spec.securityProfile: ") || !strings.Contains(text, words)) {
				t.Errorf("%s %s: %q, want %q", profile, fields, said, words)
			}
		}
	}
}
