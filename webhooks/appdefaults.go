package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/guard"
	"huolala.cn/app-operator/internal/stored"
)

// +kubebuilder:webhook:path=/validate-app-huolala-cn-v1-appdefaults,mutating=false,failurePolicy=ignore,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=2,groups=app.huolala.cn,resources=appdefaults,verbs=create;update,versions=v1,name=vappdefaults.app.huolala.cn,admissionReviewVersions=v1

const (
	kindAppDefaults = "AppDefaults"
	// maxDefaultsLine is how long the plan of AppDefaults is, in bytes.
	maxDefaultsLine = 1000
)

// defaultsHandler refuses invalid AppDefaults, and answers a dry run with the effects that they would have.
type defaultsHandler struct{ *validators }

func (s *validators) setUpAppDefaults(server webhook.Server) {
	server.Register("/validate-app-huolala-cn-v1-appdefaults", newAdmission(counted{&defaultsHandler{s}, kindAppDefaults}))
}

// Handle implements admission.Handler.
func (h *defaultsHandler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	if req.Operation == admissionv1.Update { // A creation proves nothing.
		guard.Prove(ctx, func() bool { return h.isProven(ctx, &req, identityOf(req.Namespace, req.Object.Raw)) })
	}
	done, ok := h.limits.shareOf(ctx).reviews.beginTurn(ctx, req.Namespace, h.patience)
	if !ok {
		return admission.Allowed("").WithWarnings(messageNotReviewed)
	}
	defer done()
	found := &stored.AppDefaults{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, found); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the request: %w", err))
	}
	found.SetNamespace(req.Namespace) // The proof and the plan are about the same namespace, whatever a forged object states.
	who := h.newAsker(ctx, req.Namespace, h.isProven(ctx, &req, found))
	if found.GetDeletionTimestamp() != nil || h.keepsSpec(&req, found) {
		return admission.Allowed("")
	}
	typed, err := found.Decode()
	errs, pending := h.validateDefaults(ctx, who, typed, found.Raw().Len(), err)
	if len(errs) > 0 {
		refused := apierrors.NewInvalid(appv1.GroupVersion.WithKind(kindAppDefaults).GroupKind(), found.GetName(), validation.List(errs))
		status := refused.Status()
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
	}
	allowed := admission.Allowed("").WithWarnings(warnOf(pending, messagePendingDefaults)...)
	if !ptr.Deref(req.DryRun, false) || h.planner == nil || isSilent(req.Options.Raw) {
		return allowed
	}
	return allowed.WithWarnings(h.planLine(ctx, who, typed))
}

// isProven reports whether the author of a review could read the stored AppDefaults: the UID is that in the cache.
func (h *defaultsHandler) isProven(ctx context.Context, req *admission.Request, found client.Object) bool {
	if req.Operation != admissionv1.Update || found.GetUID() == "" {
		return false
	}
	known := &stored.AppDefaults{}
	key := types.NamespacedName{Namespace: req.Namespace, Name: found.GetName()}
	return h.cache.Get(ctx, key, known) == nil && known.GetUID() == found.GetUID()
}

// keepsSpec reports whether an update leaves the spec as it was: AppDefaults that were once stored can always be labelled and annotated.
func (h *defaultsHandler) keepsSpec(req *admission.Request, found *stored.AppDefaults) bool {
	before := &stored.AppDefaults{}
	return req.Operation == admissionv1.Update && kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, before) == nil &&
		found.Raw().Equal(before.Raw())
}

// validateDefaults returns the errors of AppDefaults, and the pending errors, which other AppDefaults would remove. length is the length of the
// JSON of the spec, and undecodable is why it cannot be decoded.
func (h *defaultsHandler) validateDefaults(
	ctx context.Context, who *asker, defaults *appv1.AppDefaults, length int, undecodable error,
) (errs, pending field.ErrorList) {
	path := field.NewPath("spec")
	var wrong *field.Error
	switch {
	case errors.As(undecodable, &wrong):
		return field.ErrorList{wrong}, nil
	case undecodable != nil:
		return field.ErrorList{field.InternalError(path, undecodable)}, nil
	}
	if errs = validation.AppDefaults(&defaults.Spec, length, h.disabled); len(errs) == 0 {
		errs = validation.RunnableDefaults(&defaults.Spec)
	}
	name := defaults.Spec.Defaults.Size
	if len(errs) > 0 || name == "" || h.planner == nil || who.grantAnswer(topicDefaults) != full {
		return errs, nil
	}
	present, err := h.planner.PresentWith(ctx, defaults.Namespace, &defaults.Spec)
	if err != nil || present.Unknown != "" {
		return nil, nil
	}
	undefined := present.Sizes.Resolve(name).Undefined(present.Sizes, path.Child("defaults", "size"))
	if h.ownNamespace == "" || h.ownNamespace == defaults.Namespace { // No other AppDefaults count.
		return undefined, nil
	}
	return nil, undefined
}

// planLine returns the effects of AppDefaults for an asker who has proved to read the AppDefaults. The effects depend on the specs of others.
func (h *defaultsHandler) planLine(ctx context.Context, who *asker, defaults *appv1.AppDefaults) string {
	if who.grantAnswer(topicDefaultsPlan) != full {
		return "plan: " + messagePlanUnproven
	}
	done, ok := h.limits.plans.beginTurn(ctx, defaults.Namespace, h.patience/3)
	if !ok {
		return "plan: " + messagePlanBusy
	}
	defer done()
	made, err := h.planner.PlanDefaults(ctx, defaults.Namespace, &defaults.Spec)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messagePlanFailed, "namespace", defaults.Namespace, "error", err.Error())
		return "plan: " + messagePlanBusy
	}
	if made.InWaves {
		return "plan: " + made.Line(maxDefaultsLine) + messagePlanOfWaves
	}
	return "plan: " + made.Line(maxDefaultsLine) + messagePlanOfDefaults
}
