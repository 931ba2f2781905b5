package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// waiting returns a pod whose container waits.
func waiting(reason, message string) corev1.Pod {
	return container(corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	})
}

// container returns a pod with one container.
func container(s corev1.ContainerStatus) corev1.Pod {
	s.Name, s.Image = "main", "registry/web:v2"
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}}
}

// loops returns a pod whose container waits for its next start.
func loops(backOff string, last *corev1.ContainerStateTerminated) corev1.Pod {
	pod := waiting("CrashLoopBackOff", "back-off "+backOff+" restarting failed container=main pod=web-1_default(1)")
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = last
	return pod
}

// ended returns a pod whose container has ended and is not started again yet.
func ended(how *corev1.ContainerStateTerminated) corev1.Pod {
	return container(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: how}})
}

func unschedulable(message string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message},
	}}}
}

// initial makes the pod's container an init container, with the main one waiting for it.
func initial(pod corev1.Pod) corev1.Pod {
	pod.Status.InitContainerStatuses = pod.Status.ContainerStatuses
	pod.Status.InitContainerStatuses[0].Name = "prepare"
	pod.Status.ContainerStatuses = waiting("PodInitializing", "").Status.ContainerStatuses
	return pod
}

func in(pod corev1.Pod, phase corev1.PodPhase) corev1.Pod {
	pod.Status.Phase = phase
	return pod
}

func TestCauseOf(t *testing.T) {
	exit := func(code int32, reason string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	}
	const pull = `image "registry/web:v2" cannot be pulled`
	crash := func(code int) string { return fmt.Sprintf("exits with code %d; see its log", code) }
	const oom = "was killed because it used more memory than its limit; raise resources.limits.memory"
	none := Cause{}
	deleted := waiting("ErrImagePull", "not found")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	ofJob := func(pod corev1.Pod) corev1.Pod {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "report", Controller: ptr.To(true)}}
		return in(pod, corev1.PodRunning)
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want Cause
	}{
		"empty":                {corev1.Pod{}, none},
		"being made":           {waiting("ContainerCreating", ""), none},
		"initializing":         {waiting("PodInitializing", ""), none},
		"running":              {container(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), none},
		"being deleted":        {deleted, none},
		"evicted":              {in(ended(exit(137, "Error")), corev1.PodFailed), none},
		"done":                 {in(ended(exit(0, "Completed")), corev1.PodSucceeded), none},
		"init container done":  {initial(ended(exit(0, "Completed"))), none},
		"init container fails": {initial(loops("10s", exit(2, "Error"))), Cause{appv1.ReasonCrashLoopBackOff, "prepare", crash(2)}},
		"init container ended": {initial(ended(exit(2, "Error"))), Cause{appv1.ReasonCrashLoopBackOff, "prepare", crash(2)}},

		"pull":                  {waiting("ErrImagePull", "rpc error: not found"), Cause{appv1.ReasonImagePullBackOff, "main", pull + ": rpc error: not found"}},
		"pull, no words":        {waiting("ErrImagePull", ""), Cause{appv1.ReasonImagePullBackOff, "main", pull}},
		"pull, backing off":     {waiting("ImagePullBackOff", `Back-off pulling image "registry/web:v2"`), Cause{appv1.ReasonImagePullBackOff, "main", pull}},
		"pull, never":           {waiting("ErrImageNeverPull", `Container image "registry/web:v2" is not present with pull policy of Never`), Cause{appv1.ReasonImagePullBackOff, "main", pull + `: Container image "registry/web:v2" is not present with pull policy of Never`}},
		"registry down":         {waiting("RegistryUnavailable", "no route"), Cause{appv1.ReasonImagePullBackOff, "main", pull + ": no route"}},
		"signature":             {waiting("SignatureValidationFailed", "no signature"), Cause{appv1.ReasonImagePullBackOff, "main", pull + ": no signature"}},
		"inspection":            {waiting("ImageInspectError", "failed"), Cause{appv1.ReasonImagePullBackOff, "main", pull + ": failed"}},
		"no image name":         {waiting("InvalidImageName", "couldn't parse"), Cause{appv1.ReasonInvalidImageName, "main", `image "registry/web:v2" is not a valid name`}},
		"no ConfigMap":          {waiting("CreateContainerConfigError", `configmap "config" not found`), Cause{appv1.ReasonContainerConfigError, "main", `cannot be created: configmap "config" not found`}},
		"cannot be created":     {waiting("CreateContainerError", "no space"), Cause{appv1.ReasonContainerError, "main", "cannot be started: no space"}},
		"cannot be run":         {waiting("RunContainerError", `exec: "x": not found`), Cause{appv1.ReasonContainerError, "main", `cannot be started: exec: "…": not found`}},
		"hook":                  {waiting("PostStartHookError", "failed"), Cause{appv1.ReasonContainerError, "main", "cannot be started: failed"}},
		"loop":                  {loops("10s", exit(1, "Error")), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(1)}},
		"loop, ended":           {ended(exit(1, "Error")), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(1)}},
		"loop, without a fault": {loops("10s", exit(0, "Completed")), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(0)}},
		"ended without a fault": {ended(exit(0, "Completed")), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(0)}},
		"of a Job, has ended":   {ofJob(ended(exit(0, "Completed"))), none},
		"of a Job, has failed":  {ofJob(ended(exit(3, "Error"))), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(3)}},
		"sub-path of a variable": {waiting("CreateContainerConfigError", "failed to prepare: error SubPath `/hunter2` must not be an absolute path"),
			Cause{appv1.ReasonContainerConfigError, "main", "cannot be created: failed to prepare: error SubPath `…` must not be an absolute path"}},
		"sub-path that is cut": {waiting("CreateContainerConfigError", "unable to provision SubPath `hunter2"),
			Cause{appv1.ReasonContainerConfigError, "main", "cannot be created: unable to provision SubPath `…`"}},
		"loop, nothing known": {loops("10s", nil), Cause{appv1.ReasonCrashLoopBackOff, "main", "exits soon after each start; see its log"}},
		"loop, out of memory": {loops("5m0s", exit(137, "OOMKilled")), Cause{appv1.ReasonOOMKilled, "main", oom}},
		"out of memory":       {ended(exit(137, "OOMKilled")), Cause{appv1.ReasonOOMKilled, "main", oom}},
		"killed otherwise":    {ended(exit(137, "Error")), Cause{appv1.ReasonCrashLoopBackOff, "main", crash(137)}},

		"unschedulable":     {unschedulable("0/3 nodes are available:\n 3 Insufficient cpu."), Cause{appv1.ReasonUnschedulable, "", "0/3 nodes are available: 3 Insufficient cpu."}},
		"scheduling gated":  {gated(), none},
		"init before main":  {both(), Cause{appv1.ReasonCrashLoopBackOff, "prepare", crash(2)}},
		"unknown of a pod":  {waiting("SomethingNew", "later"), none},
		"pending, accepted": {in(corev1.Pod{}, corev1.PodPending), none},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, CauseOf(&c.pod)); diff != "" {
				t.Errorf("cause (-want +got):\n%s", diff)
			}
		})
	}
}

