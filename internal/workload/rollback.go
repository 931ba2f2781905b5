package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// While spec.rollback is OnStall, a rollout of a changed spec that makes no progress becomes a hold at the last good ReplicaSet. The
// mark of that hold names the spec that failed: as long as the resource has that spec, nothing moves, even if it is applied again.

// byRollback is the value of By in the mark of a rollback, and fieldRollback the name of the field that requests rollbacks.
const (
	byRollback    = "rollback"
	fieldRollback = "rollback"
)

const (
	// maxFailedRecord is the length in bytes up to which the record of a failed spec is kept as it is. Of a longer one a hash is.
	maxFailedRecord = 16 << 10
	// maxFailedCause is the length in bytes of the cause that is kept.
	maxFailedCause = 1 << 10
)

// failedSpec is the part of a hold's mark about the spec that was rolled back.
type failedSpec struct {
	// Identity is a record of the spec, Refresh the value of the refresh annotation that it was built with.
	Identity string `json:"identity"`
	Refresh  string `json:"refresh,omitempty"`
	// Image is the image of its main container, Cause the reason why its pods did not become ready.
	Image string `json:"image"`
	Cause string `json:"reason"`
	// Canary is true for the spec of a canary that was aborted, and Content is the mark of the content of its pods.
	Canary  bool                 `json:"canary,omitempty"`
	Content resource.ContentMark `json:"content,omitzero"`
	// Defaults is the digest of the defaults that were rolled back, empty if the spec was.
	Defaults string `json:"defaults,omitempty"`
	// Wave is the wave in which the workload had taken its defaults.
	Wave resource.Wave `json:"wave,omitzero"`
	// Taken is the digest of the defaults that the workload had taken in that wave: with these, no spec has been ready.
	Taken string `json:"taken,omitempty"`
	// ByDefault is true if AppDefaults requested the rollback, and the resource did not.
	ByDefault bool `json:"byDefault,omitempty"`
}

// declinedRollback is a rollout that has stalled and is not undone.
type declinedRollback struct{ rollout, cause string }

// mayRollBack reports whether the spec, with its defaults, is valid and requests rollbacks.
func (c decider) mayRollBack() bool {
	serving := c.in.Spec.Serving()
	return serving != nil && serving.Rollback == appv1.RollbackOnStall && c.in.isValid()
}

// keepsRollback reports whether the resource still requests the rollback of a failed spec, and is valid. After a rollback, the defaults in force are those of the
// earlier spec, which may lack fields that the failed spec had. So only the resource's own text ends a rollback, and the resource counts as valid if it is valid
// with the present defaults or with the defaults in force.
func (c decider) keepsRollback(failed *failedSpec) bool {
	now := c.inputNow()
	if !now.isValid() {
		return false
	}
	switch own := c.in.Spec.WithDefaults("").Serving(); {
	case own == nil:
		return false
	case own.Rollback != "":
		return own.Rollback == appv1.RollbackOnStall
	case slices.Contains(c.in.Spec.Without(), fieldRollback):
		return false
	}
	return failed.ByDefault || now.Spec.Serving().Rollback == appv1.RollbackOnStall || c.in.Spec.Serving().Rollback == appv1.RollbackOnStall
}

// stillFailed returns the failed spec while the resource has that spec, and no refresh requests another try; nil otherwise.
func (c decider) stillFailed(failed *failedSpec) *failedSpec {
	if failed == nil || failed.Canary && c.in.canarySpec() == nil || !failed.Canary && !c.keepsRollback(failed) {
		return nil
	}
	if refresh := c.in.Owner.GetAnnotations()[appv1.AnnotationRefresh]; refresh != "" && refresh != failed.Refresh {
		return nil
	}
	if changed, err := c.in.Spec.Changed(failed.Identity, resource.ScopePods); err == nil && changed {
		return nil
	}
	if failed.Defaults != "" && c.seen.unknown == "" && failed.Defaults != c.seen.today.DefaultsDigest() && !c.staysBack() {
		return nil
	}
	return failed
}

