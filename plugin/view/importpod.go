package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// unlessDefault returns a pointer to a value, nil if it is the default.
func unlessDefault[T comparable](value *T, standard T) *T {
	if value == nil || *value == standard {
		return nil
	}
	return value
}

// importDeployment states how pods are counted and replaced.
func (i *importing) importDeployment() {
	d, spec := i.from.Deployment, &i.App.Spec.WorkloadSpec
	spec.Replicas = d.Spec.Replicas // An object of a file may state none.
	spec.RevisionHistoryLimit = unlessDefault(d.Spec.RevisionHistoryLimit, 10)
	spec.ProgressDeadlineSeconds = unlessDefault(d.Spec.ProgressDeadlineSeconds, 600)
	spec.MinReadySeconds = unlessDefault(&d.Spec.MinReadySeconds, 0)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		spec.Strategy = d.Spec.Strategy.Type
	} else if u := d.Spec.Strategy.RollingUpdate; u != nil {
		quarter := intstr.FromString("25%")
		spec.MaxSurge, spec.MaxUnavailable = unlessDefault(u.MaxSurge, quarter), unlessDefault(u.MaxUnavailable, quarter)
	}
	if d.Spec.Paused {
		i.addNote("Deployment", "spec.paused", "stays as it is; resume it with \"%s\"", CommandLine(d.Namespace, resumeRollouts, deploymentOf+d.Name))
	}
}

// importContainer states the first container, which is the main one of an App.
func (i *importing) importContainer() {
	spec, main := &i.App.Spec.WorkloadSpec, &i.from.Deployment.Spec.Template.Spec.Containers[0]
	if main.Name != i.App.Name {
		spec.ContainerName = main.Name
	}
	spec.Image, spec.Command, spec.Args = main.Image, main.Command, main.Args
	if main.ImagePullPolicy != corev1.PullIfNotPresent {
		spec.ImagePullPolicy = main.ImagePullPolicy
	}
	spec.Envs, spec.EnvFrom, spec.Resources = i.lastVariables(main), main.EnvFrom, main.Resources
	spec.Resources.Claims = nil // They are in the patch, next to those of the pod.
	spec.VolumeMounts, spec.Lifecycle, spec.SecurityContext = main.VolumeMounts, main.Lifecycle, main.SecurityContext
	for _, p := range main.Ports {
		if !isHostPort(&p) {
			spec.ContainerPorts = append(spec.ContainerPorts, appv1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
		}
	}
}

// lastVariables returns the variables of a container. Of several variables of one name, which a Deployment can have and an App cannot, the last one
// counts.
func (i *importing) lastVariables(c *corev1.Container) []corev1.EnvVar {
	last := map[string]int{}
	for n, v := range c.Env {
		last[v.Name] = n
	}
	if len(last) == len(c.Env) {
		return c.Env
	}
	var kept []corev1.EnvVar
	noted := map[string]bool{}
	for n, v := range c.Env {
		if last[v.Name] == n {
			kept = append(kept, v)
			continue
		}
		if noted[v.Name] {
			continue
		}
		noted[v.Name] = true
		at := "spec.template.spec.containers[" + c.Name + "].env"
		i.addNote("Deployment", at, "has %s several times, which an App cannot have; the App has the last one, which counts", v.Name)
		for m := n + 1; m <= last[v.Name]; m++ {
			if other := &c.Env[m]; last[other.Name] == m && refersTo(other.Value, v.Name) {
				i.addNote("Deployment", at, "has %s, which refers to an earlier %s; the App has none, so $(%s) has another value there: write the value out",
					other.Name, v.Name, v.Name)
			}
		}
	}
	return kept
}

// refersTo reports whether the kubelet replaces a reference to a variable in the value of another one: $$ means $.
func refersTo(value, name string) bool {
	return strings.Contains(strings.ReplaceAll(value, "$$", ""), "$("+name+")")
}

// withLastVariables returns containers with their lastVariables.
func (i *importing) withLastVariables(containers []corev1.Container) []corev1.Container {
	changed := slices.Clone(containers)
	for n := range changed {
		changed[n].Env = i.lastVariables(&changed[n])
	}
	return changed
}

// importPod sets the fields of the pods beyond the main container.
func (i *importing) importPod() {
	spec, pod := &i.App.Spec.WorkloadSpec, &i.from.Deployment.Spec.Template.Spec
	spec.InitContainers, spec.Containers = i.withLastVariables(pod.InitContainers), i.withLastVariables(pod.Containers[1:])
	spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Volumes), isUnstated)
	spec.ServiceAccountName, spec.AutomountServiceAccountToken = pod.ServiceAccountName, pod.AutomountServiceAccountToken
	spec.ImagePullSecrets, spec.NodeSelector, spec.Tolerations = pod.ImagePullSecrets, pod.NodeSelector, pod.Tolerations
	if pod.SecurityContext != nil && !reflect.DeepEqual(pod.SecurityContext, &corev1.PodSecurityContext{}) {
		spec.PodSecurityContext = pod.SecurityContext
	}
	spec.Affinity, spec.TopologySpreadConstraints = pod.Affinity, pod.TopologySpreadConstraints
	if len(pod.TopologySpreadConstraints) == 0 {
		i.addNote("Deployment", "spec.template.spec.topologySpreadConstraints",
			"are none; an App spreads its pods over nodes and zones where that is possible, from the next change on")
	}
	for _, spread := range pod.TopologySpreadConstraints {
		if spread.LabelSelector == nil {
			i.addNote("Deployment", "spec.template.spec.topologySpreadConstraints["+spread.TopologyKey+"].labelSelector",
				"is not there, so the constraint counts no pods; an App has it count its own pods, from the next change on")
		}
	}
	spec.TerminationGracePeriodSeconds = unlessDefault(pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	spec.PriorityClassName, spec.RuntimeClassName = pod.PriorityClassName, pod.RuntimeClassName
	if pod.DNSPolicy != corev1.DNSClusterFirst {
		spec.DNSPolicy = pod.DNSPolicy
	}
	spec.DNSConfig, spec.HostAliases = pod.DNSConfig, pod.HostAliases
}

