package validation

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// feature is a field of the spec that can be switched off.
type feature struct {
	name   string
	stated func(*appv1.ServingSpec) bool
	clear  func(*appv1.ServingSpec)
}

// features are the fields of the auxiliary objects.
var features = []feature{
	{"serviceAccount", func(s *appv1.ServingSpec) bool { return s.ServiceAccount != nil }, func(s *appv1.ServingSpec) { s.ServiceAccount = nil }},
	{"ingress", func(s *appv1.ServingSpec) bool { return s.Ingress != nil }, func(s *appv1.ServingSpec) { s.Ingress = nil }},
	{"httpRoute", func(s *appv1.ServingSpec) bool { return s.HTTPRoute != nil }, func(s *appv1.ServingSpec) { s.HTTPRoute = nil }},
	{"autoscaling", func(s *appv1.ServingSpec) bool { return s.Autoscaling != nil }, func(s *appv1.ServingSpec) { s.Autoscaling = nil }},
	{"disruptionBudget", func(s *appv1.ServingSpec) bool { return s.DisruptionBudget != nil }, func(s *appv1.ServingSpec) { s.DisruptionBudget = nil }},
	{"networkPolicy", func(s *appv1.ServingSpec) bool { return s.NetworkPolicy != nil }, func(s *appv1.ServingSpec) { s.NetworkPolicy = nil }},
	{"podMonitor", func(s *appv1.ServingSpec) bool { return s.PodMonitor != nil }, func(s *appv1.ServingSpec) { s.PodMonitor = nil }},
	{
		"configRollout", func(s *appv1.ServingSpec) bool { return s.ConfigRollout == appv1.ConfigRolloutOnChange },
		func(s *appv1.ServingSpec) { s.ConfigRollout = "" },
	},
}

// Features returns the names of the fields that a cluster can switch off.
func Features() []string {
	names := make([]string, 0, len(features))
	for _, f := range features {
		names = append(names, f.name)
	}
	return append(names, FeatureCanary, FeatureBeforeRollout, FeatureTask)
}

// ParseFeatures reads features from a comma-separated list.
func ParseFeatures(list string) ([]string, error) {
	var named []string
	for _, name := range strings.Split(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(Features(), name) {
			return nil, fmt.Errorf(messageFeatureUnknown, name, strings.Join(Features(), ", "))
		}
		named = append(named, name)
	}
	return named, nil
}

// DisabledFeatures refuses stated fields that are switched off.
func DisabledFeatures(spec *appv1.ServingSpec, disabled []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range features {
		if f.stated(spec) && slices.Contains(disabled, f.name) {
			errs = append(errs, field.Forbidden(path.Child(f.name), messageFeatureSwitchedOff))
		}
	}
	return errs
}

// ValidServing returns the fields of the auxiliary objects without an error.
func ValidServing(spec *appv1.ServingSpec, errs field.ErrorList, path *field.Path) *appv1.ServingSpec {
	valid := spec.DeepCopy()
	for _, f := range features {
		at := path.Child(f.name).String()
		if slices.ContainsFunc(errs, func(err *field.Error) bool {
			rest, below := strings.CutPrefix(err.Field, at)
			return below && (rest == "" || strings.ContainsAny(rest[:1], ".["))
		}) {
			f.clear(valid)
		}
	}
	return valid
}

// serving validates the fields of the auxiliary objects of a workload at a path. Each block has its own limit of errors, so that
// no block hides the errors of another.
func serving(spec *appv1.ServingSpec, workload *appv1.WorkloadSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	add := func(found field.ErrorList) { errs = append(errs, collected(found)...) }
	if s := spec.ServiceAccount; s != nil {
		at := path.Child("serviceAccount")
		add(blockAnnotations(s.Annotations, workload, at))
		if workload.ServiceAccountName != "" {
			add(field.ErrorList{field.Invalid(at, field.OmitValueType{}, messageServiceAccountExcludesItsName)})
		}
	}
	if s := spec.Ingress; s != nil {
		add(ingress(s, workload, path.Child("ingress")))
	}
	if s := spec.HTTPRoute; s != nil {
		add(httpRoute(s, workload, path.Child("httpRoute")))
	}
	if s := spec.Autoscaling; s != nil {
		add(autoscaling(s, workload, path.Child("autoscaling")))
	}
	if s := spec.DisruptionBudget; s != nil && s.MinAvailable != nil && s.MaxUnavailable != nil {
		add(field.ErrorList{field.Invalid(path.Child("disruptionBudget"), field.OmitValueType{}, messageMinAvailableExcludesMaxUnavailable)})
	}
	if s := spec.NetworkPolicy; s != nil {
		add(networkPolicy(s, path.Child("networkPolicy")))
	}
	if s := spec.PodMonitor; s != nil {
		add(labels(s.Labels, path.Child("podMonitor", "labels")))
		add(identifyingLabels(s.Labels, path.Child("podMonitor", "labels")))
	}
	if limit := workload.RevisionHistoryLimit; spec.Rollback == appv1.RollbackOnStall && limit != nil && *limit == 0 {
		add(field.ErrorList{field.Invalid(path.Child("rollback"), field.OmitValueType{}, messageRollbackNeedsHistory)})
	}
	return errs
}

