package integration

import (
	"net/http"
	"sync"
	"testing"

	"huolala.cn/app-operator/test/harness"
)

// TestWritesOfOthersDelayNobody has the write of one tenant's autoscaler under way without an answer, as where the API server is busy with
// them without end. The App of another tenant, with an autoscaler of its own, is reconciled nevertheless.
func TestWritesOfOthersDelayNobody(t *testing.T) {
	t.Parallel()
	slow, other := plane.Namespace(t), plane.Namespace(t)
	sent, answered := make(chan struct{}), make(chan struct{})
	var once sync.Once
	plane.Start(t, slow, harness.WithNamespaces(other), harness.WithFault(func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Namespace == slow && q.Resource == "horizontalpodautoscalers" && q.Write() {
			once.Do(func() { close(sent) })
			<-answered
		}
		return send()
	}))
	var end sync.Once
	release := func() { end.Do(func() { close(answered) }) }
	t.Cleanup(release)
	held := newServed(slow, "web", "autoscaling")
	plane.Create(t, held)
	<-sent

	free := newServed(other, "web", "autoscaling")
	plane.Create(t, free)
	plane.Stands(t, free, "Applied=True")
	release()
	plane.Stands(t, held, "Applied=True")
}
