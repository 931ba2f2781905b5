package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// TestSchemaRefuses writes Apps that are wrong. Each must be refused with an error that names the field.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for _, c := range []struct{ spec, says string }{
		{`{}`, "spec.image: Required value"},
		{`{image: ""}`, "spec.image: Invalid value"},
		{`{image: " "}`, `spec.image: Invalid value: " ": must not contain white space`},
		{`{image: "nginx "}`, `spec.image: Invalid value: "nginx ": must not contain white space`},
		{`{image: "a\tb"}`, `spec.image: Invalid value: "a\tb": must not contain white space`},
		{`{image: "a\nb"}`, `spec.image: Invalid value: "a\nb": must not contain white space`},
		{`{image: ` + strings.Repeat("a", 1025) + `}`, "spec.image: Too long"},
		{`{image: 1}`, "spec.image: Invalid value"},
		{`{image: Nginx}`, `spec.image: Invalid value: "Nginx": must be an image; write it as [registry/]repository[:tag][@digest]`},
		{`{image: "nginx:"}`, `spec.image: Invalid value: "nginx:": must be an image`},
		{`{image: "nginx:a b"}`, "spec.image: Invalid value"},
		{`{image: "nginx@sha256:0"}`, `spec.image: Invalid value: "nginx@sha256:0": must be an image`},
		{`{image: "https://registry.example.com/a"}`, `must be an image`},
		{`{image: a//b}`, `spec.image: Invalid value: "a//b": must be an image`},
		{`{image: "nginx:` + strings.Repeat("a", 129) + `"}`, `must be an image`},
		{`{image: a, serviceAccountName: A}`, `spec.serviceAccountName: Invalid value: "A": must be the name of an object`},
		{`{image: a, priorityClassName: -a}`, `spec.priorityClassName: Invalid value: "-a": must be the name of an object`},
		{`{image: a, runtimeClassName: ""}`, `spec.runtimeClassName: Invalid value: "": must be the name of an object`},
		{`{image: a, service: {type: LoadBalancer, loadBalancerClass: a/b/c}}`, `spec.service.loadBalancerClass: Invalid value: "a/b/c": must be a name`},
		{`{image: a, ports: [{port: 1, appProtocol: not a name}]}`, `spec.ports[0].appProtocol: Invalid value: "not a name": must be a name like http`},
		{`{image: a, ports: [{port: 1, nodePort: 30000}, {port: 2, nodePort: 30000}]}`, "spec.ports: Invalid value: node ports must be unique"},
		{`{image: a, replicas: -1}`, "spec.replicas: Invalid value: -1"},
		{`{image: a, replicas: 2147483648}`, "spec.replicas: Invalid value"},
		{`{image: a, replicas: "2"}`, "spec.replicas: Invalid value"},
		{`{image: a, imagePullPolicy: Sometimes}`, `spec.imagePullPolicy: Unsupported value: "Sometimes"`},
		{`{image: a, command: sh}`, "spec.command: Invalid value"},
		{`{image: a, args: [1]}`, "spec.args[0]: Invalid value"},
		{`{image: a, envs: [{value: b}]}`, "spec.envs[0].name: Required value"},
		{`{image: a, envs: [{name: A, value: b}, {name: A, value: c}]}`, "spec.envs[1]: Duplicate value"},
		{`{image: a, envs: [{name: A, value: 1}]}`, "spec.envs[0].value: Invalid value"},
		{`{image: a, envs: [{name: A, valueFrom: {fieldRef: {}}}]}`, "spec.envs[0].valueFrom.fieldRef.fieldPath: Required value"},
		{`{image: a, envs: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}`, "spec.envs[0].valueFrom.secretKeyRef.key: Required value"},
		{`{image: a, ports: [{}]}`, "spec.ports[0].port: Required value"},
		{`{image: a, ports: [{port: 0}]}`, "spec.ports[0].port: Invalid value: 0"},
		{`{image: a, ports: [{port: -1}]}`, "spec.ports[0].port: Invalid value: -1"},
		{`{image: a, ports: [{port: 65536}]}`, "spec.ports[0].port: Invalid value: 65536"},
		{`{image: a, ports: [{port: "80"}]}`, "spec.ports[0].port: Invalid value"},
		{`{image: a, ports: [{port: 1}, {port: 1}]}`, "spec.ports: Invalid value: each pair of port and protocol must be unique"},
		{`{image: a, ports: [{port: 1}, {port: 1, protocol: TCP}]}`, "spec.ports: Invalid value: each pair of port and protocol must be unique"},
		{`{image: a, ports: [{port: 1, protocol: HTTP}]}`, `spec.ports[0].protocol: Unsupported value: "HTTP"`},
		{`{image: a, ports: [{port: 1, protocol: tcp}]}`, `spec.ports[0].protocol: Unsupported value: "tcp"`},
		{`{image: a, ports: [{port: 1, name: x}, {port: 2, name: x}]}`, "spec.ports: Invalid value: port names must be unique"},
		{`{image: a, ports: [{port: 1, name: ""}]}`, "spec.ports[0].name: Invalid value"},
		{`{image: a, ports: [{port: 1, name: Web}]}`, `spec.ports[0].name: Invalid value: "Web": must be lower-case letters`},
		{`{image: a, ports: [{port: 1, name: web-}]}`, `spec.ports[0].name: Invalid value: "web-": must be lower-case letters`},
		{`{image: a, ports: [{port: 1, name: ` + strings.Repeat("a", 64) + `}]}`, "spec.ports[0].name: Too long"},
		{`{image: a, ports: [{port: 1, targetPort: 0}]}`, "spec.ports[0].targetPort: Invalid value: 0"},
		{`{image: a, ports: [{port: 1, targetPort: 65536}]}`, "spec.ports[0].targetPort: Invalid value: 65536"},
		{`{image: a, ports: [{port: 1, targetPort: -1}]}`, "spec.ports[0].targetPort: Invalid value: -1"},
		{`{image: a, ports: [{port: 1, targetPort: ""}]}`, "spec.ports[0].targetPort: Invalid value"},
		{`{image: a, ports: [{port: 1, targetPort: sixteen-chars-xx}]}`, "spec.ports[0].targetPort: Too long"},
		{`{image: a, ports: [{port: 1, nodePort: 0}]}`, "spec.ports[0].nodePort: Invalid value: 0"},
		{`{image: a, ports: [{port: 1, nodePort: 65536}]}`, "spec.ports[0].nodePort: Invalid value: 65536"},
		{`{image: a, ports: [{port: 1, appProtocol: ""}]}`, "spec.ports[0].appProtocol: Invalid value"},
		{`{image: a, ports: ` + manyPorts(101) + `}`, "spec.ports: Too many"},
		{`{image: a, resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}}`, "spec.resources: Invalid value: the cpu request must not be above the cpu limit"},
		{`{image: a, resources: {requests: {cpu: 1001m}, limits: {cpu: 1}}}`, "spec.resources: Invalid value: the cpu request must not be above the cpu limit"},
		{`{image: a, resources: {requests: {memory: 1Gi}, limits: {memory: 1G}}}`, "spec.resources: Invalid value: the memory request must not be above the memory limit"},
		{`{image: a, resources: {requests: {ephemeral-storage: 2}, limits: {ephemeral-storage: 1}}}`, "spec.resources: Invalid value: the ephemeral-storage request must not be above the limit"},
		{`{image: a, resources: {limits: {cpu: lots}}}`, "spec.resources.limits.cpu: Invalid value"},
		{`{image: a, resources: {limits: {memory: 1GB}}}`, "spec.resources.limits.memory: Invalid value"},
		{`{image: a, resources: {limits: {memory: 1 Gi}}}`, "spec.resources.limits.memory: Invalid value"},
		{`{image: a, resources: {limits: {memory: ""}}}`, "spec.resources.limits.memory: Invalid value"},
		{`{image: a, resources: {limits: {memory: 1.5}}}`, "spec.resources.limits.memory: Invalid value"},
		{`{image: a, size: "Tiny!"}`, `spec.size: Invalid value: "Tiny!"`},
		{`{image: a, strategy: recreate}`, `spec.strategy: Unsupported value: "recreate"`},
		{`{image: a, strategy: Recreate, rollingUpdate: 1}`, "spec.rollingUpdate: Invalid value: is valid only with the strategy RollingUpdate"},
		{`{image: a, rollingUpdate: 0}`, "spec.rollingUpdate: Invalid value: 0: must be a number of at least 1, or a percentage from 1% to 100%"},
		{`{image: a, rollingUpdate: -1}`, "spec.rollingUpdate: Invalid value: -1: must be a number of at least 1"},
		{`{image: a, rollingUpdate: "0"}`, "spec.rollingUpdate: Invalid value"},
		{`{image: a, rollingUpdate: 0%}`, "spec.rollingUpdate: Invalid value"},
		{`{image: a, rollingUpdate: 101%}`, `spec.rollingUpdate: Invalid value: "101%": must be a number of at least 1, or a percentage from 1% to 100%`},
		{`{image: a, rollingUpdate: 1.5%}`, "spec.rollingUpdate: Invalid value"},
		{`{image: a, rollingUpdate: many}`, "spec.rollingUpdate: Invalid value"},
		{`{image: a, minReadySeconds: -1}`, "spec.minReadySeconds: Invalid value: -1"},
		{`{image: a, revisionHistoryLimit: -1}`, "spec.revisionHistoryLimit: Invalid value: -1"},
		{`{image: a, progressDeadlineSeconds: 0}`, "spec.progressDeadlineSeconds: Invalid value: 0"},
		{`{image: a, terminationGracePeriodSeconds: -1}`, "spec.terminationGracePeriodSeconds: Invalid value: -1"},
		{`{image: a, dnsPolicy: Sometimes}`, `spec.dnsPolicy: Unsupported value: "Sometimes"`},
		{`{image: a, dnsPolicy: None}`, "spec.dnsPolicy: Invalid value: None requires dnsConfig.nameservers"},
		{`{image: a, dnsPolicy: None, dnsConfig: {nameservers: []}}`, "spec.dnsPolicy: Invalid value: None requires dnsConfig.nameservers"},
		{`{image: a, service: {type: ExternalName}}`, `spec.service.type: Unsupported value: "ExternalName"`},
		{`{image: a, service: {clusterIP: 10.0.0.1}}`, `spec.service.clusterIP: Unsupported value: "10.0.0.1"`},
		{`{image: a, service: {clusterIP: None, type: NodePort}}`, "spec.service.clusterIP: Invalid value: clusterIP None is valid only with the type ClusterIP"},
		{`{image: a, service: {loadBalancerClass: a.b/c}}`, "spec.service.loadBalancerClass: Invalid value: is valid only with the type LoadBalancer"},
		{`{image: a, service: {externalTrafficPolicy: Nearby}}`, `spec.service.externalTrafficPolicy: Unsupported value: "Nearby"`},
		{`{image: a, service: {sessionAffinity: Cookie}}`, `spec.service.sessionAffinity: Unsupported value: "Cookie"`},
		{`{image: a, volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}`, "spec.volumes[1]: Duplicate value"},
		{`{image: a, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]}`, "spec.volumeMounts[1]: Duplicate value"},
		{`{image: a, containers: [{name: a, image: a}, {name: a, image: b}]}`, "spec.containers[1]: Duplicate value"},
		{`{image: a, initContainers: [{name: a, image: a}, {name: a, image: b}]}`, "spec.initContainers[1]: Duplicate value"},
		{`{image: a, containers: [{name: a, image: a, env: [{name: A}, {name: A}]}]}`, "spec.containers[0].env[1]: Duplicate value"},
		{`{image: a, containers: [{name: a, image: a, ports: [{containerPort: 1}, {containerPort: 1}]}]}`, "spec.containers[0].ports: Invalid value: each pair of containerPort and protocol may occur once"},
		{`{image: a, hostAliases: [{ip: 10.0.0.1}, {ip: 10.0.0.1}]}`, "spec.hostAliases[1]: Duplicate value"},
		{`{image: a, imagePullSecrets: [{name: a}, {name: a}]}`, "spec.imagePullSecrets[1]: Duplicate value"},
		{`{image: a, resources: {claims: [{name: gpu}]}}`, "spec.resources.claims: Invalid value: claims are not supported; remove them"},
	} {
		err := plane.Client.Create(t.Context(), parseApp(t, ns, "web", c.spec))
		if !apierrors.IsInvalid(err) || !saysOf(t, err, c.says) {
			t.Errorf("%.100s\ngot  %v\nwant %s", c.spec, err, c.says)
		}
	}
}

