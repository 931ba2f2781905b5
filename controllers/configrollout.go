package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.configRollout is OnChange, the pods are replaced when the content changes that they use of ConfigMaps and Secrets. What
// content they have is in the record of the inputs; what is seen now is compared with that, and nothing else decides.

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch

// readAgain is when content is read again that could not be read.
const readAgain = 10 * time.Second

// configTarget is what a resource says of the content that its pods use, and where to report.
type configTarget struct {
	// kind is the resource's, follow whether content is followed.
	kind   string
	follow bool
	status *[]appv1.ConfigObject

	// deployment and pods are what lives.
	deployment *appsv1.Deployment
	pods       []corev1.Pod
	// looked is set once the content was looked at; what follows was found then.
	looked bool
	refs   []resource.ConfigReference
	found  map[string]foundContent
	// changed are the objects whose content replaces pods, sum is the annotation for it.
	changed []string
	sum     string
	// unfollowed are the Secrets that are not followed, trouble is why content is not, and retry when to look again.
	unfollowed []string
	trouble    reconciler.ReasonAndMessage
	retry      time.Duration
}

// foundContent is content that was read, or that is known without a read.
type foundContent struct{ version, sum string }

// newConfigTarget returns what a resource of a kind says of the content that its pods use.
func newConfigTarget(kind string, status *appv1.ServingStatus) *configTarget {
	return &configTarget{kind: kind, status: &status.Config}
}

// watchContent has the resources of a kind looked at that follow content which has changed.
func watchContent(k *kind, s *Deps, b *builder.Builder) {
	b.WatchesRawSource(source.Func(func(_ context.Context, queue content.Queue) error {
		s.Content.Register(k.Name, queue)
		return nil
	}))
}

// contentOwner names a resource to the watch of content.
func (d *target) contentOwner() content.Owner {
	return content.Owner{Kind: d.config.kind, NamespacedName: client.ObjectKeyFromObject(d.owner)}
}

// followContent returns what to record of the content that the pods of a workload use, which is what is recorded if nothing is to
// change. The error is reconciler.PostponedError while a new spec waits for the ConfigMaps of the same apply.
func (s *Deps) followContent(ctx context.Context, d *target, w *resource.Workload, recorded resource.ConfigInputs) (resource.ConfigInputs, error) {
	c := d.config
	if !c.follow {
		s.Content.Forget(d.contentOwner())
		return recorded.Unfollowed(), nil
	}
	c.selectReferences(w, s.Content.Secrets())
	if resource.RecordSize(c.refs) > resource.MaxConfigObjects {
		s.Content.Forget(d.contentOwner())
		c.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonTooManyReferences, Message: messageTooManyReferences}
		return recorded.Unfollowed(), nil
	}
	if err := s.Content.Follow(ctx, d.contentOwner(), c.objects(d.owner.GetNamespace())); err != nil {
		return recorded, c.noteTrouble(ctx, err)
	}
	if pause := s.Content.PauseSpec(d.contentOwner(), d.specChanged && !d.paused && len(c.refs) > 0); pause > 0 {
		return recorded, &reconciler.PostponedError{After: pause}
	}
	replaced := c.deployment == nil || d.specChanged
	if err := s.lookAtContent(ctx, d, recorded, replaced); err != nil {
		return recorded, err
	}
	return s.decideContent(ctx, d, recorded, replaced)
}

// selectReferences finds out which content the pods use, and which of it is followed.
func (c *configTarget) selectReferences(w *resource.Workload, secrets bool) {
	for _, r := range resource.ConfigReferences(&w.Template) {
		if r.Kind == resource.KindSecret && !secrets {
			c.unfollowed = append(c.unfollowed, r.Name)
			continue
		}
		c.refs = append(c.refs, r)
	}
}

// objects returns the objects whose content is followed.
func (c *configTarget) objects(namespace string) []content.Object {
	var objects []content.Object
	for i := range c.refs {
		objects = append(objects, contentObject(namespace, &c.refs[i]))
	}
	return objects
}

