package webhooks

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drainPeriod is for how long the webhooks answer on while the manager ends.
const drainPeriod = time.Second

// drainingServer is a server that ends without losing a question. An API server keeps its connections, and a question that it sends while
// one is being closed gets no answer: what was asked about is stored unseen. So, once the manager ends, each answer asks the API server
// to close the connection; its next question goes to another replica, as the Service leads to this one no longer.
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
