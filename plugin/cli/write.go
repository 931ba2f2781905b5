package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/plugin/view"
)

// retries is how often a change that means the same whatever else has changed is tried again after a conflict.
const retries = 5

// errUnchanged is the error for a change without an effect.
var errUnchanged = errors.New("nothing to change")

// errDeleting is the error for a change of a resource that is being deleted.
var errDeleting = errors.New("is being deleted, and was not changed")

// checkNotDeleting returns an error for a resource that is being deleted: no change of it takes effect any more.
func checkNotDeleting(r *view.Resource) error {
	if r.ObjectMeta.DeletionTimestamp == nil {
		return nil
	}
	return fmt.Errorf("%s %w", r.ObjectName(), errDeleting)
}

// changeResource reads a resource and patches it as long as it stays as it was read, again if another has changed it meanwhile. what returns
// the JSON merge patch without metadata.resourceVersion, which is added. The result is the resource as it was, with the version that it has after the patch.
func (c *clients) changeResource(ctx context.Context, t target, what func(*view.Resource) (map[string]any, error)) (*view.Resource, error) {
	h := c.clientOf(t.kind, t.namespace)
	for try := 0; ; try++ {
		r, err := h.getResource(ctx, t.name)
		if err != nil {
			return nil, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
		}
		if err := checkNotDeleting(&r); err != nil {
			return &r, err
		}
		patch, err := what(&r)
		if err != nil {
			return &r, err
		}
		version, err := h.patchResource(ctx, t.name, types.MergePatchType, mergePatch(patch, r.ObjectMeta.ResourceVersion))
		if apierrors.IsConflict(err) && try < retries {
			continue
		}
		r.ObjectMeta.ResourceVersion = cmp.Or(version, r.ObjectMeta.ResourceVersion)
		return &r, inWords(err, "patch", t.kind.Name+" "+t.name, t.namespace)
	}
}

// mergePatch returns a JSON merge patch with the precondition that the object still has a resource version.
func mergePatch(patch map[string]any, resourceVersion string) []byte {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["resourceVersion"] = resourceVersion
	patch["metadata"] = metadata
	// Maps of strings and booleans always have a JSON form.
	data, _ := json.Marshal(patch)
	return data
}

// takesEffect returns when an annotation of a resource takes effect, empty for now.
func takesEffect(r *view.Resource) string {
	if r.Paused {
		return "; it is paused, so this takes effect once it is resumed"
	}
	return ""
}

// warnGitOps warns that a change in the cluster may be reverted from Git.
func (r *root) warnGitOps(resource *view.Resource) {
	if tool := resource.GitOps(); tool != "" {
		fmt.Fprintf(r.Err, "Warning: %s applies %s, and may restore what is changed here. Change it in Git.\n", tool, resource.ObjectName())
	}
}

// staleFor is for how long a status that has not changed since a change of the resource may be a status from before.
const staleFor = 15 * time.Second

// written is a resource that a command has changed, or whose workloads it has changed.
type written struct {
	target
	// version is the version of the resource with the change, or from before a change of its workloads. It is empty if nothing was changed, and may be
	// empty for a change of the spec, whose generation tells a status from before.
	version string
	at      time.Time
}

// writtenNow returns a target that has just been changed, with the resource and the error that changeResource returns.
func writtenNow(t target, resource *view.Resource, err error) written {
	if err != nil {
		return written{target: t}
	}
	return written{t, resource.ObjectMeta.ResourceVersion, time.Now()}
}

// isStale reports whether the status of a resource may be from before the change. An annotation and a restart are no change of the generation, so that a
// status from before looks like a status from after.
func (w *written) isStale(now *view.Resource) bool {
	return w.isUnchanged(now) && time.Since(w.at) <= staleFor
}

// isUnchanged reports whether nothing has written the resource since the change, not even its status.
func (w *written) isUnchanged(now *view.Resource) bool {
	return w.version != "" && now.ObjectMeta.ResourceVersion == w.version
}

// waitForWritten waits for the resources, if that is wanted.
func (r *root) waitForWritten(ctx context.Context, c *clients, wait bool, all ...written) error {
	if !wait {
		return nil
	}
	for i := range all {
		if err := r.waitFor(ctx, c, all[i].target, waitAfter(&all[i])); err != nil {
			return err
		}
	}
	return nil
}
