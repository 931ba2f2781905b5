package cli

import (
	"errors"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// keeper keeps what a reflector reads.
type keeper interface {
	cache.ReflectorStore
	// reportTo sets the functions to call after the objects were listed, and after each change.
	reportTo(listed, changed func())
}

// store keeps a value of each object, and calls changed when the value changes.
type store[V any] struct {
	of              func(runtime.Object) V
	listed, changed func()
	mu              sync.Mutex
	values          map[string]V
}

func newStore[V any](of func(runtime.Object) V) *store[V] {
	return &store[V]{of: of, values: map[string]V{}}
}

func (s *store[V]) reportTo(listed, changed func()) { s.listed, s.changed = listed, changed }

// allValues returns all values.
func (s *store[V]) allValues() []V {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]V, 0, len(s.values))
	for _, v := range s.values {
		values = append(values, v)
	}
	return values
}

// readObject is an object that was read, with the value alone that is kept of it.
type readObject[V any] struct {
	metav1.ObjectMeta
	value V
}

// valueOf returns the key and the value of an object.
func (s *store[V]) valueOf(obj any) (key string, v V, err error) {
	if read, ok := obj.(*readObject[V]); ok {
		return cache.MetaObjectToName(read).String(), read.value, nil
	}
	o, ok := obj.(runtime.Object)
	if !ok {
		return "", v, errors.New("not an object of the API server")
	}
	key, err = cache.MetaNamespaceKeyFunc(obj)
	return key, s.of(o), err
}

// Add implements cache.ReflectorStore.
func (s *store[V]) Add(obj any) error {
	key, v, err := s.valueOf(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before, found := s.values[key]
	s.values[key] = v
	s.mu.Unlock()
	if !found || !reflect.DeepEqual(before, v) {
		s.changed()
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[V]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *store[V]) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.values, key)
	s.mu.Unlock()
	s.changed()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store[V]) Replace(objects []any, _ string) error {
	values := make(map[string]V, len(objects))
	for _, obj := range objects {
		key, v, err := s.valueOf(obj)
		if err != nil {
			return err
		}
		values[key] = v
	}
	s.mu.Lock()
	same := reflect.DeepEqual(s.values, values)
	s.values = values
	s.mu.Unlock()
	s.listed()
	if !same {
		s.changed()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (*store[V]) Resync() error { return nil }

// Transformer implements cache.TransformingStore: while the objects are listed, their values alone are kept. An object can take megabytes.
func (s *store[V]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		_, v, err := s.valueOf(obj)
		o, ok := obj.(metav1.Object)
		if err != nil || !ok {
			return obj, nil //nolint:nilerr // The store reports it.
		}
		return &readObject[V]{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}, v}, nil
	}
}
