package controllers

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// aroundFields are the fields that ask for an object around the pods, by the kind of the object.
var aroundFields = map[string]string{
	"HorizontalPodAutoscaler": `"autoscaling":{"minReplicas":2,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}`,
	"ServiceAccount":          `"serviceAccount":{}`,
	"NetworkPolicy":           `"networkPolicy":{}`,
	"PodDisruptionBudget":     `"disruptionBudget":{"maxUnavailable":1}`,
	"Ingress":                 `"ingress":{"rules":[{"host":"web.example.com"}]}`,
}

// around returns the spec of a kind with a field that asks for an object around the pods.
func around(kindName, field string) string {
	return strings.Replace(flowSpec(kindName, "nginx:1", `[{"name":"http","port":80}]`), "{", "{"+field+`,"resources":{"requests":{"cpu":"1"}},`, 1)
}

// aroundType is a type of auxiliary children, by its kind.
type aroundType struct {
	kind string
	row  *apply.Type
}

// aroundTypes returns the types of auxiliary children, but for those that a cluster may lack: internal/clusterkinds reads these.
func aroundTypes(t *testing.T) []aroundType {
	t.Helper()
	var found []aroundType
	for i := range apply.Types {
		if row := &apply.Types[i]; row.Auxiliary && !row.Custom {
			kindName := reflect.TypeOf(row.Object).Elem().Name()
			if aroundFields[kindName] == "" {
				t.Fatalf("no field asks for a %s", kindName)
			}
			found = append(found, aroundType{kindName, row})
		}
	}
	return found
}

// exists reports whether there is an object web of the type.
func (a aroundType) exists(w *world) bool {
	w.t.Helper()
	obj, ok := a.row.Object.DeepCopyObject().(client.Object)
	if !ok {
		w.t.Fatalf("%T is no object", a.row.Object)
	}
	return w.read(obj)
}

// servingKinds are the names of the kinds that can ask for objects around the pods.
func servingKinds() []string {
	var names []string
	for i := range resource.Kinds {
		if resource.Kinds[i].Serves {
			names = append(names, resource.Kinds[i].Name)
		}
	}
	return names
}

// TestFlowAround takes an object of each type around the pods through its life: it is created by its field, restored by itself where it
// is deleted or its owner reference is removed, and deleted with the field. Nothing else is written meanwhile.
func TestFlowAround(t *testing.T) {
	for _, kindName := range servingKinds() {
		for _, a := range aroundTypes(t) {
			t.Run(kindName+"/"+a.kind, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, kindName), around(kindName, aroundFields[a.kind])))
				w.settle(kindName)
				written := "patch " + a.kind + " web"
				if want := []string{"patch Deployment web", "patch Service web", written}; !slices.Equal(slices.Sorted(slices.Values(withoutStatus(w.requests))), slices.Sorted(slices.Values(want))) {
					t.Errorf("to create it, the operator writes %q", w.requests)
				}
				w.requests = nil
				w.settle(kindName)
				w.wrote("idle")

				obj, ok := a.row.Object.DeepCopyObject().(client.Object)
				if !ok || !w.read(obj) {
					t.Fatalf("there is no %s", a.kind)
				}
				w.remove(obj)
				w.settle(kindName)
				if got := withoutStatus(w.requests); !slices.Equal(got, []string{written}) {
					t.Errorf("after it was deleted, the operator writes %q", got)
				}
				if !w.read(obj) {
					t.Fatal("it is not restored")
				}
				obj.SetOwnerReferences(nil)
				w.update(obj)
				w.requests = nil
				w.settle(kindName)
				if got := withoutStatus(w.requests); !slices.Equal(got, []string{written}) || !w.read(obj) || metav1.GetControllerOf(obj) == nil {
					t.Errorf("without its owner reference, the operator writes %q", got)
				}

				w.requests = nil
				w.setSpec(kindName, strings.Replace(around(kindName, aroundFields[a.kind]), aroundFields[a.kind]+",", "", 1))
				w.settle(kindName)
				if a.exists(w) {
					w.settle(kindName) // An account stays until no pod names it.
				}
				if a.kind != "ServiceAccount" && a.exists(w) {
					t.Errorf("it stays without its field; the operator writes %q", w.requests)
				}
			})
		}
	}
}

