package validation

import (
	"regexp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// The names of the features of a release.
const (
	// FeatureCanary runs a change in a few pods first.
	FeatureCanary = "canary"
	// FeatureBeforeRollout runs a command before a change is rolled out.
	FeatureBeforeRollout = "beforeRollout"
)

// DisabledReleases refuses stated fields of a release that are switched off.
func DisabledReleases(spec *appv1.ReleaseSpec, disabled []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, feature := range []struct {
		name   string
		stated bool
	}{{FeatureCanary, spec.Canary != nil}, {FeatureBeforeRollout, spec.BeforeRollout != nil}} {
		if feature.stated && slices.Contains(disabled, feature.name) {
			errs = append(errs, field.Forbidden(path.Child(feature.name), messageFeatureSwitchedOff))
		}
	}
	return errs
}

// maxCanaryName is the maximum length of the name of a resource with a canary, whose Deployment has a longer name.
const maxCanaryName = validation.DNS1123LabelMaxLength - len(appv1.CanarySuffix)

// release validates how a change of a workload is released. name is the name of the resource.
func release(spec *appv1.ReleaseSpec, workload *appv1.WorkloadSpec, name string, path *field.Path) field.ErrorList {
	return slices.Concat(canary(spec, workload, name, path), beforeRollout(spec.BeforeRollout, path.Child(FeatureBeforeRollout)))
}

// The limits of a command before a rollout.
const (
	maxCommandDeadline = 86400
	maxCommandRetries  = 10
)

// beforeRollout validates the command before a rollout.
func beforeRollout(spec *appv1.BeforeRolloutSpec, at *field.Path) field.ErrorList {
	if spec == nil {
		return nil
	}
	var errs field.ErrorList
	if len(spec.Command) == 0 {
		errs = append(errs, field.Required(at.Child("command"), messageRolloutCommandRequired))
	}
	errs = append(errs, texts(&corev1.Container{Command: spec.Command, Args: spec.Args, Env: spec.Envs}, mainPlace(at))...)
	errs = append(errs, envs(spec.Envs, at.Child("envs"))...)
	errs = append(errs, unique(spec.Envs, at.Child("envs"), func(v corev1.EnvVar) string { return v.Name })...)
	if n := spec.DeadlineSeconds; n != nil && (*n < 1 || *n > maxCommandDeadline) {
		errs = append(errs, field.Invalid(at.Child("deadlineSeconds"), *n, messageDeadlineInvalid))
	}
	if n := spec.Retries; n != nil && (*n < 0 || *n > maxCommandRetries) {
		errs = append(errs, field.Invalid(at.Child("retries"), *n, messageRetriesInvalid))
	}
	return collected(errs)
}

// canary validates a canary.
func canary(spec *appv1.ReleaseSpec, workload *appv1.WorkloadSpec, name string, path *field.Path) field.ErrorList {
	c := spec.Canary
	if c == nil {
		return nil
	}
	var errs field.ErrorList
	at := path.Child(FeatureCanary)
	if workload.Strategy == appsv1.RecreateDeploymentStrategyType {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, messageCanaryNeedsRollingUpdate))
	}
	if len(name) > maxCanaryName {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, messageCanaryNameTooLong))
	}
	if c.Pods != nil && !isCanaryShare(c.Pods) {
		errs = append(errs, field.Invalid(at.Child("pods"), c.Pods.String(), messageCanaryPodsInvalid))
	}
	switch c.Promote {
	case "", appv1.PromoteManual:
		if c.After != "" {
			errs = append(errs, field.Invalid(at.Child("after"), c.After, messageAfterNeedsAuto))
		}
	case appv1.PromoteAuto:
		if c.After == "" {
			errs = append(errs, field.Invalid(at.Child("promote"), c.Promote, messageAutoNeedsAfter))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("promote"), c.Promote, []appv1.CanaryPromotion{appv1.PromoteManual, appv1.PromoteAuto}))
	}
	if _, ok := CanaryTime(c.After); !ok && c.After != "" {
		errs = append(errs, field.Invalid(at.Child("after"), c.After, messageAfterInvalid))
	}
	return collected(errs)
}

// share matches a percentage from 1 to 100.
var share = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)

// isCanaryShare reports whether a canary can have this number or percentage of pods.
func isCanaryShare(pods *intstr.IntOrString) bool {
	if pods.Type == intstr.Int {
		return pods.IntVal >= 1
	}
	return share.MatchString(pods.StrVal)
}

// canaryTime matches the form of a time of at least two characters.
var canaryTime = regexp.MustCompile(`^([0-9]{1,3}h)?([0-9]{1,4}m)?([0-9]{1,6}s)?$`)

// maxCanaryTime is the longest time before an automatic promotion.
const maxCanaryTime = 168 * time.Hour

// CanaryTime returns the time of a canary's field after, and whether the field is valid.
func CanaryTime(after string) (time.Duration, bool) {
	if !canaryTime.MatchString(after) {
		return 0, false
	}
	d, err := time.ParseDuration(after)
	return d, err == nil && d >= time.Second && d <= maxCanaryTime
}

// releaseWarnings returns the warnings of a release.
func releaseWarnings(spec *appv1.ReleaseSpec, serving *appv1.ServingSpec, replicas *int32, path *field.Path) []string {
	c := spec.Canary
	if c == nil {
		return nil
	}
	var said []string
	if scalesByMemory(serving.Autoscaling) {
		said = append(said, warning(path.Child(FeatureCanary), messageCanaryCountsForMemory))
	}
	if least := int(ptr.Deref(leastPods(serving, replicas), 1)); c.Pods != nil && least > 1 {
		pods, err := intstr.GetScaledValueFromIntOrPercent(c.Pods, least, true)
		if err == nil && pods >= least {
			said = append(said, warning(path.Child(FeatureCanary, "pods"), messageCanaryIsLarge))
		}
	}
	return said
}

// scalesByMemory reports whether an autoscaler uses the memory of the pods.
func scalesByMemory(scaling *appv1.AutoscalingSpec) bool {
	if scaling == nil {
		return false
	}
	return scaling.TargetMemoryUtilizationPercentage != nil || slices.ContainsFunc(scaling.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Resource != nil && m.Resource.Name == corev1.ResourceMemory ||
			m.ContainerResource != nil && m.ContainerResource.Name == corev1.ResourceMemory
	})
}

// CanaryAfter returns the time before an automatic promotion, 0 for a promotion by hand.
func CanaryAfter(spec *appv1.CanarySpec) time.Duration {
	if spec.Promote != appv1.PromoteAuto {
		return 0
	}
	after, _ := CanaryTime(spec.After)
	return after
}
