package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	admissionv1 "k8s.io/api/admission/v1"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// A dry run of a change is answered with the plan of the change. Any pod can send a review with any content to the webhooks' port, so a
// plan that costs requests or has values is only for a caller who can read the resource: an update proves this by the resource's UID. The
// plan of a creation uses only the content of the request, and names.

// Planner plans changes of custom resources.
type Planner interface {
	Plan(ctx context.Context, kind string, obj client.Object) (*plan.Plan, error)
	// Obstacle returns why an object of a kind that the cluster may lack cannot be created, nil if no obstacle is known. It sends no
	// request.
	Obstacle(ctx context.Context, obj client.Object) error
	// Adoptions returns the outcome for each object that a reconcile of the resource would take over, and the obstacles to objects. A
	// StalledError prevents all adoptions that are missing.
	Adoptions(ctx context.Context, kind string, obj client.Object) ([]apply.Outcome, error)
	// Present returns the defaults and the sizes that count for the resources of a namespace, without a request.
	Present(ctx context.Context, namespace string) (resource.PresentDefaults, error)
	// PresentWith is Present with another spec of the AppDefaults of the namespace.
	PresentWith(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (resource.PresentDefaults, error)
	// PlanDefaults returns the effects of AppDefaults if every resource took them, without a request.
	PlanDefaults(ctx context.Context, namespace string, spec *appv1.AppDefaultsSpec) (*plan.Defaults, error)
	// Apart reports whether the objects of a type are not in the manager's cache.
	Apart(obj client.Object) bool
}

const (
	// maxPlanLines is how many warnings a plan has, maxPlanLine how long one is, in bytes: the API server cuts longer ones where
	// all are longer than 4,096.
	maxPlanLines = 14
	maxPlanLine  = 240
	// maxPlans is how many plans of changes are made at once.
	maxPlans = 2
)

// silentManagers are the field managers of tools that make dry runs all the time, and show their warnings to no user.
var silentManagers = []string{"argocd-controller", "kustomize-controller"}

// answerPlan answers a dry run with the plan of the change: with warnings, or, where that is asked for, with a denial that has the
// plan as data. It answers nothing to any other request.
// release ends the turn of the review, for a plan has one of its own.
func (h *handler[T]) answerPlan(ctx context.Context, req *admission.Request, release func()) (lines []string, answer *metav1.Status) {
	if !ptr.Deref(req.DryRun, false) || h.planner == nil {
		return nil, nil
	}
	now, err := h.decodeResource(req, req.Object)
	if err != nil || now.GetName() == "" || now.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	asked := now.GetAnnotations()[appv1.AnnotationPlan] == plan.Request
	var before storedResource[T]
	if req.Operation == admissionv1.Update {
		if before, err = h.decodeResource(req, req.OldObject); err != nil {
			return nil, nil
		}
		// A stored annotation requests no plan; otherwise the dry runs of all tools would be denied.
		asked = asked && before.GetAnnotations()[appv1.AnnotationPlan] != plan.Request
	}
	if !asked && (isSilent(req.Options.Raw) || before != nil && !changesPlan(before, now)) {
		return nil, nil
	}
	obj, err := now.Decode()
	if err != nil {
		return nil, nil
	}
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, appv1.AnnotationPlan)
	obj.SetAnnotations(annotations)
	var old client.Object
	if before != nil {
		old = before
	}
	made, busy := h.makePlan(ctx, obj, old, release)
	begin := fmt.Sprintf("plan: %s %s/%s: ", h.kind, obj.GetNamespace(), obj.GetName())
	switch {
	case busy != "" && asked:
		return nil, &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Message: begin + busy, Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
		}
	case busy != "":
		return []string{begin + busy}, nil
	case asked:
		return nil, answeredPlan(begin, made)
	}
	for _, line := range made.Lines(maxPlanLines, maxPlanLine-len(begin)) {
		lines = append(lines, begin+line)
	}
	return lines, nil
}

// answeredPlan is the denial that has a plan.
func answeredPlan(begin string, made *plan.Plan) *metav1.Status {
	// A plan of texts and numbers always has a JSON form.
	data, _ := json.Marshal(made)
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: plan.ReasonAnswered,
		Message: begin + made.Summary(),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: plan.CauseAnswered, Message: string(data)}}},
	}
}

