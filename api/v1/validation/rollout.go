package validation

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// rollout validates the rollout of AppDefaults, nil for none.
func rollout(given *appv1.DefaultsRollout, path *field.Path) field.ErrorList {
	if given == nil {
		return nil
	}
	var errs field.ErrorList
	if given.Type != "" && given.Type != appv1.RolloutNextChange && given.Type != appv1.RolloutWaves {
		errs = append(errs, field.NotSupported(path.Child("type"), given.Type, []appv1.RolloutType{appv1.RolloutNextChange, appv1.RolloutWaves}))
	}
	size, soak := path.Child("size"), path.Child("soak")
	switch {
	case given.Size == nil:
	case !isCanaryShare(given.Size):
		errs = append(errs, field.Invalid(size, given.Size.String(), messageWaveSize))
	case !given.IsWaves():
		errs = append(errs, field.Forbidden(size, messageSizeNeedsWaves))
	}
	switch {
	case given.Soak == "":
	case !isWaveSoak(given.Soak):
		errs = append(errs, field.Invalid(soak, given.Soak, messageWaveSoak))
	case !given.IsWaves():
		errs = append(errs, field.Forbidden(soak, messageSoakNeedsWaves))
	}
	return errs
}

// isWaveSoak reports whether a text is the time of a soak.
func isWaveSoak(text string) bool {
	d, err := time.ParseDuration(text)
	return err == nil && canaryTime.MatchString(text) && d <= appv1.MaxWaveSoak
}
