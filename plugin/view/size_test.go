package view

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSnapshotBytes compares the size of a snapshot with the memory that the objects in it have taken.
func TestSnapshotBytes(t *testing.T) {
	for name, fill := range map[string]func(s *Snapshot){
		"pods": func(s *Snapshot) {
			for range 2000 {
				s.Pods = append(s.Pods, *s.Pods[0].DeepCopy())
			}
		},
		"annotations": func(s *Snapshot) {
			for range 500 {
				s.Pods = append(s.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", 10_000)}}})
			}
		},
		"managed fields": func(s *Snapshot) {
			for range 500 {
				entry := metav1.ManagedFieldsEntry{FieldsV1: &metav1.FieldsV1{Raw: []byte(strings.Repeat("x", 10_000))}}
				s.Pods = append(s.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry}}})
			}
		},
		"untyped": func(s *Snapshot) {
			for range 20 {
				var items []any
				for range 2000 {
					items = append(items, map[string]any{"name": strings.Repeat("a", 20), "path": strings.Repeat("b", 30), "port": int64(80)})
				}
				s.Around = append(s.Around, unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"rules": items}}})
			}
		},
	} {
		s := cases()["image"]
		empty, before := s.Bytes(), heapBytes()
		fill(s)
		took, counted := heapBytes()-before, s.Bytes()-empty
		if took < 1<<20 || counted < took/2 || counted > took*2 {
			t.Errorf("%s: %d bytes are counted, and %d are taken", name, counted, took)
		}
	}
}

// heapBytes returns how many bytes are in use.
func heapBytes() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
