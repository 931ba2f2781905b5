package integration

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// fieldCase changes one field of the spec twice and takes it back.
type fieldCase struct {
	// field is the name of the field in WorkloadSpec, or behind "Ports.", "Service." or "Probes." in the type of those.
	field string
	// extra are other fields of the spec, in YAML, that are set all the while.
	extra string
	// set and change are two values that differ from the default and from each other, as fields of the spec in YAML.
	set, change string
	// live is where the field's meaning is, in the Deployment or in the Service, and want what must be there after set
	// and after change, in YAML; nothing stands for nothing.
	live string
	want [2]string
}

// Where fields are in the Deployment.
const (
	inTemplate  = "deployment.spec.template."
	inPod       = inTemplate + "spec."
	inContainer = inPod + "containers.0."
)

// at returns the case with node ports that begin with other digits than 3001.
func (c fieldCase) at(nodePorts string) fieldCase {
	for _, text := range []*string{&c.set, &c.change, &c.want[0], &c.want[1]} {
		*text = strings.ReplaceAll(*text, "3001", nodePorts)
	}
	return c
}

// fieldCases has every field of the spec. The spec of newApp is changed: two replicas and one port, 8080 to 80.
var fieldCases = []fieldCase{
	{field: "Replicas", set: "replicas: 3", change: "replicas: 0", live: "deployment.spec.replicas", want: [2]string{"3", "0"}},
	{field: "Image", set: "image: nginx:1.17", change: "image: httpd", live: inContainer + "image", want: [2]string{"nginx:1.17", "httpd"}},
	{field: "ImagePullPolicy", set: "imagePullPolicy: Always", change: "imagePullPolicy: Never",
		live: inContainer + "imagePullPolicy", want: [2]string{"Always", "Never"}},
	{field: "Command", set: "command: [a, b]", change: "command: [b]", live: inContainer + "command", want: [2]string{"[a, b]", "[b]"}},
	{field: "Args", set: `args: ["-a", "-a"]`, change: `args: [""]`, live: inContainer + "args", want: [2]string{`["-a", "-a"]`, `[""]`}},
	{field: "Envs", set: `envs: [{name: A, value: "1"}, {name: B, value: "2"}]`,
		change: `envs: [{name: C}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`,
		live:   inContainer + "env", want: [2]string{`[{name: A, value: "1"}, {name: B, value: "2"}]`,
			`[{name: C}, {name: B, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]`}},
	{field: "EnvFrom", set: "envFrom: [{prefix: P_, configMapRef: {name: c}}]", change: "envFrom: [{secretRef: {name: s, optional: true}}]",
		live: inContainer + "envFrom", want: [2]string{"[{prefix: P_, configMapRef: {name: c}}]", "[{secretRef: {name: s, optional: true}}]"}},
	{field: "Resources", set: `resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: "0.1"}}`, change: "resources: {requests: {memory: 64Mi}}",
		live: inContainer + "resources", want: [2]string{"{limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 100m}}", "{requests: {memory: 64Mi}}"}},
	{field: "Size", set: "size: small", change: "size: large", live: inContainer + "resources", want: [2]string{builtIn("small"), builtIn("large")}},
	{field: "Ports", set: "ports: [{port: 8080, targetPort: 80}, {port: 9090}]", change: "ports: [{port: 9090}]",
		live: inContainer + "ports", want: [2]string{"[{containerPort: 80, protocol: TCP}, {containerPort: 9090, protocol: TCP}]", "[{containerPort: 9090, protocol: TCP}]"}},
	{field: "Ports.Name", set: "ports: [{port: 8080, name: http}]", change: "ports: [{port: 8080, name: web}]",
		live: "service.spec.ports.0.name", want: [2]string{"http", "web"}},
	{field: "Ports.Protocol", set: "ports: [{port: 8080, protocol: UDP}]", change: "ports: [{port: 8080, protocol: SCTP}]",
		live: "service.spec.ports.0.protocol", want: [2]string{"UDP", "SCTP"}},
	{field: "Ports.Port", set: "ports: [{port: 1}]", change: "ports: [{port: 65535}]", live: "service.spec.ports.0.port", want: [2]string{"1", "65535"}},
	{field: "Ports.TargetPort", set: "ports: [{name: http, port: 8080, targetPort: 80}]", change: "ports: [{name: http, port: 8080}]",
		live: inContainer + "ports", want: [2]string{"[{name: http, containerPort: 80, protocol: TCP}]", "[{name: http, containerPort: 8080, protocol: TCP}]"}},
	{field: "Ports.NodePort", extra: "service: {type: NodePort}", set: "ports: [{port: 8080, nodePort: 30011}]", change: "ports: [{port: 8080, nodePort: 30012}]",
		live: "service.spec.ports.0.nodePort", want: [2]string{"30011", "30012"}},
	{field: "Ports.AppProtocol", set: "ports: [{port: 8080, appProtocol: http}]", change: "ports: [{port: 8080, appProtocol: kubernetes.io/h2c}]",
		live: "service.spec.ports.0.appProtocol", want: [2]string{"http", "kubernetes.io/h2c"}},

	{field: "ContainerPorts", set: "containerPorts: [{containerPort: 9100, name: metrics}]", change: "containerPorts: [{containerPort: 9101}]",
		live: inContainer + "ports", want: [2]string{"[{containerPort: 80, protocol: TCP}, {name: metrics, containerPort: 9100, protocol: TCP}]",
			"[{containerPort: 80, protocol: TCP}, {containerPort: 9101, protocol: TCP}]"}},
	{field: "ContainerName", set: "containerName: main", change: "containerName: other", live: inContainer + "name", want: [2]string{"main", "other"}},

	{field: "Service", set: "service: {type: LoadBalancer, sessionAffinity: ClientIP, externalTrafficPolicy: Local, loadBalancerClass: a.b/c}",
		change: "service: {type: NodePort}",
		live:   "service.spec.sessionAffinityConfig", want: [2]string{"{clientIP: {timeoutSeconds: 10800}}", ""}},
	{field: "Service.Type", set: "service: {type: LoadBalancer}", change: "service: {type: ClusterIP}", live: "service.spec.type", want: [2]string{"LoadBalancer", "ClusterIP"}},
	{field: "Service.Labels", set: "service: {labels: {a: b}}", change: "service: {labels: {a: c}}", live: "service.metadata.labels.a", want: [2]string{"b", "c"}},
	{field: "Service.Annotations", set: "service: {annotations: {a: b}}", change: "service: {annotations: {a: c, d: e}}",
		live: "service.metadata.annotations", want: [2]string{"{a: b}", "{a: c, d: e}"}},
	{field: "Service.LoadBalancerClass", set: "service: {type: LoadBalancer, loadBalancerClass: a.b/c}", change: "service: {type: NodePort}",
		live: "service.spec.loadBalancerClass", want: [2]string{"a.b/c", ""}},
	{field: "Service.ExternalTrafficPolicy", extra: "service: {type: LoadBalancer}",
		set: "service: {externalTrafficPolicy: Local}", change: "service: {externalTrafficPolicy: Cluster}",
		live: "service.spec.externalTrafficPolicy", want: [2]string{"Local", "Cluster"}},
	{field: "Service.SessionAffinity", set: "service: {sessionAffinity: ClientIP}", change: "service: {sessionAffinity: None}",
		live: "service.spec.sessionAffinity", want: [2]string{"ClientIP", "None"}},

	{field: "Service.SessionAffinityConfig", extra: "service: {sessionAffinity: ClientIP}",
		set: "service: {sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}}", change: "service: {sessionAffinityConfig: {clientIP: {timeoutSeconds: 61}}}",
		live: "service.spec.sessionAffinityConfig", want: [2]string{"{clientIP: {timeoutSeconds: 60}}", "{clientIP: {timeoutSeconds: 61}}"}},
	{field: "Service.LoadBalancerSourceRanges", extra: "service: {type: LoadBalancer}",
		set: "service: {loadBalancerSourceRanges: [10.0.0.0/8, 192.168.0.0/16]}", change: "service: {loadBalancerSourceRanges: [10.0.0.0/8]}",
		live: "service.spec.loadBalancerSourceRanges", want: [2]string{"[10.0.0.0/8, 192.168.0.0/16]", "[10.0.0.0/8]"}},
	{field: "Service.PublishNotReadyAddresses", set: "service: {publishNotReadyAddresses: true}", change: "service: {publishNotReadyAddresses: false}",
		live: "service.spec.publishNotReadyAddresses", want: [2]string{"true", ""}},
	{field: "Service.InternalTrafficPolicy", set: "service: {internalTrafficPolicy: Local}", change: "service: {internalTrafficPolicy: Cluster}",
		live: "service.spec.internalTrafficPolicy", want: [2]string{"Local", "Cluster"}},
	{field: "Service.TrafficDistribution", set: "service: {trafficDistribution: PreferClose}", change: "service: {trafficDistribution: PreferSameNode}",
		live: "service.spec.trafficDistribution", want: [2]string{"PreferClose", "PreferSameNode"}},
	{field: "Service.IPFamilies", set: "service: {ipFamilies: [IPv4]}", change: "service: {ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}",
		live: "service.spec.ipFamilies", want: [2]string{"[IPv4]", "[IPv4]"}},
	{field: "Service.IPFamilyPolicy", set: "service: {ipFamilyPolicy: PreferDualStack}", change: "service: {ipFamilyPolicy: SingleStack}",
		live: "service.spec.ipFamilyPolicy", want: [2]string{"PreferDualStack", "SingleStack"}},

	{field: "Strategy", set: "strategy: Recreate", change: "strategy: RollingUpdate", live: "deployment.spec.strategy",
		want: [2]string{"{type: Recreate}", "{type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}"}},
	{field: "RollingUpdate", set: "rollingUpdate: 30%", change: `rollingUpdate: "2"`, live: "deployment.spec.strategy.rollingUpdate",
		want: [2]string{"{maxSurge: 30%, maxUnavailable: 30%}", "{maxSurge: 2, maxUnavailable: 2}"}},
	{field: "MaxSurge", set: "maxSurge: 30%", change: "maxSurge: 2", live: "deployment.spec.strategy.rollingUpdate",
		want: [2]string{"{maxSurge: 30%, maxUnavailable: 25%}", "{maxSurge: 2, maxUnavailable: 25%}"}},
	{field: "MaxUnavailable", set: "maxUnavailable: 30%", change: "maxUnavailable: 2", live: "deployment.spec.strategy.rollingUpdate",
		want: [2]string{"{maxSurge: 25%, maxUnavailable: 30%}", "{maxSurge: 25%, maxUnavailable: 2}"}},
	{field: "MinReadySeconds", set: "minReadySeconds: 7", change: "minReadySeconds: 0", live: "deployment.spec.minReadySeconds", want: [2]string{"7", ""}},
	{field: "RevisionHistoryLimit", set: "revisionHistoryLimit: 0", change: "revisionHistoryLimit: 3", live: "deployment.spec.revisionHistoryLimit", want: [2]string{"0", "3"}},
	{field: "ProgressDeadlineSeconds", set: "progressDeadlineSeconds: 60", change: "progressDeadlineSeconds: 61",
		live: "deployment.spec.progressDeadlineSeconds", want: [2]string{"60", "61"}},

	{field: "Probes", set: "probes: {disabled: true}", change: "probes: {disabled: false, liveness: {exec: {command: [a]}}}", live: inContainer + "livenessProbe",
		want: [2]string{"", "{exec: {command: [a]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}"}},
	{field: "Probes.Disabled", set: "probes: {disabled: true}", change: "ports: [{port: 8080, protocol: UDP}]", live: inContainer + "startupProbe", want: [2]string{"", ""}},
	{field: "Probes.Liveness", set: "probes: {liveness: {tcpSocket: {port: 81}}}", change: "probes: {liveness: {httpGet: {port: 82, path: /a}, periodSeconds: 7}}",
		live: inContainer + "livenessProbe", want: [2]string{
			"{tcpSocket: {port: 81}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}",
			"{httpGet: {port: 82, path: /a, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 7, successThreshold: 1, failureThreshold: 3}"}},
	{field: "Probes.Readiness", set: "probes: {readiness: {grpc: {port: 81}, successThreshold: 2}}", change: "probes: {readiness: {exec: {command: [a]}}}",
		live: inContainer + "readinessProbe", want: [2]string{
			`{grpc: {port: 81, service: ""}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 2, failureThreshold: 3}`,
			"{exec: {command: [a]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}"}},
	{field: "Probes.Startup", set: "probes: {startup: {exec: {command: [a]}}}", change: "probes: {startup: {exec: {command: [b]}, failureThreshold: 9, terminationGracePeriodSeconds: 5}}",
		live: inContainer + "startupProbe", want: [2]string{
			"{exec: {command: [a]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3}",
			"{exec: {command: [b]}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 9, terminationGracePeriodSeconds: 5}"}},
	{field: "Lifecycle", set: "lifecycle: {preStop: {sleep: {seconds: 5}}}", change: "lifecycle: {postStart: {exec: {command: [a]}}}",
		live: inContainer + "lifecycle", want: [2]string{"{preStop: {sleep: {seconds: 5}}}", "{postStart: {exec: {command: [a]}}}"}},

	{field: "SecurityProfile", set: "securityProfile: restricted", change: "{securityProfile: restricted, securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}}",
		live: inContainer + "securityContext", want: [2]string{"{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
			"{allowPrivilegeEscalation: false, capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}}"}},
	{field: "SecurityContext", set: "securityContext: {runAsUser: 1000, capabilities: {drop: [ALL]}}", change: "securityContext: {}",
		live: inContainer + "securityContext", want: [2]string{"{runAsUser: 1000, capabilities: {drop: [ALL]}}", "{}"}},
	{field: "PodSecurityContext", set: "podSecurityContext: {fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}", change: "podSecurityContext: {runAsNonRoot: true}",
		live: inPod + "securityContext", want: [2]string{"{fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}", "{runAsNonRoot: true}"}},
	{field: "VolumeMounts", extra: "volumes: [{name: a, emptyDir: {}}]",
		set: "volumeMounts: [{name: a, mountPath: /a}]", change: "volumeMounts: [{name: a, mountPath: /b, readOnly: true}]",
		live: inContainer + "volumeMounts", want: [2]string{"[{name: a, mountPath: /a}]", "[{name: a, mountPath: /b, readOnly: true}]"}},
	{field: "Volumes", set: "volumes: [{name: a, emptyDir: {}}, {name: b, hostPath: {path: /b}}]",
		change: "volumes: [{name: b, configMap: {name: c}}, {name: c, projected: {sources: [{serviceAccountToken: {path: t}}]}}]",
		live:   inPod + "volumes", want: [2]string{`[{name: a, emptyDir: {}}, {name: b, hostPath: {path: /b, type: ""}}]`,
			"[{name: b, configMap: {name: c, defaultMode: 420}}, {name: c, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}]}}]"}},
	{field: "InitContainers", set: "initContainers: [{name: a, image: i}, {name: b, image: i, restartPolicy: Always}]", change: "initContainers: [{name: b, image: j}]",
		live: inPod + "initContainers", want: [2]string{
			"[" + withContainerDefaults("{name: a, image: i}") + ", " + withContainerDefaults("{name: b, image: i, restartPolicy: Always}") + "]", "[" + withContainerDefaults("{name: b, image: j}") + "]"}},
	{field: "Containers", set: "containers: [{name: a, image: i, ports: [{containerPort: 5, hostPort: 6}]}]", change: "containers: [{name: a, image: j}, {name: b, image: i}]",
		live: inPod + "containers.1", want: [2]string{withContainerDefaults("{name: a, image: i, ports: [{containerPort: 5, hostPort: 6, protocol: TCP}]}"), withContainerDefaults("{name: a, image: j}")}},

	{field: "ServiceAccountName", set: "serviceAccountName: a", change: "serviceAccountName: b", live: inPod + "serviceAccount", want: [2]string{"a", "b"}},
	{field: "AutomountServiceAccountToken", set: "automountServiceAccountToken: false", change: "automountServiceAccountToken: true",
		live: inPod + "automountServiceAccountToken", want: [2]string{"false", "true"}},
	{field: "ImagePullSecrets", set: "imagePullSecrets: [{name: a}, {name: b}]", change: "imagePullSecrets: [{name: b}]",
		live: inPod + "imagePullSecrets", want: [2]string{"[{name: a}, {name: b}]", "[{name: b}]"}},
	{field: "NodeSelector", set: "nodeSelector: {a: b}", change: "nodeSelector: {c: d}", live: inPod + "nodeSelector", want: [2]string{"{a: b}", "{c: d}"}},
	{field: "Tolerations", set: "tolerations: [{operator: Exists}]", change: "tolerations: [{key: a, value: b}]",
		live: inPod + "tolerations", want: [2]string{"[{operator: Exists}]", "[{key: a, value: b}]"}},
	{field: "Affinity", set: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}",
		change: "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}",
		live:   inPod + "affinity", want: [2]string{"{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}",
			"{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}"}},
	{field: "TopologySpreadConstraints", set: "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {b: c}}}]",
		change: "topologySpreadConstraints: [{maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]",
		live:   inPod + "topologySpreadConstraints", want: [2]string{"[{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {b: c}}}]",
			"[{maxSkew: 2, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]"}},
	{field: "TerminationGracePeriodSeconds", set: "terminationGracePeriodSeconds: 0", change: "terminationGracePeriodSeconds: 60",
		live: inPod + "terminationGracePeriodSeconds", want: [2]string{"0", "60"}},
	{field: "PriorityClassName", set: "priorityClassName: a", change: "priorityClassName: b", live: inPod + "priorityClassName", want: [2]string{"a", "b"}},
	{field: "RuntimeClassName", set: "runtimeClassName: a", change: "runtimeClassName: b", live: inPod + "runtimeClassName", want: [2]string{"a", "b"}},
	{field: "DNSPolicy", set: "dnsPolicy: Default", change: "dnsPolicy: ClusterFirstWithHostNet", live: inPod + "dnsPolicy", want: [2]string{"Default", "ClusterFirstWithHostNet"}},
	{field: "DNSConfig", set: "dnsConfig: {nameservers: [1.1.1.1], searches: [a.b]}", change: `dnsConfig: {options: [{name: ndots, value: "2"}]}`,
		live: inPod + "dnsConfig", want: [2]string{"{nameservers: [1.1.1.1], searches: [a.b]}", `{options: [{name: ndots, value: "2"}]}`}},
	{field: "HostAliases", set: "hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}]", change: "hostAliases: [{ip: 10.0.0.2, hostnames: [a]}]",
		live: inPod + "hostAliases", want: [2]string{"[{ip: 10.0.0.1, hostnames: [a, b]}]", "[{ip: 10.0.0.2, hostnames: [a]}]"}},

	{field: "PodLabels", set: "podLabels: {a: b}", change: "podLabels: {a: c}", live: inTemplate + "metadata.labels.a", want: [2]string{"b", "c"}},
	{field: "PodAnnotations", set: "podAnnotations: {a: b}", change: "podAnnotations: {a: c, d: e}",
		live: inTemplate + "metadata.annotations", want: [2]string{"{a: b}", "{a: c, d: e}"}},
	{field: "Labels", set: "labels: {a: b}", change: "labels: {a: c}", live: "service.metadata.labels.a", want: [2]string{"b", "c"}},
	{field: "WorkloadLabels", set: "workloadLabels: {a: b}", change: "workloadLabels: {a: c}", live: "deployment.metadata.labels.a", want: [2]string{"b", "c"}},
	{field: "WorkloadAnnotations", set: "workloadAnnotations: {a: b}", change: "workloadAnnotations: {a: c}",
		live: "deployment.metadata.annotations.a", want: [2]string{"b", "c"}},
	{field: "Annotations", set: "annotations: {a: b}", change: "annotations: {a: c}", live: "deployment.metadata.annotations.a", want: [2]string{"b", "c"}},
	{field: "PodTemplatePatch", set: "podTemplatePatch: {spec: {hostNetwork: true}}", change: "podTemplatePatch: {spec: {shareProcessNamespace: true}}",
		live: inPod + "hostNetwork", want: [2]string{"true", ""}},
}

