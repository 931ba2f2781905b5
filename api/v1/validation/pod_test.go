package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestModelBox has the rules on the pod and its metadata, kept and broken, through a ModelBox whose main container is
// "main". What is wanted is the type of each error and the path to the field.
func TestModelBox(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"all is right": {`{
			volumes: [{name: a, emptyDir: {}}, {name: b, projected: {sources: []}}], volumeMounts: [{name: a, mountPath: /a}],
			envs: [{name: F, valueFrom: {fileKeyRef: {volumeName: a, path: p, key: k}}}],
			initContainers: [{name: a, image: i}], containers: [{name: b, image: i, volumeMounts: [{name: b, mountPath: /b}],
				ports: [{containerPort: 1, hostPort: 1}, {containerPort: 1, hostPort: 1, protocol: UDP}, {containerPort: 2, hostPort: 1, hostIP: 10.0.0.1}]}],
			lifecycle: {preStop: {sleep: {seconds: 1}}},
			probes: {liveness: {exec: {command: [a]}, successThreshold: 1}, readiness: {grpc: {port: 1}, successThreshold: 3}, startup: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 1}},
			labels: {app.kubernetes.io/version: v1, a: ""}, podLabels: {app.kubernetes.io/part-of: shop}, annotations: {a: "any text"},
			podAnnotations: {xapp.huolala.cn/a: b}, service: {annotations: {example.com/a: b}}, nodeSelector: {a: b}}`, nil},

		"the main container's name":            {`{containers: [{name: main, image: i}]}`, []string{"FieldValueInvalid spec.containers[0].name"}},
		"the main container's name, init":      {`{initContainers: [{name: main, image: i}]}`, []string{"FieldValueInvalid spec.initContainers[0].name"}},
		"the ModelBox's name is another's":     {`{containers: [{name: box, image: i}]}`, nil},
		"one name in both lists":               {`{initContainers: [{name: a, image: i}], containers: [{name: a, image: i}]}`, []string{"FieldValueInvalid spec.containers[0].name"}},
		"a container's name":                   {`{containers: [{name: A_b, image: i}]}`, []string{"FieldValueInvalid spec.containers[0].name"}},
		"a container without an image":         {`{containers: [{name: a}]}`, []string{"FieldValueRequired spec.containers[0].image"}},
		"an init container without an image":   {`{initContainers: [{name: a}]}`, []string{"FieldValueRequired spec.initContainers[0].image"}},
		"a container's resources":              {`{containers: [{name: a, image: i, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}`, []string{"FieldValueInvalid spec.containers[0].resources.requests[cpu]"}},
		"a container's variable":               {`{containers: [{name: a, image: i, env: [{name: "A=", valueFrom: {}}]}]}`, []string{"FieldValueInvalid spec.containers[0].env[0].name", "FieldValueInvalid spec.containers[0].env[0].valueFrom"}},
		"a container's source of variables":    {`{containers: [{name: a, image: i, envFrom: [{}]}]}`, []string{"FieldValueInvalid spec.containers[0].envFrom[0]"}},
		"a container's file":                   {`{containers: [{name: a, image: i, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]}`, []string{"FieldValueInvalid spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName"}},
		"a container's probes":                 {`{initContainers: [{name: a, image: i, restartPolicy: Always, livenessProbe: {}, readinessProbe: {}, startupProbe: {}}]}`, []string{"FieldValueInvalid spec.initContainers[0].livenessProbe", "FieldValueInvalid spec.initContainers[0].readinessProbe", "FieldValueInvalid spec.initContainers[0].startupProbe"}},
		"a container's lifecycle":              {`{containers: [{name: a, image: i, lifecycle: {postStart: {}}}]}`, []string{"FieldValueInvalid spec.containers[0].lifecycle.postStart"}},
		"a container's device":                 {`{containers: [{name: a, image: i, volumeDevices: [{name: v, devicePath: /d}]}]}`, []string{"FieldValueInvalid spec.containers[0].volumeDevices[0].name"}},
		"a port of the node twice":             {`{containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 9}]}, {name: b, image: i, ports: [{containerPort: 2, hostPort: 8}, {containerPort: 3, hostPort: 9, protocol: TCP}]}]}`, []string{"FieldValueDuplicate spec.containers[1].ports[1].hostPort"}},
		"a mount of no volume":                 {`{volumeMounts: [{name: a, mountPath: /a}]}`, []string{"FieldValueInvalid spec.volumeMounts[0].name"}},
		"a container's mount of no volume":     {`{initContainers: [{name: a, image: i, volumeMounts: [{name: v, mountPath: /a}]}]}`, []string{"FieldValueInvalid spec.initContainers[0].volumeMounts[0].name"}},
		"a mount of the patch's volume":        {`{volumeMounts: [{name: a, mountPath: /a}], podTemplatePatch: {spec: {volumes: [{name: a, emptyDir: {}}]}}}`, nil},
		"a mount, and a patch with directives": {`{volumeMounts: [{name: a, mountPath: /a}], podTemplatePatch: {spec: {$setElementOrder/volumes: [{name: a}], volumes: [{name: a, emptyDir: {}}], containers: [{name: x, resources: {limits: {$patch: replace, memory: 1Gi}}}]}}}`, nil},
		"a mount, and a patch that is no good": {`{volumeMounts: [{name: a, mountPath: /a}], podTemplatePatch: {spec: {volumes: 1}}}`, []string{"FieldValueInvalid spec.volumeMounts[0].name"}},
		"a volume without a source":            {`{volumes: [{name: a}]}`, []string{"FieldValueInvalid spec.volumes[0]"}},
		"a volume with two sources":            {`{volumes: [{name: a, emptyDir: {}, hostPath: {path: /a}}]}`, []string{"FieldValueInvalid spec.volumes[0]"}},
		"a volume's name":                      {`{volumes: [{name: a.b, emptyDir: {}}]}`, []string{"FieldValueInvalid spec.volumes[0].name"}},

		"a probe without a handler":     {`{probes: {readiness: {periodSeconds: 1}}}`, []string{"FieldValueInvalid spec.probes.readiness"}},
		"a probe with two":              {`{probes: {startup: {exec: {command: [a]}, tcpSocket: {port: 1}}}}`, []string{"FieldValueInvalid spec.probes.startup"}},
		"liveness more than once":       {`{probes: {liveness: {exec: {command: [a]}, successThreshold: 2}}}`, []string{"FieldValueInvalid spec.probes.liveness.successThreshold"}},
		"start more than once":          {`{probes: {startup: {exec: {command: [a]}, successThreshold: 2}}}`, []string{"FieldValueInvalid spec.probes.startup.successThreshold"}},
		"a grace period that is unused": {`{probes: {readiness: {exec: {command: [a]}, terminationGracePeriodSeconds: 1}}}`, []string{"FieldValueForbidden spec.probes.readiness.terminationGracePeriodSeconds"}},
		"an action of nothing":          {`{lifecycle: {preStop: {}}}`, []string{"FieldValueInvalid spec.lifecycle.preStop"}},

		"a deadline above":                   {`{progressDeadlineSeconds: 4}`, nil},
		"a deadline at the default":          {`{progressDeadlineSeconds: 3}`, []string{"FieldValueInvalid spec.progressDeadlineSeconds"}},
		"a deadline at minReadySeconds":      {`{progressDeadlineSeconds: 9, minReadySeconds: 9}`, []string{"FieldValueInvalid spec.progressDeadlineSeconds"}},
		"minReadySeconds below the default":  {`{minReadySeconds: 599}`, nil},
		"minReadySeconds at the default":     {`{minReadySeconds: 600}`, []string{"FieldValueInvalid spec.minReadySeconds"}},
		"minReadySeconds below its deadline": {`{minReadySeconds: 600, progressDeadlineSeconds: 601}`, nil},

		"labels of the operator": {`{labels: {app.kubernetes.io/name: a, app.huolala.cn/a: b}, podLabels: {app.kubernetes.io/instance: a, app.kubernetes.io/component: a, app.kubernetes.io/managed-by: a}}`, []string{
			"FieldValueForbidden spec.labels[app.huolala.cn/a]", "FieldValueForbidden spec.podLabels[app.kubernetes.io/managed-by]"}},
		"labels of one object": {`{workloadLabels: {app.kubernetes.io/instance: a, app.huolala.cn/a: b}, service: {labels: {a: b, app.kubernetes.io/managed-by: a}}}`, []string{
			"FieldValueForbidden spec.workloadLabels[app.huolala.cn/a]", "FieldValueForbidden spec.service.labels[app.kubernetes.io/managed-by]"}},
		"annotations of one object": {`{workloadAnnotations: {a: b, deployment.kubernetes.io/revision: "1"}}`, []string{
			"FieldValueForbidden spec.workloadAnnotations[deployment.kubernetes.io/revision]"}},
		"a security profile":            {`{securityProfile: restricted}`, nil},
		"a security profile of none":    {`{securityProfile: baseline}`, []string{"FieldValueNotSupported spec.securityProfile"}},
		"numbers of a rolling update":   {`{maxSurge: 1, maxUnavailable: 0}`, nil},
		"no number of a rolling update": {`{maxSurge: 0%, maxUnavailable: 0}`, []string{"FieldValueInvalid spec.maxUnavailable"}},
		"two ways to say the same":      {`{rollingUpdate: 1, maxSurge: 1}`, []string{"FieldValueForbidden spec.rollingUpdate"}},

		"container ports":                      {`{containerPorts: [{name: a, containerPort: 1}, {containerPort: 1, protocol: UDP}], containers: [{name: b, image: b, ports: [{containerPort: 2}]}]}`, nil},
		"container ports of an init container": {`{containerPorts: [{name: a, containerPort: 1}], initContainers: [{name: b, image: b, ports: [{name: a, containerPort: 1}]}]}`, nil},
		"container ports twice": {`{containerPorts: [{name: a, containerPort: 1}, {containerPort: 1, protocol: TCP}, {name: a, containerPort: 2}]}`,
			[]string{"FieldValueDuplicate spec.containerPorts[1].containerPort", "FieldValueDuplicate spec.containerPorts[2].name"}},
		"container ports of others": {`{containerPorts: [{name: a, containerPort: 1}, {containerPort: 2}], initContainers: [{name: c, image: c, restartPolicy: Always, ports: [{name: a, containerPort: 3}]}], containers: [{name: b, image: b, ports: [{containerPort: 2}]}]}`,
			[]string{"FieldValueInvalid spec.containerPorts[0]", "FieldValueInvalid spec.containerPorts[1]"}},
		"a container port's name": {`{containerPorts: [{name: a--b, containerPort: 1}]}`, []string{"FieldValueInvalid spec.containerPorts[0].name"}},

		"a Service's fields": {`{service: {name: a, type: LoadBalancer, loadBalancerSourceRanges: [192.0.2.0/24], ipFamilies: [IPv6, IPv4], ipFamilyPolicy: PreferDualStack, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}}}`, nil},
		"a Service's name":   {`{service: {name: 1a}}`, []string{"FieldValueInvalid spec.service.name"}},
		"networks without a load balancer": {`{service: {loadBalancerSourceRanges: [192.0.2.0/24, a]}}`,
			[]string{"FieldValueForbidden spec.service.loadBalancerSourceRanges", "FieldValueInvalid spec.service.loadBalancerSourceRanges[1]"}},
		"affinity's length without affinity": {`{service: {sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}}}`, []string{"FieldValueForbidden spec.service.sessionAffinityConfig"}},
		"affinity for too long":              {`{service: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}}`, []string{"FieldValueInvalid spec.service.sessionAffinityConfig.clientIP.timeoutSeconds"}},
		"families of one stack":              {`{service: {ipFamilies: [IPv4, IPv6]}}`, []string{"FieldValueInvalid spec.service.ipFamilies"}},
		"families twice":                     {`{service: {ipFamilies: [IPv4, IPv4], ipFamilyPolicy: RequireDualStack}}`, []string{"FieldValueDuplicate spec.service.ipFamilies[1]"}},
		"families that are none":             {`{service: {ipFamilies: [IPv5]}}`, []string{"FieldValueNotSupported spec.service.ipFamilies[0]"}},

		"annotations of the operator": {`{annotations: {app.huolala.cn/a: b}, podAnnotations: {app.huolala.cn/b: b}, service: {annotations: {app.huolala.cn/c: b}}}`, []string{
			"FieldValueForbidden spec.annotations[app.huolala.cn/a]", "FieldValueForbidden spec.podAnnotations[app.huolala.cn/b]", "FieldValueForbidden spec.service.annotations[app.huolala.cn/c]"}},
		"annotations of Kubernetes": {`{annotations: {deployment.kubernetes.io/revision: "7"}}`, []string{"FieldValueForbidden spec.annotations[deployment.kubernetes.io/revision]"}},
		"labels that are none":      {`{labels: {"a b": c}, podLabels: {a: "b c"}, nodeSelector: {a: "-"}}`, []string{"FieldValueInvalid spec.nodeSelector[a]", "FieldValueInvalid spec.labels", "FieldValueInvalid spec.podLabels[a]"}},
		"annotations that are none": {`{annotations: {"a b": c}, podAnnotations: {"c d": c}, service: {annotations: {"": c}}}`, []string{"FieldValueInvalid spec.annotations", "FieldValueInvalid spec.podAnnotations", "FieldValueInvalid spec.service.annotations", "FieldValueInvalid spec.service.annotations"}},
	} {
		t.Run(name, func(t *testing.T) {
			box := &appv1.ModelBox{}
			box.Name = "box"
			if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll("{spec: "+c.spec+"}", "\t", " ")), box); err != nil {
				t.Fatal(err)
			}
			box.Spec.Name = "main"
			before := box.DeepCopy()
			var got []string
			for _, err := range ModelBox(box) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, box); diff != "" {
				t.Errorf("the ModelBox was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestMainContainersName checks which name the main container has for the rules: an App's, a ModelBox's, or the one that
// a ModelBox states.
func TestMainContainersName(t *testing.T) {
	taken := func(name string) appv1.WorkloadSpec {
		var spec appv1.WorkloadSpec
		if err := yaml.UnmarshalStrict([]byte("containers: [{name: "+name+", image: i}]"), &spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	app := &appv1.App{}
	app.Name, app.Spec.WorkloadSpec = "web", taken("web")
	if errs := App(app); len(errs) != 1 {
		t.Errorf("App: %v, want one error", errs)
	}
	box := &appv1.ModelBox{}
	box.Name, box.Spec.WorkloadSpec = "web", taken("web")
	if errs := ModelBox(box); len(errs) != 1 {
		t.Errorf("ModelBox: %v, want one error", errs)
	}
	box.Spec.Name = "main"
	if errs := ModelBox(box); len(errs) != 0 {
		t.Errorf("ModelBox with a name: %v, want none", errs)
	}
}
