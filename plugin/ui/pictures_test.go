package ui

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// owned returns the metadata of an object that another one controls, with a hostile name.
func owned(uid, owner string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: evil + uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute)),
		OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner), Controller: ptr.To(true)}},
	}
}

// hostileRollout returns an App in the middle of a rollout, in which each name and each text that a picture or a list has is hostile.
func hostileRollout() *view.Snapshot {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: evil, UID: "app"}}
	app.Spec.Image, app.Status.Ready, app.Status.UpdatedReplicas, app.Status.Endpoint, app.Status.Size = evil, "1/4", 2, evil, evil
	app.Status.Defaults, app.Status.Selector = &appv1.DefaultsInUse{Invalid: evil}, "app.kubernetes.io/name="+evil
	app.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionReady, Status: metav1.ConditionFalse, Reason: appv1.ReasonProgressing, Message: evil}}
	r, _ := view.ResourceOf(app)
	s := &view.Snapshot{Resource: r, Now: time.Now()}
	d := appsv1.Deployment{ObjectMeta: owned("deployment", "app")}
	d.Spec.Replicas = ptr.To[int32](4)
	containers := []corev1.Container{{Name: evil, Image: evil}}
	d.Spec.Template.Spec.Containers = containers
	rs := appsv1.ReplicaSet{ObjectMeta: owned("set", "deployment")}
	rs.Spec.Template.Spec.Containers = containers
	s.Deployments, s.ReplicaSets = []appsv1.Deployment{d}, []appsv1.ReplicaSet{rs}
	for i, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		pod := corev1.Pod{ObjectMeta: owned(fmt.Sprint("pod", i), "set")}
		pod.Spec.NodeName, pod.Spec.Containers = evil, containers
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Second))}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: evil, Image: evil, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: evil, Message: evil},
		}}}
		if status == corev1.ConditionFalse {
			pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: evil}
		}
		s.Pods = append(s.Pods, pod)
	}
	s.Services = []corev1.Service{{ObjectMeta: owned("service", "app"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}}
	s.Around = []unstructured.Unstructured{{Object: map[string]any{
		"kind": "Ingress", "metadata": map[string]any{"name": evil, "ownerReferences": []any{map[string]any{
			"uid": "app", "controller": true, "apiVersion": "v1", "kind": "App", "name": "a",
		}}},
		"spec": map[string]any{"ingressClassName": evil, "rules": []any{map[string]any{"host": evil}, map[string]any{"host": "javascript:alert(1)"}}},
	}}}
	s.Events = []corev1.Event{{Reason: evil, Message: evil, InvolvedObject: corev1.ObjectReference{Kind: evil, UID: "service"}, LastTimestamp: metav1.Now()}}
	return s
}

// TestHostilePictures draws each picture and each list from hostile names and texts. None of them becomes markup, and no link leads to a
// script.
func TestHostilePictures(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.snapshot = hostileRollout()
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	text := visit(s, secret, "app/shop/"+url.PathEscape(evil), nil).Body.String()
	if strings.Contains(text, "<img") || strings.Contains(text, `href="javascript:`) {
		t.Errorf("the page has markup of the cluster:\n%s", text)
	}
	if !strings.Contains(text, "<dt>Defaults</dt><dd>earlier ones") {
		t.Errorf("the page does not have the defaults:\n%s", text)
	}
	for _, fragment := range resourceFragments {
		_, part, found := strings.Cut(text, `id="`+fragment+`"`)
		if next := strings.Index(part, "\n<div id="); next >= 0 {
			part = part[:next]
		}
		if fragment != "problem" && (!found || !strings.Contains(part, "&lt;img")) {
			t.Errorf("%s has nothing of the cluster:\n%s", fragment, part)
		}
	}
	for _, address := range []string{"", "?view=wall"} {
		if text := visit(s, secret, address, nil).Body.String(); strings.Contains(text, "<img") || !strings.Contains(text, "&lt;img") {
			t.Errorf("%q:\n%s", address, text)
		}
	}
}

// TestHostileCommand draws a command before a rollout from hostile names and texts.
func TestHostileCommand(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.snapshot = hostileRollout()
	f.snapshot.Resource.Status.Conditions[0].Reason = appv1.ReasonBeforeRolloutFailed
	job := batchv1.Job{ObjectMeta: owned("job", "app")}
	job.Labels = map[string]string{appv1.LabelBeforeRollout: evil}
	job.OwnerReferences[0].APIVersion, job.OwnerReferences[0].Controller = appv1.GroupVersion.String(), nil
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: evil, Image: evil}}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: evil, Message: evil}}
	pod := corev1.Pod{ObjectMeta: owned("pod-of-job", "job")}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: evil, Image: evil, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: evil}}}}
	f.snapshot.Jobs, f.snapshot.Pods = []batchv1.Job{job}, append(f.snapshot.Pods, pod)
	s := listen(t, f)
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	text := visit(s, secret, "app/shop/"+url.PathEscape(evil), nil).Body.String()
	if strings.Contains(text, "<img") {
		t.Errorf("the page has markup of the cluster:\n%s", text)
	}
	for begin, end := range map[string]string{"<h2>Before the rollout</h2>": "</ol>", "<b>Command before the rollout</b>": "</li>"} {
		_, part, found := strings.Cut(text, begin)
		part, _, _ = strings.Cut(part, end)
		if !found || strings.Count(part, "&lt;img") < 2 {
			t.Errorf("after %s, there is nothing of the cluster:\n%s", begin, part)
		}
	}
}