var (
	// statedPod and statedContainer are the fields of a pod, and of its main container, that the spec of an App states under names of
	// its own.
	statedPod = []string{
		"initContainers", "containers", "volumes", "serviceAccountName", "serviceAccount", "automountServiceAccountToken", "imagePullSecrets",
		"nodeSelector", "tolerations", "securityContext", "affinity", "topologySpreadConstraints", "terminationGracePeriodSeconds",
		"priorityClassName", "runtimeClassName", "dnsPolicy", "dnsConfig", "hostAliases",
	}
	statedContainer = []string{
		"image", "imagePullPolicy", "command", "args", "env", "envFrom", "resources", "volumeMounts", "lifecycle", "securityContext",
		"livenessProbe", "readinessProbe", "startupProbe",
	}
	// standard are the fields that are left out with the value that the API server gives them.
	standard = map[string]any{
		"restartPolicy": "Always", "schedulerName": "default-scheduler", "terminationMessagePath": "/dev/termination-log",
		"terminationMessagePolicy": "File", "enableServiceLinks": true,
	}
)

// isUnstated reports whether a volume has a source that spec.volumes of an App does not have, as Kubernetes no longer serves it. The patch of the
// pod template has such volumes.
func isUnstated(v corev1.Volume) bool {
	s := &v.VolumeSource
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.GitRepo != nil || s.Glusterfs != nil || s.RBD != nil ||
		s.Cinder != nil || s.CephFS != nil || s.Flocker != nil || s.AzureFile != nil || s.VsphereVolume != nil || s.Quobyte != nil || s.AzureDisk != nil ||
		s.PhotonPersistentDisk != nil || s.PortworxVolume != nil || s.ScaleIO != nil || s.StorageOS != nil
}

// isHostPort reports whether a port is one of the node. Such ports are no part of an App's container ports, so the patch has them.
func isHostPort(p *corev1.ContainerPort) bool { return p.HostPort != 0 || p.HostIP != "" }

func (i *importing) hasHostPorts() bool {
	return slices.ContainsFunc(i.from.Deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return isHostPort(&p) })
}

