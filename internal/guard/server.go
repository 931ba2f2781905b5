package guard

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Report receives what a server reports of its clients.
type Report struct {
	// Refused is called with the reason for each request and connection that is refused.
	Refused func(reason string)
	// Log receives the lines of net/http's log.
	Log io.Writer
}

// guard is the guard of one server.
type guard struct {
	limits Limits
	next   http.Handler
	proofs *proofs
	report Report
	// conns has the connections, bodies the bytes of the bodies that are read or handled.
	conns, bodies *ledger
}

func newGuard(limits Limits, next http.Handler, report Report) *guard {
	known := &proofs{last: map[netip.Addr]time.Time{}}
	return &guard{
		limits: limits, next: next, proofs: known, report: report,
		conns: newLedger(limits.Connections, known.isProven), bodies: newLedger(limits.Budget, known.isProven),
	}
}

// New returns a server that enforces limits, and the listener that it has to serve. encrypted has the certificates for TLS; nil means no
// TLS. HTTP/2 is off: a connection would have many requests at a time, and HTTP/2 has rapid-reset attacks (CVE-2023-44487, CVE-2023-39325).
func New(limits Limits, l net.Listener, encrypted *tls.Config, handler http.Handler, report Report) (*http.Server, net.Listener) {
	g := newGuard(limits, handler, report)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	l = &listener{Listener: l, guard: g}
	if encrypted != nil {
		encrypted = encrypted.Clone()
		encrypted.NextProtos, encrypted.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
		l = tls.NewListener(l, encrypted)
	}
	return &http.Server{
		Handler: g, Protocols: &protocols, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: maxHeader - slack, ReadHeaderTimeout: limits.Arrival, ReadTimeout: limits.Arrival,
		WriteTimeout: 2*limits.Arrival + limits.Answer, IdleTimeout: idleTimeout,
		ConnContext: withConn, ConnState: onState,
		ErrorLog: log.New(report.Log, "", 0),
	}, l
}

// reportRefused reports a request or a connection that was refused.
func (g *guard) reportRefused(why reason) { g.report.Refused(string(why)) }
