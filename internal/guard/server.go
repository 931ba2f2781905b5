package guard

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"huolala.cn/app-operator/internal/metrics"
)

// refusedRequests counts refused requests and connections.
var refusedRequests = metrics.RequestsRefused.NewCounter()

func init() { ctrlmetrics.Registry.MustRegister(refusedRequests) }

// guard is the guard of one server.
type guard struct {
	name   string
	limits Limits
	next   http.Handler
	proofs *proofs
	// conns has the connections, bodies the bytes of the bodies that are read or handled.
	conns, bodies *ledger
}

func newGuard(name string, limits Limits, next http.Handler) *guard {
	known := &proofs{last: map[netip.Addr]time.Time{}}
	return &guard{
		name: name, limits: limits, next: next, proofs: known,
		conns: newLedger(limits.Connections, known.proven), bodies: newLedger(limits.Budget, known.proven),
	}
}

// NewServer returns a server that enforces limits, for a manager to run. encrypted has the certificates for TLS; nil means no TLS. HTTP/2
// is off: a connection would have many requests at a time, and HTTP/2 has rapid-reset attacks (CVE-2023-44487, CVE-2023-39325).
func NewServer(name string, limits Limits, l net.Listener, encrypted *tls.Config, handler http.Handler) *manager.Server {
	g := newGuard(name, limits, handler)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	l = &listener{Listener: l, guard: g}
	if encrypted != nil {
		encrypted = encrypted.Clone()
		encrypted.NextProtos, encrypted.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
		l = tls.NewListener(l, encrypted)
	}
	return &manager.Server{
		Name: name, Listener: l, ShutdownTimeout: ptr.To(stopTimeout),
		Server: &http.Server{
			Handler: g, Protocols: &protocols, DisableGeneralOptionsHandler: true,
			MaxHeaderBytes: maxHeader - slack, ReadHeaderTimeout: limits.Arrival, ReadTimeout: limits.Arrival,
			WriteTimeout: 2*limits.Arrival + limits.Answer, IdleTimeout: idleTimeout,
			ConnContext: withConn, ConnState: onState,
			ErrorLog: log.New(errorLog{ctrl.Log.WithName(name)}, "", 0),
		},
	}
}

// refused counts a request or a connection that was refused.
func (g *guard) refused(why reason) { refusedRequests.WithLabelValues(g.name, string(why)).Inc() }

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
