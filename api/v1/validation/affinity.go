package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// affinity checks what draws pods to nodes and other pods, or keeps them apart.
func affinity(a *corev1.Affinity, at *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	const hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		at := at.Child("nodeAffinity")
		if required := n.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			errs = append(errs, nodeTerms(required.NodeSelectorTerms, at.Child(hard, "nodeSelectorTerms"))...)
		}
		for i, term := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			if full(errs) {
				break
			}
			at := at.Child(soft).Index(i)
			errs = append(errs, within(at.Child("weight"), term.Weight, 1, 100)...)
			errs = append(errs, nodeTerm(&term.Preference, anyValue, at.Child("preference"))...)
		}
	}
	pods := func(hardTerms []corev1.PodAffinityTerm, softTerms []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range hardTerms {
			if full(errs) {
				break
			}
			errs = append(errs, podTerm(&hardTerms[i], at.Child(hard).Index(i))...)
		}
		for i := range softTerms {
			if full(errs) {
				break
			}
			at := at.Child(soft).Index(i)
			errs = append(errs, within(at.Child("weight"), softTerms[i].Weight, 1, 100)...)
			errs = append(errs, podTerm(&softTerms[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
		}
	}
	if p := a.PodAffinity; p != nil {
		pods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		pods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
	return errs
}

func nodeTerms(terms []corev1.NodeSelectorTerm, at *field.Path) field.ErrorList {
	if len(terms) == 0 {
		return field.ErrorList{field.Required(at, messageNodeTermRequired)}
	}
	var errs field.ErrorList
	for i := range terms {
		if full(errs) {
			break
		}
		errs = append(errs, nodeTerm(&terms[i], labelValue, at.Index(i))...)
	}
	return errs
}

// Whether the values in a term must be label values. The API server accepts any value in a preference.
const (
	anyValue   = false
	labelValue = true
)

func nodeTerm(term *corev1.NodeSelectorTerm, strict bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range term.MatchExpressions {
		if full(errs) {
			break
		}
		at := at.Child("matchExpressions").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
		errs = append(errs, nodeOperator(&r, at)...)
		for j, value := range r.Values {
			if !strict || full(errs) {
				break
			}
			errs = append(errs, faults(at.Child("values").Index(j), value, validation.IsValidLabelValue(value))...)
		}
	}
	for i, r := range term.MatchFields {
		if full(errs) {
			break
		}
		at := at.Child("matchFields").Index(i)
		errs = append(errs, oneOf(at.Child("key"), r.Key, metav1.ObjectNameField)...)
		errs = append(errs, oneOf(at.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn)...)
		if len(r.Values) != 1 {
			errs = append(errs, field.Invalid(at.Child("values"), len(r.Values), messageNodeFieldNeedsOneName))
			continue
		}
		if r.Key == metav1.ObjectNameField {
			errs = append(errs, subdomain(r.Values[0], at.Child("values").Index(0))...)
		}
	}
	return errs
}

// nodeOperator checks that an expression has as many values as its operator takes.
func nodeOperator(r *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	n, values := len(r.Values), at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if n == 0 {
			return field.ErrorList{field.Required(values, messageInNeedsValues)}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if n > 0 {
			return field.ErrorList{field.Forbidden(values, messageExistsHasNoValues)}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if n != 1 {
			return field.ErrorList{field.Invalid(values, n, messageGtAndLtNeedOneValue)}
		}
	default:
		return oneOf(at.Child("operator"), r.Operator, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
	}
	return nil
}

// podTerm checks which other pods are meant, and what counts as one place.
func podTerm(term *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := selector(term.LabelSelector, at.Child("labelSelector"))
	errs = append(errs, selector(term.NamespaceSelector, at.Child("namespaceSelector"))...)
	for i, name := range term.Namespaces {
		if full(errs) {
			break
		}
		errs = append(errs, faults(at.Child("namespaces").Index(i), name, apivalidation.ValidateNamespaceName(name, false))...)
	}
	errs = append(errs, labelKeys(term.MatchLabelKeys, term.LabelSelector, at.Child("matchLabelKeys"))...)
	errs = append(errs, labelKeys(term.MismatchLabelKeys, term.LabelSelector, at.Child("mismatchLabelKeys"))...)
	errs = append(errs, selectedTwice(term.MatchLabelKeys, term.LabelSelector, at.Child("matchLabelKeys"))...)
	mismatched := sets.New(term.MismatchLabelKeys...)
	for i, key := range term.MatchLabelKeys {
		if full(errs) {
			break
		}
		if mismatched.Has(key) {
			errs = append(errs, field.Invalid(at.Child("matchLabelKeys").Index(i), key, messageKeyMustNotBeInMismatchLabelKeys))
		}
	}
	return append(errs, metav1validation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
}

// selector checks a label selector; nothing is wrong with none.
func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := labelMap(s.MatchLabels, at.Child("matchLabels"))
	for i, r := range s.MatchExpressions {
		if full(errs) {
			break
		}
		at, values := at.Child("matchExpressions").Index(i), r.Values
		r.Values = values[:min(len(values), 1)] // One is enough for the rule on their number.
		errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r, metav1validation.LabelSelectorValidationOptions{}, at)...)
		for j := 1; j < len(values) && !full(errs); j++ {
			errs = append(errs, faults(at.Child("values").Index(j), values[j], validation.IsValidLabelValue(values[j]))...)
		}
	}
	return errs
}

// labelKeys checks keys whose values are the pod's own.
func labelKeys(keys []string, s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if len(keys) > 0 && s == nil {
		return field.ErrorList{field.Forbidden(at, messageLabelKeysNeedSelector)}
	}
	var errs field.ErrorList
	for i, key := range keys {
		if full(errs) {
			break
		}
		errs = append(errs, metav1validation.ValidateLabelName(key, at.Index(i))...)
	}
	return errs
}

// selectedTwice checks that a key whose value is the pod's own is not in two conditions of the selector besides: the API server
// takes the second one for its own.
func selectedTwice(keys []string, s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil || len(keys) == 0 {
		return nil
	}
	var errs field.ErrorList
	selected, first := sets.KeySet(s.MatchLabels), map[string]int{}
	for i, key := range slices.Backward(keys) {
		first[key] = i
	}
	for _, e := range s.MatchExpressions {
		if full(errs) {
			break
		}
		if i, known := first[e.Key]; known && selected.Has(e.Key) {
			errs = append(errs, field.Invalid(at.Index(i), e.Key, messageKeyMustNotBeInLabelSelector))
		}
		selected.Insert(e.Key)
	}
	return errs
}

// spread checks how pods are spread over nodes and zones. The builder states a labelSelector where there is none, but not
// in what a patch adds.
func spread(list []corev1.TopologySpreadConstraint, selected bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	type key struct {
		topology string
		action   corev1.UnsatisfiableConstraintAction
	}
	taken := sets.Set[key]{}
	for i := range list {
		if full(errs) {
			break
		}
		c, at := &list[i], at.Index(i)
		if c.MaxSkew < 1 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), c.MaxSkew, messageMustBeAtLeastOne))
		}
		errs = append(errs, required(at.Child("topologyKey"), c.TopologyKey)...)
		errs = append(errs, oneOf(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		if k := (key{c.TopologyKey, c.WhenUnsatisfiable}); taken.Has(k) {
			errs = append(errs, field.Duplicate(at, c.TopologyKey))
		} else {
			taken.Insert(k)
		}
		if c.MinDomains != nil {
			switch {
			case *c.MinDomains < 1:
				errs = append(errs, field.Invalid(at.Child("minDomains"), *c.MinDomains, messageMustBeAtLeastOne))
			case c.WhenUnsatisfiable != corev1.DoNotSchedule:
				errs = append(errs, field.Invalid(at.Child("minDomains"), *c.MinDomains, messageMinDomainsNeedsDoNotSchedule))
			}
		}
		errs = append(errs, optional(at.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		errs = append(errs, optional(at.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		own := c.LabelSelector
		if own == nil && selected {
			own = &metav1.LabelSelector{}
		}
		errs = append(errs, labelKeys(c.MatchLabelKeys, own, at.Child("matchLabelKeys"))...)
		errs = append(errs, selectedTwice(c.MatchLabelKeys, own, at.Child("matchLabelKeys"))...)
		errs = append(errs, selector(own, at.Child("labelSelector"))...)
	}
	return errs
}

// tolerations checks which taints the pods bear. Lt and Gt are refused: unless a feature is on that is off by default, the API
// server refuses them.
func tolerations(list []corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		if full(errs) {
			break
		}
		t, at := &list[i], at.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), string(t.Operator), messageTolerationWithoutKeyNeedsExists))
		}
		errs = append(errs, oneOf(at.Child("operator"), t.Operator, "", corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
		errs = append(errs, oneOf(at.Child("effect"), t.Effect, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			errs = append(errs, faults(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Forbidden(at.Child("value"), messageTolerationExistsHasNoValue))
			}
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Forbidden(at.Child("tolerationSeconds"),
				fmt.Sprintf(messageTolerationSecondsNeedNoExecute, *t.TolerationSeconds)))
		}
	}
	return errs
}
