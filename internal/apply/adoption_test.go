package apply

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
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
