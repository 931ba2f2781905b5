package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/secrecy"
)

// beingReplaced returns the error of an object that is recreated once its deletion is observed.
func beingReplaced(p *objectPlan) error {
	words := messageBeingReplaced
	if p.object.ReplacePods {
		words = messageReplacedWithPods
	}
	return reconciler.Waiting(appv1.ReasonProgressing, words, p.gvk.Kind, p.object.Desired.GetName())
}

// overriddenMessage returns the message about fields that the API server accepts and does not keep.
func overriddenMessage(p *objectPlan, diff *fieldpath.Set) string {
	return fmt.Sprintf(messageOverridden,
		describe.ListFields(diff), p.gvk.Kind, p.object.Desired.GetName())
}

// fieldConflict returns the error that names the fields of a conflict, and the field managers that keep changing them.
func fieldConflict(p *objectPlan, live client.Object, diff *fieldpath.Set, retry time.Duration) error {
	return &reconciler.StalledError{
		Reason: appv1.ReasonFieldConflict,
		Message: fmt.Sprintf(messageFieldConflict,
			describe.FieldWriters(live, diff), describe.ListFields(diff), p.gvk.Kind, live.GetName(), conflictRepairs),
		RetryAfter: retry,
	}
}

// classifyError turns what a request returned into an error that the status can report, nil into nil. The class is that of the words of the answer, which may
// not be shown: only err is, whose words are without private values.
func (e *Engine) classifyError(p *objectPlan, answered error) error {
	if answered == nil {
		return nil
	}
	err := secrecy.RedactError(answered, p.object.Desired, p.live)
	object := p.gvk.Kind + " " + p.object.Desired.GetName()
	switch {
	case deniedByAdmission(answered.Error()):
		return forbiddenError(object, err)
	case children.TypeOf(p.object.Desired).Custom && kindUnknown(err):
		return &reconciler.StalledError{
			Reason: appv1.ReasonKindMissing, Message: fmt.Sprintf(messageKindUnknown, object, p.gvk.Kind, p.gvk.GroupVersion()), RetryAfter: lookAgain,
		}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", reconciler.ErrStale, err)
	case isRejected(answered):
		return p.rejectedError(answered, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconciler.Waiting(appv1.ReasonTerminating, messageNamespaceDeleted, object)
	case apierrors.IsForbidden(err) && p.volumeClaim() && isResizeForbidden(answered.Error()):
		return resizeFailed(object, err.Error())
	case apierrors.IsForbidden(err):
		return forbiddenError(object, err)
	case isUndeclared(answered.Error()):
		return reconciler.Stalled(appv1.ReasonInvalid, messageFieldUnknown, object, message.Quote(err.Error()))
	}
	var status apierrors.APIStatus
	said := object + messageUnreachable
	if errors.As(err, &status) {
		said = object + fmt.Sprintf(messageRetrying, message.Quote(status.Status().Message))
	}
	return &reconciler.FailedError{Reason: appv1.ReasonApplyFailed, Message: said, Err: err}
}

// kindUnknown reports whether the API server does not serve the kind of an object, or no longer takes objects of it as the definition
// is being deleted. A not-found answer without a name means that the API server does not serve the kind.
func kindUnknown(err error) bool {
	if apierrors.IsMethodNotSupported(err) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Kind == "" || hasUnexpectedAnswer(status.Status().Details))
}

// hasUnexpectedAnswer reports whether an answer of the API server is none of its own words.
func hasUnexpectedAnswer(details *metav1.StatusDetails) bool {
	return slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// isRejected reports whether an error is the answer of the API server that it cannot take an object as it is.
func isRejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) || tooLarge(err.Error())
}

// tooLarge reports whether the API server's words say that an object is too large to be stored, which has no code of its own
// (google.golang.org/grpc and go.etcd.io/etcd).
func tooLarge(words string) bool {
	return strings.Contains(words, "trying to send message larger than max") || strings.Contains(words, "request is too large")
}

// forbiddenError returns the obstacle to a write, in the API server's words. The obstacle may end without an event that the operator gets
// it, so the write is tried again.
func forbiddenError(object string, err error) error {
	return &reconciler.FailedError{
		Reason: appv1.ReasonForbidden, Message: object + ": " + message.Quote(err.Error()), Err: err,
	}
}

// deniedByAdmission reports whether the API server's words say that an admission webhook or policy is in the way. The status code does
// not: by default, a webhook answers with the code of a bad request, and a policy with the code of an invalid object
// (k8s.io/apiserver/pkg/admission/plugin/webhook/errors and …/policy/validating).
func deniedByAdmission(words string) bool {
	return strings.Contains(words, "admission webhook ") && strings.Contains(words, " denied the request") ||
		strings.Contains(words, "ValidatingAdmissionPolicy '") && strings.Contains(words, " denied request: ")
}

