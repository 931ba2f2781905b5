package workload

import (
	"errors"
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
)

// TestExposures has the states of what leads to the Service from outside: the worst of two counts.
func TestExposures(t *testing.T) {
	address := networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}}}
	ready := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: address}
	after := func(live client.Object, trouble error) *ApplyResult {
		return &ApplyResult{Seen: &Observed{}, auxiliaryKnown: true, auxiliary: []apply.Outcome{{Object: apply.Object{Desired: &networkingv1.Ingress{}}, Live: live, Err: trouble}}}
	}
	for name, c := range map[string]struct {
		seen   *ApplyResult
		change func(*Input)
		prior  string
		status metav1.ConditionStatus
		reason string
	}{
		"it has an address":           {after(ready, nil), nil, "", metav1.ConditionTrue, appv1.ReasonAccepted},
		"it has none":                 {after(&networkingv1.Ingress{}, nil), nil, "", metav1.ConditionUnknown, appv1.ReasonNoAddress},
		"it was refused":              {after(nil, reconciler.Stalled(appv1.ReasonForbidden, "no")), nil, "", metav1.ConditionFalse, appv1.ReasonForbidden},
		"it is refused, and is there": {after(ready, reconciler.Stalled(appv1.ReasonForbidden, "no")), nil, "", metav1.ConditionFalse, appv1.ReasonForbidden},
		"it is not there yet":         {&ApplyResult{Seen: &Observed{}}, nil, "", metav1.ConditionUnknown, appv1.ReasonProgressing},
		"it is only observed":         {&ApplyResult{Seen: &Observed{Owned: children.Inventory{ready}}}, nil, "", metav1.ConditionTrue, appv1.ReasonAccepted},
		"the spec is refused":         {&ApplyResult{Seen: &Observed{}}, func(d *Input) { d.Errs = field.ErrorList{field.Required(field.NewPath("spec", "image"), "")} }, "", metav1.ConditionFalse, appv1.ReasonInvalid},
		"an earlier spec has no port": {&ApplyResult{auxiliaryKnown: true, Seen: &Observed{Owned: children.Inventory{ready}}}, nil, appv1.ReasonHeld, metav1.ConditionFalse, appv1.ReasonHeld},
		"an earlier spec has it":      {after(ready, nil), nil, appv1.ReasonHeld, metav1.ConditionTrue, appv1.ReasonAccepted},
		"paused before that is known": {&ApplyResult{Seen: &Observed{Owned: children.Inventory{ready}}}, func(d *Input) { d.Paused = true }, appv1.ReasonHeld, metav1.ConditionTrue, appv1.ReasonAccepted},
		"the HTTPRoute is not there":  {after(ready, nil), func(d *Input) { d.Spec.Serving().HTTPRoute = &appv1.HTTPRouteSpec{} }, "", metav1.ConditionUnknown, appv1.ReasonProgressing},
	} {
		app := newWebApp()
		app.Spec.Ingress = &appv1.IngressSpec{Rules: []appv1.IngressRule{{Host: "a.test"}}}
		d := newAppInput(app)
		if c.change != nil {
			c.change(d)
		}
		got := worstStanding(exposuresOf(d, c.seen, InvalidSpec(d.Errs), c.prior))
		if got == nil || got.Status != c.status || got.Reason != c.reason {
			t.Errorf("%s: %+v, want %s/%s", name, got, c.status, c.reason)
		}
	}
	if got := worstStanding(exposuresOf(withServing(&appv1.ServingSpec{}), &ApplyResult{Seen: &Observed{}}, nil, "")); got != nil {
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
		seen *ApplyResult
		want *health.Standing
	}{
		"not asked for":     {&appv1.ServingSpec{}, &ApplyResult{Seen: &Observed{Owned: children.Inventory{active}}}, nil},
		"another one's":     {asked, &ApplyResult{Seen: &Observed{Autoscalers: Autoscalers{Autoscaler: "keda"}, Owned: children.Inventory{active}}}, &health.Standing{Status: metav1.ConditionFalse, Reason: appv1.ReasonAutoscalerExists}},
		"it decides":        {asked, &ApplyResult{Seen: &Observed{Owned: children.Inventory{active}}}, &health.Standing{Status: metav1.ConditionTrue, Reason: appv1.ReasonAutoscaling}},
		"not there yet":     {asked, &ApplyResult{Seen: &Observed{}}, &health.Standing{Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing}},
		"its controller is": {asked, &ApplyResult{Seen: &Observed{Owned: children.Inventory{&autoscalingv2.HorizontalPodAutoscaler{}}}}, &health.Standing{Status: metav1.ConditionUnknown, Reason: appv1.ReasonProgressing}},
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
	for name, c := range map[string]row{
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
		"the former is in the list":     {to: "shop", change: func(_ *Input, seen *Observed) { seen.former, seen.Owned = nil, children.Inventory{former} }, waits: true},
		"the new one is being deleted":  {to: "shop", slices: []client.Object{slice("shop", true)}, change: func(_ *Input, seen *Observed) { seen.Service = going }, waits: true},
		"only an Ingress has the name.": {to: "shop", change: func(_ *Input, seen *Observed) { seen.former, seen.Owned = nil, children.Inventory{ingress("web")} }},
	} {
		d, seen := newAppInput(app), &Observed{Services: Services{former: former}, Object: newPlainDeployment("web", 2)}
		d.Paused, seen.Deployment().Status.ReadyReplicas = false, 2
		if c.change != nil {
			c.change(d, seen)
		}
		err := awaitEndpoints(t.Context(), newClient(t, c.slices...), d, ingress(c.to), ingress("web"), seen)
		var waiting *reconciler.WaitingError
		if errors.As(err, &waiting) != c.waits || err != nil && !c.waits {
			t.Errorf("%s: %v", name, err)
		}
		if c.waits && (waiting.RetryAfter == 0 || !containsAll(waiting.Message, "web", "shop")) {
			t.Errorf("%s: %+v", name, waiting)
		}
	}
}
