package apply

import (
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"huolala.cn/app-operator/internal/metrics"
)

var (
	// writes counts the write requests for children that took effect.
	writes = metrics.ChildWrites.NewCounter()
	// repairs counts the objects that another writer had changed and that were repaired.
	repairs = metrics.ChildRepairs.NewCounter()
)

func init() { ctrlmetrics.Registry.MustRegister(writes, repairs) }
