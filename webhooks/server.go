package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/internal/guarded"
)

// guardedServer serves webhooks within the limits of package guard. It registers and counts them as controller-runtime's server does,
// which has no way to set these limits.
type guardedServer struct {
	webhook.Server
	mux     *http.ServeMux
	address string
	limits  guard.Limits
	certDir string
	// certificate returns the serving certificate; nil means the certificate in certDir.
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	started     atomic.Bool
}

// newGuardedServer returns the server for some options.
func newGuardedServer(o *Options) *guardedServer {
	mux := http.NewServeMux()
	port := o.Port
	if port == 0 {
		port = webhook.DefaultPort
	}
	limits := guard.Webhooks
	if o.Arrival != 0 {
		limits.Arrival, limits.Answer = o.Arrival, o.Arrival
	}
	return &guardedServer{
		Server: webhook.NewServer(webhook.Options{WebhookMux: mux}), mux: mux, limits: limits,
		address: net.JoinHostPort(o.Host, strconv.Itoa(port)), certDir: o.CertDir,
	}
}

// Start implements manager.Runnable.
func (s *guardedServer) Start(ctx context.Context) error {
	encrypted := &tls.Config{GetCertificate: s.certificate, MinVersion: tls.VersionTLS12}
	if s.certificate == nil {
		watcher, err := certwatcher.New(filepath.Join(s.certDir, corev1.TLSCertKey), filepath.Join(s.certDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return fmt.Errorf("certificate of the webhooks: %w", err)
		}
		encrypted.GetCertificate = watcher.GetCertificate
		go func() {
			if err := watcher.Start(ctx); err != nil {
				ctrl.Log.Error(err, "Watch the certificate of the webhooks")
			}
		}()
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen on %s for the webhooks: %w", s.address, err)
	}
	server := guarded.NewServer("webhooks", s.limits, listener, encrypted, s.mux)
	server.Server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.started.Store(true)
	return server.Start(ctx)
}

// StartedChecker implements webhook.Server. It opens no connection: clients that take up all of them would make the manager unready,
// and its webhooks would not be called any more.
func (s *guardedServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhooks are not served yet")
		}
		return nil
	}
}
