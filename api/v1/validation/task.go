package validation

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // A time zone must be known on each machine, as it is to the API server.

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// FeatureTask is the feature of the kind Task.
const FeatureTask = "task"

// DefaultTimeZone is the time zone of a schedule without one.
const DefaultTimeZone = "Etc/UTC"

// The limits of a Task.
const (
	maxSchedule            = 256
	maxTimeZone            = 64
	minStartingDeadline    = 10
	minInterval            = time.Minute
	maxTaskDeadline        = 604800
	maxTaskRetries         = 10
	maxKeptJobs            = 100
	maxScheduleErrorDetail = 128
)

// Task validates the spec of a Task beyond the schema.
func Task(task *appv1.Task) field.ErrorList {
	spec, path := &task.Spec, field.NewPath("spec")
	kind := kindDefaults{container: task.Name}
	if spec.App != "" {
		kind = kindDefaults{inherits: true} // The builder checks the names against the containers of the App.
	}
	errs := workload(spec.Workload(), kind, path)
	if len(task.Name) > appv1.MaxTaskName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), task.Name, messageTaskNameTooLong))
	}
	switch {
	case spec.App == "" && spec.Image == "":
		errs = append(errs, field.Required(path.Child("image"), messageTaskImageRequired))
	case spec.App != "" && spec.Image == "" && len(spec.Command) == 0 && len(spec.Args) == 0:
		errs = append(errs, field.Required(path.Child("command"), messageTaskCommandRequired))
	}
	if len(spec.Containers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("containers"), messageTaskFurtherContainer))
	}
	return collected(slices.Concat(errs, schedule(spec, path), taskLimits(spec, path), JobLabels(spec.PodLabels, path.Child("podLabels"))))
}

// InheritedVolumes checks that the volumes which the containers of a Task with an App refer to are among the volumes of the pod. Task has the other
// errors of the containers.
func InheritedVolumes(spec *appv1.WorkloadSpec, volumes []corev1.Volume, path *field.Path) field.ErrorList {
	uses := func(p *pod) field.ErrorList {
		var errs field.ErrorList
		p.each(func(c *corev1.Container, at place) {
			errs = slices.Concat(errs, p.mounts(c, at.self.Child("volumeMounts")), p.devices(c, at.self.Child("volumeDevices")), p.files(c.Env, at.env))
		})
		return errs
	}
	whole := podOf(spec, kindDefaults{}, path)
	whole.know(volumes)
	errs := uses(whole)
	if len(errs) == 0 {
		return nil
	}
	had := sets.Set[string]{}
	for _, err := range uses(podOf(spec, kindDefaults{inherits: true}, path)) {
		had.Insert(err.Error())
	}
	return collected(slices.DeleteFunc(errs, func(err *field.Error) bool { return had.Has(err.Error()) }))
}

// taskLimits checks the numbers and the names of a Task that the schema limits.
func taskLimits(spec *appv1.TaskSpec, path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("concurrency"), spec.Concurrency, "", appv1.ConcurrencyForbid, appv1.ConcurrencyAllow, appv1.ConcurrencyReplace)
	if n := spec.DeadlineSeconds; n != nil && (*n < 1 || *n > maxTaskDeadline) {
		errs = append(errs, field.Invalid(path.Child("deadlineSeconds"), *n, messageTaskDeadlineInvalid))
	}
	if n := spec.StartingDeadlineSeconds; n != nil && (*n < minStartingDeadline || *n > maxTaskDeadline) {
		errs = append(errs, field.Invalid(path.Child("startingDeadlineSeconds"), *n, messageStartingDeadlineInvalid))
	}
	if n := spec.Retries; n != nil && (*n < 0 || *n > maxTaskRetries) {
		errs = append(errs, field.Invalid(path.Child("retries"), *n, messageRetriesInvalid))
	}
	for _, keep := range []struct {
		name  string
		n     *int32
		least int32
	}{{"succeeded", spec.Keep.Succeeded, 0}, {"failed", spec.Keep.Failed, 1}} {
		if keep.n != nil && (*keep.n < keep.least || *keep.n > maxKeptJobs) {
			errs = append(errs, field.Invalid(path.Child("keep", keep.name), *keep.n, fmt.Sprintf(messageMustBeInRange, keep.least, maxKeptJobs)))
		}
	}
	return errs
}