// isSilent reports whether the options of a request name a field manager whose user sees no warnings.
func isSilent(options []byte) bool {
	var said struct {
		FieldManager string `json:"fieldManager"`
	}
	return json.Unmarshal(options, &said) == nil && slices.Contains(silentManagers, said.FieldManager)
}

// changesPlan reports whether two states of a resource can have different plans.
func changesPlan[T client.Object](before, now storedResource[T]) bool {
	return !now.Raw().Equal(before.Raw()) || slices.ContainsFunc(stored.ReadAnnotations(), func(key string) bool {
		return now.GetAnnotations()[key] != before.GetAnnotations()[key]
	})
}

// makePlan returns the plan of a change, or the message why there is none.
func (h *handler[T]) makePlan(ctx context.Context, obj T, old client.Object, release func()) (made *plan.Plan, busy string) {
	who := h.askerOf(ctx, obj, old)
	if old == nil {
		told := who.grantAnswer(topicCreationPlan)
		if told == nothing {
			return nil, messagePlanBusy
		}
		return h.planCreation(ctx, who, obj, told), ""
	}
	if who.grantAnswer(topicChangePlan) != full {
		return nil, messagePlanUnknown
	}
	release()
	done, ok := h.limits.plans.beginTurn(ctx, obj.GetNamespace(), h.patience/3)
	if !ok {
		return nil, messagePlanBusy
	}
	defer done()
	made, err := h.planner.Plan(ctx, h.kind, obj)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info(messagePlanFailed, "name", obj.GetName(), "error", err.Error())
		return nil, messagePlanBusy
	}
	return made, ""
}

// planCreation lists the objects of a new resource, and which of their names are taken. It sends no request.
func (h *handler[T]) planCreation(ctx context.Context, who *asker, obj T, told disclosure) *plan.Plan {
	found := h.review(ctx, who, obj)
	made := &plan.Plan{
		Version: plan.Version, Kind: h.kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Created: true, Paused: found.paused,
		Objects: []plan.Object{},
	}
	for _, wanted := range found.plannedObjects() {
		made.Objects = append(made.Objects, plan.Object{
			Kind: wanted.GetObjectKind().GroupVersionKind().Kind, Name: wanted.GetName(), Action: plan.Created,
		})
		if err := h.planner.Obstacle(ctx, wanted); err != nil {
			last := &made.Objects[len(made.Objects)-1]
			last.Action, last.Problem = plan.Blocked, problemOf(err)
			continue
		}
		row := children.TypeOf(wanted)
		made.Objects[len(made.Objects)-1].Unseen = row.Custom || row.Scope != children.ScopeAll // The cache has no foreign object of the type.
		if !row.Custom {
			h.planTaken(ctx, obj, wanted, made, told)
		}
	}
	return made
}

// planTaken corrects the last object of a plan if there is one of its name: it is taken over, only scaled, or in the way.
func (h *handler[T]) planTaken(ctx context.Context, obj T, wanted client.Object, made *plan.Plan, told disclosure) {
	last := &made.Objects[len(made.Objects)-1]
	live, ok := emptyLike(wanted)
	row := children.TypeOf(wanted)
	if !ok || !row.Role.Has(children.RoleChild) || row.Scope == children.ScopeLive || !h.readCached(ctx, wanted, live) {
		return
	}
	if _, deployment := live.(*appsv1.Deployment); deployment && h.kind == resource.KindUnitedDeployment.Name && !wantsAdoption(obj) {
		last.Action = plan.Scaled
		return
	}
	last.Unseen = false
	if err := apply.Taken(h.scheme, obj, wanted, live, wantsAdoption(obj)); err != nil {
		problem := problemOf(err)
		problem.Message = takenMessage(told, wanted, live, problem.Message)
		if row.Auxiliary {
			last.Action, last.Problem = plan.Blocked, problem
			return
		}
		made.Problem = problem
		made.Objects = made.Objects[:len(made.Objects)-1]
		return
	}
	_, service := wanted.(*corev1.Service)
	_, account := wanted.(*corev1.ServiceAccount)
	last.Action, last.TakenOver, last.Unseen = plan.Changed, true, service || account // Whom it serves is not looked for.
}

// problemOf is an error as a plan states it.
func problemOf(err error) *plan.Problem {
	reason, message := reconciler.ReasonAndMessageOf(err)
	return &plan.Problem{Reason: reason, Message: message}
}