func contentObject(namespace string, r *resource.ConfigReference) content.Object {
	return content.Object{Kind: r.Kind, NamespacedName: types.NamespacedName{Namespace: namespace, Name: r.Name}}
}

// noteTrouble notes why content cannot be followed for now. That is no reason not to do all else.
func (c *configTarget) noteTrouble(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if c.trouble.Reason != "" {
		return nil
	}
	switch {
	case apierrors.IsForbidden(err):
		c.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonForbidden, Message: messageContentForbidden + message.Quote(err.Error())}
	case errors.Is(err, content.ErrNotSynced):
		c.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonProgressing, Message: messageContentNotSynced}
	default:
		ctrl.LoggerFrom(ctx).Error(err, "Cannot read content that the pods use")
		c.trouble = reconciler.ReasonAndMessage{Reason: appv1.ReasonReadFailed, Message: messageContentUnreadable}
	}
	return nil
}

// lookAtContent finds out the sums of all content in use, and reads what is not known: at once if the pods have it, or are made with
// it, and as soon as it is due if they are to be replaced for it.
func (s *Deps) lookAtContent(ctx context.Context, d *target, recorded resource.ConfigInputs, replaced bool) error {
	c := d.config
	c.found = map[string]foundContent{}
	versions := map[string]string{}
	var late []content.Object
	for i := range c.refs {
		r := &c.refs[i]
		known, follows := recorded.Objects[r.ID()]
		trusted := ""
		if follows && !d.specChanged {
			trusted = c.statusVersion(r)
		}
		object := contentObject(d.owner.GetNamespace(), r)
		version, err := s.Content.Version(ctx, object, trusted)
		if err != nil {
			if err := c.noteTrouble(ctx, err); err != nil {
				return err
			}
			continue
		}
		switch versions[r.ID()] = version; {
		case version == "":
			c.found[r.ID()] = foundContent{}
		case version == trusted:
			c.found[r.ID()] = foundContent{version: version, sum: known}
		case !follows || replaced || known == "" && !r.Optional:
			if err := s.readContent(ctx, d, r, version); err != nil {
				return err
			}
		default:
			late = append(late, object)
		}
	}
	if len(late) == 0 || !s.contentIsDue(d, late) {
		return nil
	}
	for i := range c.refs {
		r := &c.refs[i]
		if slices.Contains(late, contentObject(d.owner.GetNamespace(), r)) {
			if err := s.readContent(ctx, d, r, versions[r.ID()]); err != nil {
				return err
			}
		}
	}
	return nil
}

// statusVersion returns the version of an object whose content the pods have, by the status.
func (c *configTarget) statusVersion(r *resource.ConfigReference) string {
	for _, o := range *c.status {
		if o.Kind == r.Kind && o.Name == r.Name {
			return o.ResourceVersion
		}
	}
	return ""
}

// readContent notes the sum of an object's content.
func (s *Deps) readContent(ctx context.Context, d *target, r *resource.ConfigReference, version string) error {
	namespace := d.owner.GetNamespace()
	read, err := s.Content.Read(ctx, contentObject(namespace, r), version)
	if err != nil {
		d.config.retry = reconciler.MinRequeue(d.config.retry, readAgain)
		return d.config.noteTrouble(ctx, err)
	}
	d.config.found[r.ID()] = foundContent{version: read.Version, sum: read.Sum(r, namespace)}
	return nil
}

// contentIsDue reports whether pods may be replaced for new content of some objects: no other rollout is under way, and the content is
// quiet. Pods that are in trouble get it at once.
func (s *Deps) contentIsDue(d *target, objects []content.Object) bool {
	c := d.config
	underWay, stuck := c.rolloutState(s.Clock.Now())
	if underWay && !stuck {
		return false // The end of the rollout is seen.
	}
	if wait := s.Content.Due(d.contentOwner(), objects, stuck); wait > 0 {
		c.retry = reconciler.MinRequeue(c.retry, wait)
		return false
	}
	return true
}