func gated() corev1.Pod {
	pod := unschedulable("")
	pod.Status.Conditions[1].Reason = corev1.PodReasonSchedulingGated
	return pod
}

// both returns a pod whose init container and, from an earlier life, the main one have failed.
func both() corev1.Pod {
	pod := initial(ended(&corev1.ContainerStateTerminated{ExitCode: 2}))
	pod.Status.ContainerStatuses = waiting("ErrImagePull", "").Status.ContainerStatuses
	return pod
}

// TestOneTextForOneCause checks that a cause has one text although the kubelet alternates between two views of it.
// Each change of the text would be a write of the status, and an event where the App is stalled.
func TestOneTextForOneCause(t *testing.T) {
	const pull = `failed to pull and unpack image "registry/web:v2": failed to resolve reference "registry/web:v2": registry/web:v2: not found`
	const down = `image pull failed for registry/web:v2 because the registry is unavailable: dial tcp: i/o timeout`
	const unsigned = `image pull failed for registry/web:v2 because the signature validation failed: no policy`
	oom := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.Now()}
	exit := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()}
	done := &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"}
	backOff := `Back-off pulling image "registry/web:v2": `
	for name, views := range map[string][]corev1.Pod{
		"pull":          {waiting("ErrImagePull", pull), waiting("ImagePullBackOff", backOff+"ErrImagePull: "+pull)},
		"registry down": {waiting("RegistryUnavailable", down), waiting("ImagePullBackOff", backOff+"RegistryUnavailable: "+down)},
		"signature":     {waiting("SignatureValidationFailed", unsigned), waiting("ImagePullBackOff", backOff+"SignatureValidationFailed: "+unsigned)},
		"crash loop":    {ended(exit), loops("10s", exit), loops("20s", exit), loops("5m0s", exit)},
		"out of memory": {ended(oom), loops("10s", oom), loops("5m0s", oom)},
		"done":          {ended(done), loops("10s", done), loops("5m0s", done)},
	} {
		t.Run(name, func(t *testing.T) {
			want := CauseOf(&views[0])
			if want == (Cause{}) {
				t.Fatal("no cause")
			}
			for i := range views {
				if diff := cmp.Diff(want, CauseOf(&views[i])); diff != "" {
					t.Errorf("view %d (-first +this):\n%s", i, diff)
				}
			}
		})
	}
}

