package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// Verified compares the objects that an App creates in an empty namespace with the objects that it was imported from.
type Verified struct {
	// App is the App, Objects are the objects that it takes over.
	App     string
	Objects []string
	// Differences are the fields in which the objects differ. Additions are the fields that the operator adds by default.
	Differences, Additions []Difference
}

// Difference is a field that has another value in an object that an App creates. The values are empty where an object lacks the field, and
// for the values of variables.
type Difference struct{ Object, Field, Was, Is string }

// verifying is a comparison on its way.
type verifying struct {
	Verified
	from *Source
	app  *appv1.App
}

// VerifyImport builds the objects of an imported App without the live ones, as in an empty namespace, and compares them with its source.
func VerifyImport(made *Import, from *Source) (*Verified, error) {
	app := made.App
	if errs := validation.App(app); len(errs) > 0 {
		return nil, fmt.Errorf("the App is invalid: %w", validation.List(errs).ToAggregate())
	}
	w, errs := resource.App(app, importOptions(app))
	if len(errs) > 0 {
		return nil, fmt.Errorf("nothing can be built of the App: %w", errs.ToAggregate())
	}
	v := &verifying{from: withDefaults(from), app: app}
	v.App = app.Namespace + "/" + app.Name
	var service *corev1.Service
	for _, obj := range w.Objects() {
		switch obj := obj.(type) {
		case *appsv1.Deployment:
			v.compareDeployment(obj)
		case *corev1.Service:
			service = obj
		default:
			v.compareAround(obj)
		}
	}
	v.compareServices(service, w.Template.Labels)
	byField := func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field))
	}
	slices.SortFunc(v.Differences, byField)
	slices.SortFunc(v.Additions, byField)
	return ptr.To(cleanView(v.Verified)), nil
}

// Text returns the comparison as a person reads it, one difference a line.
func (v *Verified) Text() string {
	var text strings.Builder
	same := "the same as "
	if len(v.Differences) > 0 {
		same = "not the same as "
	}
	fmt.Fprintf(&text, "App %s: %s%s\n", v.App, same, strings.Join(v.Objects, ", "))
	for _, d := range v.Differences {
		fmt.Fprintf(&text, "  differs: %s\n", d)
	}
	for _, d := range v.Additions {
		fmt.Fprintf(&text, "  added: %s\n", d)
	}
	return text.String()
}

// String returns the difference with its values.
func (d Difference) String() string {
	const absent = "none"
	text := d.Object + " " + d.Field
	if d.Was == "" && d.Is == "" {
		return text
	}
	return text + ": " + cmp.Or(d.Was, absent) + " -> " + cmp.Or(d.Is, absent)
}

// compareDeployment compares the Deployment and its pods.
func (v *verifying) compareDeployment(is *appsv1.Deployment) {
	was := v.from.Deployment
	v.Objects = append(v.Objects, "Deployment "+was.Name)
	object := "Deployment " + was.Name
	v.compareMetadata(object, "metadata", &was.ObjectMeta, &is.ObjectMeta)
	template, built := was.Spec.Template.DeepCopy(), is.Spec.Template.DeepCopy()
	v.compareMetadata(object, "spec.template.metadata", &template.ObjectMeta, &built.ObjectMeta)
	before, after, own := was.Spec, is.Spec, is.Spec.Selector.MatchLabels
	if stopped := ptr.Deref(was.Spec.Replicas, 1) == 0; !stopped && (v.app.Spec.Replicas == nil || v.app.Spec.Autoscaling != nil) {
		before.Replicas, after.Replicas = nil, nil // An autoscaler decides.
	}
	for _, spec := range []*appsv1.DeploymentSpec{&before, &after} {
		selector := spec.Selector.MatchLabels
		spec.Selector, spec.Template = nil, corev1.PodTemplateSpec{}
		spec.Replicas = ptr.To(ptr.Deref(spec.Replicas, 1))
		spec.RevisionHistoryLimit, spec.ProgressDeadlineSeconds = unlessDefault(spec.RevisionHistoryLimit, 10), unlessDefault(spec.ProgressDeadlineSeconds, 600)
		trimStrategy(&spec.Strategy)
		of := template
		if spec == &after {
			of = built
		}
		normalizePod(&of.Spec, selector, own)
	}
	v.compareTrees(object, "spec", before, after)
	v.compareTrees(object, "spec.template.spec", template.Spec, built.Spec)
}

