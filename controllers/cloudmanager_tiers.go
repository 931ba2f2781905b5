package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// tiers is the tiers of one CloudManager in one reconcile, in the order in which they are made.
type tiers struct {
	cm    *appv1.CloudManager
	db    *database
	tiers []*tier
	// inForce is the CloudManager with the specs of the tiers so far that are in force, which the later tiers are led to.
	inForce *appv1.CloudManager
}

// tier is one tier of a CloudManager in one reconcile.
type tier struct {
	*target
	// role is the tier's label, phase the CloudManager's while the tier is on its way, condition says how it is doing.
	role      string
	phase     appv1.Phase
	condition string
	// pods are those that live, former are objects of the tier's by an earlier name.
	pods     []corev1.Pod
	previous []client.Object
	// keeps is true while the former ones may not go yet, as what they have is to be kept.
	keeps bool
	// carryOut applies the tier's spec; stands says how its workload object stands, before and after that.
	reconcile    func(context.Context) (reconciler.Report, error)
	availability func() standing

	// waiting says what the tier waits for while it is held.
	waiting string

	// What came of it.
	report reconciler.Report
	err    error
}

// standing is how a workload object stands.
type standing struct {
	// exists is true if there is an object of the name, owned if the CloudManager controls it.
	exists, owned bool
	// up is true if others can rely on it. known is false while its controller has not looked at its latest change.
	known, up bool
}

// observeTiers observes the tiers.
func (r *CloudManagerReconciler) observeTiers(ctx context.Context, cm *appv1.CloudManager) (*tiers, error) {
	former, err := r.findPrevious(ctx, cm)
	if err != nil {
		return nil, err
	}
	wrong := validation.CloudManager(cm)
	db, err := r.observeDatabase(ctx, cm, wrong.Database)
	if err != nil {
		return nil, err
	}
	inForce := cm.DeepCopy()
	identity, err := r.observeTier(ctx, cm, inForce, &cm.Spec.Identity.Deployment, wrong.Identity,
		componentBuilder{resource.CloudManagerIdentity, resource.CloudManagerIdentityFromRecord})
	if err != nil {
		return nil, err
	}
	front, err := r.observeTier(ctx, cm, inForce, &cm.Spec.Front.Deployment, wrong.Front,
		componentBuilder{resource.CloudManagerFront, resource.CloudManagerFrontFromRecord})
	if err != nil {
		return nil, err
	}
	below := &tier{target: db.target, pods: db.pods, reconcile: db.reconcileDatabase, availability: db.availability}
	below.role, below.phase, below.condition = roleDatabase, appv1.PhaseDatabase, appv1.ConditionDatabaseReady
	identity.role, identity.phase, identity.condition = roleIdentity, appv1.PhaseIdentity, appv1.ConditionIdentityReady
	front.role, front.phase, front.condition = roleFront, appv1.PhaseFront, appv1.ConditionFrontReady
	s := &tiers{cm: cm, db: db, inForce: inForce, tiers: []*tier{below, identity, front}}
	for _, t := range s.tiers {
		t.previous = former[t.role]
	}
	return s, nil
}

// observeTier observes a tier that is a Deployment and, if it has ports, a Service. It is led to what inForce has of the tiers before it.
func (r *CloudManagerReconciler) observeTier(ctx context.Context, cm, inForce *appv1.CloudManager, spec *appv1.Component, errs field.ErrorList,
	build componentBuilder,
) (*tier, error) {
	d := r.newTarget(cm, spec, errs, build)
	d.build = func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) {
		return build.build(inForce, seen)
	}
	d.fromRecord = func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
		return build.fromRecord(inForce, record, seen)
	}
	seen, err := r.observeWorkload(ctx, d)
	if err != nil {
		return nil, err
	}
	return &tier{
		target:    d,
		pods:      seen.pods,
		reconcile: func(ctx context.Context) (reconciler.Report, error) { return r.executeReconcile(ctx, d, seen) },
		availability: func() standing {
			live := seen.deployment
			if live == nil {
				return standing{known: true}
			}
			return deploymentAvailability(live, cm, live.Status.ObservedGeneration, live.Spec.Replicas, live.Status.ReadyReplicas)
		},
	}, nil
}

