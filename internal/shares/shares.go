// Package shares keeps values within a budget of memory. Each namespace has a share of the budget.
package shares

import (
	"slices"
	"sync"
)

// Store keeps values by namespace and key. Beyond the share of a namespace, the oldest values of this namespace are dropped; beyond the
// budget of all, the oldest values of the namespace that has the most. It is safe for concurrent use.
type Store[K comparable, V any] struct {
	share, budget int

	mu         sync.Mutex
	namespaces map[string]*namespace[K, V]
	bytes      int
}

// namespace has the values of one namespace, the oldest first.
type namespace[K comparable, V any] struct {
	entries []entry[K, V]
	bytes   int
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New returns an empty store. share is the limit of a namespace, and budget that of all, in bytes.
func New[K comparable, V any](share, budget int) *Store[K, V] {
	return &Store[K, V]{share: share, budget: budget, namespaces: map[string]*namespace[K, V]{}}
}

// Get returns a value, and reports whether it is kept.
func (s *Store[K, V]) Get(in string, key K) (value V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[in]
	if of == nil {
		return value, false
	}
	i := of.entryIndex(key)
	if i < 0 {
		return value, false
	}
	return of.entries[i].value, true
}

// Put keeps a value of a size in bytes, in place of an earlier one. A value that is larger than the share of a namespace is not kept.
func (s *Store[K, V]) Put(in string, key K, value V, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEntry(in, key)
	if bytes > s.share {
		return
	}
	of := s.namespaces[in]
	if of == nil {
		of = &namespace[K, V]{}
		s.namespaces[in] = of
	}
	of.entries = append(of.entries, entry[K, V]{key, value, bytes})
	of.bytes += bytes
	s.bytes += bytes
	for of.bytes > s.share {
		s.removeEntry(in, of.entries[0].key)
	}
	for s.bytes > s.budget {
		name := s.largestNamespace()
		s.removeEntry(name, s.namespaces[name].entries[0].key)
	}
}

// Delete drops a value.
func (s *Store[K, V]) Delete(in string, key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEntry(in, key)
}

// Used returns the number of values, and their size in bytes.
func (s *Store[K, V]) Used() (values, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.namespaces {
		values += len(of.entries)
	}
	return values, s.bytes
}

func (s *Store[K, V]) removeEntry(in string, key K) {
	of := s.namespaces[in]
	if of == nil {
		return
	}
	i := of.entryIndex(key)
	if i < 0 {
		return
	}
	size := of.entries[i].bytes
	of.entries = slices.Delete(of.entries, i, i+1)
	of.bytes -= size
	s.bytes -= size
	if len(of.entries) == 0 {
		delete(s.namespaces, in)
	}
}

// largestNamespace returns the namespace with the most bytes.
func (s *Store[K, V]) largestNamespace() string {
	largest, most := "", -1
	for name, of := range s.namespaces {
		if of.bytes > most {
			largest, most = name, of.bytes
		}
	}
	return largest
}

func (n *namespace[K, V]) entryIndex(key K) int {
	return slices.IndexFunc(n.entries, func(e entry[K, V]) bool { return e.key == key })
}
