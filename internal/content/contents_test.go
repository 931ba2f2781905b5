package content

import (
	"fmt"
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

// TestContents finds content by the requested version and by its own one.
func TestContents(t *testing.T) {
	c := newContents()
	name := configMap("shop", "web")
	c.keepContent(name, "1", contentOf("2", 10))
	for version, want := range map[string]bool{"1": true, "2": true, "3": false, "": false} {
		if found, ok := c.findContent(name, version); ok != want || ok && found.Version != "2" {
			t.Errorf("version %q is found as %q: %t", version, found.Version, ok)
		}
	}
	c.forgetContent(name)
	if _, ok := c.findContent(name, "1"); ok {
		t.Error("forgotten content is found")
	}
}

// TestContentsAreCounted compares the counted bytes of contents with their memory.
func TestContentsAreCounted(t *testing.T) {
	for _, keys := range []int{0, 1, 10, 1000, 15_000} {
		c := newContents()
		c.keepContent(configMap("shop", "web"), "1", contentOf("1", keys))
		if _, bytes := c.kept.Used(); heap.Size(c) > bytes {
			t.Errorf("%d keys take %d bytes, counted as %d", keys, heap.Size(c), bytes)
		}
	}
}

// TestContentBeyondTheBudget keeps content that is larger than the share of a namespace: it is not found, and replaces the former one.
func TestContentBeyondTheBudget(t *testing.T) {
	c := newContents()
	name := configMap("shop", "web")
	c.keepContent(name, "1", contentOf("1", 10))
	c.keepContent(name, "2", contentOf("2", 100_000))
	for _, version := range []string{"1", "2"} {
		if _, ok := c.findContent(name, version); ok {
			t.Errorf("version %s is kept", version)
		}
	}
}
