package apply

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/fields/fieldtest"
	"huolala.cn/app-operator/internal/reconciler"
)

// TestPlanNamesWhatIsKept adopts a Deployment that others made: what they state and we do not is named, by the shortest path,
// and what the API server has set by itself is not.
func TestPlanNamesWhatIsKept(t *testing.T) {
	live := settled(t)
	live.OwnerReferences, live.Annotations = nil, nil
	pod := &live.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SecurityContext = corev1.RestartPolicyAlways, corev1.DNSClusterFirst, &corev1.PodSecurityContext{}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "w", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	pod.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"db"}}}
	main := &pod.Containers[0]
	main.WorkingDir, main.TerminationMessagePath = "/run", "/dev/termination-log"
	main.Env = append(main.Env, corev1.EnvVar{Name: "THEIRS", Value: "hunter2"})
	live.ManagedFields = []metav1.ManagedFieldsEntry{fieldtest.Entry("kubectl", updateOp, "", `{"f:spec":{"f:progressDeadlineSeconds":{},"f:template":{"f:spec":{
		"f:restartPolicy":{},"f:dnsPolicy":{},"f:securityContext":{},"f:hostAliases":{".":{},"k:{\"ip\":\"10.0.0.1\"}":{".":{},"f:ip":{},"f:hostnames":{}}},
		"f:volumes":{".":{},"k:{\"name\":\"w\"}":{".":{},"f:name":{},"f:emptyDir":{}}},
		"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{},"f:image":{},"f:workingDir":{},"f:terminationMessagePath":{},
			"f:env":{".":{},"k:{\"name\":\"THEIRS\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}}`)}
	req := request(live)
	req.Policy.Adopt = true
	changes, err := localChanges(t, planner(t), req)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%+v, %v", changes, err)
	}
	if want := []string{"env[THEIRS]", "hostAliases[10.0.0.1]", "volumes[w]", "workingDir"}; !slices.Equal(changes[0].Kept, want) {
		t.Errorf("kept are %q, want %q", changes[0].Kept, want)
	}
}

// TestWaitingIsBounded checks that what is waited for is looked for again where no watch tells of it, as of a Secret.
func TestWaitingIsBounded(t *testing.T) {
	now := metav1.Now()
	meta := metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1", DeletionTimestamp: &now, OwnerReferences: controlledBy(owner)}
	for name, c := range map[string]struct {
		wanted, live client.Object
		retry        time.Duration
	}{
		"Secret":     {&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}, &corev1.Secret{ObjectMeta: meta}, lookAgain},
		"Deployment": {fieldtest.Deployment(), &appsv1.Deployment{ObjectMeta: meta}, 0},
		"Service":    {fieldtest.Service(), &corev1.Service{ObjectMeta: meta}, 0},
	} {
		c.wanted.SetName("web")
		c.wanted.SetNamespace("default")
		req := request(nil)
		req.Objects = []Object{{Desired: c.wanted, Live: c.live}}
		_, err := writeChanges(t, planner(t), req)
		var waiting *reconciler.WaitingError
		if !errors.As(err, &waiting) || waiting.RetryAfter != c.retry {
			t.Errorf("%s: %v, want to look again after %s", name, err, c.retry)
		}
	}
}

// TestAdoptionByOrigin takes over a Deployment that another client has created by a plain request, with a reference to an owner. What it states and
// the App does not goes only if the client was an operator of the App, by the reference to the controller.
func TestAdoptionByOrigin(t *testing.T) {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
	former := *metav1.NewControllerRef(app, appv1.GroupVersion.WithKind("App"))
	former.UID = "former"
	plain := former
	plain.Controller = nil
	row := children.TypeOf(&appsv1.Deployment{})
	for name, c := range map[string]struct {
		ref  metav1.OwnerReference
		gone bool
	}{
		"a ConfigMap":                   {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "settings", UID: "settings"}, false},
		"an App that is no controller":  {plain, false},
		"the App, by a former operator": {controlledBy(owner)[0], true},
		"the App before a restore":      {former, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := server(t, app.DeepCopy())
			e := New(cluster, cluster, clocktesting.NewFakePassiveClock(metav1.Now().Time))
			d := wantedOf(t, row).(*appsv1.Deployment) //nolint:forcetypeassert // It is the Deployment of the row.
			d.OwnerReferences, d.Labels = []metav1.OwnerReference{c.ref}, nil
			pod := &d.Spec.Template.Spec
			pod.NodeSelector = map[string]string{"disk": "ssd"}
			pod.Volumes = []corev1.Volume{{Name: "w", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Containers[0].Image, pod.Containers[0].Env = "theirs", []corev1.EnvVar{{Name: "THEIRS", Value: "1"}}
			if err := cluster.Create(t.Context(), d, client.FieldOwner("manager")); err != nil {
				t.Fatal(err)
			}
			req := &Request{Owner: app, Manager: "app-operator/app", Policy: Policy{Adopt: true}, Objects: []Object{childOfRow(t, row, cluster)}}
			if _, err := writeChanges(t, e, req); err != nil {
				t.Fatal(err)
			}
			live := readBack(t, cluster, row).(*appsv1.Deployment) //nolint:forcetypeassert // It is the Deployment of the row.
			pod = &live.Spec.Template.Spec
			if !metav1.IsControlledBy(live, app) || pod.Containers[0].Image != "i" {
				t.Errorf("the Deployment is not taken over: %v, %v", live.OwnerReferences, pod.Containers)
			}
			if kept := len(pod.NodeSelector) + len(pod.Volumes) + len(pod.Containers[0].Env); kept != 3 && !c.gone || kept != 0 && c.gone {
				t.Errorf("of the pods are kept %v, %v, %v, want gone %t", pod.NodeSelector, pod.Volumes, pod.Containers[0].Env, c.gone)
			}
			if c.ref.UID != owner && slices.ContainsFunc(live.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == c.ref.UID }) == c.gone {
				t.Errorf("the owners are %v", live.OwnerReferences)
			}
		})
	}
}

