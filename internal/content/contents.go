package content

import (
	"slices"
	"sync"
)

const (
	// maxNamespaceBytes is the memory that the digests of the objects of one namespace may take, in bytes: about 20,000 keys.
	maxNamespaceBytes = 2 << 20
	// maxBytes is the memory of the digests of all objects, in bytes.
	maxBytes = 16 << 20
	// objectBytes is the memory of an entry without its digests, in bytes.
	objectBytes = 512
)

// anyVersion is the requested version of a plan, which reads an object once.
const anyVersion = "any"

// contents keeps the digests of objects within a budget for each namespace, and for all of them. Content beyond the budget is not kept: the
// oldest of the namespace that has the most goes first. The zero value is empty.
type contents struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceContents
	bytes      int
}

// namespaceContents are the contents of one namespace, the oldest first.
type namespaceContents struct {
	objects []keptContent
	bytes   int
}

// keptContent is the content of an object as it was read last. Of values there are digests alone.
type keptContent struct {
	name Object
	// asked is the requested version; the read may have returned a newer one.
	asked   string
	content Content
	bytes   int
}

// find returns the content of an object that was read for a version, or that had this version, and reports whether it is kept.
func (c *contents) find(name Object, version string) (Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.namespaces[name.Namespace]
	if of == nil {
		return Content{}, false
	}
	i := of.index(name)
	if i < 0 {
		return Content{}, false
	}
	k := &of.objects[i]
	return k.content, version == k.asked || version == k.content.Version
}

// keep keeps the content of an object that was read for a version, in place of an earlier one.
func (c *contents) keep(name Object, asked string, content Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name)
	kept := keptContent{name: name, asked: asked, content: content, bytes: objectBytes + content.Digests.Bytes()}
	if kept.bytes > maxNamespaceBytes {
		return
	}
	of := c.namespaces[name.Namespace]
	if of == nil {
		of = &namespaceContents{}
		if c.namespaces == nil {
			c.namespaces = map[string]*namespaceContents{}
		}
		c.namespaces[name.Namespace] = of
	}
	of.objects = append(of.objects, kept)
	of.bytes += kept.bytes
	c.bytes += kept.bytes
	for of.bytes > maxNamespaceBytes {
		c.remove(of.objects[0].name)
	}
	for c.bytes > maxBytes {
		c.remove(c.largest().objects[0].name)
	}
}

// forget removes the content of an object that is no longer followed.
func (c *contents) forget(name Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(name)
}

func (c *contents) remove(name Object) {
	of := c.namespaces[name.Namespace]
	if of == nil {
		return
	}
	i := of.index(name)
	if i < 0 {
		return
	}
	size := of.objects[i].bytes
	of.objects = slices.Delete(of.objects, i, i+1)
	of.bytes -= size
	c.bytes -= size
	if len(of.objects) == 0 {
		delete(c.namespaces, name.Namespace)
	}
}

// largest returns the contents of the namespace with the most bytes.
func (c *contents) largest() *namespaceContents {
	var largest *namespaceContents
	for _, of := range c.namespaces {
		if largest == nil || of.bytes > largest.bytes {
			largest = of
		}
	}
	return largest
}

func (n *namespaceContents) index(name Object) int {
	return slices.IndexFunc(n.objects, func(k keptContent) bool { return k.name == name })
}
