package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
)

// maxCauses limits how many fields a message names.
const maxCauses = 3

// resourceExists says that an object of a child's name is not the owner's. applied is true where the operator has written it
// for a resource of the owner's kind, and nothing on the object tells any more for which one.
func resourceExists(p *plan, controller *metav1.OwnerReference, applied bool) error {
	object := p.gvk.Kind + " " + p.child.Desired.GetName()
	if controller != nil {
		return reconciler.Stalled(appv1.ReasonResourceExists,
			"%s exists and belongs to %s %s; it is left alone. Rename one of them, or delete the other",
			object, controller.Kind, controller.Name)
	}
	if applied {
		remedy := ""
		if p.gvk.Kind != "StatefulSet" { // Its claims may go with it.
			remedy = fmt.Sprintf(", or delete the %s to recreate it", p.gvk.Kind)
		}
		return reconciler.Stalled(appv1.ReasonResourceExists,
			`%s was applied by the operator and nothing controls it now (kubectl replace, an edit, or the deletion of an earlier %s with --cascade=orphan has removed its owner reference); it is left alone. Annotate this resource with %s: "true" to restore it in place%s`,
			object, p.owner.Kind, appv1.AnnotationAdopt, remedy)
	}
	return reconciler.Stalled(appv1.ReasonResourceExists,
		`%s exists and was not made by this resource; it is left alone. Rename or delete one of them, or annotate this resource with %s: "true" to take it over`,
		object, appv1.AnnotationAdopt)
}

// retainedForAnother says that an object of a child's name outlives, or may outlive, another owner.
func retainedForAnother(p *plan, keptFor string) error {
	object := p.gvk.Kind + " " + p.child.Desired.GetName()
	return reconciler.Stalled(appv1.ReasonResourceExists,
		"%s exists and is retained for %s; it is left alone. Rename one of them, or annotate the %s with %s: %s to hand it over",
		object, message.Quote(keptFor), p.gvk.Kind, appv1.AnnotationRetainedFor, p.self)
}

// beingReplaced says that an object is made anew once its deletion is seen.
func beingReplaced(p *plan) error {
	return reconciler.Waiting(appv1.ReasonProgressing, "%s %s is being replaced; what it controls is left alone",
		p.gvk.Kind, p.child.Desired.GetName())
}

// overriddenMessage says which fields the API server takes and does not keep.
func overriddenMessage(p *plan, diff *fieldpath.Set) string {
	return fmt.Sprintf("The API server did not keep %s of %s %s as applied (an admission policy, a webhook or a disabled feature changes it). Set it to the value that the cluster uses, remove it, or change the policy. The operator tries again every 5 minutes.",
		named(diff), p.gvk.Kind, p.child.Desired.GetName())
}

// named lists fields, the first few of them.
func named(set *fieldpath.Set) string {
	var fields []string
	set.Leaves().Iterate(func(path fieldpath.Path) { fields = append(fields, path.String()) })
	slices.Sort(fields)
	if len(fields) > maxCauses {
		fields = append(fields[:maxCauses], "…")
	}
	return strings.Join(fields, ", ")
}

// fieldConflict says who keeps changing which fields of ours.
func fieldConflict(p *plan, live client.Object, diff *fieldpath.Set, retry time.Duration) error {
	return &reconciler.StalledError{
		Reason: appv1.ReasonFieldConflict,
		Message: fmt.Sprintf("%s keeps changing %s of %s %s; it was repaired %d times in a minute and is now repaired less often. Stop the other writer, or state its value in the spec",
			writers(live, diff), named(diff), p.gvk.Kind, live.GetName(), conflictRepairs),
		RetryAfter: retry,
	}
}

// writers names the managers that own any of the fields, by managedFields.
func writers(live client.Object, diff *fieldpath.Set) string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		set := managedSet(entry)
		if set == nil || slices.Contains(names, entry.Manager) {
			continue
		}
		if !set.Intersection(diff).Empty() {
			names = append(names, entry.Manager)
		}
	}
	if len(names) == 0 {
		return "Another writer"
	}
	slices.Sort(names)
	return fmt.Sprintf("Field manager %q", strings.Join(names, ", "))
}

