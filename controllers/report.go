package controllers

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// This file writes the observation, the decision and the outcomes of the apply to the status and the report of a workload.

// reportResult reports what came of the reconcile of a workload. err is its error.
func (s *Deps) reportResult(d *target, want *decision, done *applied, err error) result {
	report := reconciler.Report{RetryAfter: want.retryAfter}
	if d.paused {
		report.Pause = reconciler.Paused
	}
	reportApplied(&report, done)
	if want.unrecorded {
		report.Event.Warning = d.recordMessage()
	}
	if want.held != nil {
		report.InForce, report.Why = want.heldInForce()
	}
	if want.source != sourceHeld && want.invalid == nil {
		d.noteIgnoredReplicas(done.seen.autoscaler, &report)
	}
	if d.database {
		d.reportDatabase(want, done.seen, &report)
	} else {
		d.reportDeployment(want, done, &report)
	}
	d.reportCanary(want, done, &report, err)
	if want.held != nil && err == nil {
		reportHeld(&report)
	}
	if want.notRolledBack != "" && report.Pods.Stalled {
		report.Pods.Message += ". " + messageNotRolledBack + want.notRolledBack
	}
	made := result{report: report, seen: done.seen, secretChecked: done.secretChecked}
	if want.source == sourceLastApplied && want.workload != nil && !want.how.alone {
		made.lastApplied = want.workload.Record[appv1.AnnotationLastAppliedSpec]
	}
	return made
}

// reportApplied adds to the report the changes of the applies, the changes that a pause holds back, and the obstacles to auxiliary objects.
func reportApplied(report *reconciler.Report, done *applied) {
	for _, changes := range done.changes {
		reportChanges(report, changes)
	}
	if report.PendingKey = done.heldBack; done.pending {
		report.Pause = reconciler.Pending
	}
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, done.routeGrace)
	for _, trouble := range done.troubles {
		reportTrouble(report, trouble)
	}
}

// reportChanges adds changes to the report, and the fields that the API server did not keep.
func reportChanges(report *reconciler.Report, changes apply.ChangeSet) {
	action, line := changes.Summary()
	report.Event.AddChanges(string(action), line)
	if message, retry := changes.Overridden(); message != "" {
		report.Note = reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: message}
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, retry)
	}
}

// recordMessage is the warning that only a hash of the spec is recorded.
func (d *target) recordMessage() string {
	if d.database {
		return messageDatabaseRecordTooLong
	}
	return messageRecordTooLong
}

// reportDeployment writes the live Deployment and Service of a workload to the status and the report.
func (d *target) reportDeployment(want *decision, done *applied, report *reconciler.Report) {
	seen, live := done.seen, done.seen.deployment()
	if d.reportStatus(seen, want.today, want.lost, false, report) {
		done.reportPrerequisite(report)
	}
	d.reportKept(live, report)
	d.reportServing(want, done, report)
	d.reportContent(report, &want.content, live)
	d.reportUnstatedReplicas(seen, report)
	d.reportHistory(want, seen, report)
}

// reportStatus writes a live Deployment and its Service to the status and the report, and reports whether the owner has no Deployment
// yet. lost is true where there was a Deployment that cannot be rebuilt, foreign where the Deployment of
// another controller is reported on.
func (d *target) reportStatus(seen *observed, today resource.Inputs, lost, foreign bool, report *reconciler.Report) (missing bool) {
	status, owner := d.status, d.owner
	before := *status
	*status = appv1.WorkloadStatus{CommonStatus: before.CommonStatus}
	if seen.service != nil && metav1.IsControlledBy(seen.service, owner) {
		status.Endpoint = resource.Endpoint(seen.service)
	}
	live := seen.deployment()
	if live == nil || !foreign && !metav1.IsControlledBy(live, owner) {
		if lost || d.tier != "" {
			// These fields record that the workload object existed.
			status.Selector, status.Rendering = before.Selector, before.Rendering
		}
		status.Ready = fmt.Sprintf("0/%d", ptr.Deref(d.spec.Workload().Replicas, 1))
		report.Pods.Reason, report.Pods.Message = appv1.ReasonProgressing, fmt.Sprintf(messageNotCreatedYet, "Deployment", d.name)
		return true
	}
	status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	status.Replicas = live.Status.Replicas
	status.UpdatedReplicas = live.Status.UpdatedReplicas
	status.ReadyReplicas = live.Status.ReadyReplicas
	status.AvailableReplicas = live.Status.AvailableReplicas
	status.UnavailableReplicas = live.Status.UnavailableReplicas
	status.Selector = metav1.FormatLabelSelector(live.Spec.Selector)
	d.reportInputs(live, today)
	reportVerdict(report, seen.verdict, seen.service)
	return false
}

