package workload

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// newCanarySituation returns a situation with a spec that asks for a canary: the Deployment runs nginx:1, its pods were ready, and the spec
// has nginx:2.
func newCanarySituation(t *testing.T) *situation {
	t.Helper()
	s := newSituation(t)
	s.app.Spec.Image, s.app.Spec.Canary = "nginx:2", &appv1.CanarySpec{}
	s.app.Status.LastGood = &appv1.GoodRevision{ReplicaSet: "web-1"}

	s.seen.canary.name = "web-canary"
	s.main().Status.AvailableReplicas = 2
	return s
}

func (s *situation) main() *appsv1.Deployment { return s.seen.Deployment() }

// run adds the canary of an image with inputs to the observation, all of its pods are available.
func (s *situation) run(t *testing.T, image string, change ...func(*resource.BuildInputs)) {
	t.Helper()
	app, inputs := s.app.DeepCopy(), s.seen.today
	app.Spec.Image = image
	for _, each := range change {
		each(&inputs)
	}
	live := appliedDeployment(t, app, inputs)
	live.Name, live.UID = "web-canary", "uid-of-canary"
	live.Spec.Replicas = ptr.To[int32](1)
	live.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	s.seen.canary.object = live
	s.seen.canary.verdict = health.Verdict{Ready: true}
}

// auto has the spec promote by itself, and the canary be made for that.
func (s *situation) auto(t *testing.T) {
	t.Helper()
	s.app.Spec.Canary.Promote, s.app.Spec.Canary.After = appv1.PromoteAuto, "10m"
	s.run(t, "nginx:2")
	s.seen.canary.object.Spec.MinReadySeconds = 600
}

// stallCanary has the canary miss its deadline.
func (s *situation) stallCanary(t *testing.T) {
	t.Helper()
	s.run(t, "nginx:2")
	s.seen.canary.object.Status.AvailableReplicas = 0
	s.seen.canary.verdict = health.Verdict{Stalled: true, Reason: appv1.ReasonImagePullBackOff, Detail: "no such image"}
}

// hash has the record of the live Deployment be a hash.
func (s *situation) hash() {
	s.main().Annotations[appv1.AnnotationLastAppliedSpec] = "sha256:" + resource.AppSpec(s.app).Identity()[len("sha256:"):][:63] + "0"
}

// undo has another writer own the record on the live Deployment, as after kubectl rollout undo.
func (s *situation) undo(t *testing.T) {
	t.Helper()
	fields := s.main().ManagedFields[0].FieldsV1
	raw := strings.Replace(fields.GetRawString(), `"f:`+appv1.AnnotationLastAppliedSpec+`":{},`, "", 1)
	if raw == fields.GetRawString() {
		t.Fatal("the operator does not own the record")
	}
	fields.SetRawString(raw)
}

// rememberLive has the record on the live Deployment be remembered.
func (s *situation) rememberLive() {
	s.seen.Remembered = Memory{Known: true, record: workloadRecord{spec: recordOf(s.main()), inputs: s.main().Annotations[appv1.AnnotationLastAppliedInputs]}}
}

// aborted has the live Deployment have the mark of an aborted canary of an image.
func (s *situation) aborted(t *testing.T, image string, change ...func(*failedSpec)) {
	t.Helper()
	app := s.app.DeepCopy()
	app.Spec.Image = image
	failed := failedSpec{Identity: recordOf(appliedDeployment(t, app, s.seen.today)), Image: image, Cause: "why", Canary: true}
	for _, each := range change {
		each(&failed)
	}
	mark := holdMark{By: byAbort, Failed: &failed}
	s.main().Annotations[appv1.AnnotationHeld] = mark.encodeMark()
}

// canaryLine describes a decision and what it does with the canary in one line.
func canaryLine(want *decision, ask *need, err error) string {
	line := lineOf(want, ask, err)
	if want == nil {
		return line
	}
	switch want.how.canary.fate {
	case canaryApplied:
		line += ", canary applied"
	case canaryReplaced:
		line += ", canary replaced"
	case canaryDropped:
		line += ", canary dropped"
	case canaryKept:
	}
	if want.workload != nil && want.workload.Canary != nil {
		line += " " + mainImage(want.workload.Canary.Workload) + " x" + strconv.Itoa(int(want.workload.Canary.Pods))
	}
	if want.how.canary.alone {
		line += ", alone"
	}
	if want.canary.stalled {
		line += ", stalled"
	}
	if want.canary.event != "" {
		line += ", " + want.canary.event
	}
	return line
}

