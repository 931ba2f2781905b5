package workload

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.configRollout is OnChange, the pods are replaced when the content changes that they use of ConfigMaps and Secrets. What
// content they have is in the record of the inputs; the present content is compared with the record, and nothing else decides.

// readAgain is when content is read again that could not be read.
const readAgain = 10 * time.Second

// foundContent is content that was read, or that is known without a read.
type foundContent struct{ version, sum string }

// contentNeed is the content that decideSpec must know.
type contentNeed struct {
	refs []resource.ConfigReference
	// recorded is the record of the content that the pods have.
	recorded resource.ConfigInputs
	// specChanged is true if the spec replaces the pods; replaced is true if anything replaces the pods.
	specChanged, replaced bool
	// inCanary is true if recorded is of a canary, whose content the status does not have.
	inCanary bool
}

// contentRead is the answer to a need of content.
type contentRead struct {
	need *contentNeed
	// unwatched are the kinds whose objects cannot be watched: their content is not read, and that of other kinds is.
	unwatched map[string]error
	// found are the digests of the content, by the ID of the reference.
	found map[string]foundContent
	// key is the ID of the key of the sums of Secrets, empty if no Secret is followed.
	key string
	// complete is false where trouble was in the way before everything was looked at.
	complete bool
	// trouble is why content is not followed, and retry when to look again.
	trouble reconciler.ReasonAndMessage
	retry   time.Duration
}

// contentDecision is the decision on the content that the pods use.
type contentDecision struct {
	// forget is true where no content is to be followed any longer.
	forget bool
	refs   []resource.ConfigReference
	found  map[string]foundContent
	// next is the next record. looked is true if it is of content that was read now.
	next   resource.ConfigInputs
	looked bool
	// changed are the objects whose content replaces pods.
	changed []string
	// waits is true if content was not read, as its change is not due yet.
	waits bool
	// unfollowed are the Secrets that are not followed, trouble is why content is not, and retry when to look again.
	unfollowed []string
	trouble    reconciler.ReasonAndMessage
	retry      time.Duration
}

// hasAll reports whether all objects of a mark that the pods use exist and were read.
func (d *contentDecision) hasAll(mark *resource.ContentMark) bool {
	return !slices.ContainsFunc(d.refs, func(ref resource.ConfigReference) bool {
		return mark.Has(ref.ID()) && d.found[ref.ID()].sum == ""
	})
}

// differsFrom reports whether an object that was read has other content than a mark.
func (d *contentDecision) differsFrom(mark *resource.ContentMark) bool {
	for id, found := range d.found {
		if mark.Differs(id, found.sum, d.next.Key) {
			return true
		}
	}
	return false
}

// decideContent returns the content to record of the content that the pods of a workload use. Without a change, this is the recorded content.
func (c decider) decideContent(chosen *builtSpec) (contentDecision, *need) {
	recorded := chosen.inputs.Config
	if !c.in.followsContent() {
		return contentDecision{forget: true, next: recorded.Unfollowed()}, nil
	}
	made := contentDecision{next: recorded}
	for _, r := range resource.ConfigReferences(&chosen.workload.Template) {
		if r.Kind == resource.KindSecret && !c.secrets {
			made.unfollowed = append(made.unfollowed, r.Name)
			continue
		}
		made.refs = append(made.refs, r)
	}
	if resource.RecordSize(made.refs) > resource.MaxConfigObjects {
		made.forget, made.next = true, recorded.Unfollowed()
		made.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonTooManyReferences, Message: messageTooManyReferences}
		return made, nil
	}
	replaced := c.seen.Object == nil || chosen.specChanged || c.changesInputs(chosen)
	read := c.seen.content
	if read == nil {
		return made, &need{content: &contentNeed{
			refs: made.refs, recorded: recorded, specChanged: chosen.specChanged, replaced: replaced, inCanary: chosen.inCanary,
		}}
	}
	made.found, made.trouble, made.retry = read.found, read.trouble, read.retry
	if !read.complete {
		return made, nil
	}
	seen := map[string]resource.Content{}
	for i := range made.refs {
		r := &made.refs[i]
		found, isRead := read.found[r.ID()]
		seen[r.ID()] = resource.Content{Sum: found.sum, Optional: r.Optional, Unread: !isRead}
		made.waits = made.waits || !isRead && read.unwatched[r.Kind] == nil
	}
	moment := resource.MomentSettled // Content that is not due was not read.
	if replaced {
		moment = resource.MomentReplaced
	}
	made.looked = true
	if made.next, made.changed = recorded.Follow(seen, read.key, moment); replaced {
		made.changed = nil
	}
	return made, nil
}

// changesInputs reports whether the chosen inputs make another pod template of the present spec than the recorded ones, as after a refresh or in a
// wave. The content is left out.
func (c decider) changesInputs(chosen *builtSpec) bool {
	made := c.seen.Object
	if chosen.inCanary {
		made = c.seen.canary.object
	}
	recorded, err := inputsOf(made)
	if recorded.Config = chosen.inputs.Config; err != nil || recorded.SameTemplate(&chosen.inputs) {
		return false
	}
	was, errs := c.buildWorkload(recorded)
	return recorded.Kept || len(errs) > 0 || !equality.Semantic.DeepEqual(was.Template, chosen.workload.Template)
}

// contentReader reads the content that decideSpec needs.
type contentReader struct {
	watch *content.Watch
	in    *Input
	seen  *Observed
	*contentRead
}

// watchedRefs returns the references to objects that can be watched.
func (r contentReader) watchedRefs() []resource.ConfigReference {
	return slices.DeleteFunc(slices.Clone(r.need.refs), func(ref resource.ConfigReference) bool { return r.unwatched[ref.Kind] != nil })
}