// schedule checks the schedule and its time zone by the rules of the API server for CronJobs.
func schedule(spec *appv1.TaskSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("schedule")
	parsed, err := parseSchedule(spec.Schedule)
	every, counts := parsed.(cron.ConstantDelaySchedule)
	deadline := spec.StartingDeadlineSeconds
	switch {
	case spec.Schedule == "":
		errs = append(errs, field.Required(at, messageScheduleRequired))
	case len(spec.Schedule) > maxSchedule:
		errs = append(errs, field.TooLong(at, "", maxSchedule))
	case errors.Is(err, errScheduleZone):
		errs = append(errs, field.Invalid(at, spec.Schedule, messageScheduleHasTimeZone))
	case err != nil:
		errs = append(errs, field.Invalid(at, spec.Schedule, fmt.Sprintf(messageScheduleInvalid, cut(err.Error(), maxScheduleErrorDetail))))
	case counts && every.Delay < minInterval:
		errs = append(errs, field.Invalid(at, spec.Schedule, messageIntervalTooShort))
	case counts && deadline != nil && time.Duration(*deadline)*time.Second <= every.Delay:
		// The CronJob controller counts the interval from the earliest time that is not too late, which is then always in the future.
		errs = append(errs, field.Invalid(path.Child("startingDeadlineSeconds"), *deadline, messageDeadlineWithinInterval))
	}
	if zone := spec.TimeZone; zone != nil {
		if _, ok := timeZone(*zone); !ok {
			errs = append(errs, field.Invalid(path.Child("timeZone"), *zone, messageTimeZoneUnknown))
		}
	}
	return errs
}

// errScheduleZone is the error for a schedule that names a time zone itself.
var errScheduleZone = errors.New("the schedule has a time zone")

// parseSchedule parses a schedule as the CronJob controller does. The parser panics on some schedules that name a time zone, which the API
// server refuses.
func parseSchedule(text string) (cron.Schedule, error) {
	switch {
	case strings.Contains(text, "TZ"):
		return nil, errScheduleZone
	case len(text) > maxSchedule:
		return nil, errors.New("too long")
	}
	return cron.ParseStandard(text) //nolint:wrapcheck // The caller adds the field.
}

// zonePart matches a part of the name of a time zone, as the API server takes it.
var zonePart = regexp.MustCompile(`^[A-Za-z.\-_0-9+]{1,14}$`)

// timeZone returns a time zone of the IANA database. ok is false for a name of none, and for the zone of the machine.
func timeZone(name string) (zone *time.Location, ok bool) {
	if name == "" || len(name) > maxTimeZone || strings.EqualFold(name, "Local") {
		return nil, false
	}
	for _, part := range strings.Split(name, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			return nil, false
		}
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// Schedule is the schedule of a Task in its time zone.
type Schedule struct {
	cron cron.Schedule
	zone *time.Location
}

// ScheduleOf returns the schedule of a Task or a CronJob, and whether it is valid. The time zone defaults to DefaultTimeZone.
func ScheduleOf(text string, zoneName *string) (Schedule, bool) {
	parsed, err := parseSchedule(text)
	zone, ok := timeZone(ptr.Deref(zoneName, DefaultTimeZone))
	return Schedule{parsed, zone}, err == nil && ok
}

// First returns the first time of the schedule after another time, the zero time for a schedule that does not come within five years.
func (s Schedule) First(after time.Time) time.Time { return s.cron.Next(after.In(s.zone)) }

// Next returns the first time of the schedule after now, of a schedule that counts from its base, the time of the latest run or of the
// creation; the zero time for none.
func (s Schedule) Next(base, now time.Time) time.Time {
	every, counts := s.cron.(cron.ConstantDelaySchedule)
	if !counts {
		return s.First(now)
	}
	first := s.First(base)
	if first.After(now) {
		return first
	}
	return first.Add(now.Sub(first).Truncate(every.Delay) + every.Delay)
}

// jobLabels are the labels that Kubernetes sets on the pods of each Job. With another value of one, no Job could be created.
var jobLabels = []string{"job-name", "controller-uid", batchv1.JobNameLabel, batchv1.ControllerUidLabel}

// JobLabels refuses labels of pods that Kubernetes sets for each Job.
func JobLabels(given map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if IsJobLabel(key) {
			errs = append(errs, field.Forbidden(at.Key(key), messageLabelSetOnJobs))
		}
	}
	return errs
}

// IsJobLabel reports whether Kubernetes sets a label on the pods of each Job.
func IsJobLabel(key string) bool { return slices.Contains(jobLabels, key) }

// DisabledTask refuses a Task where the kind is switched off.
func DisabledTask(disabled []string) field.ErrorList {
	if !slices.Contains(disabled, FeatureTask) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), messageKindSwitchedOff)}
}

// TaskWarnings is AppWarnings for a Task.
func TaskWarnings(task *appv1.Task) []string {
	spec, path := &task.Spec, field.NewPath("spec")
	said := slices.Concat(AnnotationWarnings(task), nullWarnings(task, spec.PodTemplatePatch, path.Child("podTemplatePatch")),
		imageWarnings(spec.Workload(), path), podWarnings(spec.Workload(), path))
	if spec.App == "" {
		said = append(said, resourcesWarnings(spec.Workload(), path)...)
	}
	if s, ok := ScheduleOf(spec.Schedule, spec.TimeZone); ok && s.First(time.Unix(0, 0)).IsZero() {
		said = append(said, warning(path.Child("schedule"), messageScheduleNeverComes))
	}
	return said
}