// TestDecideCanary has the rules of a canary in the order in which they count.
func TestDecideCanary(t *testing.T) {
	promote := func(s *situation, uid string) { s.annotate(appv1.AnnotationPromote, uid) }
	abort := func(s *situation, uid string) { s.annotate(appv1.AnnotationAbort, uid) }
	for name, c := range map[string]struct {
		change func(*situation)
		want   string
	}{
		// No canary.
		"nothing lives":          {func(s *situation) { s.seen.Object = nil }, "present nginx:2"},
		"as it was applied":      {func(s *situation) { s.app.Spec.Image = "nginx:1" }, "present nginx:1"},
		"another number of pods": {func(s *situation) { s.app.Spec.Image, s.app.Spec.Replicas = "nginx:1", ptr.To[int32](9) }, "present nginx:1"},
		"stopped":                {func(s *situation) { s.app.Spec.Replicas = ptr.To[int32](0) }, "present nginx:2 whole"},
		"stopped, and the number is an autoscaler's": {func(s *situation) { s.app.Spec.Replicas, s.seen.Scaled = ptr.To[int32](0), true },
			"canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted"},
		"stopped before": {func(s *situation) { s.main().Spec.Replicas = ptr.To[int32](0) }, "present nginx:2 whole"},
		"never ready":    {func(s *situation) { s.app.Status.LastGood, s.main().Status.AvailableReplicas = nil, 0 }, "present nginx:2 whole"},
		"not asked for":  {func(s *situation) { s.app.Spec.Canary = nil }, "present nginx:2 whole"},
		"an adoption": {func(s *situation) {
			s.annotate(appv1.AnnotationAdopt, "true")
			s.main().OwnerReferences, s.main().Annotations, s.main().Labels = nil, nil, nil
		}, "present nginx:2 kept"},
		"adopted": {func(s *situation) {
			s.annotate(appv1.AnnotationAdopt, "true")
			s.compare = false
			s.main().Annotations[appv1.AnnotationLastAppliedInputs] = resource.BuildInputs{Rendering: resource.RenderingLatest, Kept: true}.Encode()
			s.app.Spec.Image = "nginx:1"
			fields := s.main().ManagedFields[0].FieldsV1
			fields.SetRawString(strings.Replace(fields.GetRawString(), `,"f:spec":{"f:template":{"f:spec":{}}}`, "", 1))
		}, "canary nginx:1 kept earlier remembers record, canary applied nginx:1 x1, CanaryStarted"},
		"of another owner":        {func(s *situation) { s.main().OwnerReferences = nil }, "present nginx:2"},
		"a kind without releases": {func(s *situation) { s.in.Kind.Serves = false }, "present nginx:2 whole"},
		// A start.
		"another spec": {func(*situation) {}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted"},
		"another spec, pods are gone, and were ready": {
			func(s *situation) { s.main().Status.AvailableReplicas = 0 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted",
		},
		"more pods": {
			func(s *situation) { s.app.Spec.Canary.Pods = ptr.To(intstr.FromInt32(3)) },
			"canary nginx:1 earlier remembers record, canary applied nginx:2 x3, CanaryStarted",
		},
		"a share": {func(s *situation) {
			s.app.Spec.Canary.Pods, s.app.Spec.Replicas = ptr.To(intstr.FromString("20%")), ptr.To[int32](21)
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x5, CanaryStarted"},
		"a share of what an autoscaler wants": {func(s *situation) {
			s.app.Spec.Canary.Pods, s.main().Spec.Replicas = ptr.To(intstr.FromString("20%")), ptr.To[int32](21)
			s.seen.Scaled = true
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x5, CanaryStarted"},
		"a refresh": {func(s *situation) {
			s.app.Spec.Image = "nginx:1"
			s.annotate(appv1.AnnotationRefresh, "5")
			s.main().Annotations[appv1.AnnotationLastAppliedInputs] = resource.BuildInputs{Rendering: resource.RenderingTutorial}.Encode()
		}, "canary nginx:1 earlier remembers record, canary applied nginx:1 x1, CanaryStarted"},
		"a refresh that changes nothing": {
			func(s *situation) { s.app.Spec.Image = "nginx:1"; s.annotate(appv1.AnnotationRefresh, "5") }, "present nginx:1",
		},
		"the record is a hash": {func(s *situation) { s.compare = false; s.hash() }, "canary nginx:2 earlier remembers record, canary applied nginx:2 x1, alone, CanaryStarted"},
		"the record is a hash, another writer has set the image": {
			func(s *situation) { s.hash(); s.run(t, "nginx:2") }, "canary nginx:2 earlier remembers record, canary applied nginx:2 x1, alone",
		},
		"the name is taken": {func(s *situation) { s.run(t, "nginx:2"); s.seen.canary.object.OwnerReferences = nil }, "canary nginx:1 earlier remembers record ResourceExists"},
		"the name is adoptable": {func(s *situation) {
			s.run(t, "nginx:2")
			s.seen.canary.object.OwnerReferences = nil
			s.annotate(appv1.AnnotationAdopt, "true")
		}, "canary nginx:1 earlier remembers record ResourceExists"},
		"the record is another writer's, and was in force": {func(s *situation) {
			s.undo(t)
			s.app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionApplied, Status: metav1.ConditionTrue}}
		}, "present nginx:2 whole"},
		"the record is another writer's, and is remembered": {func(s *situation) {
			s.undo(t)
			s.rememberLive()
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted"},
		"the Deployment is another owner's, and a former record is remembered": {func(s *situation) {
			s.rememberLive()
			s.undo(t)
			s.main().OwnerReferences = nil
		}, "present nginx:2"},
		"the Deployment is another writer's, and a former record is remembered": {func(s *situation) {
			s.compare = false
			s.rememberLive()
			s.main().ManagedFields[0].Manager = "restore"
		}, "canary nginx:2 earlier, canary applied nginx:2 x1, alone, CanaryStarted"},
		// It waits.
		"it runs":                 {func(s *situation) { s.run(t, "nginx:2") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"it runs, paused":         {func(s *situation) { s.run(t, "nginx:2"); s.in.Paused = true }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"it runs, all is stopped": {func(s *situation) { s.run(t, "nginx:2"); s.app.Spec.Replicas = ptr.To[int32](0) }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x0"},
		"it ran at 0, a share": {func(s *situation) {
			s.run(t, "nginx:2")
			s.app.Spec.Canary.Pods, s.app.Spec.Replicas = ptr.To(intstr.FromString("50%")), ptr.To[int32](4)
			s.seen.canary.object.Spec.Replicas, s.main().Spec.Replicas = ptr.To[int32](0), ptr.To[int32](0)
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x2"},
		"it runs, at 0 by others": {func(s *situation) { s.run(t, "nginx:2"); s.main().Spec.Replicas = ptr.To[int32](0) }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"it runs, others are gone": {func(s *situation) {
			s.run(t, "nginx:2")
			s.app.Status.LastGood, s.main().Status.AvailableReplicas = nil, 0
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"it runs, the Deployment is gone": {func(s *situation) { s.run(t, "nginx:2"); s.remember(t) }, "canary nginx:1 earlier, canary applied nginx:2 x1"},
		"a share of another canary": {func(s *situation) {
			s.run(t, "nginx:3")
			s.app.Spec.Canary.Pods, s.app.Spec.Replicas = ptr.To(intstr.FromString("50%")), ptr.To[int32](8)
		}, "canary nginx:1 earlier remembers record, canary replaced nginx:2 x4"},
		"a share stays": {func(s *situation) {
			s.run(t, "nginx:2")
			s.app.Spec.Canary.Pods, s.main().Spec.Replicas = ptr.To(intstr.FromString("50%")), ptr.To[int32](8)
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"it runs older inputs": {
			func(s *situation) {
				s.run(t, "nginx:2", func(in *resource.BuildInputs) { in.Rendering = resource.RenderingTutorial })
			},
			"canary nginx:1 earlier remembers record, canary applied nginx:2 x1",
		},
		"another spec in the middle": {func(s *situation) { s.run(t, "nginx:2"); s.app.Spec.Image = "nginx:3" }, "canary nginx:1 earlier remembers record, canary replaced nginx:3 x1"},
		"a change in the middle that replaces no pod": {func(s *situation) {
			s.run(t, "nginx:2")
			s.app.Spec.Labels, s.app.Spec.ProgressDeadlineSeconds = map[string]string{"team": "shop"}, ptr.To[int32](99)
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"a change that replaces no pod, promoted": {func(s *situation) {
			s.run(t, "nginx:2")
			s.app.Spec.Labels = map[string]string{"team": "shop"}
			promote(s, "uid-of-canary")
		}, "present nginx:2 whole, CanaryPromoted"},
		"another refresh in the middle": {func(s *situation) { s.run(t, "nginx:2"); s.annotate(appv1.AnnotationRefresh, "5") }, "canary nginx:1 earlier remembers record, canary replaced nginx:2 x1"},
		"it lost its record":            {func(s *situation) { s.run(t, "nginx:2"); s.seen.canary.object.ManagedFields = nil }, "canary nginx:1 earlier remembers record, canary replaced nginx:2 x1"},
		"it missed its deadline":        {func(s *situation) { s.stallCanary(t) }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, stalled"},
		// A promotion.
		"promoted":                  {func(s *situation) { s.run(t, "nginx:2"); promote(s, "uid-of-canary") }, "present nginx:2 whole, CanaryPromoted"},
		"promoted, another UID":     {func(s *situation) { s.run(t, "nginx:2"); promote(s, "uid") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"promoted, no UID":          {func(s *situation) { s.run(t, "nginx:2"); s.seen.canary.object.UID = ""; promote(s, "") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"promoted, of another spec": {func(s *situation) { s.run(t, "nginx:2"); promote(s, "uid-of-canary"); s.app.Spec.Image = "nginx:3" }, "canary nginx:1 earlier remembers record, canary replaced nginx:3 x1"},
		"promoted, the name is taken": {func(s *situation) {
			s.run(t, "nginx:2")
			s.seen.canary.object.OwnerReferences = nil
			promote(s, "uid-of-canary")
		}, "canary nginx:1 earlier remembers record ResourceExists"},
		"promoted, and aborted":        {func(s *situation) { s.run(t, "nginx:2"); promote(s, "uid-of-canary"); abort(s, "uid-of-canary") }, "held nginx:1 earlier remembers record, canary dropped, CanaryAborted"},
		"promoted, and a hash":         {func(s *situation) { s.compare = false; s.hash(); s.run(t, "nginx:2"); promote(s, "uid-of-canary") }, "present nginx:2 whole, CanaryPromoted"},
		"by itself":                    {func(s *situation) { s.auto(t) }, "present nginx:2 whole, CanaryPromoted"},
		"by itself, not available":     {func(s *situation) { s.auto(t); s.seen.canary.object.Status.AvailableReplicas = 0 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, not observed":      {func(s *situation) { s.auto(t); s.seen.canary.object.Generation = 2 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, not updated":       {func(s *situation) { s.auto(t); s.seen.canary.object.Status.UpdatedReplicas = 0 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, too many pods":     {func(s *situation) { s.auto(t); s.seen.canary.object.Status.Replicas = 2 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, of another number": {func(s *situation) { s.auto(t); s.app.Spec.Canary.Pods = ptr.To(intstr.FromInt32(2)) }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x2"},
		"by itself, was by hand":       {func(s *situation) { s.auto(t); s.seen.canary.object.Spec.MinReadySeconds = 0 }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, rollouts paused":   {func(s *situation) { s.auto(t); s.seen.canary.object.Spec.Paused = true }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"by itself, stopped": {func(s *situation) {
			s.auto(t)
			s.app.Spec.Replicas, s.seen.canary.object.Spec.Replicas = ptr.To[int32](0), ptr.To[int32](0)
			s.seen.canary.object.Status = appsv1.DeploymentStatus{ObservedGeneration: 1}
		}, "canary nginx:1 earlier remembers record, canary applied nginx:2 x0"},
		"by itself, of another spec":   {func(s *situation) { s.auto(t); s.app.Spec.Image = "nginx:3" }, "canary nginx:1 earlier remembers record, canary replaced nginx:3 x1"},
		"by itself, another's content": {func(s *situation) { s.compare = false; s.auto(t) }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"promoted, rolling out": {func(s *situation) {
			s.app.Spec.Image = "nginx:1"
			s.run(t, "nginx:1")
		}, "present nginx:1"},
		"promoted, rolled out": {func(s *situation) {
			s.app.Spec.Image = "nginx:1"
			s.run(t, "nginx:1")
			s.seen.Verdict = health.Verdict{Ready: true}
		}, "present nginx:1, canary dropped"},
		"promoted, another spec while it rolls out": {func(s *situation) {
			s.run(t, "nginx:1")
			promote(s, "uid-of-canary")
		}, "canary nginx:1 earlier remembers record, canary replaced nginx:2 x1"},
		// An end without a promotion.
		"the field is removed":    {func(s *situation) { s.run(t, "nginx:2"); s.app.Spec.Canary = nil }, "present nginx:2 whole, canary dropped, CanaryAborted"},
		"the spec as it was":      {func(s *situation) { s.run(t, "nginx:2"); s.app.Spec.Image = "nginx:1" }, "present nginx:1, canary dropped, CanaryAborted"},
		"aborted":                 {func(s *situation) { s.run(t, "nginx:2"); abort(s, "uid-of-canary") }, "held nginx:1 earlier remembers record, canary dropped, CanaryAborted"},
		"aborted, another UID":    {func(s *situation) { s.run(t, "nginx:2"); abort(s, "uid") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1"},
		"aborted, and a hash":     {func(s *situation) { s.compare = false; s.hash(); s.run(t, "nginx:2"); abort(s, "uid-of-canary") }, "canary nothing earlier remembers record Invalid, alone"},
		"aborted by its deadline": {func(s *situation) { s.stallCanary(t); s.app.Spec.Rollback = appv1.RollbackOnStall }, "held nginx:1 earlier remembers record, canary dropped, CanaryAborted"},
		"aborted, the mark":       {func(s *situation) { s.aborted(t, "nginx:2") }, "held nginx:1 earlier remembers record"},
		"aborted, not yet deleted": {
			func(s *situation) { s.run(t, "nginx:2"); s.aborted(t, "nginx:2") }, "held nginx:1 earlier remembers record, canary dropped",
		},
		"aborted, another spec":     {func(s *situation) { s.aborted(t, "nginx:0") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted"},
		"aborted, a refresh":        {func(s *situation) { s.aborted(t, "nginx:2"); s.annotate(appv1.AnnotationRefresh, "5") }, "canary nginx:1 earlier remembers record, canary applied nginx:2 x1, CanaryStarted"},
		"aborted, without a canary": {func(s *situation) { s.aborted(t, "nginx:2"); s.app.Spec.Canary = nil }, "present nginx:2 whole"},
		"aborted, the spec before":  {func(s *situation) { s.aborted(t, "nginx:2"); s.app.Spec.Image = "nginx:1" }, "present nginx:1"},
		"aborted, without content now": {func(s *situation) {
			s.aborted(t, "nginx:2", func(f *failedSpec) { f.Content.Objects = map[string]string{"1": "1"} })
		}, "held nginx:1 earlier remembers record"},
		"a hold in the middle, read": {func(s *situation) {
			s.run(t, "nginx:2")
			s.annotate(appv1.AnnotationHold, "web-old")
			s.seen.replicaSet = s.replicaSetOf(t, "web-old", "nginx:0")
		}, "held nginx:0 earlier remembers record, canary dropped, CanaryAborted"},
		"an invalid spec in the middle": {func(s *situation) { s.run(t, "nginx:2"); s.invalidate() }, "last applied nginx:1 earlier remembers record Invalid"},
		"an undecodable spec":           {func(s *situation) { s.run(t, "nginx:2"); s.in.Undecodable = errors.New("spec.a") }, "last applied nginx:1 earlier remembers record Invalid"},
	} {
		s := newCanarySituation(t)
		c.change(s)
		object, canary := s.seen.Object, s.seen.canary
		s.in.Before = statusOf(s.app)
		want, ask, err := (decider{compare: s.compare, in: s.in, seen: s.seen}).decideSpec()
		if got := canaryLine(want, ask, err); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
		if object != s.seen.Object || canary.object != s.seen.canary.object {
			t.Errorf("%s: the observation is written", name)
		}
	}
}

// TestAfterRefusedPromotion has the pods of before stay, and the canary, where the API server refuses what a promotion writes.
func TestAfterRefusedPromotion(t *testing.T) {
	s := newCanarySituation(t)
	s.run(t, "nginx:2")
	s.annotate(appv1.AnnotationPromote, "uid-of-canary")
	s.in.Before = statusOf(s.app)
	decide := decider{compare: s.compare, in: s.in, seen: s.seen}
	first, _, err := decide.decideSpec()
	if err != nil {
		t.Fatal(err)
	}
	refused := reconciler.Stalled(appv1.ReasonInvalid, "no")
	next, ok := decide.afterRefusal(first, &ApplyResult{Seen: s.seen, Err: refused, Refused: refused})
	if got := canaryLine(next, nil, nil); !ok || got != "last applied nginx:1 earlier remembers record Invalid" {
		t.Errorf("%q", got)
	}
}

// TestSplitPods tells the pods of a canary apart by their owner, whatever their labels are.
func TestSplitPods(t *testing.T) {
	pod := func(set, hash string) corev1.Pod {
		made := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			appsv1.DefaultDeploymentUniqueLabelKey: hash, appv1.LabelCanary: "web",
		}}}
		if set != "" {
			made.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: set, Controller: ptr.To(true)}}
		}
		return made
	}
	all := []corev1.Pod{pod("web-1", "1"), pod("web-canary-2", "2"), pod("", "2"), pod("web-canary-2", "1"), pod("web-canary", "")}
	stable, canary := splitPods(all, "web-canary")
	if len(stable) != 4 || len(canary) != 1 || canary[0].OwnerReferences[0].Name != "web-canary-2" {
		t.Errorf("%d pods of before, of the canary %v", len(stable), canary)
	}
}