// withContainerDefaults is a container in YAML with what the API server adds to one.
func withContainerDefaults(fields string) string {
	return fields[:len(fields)-1] + ", imagePullPolicy: Always, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}"
}

// builtIn is what a size stands for.
func builtIn(name appv1.Size) string {
	size := resource.BuiltInSizes()[name]
	text, err := yaml.Marshal(corev1.ResourceRequirements{Requests: size.Requests, Limits: size.Limits})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// kind is a kind whose resources are one workload each.
type kind struct {
	name string
	// nodePorts are the first digits of those of its cases: a node has each port once. The cluster picks none of the first
	// 86 of its range for others as long as there are further ones.
	nodePorts string
	// make returns a resource with the spec of newApp, and its spec.
	make func(namespace, name string) (harness.Resource, *appv1.WorkloadSpec)
}

var kinds = []kind{
	{"App", "3001", func(namespace, name string) (harness.Resource, *appv1.WorkloadSpec) {
		app := newApp(namespace, name)
		return app, &app.Spec.WorkloadSpec
	}},
	{"ModelBox", "3002", func(namespace, name string) (harness.Resource, *appv1.WorkloadSpec) {
		box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		box.Spec.WorkloadSpec = newApp(namespace, name).Spec.WorkloadSpec
		return box, &box.Spec.WorkloadSpec
	}},
}

// TestUpdate changes every field of the spec, through each kind that has it, in the short form through one of them. The children must follow, and be what they
// were before once the change is taken back: a field that is removed from the spec is removed from them.
func TestUpdate(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	turns := fixture.Turns(t, kinds...)
	for i, c := range fieldCases {
		for _, k := range turns() {
			t.Run(k.name+"/"+c.field, func(t *testing.T) {
				t.Parallel()
				resource, spec := k.make(ns, fmt.Sprintf("%s-%d", strings.ToLower(k.name), i))
				if c.field == "Service.TrafficDistribution" {
					plane.Needs(t, 34, "trafficDistribution with all its values")
				}
				c := c.at(k.nodePorts)
				setFields(t, spec, c.extra)
				plane.Create(t, resource)
				plane.Stands(t, resource, progressing...)
				before, was := spec.DeepCopy(), statesOf(t, resource)

				for j, fields := range []string{c.set, c.change} {
					plane.Change(t, resource, func() {
						before.DeepCopyInto(spec)
						setFields(t, spec, fields)
					})
					plane.Stands(t, resource, progressing...)
					if err := diffOf(fromYAML(t, c.want[j]), lookUpPath(statesOf(t, resource), c.live)); err != nil {
						t.Errorf("%s after %s: %v", c.live, fields, err)
					}
				}
				plane.Change(t, resource, func() { before.DeepCopyInto(spec) })
				plane.Stands(t, resource, progressing...)
				if err := diffOf(withoutNodePorts(was), withoutNodePorts(statesOf(t, resource))); err != nil {
					t.Errorf("after the change is taken back: %v", err)
				}
			})
		}
	}
}

// statesOf returns both children as trees of JSON, without what every write changes.
func statesOf(t *testing.T, resource client.Object) map[string]any {
	t.Helper()
	d, s := readChildren(t, resource)
	all := map[string]any{}
	for name, child := range map[string]client.Object{"deployment": d, "service": s} {
		var tree map[string]any
		if err := json.Unmarshal(marshalJSON(t, withoutVersions(asUnstructured(t, plane, child))), &tree); err != nil {
			t.Fatal(err)
		}
		delete(tree, "status")
		all[name] = tree
	}
	return all
}

// withoutNodePorts states that there is a node's port, and not which: where none is asked for, the cluster picks one.
func withoutNodePorts(states map[string]any) map[string]any {
	list, _ := lookUpPath(states, "service.spec.ports").([]any)
	for i := range list {
		if port := list[i].(map[string]any); port["nodePort"] != nil {
			port["nodePort"] = true
		}
	}
	return states
}

// TestUpdateCoversEveryField fails if a field of the spec is added and not tried above.
func TestUpdateCoversEveryField(t *testing.T) {
	t.Parallel()
	// The one cannot be changed, see TestHeadless, and the other one makes another Service, see TestServiceRename.
	covered := map[string]bool{"Service.ClusterIP": true, "Service.Name": true}
	for _, c := range fieldCases {
		covered[c.field] = true
	}
	for prefix, typ := range map[string]reflect.Type{
		"": reflect.TypeFor[appv1.WorkloadSpec](), "Ports.": reflect.TypeFor[appv1.Port](),
		"Service.": reflect.TypeFor[appv1.ServiceSpec](), "Probes.": reflect.TypeFor[appv1.Probes](),
	} {
		for _, f := range reflect.VisibleFields(typ) {
			if name := prefix + f.Name; !f.Anonymous && !covered[name] {
				t.Errorf("no case changes the field %s", name)
			}
		}
	}
	for typ, n := range map[reflect.Type]int{reflect.TypeFor[appv1.AppSpec](): 5, reflect.TypeFor[appv1.ModelBoxSpec](): 6} {
		if typ.NumField() != n {
			t.Errorf("%s has %d fields, and only those of WorkloadSpec, ServingSpec, ReleaseSpec, paused, withoutDefaults and a name are looked at", typ, typ.NumField())
		}
	}
}

// TestContainerName renames a ModelBox's main container and back.
func TestContainerName(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	box.Spec.WorkloadSpec = newApp(ns, "web").Spec.WorkloadSpec
	plane.Create(t, box)
	for _, c := range []struct{ name, want string }{{"", "web"}, {"main", "main"}, {"other", "other"}, {"", "web"}} {
		plane.Read(t, box)
		plane.Change(t, box, func() { box.Spec.Name = c.name })
		plane.Stands(t, box, progressing...)
		d, _ := readChildren(t, box)
		var names []string
		for i := range d.Spec.Template.Spec.Containers {
			names = append(names, d.Spec.Template.Spec.Containers[i].Name)
		}
		if diff := cmp.Diff([]string{c.want}, names); diff != "" {
			t.Errorf("containers with name %q (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestPortsComeAndGo removes all ports, and with them the Service, and adds one again.
func TestPortsComeAndGo(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	app := newApp(ns, "web")
	_, s := createInPlace(t, app)
	uid := s.UID

	ports := app.Spec.Ports
	plane.Change(t, app, func() { app.Spec.Ports = nil })
	plane.Stands(t, app, progressing...)
	plane.Absent(t, s)
	if app.Status.Endpoint != "" {
		t.Errorf("the endpoint is %q", app.Status.Endpoint)
	}
	plane.Change(t, app, func() { app.Spec.Ports = ports })
	plane.Stands(t, app, progressing...)
	if plane.Read(t, s); s.UID == uid {
		t.Error("the Service is the former one")
	}
	if app.Status.Endpoint == "" {
		t.Error("there is no endpoint")
	}
}
