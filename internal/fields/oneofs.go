package fields

import (
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// oneOf is a rule by which fields of one struct exclude each other. The API server refuses an object in which two members
// are set, and server-side apply cannot remove a member that another manager owns, or that nobody owns.
type oneOf struct {
	// members are the JSON names of the fields that exclude each other; all of the struct's own if there are none.
	members []string
	// implicit is the member that the API server sets if none is stated.
	implicit string
	// whole rules that what a literal leaves out is to be empty: none of the members is a value as well.
	whole bool

	// discriminator is a field whose value decides which members may be set, and allowed is for each such member the value
	// of the discriminator that allows it.
	discriminator string
	allowed       map[string]string
}

// oneOfs are the rules by the type that declares the fields. A test finds every type below our kinds that could be one.
var oneOfs = map[reflect.Type]oneOf{
	reflect.TypeFor[corev1.ProbeHandler]():     {},
	reflect.TypeFor[corev1.LifecycleHandler](): {},
	reflect.TypeFor[corev1.EnvVarSource]():     {},
	// A variable without either has the empty value, which is not encoded.
	reflect.TypeFor[corev1.EnvVar]():           {members: []string{"value", "valueFrom"}, whole: true},
	reflect.TypeFor[corev1.EnvFromSource]():    {members: []string{"configMapRef", "secretRef"}},
	reflect.TypeFor[corev1.VolumeSource]():     {implicit: "emptyDir"},
	reflect.TypeFor[corev1.VolumeProjection](): {},
	reflect.TypeFor[corev1.VolumeMount]():      {members: []string{"subPath", "subPathExpr"}},
	reflect.TypeFor[corev1.SeccompProfile](): {
		discriminator: "type", allowed: map[string]string{"localhostProfile": string(corev1.SeccompProfileTypeLocalhost)},
	},
	reflect.TypeFor[corev1.AppArmorProfile](): {
		discriminator: "type", allowed: map[string]string{"localhostProfile": string(corev1.AppArmorProfileTypeLocalhost)},
	},
	reflect.TypeFor[corev1.PodResourceClaim](): {members: []string{"resourceClaimName", "resourceClaimTemplateName"}},
	reflect.TypeFor[appsv1.DeploymentStrategy](): {
		discriminator: "type", allowed: map[string]string{"rollingUpdate": string(appsv1.RollingUpdateDeploymentStrategyType)},
	},
	reflect.TypeFor[appsv1.StatefulSetUpdateStrategy](): {
		discriminator: "type", allowed: map[string]string{"rollingUpdate": string(appsv1.RollingUpdateStatefulSetStrategyType)},
	},
	reflect.TypeFor[policyv1.PodDisruptionBudgetSpec](): {members: []string{"minAvailable", "maxUnavailable"}},
	// The API server itself clears what else depends on the type of a Service.
	reflect.TypeFor[corev1.ServiceSpec](): {
		discriminator: "type", allowed: map[string]string{
			"allocateLoadBalancerNodePorts": string(corev1.ServiceTypeLoadBalancer),
			"loadBalancerClass":             string(corev1.ServiceTypeLoadBalancer),
			"loadBalancerSourceRanges":      string(corev1.ServiceTypeLoadBalancer),
			"externalName":                  string(corev1.ServiceTypeExternalName),
		},
	},
	reflect.TypeFor[affinitySpec](): {
		discriminator: "sessionAffinity", allowed: map[string]string{"sessionAffinityConfig": string(corev1.ServiceAffinityClientIP)},
	},
}

// affinitySpec represents ServiceSpec in the rule of its second discriminator.
type affinitySpec corev1.ServiceSpec

// extraRules are further rules of a type.
var extraRules = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[corev1.ServiceSpec](): {reflect.TypeFor[affinitySpec]()},
}

// rules caches the rules of a type and of the types that it inlines, with their members spelled out.
var rules sync.Map

// rulesOf returns the rules that hold for the fields of a struct.
func rulesOf(t reflect.Type) []oneOf {
	if known, ok := rules.Load(t); ok {
		return known.([]oneOf) //nolint:forcetypeassert // Nothing else is stored.
	}
	var found []oneOf
	for _, declared := range append([]reflect.Type{t}, extraRules[t]...) {
		rule, ok := oneOfs[declared]
		if ok && len(rule.members) == 0 && rule.discriminator == "" {
			for _, field := range value.TypeReflectEntryOf(declared).OrderedFields() {
				rule.members = append(rule.members, field.JsonName)
			}
		}
		if ok {
			found = append(found, rule)
		}
	}
	for i := range t.NumField() {
		if inlined := t.Field(i); inlined.Anonymous && inlined.Type.Kind() == reflect.Struct {
			found = append(found, rulesOf(inlined.Type)...)
		}
	}
	rules.Store(t, found)
	return found
}