// replacesPorts reports whether the patch has all ports of the main container, and replaces the ports of the App: a patch finds a port by its number
// alone, so of two ports of one number, one for TCP and one for UDP, only one would be left.
func (i *importing) replacesPorts() bool {
	numbers := map[int32]corev1.Protocol{}
	twice := func(number int32, protocol corev1.Protocol) bool {
		protocol = cmp.Or(protocol, corev1.ProtocolTCP)
		before, has := numbers[number]
		numbers[number] = protocol
		return has && before != protocol && number != 0
	}
	declared := slices.ContainsFunc(i.from.Deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return twice(p.ContainerPort, p.Protocol)
	})
	return i.hasHostPorts() && (declared || slices.ContainsFunc(i.App.Spec.Ports, func(p appv1.Port) bool { return twice(targetNumber(&p), p.Protocol) }))
}

// patchedPorts returns the ports of the main container for the patch.
func (i *importing) patchedPorts() []any {
	var ports []any
	all := i.replacesPorts()
	if all {
		ports = append(ports, map[string]any{"$patch": "replace"})
	}
	for _, p := range i.from.Deployment.Spec.Template.Spec.Containers[0].Ports {
		if all || isHostPort(&p) {
			ports = append(ports, p)
		}
	}
	return ports
}

// targetNumber returns the number of the target of a Service's port, 0 if the target has a name.
func targetNumber(p *appv1.Port) int32 {
	if p.TargetPort != nil {
		return p.TargetPort.IntVal
	}
	return p.Port
}

// importRest states all else of the pod template in its patch, so that no field of it is lost.
func (i *importing) importRest() error {
	template := &i.from.Deployment.Spec.Template
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template.Spec)
	if err != nil {
		return err
	}
	main, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template.Spec.Containers[0])
	if err != nil {
		return err
	}
	leave := func(from map[string]any, stated []string) {
		maps.DeleteFunc(from, func(name string, value any) bool {
			return slices.Contains(stated, name) || value != nil && reflect.DeepEqual(standard[name], value)
		})
	}
	leave(pod, statedPod)
	leave(main, statedContainer)
	if delete(main, "ports"); i.hasHostPorts() {
		main["ports"] = i.patchedPorts()
	}
	if claims := template.Spec.Containers[0].Resources.Claims; len(claims) > 0 {
		main["resources"] = map[string]any{"claims": claims}
	}
	if volumes := slices.DeleteFunc(slices.Clone(template.Spec.Volumes), func(v corev1.Volume) bool { return !isUnstated(v) }); len(volumes) > 0 {
		pod["volumes"] = volumes
	}
	if len(main) > 1 { // More than its name.
		pod["containers"] = []any{main}
	}
	if len(pod) == 0 {
		return nil
	}
	data, err := json.Marshal(map[string]any{"spec": pod})
	if err != nil {
		return err
	}
	i.App.Spec.PodTemplatePatch = &runtime.RawExtension{Raw: data}
	return nil
}

// notePorts notes the ports of the main container that the App names or declares because its Service has them as targets.
func (i *importing) notePorts() {
	if i.replacesPorts() {
		return
	}
	main := &i.from.Deployment.Spec.Template.Spec.Containers[0]
	for _, p := range i.App.Spec.Ports {
		number := targetNumber(&p)
		declared := slices.IndexFunc(main.Ports, func(c corev1.ContainerPort) bool {
			return c.ContainerPort == number && cmp.Or(c.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP)
		})
		field := fmt.Sprintf("spec.template.spec.containers[%s].ports[%d]", main.Name, number)
		switch {
		case number == 0: // By name.
		case declared < 0:
			i.addNote("Deployment", field, "is not declared; an App declares it, from the next change on")
		case main.Ports[declared].Name == "" && p.Name != "":
			i.addNote("Deployment", field, "has no name; an App names it %s, from the next change on", p.Name)
		}
	}
}

// importProbes states the probes of the main container, after its ports: an App with ports has a readiness probe by default.
func (i *importing) importProbes() {
	main, spec := &i.from.Deployment.Spec.Template.Spec.Containers[0], &i.App.Spec.WorkloadSpec
	spec.Probes = appv1.Probes{Liveness: main.LivenessProbe, Readiness: main.ReadinessProbe, Startup: main.StartupProbe}
	spec.Probes.Disabled = len(spec.Ports) > 0 && main.ReadinessProbe == nil
}
