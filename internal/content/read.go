package content

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"huolala.cn/app-operator/resource"
)

// Content is the content of an object as read.
type Content struct {
	// Version is the object's resource version, empty for a missing object.
	Version string
	Digests resource.ContentDigests
	// Key made the digests of a Secret.
	Key Key
}

// Read returns the content of an object that is followed, and whose version is known. All resources that follow the object share
// one request for each version, while the content is within the budget; beyond it, each call sends a request.
func (w *Watch) Read(ctx context.Context, name Object, version string) (Content, error) {
	if w.foresight != nil {
		if content, ok := w.foresight.knownContent(name, version); ok {
			return content, nil
		}
		return w.foresight.contentOf(ctx, w, name)
	}
	w.mu.Lock()
	followed := w.objects[name]
	w.mu.Unlock()
	if followed == nil {
		return Content{}, ErrNotSynced
	}
	followed.reading.Lock()
	defer followed.reading.Unlock()
	if content, ok := w.contents.findContent(name, version); ok {
		return content, nil
	}
	content, err := w.readLive(ctx, name)
	if err != nil {
		return Content{}, fmt.Errorf("read %s %s: %w", name.Kind, name.NamespacedName, err)
	}
	w.contents.keepContent(name, version, content)
	return content, nil
}

// readLive reads an object from the API server.
func (w *Watch) readLive(ctx context.Context, name Object) (Content, error) {
	id := name.Kind + "/" + name.Name
	if name.Kind == resource.KindConfigMap {
		found := &corev1.ConfigMap{}
		if err := w.opts.Live.Get(ctx, name.NamespacedName, found); err != nil {
			return Content{}, ignoreNotFound(err)
		}
		return Content{
			Version: found.ResourceVersion,
			Digests: resource.DigestContent(nil, name.Namespace, id, found.Data, found.BinaryData),
		}, nil
	}
	key, err := w.SecretKey(ctx)
	if err != nil {
		return Content{}, err
	}
	found := &corev1.Secret{}
	if err := w.opts.Live.Get(ctx, name.NamespacedName, found); err != nil {
		return Content{}, ignoreNotFound(err)
	}
	values := make(map[string]string, len(found.Data))
	for name, value := range found.Data {
		values[name] = string(value)
	}
	return Content{Version: found.ResourceVersion, Key: key, Digests: resource.DigestContent(key.bytes, name.Namespace, id, values, nil)}, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Sum returns the sum of the keys in use, empty for an object that does not exist.
func (c *Content) Sum(r *resource.ConfigReference, namespace string) string {
	if c.Version == "" {
		return ""
	}
	return r.Sum(c.Key.bytes, namespace, c.Digests)
}
