package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
)

// defaultsValid has for each AppDefaults whether they are in force.
var defaultsValid = metrics.DefaultsValid.NewGauge()

func init() { ctrlmetrics.Registry.MustRegister(defaultsValid) }

const (
	// countDelay is how long a count of resources waits for further changes.
	countDelay = time.Second
	// maxFailedDefaults is how many resources status.failed has at most.
	maxFailedDefaults = 10
)

// AppDefaultsReconciler writes the status of AppDefaults: whether they are in force, and how many resources have them. The kinds take
// the defaults.
type AppDefaultsReconciler struct{ Deps }

// +kubebuilder:rbac:groups=app.huolala.cn,resources=appdefaults,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=appdefaults/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,namespace=system,resources=appdefaults,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,namespace=system,resources=appdefaults/status,verbs=patch

// setupWithManager adds the controller to the manager.
func (r *AppDefaultsReconciler) setupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("appdefaults").WithOptions(retryOptions()).
		Watches(&stored.AppDefaults{}, handler.EnqueueRequestsFromMapFunc(r.onChange), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	for _, k := range kinds() {
		if k.Serves {
			b.Watches(k.empty(), r.recount(), builder.WithPredicates(defaultsChanged()))
		}
	}
	return b.Complete(r)
}

// onChange returns the AppDefaults that depend on changed ones. It is called on a stand-by too, which reads the last valid ones should a status
// lack them when it takes over.
func (r *AppDefaultsReconciler) onChange(ctx context.Context, obj client.Object) []ctrl.Request {
	// What cannot be read now is read by Reconcile, which can report it.
	_, _ = r.defaults.read(ctx, obj.GetNamespace())
	requests := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
	all := &stored.AppDefaultsList{}
	if obj.GetNamespace() != r.defaults.own || r.Client.List(ctx, all, client.UnsafeDisableDeepCopy) != nil {
		return requests
	}
	for i := range all.Items { // Their default sizes may be defined here.
		if of := &all.Items[i]; of.Namespace != r.defaults.own {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
		}
	}
	return requests
}

// recount has the AppDefaults that count for a resource be looked at a little later, so that many resources that change cost one count.
func (r *AppDefaultsReconciler) recount() handler.EventHandler {
	enqueue := func(ctx context.Context, obj client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		for _, ns := range r.defaults.namespacesFor(obj.GetNamespace()) {
			key := types.NamespacedName{Namespace: ns, Name: appv1.AppDefaultsName}
			for _, request := range r.requestIfExists(ctx, &stored.AppDefaults{}, key) {
				queue.AddAfter(request, countDelay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(ctx, e.Object, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(ctx, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(ctx, e.Object, queue)
		},
	}
}

// defaultsChanged selects the events of resources that change a count.
func defaultsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(stored.Observed)
		after, also := e.ObjectNew.(stored.Observed)
		return !ok || !also || !equality.Semantic.DeepEqual(before.Defaults(), after.Defaults())
	}}
}

// Reconcile implements reconcile.Reconciler.
func (r *AppDefaultsReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	known, err := r.defaults.read(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	found := &stored.AppDefaults{}
	switch err := r.Client.Get(ctx, req.NamespacedName, found); {
	case apierrors.IsNotFound(err):
		defaultsValid.DeleteLabelValues(req.Namespace)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read AppDefaults %s: %w", req.NamespacedName, err)
	case found.UID != known.uid || found.ResourceVersion != known.version:
		return ctrl.Result{RequeueAfter: countDelay}, nil // Changed in between.
	}
	valid := 1.0
	if len(known.wrong) > 0 {
		valid = 0
	}
	defaultsValid.WithLabelValues(req.Namespace).Set(valid)
	counted, err := r.count(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	typed, _ := found.Decode() // The status has why the spec cannot be decoded.
	before := typed.DeepCopy()
	counted.LastValid = keepLastValid(found, &known)
	typed.Status = newDefaultsStatus(typed, &known, counted)
	if equality.Semantic.DeepEqual(before.Status, typed.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.patchStatus(ctx, before, typed)
}

// keepLastValid returns the last valid spec for the status: the present one if it is valid. A text with the same meaning stays as it is.
func keepLastValid(found *stored.AppDefaults, known *knownDefaults) string {
	before := found.Status.Value.LastValid
	if len(known.wrong) > 0 || equality.Semantic.DeepEqual(decodeLastValid(before), known.valid) {
		return before
	}
	return encodeLastValid(found.Raw())
}

// patchStatus writes the status.
func (r *AppDefaultsReconciler) patchStatus(ctx context.Context, before, after *appv1.AppDefaults) error {
	was, is := &stored.AppDefaults{}, &stored.AppDefaults{}
	was.ObjectMeta, is.ObjectMeta = before.ObjectMeta, after.ObjectMeta
	was.Status.Value, is.Status.Value = before.Status, after.Status
	if err := reconciler.MergeStatus(ctx, r.Client, was, is); err != nil {
		return fmt.Errorf("AppDefaults %s/%s: %w", after.Namespace, after.Name, err)
	}
	return nil
}

// count counts the resources that the AppDefaults of a namespace count for.
func (r *AppDefaultsReconciler) count(ctx context.Context, namespace string) (appv1.AppDefaultsStatus, error) {
	var made appv1.AppDefaultsStatus
	for _, k := range kinds() {
		if !k.Serves {
			continue
		}
		list := k.list()
		// The list is not changed.
		if err := r.Client.List(ctx, list, r.defaults.scopeOf(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return made, fmt.Errorf("list %s: %w", k.Plural, err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			obj, ok := item.(stored.Observed)
			if !ok {
				return errors.New("the list has another type")
			}
			countDefaults(&made, k.Name, obj)
			return nil
		}); err != nil {
			return made, err
		}
	}
	slices.SortFunc(made.Failed, func(a, b appv1.FailedDefaults) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	made.Failed = made.Failed[:min(len(made.Failed), maxFailedDefaults)]
	return made, nil
}

// countDefaults counts one resource.
func countDefaults(made *appv1.AppDefaultsStatus, kind string, obj stored.Observed) {
	made.Apps++
	switch used := obj.Defaults(); {
	case used != nil && used.Current:
		made.Current++
	case used != nil && used.Invalid != "":
		made.Failed = append(made.Failed, appv1.FailedDefaults{
			Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Message: message.Quote(used.Invalid),
		})
		made.Pending++
	default:
		made.Pending++
	}
}

// newDefaultsStatus returns the status of AppDefaults.
func newDefaultsStatus(of *appv1.AppDefaults, known *knownDefaults, counted appv1.AppDefaultsStatus) appv1.AppDefaultsStatus {
	made := counted
	made.Conditions, made.ObservedGeneration = slices.Clone(of.Status.Conditions), of.Generation
	set := func(kind string, is bool, reason, text string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&made.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: of.Generation,
		})
	}
	valid, reason, text := len(known.wrong) == 0, appv1.ReasonApplied, messageDefaultsInForce
	if !valid {
		reason, text = appv1.ReasonInvalid, messageDefaultsLastValid
		if known.valid == nil {
			text = messageDefaultsNoneValid
		}
		text += message.Quote(validation.List(known.wrong).ToAggregate().Error())
	}
	set(appv1.ConditionValid, valid, reason, text)
	set(appv1.ConditionStalled, !valid, reason, text)
	set(appv1.ConditionReconciling, false, reason, text)
	if valid {
		text = fmt.Sprintf(messageDefaultsCounted, made.Apps, made.Current, made.Pending)
	}
	set(appv1.ConditionReady, valid, reason, text)
	return made
}
