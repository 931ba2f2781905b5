package controllers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/internal/stored"
)

// reasonNotReconciled is the reason in metrics of a resource without a Ready condition.
const reasonNotReconciled = "NotReconciled"

// scrapePatience is how long a scrape waits for the cache, which is in memory.
const scrapePatience = 5 * time.Second

var (
	stalledDesc  = metrics.ResourceStalled.Desc()
	notReadyDesc = metrics.ResourceNotReady.Desc()
	pausedDesc   = metrics.ResourcePaused.Desc()
	canaryDesc   = metrics.CanarySince.Desc()
	countDesc    = metrics.Resources.Desc()
	outdatedDesc = metrics.ResourcesOutdated.Desc()
)

// resources has the metrics of the resources of each working manager of this process; a stand-by has none.
var resources = &resourceMetrics{readers: map[resourceReader]struct{}{}}

// buildInfo has the version of this program.
var buildInfo = metrics.BuildInfo.NewGauge()

// droppedEvents counts the events beyond the share of a namespace.
var droppedEvents = metrics.EventsDropped.NewCounter()

func init() { ctrlmetrics.Registry.MustRegister(resources, buildInfo, droppedEvents) }

// noteBuild sets the version of this program. Of several managers in one process, the latest counts.
func noteBuild(opts *Options) {
	buildInfo.Reset()
	buildInfo.WithLabelValues(opts.Version, opts.Commit, strconv.Itoa(int(opts.Rendering))).Set(1)
}

// resourceReader lists the custom resources that a manager works on.
type resourceReader interface {
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// resourceMetrics computes the metrics of custom resources from the cache at each scrape: a series exists for exactly as long as its resource is in the
// state.
type resourceMetrics struct {
	mu      sync.Mutex
	readers map[resourceReader]struct{}
}

// whileWorking returns a runnable that adds the resources of a manager to the metrics while the manager is the leader.
func (m *resourceMetrics) whileWorking(reader resourceReader) func(context.Context) error {
	return func(ctx context.Context) error {
		m.mu.Lock()
		m.readers[reader] = struct{}{}
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		delete(m.readers, reader)
		m.mu.Unlock()
		return nil
	}
}

// Describe implements prometheus.Collector.
func (m *resourceMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{stalledDesc, notReadyDesc, pausedDesc, canaryDesc, countDesc, outdatedDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *resourceMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.readers) == 0 {
		return
	}
	for _, k := range allKinds() {
		summary := newResourceSummary(&k, len(m.readers) > 1)
		known := false
		for reader := range m.readers {
			known = summary.addKind(ctx, reader, &k) || known
		}
		if known {
			summary.sendSeries(ch)
		}
	}
}

// addKind adds the resources of a kind that a manager sees. It reports whether the manager sees any: before the first list of the kind it
// does not, and app_operator_watch_broken is set for a list that fails.
func (s *resourceSummary) addKind(ctx context.Context, reader resourceReader, k *kind) bool {
	informer, err := reader.GetInformer(ctx, k.empty(), cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return false
	}
	list := k.list()
	// The listed resources are not changed.
	if reader.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return false
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(stored.Observed)
		if !ok {
			return fmt.Errorf("%T is not observed", item) // TestEachKindIsObserved
		}
		s.addResource(obj)
		return nil
	}) == nil
}

// resourceSummary has the metrics of one kind.
type resourceSummary struct {
	kind string
	// seen are the resources that were added, nil if none can be added twice.
	seen            map[types.UID]struct{}
	series          []prometheus.Metric
	named           map[namedKey][]namedSeries
	counts          map[countKey]int
	rendering, size int
	defaults        int
	// serves is true for a kind that takes defaults.
	serves bool
}

// countKey identifies a count of resources.
type countKey struct{ namespace, reason string }

// maxNamed is how many resources of a kind in a namespace a metric names at most: the first ones by their names. The metric of counts has all. A
// monitoring system that limits the samples of a scrape would otherwise lose the samples of all namespaces for the resources of one.
const maxNamed = 500

