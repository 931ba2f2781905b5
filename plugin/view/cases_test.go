package view

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func objectMeta(name, uid, owner string, age time.Duration) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), CreationTimestamp: before(age), Generation: 2}
	if owner != "" {
		m.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: ptr.To(true)}}
	}
	return m
}

func newApp(image string, conditions ...metav1.Condition) Resource {
	app := &appv1.App{ObjectMeta: objectMeta("cart", "app", "", 31*24*time.Hour)}
	app.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-edit", Time: ptr.To(before(22 * time.Minute)), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:image":{}}}`)}},
		{Manager: "app-operator", Subresource: "status", Time: ptr.To(before(time.Minute)), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)}},
	}
	app.Spec.Image, app.Spec.Replicas = image, ptr.To[int32](6)
	app.Status.Conditions, app.Status.ObservedGeneration, app.Status.Ready = conditions, 2, "4/6"
	r, _ := ResourceOf(app)
	return r
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: before(12 * time.Minute)}
}

func replicaSet(name string, revision, wanted, ready int, image, record string, age time.Duration) appsv1.ReplicaSet {
	rs := appsv1.ReplicaSet{ObjectMeta: objectMeta(name, name, "deployment", age)}
	rs.Annotations = map[string]string{annotationRevision: fmt.Sprint(revision), appv1.AnnotationLastAppliedSpec: record, appv1.AnnotationLastAppliedInputs: `{"rendering":2}`}
	rs.Spec.Replicas = ptr.To(int32(wanted))
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cart", Image: image}}
	cart := resource.AppSpec(&appv1.App{ObjectMeta: objectMeta("cart", "app", "", 0)})
	if built, err := resource.BuildRecorded(cart, record, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: 2}}); err == nil {
		rs.Spec.Template = built.Template
		rs.Spec.Template.Spec.Containers[0].Image = image
	}
	rs.Status.Replicas, rs.Status.ReadyReplicas = int32(wanted), int32(ready)
	return rs
}

func newPod(name, owner, node string, state corev1.ContainerState) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: objectMeta(name, name, owner, 40*time.Second)}
	pod.Labels = map[string]string{appv1.LabelApp: "cart"}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: "cart"}}
	up := state.Running != nil
	status := corev1.ConditionFalse
	pod.Status.Phase = corev1.PodPending
	if up {
		status, pod.Status.Phase = corev1.ConditionTrue, corev1.PodRunning
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cart", Image: "nginx:1.17.0", Ready: up, State: state}}
	return pod
}

var (
	running    = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	notPulled  = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "429 Too Many\x1b[2J Requests"}}
	notStarted = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
)

// rollout returns the App cart in the middle of a rollout whose pods are in a state.
func rollout(app Resource, state corev1.ContainerState) *Snapshot {
	d := appsv1.Deployment{ObjectMeta: objectMeta("cart", "deployment", "app", 31*24*time.Hour)}
	d.Annotations = map[string]string{annotationRevision: "5"}
	d.Spec.Replicas, d.Spec.Selector = ptr.To[int32](6), &metav1.LabelSelector{MatchLabels: map[string]string{appv1.LabelApp: "cart"}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 6, UpdatedReplicas: 4, ReadyReplicas: 4, AvailableReplicas: 4}
	service := corev1.Service{ObjectMeta: objectMeta("cart", "service", "app", 31*24*time.Hour)}
	service.Spec = corev1.ServiceSpec{ClusterIP: "10.96.14.2", Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(80)}}}
	hpa := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: objectMeta("cart", "hpa", "", time.Hour)}
	hpa.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "cart"}, MinReplicas: ptr.To[int32](2), MaxReplicas: 10,
	}
	hpa.Status.DesiredReplicas = 6
	event := corev1.Event{ObjectMeta: objectMeta("e", "e", "", time.Minute), Reason: "Configured", Message: "Configured Deployment cart", LastTimestamp: before(22 * time.Minute)}
	return &Snapshot{
		Resource: app, Deployments: []appsv1.Deployment{d}, Services: []corev1.Service{service}, Now: now,
		Autoscalers: []autoscalingv2.HorizontalPodAutoscaler{hpa}, Events: []corev1.Event{event},
		ReplicaSets: []appsv1.ReplicaSet{
			replicaSet("cart-5aaaa", 2, 0, 0, "nginx:1.15.0", "sha256:"+fmt.Sprintf("%064d", 0), 60*24*time.Hour),
			replicaSet("cart-6c9f2", 4, 2, 2, "nginx:1.16.1", `{"image":"nginx:1.16.1","replicas":6}`, 9*24*time.Hour),
			replicaSet("cart-5bbbb", 3, 0, 0, "nginx:1.15.0", `{"image":"somewhere.else/nginx"}`, 30*24*time.Hour),
			replicaSet("cart-7d9c4", 5, 4, 2, "nginx:1.17.0", `{"image":"nginx:1.17.0","replicas":6,"envs":[{"name":"TZ","value":"UTC"}]}`, 42*time.Second),
		},
		Pods: []corev1.Pod{
			newPod("cart-7d9c4-8x2kf", "cart-7d9c4", "node-1", running), newPod("cart-7d9c4-plq9t", "cart-7d9c4", "node-3", running),
			newPod("cart-7d9c4-x2x7k", "cart-7d9c4", "node-2", state), newPod("cart-7d9c4-zz1qd", "cart-7d9c4", "node-2", state),
			newPod("cart-7d9c4-zz2qd", "cart-7d9c4", "node-2", state),
			newPod("cart-6c9f2-aaaaa", "cart-6c9f2", "node-1", running), newPod("cart-6c9f2-bbbbb", "cart-6c9f2", "node-2", running),
		},
	}
}

// newJob returns a Job of the App cart with a condition.
func newJob(name string, age time.Duration, is batchv1.JobConditionType, reason string) batchv1.Job {
	job := batchv1.Job{ObjectMeta: objectMeta(name, name, "", age)}
	job.Labels = map[string]string{appv1.LabelBeforeRollout: "cart"}
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: "cart", UID: "app"}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cart", Image: "nginx:1.17.0"}}
	job.Status.Conditions = []batchv1.JobCondition{{Type: is, Status: corev1.ConditionTrue, Reason: reason}}
	if is == batchv1.JobComplete {
		job.Status.Succeeded = 1
	}
	return job
}

// stalled returns the App cart, which is stalled for a reason.
func stalled(reason, message string) *Snapshot {
	return rollout(newApp("nginx:1.17.0", condition(appv1.ConditionStalled, metav1.ConditionTrue, reason, message),
		condition(appv1.ConditionReady, metav1.ConditionFalse, reason, message)), running)
}

// cases returns what the golden files show.
func cases() map[string]*Snapshot {
	const pull = `Deployment cart: container "cart": image "nginx:1.17.0" cannot be pulled: 429 Too Many Requests`
	bad := newApp("nginx:1.17.0", condition(appv1.ConditionStalled, metav1.ConditionTrue, appv1.ReasonImagePullBackOff, pull),
		condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonImagePullBackOff, pull))
	git := bad
	git.ObjectMeta.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "argocd-controller", Time: ptr.To(before(22 * time.Minute)), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:image":{}}}`)},
	}}
	late, deleted := bad, bad
	late.ObjectMeta.Generation = 3
	deleted.ObjectMeta.DeletionTimestamp = ptr.To(before(time.Minute))
	fresh := late
	fresh.ObjectMeta.ManagedFields, fresh.ObjectMeta.CreationTimestamp = nil, before(time.Second)
	good := newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionTrue, appv1.ReasonReady, "Deployment cart: 6 pods available"))
	ready := rollout(good, running)
	ready.Deployments[0].Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 6, UpdatedReplicas: 6, ReadyReplicas: 6, AvailableReplicas: 6}
	blind := rollout(bad, notPulled)
	blind.ReplicaSets, blind.Autoscalers = nil, nil
	blind.Missing = []Missing{{kindsReplicaSets, "you may not list them in shop"}, {"HorizontalPodAutoscalers", "you may not list them in shop"}}
	alone := rollout(bad, notPulled)
	alone.Deployments, alone.ReplicaSets, alone.Pods, alone.Services, alone.Autoscalers, alone.Events = nil, nil, nil, nil, nil, nil
	alone.Missing = []Missing{{"Deployments", "you may not list them in shop"}, {kindsReplicaSets, "you may not list them in shop"}, {kindsPods, "you may not list them in shop"}}
	command := stalled(appv1.ReasonBeforeRolloutFailed, "Job cart-0767bbb1ec failed: the command ended with an error")
	command.Resource.HasCommand, command.Jobs = true, []batchv1.Job{
		newJob("cart-1d41e0c2aa", 9*24*time.Hour, batchv1.JobComplete, ""), newJob("cart-0767bbb1ec", 12*time.Minute, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded),
	}
	pod := newPod("cart-0767bbb1ec-x2k8d", "cart-0767bbb1ec", "node-1", notPulled)
	pod.Labels = map[string]string{appv1.LabelBeforeRollout: "cart"}
	command.Pods = append(command.Pods, pod)
	return map[string]*Snapshot{
		"task-failed": tasks()["failed"], "task-running": tasks()["running"],
		"before-rollout": command,
		"image":          rollout(bad, notPulled), "gitops": rollout(git, notPulled), "unobserved": rollout(late, notStarted), "fresh": rollout(fresh, notStarted),
		"deleting": rollout(deleted, running), "ready": ready, "some-rights": blind, "no-rights": alone,
		"progressing": rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonProgressing,
			"Deployment cart: 4 of 6 pods updated, 4 available")), notStarted),
		"not-in-force": rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionTrue, appv1.ReasonReady, "6 pods available"),
			condition(appv1.ConditionApplied, metav1.ConditionFalse, appv1.ReasonForbidden, "Ingress cart: forbidden by a policy")), running),
		"cloudmanager": cloudManager(),
	}
}

