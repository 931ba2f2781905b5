package workload

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/content"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// TestNoteTrouble says why content is not followed: the first reason stays, and the end of the process is none.
func TestNoteTrouble(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "settings", errors.New("no"))
	for name, c := range map[string]struct {
		err    error
		before string
		want   string
	}{
		"no right":           {forbidden, "", appv1.ReasonForbidden},
		"not listed yet":     {content.ErrNotSynced, "", appv1.ReasonProgressing},
		"anything else":      {errors.New("reset"), "", appv1.ReasonReadFailed},
		"there was a reason": {forbidden, appv1.ReasonTooManyReferences, appv1.ReasonTooManyReferences},
	} {
		r := contentReader{contentRead: &contentRead{trouble: reconciler.ReasonAndMessage{Reason: c.before}}}
		if err := r.noteTrouble(t.Context(), c.err); err != nil || r.trouble.Reason != c.want {
			t.Errorf("%s: %v, %+v, want %s", name, err, r.trouble, c.want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r := contentReader{contentRead: &contentRead{}}
	if err := r.noteTrouble(ended, forbidden); !errors.Is(err, error(forbidden)) || r.trouble.Reason != "" {
		t.Errorf("at the end: %v, %+v", err, r.trouble)
	}
}

// TestReplacedByInputs has the inputs of the pods change without a change of the spec: the content that new pods use is read, unless the pod template
// stays.
func TestReplacedByInputs(t *testing.T) {
	using := func(key string) resource.DefaultsRecord {
		source := &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "shared"}, Key: key}}
		fields := appv1.Defaults{Envs: []corev1.EnvVar{{Name: "A", ValueFrom: source}}}
		return resource.TakeDefaults(&resource.PresentDefaults{Fields: &fields}, resource.AppSpec(newWebApp()))
	}
	for name, c := range map[string]struct {
		recorded resource.BuildInputs
		refresh  string
		wave     resource.Wave
		canary   bool
		want     bool
	}{
		"no change":                         {recorded: resource.BuildInputs{Defaults: using("b")}},
		"other defaults, which wait":        {recorded: resource.BuildInputs{Defaults: using("a")}},
		"a refresh that changes nothing":    {recorded: resource.BuildInputs{Defaults: using("b")}, refresh: "1"},
		"a refresh":                         {recorded: resource.BuildInputs{Defaults: using("a")}, refresh: "1", want: true},
		"a refresh that takes the template": {recorded: resource.BuildInputs{Defaults: using("b"), Kept: true}, refresh: "1", want: true},
		"a wave":                            {recorded: resource.BuildInputs{Defaults: using("a")}, wave: resource.Wave{Number: 1, At: metav1.Unix(1e9, 0)}, want: true},
		"a canary":                          {recorded: resource.BuildInputs{Defaults: using("a")}, canary: true},
		"a canary, and a refresh":           {recorded: resource.BuildInputs{Defaults: using("a")}, canary: true, refresh: "1", want: true},
	} {
		s := newSituation(t)
		if c.canary {
			s = newCanarySituation(t)
		}
		s.app.Spec.ConfigRollout = appv1.ConfigRolloutOnChange
		c.recorded.Rendering = resource.RenderingLatest
		live := appliedDeployment(t, s.app, c.recorded)
		if c.canary {
			s.run(t, "nginx:2", func(in *resource.BuildInputs) { *in = c.recorded })
		} else {
			s.seen.Object = live
		}
		s.app.Annotations = map[string]string{appv1.AnnotationRefresh: c.refresh}
		s.seen.today.Defaults = using("b")
		before := statusOf(s.app)
		before.Defaults.Defaults = &appv1.DefaultsInUse{Digest: c.recorded.Defaults.Digest()}
		in := NewServedInput(resource.KindApp, s.app, resource.AppSpec(s.app), false, nil, nil, before)
		in.wave = c.wave
		_, ask, err := decider{compare: s.compare, in: in, seen: s.seen}.buildPresent()
		if err != nil || ask == nil || ask.content == nil {
			t.Errorf("%s: %+v, %v", name, ask, err)
			continue
		}
		if got := ask.content; got.replaced != c.want || got.specChanged || got.inCanary != c.canary {
			t.Errorf("%s: %+v, want replaced %t", name, got, c.want)
		}
	}
}