// TestForeignAround has each name of an object around the pods be taken: the object stays as it is, the status says so, and the pods and
// the Service are there all the same, but for what must be there before the first pod.
func TestForeignAround(t *testing.T) {
	first := []string{"ServiceAccount", "NetworkPolicy"}
	for _, kindName := range servingKinds() {
		for _, a := range aroundTypes(t) {
			t.Run(kindName+"/"+a.kind, func(t *testing.T) {
				taken, ok := a.row.Object.DeepCopyObject().(client.Object)
				if !ok {
					t.Fatalf("%T is no object", a.row.Object)
				}
				taken.SetNamespace(namespace)
				taken.SetName("web")
				taken.SetLabels(map[string]string{"whose": "another"})
				w := newWorld(t, newStored(t, kindNamed(t, kindName), around(kindName, aroundFields[a.kind])), taken)
				_, _ = w.reconcile(kindName)
				w.stands("taken", kindName, "Applied=False/"+appv1.ReasonResourceExists)
				if got := w.message(kindName, appv1.ConditionApplied); !containsAll(got, a.kind+" web") {
					t.Errorf("Applied says %q", got)
				}
				if !w.read(taken) || len(taken.GetOwnerReferences()) > 0 || taken.GetLabels()["whose"] != "another" || len(taken.GetLabels()) != 1 {
					t.Errorf("the object is %v now", taken)
				}
				if made := slices.Contains(w.requests, "patch Deployment web"); made == slices.Contains(first, a.kind) {
					t.Errorf("the operator writes %q", w.requests)
				}
				w.remove(taken)
				w.settle(kindName)
				if !a.exists(w) {
					t.Error("it is not created once the name is free")
				}
				w.stands("free", kindName, "Applied=True/Applied")
			})
		}
	}
}

// TestRefusedAround has the API server refuse each type of objects around the pods, for good and for now: it is reported, never as
// stalled, and the Deployment of an App that runs already takes its new spec.
func TestRefusedAround(t *testing.T) {
	for _, a := range aroundTypes(t) {
		group := schema.GroupResource{Resource: a.kind}
		for reason, refusal := range map[string]error{
			appv1.ReasonForbidden:   apierrors.NewForbidden(group, "web", errors.New("exceeded quota")),
			appv1.ReasonApplyFailed: apierrors.NewInternalError(errors.New("try later")),
		} {
			t.Run(a.kind+"/"+reason, func(t *testing.T) {
				w := newWorld(t, newStored(t, kindNamed(t, "App"), flowSpec("App", "nginx:0", `[{"name":"http","port":80}]`)))
				w.settle("App")
				w.makeAvailable()
				w.settle("App")
				w.fail = func(verb string, obj client.Object) error {
					if verb == "patch" && reflect.TypeOf(obj) == reflect.TypeOf(a.row.Object) {
						return refusal
					}
					return nil
				}
				w.setSpec("App", around("App", aroundFields[a.kind]))
				_, _ = w.reconcile("App")
				if got := w.image(); got != "nginx:1" {
					t.Errorf("the image is %s", got)
				}
				c := meta.FindStatusCondition(w.status("App").Conditions, appv1.ConditionApplied)
				if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, a.kind+" web") {
					t.Errorf("Applied is %+v", c)
				}
				w.stands("refused", "App", "Stalled=False/NotStalled")
				w.fail = nil
				w.settle("App")
				if !a.exists(w) {
					t.Error("it is not created once it is allowed")
				}
				w.stands("allowed", "App", "Applied=True/Applied")
			})
		}
	}
}

