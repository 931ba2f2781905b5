package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
)

// newHolder returns the UnitedDeployment web that names a Deployment.
func newHolder(deployment string, replicas int32) *appv1.UnitedDeployment {
	ud := &appv1.UnitedDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: "UnitedDeployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "1", Generation: 3},
	}
	ud.Spec.DeploymentName, ud.Spec.Replicas = deployment, &replicas
	return ud
}

// newPlainDeployment returns a Deployment of no operator's.
func newPlainDeployment(name string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: controlledBy(name, "", "", "")}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	d.Spec.Template.Labels = map[string]string{"a": "b"}
	d.Status = appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas}
	return d
}

// TestScaleConflict names what must keep a UnitedDeployment off a Deployment.
func TestScaleConflict(t *testing.T) {
	owned := func(kindName, controller string, uid types.UID) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: controlledBy("held", kindName, controller, uid)}
	}
	others := owned("App", "web", "7")
	others.OwnerReferences[0].APIVersion = "example.com/v1"
	for name, c := range map[string]struct {
		seen           workload.Observed
		elder          string
		template       bool
		reason, says   string
		waits, noClash bool
	}{
		"there is none":                       {noClash: true},
		"nobody's":                            {seen: workload.Observed{Object: owned("", "", "")}, noClash: true},
		"another operator's":                  {seen: workload.Observed{Object: others}, noClash: true},
		"its own":                             {seen: workload.Observed{Object: owned("UnitedDeployment", "web", "1")}, template: true, noClash: true},
		"an App's":                            {seen: workload.Observed{Object: owned("App", "web", "7")}, reason: appv1.ReasonScaleConflict, says: "App"},
		"another UnitedDeployment's":          {seen: workload.Observed{Object: owned("UnitedDeployment", "x", "7")}, reason: appv1.ReasonScaleConflict, says: "UnitedDeployment"},
		"an earlier one's of the name":        {seen: workload.Observed{Object: owned("UnitedDeployment", "web", "7")}, waits: true, reason: appv1.ReasonProgressing, says: "garbage collector"},
		"an older one names it":               {seen: workload.Observed{Object: owned("", "", "")}, elder: "older", reason: appv1.ReasonScaleConflict, says: "older"},
		"an older one names it, and is alone": {elder: "older", reason: appv1.ReasonScaleConflict, says: "older"},
		"an autoscaler targets it":            {seen: workload.Observed{Object: owned("", "", ""), Autoscalers: workload.Autoscalers{Autoscaler: "scaler"}}, reason: appv1.ReasonScaleConflict, says: "scaler"},
	} {
		ud := newHolder("held", 2)
		if c.template {
			ud.Spec.Template = &appv1.WorkloadSpec{}
		}
		err := scaleConflict(ud, &c.seen, c.elder)
		if c.noClash || err == nil {
			if err != nil || !c.noClash {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		reason, message := reconciler.ReasonAndMessageOf(err)
		var waiting *reconciler.WaitingError
		if reason != c.reason || !strings.Contains(message, c.says) || errors.As(err, &waiting) != c.waits {
			t.Errorf("%s: %s, %s (waits: %t)", name, reason, message, errors.As(err, &waiting))
		}
	}
}

// TestOwnsTemplate tells a Deployment that the template makes from one that is only scaled.
func TestOwnsTemplate(t *testing.T) {
	made := &appsv1.Deployment{ObjectMeta: controlledBy("held", "UnitedDeployment", "web", "1")}
	selected := newPlainDeployment("held", 1)
	selected.Spec.Selector.MatchLabels = map[string]string{appv1.LabelUnitedDeployment: "web"}
	otherSelected := newPlainDeployment("held", 1)
	otherSelected.Spec.Selector.MatchLabels = map[string]string{appv1.LabelUnitedDeployment: "x"}
	others := newPlainDeployment("held", 1)
	others.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Rollout", Name: "x", UID: "7", Controller: ptr.To(true)}}
	for name, c := range map[string]struct {
		template, adopt bool
		live            *appsv1.Deployment
		want            bool
	}{
		"without a template":              {false, true, made, false},
		"there is none":                   {true, false, nil, true},
		"its own":                         {true, false, made, true},
		"nobody's":                        {true, false, newPlainDeployment("held", 1), false},
		"nobody's, to be adopted":         {true, true, newPlainDeployment("held", 1), true},
		"nobody's, with its selector":     {true, false, selected, true},
		"nobody's, with another selector": {true, false, otherSelected, false},
		"another operator's":              {true, true, others, false},
	} {
		ud := newHolder("held", 1)
		if c.template {
			ud.Spec.Template = &appv1.WorkloadSpec{}
		}
		if c.adopt {
			ud.Annotations = map[string]string{appv1.AnnotationAdopt: "true"}
		}
		if got := ownsTemplate(ud, c.live); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestSyncedCondition says whether the Deployment has the wanted number of pods, and why not.
func TestSyncedCondition(t *testing.T) {
	ofTemplate := func(replicas int32) *appsv1.Deployment {
		d := newPlainDeployment("held", replicas)
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelUnitedDeployment: newHolder("held", 2).Name}}
		return d
	}
	for name, c := range map[string]struct {
		paused, template bool
		live             *appsv1.Deployment
		err              error
		want             string
		says             []string
	}{
		"scaled":                    {false, false, newPlainDeployment("held", 2), nil, "True/Synced", []string{"held is scaled to 2"}},
		"scaled only":               {false, true, newPlainDeployment("held", 2), nil, "True/Synced", []string{"does not use spec.template"}},
		"an error":                  {false, false, nil, reconciler.Stalled(appv1.ReasonScaleConflict, "why"), "False/ScaleConflict", []string{"why"}},
		"others change the number":  {false, false, newPlainDeployment("held", 3), nil, "False/Overridden", []string{"has 3 replicas in place of 2"}},
		"a template with an error":  {false, true, ofTemplate(2), reconciler.Stalled("Invalid", "why"), "True/Synced", nil},
		"an error of the number":    {false, true, ofTemplate(3), reconciler.Stalled("Invalid", "why"), "False/Invalid", []string{"why"}},
		"a conflict of a template":  {false, true, ofTemplate(2), reconciler.Stalled(appv1.ReasonScaleConflict, "why"), "False/ScaleConflict", []string{"why"}},
		"not the template's":        {false, true, newPlainDeployment("held", 2), reconciler.Stalled("Invalid", "why"), "False/Invalid", []string{"why"}},
		"paused, and it holds":      {true, false, newPlainDeployment("held", 2), nil, "True/Synced", nil},
		"paused, and it does not":   {true, false, newPlainDeployment("held", 3), nil, "False/Paused", []string{"not scaled to 2"}},
		"paused, and there is none": {true, true, nil, nil, "False/Paused", []string{"spec.paused"}},
		"paused, with an error":     {true, false, newPlainDeployment("held", 3), reconciler.Stalled("Reason", "why"), "False/Reason", []string{"why"}},
	} {
		ud := newHolder("held", 2)
		ud.Spec.Paused = c.paused
		if c.template {
			ud.Spec.Template = &appv1.WorkloadSpec{}
		}
		got := syncedCondition(ud, c.live, c.err)
		if is := fmt.Sprintf("%s/%s", got.Status, got.Reason); is != c.want || !containsAll(got.Message, c.says...) || got.ObservedGeneration != 3 {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

// storedHolder returns a UnitedDeployment as it is stored.
func storedHolder(t *testing.T, name string, created time.Time, spec string) *stored.UnitedDeployment {
	t.Helper()
	obj, ok := newStored(t, kindNamed(t, "UnitedDeployment"), spec).(*stored.UnitedDeployment)
	if !ok {
		t.Fatal("it has another type")
	}
	obj.Name, obj.UID, obj.CreationTimestamp = name, types.UID(name), metav1.NewTime(created)
	return obj
}

// TestOldestClaimant finds the oldest UnitedDeployment of those that name one Deployment.
func TestOldestClaimant(t *testing.T) {
	const held, other = `{"deploymentName":"held","replicas":1}`, `{"deploymentName":"other","replicas":1}`
	at := func(n int64) time.Time { return time.Unix(1000+n, 0) }
	elsewhere := storedHolder(t, "elsewhere", at(0), held)
	elsewhere.Namespace = "other"
	w := newWorld(t, storedHolder(t, "b", at(2), held), storedHolder(t, "c", at(1), held), storedHolder(t, "a", at(0), other),
		storedHolder(t, "broken", at(0), `{"deploymentName":5}`), elsewhere)
	r := &UnitedDeploymentReconciler{Deps: *w.Deps}
	for _, c := range []struct {
		name    string
		created int64
		names   string
		want    string
	}{
		{"web", 3, "held", "c"}, {"web", 0, "held", ""}, {"c", 1, "held", ""}, {"b", 2, "held", "c"}, {"web", 3, "free", ""},
		{"web", 1, "held", "c"}, {"aa", 1, "held", ""}, // Of the same second: the name decides.
	} {
		ud := newHolder(c.names, 1)
		ud.Name, ud.UID, ud.CreationTimestamp = c.name, types.UID(c.name), metav1.NewTime(at(c.created))
		if got, err := r.oldestClaimant(t.Context(), ud); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v; want %q", c.names, c.name, got, err, c.want)
		}
	}
}

// TestMapCompeting reconciles the UnitedDeployments that name the Deployment of one that has changed.
func TestMapCompeting(t *testing.T) {
	const held, other = `{"deploymentName":"held","replicas":1}`, `{"deploymentName":"other","replicas":1}`
	now := time.Unix(1000, 0)
	w := newWorld(t, storedHolder(t, "a", now, held), storedHolder(t, "b", now, held), storedHolder(t, "c", now, other))
	k := kindNamed(t, "UnitedDeployment")
	for _, c := range []struct {
		spec string
		want []string
	}{{held, []string{"a", "b"}}, {other, []string{"c"}}, {`{"deploymentName":5}`, nil}, {`{"deploymentName":"free"}`, nil}} {
		var got []string
		for _, req := range requestsOf(t.Context(), k, w.Deps, k.mapCompeting(t.Context(), storedHolder(t, "changed", now, c.spec))) {
			got = append(got, req.Name)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.spec, got, c.want)
		}
	}
}

// TestScaleExisting holds a Deployment of no operator's at a number of pods, and writes nothing else of it.
func TestScaleExisting(t *testing.T) {
	const kindName = "UnitedDeployment"
	w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`))
	w.settle(kindName)
	w.wrote("no Deployment", "status UnitedDeployment web")
	w.stands("no Deployment", kindName, "Synced=False/DeploymentNotFound", "Ready=False/DeploymentNotFound")

	held := newPlainDeployment("held", 1)
	w.create(held)
	w.settle(kindName)
	w.wrote("a Deployment", "scale Deployment held", "status UnitedDeployment web")
	w.stands("a Deployment", kindName, "Synced=True/Synced")
	if !w.read(held) || *held.Spec.Replicas != 3 || len(held.OwnerReferences) > 0 || len(held.Annotations) > 0 {
		t.Errorf("the Deployment is %+v", held)
	}
	sent := w.sent()
	if last := sent[len(sent)-1]; !containsAll(last, "Synced", "from 1 to 3") {
		t.Errorf("the event is %q", last)
	}
	w.settle(kindName)
	w.wrote("idle")

	held.Spec.Replicas = ptr.To[int32](9)
	w.update(held)
	w.settle(kindName)
	w.requests = withoutStatus(w.requests)
	w.wrote("another writer's number", "scale Deployment held")
	w.setSpec(kindName, `{"deploymentName":"held","replicas":4,"paused":true}`)
	w.settle(kindName)
	w.wrote("paused", "status UnitedDeployment web")
	w.stands("paused", kindName, "Synced=False/Paused", "Applied=False/Paused")

	w.setSpec(kindName, `{"deploymentName":"held","replicas":4,"template":{"image":"nginx:1"}}`)
	w.settle(kindName)
	w.stands("a template", kindName, "Synced=True/Synced")
	if got := w.message(kindName, appv1.ConditionSynced); !strings.Contains(got, "only scales it") {
		t.Errorf("a template: %s", got)
	}
	if w.read(held); *held.Spec.Replicas != 4 || len(held.Spec.Template.Spec.Containers) > 0 {
		t.Errorf("a template: the Deployment is %+v", held.Spec)
	}
}

// TestScaleExistingMeetsOthers keeps off a Deployment that another scales, until that one is gone.
func TestScaleExistingMeetsOthers(t *testing.T) {
	const kindName = "UnitedDeployment"
	older := storedHolder(t, "older", time.Unix(5, 0), `{"deploymentName":"held","replicas":7}`)
	scaler := newScaler("scaler", "Deployment", "held")
	forEach(t, map[string]client.Object{"an older claimant": older, "an autoscaler": scaler}, func(t *testing.T, name string, rival client.Object) {
		web := newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`)
		web.SetCreationTimestamp(metav1.NewTime(time.Unix(9, 0)))
		w := newWorld(t, web, newPlainDeployment("held", 1), rival)
		w.settle(kindName)
		w.wrote(name, "status UnitedDeployment web")
		w.stands(name, kindName, "Synced=False/ScaleConflict", "Stalled=True/ScaleConflict")
		if got := w.message(kindName, appv1.ConditionSynced); !strings.Contains(got, rival.GetName()) {
			t.Errorf("%s: %s", name, got)
		}
		w.remove(rival)
		w.settle(kindName)
		w.wrote(name+" is gone", "scale Deployment held", "status UnitedDeployment web")
		w.stands(name+" is gone", kindName, "Synced=True/Synced")
	})
}