// componentBuilder builds the workload of a component: from the spec, and from the record of an earlier one.
type componentBuilder struct {
	build      func(*appv1.CloudManager, resource.BuildOptions) (*resource.Workload, field.ErrorList)
	fromRecord func(*appv1.CloudManager, string, resource.BuildOptions) (*resource.Workload, error)
}

// componentStatus is what the status of a CloudManager says of the component of a name.
func componentStatus(cm *appv1.CloudManager, name string) *appv1.WorkloadStatus {
	status := &appv1.WorkloadStatus{}
	for _, tier := range []appv1.TierStatus{cm.Status.DB, cm.Status.Identity, cm.Status.Front} {
		if tier.Name == name {
			status.Rendering = tier.Rendering
		}
	}
	return status
}

// newTarget is the workload that a tier means.
func (r *CloudManagerReconciler) newTarget(cm *appv1.CloudManager, spec *appv1.Component, errs field.ErrorList,
	build componentBuilder,
) *target {
	return &target{
		owner:   cm,
		manager: cloudManagerManager,
		name:    spec.Name,
		spec:    &spec.WorkloadSpec,
		errs:    errs,
		status:  componentStatus(cm, spec.Name),
		tier:    spec.Name,
		paused:  cm.Spec.Paused,
		build:   func(seen resource.BuildOptions) (*resource.Workload, field.ErrorList) { return build.build(cm, seen) },
		fromRecord: func(record string, seen resource.BuildOptions) (*resource.Workload, error) {
			return build.fromRecord(cm, record, seen)
		},
		changed: func(record string) (bool, error) { return resource.ComponentSpecChanged(spec, record) },
	}
}

// deploymentAvailability says how a live workload object stands, by the figures of its status.
func deploymentAvailability(live client.Object, owner metav1.Object, observed int64, replicas *int32, ready int32) standing {
	if !metav1.IsControlledBy(live, owner) {
		return standing{exists: true, known: true}
	}
	known := observed >= live.GetGeneration()
	return standing{exists: true, owned: true, known: known, up: known && health.Up(ptr.Deref(replicas, 1), ready)}
}

// reconcileTiers makes the tiers true. One that never existed is made once those before it are up. One that exists, or did, is kept
// as it is wanted whatever they do; unless one of them is to be replaced by one of another name, which this tier must not be
// led to before it is up: it is kept as it was applied last.
func (s *tiers) reconcileTiers(ctx context.Context) {
	var waitsFor *tier
	renamed := false
	s.db.checkSecret = s.needsSecretCheck()
	for _, t := range s.tiers {
		t.held = waitsFor != nil && (renamed || !t.availability().owned && !t.hadWorkload())
		t.report, t.err = t.reconcile(ctx)
		now := t.availability()
		s.noteInForce(t, now.up)
		if t.held {
			t.waiting = fmt.Sprintf(messageTierWaits, t.name, waitsFor.name)
		}
		if t.held && !now.owned && t.err == nil {
			t.report.Reason, t.report.Message = appv1.ReasonDependencyNotReady, t.waiting
		}
		if !now.up {
			renamed = renamed || len(t.previous) > 0
		}
		if waitsFor == nil && (!now.up || isNameTaken(t.err)) {
			waitsFor = t
		}
	}
}

// noteInForce notes what the later tiers are led to: an earlier spec of this tier where the present one is refused, and the tier
// of an earlier name until the present one is up.
func (s *tiers) noteInForce(t *tier, up bool) {
	record := t.kept
	if record == "" && !up {
		record = t.formerRecord()
	}
	if record == "" {
		return
	}
	switch t.role {
	case roleDatabase:
		var past appv1.Database
		if err := resource.DecodeSpec(record, &past); err == nil && past.Name != "" {
			s.inForce.Spec.DB.StatefulSet = past
		}
	case roleIdentity:
		var past appv1.Component
		if err := resource.DecodeSpec(record, &past); err == nil && past.Name != "" {
			s.inForce.Spec.Identity.Deployment = past
		}
	}
}

