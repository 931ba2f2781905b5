package validation

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The longest times that an autoscaler's behavior can state, in seconds.
const (
	maxPolicyPeriod = 1800
	maxWindow       = 3600
)

// metrics checks what an autoscaler scales by, as Kubernetes does.
func metrics(list []autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		if full(errs) {
			break
		}
		errs = append(errs, metric(&list[i], at.Index(i))...)
	}
	return errs
}

// metricSource is one of the sources that a metric can have. check is nil where the metric does not state it.
type metricSource struct {
	name  string
	typ   autoscalingv2.MetricSourceType
	check func(*field.Path) field.ErrorList
}

// sourcesOf returns all sources that there are, in the order in which Kubernetes looks at them.
func sourcesOf(m *autoscalingv2.MetricSpec) []metricSource {
	all := []metricSource{
		{name: "object", typ: autoscalingv2.ObjectMetricSourceType}, {name: "external", typ: autoscalingv2.ExternalMetricSourceType},
		{name: "pods", typ: autoscalingv2.PodsMetricSourceType}, {name: "resource", typ: autoscalingv2.ResourceMetricSourceType},
		{name: "containerResource", typ: autoscalingv2.ContainerResourceMetricSourceType},
	}
	if s := m.Object; s != nil {
		all[0].check = func(at *field.Path) field.ErrorList { return objectMetric(s, at) }
	}
	if s := m.External; s != nil {
		all[1].check = func(at *field.Path) field.ErrorList { return externalMetric(s, at) }
	}
	if s := m.Pods; s != nil {
		all[2].check = func(at *field.Path) field.ErrorList { return podsMetric(s, at) }
	}
	if s := m.Resource; s != nil {
		all[3].check = func(at *field.Path) field.ErrorList { return resourceMetric(string(s.Name), &s.Target, at) }
	}
	if s := m.ContainerResource; s != nil {
		all[4].check = func(at *field.Path) field.ErrorList { return containerMetric(s, at) }
	}
	return all
}

// metric checks that a metric states the source of its type and no other one, and what that states.
func metric(m *autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	sources := sourcesOf(m)
	var types []autoscalingv2.MetricSourceType
	for _, source := range sources {
		types = append(types, source.typ)
	}
	slices.Sort(types)
	if errs := oneOf(at.Child("type"), m.Type, types...); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	for _, source := range sources {
		switch {
		case source.check != nil && m.Type == source.typ:
			errs = append(errs, source.check(at.Child(source.name))...)
		case source.check != nil:
			errs = append(errs, field.Forbidden(at.Child(source.name), fmt.Sprintf(messageMetricSourceOfOtherType, source.typ)))
		case m.Type == source.typ:
			errs = append(errs, field.Required(at.Child(source.name), fmt.Sprintf(messageMetricTypeNeedsSource, source.typ)))
		}
	}
	return errs
}

func objectMetric(s *autoscalingv2.ObjectMetricSource, at *field.Path) field.ErrorList {
	described, about := &s.DescribedObject, at.Child("describedObject")
	errs := append(pathSegment(described.Kind, about.Child("kind")), pathSegment(described.Name, about.Child("name"))...)
	if _, err := schema.ParseGroupVersion(described.APIVersion); err != nil {
		errs = append(errs, field.Invalid(about.Child("apiVersion"), described.APIVersion, err.Error()))
	}
	errs = append(errs, pathSegment(s.Metric.Name, at.Child("metric", "name"))...)
	errs = append(errs, metricTarget(&s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), messageMetricNeedsValueOrAverage))
	}
	return errs
}

func externalMetric(s *autoscalingv2.ExternalMetricSource, at *field.Path) field.ErrorList {
	errs := pathSegment(s.Metric.Name, at.Child("metric", "name"))
	errs = append(errs, metricTarget(&s.Target, at.Child("target"))...)
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageValue"), messageMetricNeedsValueOrAverage))
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "value"), messageMetricValueExcludesAverage))
	}
	return errs
}

func podsMetric(s *autoscalingv2.PodsMetricSource, at *field.Path) field.ErrorList {
	errs := pathSegment(s.Metric.Name, at.Child("metric", "name"))
	errs = append(errs, metricTarget(&s.Target, at.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), messagePodsMetricNeedsAverage))
	}
	return errs
}

func containerMetric(s *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	errs := faults(at.Child("container"), s.Container, validation.IsDNS1123Label(s.Container))
	if wrong := containerResource(s.Name); wrong != "" {
		errs = append(errs, field.Invalid(at.Child("name"), string(s.Name), wrong))
	}
	return append(errs, resourceMetric(string(s.Name), &s.Target, at)...)
}

func resourceMetric(name string, target *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := metricTarget(target, at.Child("target"))
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), messageMetricResourceRequired))
	}
	switch {
	case target.AverageUtilization == nil && target.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("target", "averageUtilization"), messageMetricNeedsUtilizationOrValue))
	case target.AverageUtilization != nil && target.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("target", "averageValue"), messageUtilizationExcludesValue))
	}
	return errs
}

// metricTarget checks what a metric is compared with.
func metricTarget(target *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("type"), target.Type, autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType)
	positive := func(q *resource.Quantity, name string) {
		if q != nil && q.Sign() != 1 {
			errs = append(errs, field.Invalid(at.Child(name), q.String(), messageMustBeAboveZero))
		}
	}
	positive(target.Value, "value") // In this order each time, or the message would change from one look to the next.
	positive(target.AverageValue, "averageValue")
	if n := target.AverageUtilization; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), *n, messageMustBeAboveZero))
	}
	return errs
}

// pathSegment checks a name that is a part of the path of a request.
func pathSegment(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, messageMetricNameRequired)}
	}
	return faults(at, name, content.IsPathSegmentName(name))
}

// scaling checks how fast an autoscaler scales, as Kubernetes does.
func scaling(b *autoscalingv2.HorizontalPodAutoscalerBehavior, at *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	return append(scalingRules(b.ScaleUp, at.Child("scaleUp")), scalingRules(b.ScaleDown, at.Child("scaleDown"))...)
}

func scalingRules(rules *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	if n := rules.StabilizationWindowSeconds; n != nil && (*n < 0 || *n > maxWindow) {
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *n, fmt.Sprintf(messageMustBeInRange, 0, maxWindow)))
	}
	errs = append(errs, optional(at.Child("selectPolicy"), rules.SelectPolicy,
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)...)
	if q := rules.Tolerance; q != nil && q.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), q.String(), messageMustNotBeNegative))
	}
	for i, policy := range rules.Policies {
		if full(errs) {
			break
		}
		at := at.Child("policies").Index(i)
		errs = append(errs, oneOf(at.Child("type"), policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)...)
		if policy.Value < 1 {
			errs = append(errs, field.Invalid(at.Child("value"), policy.Value, messageMustBeAboveZero))
		}
		if policy.PeriodSeconds < 1 || policy.PeriodSeconds > maxPolicyPeriod {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), policy.PeriodSeconds,
				fmt.Sprintf(messageMustBeInRange, 1, maxPolicyPeriod)))
		}
	}
	return errs
}