// wishRollback returns the hold for a rollout that has stalled, an empty wish if there is none: the rollout is of the
// present spec, and another ReplicaSet was ready before.
func (c decider) wishRollback(mark holdMark) holdWish {
	in, live := c.in, c.seen.Deployment()
	if live == nil || in.Paused || in.Before.History.LastGood == nil || mark.ReplicaSet != "" || !c.mayRollBack() {
		return holdWish{}
	}
	verdict := &c.seen.Verdict
	if !verdict.Stalled || !in.OwnsRecord(live) || !in.wave.IsZero() { // A wave has other defaults, which are to be applied first.
		return holdWish{}
	}
	record := recordOf(live)
	if changed, err := in.Spec.Changed(record, resource.ScopePods); err != nil || changed {
		return holdWish{} // Another spec is to be applied first.
	}
	inputs, err := inputsOf(live)
	if err != nil || in.reshapesPods(&inputs) {
		return holdWish{} // As above.
	}
	if refresh := in.Owner.GetAnnotations()[appv1.AnnotationRefresh]; refresh != "" && refresh != inputs.Refresh {
		return holdWish{} // As above.
	}
	if declined := c.seen.Remembered.declined; declined.rollout == c.rolloutOf(live) && declined.cause != "" {
		return holdWish{declined: declined.cause}
	}
	if len(record) > maxFailedRecord {
		record = in.Spec.Identity()
	}
	failed := &failedSpec{
		Identity: record, Refresh: inputs.Refresh, Image: resource.MainContainer(live).Image, Cause: cutCause(verdict), Wave: inputs.Wave,
		ByDefault: in.Spec.WithDefaults("").Serving().Rollback != appv1.RollbackOnStall,
	}
	if !inputs.Wave.IsZero() {
		failed.Taken = inputs.DefaultsDigest()
	}
	return holdWish{begins: true, mark: &holdMark{ReplicaSet: in.Before.History.LastGood.ReplicaSet, By: byRollback, Failed: failed}}
}

// cutCause returns the cause of a rollout that makes no progress, as far as it is kept.
func cutCause(verdict *health.Verdict) string {
	return verdict.Reason + ": " + message.Truncate(verdict.Detail, maxFailedCause)
}

// rolloutOf returns a key for a rollout and its last good ReplicaSet.
func (c decider) rolloutOf(live *appsv1.Deployment) string {
	return fmt.Sprintf("%s %d %s", live.UID, live.Generation, c.in.Before.History.LastGood.ReplicaSet)
}

// unfitForRollback returns the reason why a rollback to a ReplicaSet is no help: its spec is the failed spec, or makes the same pods. The
// reason is empty for a ReplicaSet that a rollback can use.
func (c decider) unfitForRollback(source *holdSource, set *appsv1.ReplicaSet) string {
	if changed, err := c.in.Spec.Changed(source.spec, resource.ScopePods); (err != nil || !changed) && c.failedDefaults(source) == "" {
		if names := changedContent(c.seen.Object, source); names != "" {
			return fmt.Sprintf(messageSameSpecOtherContent, set.Name, names)
		}
		return fmt.Sprintf(messageSameSpec, set.Name)
	}
	if equality.Semantic.DeepEqual(*TemplateOf(set), c.seen.podTemplate()) {
		return fmt.Sprintf(messageSameTemplate, set.Name)
	}
	return ""
}

// failedDefaults returns the digest of the defaults of a rollout that has stalled, if they are all that differs from a record; empty otherwise.
func (c decider) failedDefaults(source *holdSource) string {
	if changed, err := c.in.Spec.Changed(source.spec, resource.ScopePods); err != nil || changed {
		return ""
	}
	is, err := inputsOf(c.seen.Object)
	if err != nil {
		return ""
	}
	if was, err := resource.DecodeInputs(source.inputs); err != nil || was.HasPresentDefaults(c.in.Spec.WithDefaults(""), &is) {
		return ""
	}
	return is.DefaultsDigest()
}

// staysBack reports whether a workload that has gone back from defaults stays there though others count by now: until its wave, which takes
// those first that have failed.
func (c decider) staysBack() bool {
	source := c.recordInForce()
	if !c.in.awaitsWave || source == nil {
		return false
	}
	used, err := resource.DecodeInputs(source.inputs)
	return err == nil && !c.in.reshapesPods(&used) && !used.HasPresentDefaults(c.in.Spec.WithDefaults(""), &c.seen.today)
}

// changedContent names the ConfigMaps and Secrets whose content differs between the live workload and a record.
func changedContent(live client.Object, source *holdSource) string {
	is, err := inputsOf(live)
	if err != nil {
		return ""
	}
	was, err := resource.DecodeInputs(source.inputs)
	if err != nil {
		return ""
	}
	var names []string
	for _, id := range slices.Sorted(maps.Keys(is.Config.Objects)) {
		if sum, known := was.Config.Objects[id]; !known || sum != is.Config.Objects[id] {
			names = append(names, strings.ReplaceAll(id, "/", " "))
		}
	}
	return strings.Join(names, ", ")
}

// declineRollback decides that a rollout which has stalled is not undone, and why. A cause is remembered for the rollout, except for
// a permission that may be given.
func (c decider) declineRollback(refusal error) *decision {
	reason, cause := reconciler.ReasonAndMessageOf(refusal)
	want := &decision{notRolledBack: cause}
	if live := c.seen.Deployment(); reason == appv1.ReasonForbidden {
		want.retryAfter = Unwatched
	} else if live != nil {
		want.remember.declined = &declinedRollback{rollout: c.rolloutOf(live), cause: cause}
	}
	return want
}

// TemplateOf returns the pod template of a Deployment's ReplicaSet as the Deployment had it.
func TemplateOf(set *appsv1.ReplicaSet) *corev1.PodTemplateSpec {
	template := set.Spec.Template.DeepCopy()
	delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return template
}
