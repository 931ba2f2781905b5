package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestReportStatus states what lives in the status, for an owner that has it and for one that has not.
func TestReportStatus(t *testing.T) {
	live := &appsv1.Deployment{ObjectMeta: controlledBy("web", "App", "web", "1")}
	live.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: `{"rendering":0}`}
	live.Spec.Replicas, live.Spec.Selector = ptr.To[int32](3), &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	live.Status = appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 2, AvailableReplicas: 1, UnavailableReplicas: 7}
	service := &corev1.Service{ObjectMeta: controlledBy("web", "App", "web", "1")}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	another := live.DeepCopy()
	another.OwnerReferences[0].UID = "7"
	full := appv1.WorkloadStatus{
		Ready: "2/3", Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 2, AvailableReplicas: 1, UnavailableReplicas: 7,
		Selector: "a=b", LatestRendering: 2,
	}
	reported := full
	reported.LatestRendering = 0 // The inputs on it are those of its owner.
	withEndpoint := full
	withEndpoint.Endpoint = "web.default.svc:80"
	type rules struct {
		lost, foreign bool
		tier          resource.Tier
	}
	for name, c := range map[string]struct {
		seen   Observed
		change func(*rules)
		want   appv1.WorkloadStatus
		reason string
	}{
		"nothing lives":         {Observed{}, nil, appv1.WorkloadStatus{Ready: "0/2"}, appv1.ReasonProgressing},
		"ours":                  {Observed{Object: live}, nil, full, appv1.ReasonProgressing},
		"ours, with a Service":  {Observed{Object: live, Services: Services{Service: service}}, nil, withEndpoint, appv1.ReasonProgressing},
		"another's":             {Observed{Object: another}, nil, appv1.WorkloadStatus{Ready: "0/2"}, appv1.ReasonProgressing},
		"another's, to report":  {Observed{Object: another}, func(how *rules) { how.foreign = true }, reported, appv1.ReasonProgressing},
		"gone, and was there":   {Observed{}, func(how *rules) { how.lost = true }, appv1.WorkloadStatus{Ready: "0/2", Selector: "old=1", Rendering: 1}, appv1.ReasonProgressing},
		"a tier that is missed": {Observed{}, func(how *rules) { how.tier = resource.TierFront }, appv1.WorkloadStatus{Ready: "0/2", Selector: "old=1", Rendering: 1}, appv1.ReasonProgressing},
	} {
		d := newAppInput(newWebApp())
		d.Before.Workload = appv1.WorkloadStatus{Selector: "old=1", Rendering: 1, Ready: "9/9", Replicas: 9, Endpoint: "old", Size: "old", LatestSize: "old"}
		d.Before.Workload.Conditions = []metav1.Condition{{Type: "Kept"}}
		var how rules
		if c.change != nil {
			c.change(&how)
		}
		d.Tier = how.tier
		seen := c.seen.WithObject(c.seen.Object)
		got, pods := MissingStatus(d, seen, how.lost)
		if seen.Deployment() != nil && (how.foreign || seen.isOwned(d.Owner)) {
			got, pods = StatusOf(d, seen, resource.BuildInputs{Rendering: 2})
		}
		if len(got.Conditions) != 1 {
			t.Errorf("%s: the conditions are %v", name, got.Conditions)
		}
		got.CommonStatus = appv1.CommonStatus{}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
		if pods.Ready || pods.Reason != c.reason {
			t.Errorf("%s: the pods are %+v", name, pods)
		}
	}
}

// TestReportVerdict has a Service count only once the pods are ready.
func TestReportVerdict(t *testing.T) {
	waiting := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	plain := &corev1.Service{}
	ready, failing := health.Verdict{Ready: true, Reason: "Ready"}, health.Verdict{Stalled: true, Reason: "Failing", Message: "why"}
	for name, c := range map[string]struct {
		verdict health.Verdict
		service *corev1.Service
		ready   bool
		stalled bool
	}{
		"no Service":                        {ready, nil, true, false},
		"a Service with an address":         {ready, plain, true, false},
		"a Service that waits for one":      {ready, waiting, false, false},
		"pods that fail, and a Service too": {failing, waiting, false, true},
	} {
		pods := podsOf(c.verdict, c.service)
		if pods.Ready != c.ready || pods.Stalled != c.stalled || (pods.Reason == c.verdict.Reason) == (name == "a Service that waits for one") {
			t.Errorf("%s: %+v", name, pods)
		}
	}
}