// leaveBehind applies a wanted object of a type for a resource of another kind, as that has left it: without an owner, with additions of the kind
// and of a user.
func leaveBehind(t *testing.T, c client.Client, row *children.Type, manager string) {
	t.Helper()
	obj := wantedOf(t, row)
	obj.SetOwnerReferences(nil)
	obj.GetLabels()["former"] = "1"
	obj.SetAnnotations(map[string]string{appv1.AnnotationLastAppliedHash: "sum", appv1.AnnotationLastAppliedInputs: "{}"})
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		obj.Spec.Replicas, obj.Spec.Template.Spec.NodeSelector = ptr.To[int32](3), map[string]string{"disk": "ssd"}
	case *appsv1.StatefulSet:
		obj.Spec.Replicas = ptr.To[int32](3)
	case *networkingv1.Ingress:
		obj.Spec.IngressClassName = ptr.To("nginx")
	}
	//nolint:staticcheck // The typed object states all that the other kind applies.
	if err := c.Patch(t.Context(), obj, client.Apply, client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	obj.GetLabels()["theirs"] = "1"
	if err := c.Update(t.Context(), obj, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
}

// lastingOf returns the value of the lasting field of an object that leaveBehind has made.
func lastingOf(obj client.Object) string {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return fmt.Sprint(ptr.Deref(obj.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		return fmt.Sprint(ptr.Deref(obj.Spec.Replicas, 1))
	case *networkingv1.Ingress:
		return ptr.Deref(obj.Spec.IngressClassName, "")
	}
	return ""
}

// TestAdoptionFromAnotherKind adopts an object of each type that a resource of another kind has left behind. What that kind stated and the new
// owner does not is gone, but for the number of pods and the class of an Ingress; so are the marks of that kind. Additions of users stay.
func TestAdoptionFromAnotherKind(t *testing.T) {
	const former = appv1.FieldManagerPrefix + "app"
	box := &appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: owner}}
	for i := range children.Types {
		row := &children.Types[i]
		if !row.Role.Has(children.RoleChild) {
			continue
		}
		t.Run(fmt.Sprintf("%T", row.Object), func(t *testing.T) {
			cluster := server(t, box.DeepCopy())
			e := New(cluster, cluster, clocktesting.NewFakePassiveClock(metav1.Now().Time))
			leaveBehind(t, cluster, row, former)
			before := readBack(t, cluster, row)
			child := childOfRow(t, row, cluster)
			child.LeadsTo = nil
			req := Request{Owner: box, Manager: appv1.FieldManagerPrefix + "modelbox", Policy: Policy{Adopt: true}, Objects: []Object{child}}
			foreseen, err := e.Run(t.Context(), req, Local)
			if err != nil {
				t.Fatal(err)
			}
			if is, was := lastingOf(foreseen.Objects[0].After), lastingOf(before); is != was {
				t.Errorf("the lasting field is to be %q, was %q", is, was)
			}
			if _, err := e.Run(t.Context(), req, Write); err != nil {
				t.Fatal(err)
			}
			after := readBack(t, cluster, row)
			for what, obj := range map[string]client.Object{"foreseen": foreseen.Objects[0].After, "live": after} {
				if labels := obj.GetLabels(); labels["former"] != "" || labels["theirs"] != "1" {
					t.Errorf("%s: the labels are %v", what, labels)
				}
			}
			if marks := children.Marks(after.GetManagedFields()); len(marks) != 1 || marks[0].Manager != req.Manager {
				t.Errorf("the managers of the operator are %v", marks)
			}
			if d, ok := after.(*appsv1.Deployment); ok && len(d.Spec.Template.Spec.NodeSelector) != 0 {
				t.Errorf("the node selector is %v", d.Spec.Template.Spec.NodeSelector)
			}
		})
	}
}
