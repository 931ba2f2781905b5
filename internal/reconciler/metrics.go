package reconciler

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// stalled is 1 for each resource that is stalled. A resource that is well has no series, so their number does not grow
// with the number of resources.
var stalled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "app_operator_resource_stalled",
	Help: "1 for each custom resource that needs a change by a user, by the reason of its Stalled condition.",
}, []string{"kind", "namespace", "name", "reason"})

func init() { metrics.Registry.MustRegister(stalled) }

// stalledSeries remembers which resources of one kind have a series, so that most need not be looked for.
type stalledSeries struct {
	mu      sync.Mutex
	reasons map[types.NamespacedName]string
}

// set states why a resource is stalled; an empty reason says that it is not.
func (s *stalledSeries) set(kind string, name types.NamespacedName, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, found := s.reasons[name]
	if was == reason {
		return
	}
	if found {
		stalled.DeleteLabelValues(kind, name.Namespace, name.Name, was)
		delete(s.reasons, name)
	}
	if reason == "" {
		return
	}
	if s.reasons == nil {
		s.reasons = map[types.NamespacedName]string{}
	}
	s.reasons[name] = reason
	stalled.WithLabelValues(kind, name.Namespace, name.Name, reason).Set(1)
}