// manyPorts is a list of ports in YAML.
func manyPorts(n int) string {
	ports := make([]string, n)
	for i := range ports {
		ports[i] = fmt.Sprintf("{port: %d}", i+1)
	}
	return "[" + strings.Join(ports, ", ") + "]"
}

// TestSchemaRefusesNames writes Apps by names that a Service cannot have.
func TestSchemaRefusesNames(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	for _, name := range []string{strings.Repeat("a", 64), "1a", "a.b", "0"} {
		err := plane.Client.Create(t.Context(), parseApp(t, ns, name, `{image: a}`))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.name must be at most 63") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchemaTakes writes Apps that are odd and right. All their objects must be made.
func TestSchemaTakes(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	for i, spec := range []string{
		`{image: a}`,
		`{image: "registry.example.com:5000/a/b_c.d-e/f:v1.2.3-rc.1@sha256:` + strings.Repeat("0f", 32) + `"}`,
		`{image: ` + strings.Repeat("a", 1024) + `}`,
		`{image: "[2001:db8::1]:5000/a"}`,
		`{image: "a:5000/b__c/d---e:F_.-"}`,
		`{image: localhost/a}`,
		`{image: a, ports: [{port: 1, nodePort: 31999}, {port: 1, protocol: UDP, nodePort: 31999}]}`,
		`{image: a, replicas: 0}`,
		`{image: a, replicas: 2147483647}`,
		`{image: a, command: [], args: [], envs: [], envFrom: [], ports: [], resources: {}}`,
		`{image: a, command: [""], args: ["", "a b", "$(A)"]}`,
		`{image: a, envs: [{name: A}, {name: a.b-c, value: ""}, {name: _1, value: "multi\nline"}]}`,
		`{image: a, envs: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]}`,
		`{image: a, envFrom: [{secretRef: {name: s}}, {prefix: P_, configMapRef: {name: c}}, {secretRef: {name: s}}]}`,
		`{image: a, ports: [{port: 1}, {port: 65535}]}`,
		`{image: a, ports: [{port: 53}, {port: 53, protocol: UDP}, {port: 53, protocol: SCTP}]}`,
		`{image: a, ports: [{port: 1, targetPort: 80}, {port: 2, targetPort: 80}]}`,
		`{image: a, ports: [{name: http, port: 1}, {port: 2, targetPort: http}]}`,
		`{image: a, ports: [{name: dns, port: 1}, {port: 2, targetPort: dns, protocol: UDP}]}`,
		`{image: a, ports: [{name: 1-2-a, port: 1}, {name: fifteen-chars-x, port: 2}, {port: 3, targetPort: fifteen-chars-x}]}`,
		`{image: a, ports: [{port: 80, targetPort: web}, {name: web, port: 81, targetPort: 80}]}`,
		`{image: a, ports: [{port: 1, name: tcp-2}, {port: 2}, {port: 3, name: 1a}]}`,
		`{image: a, ports: [{port: 1, name: ` + strings.Repeat("a", 63) + `}]}`,
		`{image: a, ports: [{port: 1, nodePort: 1}]}`,
		`{image: a, ports: [{port: 1, appProtocol: kubernetes.io/h2c}]}`,
		`{image: a, ports: ` + manyPorts(100) + `}`,
		`{image: a, resources: {requests: {cpu: 1}, limits: {cpu: 1000m}}}`,
		`{image: a, resources: {requests: {cpu: "0.0001"}, limits: {cpu: 1e3, memory: 128974848000m}}}`,
		`{image: a, resources: {requests: {memory: 1Mi}}}`,
		`{image: a, resources: {limits: {example.com/gpu: 1}}}`,
		`{image: a, rollingUpdate: 100%}`,
		`{image: a, rollingUpdate: "100000", strategy: RollingUpdate}`,
		`{image: a, strategy: Recreate}`,
		`{image: a, dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1]}}`,
		`{image: a, securityContext: {}, podSecurityContext: {}, affinity: {}, lifecycle: {}, probes: {}, service: {}, dnsConfig: {}, podTemplatePatch: {}}`,
		`{image: a, volumes: [], volumeMounts: [], containers: [], initContainers: [], tolerations: [], hostAliases: [], imagePullSecrets: [], topologySpreadConstraints: []}`,
		`{image: a, labels: {}, annotations: {}, podLabels: {}, podAnnotations: {}, nodeSelector: {}, priorityClassName: "", serviceAccountName: ""}`,
		`{image: a, ports: [{port: 1, targetPort: side}], containers: [{name: a, image: a, ports: [{containerPort: 5, name: side}]}]}`,
		`{image: a, labels: {app.kubernetes.io/version: "1", app.kubernetes.io/part-of: shop}, podLabels: {app.kubernetes.io/version: "1"}}`,
	} {
		app := &appv1.App{}
		app.Namespace, app.Name = ns, fmt.Sprintf("app-%d", i)
		if err := plane.Client.Create(t.Context(), parseApp(t, ns, app.Name, spec)); err != nil {
			t.Errorf("%.100s: %v", spec, err)
			continue
		}
		plane.Until(t, app, func() error {
			if app.Status.ObservedGeneration < 1 {
				return fmt.Errorf("%.100s: no status yet", spec)
			}
			return nil
		})
		if message := harness.Message(app, "Stalled"); message != "" {
			t.Errorf("%.100s: %s", spec, message)
			continue
		}
		plane.Read(t, deployment(app))
		if len(app.Spec.Ports) > 0 {
			plane.Read(t, service(app))
		}
	}
}

// TestInvalidSpec changes an App to what the schema takes and a Deployment or a Service cannot be. What lives must stay
// as it is, and the App must say which field it is, and converge once it is fixed.
func TestInvalidSpec(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	for name, c := range map[string]struct {
		mutate func(*appv1.AppSpec)
		says   []string
	}{
		"value-and-source": {
			mutate: func(s *appv1.AppSpec) {
				s.Envs = []corev1.EnvVar{{Name: "A", Value: "hunter2", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
			},
			says: []string{"spec.envs[0].valueFrom"},
		},
		"no-source": {
			mutate: func(s *appv1.AppSpec) { s.Envs = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}} },
			says:   []string{"spec.envs[0].valueFrom"},
		},
		"env-from-nothing": {
			mutate: func(s *appv1.AppSpec) { s.EnvFrom = []corev1.EnvFromSource{{Prefix: "A"}} },
			says:   []string{"spec.envFrom[0]"},
		},
		"env-name": {
			mutate: func(s *appv1.AppSpec) { s.Envs = []corev1.EnvVar{{Name: "A=B", Value: "1"}} },
			says:   []string{"spec.envs[0].name"},
		},
		"negative-quantity": {
			mutate: func(s *appv1.AppSpec) { s.Resources.Limits = corev1.ResourceList{"cpu": parseQuantity("-1")} },
			says:   []string{"spec.resources.limits[cpu]"},
		},
		"containers-name": {
			mutate: func(s *appv1.AppSpec) { s.Containers = []corev1.Container{{Name: "containers-name", Image: "a"}} },
			says:   []string{"spec.containers[0].name", "unique"},
		},
		"no-volume": {
			mutate: func(s *appv1.AppSpec) { s.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}} },
			says:   []string{"spec.volumeMounts[0].name", "must be the name of one of the volumes"},
		},
		"no-handler": {
			mutate: func(s *appv1.AppSpec) { s.Probes.Liveness = &corev1.Probe{PeriodSeconds: 5} },
			says:   []string{"spec.probes.liveness", "exactly one of"},
		},
		"deadline": {
			mutate: func(s *appv1.AppSpec) { s.MinReadySeconds = ptr.To[int32](600) },
			says:   []string{"spec.minReadySeconds", "progressDeadlineSeconds"},
		},
		"reserved": {
			mutate: func(s *appv1.AppSpec) { s.Labels = map[string]string{appv1.LabelManagedBy: "me"} },
			says:   []string{"spec.labels[app.kubernetes.io/managed-by]", "is set by the operator"},
		},
		"unknown-to-the-cluster": {
			mutate: func(s *appv1.AppSpec) {
				s.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o755)}}}}
			},
			says: []string{"Deployment unknown-to-the-cluster", "emptyDir.mode"},
		},
		"field-path": {
			mutate: func(s *appv1.AppSpec) {
				s.Envs = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.moon"}}}}
			},
			says: []string{"spec.envs[0].valueFrom.fieldRef.fieldPath", "supported values", "metadata.name"},
		},
		"resource-name": {
			mutate: func(s *appv1.AppSpec) { s.Resources.Limits = corev1.ResourceList{"moon": parseQuantity("1")} },
			says:   []string{"spec.resources.limits[moon]", "must be cpu, memory, ephemeral-storage"},
		},
		"patched": {
			mutate: func(s *appv1.AppSpec) {
				s.PodTemplatePatch = &runtime.RawExtension{Raw: []byte(`{"spec": {"containers": [{"name": "side", "image": "a", "ports": [{"containerPort": 0}]}]}}`)}
			},
			says: []string{"spec.podTemplatePatch.spec.containers[side].ports[0].containerPort"},
		},
		"node-port-range": {
			mutate: func(s *appv1.AppSpec) {
				s.Service.Type, s.Ports[0].NodePort = corev1.ServiceTypeNodePort, 1
			},
			says: []string{"Service node-port-range is rejected by the API server", "spec.ports[0].nodePort"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if minor := plane.Minor(t); name == "unknown-to-the-cluster" && minor >= 37 {
				t.Skipf("Kubernetes 1.%d has each field of a pod that the operator has", minor)
			}
			app := newApp(ns, name)
			d, s := createInPlace(t, app)
			deploymentWas, serviceWas := readWhole(t, d), readWhole(t, s)
			right := app.Spec.DeepCopy()

			plane.Change(t, app, func() { c.mutate(&app.Spec) })
			plane.Stands(t, app, "Ready=False/Invalid", "Reconciling=False/Invalid", "Stalled=True/Invalid")
			harness.Says(t, app, "Stalled", c.says...)
			if strings.Contains(harness.Message(app, "Stalled"), "hunter2") {
				t.Error("the message repeats a value")
			}
			m.Idle(t)
			checkUntouched(t, d, deploymentWas)
			checkUntouched(t, s, serviceWas)
			template := d.Spec.Template

			plane.Change(t, app, func() { right.DeepCopyInto(&app.Spec) })
			plane.Stands(t, app, progressing...)
			sameTemplate(t, d, template)
			checkUntouched(t, s, serviceWas)
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17" })
			awaitImage(t, d, "nginx:1.17")
		})
	}
}