// TestScaleExistingOfOwners keeps off a Deployment that another resource has made, however old that is, until the Deployment has
// no owner.
func TestScaleExistingOfOwners(t *testing.T) {
	const kindName = "UnitedDeployment"
	forEach(t, map[string]string{"an App": "App", "a UnitedDeployment": "UnitedDeployment"}, func(t *testing.T, name, owner string) {
		d := newPlainDeployment("held", 1)
		d.OwnerReferences = controlledBy("held", owner, "maker", "7").OwnerReferences
		w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`), d)
		w.settle(kindName)
		w.wrote(name, "status UnitedDeployment web")
		w.stands(name, kindName, "Synced=False/ScaleConflict", "Stalled=True/ScaleConflict")
		if got := w.message(kindName, appv1.ConditionStalled); !containsAll(got, "Deployment held is owned by "+owner+" maker") {
			t.Errorf("%s: Stalled says %q", name, got)
		}
		w.setSpec(kindName, `{"deploymentName":"held","replicas":4}`)
		w.settle(kindName)
		w.wrote(name+", another number", "status UnitedDeployment web")

		w.read(d)
		d.OwnerReferences = nil
		w.update(d)
		w.settle(kindName)
		w.wrote(name+" is gone", "scale Deployment held", "status UnitedDeployment web")
		w.stands(name+" is gone", kindName, "Synced=True/Synced")
	})
}

// TestScaleOfADeletedOwnDeployment deletes the Deployment that a UnitedDeployment has created, while an older UnitedDeployment names it too: the younger one
// recreates its own, also if the API server refuses that at first, and the older one keeps off. Without the template, or if another has created the
// Deployment since, age counts again.
func TestScaleOfADeletedOwnDeployment(t *testing.T) {
	const kindName, bare, withTemplate = "UnitedDeployment", `{"deploymentName":"held","replicas":3}`, `{"deploymentName":"held","replicas":3,"template":{"image":"nginx:1"}}`
	held := newPlainDeployment("held", 1)
	begin := func(t *testing.T) *world {
		web := newStored(t, kindNamed(t, kindName), withTemplate)
		web.SetCreationTimestamp(metav1.NewTime(time.Unix(9, 0)))
		w := newWorld(t, web)
		w.settle(kindName)
		w.create(storedHolder(t, "older", time.Time{}, bare))
		w.settle(kindName)
		w.stands("an older one", kindName, "Synced=True/Synced")
		w.read(held)
		return w
	}
	t.Run("recreated", func(t *testing.T) {
		w := begin(t)
		w.remove(held)
		w.fail = func(verb string, _ client.Object) error {
			if verb == "patch" {
				return apierrors.NewServiceUnavailable("overloaded")
			}
			return nil
		}
		for range 3 {
			_, _ = w.reconcile(kindName) // The creation is refused.
		}
		w.fail = nil
		w.settle(kindName)
		w.stands("the Deployment is deleted", kindName, "Synced=True/Synced")
		if !w.read(held) || metav1.GetControllerOf(held).Name != "web" {
			t.Errorf("the Deployment is %+v", held)
		}
	})
	t.Run("without the template", func(t *testing.T) {
		w := begin(t)
		w.setSpec(kindName, bare)
		w.settle(kindName)
		w.remove(held)
		w.settle(kindName)
		w.stands("the Deployment is deleted", kindName, "Synced=False/ScaleConflict")
		w.setSpec(kindName, withTemplate)
		w.settle(kindName)
		w.stands("the template is back", kindName, "Synced=False/ScaleConflict")
	})
	t.Run("created by the other", func(t *testing.T) {
		w := begin(t)
		w.remove(held)
		theirs := newPlainDeployment("held", 1)
		theirs.OwnerReferences = controlledBy("held", kindName, "older", "7").OwnerReferences
		theirs.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: `{"rendering":2}`}
		w.create(theirs)
		w.settle(kindName)
		w.stands("the other was first", kindName, "Synced=False/ScaleConflict")
		w.remove(theirs)
		w.settle(kindName)
		w.stands("the Deployment of the other is deleted", kindName, "Synced=False/ScaleConflict")
		if w.read(held) {
			t.Error("it creates the Deployment of the other")
		}
	})
}

// TestStatusOfAnOrphanedDeployment reports on the Deployment of the template of a UnitedDeployment that was deleted without it: its figures and its selector are those of
// the next UnitedDeployment, which does not own it.
func TestStatusOfAnOrphanedDeployment(t *testing.T) {
	const kindName = "UnitedDeployment"
	d := newPlainDeployment("held", 2)
	d.Spec.Selector.MatchLabels = map[string]string{appv1.LabelUnitedDeployment: "web"}
	w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":2,"template":{"image":"nginx:1"}}`), d)
	w.settle(kindName)
	w.wrote("orphaned", "status UnitedDeployment web")
	w.stands("orphaned", kindName, "Ready=False/ResourceExists", "Stalled=True/ResourceExists")
	if got := w.status(kindName); got.Ready != "2/2" || got.Replicas != 2 || got.AvailableReplicas != 2 || got.Selector != appv1.LabelUnitedDeployment+"=web" {
		t.Errorf("the status is %+v", got)
	}
}

