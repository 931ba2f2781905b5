// Package metrics has the table of the operator's own metrics. What is exported, docs/observability.md and the tests of rules and
// dashboards come from it, so that none of them names a metric that another lacks.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Type is the type of a metric.
type Type string

// The types.
const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Definition is one metric.
type Definition struct {
	Name   string
	Type   Type
	Labels []string
	// Help is one sentence, which is exported with the metric.
	Help string
	// Series says which series there are, for the documentation.
	Series string
}

// The labels.
const (
	labelKind      = "kind"
	labelNamespace = "namespace"
	labelName      = "name"
	labelReason    = "reason"
)

// The metrics of custom resources. They are computed at each scrape from the resources themselves, by the leader alone, so that none
// goes stale, none is lost with a process, and none is counted twice.
var (
	ResourceStalled = Definition{
		Name: "app_operator_resource_stalled", Type: Gauge, Labels: []string{labelKind, labelNamespace, labelName, labelReason},
		Help:   "1 for each custom resource that needs a change by a user, by the reason of its Stalled condition.",
		Series: "one for each stalled App, ModelBox, UnitedDeployment, CloudManager and Task, 500 for each kind and namespace at most",
	}
	ResourceNotReady = Definition{
		Name: "app_operator_resource_not_ready_since_timestamp_seconds", Type: Gauge,
		Labels: []string{labelKind, labelNamespace, labelName, labelReason},
		Help:   "Since when a custom resource is not ready, by the reason of its Ready condition, or NotReconciled.",
		Series: "one for each resource whose Ready condition is False, or that has none yet, 500 for each kind and namespace at most",
	}
	ResourcePaused = Definition{
		Name: "app_operator_resource_paused", Type: Gauge, Labels: []string{labelKind, labelNamespace, labelName},
		Help:   "1 for each custom resource with spec.paused.",
		Series: "one for each paused resource, 500 for each kind and namespace at most",
	}
	CanarySince = Definition{
		Name: "app_operator_resource_canary_since_timestamp_seconds", Type: Gauge, Labels: []string{labelKind, labelNamespace, labelName},
		Help:   "Since when the canary of a custom resource waits for its promotion.",
		Series: "one for each resource with a canary that waits, 500 for each kind and namespace at most",
	}
	Resources = Definition{
		Name: "app_operator_resources", Type: Gauge, Labels: []string{labelKind, labelNamespace, labelReason},
		Help:   "Number of custom resources, by the reason of their Ready condition.",
		Series: "one for each kind, namespace and reason that occurs",
	}
	ResourcesOutdated = Definition{
		Name: "app_operator_resources_outdated", Type: Gauge, Labels: []string{labelKind, "what"},
		Help:   "Number of custom resources that have an earlier rendering of their pod template, an earlier meaning of their size, or earlier defaults.",
		Series: "`rendering` and `size` for each kind, and `defaults` for App and ModelBox",
	}
)

// The metrics of the operator's work.
var (
	SettleDuration = Definition{
		Name: "app_operator_settle_duration_seconds", Type: Histogram, Labels: []string{labelKind, "result"},
		Help:   "How long custom resources that were not ready took to become ready, or to stall.",
		Series: "one for each kind and result: `ready`, `stalled`",
	}
	ChildWrites = Definition{
		Name: "app_operator_child_writes_total", Type: Counter, Labels: []string{labelKind, "action"},
		Help:   "Number of objects that were created, configured, repaired, replaced, scaled or deleted for custom resources.",
		Series: "one for each kind of child and action that occurred",
	}
	ChildRepairs = Definition{
		Name: "app_operator_child_repairs_total", Type: Counter, Labels: []string{labelKind},
		Help:   "Number of times that an object was repaired after another writer had changed it.",
		Series: "one for each kind of child that was repaired",
	}
	AdmissionReviews = Definition{
		Name: "app_operator_admission_reviews_total", Type: Counter, Labels: []string{labelKind, "result"},
		Help:   "Number of answers of the validating webhooks.",
		Series: "one for each kind and result that occurred: `allowed`, `warned`, `denied`",
	}
)

// The metrics of the manager.
var (
	WatchBroken = Definition{
		Name: "app_operator_watch_broken", Type: Gauge, Labels: []string{labelKind},
		Help:   "1 while the last list or watch of a kind has failed, so that the manager does not see changes of this kind; 0 once it has succeeded again.",
		Series: "one for each kind whose list or watch has ever failed",
	}
	DefaultsValid = Definition{
		Name: "app_operator_defaults_valid", Type: Gauge, Labels: []string{labelNamespace},
		Help:   "1 while the AppDefaults of a namespace are in force; 0 while they are invalid and the last valid ones count.",
		Series: "one for each AppDefaults",
	}
	RequestsRefused = Definition{
		Name: "app_operator_requests_refused_total", Type: Counter, Labels: []string{"server", labelReason},
		Help:   "Number of requests and connections to the manager that were refused or given up because of its limits.",
		Series: "one for each server (`webhooks`, `metrics`, `health probe`, `pprof`) and reason that occurred: `connections`, `budget`, `size`, `time`, `broken`, `form`, `rate`",
	}
	EventsDropped = Definition{
		Name: "app_operator_events_dropped_total", Type: Counter,
		Help:   "Number of events that were not sent because a namespace had more of them than its share.",
		Series: "one",
	}
	CertificateExpiry = Definition{
		Name: "app_operator_webhook_certificate_expiry_timestamp_seconds", Type: Gauge,
		Help:   "When the certificate of the webhooks expires.",
		Series: "one while the manager serves webhooks",
	}
	BuildInfo = Definition{
		Name: "app_operator_build_info", Type: Gauge, Labels: []string{"version", "commit", "rendering"},
		Help:   "1, with the version of the manager and the newest rendering that it knows.",
		Series: "one",
	}
)

// All returns all definitions, in the order of the documentation.
func All() []Definition {
	return []Definition{
		ResourceStalled, ResourceNotReady, ResourcePaused, CanarySince, Resources, ResourcesOutdated,
		SettleDuration, ChildWrites, ChildRepairs, AdmissionReviews,
		WatchBroken, DefaultsValid, RequestsRefused, EventsDropped, CertificateExpiry, BuildInfo,
	}
}

// Desc returns the definition for a collector.
func (d *Definition) Desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// NewCounter returns the counter of a definition.
func (d *Definition) NewCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// NewGauge returns the gauge of a definition.
func (d *Definition) NewGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// NewHistogram returns the histogram of a definition, for a duration in seconds: a native one, and buckets from 5 s to an hour for
// servers that store no native histograms.
func (d *Definition) NewHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: d.Name, Help: d.Help, Buckets: []float64{5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	}, d.Labels)
}