// TestWorst checks which cause is reported where pods differ, and of how many pods it tells.
func TestWorst(t *testing.T) {
	oom := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	byGravity := []corev1.Pod{
		waiting("InvalidImageName", ""), waiting("ErrImagePull", ""), waiting("CreateContainerConfigError", ""),
		waiting("RunContainerError", ""), ended(oom), loops("10s", nil), unschedulable(""),
	}
	if len(byGravity) != len(severity) {
		t.Fatalf("%d reasons have an order, %d are tested", len(severity), len(byGravity))
	}
	for i := range byGravity {
		want := CauseOf(&byGravity[i])
		lesser := append([]corev1.Pod{waiting("ContainerCreating", "")}, byGravity[i:]...)
		if got := worstCause(append(lesser, byGravity[i]), CauseOf); got != want {
			t.Errorf("worst is %+v, want %+v", got, want)
		}
	}
	if got := worstCause(nil, CauseOf); got != (Cause{}) {
		t.Errorf("no pods: %+v", got)
	}
}

// TestStallHasOneText checks that the verdict on a rollout that is stuck stays the same through a crash loop, whatever the pods
// are just doing and however many they are: each change is a write of the status, and an event.
func TestStallHasOneText(t *testing.T) {
	failed := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
	again := container(corev1.ContainerStatus{
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: corev1.ContainerState{Terminated: failed},
	})
	first := Deployment(deployment(3, 3, 3, 0, deadlineExceeded), []corev1.Pod{ended(failed)}, time.Time{})
	if !first.Stalled || first.Reason != appv1.ReasonCrashLoopBackOff {
		t.Fatalf("the verdict is %+v", first)
	}
	for _, pods := range [][]corev1.Pod{
		{loops("10s", failed)}, {again}, {again, again}, {ended(failed), loops("10s", failed), again}, {again, waiting("ContainerCreating", "")},
	} {
		for available := range int32(3) {
			if diff := cmp.Diff(first, Deployment(deployment(3, 4, 3, available, deadlineExceeded), pods, time.Time{})); diff != "" {
				t.Errorf("%d available (-first +this):\n%s", available, diff)
			}
		}
	}
	for _, pods := range [][]corev1.Pod{nil, {waiting("ContainerCreating", "")}} {
		silent := Deployment(deployment(3, 3, 3, 0, deadlineExceeded), pods, time.Time{})
		if diff := cmp.Diff(silent, Deployment(deployment(3, 4, 2, 1, deadlineExceeded), pods, time.Time{})); diff != "" {
			t.Errorf("without a cause (-first +this):\n%s", diff)
		}
	}
}

// TestNoCommandInMessages has the words of container runtimes that repeat a container's command, which may have a secret in it.
func TestNoCommandInMessages(t *testing.T) {
	for words, want := range map[string]string{
		`failed to create shim task: exec: "sh -c hunter2": executable file not found in $PATH`:                                                                                           `failed to create shim task: exec: "…": executable file not found in $PATH`,
		`error during container init: exec: "/bin/hunter2": stat /bin/hunter2: no such file or directory: unknown`:                                                                        `error during container init: exec: "…": stat …: no such file or directory: unknown`,
		`exec: "a \"hunter2\" b": stat a "hunter2" b: no such file`:                                                                                                                       `exec: "…": stat a "…" b: no such file`,
		`Exec lifecycle hook ([sh -c hunter2]) for Container "web" failed - error: command 'sh -c hunter2' exited with 1: , message: "hunter2"`:                                           `Exec lifecycle hook ([…]) for Container "…" failed - error: command '…' exited with 1`,
		`Exec lifecycle hook ([sh -c a]) for Container "web" failed - error: command 'sh -c curl -d 'user=a' -H X-Token:hunter2 http://x' exited with 7: curl said 'hunter2' and hunter2`: `Exec lifecycle hook ([…]) for Container "…" failed - error: command '…' exited with 7`,
		`hook: command 'sh -c 'a' hunter2' timed out`:                                                                                                                                     `hook: command '…' timed out`,
		`hook: command 'sh -c 'a' hunter2 that is cut`:                                                                                                                                    `hook: command '…'`,
		`exec: "hunter2 that is cut`: `exec: "…"`,
		`hook [hunter2 that is cut`:  `hook […]`,
		`Exec lifecycle hook ([sh -c [ -f /x ] || curl hunter2]) for Container "web" failed - error: command 'x' exited with 1`: `Exec lifecycle hook ([…]) for Container "…" failed - error: command '…' exited with 1`,
		`hook [sh -c [ -f /x ] || curl hunter2 that is cut`:                                                                     `hook […]`,
		`can't stat the user's file`: `can't stat the user's file`,
		`no space left on device`:    `no space left on device`,
	} {
		for _, reason := range []string{"CreateContainerError", "RunContainerError", "PostStartHookError"} {
			pod := waiting(reason, words)
			if got := CauseOf(&pod).Message; got != "cannot be started: "+want {
				t.Errorf("%s: %s becomes %s", reason, words, got)
			}
		}
	}
}