// trimStrategy leaves out the defaults of a strategy.
func trimStrategy(s *appsv1.DeploymentStrategy) {
	clearDefault(&s.Type, appsv1.RollingUpdateDeploymentStrategyType)
	quarter := intstr.FromString("25%")
	if u := s.RollingUpdate; u != nil {
		s.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxSurge: unlessDefault(u.MaxSurge, quarter), MaxUnavailable: unlessDefault(u.MaxUnavailable, quarter),
		}
		if s.RollingUpdate.MaxSurge == nil && s.RollingUpdate.MaxUnavailable == nil {
			s.RollingUpdate = nil
		}
	}
}

// normalizePod gives equal pods equal values: without defaults, and with the App's own selector in the place of the Deployment's. A constraint without a
// selector, which counts no pods, keeps none.
func normalizePod(pod *corev1.PodSpec, selector, own map[string]string) {
	trimPod(pod)
	for i := range pod.TopologySpreadConstraints {
		if s := &pod.TopologySpreadConstraints[i]; sameSelector(s.LabelSelector, selector) {
			s.LabelSelector = &metav1.LabelSelector{MatchLabels: own}
		}
	}
	for i := range pod.Containers {
		slices.SortFunc(pod.Containers[i].Ports, func(a, b corev1.ContainerPort) int {
			return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(a.Protocol, b.Protocol))
		})
	}
}

// compareMetadata compares labels and annotations, as far as users set them. Labels that the operator alone adds are additions.
func (v *verifying) compareMetadata(object, path string, was, is *metav1.ObjectMeta) {
	labels, built := ownLabels(was.Labels), ownLabels(is.Labels)
	for _, key := range []string{appv1.LabelName, appv1.LabelInstance, appv1.LabelComponent} {
		if _, had := labels[key]; !had && built[key] != "" {
			v.Additions = append(v.Additions, Difference{object, path + ".labels[" + key + "]", "", built[key]})
			delete(built, key)
		}
	}
	v.compareMaps(object, path+".labels", labels, built)
	v.compareMaps(object, path+".annotations", ownAnnotations(was.Annotations), ownAnnotations(is.Annotations))
}

func (v *verifying) compareMaps(object, path string, was, is map[string]string) {
	keys := maps.Clone(was)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, is)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if a, b := was[key], is[key]; a != b {
			v.Differences = append(v.Differences, Difference{object, path + "[" + key + "]", a, b})
		}
	}
}

// compareServices compares the Service that the App takes over, and checks that each other Service that selects the pods selects the pods
// of the App, too.
func (v *verifying) compareServices(is *corev1.Service, pods map[string]string) {
	for i := range v.from.Services {
		was := &v.from.Services[i]
		switch name := "Service " + was.Name; {
		case is != nil && was.Name == is.Name:
			v.Objects = append(v.Objects, name)
			v.compareMetadata(name, "metadata", &was.ObjectMeta, &is.ObjectMeta)
			v.compareTrees(name, "spec", serviceMeaning(was), serviceMeaning(is))
			if !selectsLabels(is.Spec.Selector, pods) {
				v.Differences = append(v.Differences, Difference{name, "spec.selector", "", "selects no pod of the App"})
			}
		case len(was.Spec.Selector) > 0 && selectsLabels(was.Spec.Selector, v.from.Deployment.Spec.Template.Labels) && !selectsLabels(was.Spec.Selector, pods):
			v.Differences = append(v.Differences, Difference{name, "spec.selector", "selects the pods", "does not select the pods of the App"})
		}
	}
}

