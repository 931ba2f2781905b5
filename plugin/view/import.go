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
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// Source is what an App is made from: a Deployment, and the objects of its namespace that may be about its pods.
type Source struct {
	Deployment  *appsv1.Deployment
	Services    []corev1.Service
	Autoscalers []autoscalingv2.HorizontalPodAutoscaler
	Budgets     []policyv1.PodDisruptionBudget
	Ingresses   []networkingv1.Ingress
}

// Import is an App that takes over a Deployment, and notes on the differences.
type Import struct {
	App   *appv1.App
	Notes []ImportNote
}

// ImportNote is a note on a field of an object that an App cannot have, or has with another value.
type ImportNote struct {
	Object, Field, Text string
}

// importing is an import on its way.
type importing struct {
	Import
	from     *Source
	selector map[string]string
}

// ImportOf returns the App that takes over a Deployment, with the other objects for its pods, without a restart.
func ImportOf(from *Source) (*Import, error) {
	d := from.Deployment
	if ref := metav1.GetControllerOf(d); ref != nil {
		return nil, fmt.Errorf("%s %s controls Deployment %s, which cannot be taken over", ref.Kind, ref.Name, d.Name)
	}
	if err := checkImport(d); err != nil {
		return nil, err
	}
	i := &importing{from: from, selector: d.Spec.Selector.MatchLabels}
	i.App = &appv1.App{
		TypeMeta: metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: resource.KindApp.Name},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name, Annotations: map[string]string{appv1.AnnotationAdopt: appv1.AdoptWithoutRestart},
		},
	}
	i.importDeployment()
	i.importMetadata()
	i.importContainer()
	i.importPod()
	if err := i.importRest(); err != nil {
		return nil, err
	}
	service := i.importService()
	i.notePorts()
	i.importProbes()
	i.importAutoscaler()
	i.importBudget()
	i.importIngress(service)
	i.leaveInvalid()
	i.Notes = shown(i.Notes)
	return &i.Import, nil
}

// checkImport returns an error for a Deployment that no App can take over, whatever the App states.
func checkImport(d *appsv1.Deployment) error {
	object := "Deployment " + d.Name
	switch {
	case len(d.Spec.Template.Spec.Containers) == 0 || d.Spec.Selector == nil:
		return fmt.Errorf("%s has no containers or no selector", object)
	case len(d.Spec.Selector.MatchExpressions) > 0:
		return fmt.Errorf("%s has spec.selector.matchExpressions, so no App can take it over: an App selects its pods by labels alone, "+
			"and Kubernetes cannot change the selector", object)
	}
	if errs := names.IsDNS1035Label(d.Name); len(errs) > 0 {
		return fmt.Errorf("%s cannot be taken over: the App would have its name, and an App's metadata.name is at most 63 lower-case "+
			"letters, digits and '-', and starts with a letter", object)
	}
	return nil
}

// otherOwner returns the field, name or owner, by which an object cannot belong to the App, and the problem with the field. Both are empty
// if the object can belong to the App.
func (i *importing) otherOwner(obj metav1.Object) (field, wrong string) {
	switch {
	case obj.GetName() != i.App.Name:
		return "metadata.name", "is not " + i.App.Name
	case metav1.GetControllerOf(obj) != nil:
		return "metadata.ownerReferences", "name another owner"
	}
	return "", ""
}