// classify turns what a request returned into an error that the status can report, nil into nil.
func (e *Engine) classify(p *plan, err error) error {
	if err == nil {
		return nil
	}
	err = p.redactError(err)
	object := p.gvk.Kind + " " + p.child.Desired.GetName()
	switch {
	case denied(err.Error()):
		return forbidden(object, err)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", reconciler.ErrStale, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), tooLarge(err.Error()):
		return p.refused(err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconciler.Waiting(appv1.ReasonTerminating, "the namespace is being deleted; %s is not made", object)
	case apierrors.IsForbidden(err) && p.volumeClaim() && growthRefused(err.Error()):
		return storageRefused(object, err.Error())
	case apierrors.IsForbidden(err):
		return forbidden(object, err)
	case undeclared(err.Error()):
		return reconciler.Stalled(appv1.ReasonInvalid, "%s: %s. This cluster's version of Kubernetes does not know the field; take it away",
			object, message.Quote(err.Error()))
	}
	var status apierrors.APIStatus
	said := object + ": the API server cannot be reached; trying again"
	if errors.As(err, &status) {
		said = object + ": " + message.Quote(status.Status().Message) + "; trying again"
	}
	return &reconciler.FailedError{Reason: appv1.ReasonApplyFailed, Message: said, Err: err}
}

// tooLarge reports whether the API server's words say that an object is too large to be stored, which has no code of its own
// (google.golang.org/grpc and go.etcd.io/etcd).
func tooLarge(words string) bool {
	return strings.Contains(words, "trying to send message larger than max") || strings.Contains(words, "request is too large")
}

// forbidden says what is in the way of a write, in the API server's words. Whoever takes it away does so without our seeing
// it, so it is tried again.
func forbidden(object string, err error) error {
	return &reconciler.FailedError{
		Reason: appv1.ReasonForbidden, Message: object + ": " + message.Quote(err.Error()), Err: err,
	}
}

// denied tells whether the API server's words say that an admission webhook or policy is in the way. The status code does
// not: unless they choose one, it is that of a bad request for a webhook, and that of an invalid object for a policy
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors and …/policy/validating).
func denied(words string) bool {
	return strings.Contains(words, "admission webhook ") && strings.Contains(words, " denied the request") ||
		strings.Contains(words, "ValidatingAdmissionPolicy '") && strings.Contains(words, " denied request: ")
}

// refused says which fields the API server does not take.
func (p *plan) refused(err error) error {
	object := p.gvk.Kind + " " + p.child.Desired.GetName()
	var status apierrors.APIStatus
	var causes []metav1.StatusCause
	if errors.As(err, &status) && status.Status().Details != nil {
		causes = status.Status().Details.Causes
	}
	if len(causes) == 0 {
		return reconciler.Stalled(appv1.ReasonInvalid, "%s: %s", object, message.Quote(err.Error()))
	}
	reason := appv1.ReasonInvalid
	var said []string
	for _, cause := range causes[:min(len(causes), maxCauses)] {
		words := cause.Field + ": " + message.Quote(cause.Message)
		said = append(said, words)
		switch {
		case portTaken(cause):
			return nodePortTaken(object, words)
		case p.volumeClaim() && strings.HasPrefix(cause.Field, "spec"):
			return storageRefused(object, words)
		case immutable(cause.Message):
			reason = appv1.ReasonImmutableField
		}
	}
	line := object + " is refused: " + strings.Join(said, "; ")
	if reason == appv1.ReasonImmutableField {
		line += ". It stays as it is. Take the change back" + p.remedy()
	}
	return &reconciler.StalledError{Reason: reason, Message: line}
}

// immutable tells whether the API server's words say that a field can only be set at creation. There is no code for it;
// these are the phrases of Kubernetes' validation (k8s.io/apimachinery/pkg/api/validation and k8s.io/kubernetes/pkg/apis).
func immutable(words string) bool {
	for _, phrase := range []string{"field is immutable", "may not change once set", "updates to statefulset spec for fields other than"} {
		if strings.Contains(words, phrase) {
			return true
		}
	}
	return false
}

// remedy is the other way out where a field is immutable, empty where it would cost data.
func (p *plan) remedy() string {
	object := p.gvk.Kind + " " + p.child.Desired.GetName()
	switch {
	case p.child.Retained, p.volumeClaim():
		return ""
	case p.gvk.Kind == "StatefulSet":
		// Its claims may go with it, by its persistentVolumeClaimRetentionPolicy.
		return ", or delete the " + object + " with --cascade=orphan to have it made anew around its pods"
	}
	return ", or delete the " + object + " to have it made anew"
}

// lookAgain is when to try again where nothing that is watched tells that it has become possible.
const lookAgain = time.Minute

// portTaken tells whether the API server's words say that a port of the nodes is another Service's
// (k8s.io/kubernetes/pkg/registry/core/service/portallocator).
func portTaken(cause metav1.StatusCause) bool {
	return strings.HasSuffix(cause.Field, ".nodePort") && strings.Contains(cause.Message, "provided port is already allocated")
}

// nodePortTaken says which port it is, in the API server's words.
func nodePortTaken(object, words string) error {
	return &reconciler.StalledError{
		Reason: appv1.ReasonNodePortTaken,
		Message: object + " is refused: " + words +
			". Another Service of the cluster has this port; state another nodePort, leave it out to be given one, or free it: it is tried again every minute",
		RetryAfter: lookAgain,
	}
}

// growthRefused tells whether the API server's words say that a claim, or its class, cannot grow
// (k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize).
func growthRefused(words string) bool {
	return strings.Contains(words, "pvc can be resized") || strings.Contains(words, "persistent volume claims can be expanded")
}

// storageRefused says why a claim stays as it is, in the API server's words.
func storageRefused(object, words string) error {
	return &reconciler.StalledError{
		Reason: appv1.ReasonVolumeResizeFailed,
		Message: object + " stays as it is: " + message.Quote(words) +
			". Take the change of the size back, or let the storage class allow it: it is tried again every minute",
		RetryAfter: lookAgain,
	}
}

// undeclared tells whether the API server says of a field that it does not know it. It has no code for that and calls it
// an error of its own; this is the phrase of sigs.k8s.io/structured-merge-diff.
func undeclared(words string) bool { return strings.Contains(words, "field not declared in schema") }