// readContent reads the content that decideSpec needs, as far as a change of it is due. The error is reconciler.PostponedError while a
// new spec waits for the ConfigMaps of the same apply.
func readContent(ctx context.Context, watch *content.Watch, in *Input, seen *Observed, ask *contentNeed) (*contentRead, error) {
	r := contentReader{watch: watch, in: in, seen: seen, contentRead: &contentRead{need: ask, found: map[string]foundContent{}}}
	owner := in.contentOwner()
	r.unwatched = watch.Follow(ctx, owner, r.followedObjects())
	for _, kind := range slices.Sorted(maps.Keys(r.unwatched)) {
		if err := r.noteTrouble(ctx, r.unwatched[kind]); err != nil {
			return nil, err
		}
	}
	if len(r.unwatched) > 0 && len(r.watchedRefs()) == 0 {
		return r.contentRead, nil
	}
	if pause := watch.PauseSpec(owner, in.Owner.GetGeneration(), ask.specChanged && !in.Paused && len(ask.refs) > 0); pause > 0 {
		return nil, &reconciler.PostponedError{After: pause}
	}
	if err := r.readDue(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(ask.refs, func(ref resource.ConfigReference) bool { return ref.Kind == resource.KindSecret }) {
		made, err := watch.SecretKey(ctx)
		if err != nil {
			r.retry = reconciler.MinRequeue(r.retry, readAgain)
			return r.contentRead, r.noteTrouble(ctx, err)
		}
		r.key = made.ID
	}
	r.complete = true
	return r.contentRead, nil
}

// followedObjects returns the objects whose content is followed.
func (r contentReader) followedObjects() []content.Object {
	var objects []content.Object
	for i := range r.need.refs {
		objects = append(objects, contentObject(r.in.Owner.GetNamespace(), &r.need.refs[i]))
	}
	return objects
}

func contentObject(namespace string, r *resource.ConfigReference) content.Object {
	return content.Object{Kind: r.Kind, NamespacedName: types.NamespacedName{Namespace: namespace, Name: r.Name}}
}

// noteTrouble notes why content cannot be followed for now. The rest of the reconcile continues.
func (r contentReader) noteTrouble(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if r.trouble.Reason != "" {
		return nil
	}
	switch {
	case apierrors.IsForbidden(err):
		r.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonForbidden, Message: messageContentForbidden + message.Quote(err.Error())}
	case errors.Is(err, content.ErrNotSynced):
		r.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonProgressing, Message: messageContentNotSynced}
	default:
		ctrl.LoggerFrom(ctx).Error(err, "Cannot read content that the pods use")
		r.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonReadFailed, Message: messageContentUnreadable}
	}
	return nil
}

// readDue sets the digests of the content in use. Content of running or new pods is read now; content that would replace pods is read when
// isDue allows.
func (r contentReader) readDue(ctx context.Context) error {
	versions := map[string]string{}
	var late []content.Object
	refs := r.watchedRefs()
	for i := range refs {
		ref := &refs[i]
		known, follows := r.need.recorded.Objects[ref.ID()]
		trusted := ""
		if follows && !r.need.replaced && !r.need.inCanary { // New pods may use other keys of the same version.
			trusted = statusVersion(r.in, ref)
		}
		object := contentObject(r.in.Owner.GetNamespace(), ref)
		version, err := r.watch.Version(ctx, object, trusted)
		if err != nil {
			if err := r.noteTrouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		switch versions[ref.ID()] = version; {
		case version == "":
			r.found[ref.ID()] = foundContent{}
		case version == trusted:
			r.found[ref.ID()] = foundContent{version: version, sum: known}
		case !follows || r.need.replaced || known == "" && !ref.Optional:
			if err := r.readObject(ctx, ref, version); err != nil {
				return err
			}
		default:
			late = append(late, object)
		}
	}
	if len(late) == 0 || !r.isDue(late) {
		return nil
	}
	for i := range r.need.refs {
		ref := &r.need.refs[i]
		if slices.Contains(late, contentObject(r.in.Owner.GetNamespace(), ref)) {
			if err := r.readObject(ctx, ref, versions[ref.ID()]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readObject notes the sum of an object's content.
func (r contentReader) readObject(ctx context.Context, ref *resource.ConfigReference, version string) error {
	namespace := r.in.Owner.GetNamespace()
	read, err := r.watch.Read(ctx, contentObject(namespace, ref), version)
	if err != nil {
		r.retry = reconciler.MinRequeue(r.retry, readAgain)
		return r.noteTrouble(ctx, err)
	}
	r.found[ref.ID()] = foundContent{version: read.Version, sum: read.Sum(ref, namespace)}
	return nil
}

// isDue reports whether pods may be replaced for new content of some objects: no other rollout is under way, and the content is quiet.
// Pods that are in trouble get it at once.
func (r contentReader) isDue(objects []content.Object) bool {
	underWay, stuck := r.seen.rolloutState()
	if underWay && !stuck {
		return false // The end of the rollout is seen.
	}
	if wait := r.watch.Due(r.in.contentOwner(), objects, stuck); wait > 0 {
		r.retry = reconciler.MinRequeue(r.retry, wait)
		return false
	}
	return true
}

// rolloutState reports whether a rollout of the live Deployment is under way, and whether its pods are in trouble.
func (o *Observed) rolloutState() (underWay, stuck bool) {
	live := o.Deployment()
	if live == nil || o.Verdict.Ready {
		return false, false
	}
	stuck = !o.Verdict.UnderWay()
	return !health.LostPods(live), stuck
}