// TestRolloutState has the states of a Deployment: new content waits for a rollout, unless its pods are in trouble.
func TestRolloutState(t *testing.T) {
	deployment := func(updated, available int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
		d := newPlainDeployment("web", 2)
		d.Status = appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available, Conditions: conditions}
		return d
	}
	progressing := func(status corev1.ConditionStatus, reason string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason}
	}
	for name, c := range map[string]struct {
		live            *appsv1.Deployment
		pods            []corev1.Pod
		underWay, stuck bool
	}{
		"there is none":             {nil, nil, false, false},
		"all pods run":              {deployment(2, 2), nil, false, false},
		"a rollout":                 {deployment(1, 2), nil, true, false},
		"a rollout is stuck":        {deployment(1, 2), []corev1.Pod{*newPod("web-a", "ImagePullBackOff")}, true, true},
		"a rollout has timed out":   {deployment(1, 2, progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded")), nil, true, true},
		"pods were lost since":      {deployment(2, 1, progressing(corev1.ConditionTrue, "NewReplicaSetAvailable")), nil, false, false},
		"pods have crashed since":   {deployment(2, 1, progressing(corev1.ConditionTrue, "NewReplicaSetAvailable")), []corev1.Pod{*newPod("web-a", "CrashLoopBackOff")}, false, true},
		"a rollout of one that was": {deployment(1, 1, progressing(corev1.ConditionTrue, "NewReplicaSetAvailable")), nil, true, false},
	} {
		seen := &Observed{Pods: c.pods, At: time.Unix(1e9, 0)}
		if c.live != nil {
			seen = seen.WithObject(c.live)
		}
		underWay, stuck := seen.rolloutState()
		if underWay != c.underWay || stuck != c.stuck {
			t.Errorf("%s: under way %t, stuck %t", name, underWay, stuck)
		}
	}
}

// TestAddContent has the states of what is said of content in the status.
func TestAddContent(t *testing.T) {
	refs := []resource.ConfigReference{{Kind: "ConfigMap", Name: "settings"}}
	sum := strings.Repeat("0", 32)
	for name, c := range map[string]struct {
		made           contentDecision
		foreign        bool
		status, reason string
		says           string
		objects        int
	}{
		"it is followed":            {contentDecision{looked: true, refs: refs}, false, "True", appv1.ReasonFollowed, "", 1},
		"nothing is referred to":    {contentDecision{looked: true}, false, "True", appv1.ReasonFollowed, messageNothingReferred, 0},
		"a Secret is not":           {contentDecision{looked: true, refs: refs, unfollowed: []string{"login"}}, false, "True", appv1.ReasonFollowed, "login", 1},
		"it cannot be read":         {contentDecision{refs: refs, trouble: reconciler.ReasonAndMessage{Reason: appv1.ReasonForbidden, Message: "no right"}}, false, "False", appv1.ReasonForbidden, "no right", 1},
		"the spec is invalid":       {contentDecision{refs: refs}, false, "", "", "", 1},
		"the Deployment is foreign": {contentDecision{looked: true, refs: refs}, true, "True", appv1.ReasonFollowed, "", 1},
		"it is not followed":        {contentDecision{looked: true, refs: refs}, false, "", "", "", 0},
	} {
		app := newWebApp()
		app.Status.Config = []appv1.ConfigObject{{Kind: "ConfigMap", Name: "settings", ResourceVersion: "7"}}
		in := newAppInput(app)
		follow := name != "it is not followed"
		if in.Around = (&appv1.ServingSpec{}); follow {
			in.Around.ConfigRollout = appv1.ConfigRolloutOnChange
		}
		c.made.retry, c.made.found = time.Second, map[string]foundContent{refs[0].ID(): {version: "8", sum: sum}}
		live := newPlainDeployment("web", 2)
		inputs := resource.BuildInputs{Rendering: resource.RenderingLatest, Config: resource.ConfigInputs{Objects: map[string]string{refs[0].ID(): sum}}}
		live.Annotations = map[string]string{appv1.AnnotationLastAppliedInputs: inputs.Encode()}
		if !c.foreign {
			live.OwnerReferences = []metav1.OwnerReference{{UID: app.UID, Controller: ptr.To(true)}}
		}
		about := liveReport{status: in.Before}
		about.addContent(in, &c.made, live)
		report := reconciler.Report{Conditions: about.conditions}
		config := about.status.Serving.Config
		report.SetConditions(&app.Status.Conditions)
		got := ptr.Deref(meta.FindStatusCondition(app.Status.Conditions, appv1.ConditionConfigFollowed), metav1.Condition{})
		if string(got.Status) != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if len(config) != c.objects {
			t.Errorf("%s: the status says of the content %+v", name, config)
		}
		if c.made.looked && !c.foreign && c.objects == 1 && config[0].ResourceVersion != "8" {
			t.Errorf("%s: the pods have %+v", name, config)
		}
		if follow && about.retry != time.Second {
			t.Errorf("%s: it is looked at again after %s", name, about.retry)
		}
	}
}
