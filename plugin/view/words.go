package view

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds in the plural, as a person reads them.
const (
	kindsDeployments  = "Deployments"
	kindsStatefulSets = "StatefulSets"
	kindsServices     = "Services"
	kindsReplicaSets  = "ReplicaSets"
	kindsPods         = "Pods"
	kindsCronJobs     = "CronJobs"
	kindsJobs         = "Jobs"
)

// kindCronJob is the kind of a Task's schedule.
const kindCronJob = "CronJob"

// ageOf returns the time since a moment in one unit, as kubectl's column AGE does; empty if the moment is not known.
func ageOf(since *metav1.Time, now time.Time) string {
	if since == nil || since.IsZero() {
		return ""
	}
	return shortDuration(now.Sub(since.Time))
}

// shortDuration returns a duration in one unit, such as "42s", "12m", "5h" or "31d".
func shortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// longDuration is shortDuration within a sentence, such as "12 min".
func longDuration(d time.Duration) string {
	short := shortDuration(d)
	n, unit := short[:len(short)-1], short[len(short)-1:]
	words := map[string]string{"s": "s", "m": "min", "h": "h", "d": "days"}
	if short == "1d" {
		return "1 day"
	}
	return n + " " + words[unit]
}

// CoarseDuration returns a duration in minutes or a longer unit, such as "12 min", so that it changes rarely while time passes.
func CoarseDuration(d time.Duration) string {
	if d < time.Minute {
		return "<1 min"
	}
	if d < 2*time.Minute {
		return "1 min"
	}
	return longDuration(d)
}

// TimeAgo returns the time since a moment, such as "12 min ago".
func TimeAgo(now time.Time, t *metav1.Time) string { return CoarseDuration(now.Sub(t.Time)) + " ago" }

// FormatUTC returns a moment in UTC.
func FormatUTC(t *metav1.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }
