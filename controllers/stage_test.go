package controllers

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/test/play"
)

// TestStories plays the stories that take place on an API server, too, for each kind that can run an earlier spec.
func TestStories(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, kindName string) {
		forEach(t, play.Stories, func(t *testing.T, _ string, tell func(*play.Story)) {
			s := &stage{world: newWorld(t), kind: kindNamed(t, kindName), reads: map[string]int{}}
			s.generations = true
			s.unread = func(string) error {
				s.reads["get replicasets"]++
				return nil
			}
			tell(play.NewStory(t, s, kindName, s.kind.Plural))
		})
	})
}

// stage has a story take place in a world.
type stage struct {
	*world
	kind *kind
	// reads are the reads of ReplicaSets since the last reset.
	reads map[string]int
}

var _ play.Stage = &stage{}

// Namespace implements play.Stage.
func (*stage) Namespace() string { return namespace }

// Create implements play.Stage. Each object gets a UID.
func (s *stage) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
		if u, ok := obj.(*unstructured.Unstructured); ok {
			u.SetGeneration(1)
		}
		if err := s.base.Create(t.Context(), obj, client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
}

// Read implements play.Stage.
func (s *stage) Read(t testing.TB, obj client.Object) {
	t.Helper()
	if err := s.base.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
}

// Change implements play.Stage. Another spec is another generation.
func (s *stage) Change(t testing.TB, obj client.Object, mutate func(), _ ...client.PatchOption) {
	t.Helper()
	before := specOf(t, obj)
	if mutate(); !reflect.DeepEqual(before, specOf(t, obj)) {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if err := s.base.Update(t.Context(), obj, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
}

// specOf returns a copy of the spec of an object.
func specOf(t testing.TB, obj client.Object) any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	return fields["spec"]
}

// ChangeStatus implements play.Stage.
func (s *stage) ChangeStatus(t testing.TB, obj client.Object, mutate func()) {
	t.Helper()
	mutate()
	if err := s.base.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
}

// Delete implements play.Stage.
func (s *stage) Delete(t testing.TB, obj client.Object, opts ...client.DeleteOption) {
	t.Helper()
	if err := s.base.Delete(t.Context(), obj, opts...); err != nil {
		t.Fatal(err)
	}
}

// Until implements play.Stage: one reconcile has to be enough.
func (s *stage) Until(t testing.TB, done func() error) {
	t.Helper()
	if done() == nil {
		return
	}
	s.settle(s.kind.Name)
	if err := done(); err != nil {
		t.Fatal(err)
	}
}

// Count implements play.Stage. It reconciles twice: the second time, nothing is left to do.
func (s *stage) Count(t testing.TB, what string, want map[string]int) {
	t.Helper()
	s.settle(s.kind.Name)
	s.settle(s.kind.Name)
	if want == nil {
		return
	}
	got := maps.Clone(s.reads)
	for _, request := range s.requests {
		got[counted(s, request)]++
	}
	if sent := len(s.sent()); sent > 0 {
		got["create events"] = sent
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// counted returns how an API server's test names a request of a world, such as "patch apps/status" for "status App web".
func counted(s *stage, request string) string {
	verb, rest, _ := strings.Cut(request, " ")
	kindName, _, _ := strings.Cut(rest, " ")
	if verb == "status" {
		return "patch " + s.kind.Plural + "/status"
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kindName})
	return verb + " " + plural.Resource
}

// ResetCount implements play.Stage.
func (s *stage) ResetCount(testing.TB) {
	s.requests = nil
	clear(s.reads)
	s.sent()
}

// Restart implements play.Stage.
func (s *stage) Restart(testing.TB) { s.restart() }