// reportDatabase writes the live objects of a database to the status and the report.
func (d *target) reportDatabase(want *decision, seen *observed, report *reconciler.Report) {
	if service := seen.service; service != nil && metav1.IsControlledBy(service, d.owner) {
		d.status.Endpoint = resource.Endpoint(service)
	}
	live := seen.set()
	if live == nil || !metav1.IsControlledBy(live, d.owner) {
		d.status.Ready = fmt.Sprintf("0/%d", ptr.Deref(d.spec.Workload().Replicas, 1))
		report.Pods.Reason, report.Pods.Message = appv1.ReasonProgressing, fmt.Sprintf(messageNotCreatedYet, "StatefulSet", d.name)
		return
	}
	d.status.Ready = fmt.Sprintf("%d/%d", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1))
	d.reportInputs(live, want.today)
	reportVerdict(report, seen.verdict, seen.service)
}

// reportVerdict states in the report how the pods are doing, and whether the Service can be reached from where it is to be.
func reportVerdict(report *reconciler.Report, verdict health.Verdict, service *corev1.Service) {
	if verdict.Ready && service != nil {
		if pending := health.Service(service); !pending.Ready {
			verdict = pending
		}
	}
	report.Pods = verdict
	report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, verdict.Again)
}

// reportUnstatedReplicas sets the condition ReplicasUnstated if an autoscaler cannot read the scale subresource of the custom resource:
// without spec.replicas, the API server returns an error.
func (d *target) reportUnstatedReplicas(seen *observed, report *reconciler.Report) {
	if seen.ownerAutoscaler == "" || d.spec.Workload().Replicas != nil {
		report.RemoveCondition(appv1.ConditionReplicasUnstated)
		return
	}
	report.AddCondition(metav1.Condition{
		Type: appv1.ConditionReplicasUnstated, Status: metav1.ConditionTrue, Reason: appv1.ConditionReplicasUnstated,
		ObservedGeneration: d.owner.GetGeneration(),
		Message: fmt.Sprintf(messageReplicasUnstated,
			seen.ownerAutoscaler, d.scalable),
	})
}

// noteIgnoredReplicas notes that an autoscaler sets the number of pods, and spec.replicas has no effect.
func (d *target) noteIgnoredReplicas(autoscaler string, report *reconciler.Report) {
	if autoscaler == "" || d.spec.Workload().Replicas == nil || report.Note.Reason != "" {
		return
	}
	report.Note = reconciler.ReasonAndMessage{
		Reason:  appv1.ReasonReplicasIgnored,
		Message: fmt.Sprintf(messageReplicasIgnored, autoscaler, d.objectKind(), d.name),
	}
}

// reportInputs states in the status which inputs are in use, and whether there are newer ones. today are the inputs of a new workload.
func (d *target) reportInputs(live client.Object, today resource.Inputs) {
	used, err := resource.DecodeInputs(live.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
	if err != nil {
		return
	}
	if used.Kept {
		return // They shape nothing yet.
	}
	d.status.Rendering = used.Rendering
	if used.Rendering < today.Rendering {
		d.status.LatestRendering = today.Rendering
	}
	d.status.Size = used.Size.String()
	// With another name the spec has changed: that is not held back.
	if used.Size.Name == today.Size.Name && !used.Size.Equal(today.Size) {
		d.status.LatestSize = today.Size.String()
	}
}

// reportHistory writes to the status the ReplicaSet that runs, and the last good ReplicaSet of a spec that was in force.
func (d *target) reportHistory(want *decision, seen *observed, report *reconciler.Report) {
	live := seen.deployment()
	if d.history == nil || live == nil || !metav1.IsControlledBy(live, d.owner) {
		return
	}
	name := runningReplicaSet(live, seen.pods)
	if name == "" {
		return
	}
	d.history.ReplicaSet = name
	good := d.history.LastGood
	// During a pause, the pods may come from an edit by hand.
	if changed, err := d.spec.Changed(recordOf(live), resource.ScopePods); err != nil || changed || want.held != nil || d.paused {
		return
	}
	if report.Pods.Ready && (good == nil || good.ReplicaSet != name) {
		d.history.LastGood = &appv1.GoodRevision{
			ReplicaSet: name, Image: live.Spec.Template.Spec.Containers[0].Image, Since: ptr.To(metav1.NewTime(seen.at.Truncate(time.Second))),
		}
	}
}

// reportHeld states in the report of a hold that is in force that the spec waits, and how the pods are doing that are held.
func reportHeld(report *reconciler.Report) {
	if !report.Pods.Ready {
		report.Pods.Message = report.Why.Message + ". " + report.Pods.Message
	}
	report.Pods.Reason = report.Why.Reason
}
