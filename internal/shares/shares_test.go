package shares

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// check compares the counted bytes with the entries, and both with the limits.
func check(t *testing.T, s *Store[string, int]) {
	t.Helper()
	total := 0
	for name, of := range s.namespaces {
		sum := 0
		for _, e := range of.entries {
			sum += e.bytes
		}
		if sum != of.bytes || sum > s.share || len(of.entries) == 0 {
			t.Fatalf("namespace %s has %d bytes in %d values, counted as %d", name, sum, len(of.entries), of.bytes)
		}
		total += sum
	}
	if total != s.bytes || total > s.budget {
		t.Fatalf("%d bytes are kept, counted as %d", total, s.bytes)
	}
}

// TestBudget keeps values of any size in many namespaces: neither a namespace nor all of them exceed their limits, a value that is found
// was kept last, and the value of a small namespace is not dropped for those of large ones.
func TestBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := New[string, int](1000, 4000)
	s.Put("small", "a", -1, 50)
	for i := range 2000 {
		in, key := fmt.Sprintf("large-%d", random.IntN(20)), fmt.Sprint(random.IntN(12))
		size := random.IntN(1100)
		s.Put(in, key, i, size)
		check(t, s)
		if found, ok := s.Get(in, key); ok && found != i || ok && size > s.share {
			t.Fatalf("value %d of %d bytes is kept as %d", i, size, found)
		}
	}
	if value, ok := s.Get("small", "a"); !ok || value != -1 {
		t.Error("the value of a small namespace was dropped")
	}
	for i := range 20 {
		for key := range 12 {
			s.Delete(fmt.Sprintf("large-%d", i), fmt.Sprint(key))
			check(t, s)
		}
	}
	s.Delete("small", "a")
	s.Delete("none", "a")
	if values, bytes := s.Used(); values != 0 || bytes != 0 || len(s.namespaces) != 0 {
		t.Errorf("%d bytes of %d values are left", bytes, values)
	}
}

// TestShare fills the share of a namespace to the byte: one more drops the oldest value of this namespace alone.
func TestShare(t *testing.T) {
	s := New[string, int](100, 1000)
	s.Put("other", "a", 0, 100)
	s.Put("one", "a", 1, 50)
	s.Put("one", "b", 2, 50)
	for _, key := range []string{"a", "b"} {
		if _, ok := s.Get("one", key); !ok {
			t.Errorf("value %s within the share is not kept", key)
		}
	}
	s.Put("one", "c", 3, 1)
	for key, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if _, ok := s.Get("one", key); ok != want {
			t.Errorf("value %s is kept: %t", key, ok)
		}
	}
	s.Put("one", "b", 4, 101)
	if _, ok := s.Get("one", "b"); ok {
		t.Error("a value beyond the share is kept, or the one before it")
	}
	if _, ok := s.Get("other", "a"); !ok {
		t.Error("the value of another namespace was dropped")
	}
	check(t, s)
}