// namedKey identifies the series of a metric in a namespace.
type namedKey struct {
	desc      *prometheus.Desc
	namespace string
}

// namedSeries is the series of one resource, with the labels that follow its name.
type namedSeries struct {
	value float64
	name  string
	more  []string
}

func newResourceSummary(k *kind, several bool) *resourceSummary {
	s := &resourceSummary{kind: k.Name, serves: k.Serves, counts: map[countKey]int{}, named: map[namedKey][]namedSeries{}}
	if several {
		s.seen = map[types.UID]struct{}{}
	}
	return s
}

// addResource adds a resource, unless another manager of this process has added it. A resource that is being deleted is counted, and has no series.
func (s *resourceSummary) addResource(obj stored.Observed) {
	if s.seen != nil {
		if _, twice := s.seen[obj.GetUID()]; twice {
			return
		}
		s.seen[obj.GetUID()] = struct{}{}
	}
	namespace, name := obj.GetNamespace(), obj.GetName()
	ready, reason, since := obj.Condition(appv1.ConditionReady), reasonNotReconciled, obj.GetCreationTimestamp()
	if ready != nil {
		reason, since = ready.Reason, ready.LastTransitionTime
	}
	s.counts[countKey{namespace, reason}]++
	if rendering, size := obj.Outdated(); rendering || size {
		s.rendering += oneIf(rendering)
		s.size += oneIf(size)
	}
	if used := obj.Defaults(); used != nil {
		s.defaults += oneIf(!used.Current)
	}
	if obj.GetDeletionTimestamp() != nil {
		return
	}
	if ready == nil || ready.Status == metav1.ConditionFalse {
		s.addNamed(notReadyDesc, namespace, namedSeries{float64(since.Unix()), name, []string{reason}})
	}
	if c := obj.Condition(appv1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		s.addNamed(stalledDesc, namespace, namedSeries{1, name, []string{c.Reason}})
	}
	if canary := obj.Canary(); canary != nil && canary.Since != nil {
		s.addNamed(canaryDesc, namespace, namedSeries{float64(canary.Since.Unix()), name, nil})
	}
	if c := obj.Condition(appv1.ConditionReconciling); c != nil && c.Reason == appv1.ReasonPaused {
		s.addNamed(pausedDesc, namespace, namedSeries{1, name, nil})
	}
}

func oneIf(counts bool) int {
	if counts {
		return 1
	}
	return 0
}

func (s *resourceSummary) addNamed(desc *prometheus.Desc, namespace string, one namedSeries) {
	key := namedKey{desc, namespace}
	s.named[key] = append(s.named[key], one)
}

func (s *resourceSummary) addGauge(desc *prometheus.Desc, value float64, labels ...string) {
	// A label that is no UTF-8 is the only error; the API server refuses such a name and such a reason.
	if metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...); err == nil {
		s.series = append(s.series, metric)
	}
}

// sendSeries sends the series of the kind.
func (s *resourceSummary) sendSeries(ch chan<- prometheus.Metric) {
	for key, n := range s.counts {
		s.addGauge(countDesc, float64(n), s.kind, key.namespace, key.reason)
	}
	s.addGauge(outdatedDesc, float64(s.rendering), s.kind, "rendering")
	s.addGauge(outdatedDesc, float64(s.size), s.kind, "size")
	if s.serves { // Other kinds take no defaults.
		s.addGauge(outdatedDesc, float64(s.defaults), s.kind, "defaults")
	}
	for key, all := range s.named {
		if len(all) > maxNamed {
			slices.SortFunc(all, func(a, b namedSeries) int { return strings.Compare(a.name, b.name) })
			all = all[:maxNamed]
		}
		for _, one := range all {
			s.addGauge(key.desc, one.value, append([]string{s.kind, key.namespace, one.name}, one.more...)...)
		}
	}
	for _, metric := range s.series {
		ch <- metric
	}
}
