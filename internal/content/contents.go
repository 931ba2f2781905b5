package content

import "huolala.cn/app-operator/internal/shares"

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

// contents keeps the digests of objects. Content beyond the budget is read again.
type contents struct {
	kept *shares.Store[Object, keptContent]
}

// keptContent is the content of an object as it was read last. Of values there are digests alone.
type keptContent struct {
	// asked is the requested version; the read may have returned a newer one.
	asked   string
	content Content
}

func newContents() contents {
	return contents{shares.New[Object, keptContent](maxNamespaceBytes, maxBytes)}
}

// findContent returns the content of an object that was read for a version, or that had this version, and reports whether it is kept.
func (c contents) findContent(name Object, version string) (Content, bool) {
	k, ok := c.kept.Get(name.Namespace, name)
	return k.content, ok && (version == k.asked || version == k.content.Version)
}

// keepContent keeps the content of an object that was read for a version, in place of an earlier one.
func (c contents) keepContent(name Object, asked string, content Content) {
	c.kept.Put(name.Namespace, name, keptContent{asked: asked, content: content}, objectBytes+content.Digests.Bytes())
}

// forgetContent removes the content of an object that is no longer followed.
func (c contents) forgetContent(name Object) { c.kept.Delete(name.Namespace, name) }
