package workload

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// sameTemplates is a comparer that finds every two templates the same, or none if it is false.
type sameTemplates bool

func (s sameTemplates) Matches(client.Object, client.Object) (bool, error) { return bool(s), nil }

func (s sameTemplates) StatesTemplate(string, client.Object, client.Object) (bool, error) {
	return true, nil
}

func (s sameTemplates) RecordHolds(string, client.Object, client.Object, client.Object) (bool, error) {
	return bool(s), nil
}

// situation is what a decision is made by: the App web, whose Deployment was made for the image nginx:1.
type situation struct {
	app     *appv1.App
	in      *Input
	seen    *Observed
	compare sameTemplates
}

// appliedDeployment returns the Deployment that the operator has applied for an App, with its records.
func appliedDeployment(t *testing.T, app *appv1.App, in resource.BuildInputs) *appsv1.Deployment {
	t.Helper()
	w, errs := resource.App(app, resource.BuildOptions{Inputs: in})
	live, ok := w.Objects()[0].(*appsv1.Deployment)
	if len(errs) > 0 || !ok {
		t.Fatalf("%T, %v", w.Objects()[0], errs)
	}
	live.UID, live.Generation, live.Annotations[appv1.AnnotationLastAppliedHash] = "uid-of-web", 1, "5"
	live.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: resource.KindApp.FieldManager(), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:` + appv1.AnnotationLastAppliedSpec + `":{},"f:` +
			appv1.AnnotationLastAppliedInputs + `":{},"f:` + appv1.AnnotationHeld + `":{}}},"f:spec":{"f:template":{"f:spec":{}}}}`)},
	}}
	return live
}

// newSituation returns a Deployment that stands as it was applied.
func newSituation(t *testing.T) *situation {
	t.Helper()
	app, inputs := newWebApp(), resource.BuildInputs{Rendering: resource.RenderingLatest}
	s := &situation{app: app, compare: true, seen: &Observed{Object: appliedDeployment(t, app, inputs), platform: platform{today: inputs}}}
	s.in = newAppInput(app)
	return s
}

// replicaSetOf returns the ReplicaSet of the live Deployment for another image, as a need of it is answered.
func (s *situation) replicaSetOf(t *testing.T, name, image string) *replicaSetRead {
	t.Helper()
	past := s.app.DeepCopy()
	past.Spec.Image = image
	made := appliedDeployment(t, past, s.seen.today)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: made.Annotations, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.seen.Object, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	set.Spec.Template = made.Spec.Template
	metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, "1")
	return &replicaSetRead{name: name, set: set}
}

func (s *situation) annotate(key, value string) {
	metav1.SetMetaDataAnnotation(&s.app.ObjectMeta, key, value)
}

func (s *situation) invalidate() {
	s.in.Errs = field.ErrorList{field.Required(field.NewPath("spec"), "")}
}

// stall has the rollout of the present spec make no progress. The ReplicaSet web-good was ready before.
func (s *situation) stall() {
	s.app.Spec.Rollback = appv1.RollbackOnStall
	s.app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: "web-good"}
	s.seen.Verdict = health.Verdict{Stalled: true, Reason: appv1.ReasonProgressDeadlineExceeded, Message: "Deployment web: late"}
}

func (s *situation) remember(t *testing.T) {
	t.Helper()
	live := s.seen.Object
	s.seen.Object = nil
	s.seen.Remembered = Memory{Known: true, record: workloadRecord{
		selector: map[string]string{"a": "b"}, spec: recordOf(live), inputs: live.GetAnnotations()[appv1.AnnotationLastAppliedInputs],
	}}
}

// lineOf describes a decision in one line.
func lineOf(want *decision, ask *need, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case ask != nil && ask.content != nil:
		return "asks for content"
	case ask != nil:
		return "asks for " + ask.replicaSet
	}
	words := []string{map[specSource]string{
		sourcePresent: "present", sourceHeld: "held", sourceLastApplied: "last applied", sourceWaiting: "waiting", sourceCanary: "canary",
	}[want.source]}
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	if want.workload == nil {
		words = append(words, "nothing")
	} else {
		words = append(words, mainImage(want.workload))
		add(want.workload.TemplateKept, "kept")
	}
	add(want.how.Whole, "whole")
	add(want.how.Earlier, "earlier")
	add(want.held != nil && want.held.mark.rolledBack(), "rolled back")
	add(want.lost, "lost")
	add(want.notRolledBack != "", "not rolled back")
	add(want.retryAfter > 0, "later")
	add(want.remember.record != nil, "remembers record")
	add(want.remember.declined != nil, "remembers decline")
	if want.refusal != nil {
		reason, _ := reconciler.ReasonAndMessageOf(want.refusal)
		words = append(words, reason)
	}
	return strings.Join(words, " ")
}