func (i *importing) note(object, field, text string, args ...any) {
	i.Notes = append(i.Notes, ImportNote{Object: object, Field: field, Text: fmt.Sprintf(text, args...)})
}

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
	spec.Replicas = ptr.To(ptr.Deref(d.Spec.Replicas, 1))
	spec.RevisionHistoryLimit = unlessDefault(d.Spec.RevisionHistoryLimit, 10)
	spec.ProgressDeadlineSeconds = unlessDefault(d.Spec.ProgressDeadlineSeconds, 600)
	spec.MinReadySeconds = unlessDefault(&d.Spec.MinReadySeconds, 0)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		spec.Strategy = d.Spec.Strategy.Type
	} else if u := d.Spec.Strategy.RollingUpdate; u != nil {
		quarter := intstr.FromString("25%")
		spec.MaxSurge, spec.MaxUnavailable = unlessDefault(u.MaxSurge, quarter), unlessDefault(u.MaxUnavailable, quarter)
	}
	i.noteManager("Deployment", d)
	if d.Spec.Paused {
		i.note("Deployment", "spec.paused", "stays as it is; resume it with \"%s\"", Command(d.Namespace, resumeRollouts, deploymentOf+d.Name))
	}
}

// noteManager notes the one label of others that the adoption of an object changes.
func (i *importing) noteManager(object string, obj metav1.Object) {
	if by, ok := obj.GetLabels()[appv1.LabelManagedBy]; ok && by != appv1.ManagedBy {
		i.note(object, "metadata.labels["+appv1.LabelManagedBy+"]", "becomes "+appv1.ManagedBy+"; other labels that are set stay")
	}
}

