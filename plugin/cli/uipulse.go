package cli

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pulseEvery is the time between two signs of life of the API server while a page is followed, and pulseTimeout how long each may take.
	pulseEvery, pulseTimeout = 5 * time.Second, 5 * time.Second
	// pulseShared is how long an answer counts for the other topics, so that many open pages send no more requests than one.
	pulseShared = pulseEvery / 2
)

// pulse knows whether the API server answers. Watches do not tell: one of a server that hangs is as silent as one without changes, through
// a proxy with HTTP/1.1 for ever.
type pulse struct {
	// ask sends any request to the API server.
	ask func(ctx context.Context) error

	mu sync.Mutex
	// asked is when it was last asked, answered when it last answered, and away since when it does not answer, zero while it does.
	asked, answered, away time.Time
}

// newPulse returns the pulse of the API server of clients. All users may read its version.
func newPulse(c *clients) *pulse {
	return &pulse{ask: func(ctx context.Context) error {
		return c.kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}}
}

// checkPulse sends a request, unless the last one is recent, and returns when the API server
// answered last, and since when it does not answer, zero while it answers.
func (p *pulse) checkPulse(ctx context.Context) (answered, away time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) < pulseShared {
		return p.answered, p.away
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, pulseTimeout)
	defer cancel()
	err := p.ask(bounded)
	p.asked = time.Now()
	var status apierrors.APIStatus
	switch {
	case ctx.Err() != nil:
	case err == nil, errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError:
		p.answered, p.away = p.asked, time.Time{}
	case p.away.IsZero() && p.answered.IsZero():
		p.away = began
	case p.away.IsZero():
		p.away = p.answered
	}
	return p.answered, p.away
}

// feelPulse notes whether the API server answers until the context ends.
func (f *feed) feelPulse(p *pulse) {
	for {
		answered, away := p.checkPulse(f.ctx)
		f.mu.Lock()
		if answered.After(f.heard) {
			f.heard = answered
		}
		changed := f.silent != away
		f.silent = away
		f.mu.Unlock()
		if changed {
			f.changed()
		}
		pause := pulseEvery
		if !away.IsZero() {
			pause = retryPause
		}
		if !sleepFor(f.ctx, pause) {
			return
		}
	}
}

// errSilent is the error of a watch that the API server has not answered in time.
var errSilent = errors.New("the API server does not answer")

// emptyWatch is the type of what client-go returns in place of an error for a watch that was not answered in time, see Watch in
// k8s.io/client-go/rest.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// answeredWatch returns errSilent for a watch that was not answered.
func answeredWatch(w watch.Interface, err error) error {
	if err == nil && reflect.TypeOf(w) == emptyWatch {
		return errSilent
	}
	return err
}
