package workload

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// lateWatch holds back the events of a manager's watches of pods.
type lateWatch struct {
	mu   sync.Mutex
	open chan struct{} // Closed while events pass.
	end  <-chan struct{}
}

func newLateWatch(t *testing.T) *lateWatch {
	open := make(chan struct{})
	close(open)
	return &lateWatch{open: open, end: t.Context().Done()}
}

// fault is the harness.Fault that puts the watch between the manager and the API server.
func (l *lateWatch) fault(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
	resp, err := send()
	if err == nil && q.Verb == "watch" && q.Resource == "pods" {
		resp.Body = heldBody{ReadCloser: resp.Body, watch: l}
	}
	return resp, err
}

func (l *lateWatch) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = make(chan struct{})
}

func (l *lateWatch) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.open)
}

func (l *lateWatch) await() {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	select {
	case <-open:
	case <-l.end:
	}
}

// heldBody is the body of a watch, whose bytes wait until the watch is released.
type heldBody struct {
	io.ReadCloser
	watch *lateWatch
}

func (b heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watch.await()
	return n, err
}

// TestLateViewOfPods rolls out an image while the manager sees the Deployment and not yet its pods: those of before are still there, or none
// is. Once the manager sees the pods, the status names the ReplicaSet that runs, which a rollback would go to.
func TestLateViewOfPods(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			ns, late := plane.Namespace(t), newLateWatch(t)
			plane.Start(t, ns, harness.WithFault(late.fault))
			app := newApp(ns)
			app.Spec.Replicas = &replicas
			late.hold()
			plane.Create(t, app)
			ready(t, app)
			late.release()
			runsGood(t, app, app.Spec.Image)

			late.hold()
			plane.Change(t, app, func() { app.Spec.Image = "nginx:1.17.0" })
			ready(t, app)
			late.release()
			runsGood(t, app, app.Spec.Image)
		})
	}
}

// runsGood waits until the ReplicaSet of an image, the newest one, is the running one and the last good one.
func runsGood(t *testing.T, app *appv1.App, image string) {
	t.Helper()
	before := app.Status.LastGood
	plane.Until(t, app, func() error {
		is := &app.Status.HistoryStatus
		if is.LastGood == nil || is.LastGood.Image != image || is.LastGood.ReplicaSet != is.ReplicaSet {
			return fmt.Errorf("%s runs; the status has %+v, last good %+v", image, is, is.LastGood)
		}
		if before != nil && before.ReplicaSet == is.ReplicaSet {
			return fmt.Errorf("the ReplicaSet of before counts as that of %s", image)
		}
		return nil
	})
}