// TestInvalidFromTheBeginning creates an App that cannot be, next to one that can.
func TestInvalidFromTheBeginning(t *testing.T) {
	t.Parallel()
	ns, m := plane.Shared(t)
	app := newApp(ns, "web")
	app.Spec.Resources.Limits = corev1.ResourceList{"moon": parseQuantity("1")}
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/Invalid", "Reconciling=False/Invalid", "Stalled=True/Invalid")
	createInPlace(t, newApp(ns, "neighbour"))
	m.Idle(t)
	plane.Absent(t, deployment(app))
	plane.Absent(t, service(app))
	checkEvents(t, app, "Warning ErrInvalid: "+harness.Message(app, "Stalled"))

	plane.Change(t, app, func() { app.Spec.Resources.Limits = nil })
	plane.Stands(t, app, progressing...)
	readChildren(t, app)
}

// TestImmutableField adopts a Deployment whose selector has an expression, which an App's cannot have, and a selector is
// for ever.
func TestImmutableField(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	d := newHandMade(ns, "web")
	d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "run", Operator: metav1.LabelSelectorOpExists}}
	plane.Create(t, d)
	spec := d.Spec.DeepCopy()
	app := newApp(ns, "web")
	app.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=False/ImmutableField", "Reconciling=False/ImmutableField", "Stalled=True/ImmutableField")
	harness.Says(t, app, "Stalled", "Deployment web is rejected by the API server: spec.selector", "Delete Deployment web")
	plane.Read(t, d)
	if err := diffOf(spec, &d.Spec); err != nil {
		t.Errorf("Deployment %v", err)
	}

	// As the message says.
	plane.Delete(t, d)
	plane.Stands(t, app, progressing...)
	readChildren(t, app)
}

