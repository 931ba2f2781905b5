package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// side wraps fields of a container next to the main one.
func side(fields string) string { return "{containers: [{name: a, image: i, " + fields + "}]}" }

// volumeOf returns the pod spec of a volume with a source.
func volumeOf(source string) string { return "{volumes: [{name: a, " + source + "}]}" }

// TestRules has rules that are Kubernetes' own, broken one at a time. What is wanted is the field that the user wrote.
func TestRules(t *testing.T) {
	projected := func(sources string) string { return volumeOf("projected: {sources: [" + sources + "]}") }
	for spec, want := range map[string]string{
		`{envs: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.moon}}}]}`:                                                     "spec.envs[0].valueFrom.fieldRef.fieldPath",
		`{envs: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}}]}`:                                          "spec.envs[0].valueFrom.fieldRef.fieldPath",
		`{envs: [{name: A, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: metadata.name}}}]}`:                                     "spec.envs[0].valueFrom.fieldRef.apiVersion",
		`{envs: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.moon}}}]}`:                                                "spec.envs[0].valueFrom.resourceFieldRef.resource",
		`{envs: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1Mi}}}]}`:                                   "spec.envs[0].valueFrom.resourceFieldRef.divisor",
		`{envs: [{name: A, valueFrom: {configMapKeyRef: {name: A, key: k}}}]}`:                                                       "spec.envs[0].valueFrom.configMapKeyRef.name",
		`{envs: [{name: A, valueFrom: {secretKeyRef: {name: a, key: a/b}}}]}`:                                                        "spec.envs[0].valueFrom.secretKeyRef.key",
		`{volumes: [{name: v, configMap: {name: c}}], envs: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}`: "spec.envs[0].valueFrom.fileKeyRef.volumeName",
		`{envFrom: [{prefix: "=", configMapRef: {name: a}}]}`:                                                                        "spec.envFrom[0].prefix",
		`{envFrom: [{secretRef: {name: A_b}}]}`:                                                                                      "spec.envFrom[0].secretRef.name",
		`{resources: {limits: {moon: 1}}}`:                                                                                           "spec.resources.limits[moon]",
		`{resources: {limits: {example.com/gpu: 500m}}}`:                                                                             "spec.resources.limits[example.com/gpu]",
		`{resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}}}`:                                                                        "spec.resources.limits[hugepages-2Mi]",
		`{resources: {limits: {hugepages-2Mi: 2Mi}}}`:                                                                                "spec.resources.limits",
		`{volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, subPath: /b}]}`:                                "spec.volumeMounts[0].subPath",
		`{volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, subPath: b, subPathExpr: c}]}`:                 "spec.volumeMounts[0].subPathExpr",
		`{volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]}`:            "spec.volumeMounts[0].mountPropagation",
		`{volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: Enabled}]}`:                 "spec.volumeMounts[0].recursiveReadOnly",
		`{probes: {liveness: {exec: {}}}}`:                                                                                           "spec.probes.liveness.exec.command",
		`{probes: {startup: {tcpSocket: {port: 0}}}}`:                                                                                "spec.probes.startup.tcpSocket.port",
		`{probes: {readiness: {httpGet: {port: http, scheme: FTP}}}}`:                                                                "spec.probes.readiness.httpGet.scheme",
		`{probes: {readiness: {httpGet: {port: 1, httpHeaders: [{name: "a b"}]}}}}`:                                                  "spec.probes.readiness.httpGet.httpHeaders[0].name",
		`{probes: {readiness: {grpc: {port: 1}, periodSeconds: -1}}}`:                                                                "spec.probes.readiness.periodSeconds",
		`{lifecycle: {preStop: {sleep: {seconds: 31}}}}`:                                                                             "spec.lifecycle.preStop.sleep.seconds",
		`{lifecycle: {stopSignal: SIGTERM}}`:                                                                                         "spec.lifecycle.stopSignal",
		`{securityContext: {runAsUser: -1}}`:                                                                                         "spec.securityContext.runAsUser",
		`{securityContext: {privileged: true, allowPrivilegeEscalation: false}}`:                                                     "spec.securityContext.allowPrivilegeEscalation",
		`{securityContext: {seccompProfile: {type: Localhost}}}`:                                                                     "spec.securityContext.seccompProfile.localhostProfile",
		`{securityContext: {appArmorProfile: {type: Moon}}}`:                                                                         "spec.securityContext.appArmorProfile.type",
		`{securityContext: {procMount: Unmasked}}`:                                                                                   "spec.securityContext.procMount",
		`{securityContext: {windowsOptions: {runAsUserName: 'a\b\c'}}}`:                                                              "spec.securityContext.windowsOptions.runAsUserName",
		`{podSecurityContext: {fsGroup: -1}}`:                                                                                        "spec.podSecurityContext.fsGroup",
		`{podSecurityContext: {sysctls: [{name: A, value: "1"}]}}`:                                                                   "spec.podSecurityContext.sysctls[0].name",
		`{podSecurityContext: {seLinuxChangePolicy: MountOption}}`:                                                                   "spec.podSecurityContext.seLinuxChangePolicy",
		`{podSecurityContext: {windowsOptions: {hostProcess: true}}}`:                                                                "spec.podSecurityContext.windowsOptions.hostProcess",
		`{containers: [{name: a, image: i, ports: [{containerPort: 9}]}, {name: b, image: i, ports: [{containerPort: 9}]}], podTemplatePatch: {spec: {hostNetwork: true}}}`:              "spec.containers[1].ports[0].containerPort",
		`{containers: [{name: a, image: i, ports: [{containerPort: 9}]}, {name: b, image: i, ports: [{containerPort: 9, hostPort: 9}]}], podTemplatePatch: {spec: {hostNetwork: true}}}`: "spec.containers[1].ports[0].hostPort",
		side(`ports: [{containerPort: 0}]`):                                                                                                "spec.containers[0].ports[0].containerPort",
		side(`ports: [{containerPort: 1, name: sixteen-chars-xx}]`):                                                                        "spec.containers[0].ports[0].name",
		side(`ports: [{containerPort: 1, name: x}, {containerPort: 2, name: x}]`):                                                          "spec.containers[0].ports[1].name",
		side(`imagePullPolicy: Sometimes`):                                                                                                 "spec.containers[0].imagePullPolicy",
		side(`resizePolicy: [{resourceName: moon, restartPolicy: NotRequired}]`):                                                           "spec.containers[0].resizePolicy[0].resourceName",
		side(`restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]`):                                            "spec.containers[0].restartPolicy",
		side(`resources: {claims: [{name: gpu}]}`):                                                                                         "spec.containers[0].resources.claims[0].name",
		`{initContainers: [{name: a, image: i, lifecycle: {preStop: {sleep: {seconds: 1}}}}]}`:                                             "spec.initContainers[0].lifecycle",
		`{containers: [{name: a, image: "i "}]}`:                                                                                           "spec.containers[0].image",
		volumeOf(`hostPath: {path: /a/../b}`):                                                                                              "spec.volumes[0].hostPath.path",
		volumeOf(`configMap: {}`):                                                                                                          "spec.volumes[0].configMap.name",
		volumeOf(`secret: {secretName: a, defaultMode: 512}`):                                                                              "spec.volumes[0].secret.defaultMode",
		volumeOf(`secret: {secretName: a, items: [{key: k, path: ../a}]}`):                                                                 "spec.volumes[0].secret.items[0].path",
		volumeOf(`persistentVolumeClaim: {claimName: ""}`):                                                                                 "spec.volumes[0].persistentVolumeClaim.claimName",
		volumeOf(`emptyDir: {sizeLimit: -1}`):                                                                                              "spec.volumes[0].emptyDir.sizeLimit",
		volumeOf(`nfs: {server: a, path: b}`):                                                                                              "spec.volumes[0].nfs.path",
		volumeOf(`csi: {driver: A_b}`):                                                                                                     "spec.volumes[0].csi.driver",
		volumeOf(`iscsi: {targetPortal: a, iqn: b, lun: 1}`):                                                                               "spec.volumes[0].iscsi.iqn",
		volumeOf(`image: {pullPolicy: Always}`):                                                                                            "spec.volumes[0].image.reference",
		volumeOf(`azureDisk: {diskName: a, diskURI: b}`):                                                                                   "spec.volumes[0].azureDisk.diskURI",
		volumeOf(`ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}`):                                               "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
		volumeOf(`downwardAPI: {items: [{path: a, fieldRef: {fieldPath: spec.nodeName}}]}`):                                                "spec.volumes[0].downwardAPI.items[0].fieldRef.fieldPath",
		projected(`{serviceAccountToken: {path: a, expirationSeconds: 599}}`):                                                              "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds",
		projected(`{secret: {name: a, items: [{key: k, path: p}]}}, {configMap: {name: a, items: [{key: k, path: p}]}}`):                   "spec.volumes[0].projected.sources[1].configMap.items[0].path",
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}}`:                            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
		`{affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: a}}]}}}`: "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
		`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, matchLabelKeys: [b]}]}}}`:         "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys",
		`{tolerations: [{}]}`: "spec.tolerations[0].operator",
		`{tolerations: [{key: a, operator: Exists, value: b}]}`:                                                                                  "spec.tolerations[0].value",
		`{tolerations: [{key: a, tolerationSeconds: 1}]}`:                                                                                        "spec.tolerations[0].tolerationSeconds",
		`{topologySpreadConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}`:                                         "spec.topologySpreadConstraints[0].maxSkew",
		`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}]}`:                          "spec.topologySpreadConstraints[0].minDomains",
		`{dnsConfig: {nameservers: [010.1.1.1]}}`:                                                                                                "spec.dnsConfig.nameservers[0]",
		`{dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}}`:                                                                       "spec.dnsConfig.nameservers",
		`{dnsConfig: {searches: ["a b"]}}`:                                                                                                       "spec.dnsConfig.searches[0]",
		`{hostAliases: [{ip: a}]}`:                                                                                                               "spec.hostAliases[0].ip",
		`{hostAliases: [{ip: 1.1.1.1, hostnames: [A_b]}]}`:                                                                                       "spec.hostAliases[0].hostnames[0]",
		`{serviceAccountName: A}`:                                                                                                                "spec.serviceAccountName",
		`{runtimeClassName: ""}`:                                                                                                                 "spec.runtimeClassName",
		`{ports: [{port: 1, appProtocol: "not a name"}]}`:                                                                                        "spec.ports[0].appProtocol",
		`{service: {type: LoadBalancer, loadBalancerClass: a/b/c}}`:                                                                              "spec.service.loadBalancerClass",
		`{annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8}}`:                                                    "spec.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]",
		`{service: {type: LoadBalancer, annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: a}}}`:                              "spec.service.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]",
		`{podAnnotations: {controller.kubernetes.io/pod-deletion-cost: "+1"}}`:                                                                   "spec.podAnnotations[controller.kubernetes.io/pod-deletion-cost]",
		`{podAnnotations: {kubernetes.io/config.mirror: a}}`:                                                                                     "spec.podAnnotations[kubernetes.io/config.mirror]",
		`{podAnnotations: {container.apparmor.security.beta.kubernetes.io/moon: runtime/default}}`:                                               "spec.podAnnotations[container.apparmor.security.beta.kubernetes.io/moon]",
		`{podAnnotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}, podSecurityContext: {seccompProfile: {type: RuntimeDefault}}}`: "spec.podAnnotations[seccomp.security.alpha.kubernetes.io/pod]",
		`{annotations: {a: "` + strings.Repeat("x", 260_000) + `"}}`:                                                                             "spec.annotations",
		`{annotations: {a: "` + strings.Repeat("x", 200_000) + `"}, service: {annotations: {b: "` + strings.Repeat("x", 60_000) + `"}}}`:         "spec.service.annotations",
	} {
		box := &appv1.ModelBox{}
		if err := yaml.UnmarshalStrict([]byte("{metadata: {name: box}, spec: "+spec+"}"), box); err != nil {
			t.Fatalf("%.100s: %v", spec, err)
		}
		box.Spec.Name = "main"
		if got := at(ModelBox(box)); !cmp.Equal(got, []string{want}) {
			t.Errorf("%.200s: errors at %v, want %s", spec, got, want)
		}
	}
}

// at returns the fields that errors name.
func at(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

// TestPodTemplate has patches of a pod template that was right. What is wanted is the field of the patch.
func TestPodTemplate(t *testing.T) {
	before := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "main", Image: "a", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/a"}}}, {Name: "side", Image: "b"},
	}}}
	for patch, want := range map[string]string{
		`{}`: "",
		`{containers: [{name: main, image: a, volumeMounts: [{name: gone, mountPath: /a}]}]}`:                                                                        "p.spec.containers[main].volumeMounts[0].name",
		`{containers: [{name: main, image: ""}]}`:                                                                                                                    "p.spec.containers[main].image",
		`{containers: [{name: main, image: a, env: [{name: A}, {name: A}]}]}`:                                                                                        "p.spec.containers[main].env[1]",
		`{containers: [{name: main, image: a, ports: [{containerPort: 1}, {containerPort: 1, protocol: TCP}]}]}`:                                                     "p.spec.containers[main].ports[1]",
		`{containers: [{name: main, image: a, ports: [{containerPort: 1, hostPort: 2}]}], hostNetwork: true}`:                                                        "p.spec.containers[main].ports[0].hostPort",
		`{containers: [{name: main, image: a, ports: [{containerPort: 1}]}, {name: side, image: b, ports: [{containerPort: 1}]}]}`:                                   "",
		`{containers: [{name: main, image: a, ports: [{containerPort: 1}]}, {name: side, image: b, ports: [{containerPort: 1, protocol: UDP}]}], hostNetwork: true}`: "",
		`{containers: [{name: main, image: a, ports: [{containerPort: 1}]}, {name: side, image: b, ports: [{containerPort: 1}]}], hostNetwork: true}`:                "p.spec.containers[side].ports[0].containerPort",
		`{containers: [{name: main, image: a, resources: {requests: {cpu: 2}}}], resources: {requests: {cpu: 1}}}`:                                                   "p.spec.resources.requests[cpu]",
		`{restartPolicy: Never}`:                               "p.spec.restartPolicy",
		`{activeDeadlineSeconds: 1}`:                           "p.spec.activeDeadlineSeconds",
		`{hostname: A}`:                                        "p.spec.hostname",
		`{nodeName: A}`:                                        "p.spec.nodeName",
		`{hostUsers: false, hostNetwork: true}`:                "p.spec.hostNetwork",
		`{shareProcessNamespace: true, hostPID: true}`:         "p.spec.shareProcessNamespace",
		`{os: {name: windows}, hostUsers: true}`:               "p.spec.hostUsers",
		`{os: {name: windows}, securityContext: {fsGroup: 1}}`: "p.spec.securityContext.fsGroup",
		`{os: {name: moon}}`:                                   "p.spec.os.name",
		`{hostNetwork: true, hostnameOverride: a}`:             "p.spec.hostnameOverride",
		`{readinessGates: [{conditionType: "a b"}]}`:           "p.spec.readinessGates[0].conditionType",
		`{resourceClaims: [{name: gpu}]}`:                      "p.spec.resourceClaims[gpu]",
		`{imagePullSecrets: [{name: a}, {name: a}]}`:           "p.spec.imagePullSecrets[1]",
		`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [b]}]}`: "p.spec.topologySpreadConstraints[0].matchLabelKeys",
	} {
		after := before.DeepCopy()
		if err := yaml.UnmarshalStrict([]byte(patch), &after.Spec); err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
		// The mount of a volume that is missing was wrong before: it is not the patch's fault.
		var wanted []string
		if want != "" {
			wanted = []string{want}
		}
		if got := at(PodTemplate(before, after, nil, field.NewPath("p"))); !cmp.Equal(got, wanted) {
			t.Errorf("%s: errors at %v, want %v", patch, got, wanted)
		}
	}
}
