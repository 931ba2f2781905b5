package harness

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Journal is every state of the objects of one type and namespace, from the time it was opened.
type Journal[T client.Object] struct {
	plane *Plane
	mu    sync.Mutex
	seen  []T
	err   error
}

// Follow opens a journal of the objects that list lists, from their present state on. It ends with the test.
func Follow[T client.Object](t testing.TB, p *Plane, list client.ObjectList, namespace string) *Journal[T] {
	t.Helper()
	watcher, err := client.NewWithWatch(p.Config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	// A watch from no version may begin with a state of the API server's cache that is older than the last state that the test has read.
	if err := watcher.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	j := &Journal[T]{plane: p}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		j.seen = append(j.seen, obj.DeepCopyObject().(T))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	events, err := watcher.Watch(t.Context(), list, client.InNamespace(namespace), from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	go func() {
		for event := range events.ResultChan() {
			j.mu.Lock()
			if obj, ok := event.Object.(T); ok {
				j.seen = append(j.seen, obj)
			} else {
				j.err = errors.Join(j.err, apierrors.FromObject(event.Object))
			}
			j.mu.Unlock()
		}
	}()
	return j
}

// UpTo returns the states up to the one that obj is in now.
func (j *Journal[T]) UpTo(t testing.TB, obj T) []T {
	t.Helper()
	j.plane.Read(t, obj)
	var states []T
	Eventually(t, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.err != nil {
			return j.err
		}
		last := slices.IndexFunc(j.seen, func(s T) bool {
			return s.GetUID() == obj.GetUID() && s.GetResourceVersion() == obj.GetResourceVersion()
		})
		if last < 0 {
			return fmt.Errorf("the watch has not shown version %s yet", obj.GetResourceVersion())
		}
		states = slices.Clone(j.seen[:last+1])
		return nil
	})
	return states
}

// Passes waits until the journal has a state that is as wanted. The state may be over by then: a test that asks the API server again and
// again can miss a state, and a journal cannot.
func (j *Journal[T]) Passes(t testing.TB, wanted string, is func(T) bool) {
	t.Helper()
	Eventually(t, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.err != nil {
			return j.err
		}
		if !slices.ContainsFunc(j.seen, is) {
			return fmt.Errorf("none of %d states is %s", len(j.seen), wanted)
		}
		return nil
	})
}

// Each calls do for all states that the journal has so far.
func (j *Journal[T]) Each(do func(T)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, obj := range j.seen {
		do(obj)
	}
}

// Changes are the pairs of consecutive states up to the one that obj is in now.
func (j *Journal[T]) Changes(t testing.TB, obj T) iter.Seq2[T, T] {
	t.Helper()
	states := j.UpTo(t, obj)
	return func(yield func(T, T) bool) {
		for i := 1; i < len(states); i++ {
			if !yield(states[i-1], states[i]) {
				return
			}
		}
	}
}
