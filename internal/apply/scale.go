package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/reconciler"
)

// ScaleRequest is a number of pods at which a Deployment should be held that need not belong to its owner.
type ScaleRequest struct {
	// Owner is the custom resource that holds it, Manager the field owner to write with; see Request.
	Owner   client.Object
	Manager string
	// Deployment is the last observed Deployment.
	Deployment *appsv1.Deployment
	// Replicas is the number of pods.
	Replicas int32
}

// owner returns the key of the owner.
func (req *ScaleRequest) owner() ownerKey {
	return ownerKey{req.Manager, client.ObjectKeyFromObject(req.Owner)}
}

// Scale sets the number of pods by the Deployment's scale subresource, and returns the outcome. Nothing else of the Deployment is written. If the API
// server sets another number, as a policy can have it do, the outcome says when to try again. Scale has the errors of Run.
func (e *Engine) Scale(ctx context.Context, request ScaleRequest, mode Mode) (Outcome, error) {
	req, d := &request, request.Deployment
	out := Outcome{Change: Change{Action: Unchanged, Kind: "Deployment", Name: d.Name}, Live: d}
	if mode != Write {
		return req.predictOutcome(out), nil
	}
	recorded := e.scaleMemory.get(req)
	if recorded.name != d.Name { // The owner can name another Deployment for ever.
		e.conflicts.forgetObject(req.owner(), objectNamed(out.Kind, recorded.name))
	}
	known := recorded.uid == d.UID && recorded.replicas == req.Replicas
	if recorded.uid == d.UID && isOlder(d.ResourceVersion, recorded.version) {
		return out, fmt.Errorf("%w: Deployment %s is not seen as it was scaled", reconciler.ErrStale, d.Name)
	}
	if ptr.Deref(d.Spec.Replicas, 1) == req.Replicas {
		e.scaleMemory.set(req, scaleRecord{version: d.ResourceVersion})
		return out, nil
	}
	now := e.conflicts.clock.Now()
	if known && recorded.waits(d, now) {
		out.RetryAfter = conflictMaxDelay - now.Sub(recorded.answered)
		return out, nil
	}
	p := newKnownPlan(&Object{Desired: d, Live: d}, appsv1.SchemeGroupVersion.WithKind("Deployment"), Scaled)
	of, before := &Request{Owner: req.Owner, Manager: req.Manager}, fight{}
	if known {
		// It has had this number, and another writer has changed it.
		before = e.conflicts.snapshotOf(of, p)
		if retry, fighting := e.conflicts.noteRepair(of, p); fighting {
			return out, fieldConflict(p, e.withManagers(ctx, p, d), fieldpath.NewSet(children.ReplicasPath), retry)
		}
	}
	scale, err := e.patchScale(ctx, req)
	if err != nil {
		if known { // A request that failed is no sign of a conflict.
			e.conflicts.restoreSnapshot(of, p, before)
		}
		return out, e.classifyError(p, err)
	}
	if known && scale.Spec.Replicas == ptr.Deref(d.Spec.Replicas, 1) { // Nor is a request that changed nothing.
		e.conflicts.restoreSnapshot(of, p, before)
	} else if known {
		repairs.WithLabelValues(out.Kind).Inc()
	}
	return e.noteScale(req, scale, out), nil
}

// noteScale remembers an answer to patchScale, and returns the outcome with it.
func (e *Engine) noteScale(req *ScaleRequest, scale *autoscalingv1.Scale, out Outcome) Outcome {
	record, number := scaleRecord{version: scale.ResourceVersion}, scale.Spec.Replicas
	if number != req.Replicas {
		record.answer, record.answered, out.RetryAfter = number, e.conflicts.clock.Now(), conflictMaxDelay
	}
	e.scaleMemory.set(req, record)
	if number != ptr.Deref(req.Deployment.Spec.Replicas, 1) {
		out.Live, out.Action = withScale(req.Deployment, scale), Scaled
		writes.WithLabelValues(out.Kind, string(out.Action)).Inc()
	}
	return out
}

// predictOutcome returns the outcome that a write would have.
func (req *ScaleRequest) predictOutcome(out Outcome) Outcome {
	if ptr.Deref(req.Deployment.Spec.Replicas, 1) != req.Replicas {
		out.Action, out.Fields = Scaled, []string{"replicas"}
	}
	after := req.Deployment.DeepCopy()
	after.Spec.Replicas = &req.Replicas
	to := strconv.Itoa(int(req.Replicas))
	out.Before, out.After = req.Deployment, after
	out.Differences = []describe.Difference{{Path: "replicas", How: describe.FieldModified, To: &to}}
	return out
}

// patchScale writes the number of pods. The API server refuses it for a later Deployment of the same name.
func (e *Engine) patchScale(ctx context.Context, req *ScaleRequest) (*autoscalingv1.Scale, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": req.Deployment.UID},
		"spec":     map[string]any{"replicas": req.Replicas},
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var scale autoscalingv1.Scale
	err = e.client.SubResource("scale").Patch(ctx, req.Deployment, client.RawPatch(types.MergePatchType, data),
		client.WithSubResourceBody(&scale), client.FieldOwner(req.Manager),
		// It would note the version that the Deployment had before, as the answer is no Deployment.
		client.DisableReadYourWritesConsistency)
	return &scale, err
}

// withScale returns the Deployment after an answer to patchScale. The answer lacks the generation, which increases
// with every change of the spec.
func withScale(d *appsv1.Deployment, scale *autoscalingv1.Scale) *appsv1.Deployment {
	d = d.DeepCopy()
	d.ResourceVersion = scale.ResourceVersion
	d.Spec.Replicas = ptr.To(scale.Spec.Replicas)
	d.Generation++
	return d
}

// withManagers returns the Deployment with its managed fields, which a foreign one is seen without; should they not be
// readable, as it was seen.
func (e *Engine) withManagers(ctx context.Context, p *objectPlan, d *appsv1.Deployment) client.Object {
	if live, err := e.readLive(ctx, p); err == nil && live.GetUID() == d.UID {
		return live
	}
	return d
}

// isOlder reports whether one resource version of an object is of before another. Where they cannot be compared it is not.
func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// scaleMemory remembers at which numbers Deployments were found or put, one for each owner. It distinguishes a
// number that another client has changed from a new number of the spec, and a view from before a write from a view after it. After a
// restart of the operator, which forgets them, the first repair counts as a new number of the spec.
type scaleMemory struct {
	mu     sync.Mutex
	owners map[ownerKey]scaleRecord
}

type scaleRecord struct {
	name     string
	uid      types.UID
	replicas int32
	// version is the Deployment's when it had that number.
	version string
	// answer is the number that the API server set in place of replicas, and answered is when it did, the zero value for never.
	answer   int32
	answered time.Time
}

// waits reports whether the API server has set the number of a Deployment in place of the wanted one, and it is too early to try again.
func (r *scaleRecord) waits(d *appsv1.Deployment, now time.Time) bool {
	return !r.answered.IsZero() && ptr.Deref(d.Spec.Replicas, 1) == r.answer && now.Sub(r.answered) < conflictMaxDelay
}

func newScaleMemory() *scaleMemory { return &scaleMemory{owners: map[ownerKey]scaleRecord{}} }

func (h *scaleMemory) get(req *ScaleRequest) scaleRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[req.owner()]
}

func (h *scaleMemory) set(req *ScaleRequest, record scaleRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	record.name, record.uid, record.replicas = req.Deployment.Name, req.Deployment.UID, req.Replicas
	h.owners[req.owner()] = record
}

func (h *scaleMemory) forgetOwner(manager string, owner types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.owners, ownerKey{manager, owner})
}