// TestDecide has the rules of decide in the order in which they count.
func TestDecide(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "replicasets"}, "web-good")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "replicasets"}, "web-good", errors.New("no"))
	for name, c := range map[string]struct {
		change func(*situation)
		want   string
	}{
		// The present spec, and the inputs.
		"nothing lives":            {func(s *situation) { s.seen.Object = nil }, "present nginx:1"},
		"as it was applied":        {func(*situation) {}, "present nginx:1"},
		"another spec":             {func(s *situation) { s.app.Spec.Image = "nginx:2" }, "present nginx:2 whole"},
		"another number of pods":   {func(s *situation) { s.app.Spec.Replicas = ptr.To[int32](9) }, "present nginx:1"},
		"another, and gone":        {func(s *situation) { s.remember(t); s.app.Spec.Image = "nginx:2" }, "present nginx:2 whole"},
		"paused":                   {func(s *situation) { s.in.Paused = true }, "present nginx:1"},
		"of another owner":         {func(s *situation) { s.seen.Object.SetOwnerReferences(nil); s.app.Spec.Image = "nginx:2" }, "present nginx:2"},
		"a template of others":     {func(s *situation) { s.compare = false; s.app.Spec.Image = "nginx:2" }, "present nginx:2 whole"},
		"it must wait":             {func(s *situation) { s.in.MustWait = true; s.app.Spec.Image = "nginx:2" }, "waiting nginx:1 earlier remembers record"},
		"it must wait, paused":     {func(s *situation) { s.in.MustWait, s.in.Paused = true, true }, "waiting nothing earlier"},
		"it must wait, and is new": {func(s *situation) { s.in.MustWait, s.seen.Object = true, nil }, "waiting nothing earlier"},
		// The last applied spec.
		"invalid":                    {func(s *situation) { s.invalidate(); s.app.Spec.Image = "nginx:2" }, "last applied nginx:1 earlier remembers record Invalid"},
		"invalid, and must wait":     {func(s *situation) { s.invalidate(); s.in.MustWait = true }, "last applied nginx:1 earlier remembers record Invalid"},
		"undecodable":                {func(s *situation) { s.in.Undecodable = errors.New("spec.a") }, "last applied nginx:1 earlier remembers record Invalid"},
		"invalid and paused":         {func(s *situation) { s.invalidate(); s.in.Paused = true }, "last applied nothing earlier Invalid"},
		"invalid and new":            {func(s *situation) { s.invalidate(); s.seen.Object = nil }, "last applied nothing earlier Invalid"},
		"invalid, gone, remembered":  {func(s *situation) { s.remember(t); s.invalidate() }, "last applied nginx:1 earlier Invalid"},
		"invalid, gone, forgotten":   {func(s *situation) { s.invalidate(); s.seen.Object, s.app.Status.Selector = nil, "a=b" }, "last applied nothing earlier lost Invalid"},
		"invalid, of another owner":  {func(s *situation) { s.invalidate(); s.seen.Object.SetOwnerReferences(nil) }, "last applied nothing earlier Invalid"},
		"invalid, with other fields": {func(s *situation) { s.invalidate(); s.compare = false }, "last applied nothing earlier Invalid"},
		// A hold.
		"a hold": {func(s *situation) { s.annotate(appv1.AnnotationHold, "web-old") }, "asks for web-old"},
		"a hold, read": {func(s *situation) {
			s.annotate(appv1.AnnotationHold, "web-old")
			s.seen.replicaSet = s.replicaSetOf(t, "web-old", "nginx:0")
		}, "held nginx:0 earlier remembers record"},
		"a hold before an invalid spec": {func(s *situation) {
			s.invalidate()
			s.annotate(appv1.AnnotationHold, "web-old")
			s.seen.replicaSet = s.replicaSetOf(t, "web-old", "nginx:0")
		}, "held nginx:0 earlier remembers record"},
		"a hold of another set than was read": {func(s *situation) {
			s.annotate(appv1.AnnotationHold, "web-old")
			s.seen.replicaSet = s.replicaSetOf(t, "web-other", "nginx:0")
		}, "asks for web-old"},
		"a hold of what is not there": {func(s *situation) {
			s.annotate(appv1.AnnotationHold, "web-good")
			s.seen.replicaSet = &replicaSetRead{name: "web-good", err: notFound}
		}, "held nginx:1 earlier remembers record RevisionNotFound"},
		"a hold of what fails to be read": {func(s *situation) {
			s.annotate(appv1.AnnotationHold, "web-good")
			s.seen.replicaSet = &replicaSetRead{name: "web-good", err: errors.New("503")}
		}, "held nothing earlier remembers record ApplyFailed"},
		"a hold of the last good, if any": {func(s *situation) { s.annotate(appv1.AnnotationHold, appv1.HoldLastGood) }, "held nginx:1 earlier remembers record RevisionNotFound"},
		"a hold of a set of others": {func(s *situation) {
			s.annotate(appv1.AnnotationHold, "web-old")
			s.seen.replicaSet = s.replicaSetOf(t, "web-old", "nginx:0")
			s.seen.replicaSet.set.OwnerReferences[0].UID = types.UID("other")
		}, "held nginx:1 earlier remembers record RevisionNotFound"},
		"a hold of no name":           {func(s *situation) { s.annotate(appv1.AnnotationHold, "Web Old") }, "held nginx:1 earlier remembers record RevisionNotFound"},
		"a hold of a kind without":    {func(s *situation) { s.annotate(appv1.AnnotationHold, "web-old"); s.in.Kind.Holds = false }, "present nginx:1"},
		"a hold, and another owner's": {func(s *situation) { s.annotate(appv1.AnnotationHold, "web-old"); s.seen.Object.SetOwnerReferences(nil) }, "present nginx:1"},
		"a hold of what is gone":      {func(s *situation) { s.remember(t); s.annotate(appv1.AnnotationHold, "web-old") }, "held nginx:1 earlier RevisionNotFound"},
		"a hold of what is forgotten": {func(s *situation) { s.seen.Object = nil; s.annotate(appv1.AnnotationHold, "web-old") }, "held nothing earlier RevisionNotFound"},
		// A rollback.
		"a stalled rollout":                  {func(s *situation) { s.stall() }, "asks for web-good"},
		"a stalled rollout, read":            {func(s *situation) { s.stall(); s.seen.replicaSet = s.replicaSetOf(t, "web-good", "nginx:0") }, "held nginx:0 earlier rolled back remembers record"},
		"a stalled rollout, the same spec":   {func(s *situation) { s.stall(); s.seen.replicaSet = s.replicaSetOf(t, "web-good", "nginx:1") }, "present nginx:1 not rolled back remembers record remembers decline"},
		"a stalled rollout, nothing good":    {func(s *situation) { s.stall(); s.app.Status.LastGood = nil }, "present nginx:1"},
		"a stalled rollout, no wish":         {func(s *situation) { s.stall(); s.app.Spec.Rollback = "" }, "present nginx:1"},
		"a stalled rollout, paused":          {func(s *situation) { s.stall(); s.in.Paused = true }, "present nginx:1"},
		"a stalled rollout, a new spec":      {func(s *situation) { s.stall(); s.app.Spec.Image = "nginx:2" }, "present nginx:2 whole"},
		"a stalled rollout, a refresh":       {func(s *situation) { s.stall(); s.annotate(appv1.AnnotationRefresh, "5") }, "present nginx:1"},
		"a stalled rollout, invalid":         {func(s *situation) { s.stall(); s.invalidate() }, "last applied nginx:1 earlier remembers record Invalid"},
		"a stalled rollout, the set is gone": {func(s *situation) { s.stall(); s.seen.replicaSet = &replicaSetRead{name: "web-good", err: notFound} }, "present nginx:1 not rolled back remembers record remembers decline"},
		"a stalled rollout, no right":        {func(s *situation) { s.stall(); s.seen.replicaSet = &replicaSetRead{name: "web-good", err: forbidden} }, "present nginx:1 not rolled back later remembers record"},
		"a stalled rollout, declined before": {func(s *situation) {
			s.stall()
			s.seen.Remembered.declined = declinedRollback{rollout: (decider{in: &Input{Before: statusOf(s.app)}}).rolloutOf(s.seen.Deployment()), cause: "why"}
		}, "present nginx:1 not rolled back"},
		"a hold before a rollback": {func(s *situation) { s.stall(); s.annotate(appv1.AnnotationHold, "web-old") }, "asks for web-old"},
		// Adoption and content.
		"an adoption without a restart": {func(s *situation) {
			s.annotate(appv1.AnnotationAdopt, appv1.AdoptWithoutRestart)
			s.seen.Object.SetOwnerReferences(nil)
			s.seen.Object.SetAnnotations(nil)
			s.seen.Object.SetLabels(nil)
		}, "present nginx:1 kept"},
		"an adoption": {func(s *situation) {
			s.annotate(appv1.AnnotationAdopt, "true")
			s.seen.Object.SetOwnerReferences(nil)
			s.seen.Object.SetAnnotations(nil)
			s.seen.Object.SetLabels(nil)
		}, "present nginx:1"},
		"content is followed": {func(s *situation) { s.in.Around = &appv1.ServingSpec{ConfigRollout: appv1.ConfigRolloutOnChange} }, "asks for content"},
		"content of invalid spec": {func(s *situation) {
			s.in.Around = &appv1.ServingSpec{ConfigRollout: appv1.ConfigRolloutOnChange}
			s.invalidate()
		}, "last applied nginx:1 earlier remembers record Invalid"},
		"content is read": {func(s *situation) {
			s.in.Around, s.seen.content = &appv1.ServingSpec{ConfigRollout: appv1.ConfigRolloutOnChange}, &contentRead{complete: true}
		}, "present nginx:1"},
		"content is not followed": {func(s *situation) { s.in.Around = &appv1.ServingSpec{} }, "present nginx:1"},
	} {
		s := newSituation(t)
		c.change(s)
		before := *s.seen
		s.in.Before = statusOf(s.app)
		want, ask, err := (decider{compare: s.compare, in: s.in, seen: s.seen}).decideSpec()
		if got := lineOf(want, ask, err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if before.Object != s.seen.Object || before.replicaSet != s.seen.replicaSet || before.content != s.seen.content {
			t.Errorf("%s: the observation is written", name)
		}
	}
}

