package controllers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/internal/guarded"
)

// maxScrapes is how many scrapes are answered at a time: each gathers all series.
const maxScrapes = 4

// servedAt is where the servers of a manager listen. NewManager starts these in place of those of controller-runtime, which have
// neither limits of their own nor a way to set them.
type servedAt struct {
	metrics        metricsserver.Options
	probes, pprofs string
}

// takeServers returns where the servers are to listen, and keeps controller-runtime from starting its own.
func takeServers(opts *ctrl.Options) servedAt {
	at := servedAt{metrics: opts.Metrics, probes: opts.HealthProbeBindAddress, pprofs: opts.PprofBindAddress}
	opts.Metrics = metricsserver.Options{BindAddress: "0"}
	opts.HealthProbeBindAddress, opts.PprofBindAddress = "0", "0"
	return at
}

// server is one server of a manager.
type server struct {
	name      string
	address   string
	limits    guard.Limits
	encrypted *tls.Config
	handler   http.Handler
}

// addServers adds the servers to a manager. They listen from now on, and answer once the manager has started.
func (at *servedAt) addServers(mgr *Manager, cfg *rest.Config) error {
	metrics, err := metricsServer(&at.metrics, cfg, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	for _, s := range []server{
		metrics,
		{name: "health probe", address: at.probes, limits: guard.Probes, handler: mgr.checks.checkHandler()},
		{name: "pprof", address: at.pprofs, limits: guard.Profiles, handler: profileHandler()},
	} {
		if s.address == "" || s.address == "0" {
			continue
		}
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			return fmt.Errorf("listen on %s for the server %q: %w", s.address, s.name, err)
		}
		if err := mgr.Add(guarded.NewServer(s.name, s.limits, listener, s.encrypted, s.handler)); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	return nil
}

// metricsServer is the server of the metrics. A client that passes its filter, if there is one, has proved to be genuine.
func metricsServer(o *metricsserver.Options, cfg *rest.Config, httpClient *http.Client) (server, error) {
	s := server{name: "metrics", address: o.BindAddress, limits: guard.Metrics}
	handler := promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: maxScrapes,
	})
	if o.FilterProvider != nil && s.address != "0" && s.address != "" {
		filter, err := o.FilterProvider(cfg, httpClient)
		if err != nil {
			return s, fmt.Errorf("filter of the metrics: %w", err)
		}
		genuine := handler
		if handler, err = filter(ctrl.Log.WithName(s.name), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guard.Prove(r.Context(), func() bool { return true })
			genuine.ServeHTTP(w, r)
		})); err != nil {
			return s, fmt.Errorf("filter of the metrics: %w", err)
		}
		handler = guard.LimitStrangers(handler)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	s.handler = mux
	if o.SecureServing {
		s.encrypted = &tls.Config{MinVersion: tls.VersionTLS12}
		for _, change := range o.TLSOpts {
			change(s.encrypted)
		}
		if s.encrypted.GetCertificate == nil {
			made := sync.OnceValues(selfSigned)
			s.encrypted.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made() }
		}
	}
	return s, nil
}

// selfSigned makes a certificate that encrypts, and proves nothing, as that of controller-runtime does.
func selfSigned() (*tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, fmt.Errorf("certificate of the metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &pair, err
}

// profileHandler answers with the profiles.
func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// checks are the health and readiness checks of a manager.
type checks struct {
	mu            sync.Mutex
	health, ready map[string]healthz.Checker
}

func newChecks() *checks {
	return &checks{health: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}
}

// AddHealthzCheck implements manager.Manager.
func (m *Manager) AddHealthzCheck(name string, check healthz.Checker) error {
	m.checks.add(m.checks.health, name, check)
	return nil
}

// AddReadyzCheck implements manager.Manager.
func (m *Manager) AddReadyzCheck(name string, check healthz.Checker) error {
	m.checks.add(m.checks.ready, name, check)
	return nil
}

func (c *checks) add(to map[string]healthz.Checker, name string, check healthz.Checker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to[name] = check
}

// checkHandler answers /healthz and /readyz, and the paths of single checks below them.
func (c *checks) checkHandler() http.Handler {
	mux := http.NewServeMux()
	for path, of := range map[string]map[string]healthz.Checker{"/healthz": c.health, "/readyz": c.ready} {
		answer := http.StripPrefix(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.mu.Lock()
			handler := &healthz.Handler{Checks: maps.Clone(of)}
			c.mu.Unlock()
			handler.ServeHTTP(w, r)
		}))
		mux.Handle(path, answer)
		mux.Handle(path+"/", answer)
	}
	return mux
}
