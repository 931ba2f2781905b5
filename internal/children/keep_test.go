package children

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/heap"
)

// claims are the ways in which an object of a stranger's can look like one of ours.
var claims = map[string]func(client.Object){
	"neither": func(client.Object) {},
	"label": func(obj client.Object) {
		labels := obj.GetLabels()
		labels[appv1.LabelManagedBy], labels[appv1.LabelInstance] = appv1.ManagedBy, strings.Repeat("i", 63)
		obj.SetLabels(labels)
	},
	"forged owner": func(obj client.Object) {
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: strings.Repeat("n", 253), UID: "6dd57ba8-6b8a-4f6b-b5bb-1d3f6c8e9c1f", Controller: ptr.To(true),
		}))
	},
	"forged owner with long texts": func(obj client.Object) {
		obj.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: appv1.GroupVersion.Group + "/" + strings.Repeat("v", 100<<10), Kind: strings.Repeat("k", 100<<10),
			Name: strings.Repeat("n", 100<<10), UID: types.UID(strings.Repeat("u", 100<<10)), Controller: ptr.To(true),
		}})
	},
}

// largest returns an object of a type that has all that a stranger can make long, as long as the API server may store it.
func largest(t *testing.T, of client.Object) client.Object {
	t.Helper()
	value := reflect.New(reflect.TypeOf(of).Elem())
	fill(value.Elem(), 0)
	obj, ok := value.Interface().(client.Object)
	if !ok {
		t.Fatalf("%T", of)
	}
	obj.GetObjectKind().SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment")) // The API server states it.
	obj.SetName(strings.Repeat("n", 253))
	obj.SetNamespace(strings.Repeat("s", 63))
	obj.SetUID("6dd57ba8-6b8a-4f6b-b5bb-1d3f6c8e9c1f")
	obj.SetResourceVersion("1234567890")
	obj.SetAnnotations(map[string]string{
		appv1.AnnotationLastAppliedHash: strings.Repeat("h", 128<<10), "theirs": strings.Repeat("a", 64<<10),
		appv1.AnnotationRetainedFor: strings.Repeat("r", 64<<10), partialAnnotation + "x": "",
	})
	labels, finalizers := map[string]string{}, []string(nil)
	var owners []metav1.OwnerReference
	var fields []metav1.ManagedFieldsEntry
	for i := range 1000 {
		labels[fmt.Sprintf("%s.example.com/%060d", strings.Repeat("l", 60), i)] = strings.Repeat("v", 63)
		finalizers = append(finalizers, fmt.Sprintf("example.com/%060d", i))
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: strings.Repeat("o", 253), UID: types.UID(fmt.Sprintf("%036d", i))})
		fields = append(fields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprintf("%s%040d", appv1.FieldManagerPrefix, i), Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + appv1.AnnotationLastAppliedHash + `":{}}}}`),
		}, metav1.ManagedFieldsEntry{Manager: appv1.FieldManagerPrefix + strings.Repeat("m", 500), Operation: metav1.ManagedFieldsOperationApply})
	}
	obj.SetLabels(labels)
	obj.SetFinalizers(finalizers)
	obj.SetOwnerReferences(owners)
	obj.SetManagedFields(fields)
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status = fullStatus()
	}
	if d, ok := obj.(*appsv1.Deployment); ok {
		for _, name := range []appsv1.DeploymentConditionType{appsv1.DeploymentProgressing, appsv1.DeploymentReplicaFailure} {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
				Type: name, Reason: strings.Repeat("r", 10<<10), Message: strings.Repeat("m", 32<<10), Status: corev1.ConditionStatus(strings.Repeat("s", 10<<10)),
			})
		}
	}
	return obj
}

// fullStatus returns the status of a pod in which many containers have causes with long messages.
func fullStatus() corev1.PodStatus {
	var status corev1.PodStatus
	for _, waits := range []string{"", "ImagePullBackOff", "CreateContainerError", "CrashLoopBackOff"} {
		for range 100 {
			s := corev1.ContainerStatus{Name: strings.Repeat("c", 63), Image: strings.Repeat("i", 4<<10), ImageID: strings.Repeat("d", 4<<10)}
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: strings.Repeat("r", 4<<10), Message: strings.Repeat("t", 4<<10)}
			if waits == "" {
				s.State.Running = &corev1.ContainerStateRunning{}
			} else {
				s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits, Message: strings.Repeat("m", 4<<10)}
			}
			status.ContainerStatuses = append(status.ContainerStatuses, s)
		}
	}
	status.Phase = corev1.PodPhase(strings.Repeat("p", 10<<10))
	for range 20 {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: strings.Repeat("u", 32<<10),
		})
	}
	return status
}

// fill gives all fields of a value something long, to a depth that no type of the table exceeds.
func fill(v reflect.Value, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", 2000))
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() {
			v.Set(reflect.ValueOf(resource.MustParse("123456789123456789123456789")))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	default:
	}
}

