// Package guarded has the servers of the manager: within the limits of package guard, counted in the metrics, and run by controller-runtime.
package guarded

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/internal/metrics"
)

// stopTimeout is how long a server that ends waits for its requests: less than the manager waits for its servers.
const stopTimeout = 15 * time.Second

// refusedRequests counts refused requests and connections.
var refusedRequests = metrics.RequestsRefused.NewCounter()

func init() { ctrlmetrics.Registry.MustRegister(refusedRequests) }

// NewServer returns a server that enforces limits, for a manager to run. encrypted has the certificates for TLS; nil means no TLS.
func NewServer(name string, limits guard.Limits, l net.Listener, encrypted *tls.Config, handler http.Handler) *manager.Server {
	server, listener := guard.New(limits, l, encrypted, handler, guard.Report{
		Refused: func(why string) { refusedRequests.WithLabelValues(name, why).Inc() },
		Log:     errorLog{ctrl.Log.WithName(name)},
	})
	return &manager.Server{Name: name, Server: server, Listener: listener, ShutdownTimeout: ptr.To(stopTimeout)}
}

// errorLog logs what net/http reports. Clients cause all but panics, at any rate, so the rest is for a verbose log.
type errorLog struct{ logger logr.Logger }

// Write implements io.Writer.
func (l errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "panic serving") {
		l.logger.Info(text)
	} else {
		l.logger.V(1).Info(text)
	}
	return len(line), nil
}