// importMetadata states the labels and annotations of the pods.
func (i *importing) importMetadata() {
	template, spec := &i.from.Deployment.Spec.Template, &i.App.Spec.WorkloadSpec
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		value := template.Labels[key]
		switch {
		case i.selector[key] == value && key != appv1.LabelName && key != appv1.LabelComponent: // The selector is kept, and the pods have its labels.
		case validation.OperatorLabel(key):
			i.note("Deployment", "spec.template.metadata.labels["+key+"]", "is the operator's to set; the next change replaces it")
		default:
			if spec.PodLabels == nil {
				spec.PodLabels = map[string]string{}
			}
			spec.PodLabels[key] = value
		}
	}
	spec.PodAnnotations = maps.Clone(template.Annotations)
	for key := range spec.PodAnnotations {
		if strings.HasPrefix(key, appv1.GroupVersion.Group+"/") || key == AnnotationRestarted {
			delete(spec.PodAnnotations, key)
		}
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
	spec.Envs, spec.EnvFrom, spec.Resources = main.Env, main.EnvFrom, main.Resources
	spec.VolumeMounts, spec.Lifecycle, spec.SecurityContext = main.VolumeMounts, main.Lifecycle, main.SecurityContext
	for _, p := range main.Ports {
		if p.HostPort == 0 && p.HostIP == "" {
			spec.ContainerPorts = append(spec.ContainerPorts, appv1.ContainerPort{Name: p.Name, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
		}
	}
}

// importPod sets the fields of the pods beyond the main container.
func (i *importing) importPod() {
	spec, pod := &i.App.Spec.WorkloadSpec, &i.from.Deployment.Spec.Template.Spec
	spec.InitContainers, spec.Containers, spec.Volumes = pod.InitContainers, pod.Containers[1:], pod.Volumes
	spec.ServiceAccountName, spec.AutomountServiceAccountToken = pod.ServiceAccountName, pod.AutomountServiceAccountToken
	spec.ImagePullSecrets, spec.NodeSelector, spec.Tolerations = pod.ImagePullSecrets, pod.NodeSelector, pod.Tolerations
	if pod.SecurityContext != nil && !reflect.DeepEqual(pod.SecurityContext, &corev1.PodSecurityContext{}) {
		spec.PodSecurityContext = pod.SecurityContext
	}
	spec.Affinity, spec.TopologySpreadConstraints = pod.Affinity, pod.TopologySpreadConstraints
	if len(pod.TopologySpreadConstraints) == 0 {
		i.note("Deployment", "spec.template.spec.topologySpreadConstraints",
			"are none; an App spreads its pods over nodes and zones where that is possible, from the next change on")
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
	// Ports of the nodes are no part of an App's container ports.
	var ports []corev1.ContainerPort
	for _, p := range template.Spec.Containers[0].Ports {
		if p.HostPort != 0 || p.HostIP != "" {
			ports = append(ports, p)
		}
	}
	if delete(main, "ports"); len(ports) > 0 {
		main["ports"] = ports
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
	main := &i.from.Deployment.Spec.Template.Spec.Containers[0]
	for _, p := range i.App.Spec.Ports {
		number := p.Port
		if p.TargetPort != nil {
			number = p.TargetPort.IntVal
		}
		declared := slices.IndexFunc(main.Ports, func(c corev1.ContainerPort) bool {
			return c.ContainerPort == number && cmp.Or(c.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP)
		})
		field := fmt.Sprintf("spec.template.spec.containers[%s].ports[%d]", main.Name, number)
		switch {
		case number == 0: // By name.
		case declared < 0:
			i.note("Deployment", field, "is not declared; an App declares it, from the next change on")
		case main.Ports[declared].Name == "" && p.Name != "":
			i.note("Deployment", field, "has no name; an App names it %s, from the next change on", p.Name)
		}
	}
}

// importProbes states the probes of the main container, after its ports: an App has a readiness probe by default.
func (i *importing) importProbes() {
	main, spec := &i.from.Deployment.Spec.Template.Spec.Containers[0], &i.App.Spec.WorkloadSpec
	spec.Probes = appv1.Probes{Liveness: main.LivenessProbe, Readiness: main.ReadinessProbe, Startup: main.StartupProbe}
	switch {
	case len(spec.Ports) == 0 || main.ReadinessProbe != nil:
	case main.LivenessProbe == nil && main.StartupProbe == nil:
		spec.Probes.Disabled = true
	default:
		i.note("Deployment", "spec.template.spec.containers["+main.Name+"].readinessProbe",
			"is none; an App has one by default, which opens a TCP connection, from the next change on")
	}
}

// importService states the Service that leads to the pods, and returns it; nil if there is none.
func (i *importing) importService() *corev1.Service {
	found := i.findService()
	if found == nil {
		return nil
	}
	spec, name := &found.Spec, "Service "+found.Name
	into := &i.App.Spec.Service
	i.noteManager(name, found)
	for _, p := range spec.Ports {
		port := appv1.Port{Name: p.Name, Port: p.Port, NodePort: p.NodePort, AppProtocol: p.AppProtocol}
		if p.Protocol != corev1.ProtocolTCP {
			port.Protocol = p.Protocol
		}
		if target := p.TargetPort; target != intstr.FromInt32(p.Port) && target != (intstr.IntOrString{}) {
			port.TargetPort = &target
		}
		i.App.Spec.Ports = append(i.App.Spec.Ports, port)
	}
	if found.Name != i.App.Name {
		into.Name = found.Name
	}
	if spec.Type != corev1.ServiceTypeClusterIP {
		into.Type = spec.Type
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		into.ClusterIP = spec.ClusterIP
	}
	into.LoadBalancerClass, into.LoadBalancerSourceRanges = spec.LoadBalancerClass, spec.LoadBalancerSourceRanges
	if spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster {
		into.ExternalTrafficPolicy = spec.ExternalTrafficPolicy
	}
	if spec.SessionAffinity != corev1.ServiceAffinityNone {
		into.SessionAffinity, into.SessionAffinityConfig = spec.SessionAffinity, spec.SessionAffinityConfig
	}
	into.PublishNotReadyAddresses, into.TrafficDistribution = spec.PublishNotReadyAddresses, spec.TrafficDistribution
	into.InternalTrafficPolicy = unlessDefault(spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	for field, stated := range map[string]bool{
		"spec.externalIPs": len(spec.ExternalIPs) > 0, "spec.loadBalancerIP": spec.LoadBalancerIP != "",
		"spec.healthCheckNodePort": spec.HealthCheckNodePort != 0, "spec.allocateLoadBalancerNodePorts": !ptr.Deref(spec.AllocateLoadBalancerNodePorts, true),
	} {
		if stated {
			i.note(name, field, "stays as it is")
		}
	}
	slices.SortFunc(i.Notes, func(a, b ImportNote) int { return strings.Compare(a.Object+a.Field, b.Object+b.Field) })
	return found
}

// findService returns the Service of the pods. Of the Services that have no controller and select the same pods, it is the Service with the
// Deployment's name, or else the first.
func (i *importing) findService() *corev1.Service {
	var found *corev1.Service
	for n := range i.from.Services {
		s := &i.from.Services[n]
		same, name := maps.Equal(s.Spec.Selector, i.selector), "Service "+s.Name
		switch {
		case len(s.Spec.Selector) == 0 || !selects(s.Spec.Selector, i.from.Deployment.Spec.Template.Labels):
			if s.Name == i.App.Name {
				i.note(name, "spec.selector", "leads to other pods; with ports, the App would be in its way")
			}
		case !same:
			i.note(name, "spec.selector", "selects the pods by other labels than the Deployment; the Service stays as it is, and leads to the pods as before")
		case metav1.GetControllerOf(s) != nil:
			i.note(name, "metadata.ownerReferences", "name another owner; the Service stays as it is")
		case found == nil:
			found = s
		case s.Name == i.App.Name:
			i.note("Service "+found.Name, "spec", "is not taken over, as an App has one Service; it stays as it is")
			found = s
		default:
			i.note(name, "spec", "is not taken over, as an App has one Service; it stays as it is")
		}
	}
	return found
}

// selects reports whether a selector selects pods with labels.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if found, ok := labels[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// importAutoscaler states the autoscaler of the Deployment. It decides the number of pods then.
func (i *importing) importAutoscaler() {
	for n := range i.from.Autoscalers {
		scaler := &i.from.Autoscalers[n]
		target, name := scaler.Spec.ScaleTargetRef, "HorizontalPodAutoscaler "+scaler.Name
		if target.Kind != "Deployment" || target.Name != i.App.Name {
			continue
		}
		i.App.Spec.Replicas = nil
		if at, wrong := i.otherOwner(scaler); wrong != "" {
			i.note(name, at, "%s, so it is not taken over; it goes on scaling the Deployment", wrong)
			continue
		}
		i.App.Spec.Autoscaling = &appv1.AutoscalingSpec{
			MinReplicas: scaler.Spec.MinReplicas, MaxReplicas: scaler.Spec.MaxReplicas, Metrics: scaler.Spec.Metrics, Behavior: scaler.Spec.Behavior,
		}
	}
}

// importBudget states the disruption budget of the pods.
func (i *importing) importBudget() {
	for n := range i.from.Budgets {
		budget := &i.from.Budgets[n]
		name := "PodDisruptionBudget " + budget.Name
		if s := budget.Spec.Selector; s == nil || !selects(s.MatchLabels, i.from.Deployment.Spec.Template.Labels) || len(s.MatchLabels) == 0 {
			continue
		}
		at, wrong := i.otherOwner(budget)
		if s := budget.Spec.Selector; wrong == "" && (len(s.MatchExpressions) > 0 || !maps.Equal(s.MatchLabels, i.selector)) {
			at, wrong = "spec.selector", "is not that of the Deployment"
		}
		if wrong != "" {
			i.note(name, at, "%s, so it is not taken over; it stays as it is", wrong)
			continue
		}
		into := &appv1.DisruptionBudgetSpec{MinAvailable: budget.Spec.MinAvailable, MaxUnavailable: budget.Spec.MaxUnavailable}
		into.UnhealthyPodEvictionPolicy = ptr.Deref(budget.Spec.UnhealthyPodEvictionPolicy, policyv1.IfHealthyBudget)
		i.App.Spec.DisruptionBudget = into
	}
}

// importIngress sets the Ingress that leads to the Service, if an App can express it.
func (i *importing) importIngress(service *corev1.Service) {
	for n := range i.from.Ingresses {
		ingress := &i.from.Ingresses[n]
		name := "Ingress " + ingress.Name
		if service == nil || !leadsTo(ingress, service.Name) {
			continue
		}
		if at, wrong := i.otherOwner(ingress); wrong != "" {
			i.note(name, at, "%s, so it is not taken over; it stays as it is", wrong)
			continue
		}
		if into := ingressSpec(ingress, service.Name); into != nil {
			i.App.Spec.Ingress = into
		} else {
			i.note(name, "spec", "has more than one type of path, backend or certificate, or a rule without a host; it stays as it is")
		}
	}
}

// leaveInvalid notes all validation errors of the App, and removes its invalid auxiliary objects.
func (i *importing) leaveInvalid() {
	errs := validation.App(i.App)
	if len(errs) == 0 {
		return
	}
	for _, err := range validation.List(errs) {
		i.note("App", err.Field, "%s", err.Detail)
	}
	i.App.Spec.ServingSpec = *validation.ValidServing(&i.App.Spec.ServingSpec, errs, field.NewPath("spec"))
}

// leadsTo reports whether any path of an Ingress leads to a Service.
func leadsTo(ingress *networkingv1.Ingress, service string) bool {
	return slices.ContainsFunc(ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool {
		return rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(path networkingv1.HTTPIngressPath) bool {
			return path.Backend.Service != nil && path.Backend.Service.Name == service
		})
	})
}

// ingressSpec returns the block of an App that means an Ingress, nil if none does.
func ingressSpec(ingress *networkingv1.Ingress, service string) *appv1.IngressSpec {
	into := &appv1.IngressSpec{ClassName: ingress.Spec.IngressClassName}
	if ingress.Spec.DefaultBackend != nil || len(ingress.Spec.TLS) > 1 {
		return nil
	}
	var backend *networkingv1.ServiceBackendPort
	hosts := map[string]bool{}
	for _, rule := range ingress.Spec.Rules {
		if rule.Host == "" || rule.HTTP == nil || hosts[rule.Host] {
			return nil
		}
		hosts[rule.Host] = true
		made := appv1.IngressRule{Host: appv1.Hostname(rule.Host)}
		for _, path := range rule.HTTP.Paths {
			kind, to := ptr.Deref(path.PathType, networkingv1.PathTypeImplementationSpecific), path.Backend.Service
			if to == nil || to.Name != service || into.PathType != "" && into.PathType != kind || backend != nil && *backend != to.Port {
				return nil
			}
			into.PathType, backend = kind, &to.Port
			made.Paths = append(made.Paths, appv1.HTTPPath(path.Path))
		}
		into.Rules = append(into.Rules, made)
	}
	if backend != nil {
		port := intstr.FromInt32(backend.Number)
		if backend.Name != "" {
			port = intstr.FromString(backend.Name)
		}
		into.Port = &port
	}
	for _, tls := range ingress.Spec.TLS {
		if len(tls.Hosts) != len(hosts) || slices.ContainsFunc(tls.Hosts, func(host string) bool { return !hosts[host] }) || tls.SecretName == "" {
			return nil
		}
		into.TLS = &appv1.IngressTLS{SecretName: tls.SecretName}
	}
	return into
}

// Manifest returns the App as a user writes it: without a status and without members that are null.
func (i *Import) Manifest() (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(i.App)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	dropNulls(fields)
	return fields, nil
}

// Comments returns a line of YAML for each note.
func (i *Import) Comments() string {
	var head strings.Builder
	for _, note := range i.Notes {
		fmt.Fprintf(&head, "# %s: %s %s.\n", note.Object, note.Field, note.Text)
	}
	return head.String()
}

// dropNulls removes the members of a tree that are null, such as times that are not set.
func dropNulls(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(_ string, value any) bool { return value == nil })
		for _, value := range tree {
			dropNulls(value)
		}
	case []any:
		for _, item := range tree {
			dropNulls(item)
		}
	}
}
