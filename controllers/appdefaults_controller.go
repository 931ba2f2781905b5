package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
)

// defaultsValid has for each AppDefaults whether they are in force.
var defaultsValid = metrics.DefaultsValid.NewGauge()

func init() { ctrlmetrics.Registry.MustRegister(defaultsValid) }

const (
	// countDelay is how long a count of resources waits for further changes. A count that takes long waits for surveyPauses times the duration of the latest one, but for
	// maxCountDelay at most: each user can cause counts by changes of one resource, and a count for all namespaces reads the resources of all.
	countDelay    = time.Second
	surveyPauses  = 10
	maxCountDelay = 30 * time.Second
	// maxFailedDefaults is how many resources status.failed has at most.
	maxFailedDefaults = 10
)

// AppDefaultsReconciler writes the status of AppDefaults: whether they are in force, and how many resources have them. The kinds take
// the defaults.
type AppDefaultsReconciler struct {
	Deps
	// WaveHandover is for how long after its start the manager begins no wave; nil for waveHandover.
	WaveHandover *time.Duration

	judged judgements
	mu     sync.Mutex
	// first is the time of the first reconcile.
	first time.Time
	// spent is how long the latest survey of each AppDefaults took, by their namespace, without the reads of resources from the API server.
	spent map[string]time.Duration
}

// +kubebuilder:rbac:groups=app.huolala.cn,resources=appdefaults,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,resources=appdefaults/status,verbs=patch
// +kubebuilder:rbac:groups=app.huolala.cn,namespace=system,resources=appdefaults,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.huolala.cn,namespace=system,resources=appdefaults/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=system,resources=events,verbs=create

// setupWithManager adds the controller to the manager.
func (r *AppDefaultsReconciler) setupWithManager(mgr ctrl.Manager) error {
	exists := existsIn(mgr.GetCache(), func() client.Object { return &stored.AppDefaults{} })
	options := queueOptions(mgr.GetControllerOptions().MaxConcurrentReconciles, exists)
	b := ctrl.NewControllerManagedBy(mgr).Named("appdefaults").WithOptions(options).
		Watches(&stored.AppDefaults{}, r.changeHandler(), builder.WithPredicates(specChanged()))
	for _, k := range allKinds() {
		if k.Serves {
			b.Watches(k.empty(), r.recountHandler())
		}
	}
	b.WatchesRawSource(source.Func(func(_ context.Context, queue waves.Queue) error {
		r.grants.RegisterLeader(queue)
		return nil
	}))
	return b.Complete(holdAnswers(r.answers, r))
}

// changeHandler has the AppDefaults be looked at that depend on changed ones. The ones of the operator's namespace are looked at a little later if the others have
// changed, as after a change of a resource.
func (r *AppDefaultsReconciler) changeHandler() handler.EventHandler {
	enqueue := func(ctx context.Context, obj client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		for _, request := range r.onChange(ctx, obj) {
			if own := r.defaults.own; request.Namespace == own && obj.GetNamespace() != own {
				queue.AddAfter(request, r.recountDelay(own))
				continue
			}
			queue.Add(request)
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

// onChange returns the AppDefaults that depend on changed ones. It is called on a stand-by too, which reads the last valid ones should a status
// lack them when it takes over.
func (r *AppDefaultsReconciler) onChange(ctx context.Context, obj client.Object) []ctrl.Request {
	// What cannot be read now is read by Reconcile, which can report it.
	_, _ = r.defaults.readDefaults(ctx, obj.GetNamespace())
	requests := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
	switch own := r.defaults.own; {
	case own == "":
		return requests
	case obj.GetNamespace() != own: // The rollout of the operator's namespace may count for this namespace now, or no longer.
		return append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: own, Name: appv1.AppDefaultsName}})
	}
	all := &stored.AppDefaultsList{}
	if r.Client.List(ctx, all, client.UnsafeDisableDeepCopy) != nil {
		return requests
	}
	for i := range all.Items { // Their default sizes may be defined here.
		if of := &all.Items[i]; of.Namespace != r.defaults.own {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
		}
	}
	return requests
}

// recountHandler has the AppDefaults that count for a resource be looked at a little later, so that many resources that change cost one
// count.
func (r *AppDefaultsReconciler) recountHandler() handler.EventHandler {
	enqueueIf := func(ctx context.Context, obj client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request], counts func(string) bool) {
		for _, ns := range r.defaults.namespacesFor(obj.GetNamespace()) {
			if !counts(ns) {
				continue
			}
			key := types.NamespacedName{Namespace: ns, Name: appv1.AppDefaultsName}
			for _, request := range r.requestIfExists(ctx, &stored.AppDefaults{}, key) {
				queue.AddAfter(request, r.recountDelay(ns))
			}
		}
	}
	enqueue := func(ctx context.Context, obj client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		enqueueIf(ctx, obj, queue, func(string) bool { return true })
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(ctx, e.Object, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			changed := defaultsChanged(e)
			enqueueIf(ctx, e.ObjectNew, queue, func(ns string) bool { return changed || rolloutChanged(e) && r.inWaves(ctx, ns) })
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(ctx, e.Object, queue)
		},
	}
}

// recountDelay returns for how long the next survey of the AppDefaults in a namespace waits.
func (r *AppDefaultsReconciler) recountDelay(namespace string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(max(countDelay, surveyPauses*r.spent[namespace]), maxCountDelay)
}

