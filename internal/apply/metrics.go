package apply

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// writes counts the write requests for children that took effect.
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "app_operator_child_writes_total",
		Help: "Number of objects that were created, configured, replaced or deleted for custom resources.",
	}, []string{"kind", "action"})

	// repairs counts the objects that another writer had changed and that were repaired.
	repairs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "app_operator_child_repairs_total",
		Help: "Number of times that an object was repaired after another writer had changed it.",
	}, []string{"kind"})
)

func init() { metrics.Registry.MustRegister(writes, repairs) }
