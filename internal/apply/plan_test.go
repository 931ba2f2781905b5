package apply

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields"
	"huolala.cn/app-operator/internal/fields/fieldtest"
)

// kinds knows Kubernetes' kinds and those of owners.
func kinds() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, appv1.AddToScheme, children.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // The types cannot be registered: a mistake in the program.
		}
	}
	return s
}

// planner returns an engine with a client that knows the kinds, and would reach nobody: a plan needs no request.
func planner(t testing.TB) *Engine {
	t.Helper()
	c, err := client.New(&rest.Config{Host: "https://0.0.0.0:1"}, client.Options{Scheme: kinds()})
	if err != nil {
		t.Fatal(err)
	}
	return New(c, c, clocktesting.NewFakePassiveClock(metav1.Now().Time))
}

// request asks for fieldtest.Deployment, with live in its place.
func request(live *appsv1.Deployment) *Request {
	o := &appv1.App{}
	o.Name, o.Namespace, o.UID = "web", "default", owner
	req := &Request{Owner: o, Manager: "me", Objects: []Object{{Desired: fieldtest.Deployment()}}}
	if live != nil {
		req.Objects[0].Live = live
	}
	return req
}

// settled is what lives once fieldtest.Deployment has been applied.
func settled(t testing.TB) *appsv1.Deployment {
	t.Helper()
	live := fieldtest.LiveDeployment()
	live.Annotations[appv1.AnnotationLastAppliedHash] = hashOf(t, fieldtest.Deployment())
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "", settledFields)}
	return live
}

// settledFields are some of the fields that our manager owns of what is settled.
const settledFields = `{"f:metadata":{"f:annotations":{"f:app.huolala.cn/last-applied-hash":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{}}}}`