// cloudManager returns a CloudManager whose database does not start.
func cloudManager() *Snapshot {
	cm := &appv1.CloudManager{ObjectMeta: objectMeta("office", "cm", "", time.Hour)}
	cm.Status.ObservedGeneration, cm.Status.Ready = 2, "0/3"
	cm.Status.Conditions = []metav1.Condition{condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonOOMKilled,
		`StatefulSet office-db: container "office-db": was killed because it used more memory than its limit; raise resources.limits.memory`)}
	r, _ := ResourceOf(cm)
	set := appsv1.StatefulSet{ObjectMeta: objectMeta("office-db", "set", "cm", time.Hour)}
	set.Spec.Replicas = ptr.To[int32](1)
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "office-db", Image: "mariadb:11"}}
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1}
	claim := corev1.PersistentVolumeClaim{ObjectMeta: objectMeta("data-office-db-0", "claim", "", time.Hour)}
	claim.Status.Phase = corev1.ClaimBound
	other := corev1.PersistentVolumeClaim{ObjectMeta: objectMeta("data-office-db-old", "other", "", time.Hour)}
	pod := newPod("office-db-0", "set", "node-1", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
	return &Snapshot{
		Resource: r, StatefulSets: []appsv1.StatefulSet{set}, Claims: []corev1.PersistentVolumeClaim{claim, other}, Pods: []corev1.Pod{pod}, Now: now,
	}
}