// TestStrangersTakeLittle keeps the largest object of each type, and of each way to look like one of ours, and measures what the cache
// would hold. Its identity must stay.
func TestStrangersTakeLittle(t *testing.T) {
	const most = 4 << 10
	for i := range Types {
		row := &Types[i]
		if row.Scope == ScopeLive {
			continue
		}
		for name, claim := range claims {
			obj := largest(t, row.Object)
			claim(obj)
			if before := heap.Size(obj); before < 400<<10 {
				t.Fatalf("%T, %s: %d bytes show nothing", obj, name, before)
			}
			controller := ptr.Deref(metav1.GetControllerOf(obj), metav1.OwnerReference{})
			row.Keep(obj, false)
			once := heap.Size(obj)
			if once > most {
				t.Errorf("%T, %s: %d bytes are kept, at most %d are right", obj, name, once, most)
			}
			row.Keep(obj, true) // A watch may transform an object twice.
			if twice := heap.Size(obj); twice != once {
				t.Errorf("%T, %s: %d bytes are kept, and %d after another time", obj, name, once, twice)
			}
			if len(obj.GetName()) != 253 || len(obj.GetNamespace()) != 63 || len(obj.GetUID()) != 36 || obj.GetResourceVersion() == "" {
				t.Errorf("%T, %s: it is not known any more", obj, name)
			}
			if kept := metav1.GetControllerOf(obj); name == "forged owner" && (kept == nil || kept.UID != controller.UID || kept.Name != controller.Name) {
				t.Errorf("%T: the controller became %v", obj, kept)
			}
			if name != "neither" && row.Whole() && !IsPartial(obj) {
				t.Errorf("%T, %s: the object may be ours and is not marked as partial", obj, name)
			}
		}
	}
}

// TestForeignObjectsAreNotRead keeps plain objects of others: none is marked as one to be read.
func TestForeignObjectsAreNotRead(t *testing.T) {
	for i := range Types {
		row := &Types[i]
		obj, ok := row.Object.DeepCopyObject().(client.Object)
		if !ok || row.Scope == ScopeLive {
			continue
		}
		obj.SetName("web")
		obj.SetLabels(map[string]string{"app": "web"})
		obj.SetAnnotations(map[string]string{"theirs": "1"})
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "1", Controller: ptr.To(true)}})
		row.Keep(obj, false)
		if IsPartial(obj) || len(obj.GetOwnerReferences()) != 1 || obj.GetAnnotations()["theirs"] != "" && row.Role != RoleClaim {
			t.Errorf("%T became %+v", obj, obj)
		}
	}
}

// TestReadLabelsAreKept keeps a pod with the longest values of all labels that decisions read, next to many labels of others: the former are kept, and
// of the latter the shortest.
func TestReadLabelsAreKept(t *testing.T) {
	labels := map[string]string{}
	for _, name := range readLabels {
		labels[name] = strings.Repeat("v", 63)
	}
	for i := range 200 {
		labels[fmt.Sprintf("example.com/%03d", i)] = strings.Repeat("w", i%64)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: labels}}
	kept := reduceLabels(pod.Labels)
	for _, name := range readLabels {
		if kept[name] != labels[name] {
			t.Errorf("%s is %q", name, kept[name])
		}
	}
	if others := len(kept) - len(readLabels); others == 0 || others == 200 || kept["example.com/000"] != labels["example.com/000"] {
		t.Errorf("%d labels of others are kept: %v", others, kept)
	}
}

// TestManyLabelsAreNotSorted keeps a pod with more labels than any selector needs: those that decisions read are kept.
func TestManyLabelsAreNotSorted(t *testing.T) {
	for _, count := range []int{maxSortedLabels, maxSortedLabels + 1} {
		labels := map[string]string{appv1.LabelApp: "web"}
		for i := range count - 1 {
			labels[fmt.Sprintf("l%d", i)] = ""
		}
		if kept := reduceLabels(labels); kept[appv1.LabelApp] != "web" || (len(kept) == 1) != (count > maxSortedLabels) {
			t.Errorf("of %d labels, %d are kept", count, len(kept))
		}
	}
}

// TestNewestPodsAreKnown has the cache keep pods of two ReplicaSets: the cause of the rollout is that of the newer ones.
func TestNewestPodsAreKnown(t *testing.T) {
	var pods []corev1.Pod
	for i, reason := range []string{"InvalidImageName", "CrashLoopBackOff"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: reason, CreationTimestamp: metav1.NewTime(time.Unix(int64(1e9+i), 0)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: reason, Controller: ptr.To(true)}},
		}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		TypeOf(pod).Keep(pod, true)
		pods = append(pods, *pod)
	}
	if got := health.Deployment(&appsv1.Deployment{}, pods, time.Unix(2e9, 0)); got.Reason != appv1.ReasonCrashLoopBackOff {
		t.Errorf("the reason is %s", got.Reason)
	}
}