// TestScaleFails reports why a Deployment cannot be scaled, and scales it once that is over.
func TestScaleFails(t *testing.T) {
	const kindName = "UnitedDeployment"
	scales := schema.GroupResource{Group: "apps", Resource: "deployments/scale"}
	type failure struct {
		err    error
		stands []string
		says   string
	}
	forEach(t, map[string]failure{
		"a policy": {apierrors.NewInvalid(schema.GroupKind{Group: "autoscaling", Kind: "Scale"}, "held", nil),
			[]string{"Ready=False/Invalid", "Reconciling=False/Invalid", "Stalled=True/Invalid", "Synced=False/Invalid"}, "Deployment held"},
		"a webhook": {apierrors.NewForbidden(scales, "held", errors.New("too many")),
			[]string{"Ready=False/Forbidden", "Reconciling=True/Forbidden", "Stalled=False/NotStalled", "Synced=False/Forbidden"}, "too many"},
		"a fault": {apierrors.NewServiceUnavailable("overloaded"),
			[]string{"Ready=False/ApplyFailed", "Reconciling=True/ApplyFailed", "Stalled=False/NotStalled", "Synced=False/ApplyFailed"}, "overloaded"},
	}, func(t *testing.T, name string, c failure) {
		w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`), newPlainDeployment("held", 1))
		w.fail = func(verb string, _ client.Object) error {
			if verb == "scale" {
				return c.err
			}
			return nil
		}
		_, _ = w.reconcile(kindName) // The conditions have the error.
		w.stands(name, kindName, c.stands...)
		if got := w.message(kindName, appv1.ConditionReady); !strings.Contains(got, c.says) {
			t.Errorf("Ready says %q", got)
		}
		w.fail = nil
		w.settle(kindName)
		w.stands(name+" is over", kindName, "Synced=True/Synced", "Stalled=False/NotStalled")
	})
}

// TestScaleOverridden has an admission policy set another number than the wanted one: the spec is in force but for the number, no user has to act, and the
// operator tries the number again later.
func TestScaleOverridden(t *testing.T) {
	const kindName = "UnitedDeployment"
	w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`), newPlainDeployment("held", 1))
	w.policy = func(wanted int32) int32 { return min(wanted, 2) }
	overridden := []string{"Applied=True/Overridden", "Stalled=False/NotStalled", "Synced=False/Overridden"}
	w.settle(kindName)
	w.wrote("a policy", "scale Deployment held", "status UnitedDeployment web")
	w.stands("a policy", kindName, overridden...)
	if got := w.message(kindName, appv1.ConditionApplied); !strings.Contains(got, "held has 2 replicas in place of 3") {
		t.Errorf("Applied says %q", got)
	}
	w.settle(kindName)
	w.requests = withoutStatus(w.requests)
	w.wrote("the policy goes on")
	w.stands("the policy goes on", kindName, overridden...)

	w.policy = nil
	for range 5 {
		w.settle(kindName)
	}
	w.stands("the policy is gone", kindName, "Applied=True/Applied", "Stalled=False/NotStalled", "Synced=True/Synced")
}

// TestScaleOfADeletedDeployment reports a Deployment that is being deleted, and does not scale it.
func TestScaleOfADeletedDeployment(t *testing.T) {
	const kindName = "UnitedDeployment"
	going := newPlainDeployment("held", 1)
	going.Finalizers = []string{"example.com/hold"}
	w := newWorld(t, newStored(t, kindNamed(t, kindName), `{"deploymentName":"held","replicas":3}`), going)
	w.remove(going)
	w.settle(kindName)
	w.wrote("it is being deleted", "status UnitedDeployment web")
	w.stands("it is being deleted", kindName, "Synced=False/DeploymentNotFound")
	if got := w.message(kindName, appv1.ConditionSynced); !strings.Contains(got, "to be deleted") {
		t.Errorf("it is being deleted: %s", got)
	}
}
