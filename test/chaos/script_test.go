package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// script is what the users of a namespace do: they make, edit and delete custom resources of all kinds. What it comes to
// does not depend on when the manager does its part.
type script struct {
	plane     *harness.Plane
	namespace string
	// controlled is true where Kubernetes' own controllers run: pods turn ready, and what belongs to nobody is deleted.
	controlled bool
	subjects   []*subject
	// total is the number of steps, done that of those taken.
	total int
	done  atomic.Int64
	// ended is closed when all steps are taken; err is then what went wrong.
	ended chan struct{}
	err   error
}

// subject is what is done to one custom resource.
type subject struct {
	kind  *kind
	meta  metav1.ObjectMeta
	steps []step
}

// step is something that a user does.
type step struct {
	do   action
	edit func(harness.Resource, int)
	n    int
}

type action string

// The things that a user does. settle is to wait until what was asked for is done.
const (
	create action = "create"
	edit   action = "edit"
	remove action = "delete"
	settle action = "settle"
)

// newScript writes a script for n resources; the same one for the same seed.
func newScript(p *harness.Plane, namespace string, n int, controlled bool) *script {
	s := &script{plane: p, namespace: namespace, controlled: controlled, ended: make(chan struct{})}
	r, order := chance(1), inOrder()
	for at := range n {
		s.subjects = append(s.subjects, s.newSubject(order[at%len(order)], at, r))
	}
	return s
}

// inOrder returns the kinds of twenty resources: one of each first, so that the shortest script has all of them.
func inOrder() []*kind {
	var first, rest []*kind
	for i := range kinds {
		first = append(first, &kinds[i])
		for range kinds[i].share - 1 {
			rest = append(rest, &kinds[i])
		}
	}
	return append(first, rest...)
}

func (s *script) newSubject(k *kind, at int, r *rand.Rand) *subject {
	sub := &subject{kind: k, meta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("%s-%d", k.name, at)}}
	n := 0
	edits := func() {
		for range 1 + r.IntN(4) {
			n++
			sub.steps = append(sub.steps, step{do: edit, edit: k.edits[r.IntN(len(k.edits))], n: n})
			if r.IntN(3) == 0 {
				sub.steps = append(sub.steps, step{do: settle})
			}
		}
	}
	removal := func() {
		if k.patient || r.IntN(2) == 0 {
			sub.steps = append(sub.steps, step{do: settle})
		}
		sub.steps = append(sub.steps, step{do: remove})
	}
	sub.steps = append(sub.steps, step{do: create})
	edits()
	// Without the garbage collector, what was deleted would leave its children in the way of its successor.
	if fate := r.IntN(4); s.controlled && fate < 2 {
		removal()
		if fate == 0 {
			sub.steps = append(sub.steps, step{do: create})
			edits()
		}
	}
	if sub.steps[len(sub.steps)-1].do != remove {
		sub.steps = append(sub.steps, step{do: settle})
	}
	s.total += len(sub.steps)
	return sub
}

// start lets the users begin.
func (s *script) start(ctx context.Context) {
	var group sync.WaitGroup
	errs := make([]error, len(s.subjects))
	const users = 16
	for user := range users {
		group.Go(func() {
			for i := user; i < len(s.subjects); i += users {
				errs[i] = s.play(ctx, s.subjects[i])
			}
		})
	}
	go func() {
		group.Wait()
		s.err = errors.Join(errs...)
		close(s.ended)
	}()
}

// finish waits until the users are done.
func (s *script) finish(t testing.TB) {
	t.Helper()
	<-s.ended
	if s.err != nil {
		t.Fatal(s.err)
	}
}

// play takes the steps of one subject. What fails is tried again: the API server may be away.
func (s *script) play(ctx context.Context, sub *subject) error {
	for _, st := range sub.steps {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 150*time.Millisecond, harness.Patience, true, func(ctx context.Context) (bool, error) {
			last = s.take(ctx, sub, st)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%s %s: %w: %w", st.do, sub.meta.Name, err, last)
		}
		s.done.Add(1)
	}
	return nil
}

// take takes a step, once more perhaps.
func (s *script) take(ctx context.Context, sub *subject, st step) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	obj := sub.kind.make(sub.meta)
	switch st.do {
	case create:
		if sub.kind.extra != nil {
			if err := s.plane.Client.Create(ctx, sub.kind.extra(sub.meta)); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		err := s.plane.Client.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case remove:
		return client.IgnoreNotFound(s.plane.Client.Delete(ctx, obj))
	}
	obj = sub.kind.make(metav1.ObjectMeta{})
	if err := s.plane.Client.Get(ctx, client.ObjectKey{Namespace: sub.meta.Namespace, Name: sub.meta.Name}, obj); err != nil {
		return err
	}
	if st.do == settle {
		return s.settled(obj)
	}
	before := obj.DeepCopyObject().(client.Object)
	st.edit(obj, st.n)
	return s.plane.Client.Patch(ctx, obj, client.MergeFrom(before))
}

// settled returns what a resource still waits for.
func (s *script) settled(obj harness.Resource) error {
	status := obj.CommonStatus()
	switch {
	case status.ObservedGeneration != obj.GetGeneration():
		return fmt.Errorf("generation is %d, the status that of %d", obj.GetGeneration(), status.ObservedGeneration)
	case !s.isApplied(status.Conditions):
		// An API server that has just started refuses children for a while: it does not know their owners' kinds yet.
		return fmt.Errorf("it is not applied: %+v", status.Conditions)
	case s.controlled && !meta.IsStatusConditionTrue(status.Conditions, appv1.ConditionReady):
		return fmt.Errorf("it is not Ready: %+v", status.Conditions)
	case s.controlled:
		return checkHistory(obj)
	}
	return nil
}

// isApplied reports whether what can be applied is applied. Without Kubernetes' own controllers, no tier becomes ready that others wait for.
func (s *script) isApplied(conditions []metav1.Condition) bool {
	c := meta.FindStatusCondition(conditions, appv1.ConditionApplied)
	return c != nil && (c.Status == metav1.ConditionTrue || !s.controlled && c.Reason == appv1.ReasonDependencyNotReady)
}

// checkHistory returns an error while the history of a resource that is Ready is not yet that of its spec: the pods of an earlier
// ReplicaSet may be seen for a while. One without pods has the history of what ran before, whatever that was.
func checkHistory(obj harness.Resource) error {
	held, ok := obj.(interface{ History() *appv1.HistoryStatus })
	if !ok {
		return nil
	}
	history := held.History()
	spec, ok := reflect.ValueOf(obj).Elem().FieldByName("Spec").FieldByName("WorkloadSpec").Addr().Interface().(*appv1.WorkloadSpec)
	if !ok {
		return fmt.Errorf("%T has a history and no workload", obj)
	}
	if ptr.Deref(spec.Replicas, 1) == 0 {
		return nil
	}
	if good := history.LastGood; good == nil || good.ReplicaSet != history.ReplicaSet || good.Image != spec.Image {
		return fmt.Errorf("it is Ready with image %s, its history is %+v", spec.Image, history)
	}
	return nil
}