// blockAnnotations checks the annotations of a single object, together with the annotations of all objects.
func blockAnnotations(given map[string]string, workload *appv1.WorkloadSpec, at *field.Path) field.ErrorList {
	errs := annotations(given, at.Child("annotations"))
	if annotationBytes(given)+annotationBytes(workload.Annotations) > maxAnnotations {
		errs = append(errs, field.TooLong(at.Child("annotations"), "", max(0, maxAnnotations-annotationBytes(workload.Annotations))))
	}
	return errs
}

// servicePort checks that a block leads to a port that the Service offers by TCP.
func servicePort(port *intstr.IntOrString, workload *appv1.WorkloadSpec, at *field.Path) field.ErrorList {
	if len(workload.Ports) == 0 {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, fmt.Sprintf(messageRouteNeedsPorts, lastName(at)))}
	}
	var known []string
	var other *appv1.Port
	for i := range workload.Ports {
		p := &workload.Ports[i]
		tcp := cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
		name := cmp.Or(p.Name, strconv.Itoa(int(p.Port)))
		if tcp {
			known = append(known, name)
		}
		named := port == nil || port.Type == intstr.String && port.StrVal == p.Name || port.Type == intstr.Int && port.IntVal == p.Port
		switch {
		case named && tcp:
			return nil
		case named:
			other = p
		}
	}
	var given any = field.OmitValueType{}
	if port != nil {
		given = port.String()
	}
	if other != nil {
		return field.ErrorList{field.Invalid(at.Child("port"), given, fmt.Sprintf(messageRoutePortMustBeTCP, other.Port, other.Protocol))}
	}
	return field.ErrorList{field.Invalid(at.Child("port"), given, fmt.Sprintf(messageRoutePortNotFound, strings.Join(known, ", ")))}
}

// lastName returns the last name of a path.
func lastName(path *field.Path) string {
	text := path.String()
	return text[strings.LastIndex(text, ".")+1:]
}

// hostname checks what the schema of a host name does.
func hostname(host appv1.Hostname, at *field.Path) field.ErrorList {
	check := validation.IsDNS1123Subdomain
	if strings.HasPrefix(string(host), "*") {
		check = validation.IsWildcardDNS1123Subdomain
	}
	if len(check(string(host))) > 0 || net.ParseIP(string(host)) != nil {
		return field.ErrorList{field.Invalid(at, string(host), messageHostInvalid)}
	}
	return nil
}

// unclearPaths are the parts that the API server refuses in a path that is compared as it is.
var unclearPaths = []string{"//", "/./", "/../", "%2f", "%2F"}