// TestExposures has the states of what leads to the Service from outside: the worst of two counts.
func TestExposures(t *testing.T) {
	address := networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}}}
	ready := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: address}
	after := func(live client.Object, trouble error) *Outcomes {
		return &Outcomes{Seen: &Observed{}, auxiliaryKnown: true, auxiliary: []apply.Outcome{{Object: apply.Object{Desired: &networkingv1.Ingress{}}, Live: live, Err: trouble}}}
	}
	for name, c := range map[string]struct {
		seen   *Outcomes
		change func(*Input)
		prior  string
		status metav1.ConditionStatus
		reason string
	}{
		"it has an address":           {after(ready, nil), nil, "", metav1.ConditionTrue, appv1.ReasonAccepted},
		"it has none":                 {after(&networkingv1.Ingress{}, nil), nil, "", metav1.ConditionUnknown, appv1.ReasonNoAddress},
		"it was refused":              {after(nil, reconciler.Stalled(appv1.ReasonForbidden, "no")), nil, "", metav1.ConditionFalse, appv1.ReasonForbidden},
		"it is refused, and is there": {after(ready, reconciler.Stalled(appv1.ReasonForbidden, "no")), nil, "", metav1.ConditionFalse, appv1.ReasonForbidden},
		"it is not there yet":         {&Outcomes{Seen: &Observed{}}, nil, "", metav1.ConditionUnknown, appv1.ReasonProgressing},
		"it is only observed":         {&Outcomes{Seen: &Observed{Owned: apply.Inventory{ready}}}, nil, "", metav1.ConditionTrue, appv1.ReasonAccepted},
		"the spec is refused":         {&Outcomes{Seen: &Observed{}}, func(d *Input) { d.Errs = field.ErrorList{field.Required(field.NewPath("spec", "image"), "")} }, "", metav1.ConditionFalse, appv1.ReasonInvalid},
		"an earlier spec has no port": {&Outcomes{auxiliaryKnown: true, Seen: &Observed{Owned: apply.Inventory{ready}}}, nil, appv1.ReasonHeld, metav1.ConditionFalse, appv1.ReasonHeld},
		"an earlier spec has it":      {after(ready, nil), nil, appv1.ReasonHeld, metav1.ConditionTrue, appv1.ReasonAccepted},
		"paused before that is known": {&Outcomes{Seen: &Observed{Owned: apply.Inventory{ready}}}, func(d *Input) { d.Paused = true }, appv1.ReasonHeld, metav1.ConditionTrue, appv1.ReasonAccepted},
		"the HTTPRoute is not there":  {after(ready, nil), func(d *Input) { d.Spec.Serving().HTTPRoute = &appv1.HTTPRouteSpec{} }, "", metav1.ConditionUnknown, appv1.ReasonProgressing},
	} {
		app := newWebApp()
		app.Spec.Ingress = &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "a.test"}}}
		d := newAppInput(app)
		if c.change != nil {
			c.change(d)
		}
		got := worstStanding(exposuresOf(d, c.seen, invalidSpec(d.Errs), c.prior))
		if got == nil || got.Status != c.status || got.Reason != c.reason {
			t.Errorf("%s: %+v, want %s/%s", name, got, c.status, c.reason)
		}
	}
	if got := worstStanding(exposuresOf(withServing(&appv1.ServingSpec{}), &Outcomes{Seen: &Observed{}}, nil, "")); got != nil {
		t.Errorf("where nothing is asked for: %+v", got)
	}
}

// withServing returns the input of the App web with fields for auxiliary objects.
func withServing(serving *appv1.ServingSpec) *Input {
	app := newWebApp()
	app.Spec.ServingSpec = *serving
	in := newAppInput(app)
	in.Around = serving
	return in
}