// TestAfterRefusal has what is applied after a part of the present spec was refused.
func TestAfterRefusal(t *testing.T) {
	refused := reconciler.Stalled(appv1.ReasonInvalid, "no")
	stale := errors.Join(reconciler.ErrStale)
	for name, c := range map[string]struct {
		change func(*situation)
		done   ApplyResult
		want   string
	}{
		"nothing is refused":           {func(*situation) {}, ApplyResult{}, ""},
		"a part is refused":            {func(*situation) {}, ApplyResult{Err: refused, Refused: refused}, "last applied nginx:1 earlier remembers record Invalid"},
		"the Deployment is refused":    {func(*situation) {}, ApplyResult{Err: refused, notWritten: true}, "last applied nginx:1 earlier alone remembers record Invalid"},
		"the Service alone fails":      {func(*situation) {}, ApplyResult{Err: refused}, ""},
		"an outdated view":             {func(*situation) {}, ApplyResult{Err: stale, notWritten: true}, ""},
		"paused":                       {func(s *situation) { s.in.Paused = true }, ApplyResult{Err: refused, Refused: refused}, "last applied nothing earlier Invalid"},
		"and the record does not hold": {func(s *situation) { s.compare = false }, ApplyResult{Err: refused, Refused: refused}, "last applied nothing earlier Invalid"},
	} {
		s := newSituation(t)
		s.app.Spec.Image = "nginx:2"
		c.change(s)
		s.in.Before = statusOf(s.app)
		decide := decider{compare: s.compare, in: s.in, seen: s.seen}
		first, _, err := decide.decideSpec()
		if err != nil {
			t.Fatal(err)
		}
		c.done.Seen = s.seen
		got := ""
		if next, ok := decide.afterRefusal(first, &c.done); ok {
			if got = lineOf(next, nil, nil); next.how.Alone {
				got = strings.Replace(got, "earlier", "earlier alone", 1)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
