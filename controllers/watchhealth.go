package controllers

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"huolala.cn/app-operator/internal/metrics"
)

// watchPatience is how long a failed list or watch counts as broken where nothing tells that it has succeeded since: in a
// cluster in which nothing happens, its version does not change. A list that keeps failing is tried at least once a minute.
const watchPatience = 2 * time.Minute

var watches = &watchHealth{now: time.Now, failed: map[watched]watchFailure{}, kinds: map[string]bool{}}

func init() { ctrlmetrics.Registry.MustRegister(watches) }

// watched is the list and watch of one kind; there is one for each namespace.
type watched interface {
	// TypeDescription is the kind's Go type.
	TypeDescription() string
	// LastSyncResourceVersion is the version that was seen last.
	LastSyncResourceVersion() string
}

// watchFailure is when a list or watch failed last, and what it had seen by then.
type watchFailure struct {
	at      time.Time
	version string
}

// watchHealth is the metric that tells of kinds whose list or watch has failed and not succeeded since: the manager then works
// with an old view of them. It is computed when it is asked for, as nothing tells of a success.
type watchHealth struct {
	now func() time.Time

	mu     sync.Mutex
	failed map[watched]watchFailure
	// kinds has the kinds that have ever failed.
	kinds map[string]bool
}

var watchBroken = metrics.WatchBroken.Desc()

// noteFailure is the cache's watch error handler.
func (h *watchHealth) noteFailure(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	h.noteResult(r)
}

func (h *watchHealth) noteResult(w watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed[w] = watchFailure{at: h.now(), version: w.LastSyncResourceVersion()}
	h.kinds[kindOf(w)] = true
}

// kindOf returns the kind's name.
func kindOf(w watched) string {
	goType := w.TypeDescription()
	if _, kind, metadata := strings.Cut(goType, "Kind="); metadata { // As in: /v1, Kind=ConfigMap
		return kind
	}
	return goType[strings.LastIndexByte(goType, '.')+1:]
}

// Describe implements prometheus.Collector.
func (h *watchHealth) Describe(ch chan<- *prometheus.Desc) { ch <- watchBroken }

// Collect implements prometheus.Collector.
func (h *watchHealth) Collect(ch chan<- prometheus.Metric) {
	for kind, broken := range h.brokenKinds() {
		value := 0.0
		if broken {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(watchBroken, prometheus.GaugeValue, value, kind)
	}
}

// brokenKinds says of each kind that has ever failed whether it still does.
func (h *watchHealth) brokenKinds() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string]bool{}
	for kind := range h.kinds {
		found[kind] = false
	}
	for w, failure := range h.failed {
		if w.LastSyncResourceVersion() != failure.version || h.now().Sub(failure.at) > watchPatience {
			delete(h.failed, w)
			continue
		}
		found[kindOf(w)] = true
	}
	return found
}
