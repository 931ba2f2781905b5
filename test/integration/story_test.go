package integration

import (
	"testing"

	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// stage has a story take place on the API server.
type stage struct {
	*harness.Plane
	namespace string
	manager   *harness.Manager
}

var _ play.Stage = &stage{}

// Namespace implements play.Stage.
func (s *stage) Namespace() string { return s.namespace }

// Until implements play.Stage.
func (*stage) Until(t testing.TB, done func() error) {
	t.Helper()
	harness.Eventually(t, done)
}

// Count implements play.Stage.
func (s *stage) Count(t testing.TB, what string, want map[string]int) {
	t.Helper()
	if want == nil {
		s.manager.Idle(t)
		return
	}
	checkRequests(t, s.manager, what, want)
}

// ResetCount implements play.Stage.
func (s *stage) ResetCount(testing.TB) { s.manager.Requests.Reset() }

// Restart implements play.Stage.
func (s *stage) Restart(t testing.TB) {
	t.Helper()
	s.manager.Stop(t)
	s.manager = plane.Start(t, s.namespace)
}

// TestStories plays the stories of the controllers' tests against the API server: what they count of requests holds with its admission,
// defaults and preconditions, and over a restart. In the short form, each is of one of the kinds.
func TestStories(t *testing.T) {
	t.Parallel()
	var kinds []*resource.Kind
	for i := range resource.Kinds {
		if resource.Kinds[i].Holds {
			kinds = append(kinds, &resource.Kinds[i])
		}
	}
	turns := fixture.Turns(t, kinds...)
	for name, tell := range play.Stories {
		for _, kind := range turns() {
			t.Run(name+" "+kind.Name, func(t *testing.T) {
				t.Parallel()
				ns := plane.Namespace(t)
				tell(play.NewStory(t, &stage{plane, ns, plane.Start(t, ns)}, kind.Name, kind.Plural))
			})
		}
	}
}
