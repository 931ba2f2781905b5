package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/internal/stored"
)

// storedResource is a custom resource as stored by the API server.
type storedResource[T client.Object] interface {
	client.Object
	// Decode returns the typed resource, without a spec if there is an error.
	Decode() (T, error)
	// Raw returns the spec as stored.
	Raw() stored.Spec
}

// handler decodes reviews and calls the validator. It replaces controller-runtime's handler, which rejects each update of a resource whose
// old spec cannot be decoded, including the update that repairs the spec.
type handler[T client.Object] struct{ *validator[T] }

// serveKind has the server answer for a kind.
func serveKind[T client.Object](server webhook.Server, v *validator[T]) {
	path := "/validate-" + strings.ReplaceAll(appv1.GroupVersion.Group, ".", "-") + "-" + appv1.GroupVersion.Version + "-" + strings.ToLower(v.kind)
	server.Register(path, newAdmission(counted{&handler[T]{v}, v.kind}))
}

// newAdmission returns the webhook of a handler. It logs nothing of a request that is no review: any client chooses the rate and the text of
// such requests.
func newAdmission(handler admission.Handler) *webhook.Admission {
	return &webhook.Admission{Handler: handler, LogConstructor: func(base logr.Logger, req *admission.Request) logr.Logger {
		if req == nil {
			return logr.Discard()
		}
		return admission.DefaultLogConstructor(base, req)
	}}
}

// Handle implements admission.Handler.
func (h *handler[T]) Handle(ctx context.Context, req admission.Request) admission.Response {
	var said admission.Warnings
	var err error
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
		h.proveAddress(ctx, &req)
		done, ok := h.limits.shareOf(ctx).reviews.beginTurn(ctx, req.Namespace, h.patience)
		if !ok {
			return admission.Allowed("").WithWarnings(messageNotReviewed)
		}
		defer done()
		if req.SubResource == subresourceScale {
			return admission.Allowed("").WithWarnings(validation.ListWarnings(h.warnScale(ctx, &req))...)
		}
		if said, err = h.validateChange(ctx, &req); err == nil {
			lines, answer := h.answerPlan(ctx, &req, done)
			if answer != nil {
				return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: answer}}
			}
			said = append(validation.ListWarnings(said), lines...)
		}
	}
	var refused apierrors.APIStatus
	switch {
	case err == nil:
		return admission.Allowed("").WithWarnings(said...)
	case errors.As(err, &refused):
		status := refused.Status()
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
	}
	return admission.Errored(http.StatusBadRequest, err)
}

// proveAddress has the address of an update count as proven if the update states the UID of the stored resource. An update proves this before it waits
// for its turn: the reviews of strangers can make it wait in vain.
func (h *handler[T]) proveAddress(ctx context.Context, req *admission.Request) {
	if req.Operation != admissionv1.Update {
		return
	}
	guard.Prove(ctx, func() bool {
		return h.isProven(ctx, identityOf(req.Namespace, req.Object.Raw), identityOf(req.Namespace, req.OldObject.Raw))
	})
}

// identityOf returns the name and the UID that an object states. Nothing else of the object is kept.
func identityOf(namespace string, raw []byte) client.Object {
	var stated struct {
		Metadata struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &stated) != nil {
		return &metav1.PartialObjectMetadata{}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: stated.Metadata.Name, UID: stated.Metadata.UID}}
}

// validateChange validates a new or changed resource. A resource that is being deleted passes. A resource whose spec is the same, byte by byte,
// also passes, even if the spec cannot be decoded; its new annotations only cause warnings.
func (h *handler[T]) validateChange(ctx context.Context, req *admission.Request) (admission.Warnings, error) {
	now, err := h.decodeResource(req, req.Object)
	if err != nil {
		return nil, err
	}
	var before storedResource[T]
	if req.Operation == admissionv1.Update {
		if before, err = h.decodeResource(req, req.OldObject); err != nil {
			return nil, err
		}
		same := now.Raw().Equal(before.Raw())
		if now.GetDeletionTimestamp() != nil {
			return nil, nil
		}
		if same && maps.Equal(now.GetAnnotations(), before.GetAnnotations()) {
			return rolledBack(req.OldObject.Raw), nil
		}
		if same {
			if _, err := now.Decode(); err != nil {
				return nil, nil //nolint:nilerr // It was so before: metadata can be changed all the same.
			}
		}
	}
	obj, err := now.Decode()
	if err != nil {
		return nil, h.undecodableError(now, err)
	}
	if before != nil {
		// A spec that cannot be decoded differs from every spec that can.
		if old, err := before.Decode(); err == nil {
			return h.ValidateUpdate(ctx, old, obj)
		}
	}
	return h.ValidateCreate(ctx, obj)
}

// rolledBack warns of a spec that is applied once more and stays rolled back.
func rolledBack(raw []byte) admission.Warnings {
	var now struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if !bytes.Contains(raw, []byte(appv1.ReasonRolledBack)) || json.Unmarshal(raw, &now) != nil {
		return nil
	}
	ready := meta.FindStatusCondition(now.Status.Conditions, appv1.ConditionReady)
	if ready == nil || ready.Reason != appv1.ReasonRolledBack {
		return nil
	}
	return admission.Warnings{messageStaysRolledBack + ready.Message}
}

// decodeResource decodes a resource but for its spec. Its namespace is that of the request, whatever a forged object states.
func (h *handler[T]) decodeResource(req *admission.Request, raw runtime.RawExtension) (storedResource[T], error) {
	obj := h.empty()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, obj); err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	obj.SetNamespace(req.Namespace)
	return obj, nil
}

// undecodableError is the refusal of a spec that cannot be decoded.
func (h *handler[T]) undecodableError(obj client.Object, err error) error {
	var wrong *field.Error
	if !errors.As(err, &wrong) {
		wrong = field.InternalError(field.NewPath("spec"), err)
	}
	return apierrors.NewInvalid(appv1.GroupVersion.WithKind(h.kind).GroupKind(), obj.GetName(), validation.List(field.ErrorList{wrong}))
}
