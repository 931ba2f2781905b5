package webhooks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// muxServer is a server that answers in this process, until its context ends.
type muxServer struct {
	webhook.Server
	mux   *http.ServeMux
	ended chan struct{}
}

func (s *muxServer) Register(path string, hook http.Handler) { s.mux.Handle(path, hook) }

func (s *muxServer) Start(ctx context.Context) error {
	<-ctx.Done()
	close(s.ended)
	return nil
}

// TestDraining ends a server: it answers on for its period, and each answer then asks to close the connection.
func TestDraining(t *testing.T) {
	for name, period := range map[string]time.Duration{"at once": 0, "with a period": time.Hour} {
		inner := &muxServer{mux: http.NewServeMux(), ended: make(chan struct{})}
		s := &drainingServer{Server: inner, period: period}
		s.Register("/validate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			inner.mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", http.NoBody))
			return w
		}
		ctx, end := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Start(ctx) }()
		if answer := ask(); answer.Code != http.StatusTeapot || answer.Header().Get("Connection") != "" {
			t.Errorf("%s: while it runs, it answers %+v", name, answer)
		}
		end()
		for !s.draining.Load() {
			runtime.Gosched()
		}
		if answer := ask(); answer.Code != http.StatusTeapot || answer.Header().Get("Connection") != "close" {
			t.Errorf("%s: while it ends, it answers %+v", name, answer)
		}
		if period > 0 {
			select {
			case <-inner.ended:
				t.Errorf("%s: it has ended at once", name)
			default:
			}
			continue
		}
		if err := <-stopped; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		<-inner.ended
	}
}