// TestAutoscaling says how the autoscaler is doing that the spec asks for.
func TestAutoscaling(t *testing.T) {
	asked := &appv1.ServingSpec{Autoscaling: &appv1.AutoscalingSpec{MaxReplicas: 5}}
	active := &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue}, {Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue},
	}}}
	for name, c := range map[string]struct {
		spec *appv1.ServingSpec
		seen *Outcomes
		want *health.Standing
	}{
		"not asked for":     {&appv1.ServingSpec{}, &Outcomes{Seen: &Observed{Owned: apply.Inventory{active}}}, nil},
		"another one's":     {asked, &Outcomes{Seen: &Observed{Autoscaler: "keda", Owned: apply.Inventory{active}}}, &health.Standing{Status: metav1.ConditionFalse, Reason: appv1.ReasonAutoscalerExists}},
		"it decides":        {asked, &Outcomes{Seen: &Observed{Owned: apply.Inventory{active}}}, &health.Standing{Status: metav1.ConditionTrue, Reason: appv1.ReasonAutoscaling}},
		"not there yet":     {asked, &Outcomes{Seen: &Observed{}}, &health.Standing{Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing}},
		"its controller is": {asked, &Outcomes{Seen: &Observed{Owned: apply.Inventory{&autoscalingv2.HorizontalPodAutoscaler{}}}}, &health.Standing{Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing}},
	} {
		got := autoscalingOf(withServing(c.spec), c.seen, nil)
		if (got == nil) != (c.want == nil) || got != nil && (got.Status != c.want.Status || got.Reason != c.want.Reason) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTroubleOf sorts what is in the way of objects around the pods: what waits for a user, for time, and what is tried again.
func TestTroubleOf(t *testing.T) {
	odd := errors.New("connection reset")
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		retry error
	}{
		"nothing":                {nil, 0, nil},
		"a user":                 {reconciler.Stalled(appv1.ReasonForbidden, "no"), 0, nil},
		"a user, looked at late": {&reconciler.StalledError{Reason: appv1.ReasonOverridden, RetryAfter: time.Minute}, time.Minute, nil},
		"time":                   {&reconciler.WaitingError{Reason: appv1.ReasonProgressing, RetryAfter: time.Second}, time.Second, nil},
		"wrapped":                {fmt.Errorf("Ingress web: %w", &reconciler.WaitingError{RetryAfter: time.Second}), time.Second, nil},
		"an odd error":           {odd, 0, odd},
	} {
		var troubles []error
		if c.err != nil {
			troubles = append(troubles, c.err)
		}
		trouble, after := troubleOf(troubles)
		if after != c.after || !errors.Is(trouble.Retry, c.retry) || (trouble.Retry == nil) != (c.retry == nil) || (trouble.Message == "") != (c.err == nil) && c.after == 0 {
			t.Errorf("%s: %+v, %s", name, trouble, after)
		}
	}
	_, after := troubleOf([]error{&reconciler.WaitingError{RetryAfter: time.Second}, &reconciler.StalledError{RetryAfter: time.Minute}})
	if after != time.Second {
		t.Errorf("the earlier time is lost: %s", after)
	}
}

// TestWithPrerequisite says why the first pod is not created: by the last application of what must be there before it.
func TestWithPrerequisite(t *testing.T) {
	account := func(trouble error) apply.Outcome {
		return apply.Outcome{Object: apply.Object{Desired: &corev1.ServiceAccount{}, Prerequisite: true, Auxiliary: true}, Err: trouble}
	}
	stalled, waiting := reconciler.Stalled(appv1.ReasonResourceExists, "taken"), &reconciler.WaitingError{Reason: appv1.ReasonProgressing, Message: "wait"}
	for name, c := range map[string]struct {
		around []apply.Outcome
		reason string
		stalls bool
	}{
		"nothing is in the way":  {[]apply.Outcome{account(nil)}, "", false},
		"it is taken":            {[]apply.Outcome{account(stalled)}, appv1.ReasonResourceExists, true},
		"it waits":               {[]apply.Outcome{account(waiting)}, appv1.ReasonProgressing, false},
		"it was taken before":    {[]apply.Outcome{account(stalled), account(nil)}, "", false},
		"it is no prerequisite":  {[]apply.Outcome{{Object: apply.Object{Desired: &networkingv1.Ingress{}, Auxiliary: true}, Err: stalled}}, "", false},
		"a policy is in the way": {[]apply.Outcome{{Object: apply.Object{Desired: &networkingv1.NetworkPolicy{}, Prerequisite: true}, Err: stalled}, account(nil)}, appv1.ReasonResourceExists, true},
	} {
		pods := withPrerequisite(health.Verdict{}, c.around)
		if pods.Reason != c.reason || pods.Stalled != c.stalls {
			t.Errorf("%s: %+v", name, pods)
		}
	}
}

