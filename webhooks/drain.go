package webhooks

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// defaultDrain is for how long the webhooks answer on while the manager ends, unless the options state it.
const defaultDrain = time.Second

// drainingServer is a server that ends without losing a review. An API server reuses its connections; a review on a connection that is
// being closed gets no answer, and the resource is stored without validation. So, once the manager ends, each answer asks the API server to
// close the connection. Its next review reaches another replica, because the Service no longer has this one as an endpoint.
type drainingServer struct {
	webhook.Server
	period   time.Duration
	draining atomic.Bool
}

// Register implements webhook.Server.
func (s *drainingServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}

// Start implements manager.Runnable.
func (s *drainingServer) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go func() {
		select {
		case <-ctx.Done():
		case <-serving.Done():
			return
		}
		s.draining.Store(true)
		select {
		case <-time.After(s.period):
		case <-serving.Done():
		}
		end()
	}()
	return s.Server.Start(serving)
}
