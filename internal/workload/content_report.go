package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/resource"
)

// This file reports on the content that pods use. A version in the status is the memory of the next decisions: content of that version is not read.

// statusVersion returns the version of an object whose content the pods have, by the status.
func statusVersion(in *Input, ref *resource.ConfigReference) string {
	for _, o := range in.Before.Serving.Config {
		if o.Kind == ref.Kind && o.Name == ref.Name {
			return o.ResourceVersion
		}
	}
	return ""
}

// noteContent notes the decision on content in the watch of content.
func noteContent(watch *content.Watch, in *Input, seen *Observed, made *contentDecision) {
	if made.forget {
		watch.Forget(in.contentOwner())
	}
	if made.looked {
		_, stuck := seen.rolloutState()
		watch.Settle(in.contentOwner(), made.waits, stuck)
	}
}

// addContent adds the content that the pods have, and the condition that reports whether changes of it are seen.
func (l *liveReport) addContent(in *Input, made *contentDecision, live *appsv1.Deployment) {
	if !in.Kind.Serves {
		return
	}
	if len(l.status.Serving.Config) > 0 && !made.looked && live != nil && in.markOf(live).ReplicaSet != "" { // The record is an earlier one, with other content than that of the versions.
		l.status.Serving.Config = nil
	}
	if in.Undecodable != nil {
		return
	}
	if !in.followsContent() {
		l.status.Serving.Config = nil
		l.conditions = append(l.conditions, metav1.Condition{Type: appv1.ConditionConfigFollowed})
		return
	}
	l.retry = made.retry
	if made.looked && live != nil && metav1.IsControlledBy(live, in.Owner) {
		l.addContentObjects(in, made, live)
	}
	if !made.looked && made.trouble.Reason == "" {
		return // The spec is invalid.
	}
	condition := metav1.Condition{
		Type: appv1.ConditionConfigFollowed, Status: metav1.ConditionTrue, Reason: appv1.ReasonFollowed, ObservedGeneration: in.Owner.GetGeneration(),
	}
	switch {
	case made.trouble.Reason != "":
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, made.trouble.Reason, made.trouble.Message
	case len(made.unfollowed) > 0:
		condition.Message = fmt.Sprintf(messageSecretsUnfollowed, strings.Join(made.unfollowed, ", "), in.Name, in.Owner.GetNamespace())
	case len(made.refs) == 0:
		condition.Message = messageNothingReferred
	}
	l.conditions = append(l.conditions, condition)
}

// addContentObjects adds the versions of the objects whose content is that of the live record: a version in the status is not read
// again.
func (l *liveReport) addContentObjects(in *Input, made *contentDecision, live *appsv1.Deployment) {
	inputs, err := inputsOf(live)
	if err != nil {
		return
	}
	var objects []appv1.ConfigObject
	for i := range made.refs {
		ref := &made.refs[i]
		recorded, known := inputs.Config.Objects[ref.ID()]
		object := appv1.ConfigObject{Kind: ref.Kind, Name: ref.Name, ResourceVersion: statusVersion(in, ref)}
		if found := made.found[ref.ID()]; known && found.version != "" && found.sum == recorded {
			object.ResourceVersion = found.version
		}
		if known && object.ResourceVersion != "" {
			objects = append(objects, object)
		}
	}
	l.status.Serving.Config = objects
	if len(made.changed) > 0 && inputs.Config.Sum == made.next.Sum {
		l.event.Reason = appv1.ReasonConfigRollout
		l.event.Note = fmt.Sprintf(messageContentChanged, strings.ReplaceAll(strings.Join(made.changed, ", "), "/", " "))
	}
}