// TestAwaitEndpoints has an Ingress lead to a former Service for as long as the new one has no endpoint that is ready, if that helps
// anyone.
func TestAwaitEndpoints(t *testing.T) {
	ingress := func(service string) *networkingv1.Ingress {
		backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service}}
		rule := networkingv1.IngressRule{}
		rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Backend: backend}}}
		return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{rule}}}
	}
	slice := func(service string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slice", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}
	}
	app := newWebApp()
	former := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", app.UID)}
	going := &corev1.Service{ObjectMeta: controlledBy("shop", "App", "web", app.UID)}
	going.DeletionTimestamp = ptr.To(metav1.Now())
	type row struct {
		to     string
		slices []client.Object
		change func(*Input, *Observed)
		waits  bool
	}
	forEach(t, map[string]row{
		"no endpoint":                {to: "shop", waits: true},
		"none is ready":              {to: "shop", slices: []client.Object{slice("shop", false)}, waits: true},
		"one of another Service":     {to: "shop", slices: []client.Object{slice("other", true)}, waits: true},
		"one is ready":               {to: "shop", slices: []client.Object{slice("shop", true)}},
		"the same Service":           {to: "web"},
		"paused":                     {to: "shop", change: func(d *Input, _ *Observed) { d.Paused = true }},
		"no pod is ready":            {to: "shop", change: func(_ *Input, seen *Observed) { seen.Deployment().Status.ReadyReplicas = 0 }},
		"no Deployment":              {to: "shop", change: func(_ *Input, seen *Observed) { seen.Object = nil }},
		"the former Service is gone": {to: "shop", change: func(_ *Input, seen *Observed) { seen.former = nil }},
		"the former is another's": {to: "shop", change: func(_ *Input, seen *Observed) {
			seen.former = &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "2")}
		}},
		"the former is in the list":     {to: "shop", change: func(_ *Input, seen *Observed) { seen.former, seen.Owned = nil, apply.Inventory{former} }, waits: true},
		"the new one is being deleted":  {to: "shop", slices: []client.Object{slice("shop", true)}, change: func(_ *Input, seen *Observed) { seen.Service = going }, waits: true},
		"only an Ingress has the name.": {to: "shop", change: func(_ *Input, seen *Observed) { seen.former, seen.Owned = nil, apply.Inventory{ingress("web")} }},
	}, func(t *testing.T, name string, c row) {
		w := newWorld(t, c.slices...)
		d, seen := newAppInput(app), &Observed{former: former, Object: newPlainDeployment("web", 2)}
		d.Paused, seen.Deployment().Status.ReadyReplicas = false, 2
		if c.change != nil {
			c.change(d, seen)
		}
		err := awaitEndpoints(t.Context(), w.Live, d, ingress(c.to), ingress("web"), seen)
		var waiting *reconciler.WaitingError
		if errors.As(err, &waiting) != c.waits || err != nil && !c.waits {
			t.Errorf("%s: %v", name, err)
		}
		if c.waits && (waiting.RetryAfter == 0 || !containsAll(waiting.Message, "web", "shop")) {
			t.Errorf("%s: %+v", name, waiting)
		}
	})
}