// editedFields are those once others have changed or removed the hash.
const editedFields = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{}}}}`

// TestPlan decides on live objects of every origin and state.
func TestPlan(t *testing.T) {
	const (
		alone   = `Deployment web exists and was not created by this resource; the operator does not modify it. Rename or delete one of them, or run "kubectl annotate app/web -n default app.huolala.cn/adopt=without-restart" to adopt it`
		lost    = `Deployment web was applied by the operator but has lost its owner reference. Possible causes are kubectl replace, an edit, or the deletion of an earlier App with --cascade=orphan. The operator does not modify the object. To restore the object in place, run "kubectl annotate app/web -n default app.huolala.cn/adopt=true", or delete the Deployment to recreate it`
		another = "; the operator does not modify it. Rename or delete one of them"
	)
	ref := func(uid, apiVersion, kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: types.UID("uid-" + uid), APIVersion: apiVersion, Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
	type result struct {
		action   Action
		takeover bool
		problem  outcome
	}
	exists := func(message string) result {
		return result{problem: outcome{"stalled", appv1.ReasonResourceExists, message}}
	}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		adopt  bool
		want   result
	}{
		"settled":       {func(*appsv1.Deployment) {}, false, result{action: Unchanged}},
		"drift":         {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "x" }, false, result{action: Repaired}},
		"replicas only": {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](9) }, false, result{action: Configured}},
		"wanted otherwise before": {
			func(d *appsv1.Deployment) { d.Annotations[appv1.AnnotationLastAppliedHash] = "0" }, false, result{action: Configured},
		},
		"controlled, never applied": {
			func(d *appsv1.Deployment) { d.Annotations = nil }, false, result{action: Configured, takeover: true},
		},
		"controlled, applied by nobody": { // Made again from a backup, by its owner's UID.
			func(d *appsv1.Deployment) { d.ManagedFields = nil }, false, result{action: Configured, takeover: true},
		},
		"reference removed": {
			func(d *appsv1.Deployment) { d.OwnerReferences = nil }, false, result{action: Repaired},
		},
		"reference is no controller's any more": {
			func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }, false, result{action: Repaired},
		},
		"being deleted": {
			func(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.Now()) }, false,
			result{problem: outcome{"waiting", appv1.ReasonProgressing, "Waiting for Deployment web to be deleted before recreating it. If the deletion does not end, check its metadata.finalizers: each names a controller that the deletion waits for"}},
		},
		"made by hand": {
			func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations, d.ManagedFields = nil, nil, nil }, false, exists(alone),
		},
		"made by hand, adopt": {
			func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations, d.ManagedFields = nil, nil, nil }, true,
			result{action: Configured, takeover: true},
		},
		"replaced without metadata":        {func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil }, false, exists(lost)},
		"replaced without metadata, adopt": {func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil }, true, result{action: Configured, takeover: true}},
		"replaced without metadata, and seen in part": {
			func(d *appsv1.Deployment) {
				d.OwnerReferences, d.Annotations = nil, nil
				d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me", Operation: apply}}
			}, false, exists(lost),
		},
		"applied by another manager": {
			func(d *appsv1.Deployment) {
				d.OwnerReferences, d.Annotations = nil, nil
				d.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("kubectl", apply, "", settledFields), fieldtest.Entry("me", updateOp, "", settledFields)}
			}, false, exists(alone),
		},
		"hash removed": {
			func(d *appsv1.Deployment) {
				d.Annotations = nil
				d.ManagedFields[0] = fieldtest.Entry("me", apply, "", editedFields)
			}, false, result{action: Repaired, takeover: true},
		},
		"hash edited": {
			func(d *appsv1.Deployment) {
				d.Annotations[appv1.AnnotationLastAppliedHash] = "0"
				d.ManagedFields[0] = fieldtest.Entry("me", apply, "", editedFields)
			}, false, result{action: Repaired},
		},
		"hash edited, and wanted otherwise": { // What is ours has the value that we applied, and another one is wanted.
			func(d *appsv1.Deployment) {
				d.Annotations[appv1.AnnotationLastAppliedHash], d.Spec.Replicas = "0", ptr.To[int32](9)
				d.ManagedFields[0] = fieldtest.Entry("me", apply, "", editedFields)
			}, false, result{action: Configured},
		},
		"orphan of an earlier self": {
			func(d *appsv1.Deployment) {
				d.OwnerReferences, d.Annotations[appv1.AnnotationLastAppliedHash] = nil, "0"
			}, false, exists(lost),
		},
		"orphan of an earlier self, adopt": {
			func(d *appsv1.Deployment) {
				d.OwnerReferences, d.Annotations[appv1.AnnotationLastAppliedHash] = nil, "0"
			}, true,
			result{action: Configured, takeover: true},
		},
		"of an earlier self": {
			func(d *appsv1.Deployment) { d.OwnerReferences = ref("0", "app.huolala.cn/v1", "App", "web") }, false,
			result{problem: outcome{"waiting", appv1.ReasonProgressing, "Waiting for the garbage collector to remove Deployment web of an earlier App with this name before recreating it"}},
		},
		"of an earlier self, adopt": {
			func(d *appsv1.Deployment) { d.OwnerReferences = ref("0", "app.huolala.cn/v1", "App", "web") }, true,
			result{action: Configured, takeover: true},
		},
		"of another App, adopt": {
			func(d *appsv1.Deployment) { d.OwnerReferences = ref("0", "app.huolala.cn/v1", "App", "shop") }, true,
			exists("Deployment web exists and is owned by App shop" + another),
		},
		"of another kind, adopt": {
			func(d *appsv1.Deployment) { d.OwnerReferences = ref("0", "app.huolala.cn/v1", "ModelBox", "web") }, true,
			exists("Deployment web exists and is owned by ModelBox web" + another),
		},
		"of another group's App, adopt": {
			func(d *appsv1.Deployment) { d.OwnerReferences = ref("0", "app.example.com/v1", "App", "web") }, true,
			exists("Deployment web exists and is owned by App web" + another),
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := settled(t)
			c.change(live)
			req := request(live)
			req.Policy.Adopt = c.adopt
			before := live.DeepCopy()
			p, err := planner(t).planLocally(req, &req.Objects[0])
			got := result{action: p.action, takeover: p.claim.takesOver()}
			if err != nil {
				got = result{problem: outcomeOf(t, err)}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{}, outcome{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the live object, which is the cache's, was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestPlanOfNothing checks that a child that does not live is created.
func TestPlanOfNothing(t *testing.T) {
	req := request(nil)
	p, err := planner(t).planLocally(req, &req.Objects[0])
	if err != nil || p.action != Created || p.claim.takesOver() {
		t.Fatalf("plan is %+v, %v; want a creation", p, err)
	}
	annotations, _, err := unstructured.NestedStringMap(p.fields, "metadata", "annotations")
	want := map[string]string{appv1.AnnotationLastAppliedHash: hashOf(t, fieldtest.Deployment())}
	if diff := cmp.Diff(want, annotations); diff != "" || err != nil {
		t.Errorf("annotations (-want +got), %v:\n%s", err, diff)
	}
	if diff := cmp.Diff(fieldtest.Deployment(), req.Objects[0].Desired); diff != "" {
		t.Errorf("the literal was changed (-before +after):\n%s", diff)
	}
}

// TestPlanHoldsAFight checks that drift that comes back again and again is left alone for a while, and that a change of
// what is wanted is not.
func TestPlanHoldsAFight(t *testing.T) {
	e := planner(t)
	live := settled(t)
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	look := func() pacedPlan {
		t.Helper()
		req := request(live)
		return planPaced(t, e, req, &req.Objects[0])
	}
	for i := range conflictRepairs {
		if p := look(); p.conflict != nil || p.action != Repaired {
			t.Fatalf("repair %d: %+v", i+1, p)
		}
	}
	p := look()
	if p.conflict == nil || outcomeOf(t, p.conflict).reason != appv1.ReasonFieldConflict {
		t.Errorf("held is %v, want %s", p.conflict, appv1.ReasonFieldConflict)
	}
	live.Annotations[appv1.AnnotationLastAppliedHash] = "what was wanted before"
	if p := look(); p.conflict != nil || p.action != Configured {
		t.Errorf("a change of what is wanted is held up: %v", p.conflict)
	}
}

// TestPlanLeavesAdmission checks that a field that is ours by its manager and is not as we wrote it, as an admission webhook
// leaves it, is reported and written once in five minutes, and that it hides nothing else.
func TestPlanLeavesAdmission(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(metav1.Now().Time)
	e := planner(t)
	e.conflicts = newConflicts(c)
	live := settled(t)
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "",
		`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}}}}`)}
	look := func(pause time.Duration, live *appsv1.Deployment) pacedPlan {
		t.Helper()
		c.SetTime(c.Now().Add(pause))
		req := request(live)
		return planPaced(t, e, req, &req.Objects[0])
	}
	left := func(p pacedPlan, retry time.Duration) {
		t.Helper()
		if p.action != Unchanged || p.conflict != nil || !strings.Contains(p.overridden, "did not keep") || p.retry != retry {
			t.Errorf("%s, held %v, overridden %q for %s; want it left alone for %s", p.action, p.conflict, p.overridden, p.retry, retry)
		}
	}
	written := func(p pacedPlan) {
		t.Helper()
		if p.action == Unchanged || p.conflict != nil || p.overridden != "" {
			t.Errorf("%s, held %v, overridden %q; want a write", p.action, p.conflict, p.overridden)
		}
	}
	// Until an answer to a write of ours has shown it, it may be that a user writes under our name.
	if p := look(0, live); p.action != Repaired || p.drift == driftDropped {
		t.Errorf("%s; want a repair of what no answer has shown yet", p.action)
	}
	first := request(live)
	p, err := e.planLocally(first, &first.Objects[0])
	if err != nil {
		t.Fatal(err)
	}
	e.conflicts.noteOverridden(first, &p, p.diff)
	for range conflictRepairs + 1 {
		left(look(0, live), conflictMaxDelay)
	}
	left(look(time.Minute, live), conflictMaxDelay-time.Minute)
	written(look(conflictMaxDelay-time.Minute, live))
	left(look(time.Second, live), conflictMaxDelay-time.Second)

	scaled := live.DeepCopy()
	scaled.Spec.Replicas = ptr.To[int32](9)
	written(look(0, scaled)) // Another number is wanted: the hash does not cover it.
	drifted := live.DeepCopy()
	drifted.Spec.Template.Spec.Containers[0].Command = nil
	written(look(0, drifted))
	changed := live.DeepCopy()
	changed.Annotations[appv1.AnnotationLastAppliedHash] = "what was wanted before"
	written(look(0, changed))
}

// TestPlanReadsItsStatus checks what counts of a field that is ours by its manager, and is not as we wrote it, in a process
// that has not written the object yet: the status of the owner, for the very fields that it names, until there is an answer.
func TestPlanReadsItsStatus(t *testing.T) {
	live := settled(t)
	live.Spec.Template.Spec.Containers[0].Image = "theirs"
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("me", apply, "",
		`{"f:metadata":{"f:annotations":{"f:app.huolala.cn/last-applied-hash":{}}},
			"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{},"f:command":{}}}}}}}`)}
	forged := live.DeepCopy()
	forged.Spec.Template.Spec.Containers[0].Command = []string{"theirs"}
	said := overriddenMessage(planned(Configured), fieldpath.NewSet(
		fieldpath.MakePathOrDie("spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "web"), "image")))
	for name, c := range map[string]struct {
		live   *appsv1.Deployment
		status string
		answer *fieldpath.Set
		want   Action
	}{
		"nothing is known":                        {live, "", nil, Repaired},
		"the status names it":                     {live, said, nil, Unchanged},
		"the status names it, among others":       {live, "The one. " + said + " The other.", nil, Unchanged},
		"the status names another object":         {live, strings.ReplaceAll(said, "Deployment web", "Service web"), nil, Repaired},
		"the status names a part":                 {forged, said, nil, Repaired},
		"an answer has shown that it is kept":     {live, said, &fieldpath.Set{}, Repaired},
		"an answer has shown that another is not": {live, said, fieldpath.NewSet(children.ReplicasPath), Repaired},
	} {
		t.Run(name, func(t *testing.T) {
			e, req := planner(t), request(c.live)
			req.Before.Overridden = c.status
			if c.answer != nil {
				p, err := e.planLocally(req, &req.Objects[0])
				if err != nil {
					t.Fatal(err)
				}
				if c.answer.Empty() {
					c.answer = nil
				}
				e.conflicts.noteOverridden(req, &p, c.answer)
			}
			if p := planPaced(t, e, req, &req.Objects[0]); p.action != c.want || (p.overridden != "") != (c.want == Unchanged) {
				t.Errorf("%s, overridden %q; want %s", p.action, p.overridden, c.want)
			}
		})
	}
}

// TestPlanIsCheap keeps what nearly every reconcile does from growing: allocations are the same on every machine, times are
// not.
func TestPlanIsCheap(t *testing.T) {
	e, live := planner(t), settled(t)
	const most = 150 // 103 when this was written; merged and compared it was 1,926.
	if n := testing.AllocsPerRun(20, func() {
		req := request(live)
		if p, err := e.planLocally(req, &req.Objects[0]); err != nil || p.action != Unchanged {
			t.Fatalf("%+v, %v", p, err)
		}
	}); n > most {
		t.Errorf("deciding that nothing is to be done makes %.0f allocations, at most %d are right", n, most)
	}
}

// BenchmarkPlan is what deciding that nothing is to be done costs, which is what most reconciles do.
func BenchmarkPlan(b *testing.B) {
	e, live := planner(b), settled(b)
	b.ReportAllocs()
	for b.Loop() {
		req := request(live)
		if p, err := e.planLocally(req, &req.Objects[0]); err != nil || p.action != Unchanged {
			b.Fatalf("%+v, %v", p, err)
		}
	}
}

func BenchmarkDifference(b *testing.B) {
	e, wanted, live := planner(b), fieldtest.Deployment(), fieldtest.LiveDeployment()
	b.ReportAllocs()
	for b.Loop() {
		if diff, err := e.comparer.Diff(wanted, live); err != nil || !diff.Empty() {
			b.Fatalf("%v, %v", diff, err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	wanted := fieldtest.Deployment()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hashObject(wanted, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLiteral(b *testing.B) {
	d := fieldtest.Deployment()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fields.Literal(d); err != nil {
			b.Fatal(err)
		}
	}
}