// causesOf returns the causes in an answer of the API server.
func causesOf(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

// rejectedError returns the error with the fields that the API server rejects. Its class is that of the causes as they were answered. The causes of err are the
// same ones, in the words that are shown.
func (p *objectPlan) rejectedError(answered, err error) error {
	object := p.gvk.Kind + " " + p.object.Desired.GetName()
	causes, unredacted := causesOf(err), causesOf(answered)
	if len(causes) == 0 {
		return reconciler.Stalled(appv1.ReasonInvalid, "%s: %s", object, message.Quote(err.Error()))
	}
	reason := appv1.ReasonInvalid
	var said []string
	for i, cause := range causes[:min(len(causes), describe.MaxNamed)] {
		words := cause.Field + ": " + message.Quote(cause.Message)
		said = append(said, words)
		switch {
		case isPortTaken(unredacted[i]):
			return nodePortTaken(object, words)
		case p.volumeClaim() && strings.HasPrefix(cause.Field, "spec"):
			return resizeFailed(object, words)
		case isImmutable(unredacted[i].Message):
			reason = appv1.ReasonImmutableField
		}
	}
	line := object + messageRejected + strings.Join(said, "; ")
	switch {
	case reason == appv1.ReasonImmutableField && p.claim.isReturned() && p.gvk.Kind == "StatefulSet":
		line += messageNotAdoptable
	case reason == appv1.ReasonImmutableField && p.claim.takesOver():
		line += fmt.Sprintf(messageNotAdoptableField, p.gvk.Kind+" "+p.object.Desired.GetName())
	case reason == appv1.ReasonImmutableField:
		line += messageImmutable + p.deletionRemedy()
	}
	return &reconciler.StalledError{Reason: reason, Message: line}
}

// isImmutable reports whether the API server's words say that a field can only be set at creation. There is no code for it;
// these are the phrases of Kubernetes' validation (k8s.io/apimachinery/pkg/api/validation and k8s.io/kubernetes/pkg/apis).
func isImmutable(words string) bool {
	for _, phrase := range []string{"field is immutable", "may not change once set", "updates to statefulset spec for fields other than"} {
		if strings.Contains(words, phrase) {
			return true
		}
	}
	return false
}

// deletionRemedy is the other way out where a field is immutable, empty where it would cost data.
func (p *objectPlan) deletionRemedy() string {
	object := p.gvk.Kind + " " + p.object.Desired.GetName()
	switch {
	case p.object.Retained, p.volumeClaim():
		return ""
	case p.gvk.Kind == "StatefulSet" && !keepsPods(p.object.Desired, p.live):
		return ""
	case p.gvk.Kind == "StatefulSet":
		// Its claims may go with it, by its persistentVolumeClaimRetentionPolicy.
		return fmt.Sprintf(messageOrDeleteOrphan, object)
	}
	return fmt.Sprintf(messageOrDelete, object)
}

// keepsPods reports whether a StatefulSet that is deleted without its pods and recreated as wanted finds its pods and their
// volumes again.
func keepsPods(wanted, live client.Object) bool {
	now, isSet := wanted.(*appsv1.StatefulSet)
	was, hadSet := live.(*appsv1.StatefulSet)
	if !isSet || !hadSet || was.Spec.Selector == nil {
		return false
	}
	names := func(claims []corev1.PersistentVolumeClaim) (names []string) {
		for i := range claims {
			names = append(names, claims[i].Name)
		}
		return names
	}
	return maps.Equal(now.Spec.Selector.MatchLabels, was.Spec.Selector.MatchLabels) && len(was.Spec.Selector.MatchExpressions) == 0 &&
		slices.Equal(names(now.Spec.VolumeClaimTemplates), names(was.Spec.VolumeClaimTemplates))
}

// lookAgain is the time of a retry where no watch reports that a write has become possible.
const lookAgain = time.Minute

// isPortTaken reports whether the API server's words say that a port of the nodes is another Service's
// (k8s.io/kubernetes/pkg/registry/core/service/portallocator).
func isPortTaken(cause metav1.StatusCause) bool {
	return strings.HasSuffix(cause.Field, ".nodePort") && strings.Contains(cause.Message, "provided port is already allocated")
}

// nodePortTaken returns the error with the port, in the API server's words.
func nodePortTaken(object, words string) error {
	return &reconciler.StalledError{
		Reason:     appv1.ReasonNodePortTaken,
		Message:    object + messageRejected + words + messageNodePortTaken,
		RetryAfter: lookAgain,
	}
}

// isResizeForbidden reports whether the API server's words say that a claim, or its class, cannot grow
// (k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize).
func isResizeForbidden(words string) bool {
	return strings.Contains(words, "pvc can be resized") || strings.Contains(words, "persistent volume claims can be expanded")
}

// resizeFailed returns why a PersistentVolumeClaim stays unchanged, in the API server's words.
func resizeFailed(object, words string) error {
	return &reconciler.StalledError{
		Reason:     appv1.ReasonVolumeResizeFailed,
		Message:    object + messageUnchanged + message.Quote(words) + messageResizeFailed,
		RetryAfter: lookAgain,
	}
}

// isUndeclared reports whether the API server answers that a field is unknown. The API server has no code for that and calls it
// an error of its own; this is the phrase of sigs.k8s.io/structured-merge-diff.
func isUndeclared(words string) bool { return strings.Contains(words, "field not declared in schema") }

// isForbidden reports whether the API server may accept the object and forbids the write.
func isForbidden(err error) bool {
	var failed *reconciler.FailedError
	return errors.As(err, &failed) && failed.Reason == appv1.ReasonForbidden
}

// Refused reports whether an error of Run is a refusal of the desired object by the API server, so that only another spec, or
// other objects, help.
func Refused(err error) bool {
	var stalled *reconciler.StalledError
	return errors.As(err, &stalled) && slices.Contains(refusals, stalled.Reason)
}

// refusals are the reasons of refusals by the API server.
var refusals = []string{appv1.ReasonInvalid, appv1.ReasonImmutableField, appv1.ReasonNodePortTaken, appv1.ReasonVolumeResizeFailed}