// serviceMeaning returns the fields of a Service that a user has set, without defaults and without its selector.
func serviceMeaning(s *corev1.Service) *corev1.ServiceSpec {
	spec := s.Spec.DeepCopy()
	spec.Selector = nil
	clearDefault(&spec.Type, corev1.ServiceTypeClusterIP)
	clearDefault(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	clearDefault(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	spec.InternalTrafficPolicy = unlessDefault(spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	spec.AllocateLoadBalancerNodePorts = unlessDefault(spec.AllocateLoadBalancerNodePorts, true)
	spec.IPFamilyPolicy = unlessDefault(spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	spec.ClusterIPs = nil
	if spec.ClusterIP != corev1.ClusterIPNone && !isStated(s, "f:spec", "f:clusterIP") {
		spec.ClusterIP = ""
	}
	if !isStated(s, "f:spec", "f:ipFamilies") {
		spec.IPFamilies = nil
	}
	if !isStated(s, "f:spec", "f:healthCheckNodePort") {
		spec.HealthCheckNodePort = 0
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinityConfig = nil
	} else if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && ptr.Deref(c.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds) == corev1.DefaultClientIPServiceAffinitySeconds {
		spec.SessionAffinityConfig = nil
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if !nodePortStated(s, &s.Spec.Ports[i]) {
			p.NodePort = 0
		}
		clearDefault(&p.TargetPort, intstr.FromInt32(p.Port))
		clearDefault(&p.TargetPort, intstr.IntOrString{})
		clearDefault(&p.Protocol, corev1.ProtocolTCP)
	}
	return spec
}

// compareAround compares an object around the pods with the object of its name: each field that the App sets is to be as it was.
func (v *verifying) compareAround(is resource.Object) {
	kind, live := is.GetObjectKind().GroupVersionKind().Kind, v.sourceObject(is)
	if live == nil {
		return
	}
	object := kind + " " + is.GetName()
	v.Objects = append(v.Objects, object)
	was, err := specOf(live)
	built, problem := specOf(is)
	if err != nil || problem != nil {
		return
	}
	for _, spec := range []map[string]any{was, built} {
		delete(spec, "selector")       // The App's own.
		delete(spec, "scaleTargetRef") // The Deployment, by any version of its API.
		for key, value := range standardSpec[kind] {
			if _, stated := spec[key]; !stated {
				spec[key] = value
			}
		}
		v.numberBackends(spec["rules"])
	}
	v.compareValues(object, "spec", was, built)
}

// standardSpec are the fields of objects around the pods that the API server sets by default.
var standardSpec = map[string]map[string]any{
	"HorizontalPodAutoscaler": {"minReplicas": json.Number("1")},
	"PodDisruptionBudget":     {"unhealthyPodEvictionPolicy": string(policyv1.IfHealthyBudget)},
}

// numberBackends replaces the names of the ports in the rules of an Ingress by their numbers: an App states numbers.
func (v *verifying) numberBackends(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			v.numberBackends(item)
		}
	case map[string]any:
		if port, ok := tree["port"].(map[string]any); ok {
			for _, p := range v.app.Spec.Ports {
				if p.Name != "" && port["name"] == p.Name {
					tree["port"] = map[string]any{"number": json.Number(strconv.Itoa(int(p.Port)))}
				}
			}
		}
		for _, value := range tree {
			v.numberBackends(value)
		}
	}
}

// sourceObject returns the object of the source with the type and the name of an object, nil if there is none.
func (v *verifying) sourceObject(obj resource.Object) any {
	named := func(meta *metav1.ObjectMeta) bool { return meta.Name == obj.GetName() }
	switch obj.GetObjectKind().GroupVersionKind().Kind {
	case "HorizontalPodAutoscaler":
		for i := range v.from.Autoscalers {
			if named(&v.from.Autoscalers[i].ObjectMeta) {
				return &v.from.Autoscalers[i]
			}
		}
	case "PodDisruptionBudget":
		for i := range v.from.Budgets {
			if named(&v.from.Budgets[i].ObjectMeta) {
				return &v.from.Budgets[i]
			}
		}
	case "Ingress":
		for i := range v.from.Ingresses {
			if named(&v.from.Ingresses[i].ObjectMeta) {
				return &v.from.Ingresses[i]
			}
		}
	}
	return nil
}

// specOf returns the spec of an object as JSON.
func specOf(obj any) (map[string]any, error) {
	fields, err := DecodeFields(obj)
	spec, _ := fields["spec"].(map[string]any)
	return spec, err
}
