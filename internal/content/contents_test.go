package content

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/resource"
)

func configMap(namespace, name string) Object {
	return Object{Kind: resource.KindConfigMap, NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// contentOf returns the content of an object with many keys.
func contentOf(version string, keys int) Content {
	values := make(map[string]string, keys)
	for i := range keys {
		values[fmt.Sprintf("key-%d", i)] = ""
	}
	return Content{Version: version, Digests: resource.DigestContent(nil, "shop", "ConfigMap/web", values, nil)}
}

// TestContentsAreBounded keeps contents of any size in many namespaces: neither a namespace nor all of them exceed their budgets, what is
// found is what was kept last, and what a small namespace has is not evicted by a large one.
func TestContentsAreBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := &contents{}
	small := configMap("small", "web")
	c.keep(small, "1", contentOf("1", 10))
	for i := range 600 {
		namespace := fmt.Sprintf("large-%d", random.IntN(20))
		name, version := configMap(namespace, fmt.Sprintf("c%d", random.IntN(12))), fmt.Sprint(i)
		content := contentOf(version, random.IntN(30_000))
		c.keep(name, version, content)
		if found, ok := c.find(name, version); ok && found.Version != version {
			t.Fatalf("version %s is kept as %s", version, found.Version)
		}
		if _, ok := c.find(name, "another"); ok {
			t.Fatal("another version is found")
		}
		total := 0
		for namespace, of := range c.namespaces {
			sum := 0
			for _, k := range of.objects {
				sum += k.bytes
			}
			if sum != of.bytes || sum > maxNamespaceBytes {
				t.Fatalf("namespace %s has %d bytes, counted as %d", namespace, sum, of.bytes)
			}
			total += sum
		}
		if total != c.bytes || total > maxBytes {
			t.Fatalf("%d bytes are kept, counted as %d", total, c.bytes)
		}
	}
	if _, ok := c.find(small, "1"); !ok {
		t.Error("the content of a small namespace was evicted")
	}
	for i := range 20 {
		for k := range 12 {
			c.forget(configMap(fmt.Sprintf("large-%d", i), fmt.Sprintf("c%d", k)))
		}
	}
	c.forget(small)
	if c.bytes != 0 || len(c.namespaces) != 0 {
		t.Errorf("%d bytes of %d namespaces are left", c.bytes, len(c.namespaces))
	}
}

// TestContentsAreCounted compares the counted bytes of contents with their memory.
func TestContentsAreCounted(t *testing.T) {
	for _, keys := range []int{0, 1, 10, 1000, 15_000} {
		c := &contents{}
		c.keep(configMap("shop", "web"), "1", contentOf("1", keys))
		if used := heap.Size(c); used > c.bytes {
			t.Errorf("%d keys take %d bytes, counted as %d", keys, used, c.bytes)
		}
	}
}

// TestContentBeyondTheBudget keeps content that is larger than the share of a namespace: it is not found, and replaces the former one.
func TestContentBeyondTheBudget(t *testing.T) {
	c := &contents{}
	name := configMap("shop", "web")
	c.keep(name, "1", contentOf("1", 10))
	c.keep(name, "2", contentOf("2", 100_000))
	for _, version := range []string{"1", "2"} {
		if _, ok := c.find(name, version); ok {
			t.Errorf("version %s is kept", version)
		}
	}
	if c.bytes != 0 {
		t.Errorf("%d bytes are kept", c.bytes)
	}
}