// violatedBy returns the members of live that cannot stay next to the members of wanted.
func (r *oneOf) violatedBy(wanted, live reflect.Value) []string {
	fields := value.TypeReflectEntryOf(wanted.Type()).Fields()
	set := func(of reflect.Value, name string) bool {
		field, ok := fields[name]
		return ok && !isBlank(field.GetFrom(of))
	}
	var found []string
	if r.discriminator != "" {
		chosen := fields[r.discriminator].GetFrom(wanted).String()
		for name, allowed := range r.allowed {
			if chosen != "" && chosen != allowed && set(live, name) && !set(wanted, name) {
				found = append(found, name)
			}
		}
		return found
	}
	stated := r.whole || r.implicit != ""
	for _, name := range r.members {
		stated = stated || set(wanted, name)
	}
	if !stated {
		return nil
	}
	only := ""
	if r.implicit != "" && !r.anySet(set, wanted) {
		only = r.implicit
	}
	for _, name := range r.members {
		if name != only && set(live, name) && !set(wanted, name) {
			found = append(found, name)
		}
	}
	return found
}

func (r *oneOf) anySet(set func(reflect.Value, string) bool, of reflect.Value) bool {
	for _, name := range r.members {
		if set(of, name) {
			return true
		}
	}
	return false
}

// isBlank reports whether a member is not set.
func isBlank(v reflect.Value) bool { return !v.IsValid() || v.IsZero() }

// conflictingMembers returns the paths of the fields of a live struct that cannot stay next to the fields of a wanted one.
func conflictingMembers(wanted, live reflect.Value) [][]string {
	var found [][]string
	for _, rule := range rulesOf(wanted.Type()) {
		for _, name := range rule.violatedBy(wanted, live) {
			found = append(found, []string{name})
		}
	}
	switch wanted.Type() {
	case reflect.TypeFor[corev1.ResourceRequirements]():
		stated, lives := resourcesOf(wanted), resourcesOf(live)
		found = append(found, quantitiesBeyond("limits", lives.Limits, stated.Limits, stated.Requests, -1)...)
		found = append(found, quantitiesBeyond("requests", lives.Requests, stated.Requests, stated.Limits, 1)...)
	case reflect.TypeFor[networkingv1.NetworkPolicySpec]():
		found = append(found, rulesBeyond(wanted, live)...)
	}
	return found
}

// rulesBeyond returns the lists of rules that a live policy has in a direction that the wanted policy closes: a direction that is restricted and
// has no rules allows nothing, and an empty list is not encoded. Rules in a direction that is not restricted have no effect.
func rulesBeyond(wanted, live reflect.Value) [][]string {
	stated, _ := wanted.Interface().(networkingv1.NetworkPolicySpec)
	found, _ := live.Interface().(networkingv1.NetworkPolicySpec)
	var beyond [][]string
	if slices.Contains(stated.PolicyTypes, networkingv1.PolicyTypeIngress) && len(stated.Ingress) == 0 && len(found.Ingress) > 0 {
		beyond = append(beyond, []string{"ingress"})
	}
	if slices.Contains(stated.PolicyTypes, networkingv1.PolicyTypeEgress) && len(stated.Egress) == 0 && len(found.Egress) > 0 {
		beyond = append(beyond, []string{"egress"})
	}
	return beyond
}

func resourcesOf(v reflect.Value) corev1.ResourceRequirements {
	resources, _ := v.Interface().(corev1.ResourceRequirements)
	return resources
}

// quantitiesBeyond returns the quantities of others that are less, or more, than the ones of ours that bound them.
func quantitiesBeyond(field string, live, stated, bounds corev1.ResourceList, sign int) [][]string {
	var found [][]string
	for name, quantity := range live {
		_, ours := stated[name]
		bound, bounded := bounds[name]
		if !ours && bounded && quantity.Cmp(bound) == sign {
			found = append(found, []string{field, string(name)})
		}
	}
	return found
}