// checkRefusals writes resources of a kind that are wrong. Each must be refused with an error that names the field.
func checkRefusals(t *testing.T, kind string, cases []struct{ name, spec, says string }) {
	t.Helper()
	ns := plane.Namespace(t)
	for _, c := range cases {
		obj := parseApp(t, ns, c.name, c.spec)
		obj.SetKind(kind)
		err := plane.Client.Create(t.Context(), obj, client.DryRunAll)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s %s is rejected by the API server: %v", c.name, c.spec, err)
		case c.says != "" && (!apierrors.IsInvalid(err) || !saysOf(t, err, c.says)):
			t.Errorf("%s %s\ngot  %v\nwant %s", c.name, c.spec, err, c.says)
		}
	}
}

// TestSchemaRefusesCloudManagers has what one CloudManager can say about itself: names that its objects cannot have, two
// passwords, volumes that are none.
func TestSchemaRefusesCloudManagers(t *testing.T) {
	t.Parallel()
	cm := func(front, identity, db, more string) string {
		return "{front: {deployment: {image: a" + front + "}}, identity: {deployment: {image: a" + identity + "}}, db: {statefulSet: {image: a, storage: {size: 1Gi}" + db + "}" + more + "}}"
	}
	long := strings.Repeat("x", 49)
	checkRefusals(t, "CloudManager", []struct{ name, spec, says string }{
		{long, cm("", "", "", ""), ""},
		{long + "y", cm("", "", "", ""), "spec.db.statefulSet.name: Invalid value"},
		{long + "y", cm("", "", ", name: db", ""), ""},
		{long + "yyyyyy", cm("", "", ", name: db", ""), "spec.identity.deployment.name: Invalid value"},
		{long + "yyyyyyyyy", cm("", ", name: identity", ", name: db", ""), "spec.front.deployment.name: Invalid value"},
		{long + "yyyyyyyyyyyyyy", cm(", name: front", ", name: identity", ", name: db", ""), ""},
		{long + "yyyyyyyyyyyyyyy", cm(", name: front", ", name: identity", ", name: db", ""), "metadata.name must be at most 63 characters long"},
		{"1a", cm("", "", ", name: db", ""), "spec.identity.deployment.name: Invalid value"},
		{"a.b", cm(", name: front", ", name: identity", "", ""), "spec.db.statefulSet.name: Invalid value"},
		{"a.b", cm(", name: front", ", name: identity", ", name: db", ""), ""},
		{"cm", cm("", "", ", name: "+long+"yyy", ""), ""},
		{"cm", cm("", "", ", name: "+long+"yyyy", ""), "spec.db.statefulSet.name: Invalid value"},
		{"cm", cm(", name: Front", "", "", ""), "spec.front.deployment.name: Invalid value: \"Front\": must be lower-case letters"},
		{"cm", cm(", name: same", ", name: same", "", ""), "spec.front.deployment.name: Invalid value: must differ from identity.deployment.name"},
		{"cm", cm(", name: same", "", ", name: same", ""), "spec.front.deployment.name: Invalid value: must differ from db.statefulSet.name"},
		{"cm", cm("", ", name: same-headless", ", name: same", ""), "spec.identity.deployment.name: Invalid value: must differ from db.statefulSet.name"},
		{"cm", cm("", "", "", ", rootPass: a"), ""},
		{"cm", cm("", "", "", ", rootPassSecretRef: {name: a}"), ""},
		{"cm", cm("", "", "", ", rootPass: a, rootPassSecretRef: {name: a}"), "spec.db: Invalid value: rootPass and rootPassSecretRef are mutually exclusive"},
		{"cm", cm("", "", "", ", rootPassSecretRef: {name: A}"), "spec.db.rootPassSecretRef.name: Invalid value: \"A\": must be the name of an object"},
		{"cm", cm("", "", "", ", rootPassSecretRef: {name: a, key: a/b}"), "spec.db.rootPassSecretRef.key: Invalid value: \"a/b\": must be a key of a Secret"},
		{"cm", cm("", "", ", strategy: Recreate", ""), "spec.db.statefulSet.strategy: Invalid value"},
		{"cm", strings.Replace(cm("", "", "", ""), "size: 1Gi", "size: 0", 1), "spec.db.statefulSet.storage.size: Invalid value"},
		{"cm", strings.Replace(cm("", "", "", ""), "size: 1Gi", "size: 1Gi, class: A_b", 1), "spec.db.statefulSet.storage.class: Invalid value: \"A_b\": must be the name of an object"},
		{"cm", strings.Replace(cm("", "", "", ""), "size: 1Gi", "size: 1Gi, mountPath: data", 1), "spec.db.statefulSet.storage.mountPath: Invalid value: \"data\": must be an absolute path"},
		{"cm", strings.Replace(cm("", "", "", ""), "size: 1Gi", "size: 1Gi, accessModes: ReadOnlyMany", 1), "spec.db.statefulSet.storage.accessModes: Unsupported value"},
	})
	checkRefusals(t, "ModelBox", []struct{ name, spec, says string }{
		{"box", `{image: a, name: Main}`, `spec.name: Invalid value: "Main": must be lower-case letters`},
		{"1box", `{image: a}`, "metadata.name must be at most 63"},
	})
	checkRefusals(t, "UnitedDeployment", []struct{ name, spec, says string }{
		{"ud", `{deploymentName: a}`, "spec.replicas: Required value"},
		{"ud", `{deploymentName: A, replicas: 1}`, "spec.deploymentName: Invalid value"},
		{"ud", `{deploymentName: a, replicas: -1}`, "spec.replicas: Invalid value: -1"},
		{"ud", `{deploymentName: a, replicas: 1, template: {image: a, replicas: 1}}`, "spec.template.replicas: Invalid value"},
		{"ud", `{deploymentName: a.b, replicas: 1, template: {image: a}}`, "spec.deploymentName: Invalid value"},
	})
}
