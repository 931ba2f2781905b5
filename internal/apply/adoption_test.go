package apply

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