// rolloutState reports whether a rollout of the live Deployment is under way, and whether its pods are in trouble.
func (c *configTarget) rolloutState(now time.Time) (underWay, stuck bool) {
	d := c.deployment
	if d == nil {
		return false, false
	}
	verdict := health.Deployment(d, c.pods, now)
	if verdict.Ready {
		return false, false
	}
	stuck = !verdict.UnderWay()
	return !health.LostPods(d), stuck
}

// decideContent returns what to record, and notes which content replaces pods.
func (s *Deps) decideContent(ctx context.Context, d *target, recorded resource.ConfigInputs, replaced bool) (resource.ConfigInputs, error) {
	c := d.config
	seen, secrets := map[string]resource.Content{}, false
	for i := range c.refs {
		r := &c.refs[i]
		found, read := c.found[r.ID()]
		seen[r.ID()] = resource.Content{Sum: found.sum, Optional: r.Optional, Unread: !read}
		secrets = secrets || r.Kind == resource.KindSecret
	}
	key := ""
	if secrets {
		made, err := s.Content.SecretKey(ctx)
		if err != nil {
			c.retry = reconciler.MinRequeue(c.retry, readAgain)
			return recorded, c.noteTrouble(ctx, err)
		}
		key = made.ID
	}
	moment := resource.MomentSettled // What is not due was not read.
	if replaced {
		moment = resource.MomentReplaced
	}
	next, changed := recorded.Follow(seen, key, moment)
	c.looked = true
	if c.changed, c.sum = changed, next.Sum; replaced {
		c.changed = nil
	}
	waits := false
	for id := range seen {
		waits = waits || seen[id].Unread
	}
	_, stuck := c.rolloutState(s.Clock.Now())
	s.Content.Settle(d.contentOwner(), waits, stuck)
	return next, nil
}

// reportContent states in the status which content the pods have, and in a condition whether changes of it are seen.
func (d *target) reportContent(report *reconciler.Report, live *appsv1.Deployment) {
	c := d.config
	if c == nil || d.undecodable != nil {
		return
	}
	if !c.follow {
		*c.status = nil
		meta.RemoveStatusCondition(&d.status.Conditions, appv1.ConditionConfigFollowed)
		return
	}
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, c.retry)
	if c.looked && live != nil && metav1.IsControlledBy(live, d.owner) {
		c.reportObjects(report, live)
	}
	if !c.looked && c.trouble.Reason == "" {
		return // The spec is invalid.
	}
	condition := metav1.Condition{
		Type: appv1.ConditionConfigFollowed, Status: metav1.ConditionTrue, Reason: appv1.ReasonFollowed, ObservedGeneration: d.owner.GetGeneration(),
	}
	switch {
	case c.trouble.Reason != "":
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, c.trouble.Reason, c.trouble.Message
	case len(c.unfollowed) > 0:
		condition.Message = fmt.Sprintf(messageSecretsUnfollowed, strings.Join(c.unfollowed, ", "), d.name, d.owner.GetNamespace())
	case len(c.refs) == 0:
		condition.Message = messageNothingReferred
	}
	meta.SetStatusCondition(&d.status.Conditions, condition)
}

// reportObjects states the versions of the objects whose content is that of the live record: a version that is stated is not read
// again.
func (c *configTarget) reportObjects(report *reconciler.Report, live *appsv1.Deployment) {
	in, err := resource.DecodeInputs(live.Annotations[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return
	}
	var objects []appv1.ConfigObject
	for i := range c.refs {
		r := &c.refs[i]
		recorded, known := in.Config.Objects[r.ID()]
		object := appv1.ConfigObject{Kind: r.Kind, Name: r.Name, ResourceVersion: c.statusVersion(r)}
		if found := c.found[r.ID()]; known && found.version != "" && found.sum == recorded {
			object.ResourceVersion = found.version
		}
		if known && object.ResourceVersion != "" {
			objects = append(objects, object)
		}
	}
	*c.status = objects
	if len(c.changed) > 0 && in.Config.Sum == c.sum && report.Event.Action != "" {
		report.Event.Reason = appv1.ReasonConfigRollout
		report.Event.Note = fmt.Sprintf(messageContentChanged, strings.ReplaceAll(strings.Join(c.changed, ", "), "/", " "))
	}
}
