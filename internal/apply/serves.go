package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/answers"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/internal/reconciler"
)

// CheckServes returns an error if a live Service or ServiceAccount serves pods that are not the owner's, so that its adoption would cut
// them off; see claim.Children. It may ask the API server. live is the whole object; for an object of another type the answer is nil.
func (e *Engine) CheckServes(ctx context.Context, req *Request, child *Object, live client.Object) error {
	if metav1.IsControlledBy(live, req.Owner) {
		return nil
	}
	children := make(claim.Children, len(req.Objects))
	for i := range req.Objects {
		children[i].Wanted = req.Objects[i].Desired
		if req.Objects[i].Live != nil {
			children[i].Live = req.Objects[i].Live
		}
	}
	words, err := children.Serves(ctx, neighbours{e}, child.Desired, live)
	if err != nil || words == "" {
		return err
	}
	return &reconciler.StalledError{
		Reason: appv1.ReasonResourceExists, Message: words, RetryAfter: lookAgain, // The pods of others are not watched.
	}
}

// neighbours is the claim.Cluster of an engine.
type neighbours struct{ engine *Engine }

// Selecting implements claim.Cluster. It reads the cache, which has the selectors of foreign objects.
func (n neighbours) Selecting(ctx context.Context, namespace string, do func(claim.Object, *metav1.LabelSelector) bool) error {
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	for _, list := range []client.ObjectList{&deployments, &sets} {
		if err := n.engine.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list workload objects: %w", err)
		}
	}
	for i := range deployments.Items {
		if !do(&deployments.Items[i], deployments.Items[i].Spec.Selector) {
			return nil
		}
	}
	for i := range sets.Items {
		if !do(&sets.Items[i], sets.Items[i].Spec.Selector) {
			return nil
		}
	}
	return nil
}

// firstChunk is how many objects that create pods the first request returns, and largestChunk how many a request returns at most. Each object may have
// the size of a large template, so that a chunk grows from part to part as long as its answer finds room.
const firstChunk, largestChunk = 4, 64

// templatesBytes is how many bytes are read at most for one look at the objects of a namespace that create pods: over 1,000 objects of usual length.
const templatesBytes = 16 << 20

// templatesTurn has one chunk at a time be read, in all engines of the process.
var templatesTurn = make(chan struct{}, 1)

// Templates implements claim.Cluster. It reads the API server: the cache has no templates of foreign objects.
func (n neighbours) Templates(ctx context.Context, namespace string, do func(claim.Object, *corev1.PodTemplateSpec) bool) error {
	ctx = answers.Limit(ctx, templatesBytes)
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &batchv1.CronJobList{}, &batchv1.JobList{},
	} {
		if more, err := n.templatesIn(ctx, namespace, list, do); err != nil || !more {
			return err
		}
	}
	return nil
}

// templatesIn is Templates for the type of a list. It reports whether do wants more.
func (n neighbours) templatesIn(
	ctx context.Context, namespace string, list client.ObjectList, do func(claim.Object, *corev1.PodTemplateSpec) bool,
) (more bool, err error) {
	look := func(item runtime.Object) error {
		workload, ok := item.(client.Object)
		if template := claim.TemplateOf(item); more && ok && template != nil {
			more = do(workload, template)
		}
		return nil
	}
	more = true
	for size, most := int64(firstChunk), int64(largestChunk); more; {
		err := n.eachInChunk(ctx, list, look, client.InNamespace(namespace), client.Limit(size), client.Continue(list.GetContinue()))
		switch {
		case errors.Is(err, answers.ErrNoRoom) && size > 1:
			size /= 2
			most = size
		case errors.Is(err, answers.ErrTooLong):
			return false, fmt.Errorf("list workload objects: %w", claim.ErrTooLong)
		case err != nil:
			return false, fmt.Errorf("list workload objects: %w", err)
		case list.GetContinue() == "":
			return more, nil
		default:
			size = min(2*size, most)
		}
	}
	return more, nil
}

// eachInChunk reads a part of a list from the API server, in its turn, and calls do for each object. Nothing of the part is held afterwards.
func (n neighbours) eachInChunk(ctx context.Context, list client.ObjectList, do func(runtime.Object) error, options ...client.ListOption) error {
	select {
	case templatesTurn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-templatesTurn }()
	part, release := answers.HoldPart(ctx)
	defer release()
	if err := n.engine.live.List(part, list, options...); err != nil {
		return err
	}
	defer func() { _ = meta.SetList(list, nil) }() // The next part does not wait for the collection of this one.
	return meta.EachListItem(list, do)
}

// podAccount is the field of a pod by which the API server finds the pods of an account.
const podAccount = "spec.serviceAccountName"

// AnyPod implements claim.Cluster. It asks the API server for one pod.
func (n neighbours) AnyPod(ctx context.Context, namespace string, selector labels.Selector, account string) (bool, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	var options []client.ListOption
	if account != "" {
		options = append(options, client.MatchingFields{podAccount: account})
	}
	options = append(options, client.InNamespace(namespace), client.Limit(1), client.MatchingLabelsSelector{Selector: selector})
	if err := n.engine.live.List(ctx, pods, options...); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	return len(pods.Items) > 0, nil
}

// PodLabels implements claim.Cluster. The cache does not have the pod template of a foreign object.
func (n neighbours) PodLabels(ctx context.Context, live claim.Object) (map[string]string, error) {
	known := claim.PodLabels(live)
	if len(known) > 0 || known == nil {
		return known, nil
	}
	whole, ok := reflect.New(reflect.TypeOf(live).Elem()).Interface().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", live)
	}
	err := client.IgnoreNotFound(n.engine.live.Get(ctx, client.ObjectKey{Namespace: live.GetNamespace(), Name: live.GetName()}, whole))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", live.GetName(), err)
	}
	return claim.PodLabels(whole), nil
}

// planExplained is planLocally for a caller that may ask the API server: of a foreign Service, the cache does not have the selector, by which
// it can be adopted or not. Of what cannot be read, the error stays as it is.
func (e *Engine) planExplained(ctx context.Context, req *Request, child *Object) (objectPlan, error) {
	p, err := e.planLocally(req, child)
	if err == nil || !unknownSelector(child, err) {
		return p, err
	}
	live, unread := e.readLive(ctx, &p)
	switch {
	case errors.Is(unread, reconciler.ErrStale):
		return p, unread
	case unread != nil:
		return p, err
	}
	p.whole = true
	taken := p.checkOwnership(req, live)
	if taken == nil {
		return p, reconciler.ErrStale // The cache has an earlier version.
	}
	if !unknownSelector(child, taken) {
		return p, taken
	}
	var stalled *reconciler.StalledError
	switch serves := e.CheckServes(ctx, req, child, live); {
	case serves == nil:
		return p, taken
	case errors.As(serves, &stalled):
		return p, serves
	}
	return p, err
}

// unknownSelector reports whether an error says that a Service which nothing controls is in the way.
func unknownSelector(child *Object, err error) bool {
	_, service := child.Desired.(*corev1.Service)
	var stalled *reconciler.StalledError
	return service && child.Live != nil && metav1.GetControllerOf(child.Live) == nil &&
		errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// claimWhole is claimLive for a whole live object, which is adopted only if it serves no pods of others.
func (e *Engine) claimWhole(ctx context.Context, req *Request, p *objectPlan, live client.Object) error {
	if err := p.claimLive(req, live); err != nil || !p.claim.takesOver() {
		return err
	}
	return e.CheckServes(ctx, req, p.object, live)
}