// TestGravestPods compares the causes of pods with those of the gravest pods alone.
func TestGravestPods(t *testing.T) {
	newPod := func(name string, state corev1.ContainerState, last corev1.ContainerState) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: state, LastTerminationState: last}}
		return pod
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}
	all := []corev1.Pod{
		newPod("runs", running, corev1.ContainerState{}), newPod("loops", waiting("CrashLoopBackOff"), corev1.ContainerState{}),
		newPod("was-killed", running, killed), newPod("loops-too", waiting("CrashLoopBackOff"), corev1.ContainerState{}),
	}
	gravest := Gravest(&appsv1.Deployment{}, all)
	if len(gravest) != 2 {
		t.Fatalf("%d pods", len(gravest))
	}
	for _, stalled := range []bool{false, true} {
		if got, want := Worst(gravest, stalled), Worst(all, stalled); got != want || want.Reason == "" {
			t.Errorf("stalled %v: %+v, want %+v", stalled, got, want)
		}
	}
	if Worst(gravest, true).Reason != appv1.ReasonOOMKilled {
		t.Error("the last cause is lost")
	}
	if got := Gravest(&appsv1.Deployment{}, all[:1]); len(got) != 0 {
		t.Errorf("%d pods have a cause", len(got))
	}
}

// TestNoValueInCauses has the kubelet's words repeat a variable's value that has several lines, or is cut, by the cache or by the length of a message.
func TestNoValueInCauses(t *testing.T) {
	const secret = "postgres://user:hunter2-hunter2-hunter2@db.example.com/shop"
	for name, words := range map[string]string{
		"lines":             "cannot read -----BEGIN KEY-----\nhunter2\nhunter2\n-----END KEY-----",
		"cut by a message":  strings.Repeat("x", 225) + " " + secret + " is no address",
		"cut by the cache":  strings.Repeat("x", 290) + " " + secret + " is no address",
		"cut behind a hook": strings.Repeat("x", 200) + " command 'serve " + secret,
	} {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{
			{Name: "A", Value: secret}, {Name: "B", Value: "-----BEGIN KEY-----\nhunter2\nhunter2\n-----END KEY-----"},
		}}}
		for _, reason := range []string{"CreateContainerError", "CreateContainerConfigError", "PostStartHookError"} {
			pod := waiting(reason, words)
			pod.Spec = d.Spec.Template.Spec
			kept := corev1.Pod{}
			KeepCauses(&pod, &kept.Status, 320)
			for _, stalled := range []bool{true, false} {
				if got := WorstFor([]corev1.Pod{kept}, stalled, d).Message; got == "" || strings.Contains(got, "hunter2") || strings.Contains(got, "postgres://user") {
					t.Errorf("%s, %s: %s", name, reason, got)
				}
			}
		}
	}
}

// TestKeepPullError has messages about the same pull: the error stays, the text about the deadline and what follows are those of the new message.
func TestKeepPullError(t *testing.T) {
	const head, late, kept = `container "web": image "a:2" cannot be pulled`, "; no progress for 600 s" + AdviceStalled, "; the pods are those of before the adoption"
	for name, c := range map[string]struct{ before, message, want string }{
		"it waits for the next try":  {head + ": not found", head, head + ": not found"},
		"it becomes late":            {head + ": not found", head + late, head + ": not found" + late},
		"it is late":                 {head + ": not found" + late, head + late, head + ": not found" + late},
		"it is late no more":         {head + ": not found" + late, head, head + ": not found"},
		"with more":                  {head + ": not found" + kept, head + kept, head + ": not found" + kept},
		"with more, it becomes late": {head + ": not found" + kept, head + late + kept, head + ": not found" + late + kept},
		"with more, late no more":    {head + ": not found" + late + kept, head + kept, head + ": not found" + kept},
		"other words follow":         {head + ": not found; one", head + "; two", head + "; two"},
		"another error":              {head + ": not found", head + ": denied", head + ": denied"},
		"another image":              {head + ": not found", `container "web": image "a:3" cannot be pulled`, `container "web": image "a:3" cannot be pulled`},
		"no error before":            {head, head, head},
		"no pull":                    {head + ": not found", "2 of 3 updated", "2 of 3 updated"},
	} {
		if got := KeepPullError(c.before, c.message); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