// TestReadyTimeOfPods keeps since when a pod of a CloudManager is ready, and of no other pod.
func TestReadyTimeOfPods(t *testing.T) {
	at := metav1.NewTime(time.Unix(1e9, 0))
	for label, want := range map[string]int{appv1.LabelCloudManager: 1, appv1.LabelApp: 0} {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "web"}}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: at, Message: "m"}}
			for range 2 { // A watch may transform an object twice.
				TypeOf(pod).Keep(pod, true)
			}
			if kept := pod.Status.Conditions; status == corev1.ConditionTrue && (len(kept) != want || want == 1 && !kept[0].LastTransitionTime.Equal(&at)) ||
				status != corev1.ConditionTrue && len(kept) > 0 {
				t.Errorf("of a pod with the label %s, with Ready=%s: %v", label, status, kept)
			}
		}
	}
}

// TestForeignMessagesAreRedacted keeps a Deployment of others whose pods are rejected with words that quote a variable, also where the kept part ends
// within the value.
func TestForeignMessagesAreRedacted(t *testing.T) {
	for _, before := range []int{0, maxKeptMessage - 6} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "T", Value: "S3CR3T-VALUE"}}}}
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: strings.Repeat("x", before) + " S3CR3T-VALUE is denied",
		}}
		TypeOf(d).Keep(d, false)
		if len(d.Status.Conditions) != 1 || strings.Contains(d.Status.Conditions[0].Message, "S3CR") {
			t.Errorf("after %d characters: %v", before, d.Status.Conditions)
		}
	}
}

// TestObjectsAreKeptWhole keeps a child of ours whole: of it goes who owns its status alone.
func TestObjectsAreKeptWhole(t *testing.T) {
	ours := fieldtest.Deployment()
	ours.ManagedFields = []metav1.ManagedFieldsEntry{
		fieldtest.Entry("me", metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:replicas":{}}}`), {Manager: "kube-controller-manager", Subresource: "status"},
	}
	fields, image := len(ours.ManagedFields), ours.Spec.Template.Spec.Containers[0].Image
	TypeOf(ours).Keep(ours, true)
	if len(ours.ManagedFields) != fields-1 || ours.Spec.Template.Spec.Containers[0].Image != image {
		t.Errorf("a Deployment of ours has %d field owners and the image %s", len(ours.ManagedFields), ours.Spec.Template.Spec.Containers[0].Image)
	}
}

// TestStatusTimeOfServices keeps when the status of a Service of ours with a load balancer was last changed, and not who owns which fields of it.
func TestStatusTimeOfServices(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return ptr.To(metav1.NewTime(time.Unix(seconds, 0))) }
	entry := func(manager, subresource string, changed *metav1.Time) metav1.ManagedFieldsEntry {
		made := fieldtest.Entry(manager, metav1.ManagedFieldsOperationUpdate, subresource, `{"f:status":{"f:loadBalancer":{}}}`)
		made.Time = changed
		return made
	}
	earlier, later, spec := entry("cloud", "status", at(1)), entry("conditions", "status", at(2)), entry("kubectl", "", at(3))
	for name, c := range map[string]struct {
		of      corev1.ServiceType
		entries []metav1.ManagedFieldsEntry
		want    *metav1.Time
	}{
		"the latest one":          {corev1.ServiceTypeLoadBalancer, []metav1.ManagedFieldsEntry{later, spec, earlier}, at(2)},
		"one without a time":      {corev1.ServiceTypeLoadBalancer, []metav1.ManagedFieldsEntry{spec, entry("cloud", "status", nil)}, nil},
		"no status":               {corev1.ServiceTypeLoadBalancer, []metav1.ManagedFieldsEntry{spec}, nil},
		"without a load balancer": {corev1.ServiceTypeClusterIP, []metav1.ManagedFieldsEntry{later, spec, earlier}, nil},
		"of no type":              {"", []metav1.ManagedFieldsEntry{later, spec}, nil},
	} {
		service := &corev1.Service{Spec: corev1.ServiceSpec{Type: c.of}}
		service.ManagedFields = slices.Clone(c.entries)
		for range 2 { // A watch may transform an object twice.
			TypeOf(service).Keep(service, true)
		}
		var of, status []metav1.ManagedFieldsEntry
		for _, kept := range service.ManagedFields {
			if kept.Subresource == "status" {
				status = append(status, kept)
			} else {
				of = append(of, kept)
			}
		}
		if len(of) != 1 || of[0].FieldsV1 == nil {
			t.Errorf("%s: of the spec there is %v", name, of)
		}
		if c.want == nil && len(status) > 0 || c.want != nil && (len(status) != 1 || !status[0].Time.Equal(c.want) || status[0].FieldsV1 != nil) {
			t.Errorf("%s: of the status there is %v, want one of %v", name, status, c.want)
		}
	}
}