// formerRecord returns the spec of the tier's workload object of an earlier name, empty if there is none, or several.
func (t *tier) formerRecord() string {
	var records []string
	for _, obj := range t.previous {
		if _, service := obj.(*corev1.Service); !service && t.ownsRecord(obj) {
			records = append(records, obj.GetAnnotations()[appv1.AnnotationLastAppliedSpec])
		}
	}
	if len(records) != 1 {
		return ""
	}
	return records[0]
}

// isNameTaken reports whether an error says that an object of a tier has another owner. No new tier is led to it.
func isNameTaken(err error) bool {
	var stalled *reconciler.StalledError
	return errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// needsSecretCheck reports whether the database's Secret has to be looked at: where it was not, for this spec; where the database is to
// be made; and where a pod misses a Secret. Nobody watches Secrets, and each look is a request.
func (s *tiers) needsSecretCheck() bool {
	c := meta.FindStatusCondition(s.cm.Status.Conditions, appv1.ConditionPasswordInClearText)
	if c == nil || c.ObservedGeneration != s.cm.Generation || !s.db.availability().exists {
		return true
	}
	return slices.ContainsFunc(s.tiers, func(t *tier) bool {
		return slices.ContainsFunc(t.pods, func(pod corev1.Pod) bool {
			return health.CauseOf(&pod).Reason == appv1.ReasonContainerConfigError
		})
	})
}

// removePrevious deletes the objects of tiers by earlier names: once the tier is up under its new name, and the later ones,
// which are led to it, have been rolled over.
func (r *CloudManagerReconciler) removePrevious(ctx context.Context, s *tiers) (apply.ChangeSet, error) {
	req := apply.Request{Owner: s.cm, Manager: cloudManagerManager}
	var errs []error
	for i, t := range s.tiers {
		settled := t.err == nil && !t.report.Paused && !t.keeps && t.availability().up
		for _, later := range s.tiers[i+1:] {
			settled = settled && later.err == nil && later.report.Ready
		}
		if !settled {
			continue
		}
		for _, obj := range t.previous {
			if set, ok := obj.(*appsv1.StatefulSet); ok {
				secret, err := r.previousSecret(ctx, set)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if secret != nil {
					// Before the StatefulSet, by which it is found.
					req.Unwanted = append(req.Unwanted, secret)
				}
			}
			req.Unwanted = append(req.Unwanted, obj)
		}
	}
	if len(req.Unwanted) == 0 {
		return nil, reconciler.Aggregate(errs...)
	}
	removed, err := r.Engine.Apply(ctx, &req)
	return removed, reconciler.Aggregate(append(errs, lookAgain(err))...)
}

// readSecret reads a Secret from the API server, nil if there is none. Secrets are never in the cache.
func (r *CloudManagerReconciler) readSecret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	switch err := r.Live.Get(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, &reconciler.FailedError{
			Reason: appv1.ReasonForbidden, Err: err,
			Message: fmt.Sprintf("Secret %s cannot be read: %s", key.Name, message.Quote(err.Error())),
		}
	case err != nil:
		return nil, &reconciler.FailedError{
			Reason: appv1.ReasonApplyFailed, Err: err,
			Message: fmt.Sprintf(messageSecretUnreadable, key.Name),
		}
	}
	return secret, nil
}

// tierErrors are those of all tiers.
func (s *tiers) tierErrors() []error {
	errs := make([]error, len(s.tiers))
	for i, t := range s.tiers {
		errs[i] = t.err
	}
	return errs
}

func isStale(err error) bool { return errors.Is(err, reconciler.ErrStale) }

// newReport states how the tiers stand in the status and in the report.
func (s *tiers) newReport(obj *appv1.CloudManager, removed apply.ChangeSet) reconciler.Report {
	for i, status := range []*appv1.TierStatus{&obj.Status.DB, &obj.Status.Identity, &obj.Status.Front} {
		t := s.tiers[i]
		*status = appv1.TierStatus{
			Name: t.name, Ready: t.status.Ready, Endpoint: t.status.Endpoint,
			Rendering: t.status.Rendering, LatestRendering: t.status.LatestRendering,
			Size: t.status.Size, LatestSize: t.status.LatestSize,
		}
		meta.SetStatusCondition(&obj.Status.Conditions, t.ready(obj.Generation))
	}
	meta.SetStatusCondition(&obj.Status.Conditions, s.db.passwordCondition(obj))
	before := obj.Status.Phase
	obj.Status.Phase, obj.Status.Ready = s.phase(before, obj.Status.Ready)

	report := s.summarizeTiers()
	if obj.Status.Phase != before && (before != "" || obj.Status.Phase != appv1.PhasePending) {
		report.Event, report.Note = "Updated", "phase "+string(obj.Status.Phase)
	}
	if action, line := removed.Summary(); line != "" {
		report.Event = string(action)
		report.Changes = strings.TrimPrefix(report.Changes+"; "+line, "; ")
	}
	return report
}