// TestReportInputs tells newer inputs from those in use, and other sizes from changed ones.
func TestReportInputs(t *testing.T) {
	small, large := resource.BuiltInSizes().Resolve("small"), resource.BuiltInSizes().Resolve("large")
	changed := small
	changed.Amounts = large.Amounts
	for name, c := range map[string]struct {
		record string
		today  resource.BuildInputs
		want   appv1.WorkloadStatus
	}{
		"unreadable": {"{", resource.BuildInputs{Rendering: 2}, appv1.WorkloadStatus{}},
		"the latest": {resource.BuildInputs{Rendering: 2}.Encode(), resource.BuildInputs{Rendering: 2}, appv1.WorkloadStatus{Rendering: 2}},
		"an earlier rendering": {
			resource.BuildInputs{Rendering: resource.RenderingTutorial}.Encode(), resource.BuildInputs{Rendering: 2}, appv1.WorkloadStatus{LatestRendering: 2},
		},
		"a later one, after a downgrade": {
			resource.BuildInputs{Rendering: 2}.Encode(), resource.BuildInputs{Rendering: resource.RenderingTutorial}, appv1.WorkloadStatus{Rendering: 2},
		},
		"the size": {
			resource.BuildInputs{Rendering: 2, Size: small}.Encode(), resource.BuildInputs{Rendering: 2, Size: small},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String()},
		},
		"another definition of the size": {
			resource.BuildInputs{Rendering: 2, Size: small}.Encode(), resource.BuildInputs{Rendering: 2, Size: changed},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String(), LatestSize: changed.String()},
		},
		"another size": {
			resource.BuildInputs{Rendering: 2, Size: small}.Encode(), resource.BuildInputs{Rendering: 2, Size: large},
			appv1.WorkloadStatus{Rendering: 2, Size: small.String()},
		},
	} {
		live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appv1.AnnotationLastAppliedInputs: c.record}}}
		got := withInputs(appv1.WorkloadStatus{}, live, c.today)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// TestNoteIgnoredReplicas tells of replicas that an autoscaler overrules, unless there is something graver to tell.
func TestNoteIgnoredReplicas(t *testing.T) {
	overridden := reconciler.ReasonAndMessage{Reason: appv1.ReasonOverridden, Message: "spec.a"}
	for name, c := range map[string]struct {
		autoscaler string
		replicas   *int32
		note       reconciler.ReasonAndMessage
		want       string
	}{
		"no autoscaler":        {"", ptr.To[int32](2), reconciler.ReasonAndMessage{}, ""},
		"no number":            {"scaler", nil, reconciler.ReasonAndMessage{}, ""},
		"both":                 {"scaler", ptr.To[int32](2), reconciler.ReasonAndMessage{}, appv1.ReasonReplicasIgnored},
		"both, and overridden": {"scaler", ptr.To[int32](2), overridden, appv1.ReasonOverridden},
	} {
		app := newWebApp()
		app.Spec.Replicas = c.replicas
		note := firstNote(c.note, ignoredReplicas(newAppInput(app), &decision{}, c.autoscaler))
		if note.Reason != c.want {
			t.Errorf("%s: %+v", name, note)
		}
		if c.want == appv1.ReasonReplicasIgnored && !containsAll(note.Message, "scaler", "Deployment web") {
			t.Errorf("%s: %s", name, note.Message)
		}
	}
}

// TestReportUnstatedReplicas sets the condition while an autoscaler cannot read the scale, and removes it after that.
func TestReportUnstatedReplicas(t *testing.T) {
	app := newWebApp()
	d := newAppInput(app)
	for _, c := range []struct {
		what       string
		autoscaler string
		replicas   *int32
		want       bool
	}{
		{"stated, no autoscaler", "", ptr.To[int32](2), false},
		{"unstated, no autoscaler", "", nil, false},
		{"unstated", "scaler", nil, true},
		{"stated", "scaler", ptr.To[int32](2), false},
		{"unstated once more", "scaler", nil, true},
		{"the autoscaler is gone", "", nil, false},
	} {
		d.Spec.Workload().Replicas = c.replicas
		report := reconciler.Report{Conditions: []metav1.Condition{unstatedReplicas(d, &Observed{Autoscalers: Autoscalers{ownerAutoscaler: c.autoscaler}})}}
		report.SetConditions(&app.Status.Conditions)
		found := slices.ContainsFunc(app.Status.Conditions, func(condition metav1.Condition) bool {
			return condition.Type == appv1.ConditionReplicasUnstated && condition.Status == metav1.ConditionTrue &&
				condition.ObservedGeneration == 3 && containsAll(condition.Message, "scaler", "App")
		})
		if found != c.want || !found && len(app.Status.Conditions) > 0 {
			t.Errorf("%s: %v", c.what, app.Status.Conditions)
		}
	}
}