// noteSurvey notes how long the latest survey of the AppDefaults in a namespace took. AppDefaults that are gone have none.
func (r *AppDefaultsReconciler) noteSurvey(namespace string, spent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent == nil {
		r.spent = map[string]time.Duration{}
	}
	if delete(r.spent, namespace); spent > 0 {
		r.spent[namespace] = spent
	}
}

// defaultsChanged reports whether an event of a resource changes a count.
func defaultsChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(stored.Observed)
	after, also := e.ObjectNew.(stored.Observed)
	return !ok || !also || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || !equality.Semantic.DeepEqual(before.Defaults(), after.Defaults())
}

// Reconcile implements reconcile.Reconciler.
func (r *AppDefaultsReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	known, err := r.defaults.readDefaults(ctx, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	found := &stored.AppDefaults{}
	switch err := r.Client.Get(ctx, req.NamespacedName, found); {
	case apierrors.IsNotFound(err):
		defaultsValid.DeleteLabelValues(req.Namespace)
		r.judged.keepLatest(req.Namespace, nil)
		r.noteSurvey(req.Namespace, 0)
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
	began := r.Clock.Now()
	counted, err := r.surveyResources(ctx, found)
	if err != nil {
		return ctrl.Result{}, err
	}
	rollout := r.decideRollout(&known, counted)
	r.noteSurvey(req.Namespace, r.Clock.Since(began)-counted.reading)
	if rollout.by, err = r.wavesOfOthers(ctx, req.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	again := ctrl.Result{RequeueAfter: rollout.again}
	if counted.left {
		again.RequeueAfter = reconciler.MinRequeue(again.RequeueAfter, r.recountDelay(req.Namespace))
	}
	typed, _ := found.Decode() // The status has why the spec cannot be decoded.
	before := typed.DeepCopy()
	typed.Status = newDefaultsStatus(typed, &known, counted, &rollout)
	typed.Status.LastValid = keepLastValid(found, &known)
	if !equality.Semantic.DeepEqual(before.Status, typed.Status) {
		if err := r.patchStatus(ctx, before, typed); err != nil {
			return ctrl.Result{}, err
		}
		r.emitRollout(found, &before.Status, &typed.Status)
	}
	r.grantWave(found, &rollout)
	return again, nil
}

// keepLastValid returns the last valid spec for the status: the present one if it is valid. A text with the same meaning stays as it is. In place of a text that
// is missing or cannot be read, the status has the spec in force, also one with containers that cannot run: what counts is the same after a restart. A text that can
// be read stays, also where its spec is valid no longer, as with a feature that was switched off since.
func keepLastValid(found *stored.AppDefaults, known *knownDefaults) string {
	before, valid := found.Status.Value.LastValid, len(known.wrong) == 0
	switch past := decodeLastValid(before); {
	case known.valid == nil, !valid && past != nil, equality.Semantic.DeepEqual(past, known.valid):
		return before
	case valid && !found.Reduced():
		return encodeLastValid(found.Raw())
	}
	return encodeTyped(known.valid)
}

// encodeTyped is encodeLastValid for a spec whose text is not known: the cache has it in part, or the AppDefaults have another one by now.
func encodeTyped(valid *appv1.AppDefaultsSpec) string {
	var spec stored.Spec
	plain, err := json.Marshal(valid)
	if err != nil || spec.UnmarshalJSON(plain) != nil {
		return ""
	}
	return encodeLastValid(spec)
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

// newDefaultsStatus returns the status of AppDefaults.
func newDefaultsStatus(of *appv1.AppDefaults, known *knownDefaults, found *survey, rollout *rolloutResult) appv1.AppDefaultsStatus {
	made := found.counted
	made.Failed = sortFailed(made.Failed)
	// The waves go on where they were, once the AppDefaults roll out in waves again.
	made.Wave, made.SoakedWave, made.SoakedSeconds = of.Status.Wave, of.Status.SoakedWave, of.Status.SoakedSeconds
	made.Conditions, made.ObservedGeneration = slices.Clone(of.Status.Conditions), of.Generation
	set := newSetCondition(&made.Conditions, of.Generation)
	valid, reason, text := len(known.wrong) == 0, appv1.ReasonApplied, messageDefaultsInForce
	if !valid {
		reason, text = appv1.ReasonInvalid, messageDefaultsLastValid
		if known.valid == nil {
			text = messageDefaultsNoneValid
		}
		text += message.Quote(validation.List(known.wrong).ToAggregate().Error())
	}
	set(appv1.ConditionValid, valid, reason, text)
	if valid && rollout.inWaves {
		setWaves(&made, found, rollout, set)
		return made
	}
	if valid && rollout.by != "" && found.awaiting > 0 {
		setAwaiting(found, rollout.by, set)
		return made
	}
	set(appv1.ConditionStalled, !valid, reason, text)
	set(appv1.ConditionReconciling, false, reason, text)
	if valid {
		text = fmt.Sprintf(messageDefaultsCounted, message.Count(int(made.Apps), "resource"), made.Current, made.Pending)
	}
	set(appv1.ConditionReady, valid, reason, text)
	switch {
	case valid && made.Pending > 0:
		reason, text = appv1.ReasonNextChange, fmt.Sprintf(messageNextChange, message.Count(int(made.Pending), "resource"))
	case valid:
		reason, text = appv1.ReasonRolledOut, fmt.Sprintf(messageRolledOut, made.Current)
	}
	set(appv1.ConditionRolledOut, valid && made.Pending == 0, reason, text)
	return made
}