// httpPaths checks paths that are compared as they are.
func httpPaths(paths []appv1.HTTPPath, literal bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, path := range paths {
		if full(errs) {
			break
		}
		path := string(path)
		if !strings.HasPrefix(path, "/") {
			errs = append(errs, field.Invalid(at.Index(i), path, messageHTTPPathMustBeginWithSlash))
			continue
		}
		if !literal {
			continue
		}
		for _, part := range unclearPaths {
			if strings.Contains(path, part) {
				errs = append(errs, field.Invalid(at.Index(i), path, fmt.Sprintf(messageHTTPPathMustNotContain, part)))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(path, end) {
				errs = append(errs, field.Invalid(at.Index(i), path, fmt.Sprintf(messageHTTPPathMustNotEndWith, end)))
			}
		}
	}
	return errs
}

func ingress(s *appv1.IngressSpec, workload *appv1.WorkloadSpec, at *field.Path) field.ErrorList {
	errs := append(servicePort(s.Port, workload, at), blockAnnotations(s.Annotations, workload, at)...)
	for i, rule := range s.Rules {
		if full(errs) {
			break
		}
		errs = append(errs, hostname(rule.Host, at.Child("rules").Index(i).Child("host"))...)
		errs = append(errs, httpPaths(rule.Paths, s.PathType != networkingv1.PathTypeImplementationSpecific,
			at.Child("rules").Index(i).Child("paths"))...)
	}
	return errs
}

func httpRoute(s *appv1.HTTPRouteSpec, workload *appv1.WorkloadSpec, at *field.Path) field.ErrorList {
	errs := append(servicePort(s.Port, workload, at), blockAnnotations(s.Annotations, workload, at)...)
	for i, host := range s.Hostnames {
		if full(errs) {
			break
		}
		errs = append(errs, hostname(host, at.Child("hostnames").Index(i))...)
	}
	for i, path := range s.Paths {
		if full(errs) {
			break
		}
		if strings.HasPrefix(string(path), "/") && !urlPath.MatchString(string(path)) {
			errs = append(errs, field.Invalid(at.Child("paths").Index(i), string(path), messageHTTPPathCharactersInvalid))
		}
	}
	if len(s.ParentRefs) == 0 {
		errs = append(errs, field.Required(at.Child("parentRefs"), messageRouteNeedsParents))
	}
	errs = append(errs, parents(s.ParentRefs, at.Child("parentRefs"))...)
	return append(errs, httpPaths(s.Paths, true, at.Child("paths"))...)
}

// urlPath is what the Gateway API takes as a path.
var urlPath = regexp.MustCompile(`^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$`)

// parents checks that references to the same Gateway differ in their listeners. Either all or none of them state sectionName, and
// likewise port. The API server may be stricter: the standard channel of the Gateway API distinguishes references by sectionName
// alone.
func parents(refs []appv1.ParentRef, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range refs {
		if full(errs) {
			break
		}
		for j := range refs[:i] {
			a, b := &refs[j], &refs[i]
			if cmp.Or(a.Kind, "Gateway") != cmp.Or(b.Kind, "Gateway") || a.Namespace != b.Namespace || a.Name != b.Name {
				continue
			}
			different := a.SectionName != b.SectionName || ptr.Deref(a.Port, 0) != ptr.Deref(b.Port, 0)
			if !different || (a.SectionName == "") != (b.SectionName == "") || (a.Port == nil) != (b.Port == nil) {
				errs = append(errs, field.Invalid(at.Index(i), field.OmitValueType{}, fmt.Sprintf(messageParentMustBeUnique, j)))
				break
			}
		}
	}
	return errs
}

// autoscaling checks the bounds, the targets, the metrics and the behavior. A target in percent requires a request of the
// resource.
func autoscaling(s *appv1.AutoscalingSpec, workload *appv1.WorkloadSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if least := ptr.Deref(s.MinReplicas, 1); s.MaxReplicas < least {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, fmt.Sprintf(messageMaxReplicasMustNotBeBelowMin, least)))
	}
	errs = append(errs, metrics(s.Metrics, at.Child("metrics"))...)
	errs = append(errs, scaling(s.Behavior, at.Child("behavior"))...)
	cpu, memory := s.TargetCPUUtilizationPercentage != nil, s.TargetMemoryUtilizationPercentage != nil
	if len(s.Metrics) > 0 {
		if cpu || memory {
			errs = append(errs, field.Invalid(at.Child("metrics"), field.OmitValueType{}, messageMetricsExcludeTargets))
		}
		return errs
	}
	cpu = cpu || !memory
	for _, target := range []struct {
		name   corev1.ResourceName
		wanted bool
	}{{corev1.ResourceCPU, cpu}, {corev1.ResourceMemory, memory}} {
		_, request := workload.Resources.Requests[target.name]
		_, limit := workload.Resources.Limits[target.name]
		if target.wanted && !workload.Size.Named() && !request && !limit && workload.PodTemplatePatch == nil {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf(messageUtilizationNeedsRequest, target.name)))
		}
	}
	return errs
}