// ready is the condition that says how the tier is doing.
func (t *tier) ready(generation int64) metav1.Condition {
	c := metav1.Condition{
		Type: t.condition, Status: metav1.ConditionFalse, ObservedGeneration: generation,
		Reason: t.report.Reason, Message: t.report.Message,
	}
	switch {
	case t.err != nil:
		c.Reason, c.Message = reconciler.ReasonAndMessageOf(t.err)
	case t.report.Ready:
		c.Status = metav1.ConditionTrue
	}
	return c
}

// phase says how far the CloudManager has come, and how many tiers are up. As long as it is not known how a tier takes a
// change, what was said before still holds.
func (s *tiers) phase(before appv1.Phase, ready string) (appv1.Phase, string) {
	var next *tier // The first that is not up, or has yet to replace one of an earlier name.
	up, renaming, down, unknown := 0, false, false, false
	for _, t := range s.tiers {
		now := t.availability()
		var waiting *reconciler.WaitingError
		switch {
		case now.up:
			up++
		case !now.known, errors.As(t.err, &waiting):
			unknown = true
		default:
			down = true
		}
		renaming = renaming || len(t.previous) > 0
		if next == nil && (!now.up || len(t.previous) > 0) {
			next = t
		}
	}
	figures := fmt.Sprintf("%d/%d", up, len(s.tiers))
	wasUp := (before == appv1.PhaseReady || before == appv1.PhaseDegraded) && !renaming
	switch {
	case next == nil:
		return appv1.PhaseReady, figures
	case wasUp && unknown && !down:
		return before, ready
	case wasUp:
		return appv1.PhaseDegraded, figures
	case next.phase == appv1.PhaseDatabase && !next.availability().exists:
		return appv1.PhasePending, figures
	}
	return next.phase, figures
}

// summarizeTiers is the report on all tiers: that of the first that is not ready, and what was written for any.
func (s *tiers) summarizeTiers() reconciler.Report {
	report := reconciler.Report{Ready: true, Reason: appv1.ReasonReady}
	var said, changes []string
	for _, t := range s.tiers {
		report.Paused = report.Paused || t.report.Paused
		report.Pending = report.Pending || t.report.Pending
		report.RetryAfter = reconciler.MinRequeue(report.RetryAfter, t.report.RetryAfter)
		if report.Warning == "" {
			report.Warning = t.report.Warning
		}
		switch note := &report.AppliedNote; note.Reason {
		case "":
			*note = t.report.AppliedNote
		case t.report.AppliedNote.Reason:
			note.Message += " " + t.report.AppliedNote.Message
		}
		if t.held && report.NotApplied.Reason == "" {
			report.NotApplied = reconciler.ReasonAndMessage{Reason: appv1.ReasonDependencyNotReady, Message: t.waiting}
		}
		if t.report.Changes != "" {
			changes = append(changes, t.report.Changes)
			if report.Changed == "" {
				report.Changed = t.report.Changed
			}
		}
		said = append(said, t.report.Message)
		if report.Ready && !t.report.Ready {
			report.Ready, report.Stalled = false, t.report.Stalled
			report.Reason, report.Message = t.report.Reason, t.report.Message
		}
	}
	report.Changes = strings.Join(changes, "; ")
	for _, t := range s.tiers {
		if report.Ready && len(t.previous) > 0 {
			report.Ready, report.Reason = false, appv1.ReasonProgressing
			report.Message = fmt.Sprintf(messageRemovingPrevious, t.name, t.previous[0].GetName())
		}
	}
	if report.Ready {
		report.Message = strings.Join(said, "; ")
	}
	return report
}