// TestInvalidSpec says what is wrong with a spec in few words.
func TestInvalidSpec(t *testing.T) {
	if err := InvalidSpec(nil); err != nil {
		t.Errorf("a valid spec: %v", err)
	}
	var errs field.ErrorList
	for i := range 7 {
		errs = append(errs, field.Required(field.NewPath("spec", fmt.Sprintf("f%d", i)), "say so"))
	}
	for n, c := range map[int]struct{ last, not, more string }{
		1: {"spec.f0", "spec.f1", ""}, 5: {"spec.f4", "spec.f5", ""}, 6: {"spec.f4", "spec.f5", "and 1 more"}, 7: {"spec.f4", "spec.f5", "and 2 more"},
	} {
		reason, message := reconciler.ReasonAndMessageOf(InvalidSpec(errs[:n]))
		if reason != appv1.ReasonInvalid || !strings.Contains(message, c.last) || strings.Contains(message, c.not) ||
			!strings.HasSuffix(message, c.more) || c.more == "" && strings.Contains(message, "more") {
			t.Errorf("%d errors: %s, %s", n, reason, message)
		}
	}
	if reason, message := reconciler.ReasonAndMessageOf(InvalidResource(errors.New("spec.a: 5"))); reason != appv1.ReasonInvalid || message != "spec.a: 5" {
		t.Errorf("undecodable: %s, %s", reason, message)
	}
}

// TestSummarizeChanges has the changes of each apply in words.
func TestSummarizeChanges(t *testing.T) {
	created := apply.ChangeSet{{Action: apply.Created, Kind: "Deployment", Name: "web"}}
	repaired := apply.ChangeSet{{Action: apply.Repaired, Kind: "Service", Name: "web"}}
	for name, c := range map[string]struct {
		changes []apply.ChangeSet
		want    reconciler.Event
	}{
		"nothing":     {nil, reconciler.Event{}},
		"no change":   {[]apply.ChangeSet{nil}, reconciler.Event{}},
		"one apply":   {[]apply.ChangeSet{created}, reconciler.Event{Action: "Created", Changes: "Created Deployment web"}},
		"two applies": {[]apply.ChangeSet{created, repaired}, reconciler.Event{Action: "Created", Changes: "Created Deployment web; Repaired Service web"}},
	} {
		if got := summarizeChanges(c.changes); got.event != c.want || got.note.Reason != "" || got.retry != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestCanaryStatusImage has the image of the main container of a canary in the status, wherever the container is, and none for a canary that the cache has in part.
func TestCanaryStatusImage(t *testing.T) {
	container := func(name, image string) corev1.Container { return corev1.Container{Name: name, Image: image} }
	build := func(name string) *resource.Workload {
		w := &resource.Workload{}
		w.Template.Spec.Containers = []corev1.Container{container(name, "nginx:9")}
		return w
	}
	canary := build("web")
	canary.Canary = &resource.Canary{Workload: build("main")}
	for name, c := range map[string]struct {
		containers []corev1.Container
		workload   *resource.Workload
		want       string
	}{
		"in part":                            {nil, canary, ""},
		"in part, and no workload is known":  {nil, nil, ""},
		"one container":                      {[]corev1.Container{container("web", "nginx:2")}, canary, "nginx:2"},
		"a container before the main one":    {[]corev1.Container{container("proxy", "proxy:1"), container("main", "nginx:2")}, canary, "nginx:2"},
		"the same, by the present workload":  {[]corev1.Container{container("proxy", "proxy:1"), container("web", "nginx:2")}, build("web"), "nginx:2"},
		"the same, and no workload is known": {[]corev1.Container{container("proxy", "proxy:1"), container("web", "nginx:2")}, nil, "nginx:2"},
	} {
		t.Run(name, func(t *testing.T) {
			live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web-canary"}}
			live.Spec.Template.Spec.Containers = c.containers
			seen := &Observed{}
			seen.canary.object = live
			if got := canaryStatus(newAppInput(newWebApp()), &decision{workload: c.workload}, seen).Image; got != c.want {
				t.Errorf("the image is %q, want %q", got, c.want)
			}
			kept := build("main")
			kept.TemplateKept = true
			if got := imageInForce(kept, live); len(c.containers) == 0 && got != "nginx:9" {
				t.Errorf("in force is %q, want that of the workload", got)
			}
		})
	}
}
