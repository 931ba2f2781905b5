package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// crashed is the end of a container with an error.
var crashed = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", FinishedAt: before(20 * time.Second), Message: "password is hunter22"}

// crashing returns a rollout whose new pods crash, the second one with a container that runs again.
func crashing() *Snapshot {
	s := rollout(newApp("nginx:1.17.0", condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonCrashLoopBackOff, "crashes")),
		corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	for i := range s.Pods {
		if status := &s.Pods[i].Status.ContainerStatuses[0]; status.State.Waiting != nil {
			status.LastTerminationState.Terminated = crashed
		}
	}
	again := &s.Pods[3].Status.ContainerStatuses[0]
	again.State = running
	s.Pods[3].Status.Conditions[0].Status = corev1.ConditionFalse
	return s
}

// TestLogSources chooses the logs that matter in each condition.
func TestLogSources(t *testing.T) {
	unready := rollout(newApp("nginx:1.17.0"), notStarted)
	unready.Pods[0].Status.ContainerStatuses[0].Ready = false
	unready.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
	command := cases()["before-rollout"]
	command.Pods[len(command.Pods)-1].Status = corev1.PodStatus{
		Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "cart", State: corev1.ContainerState{Terminated: crashed}}},
	}
	sidecar := crashing()
	for i := range sidecar.Pods {
		sidecar.Pods[i].Spec.Containers = append(sidecar.Pods[i].Spec.Containers, corev1.Container{Name: "proxy"})
		sidecar.Pods[i].Status.ContainerStatuses = append(sidecar.Pods[i].Status.ContainerStatuses, corev1.ContainerStatus{Name: "proxy", Ready: true, State: running})
	}
	blind := crashing()
	blind.Deployments, blind.Missing = nil, []Missing{{kindsDeployments, "you may not list them in shop"}}
	const ended = ", the run before, which ended 20 s ago with exit code 2"
	for name, c := range map[string]struct {
		s    *Snapshot
		o    LogOptions
		want []string
		more int
	}{
		"crash":   {crashing(), LogOptions{Most: 2}, []string{"Pod cart-7d9c4-x2x7k, container cart" + ended, "Pod cart-7d9c4-zz2qd, container cart" + ended}, 1},
		"present": {crashing(), LogOptions{Most: 1, Pod: "cart-7d9c4-zz1qd", Previous: ptr.To(false)}, []string{"Pod cart-7d9c4-zz1qd, container cart"}, 0},
		"sidecar": {sidecar, LogOptions{Most: 1, Container: "proxy"}, []string{"Pod cart-7d9c4-x2x7k, container proxy"}, 2},
		"no list": {blind, LogOptions{Most: 1}, []string{"Pod cart-7d9c4-x2x7k, container cart" + ended}, 2},
		"image": {cases()["image"], LogOptions{Most: 1}, []string{
			`Pod cart-7d9c4-x2x7k, container cart: image "nginx:1.17.0" cannot be pulled: 429 Too Many[2J Requests`,
		}, 2},
		"not ready": {unready, LogOptions{Most: 1}, []string{"Pod cart-7d9c4-8x2kf, container cart"}, 3},
		"ready":     {cases()["ready"], LogOptions{Most: 3}, []string{"Pod cart-7d9c4-8x2kf, container cart", "Pod cart-7d9c4-plq9t, container cart", "Pod cart-7d9c4-x2x7k, container cart"}, 4},
		"no run":    {cases()["ready"], LogOptions{Most: 1, Previous: ptr.To(true)}, []string{"Pod cart-7d9c4-8x2kf, container cart, the run before: the container runs for the first time"}, 6},
		"command":   {command, LogOptions{Most: 1}, []string{"Pod cart-0767bbb1ec-x2k8d, container cart, which ended 20 s ago with exit code 2"}, 0},
		"database":  {cloudManager(), LogOptions{Most: 1}, []string{"Pod office-db-0, container cart, which ended with exit code 137, OOMKilled"}, 0},
	} {
		sources, more, err := LogSources(c.s, c.o)
		var got []string
		for i := range sources {
			title := sources[i].Title()
			if sources[i].None != "" {
				title += ": " + sources[i].None
			}
			got = append(got, title)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || more != c.more || err != nil {
			t.Errorf("%s: %d more, want %d, %v (-want +got):\n%s", name, more, c.more, err, diff)
		}
	}
}

// TestNoLogs says why there is no log.
func TestNoLogs(t *testing.T) {
	none := cases()["image"]
	none.Pods = nil
	for want, c := range map[string]struct {
		s *Snapshot
		o LogOptions
	}{
		"the pods cannot be listed: you may not list them in shop":                         {cases()["no-rights"], LogOptions{Most: 1}},
		`App shop/cart has no pod; see "kubectl happ why cart -n shop"`:                    {none, LogOptions{Most: 1}},
		"App shop/cart has no pod other":                                                   {crashing(), LogOptions{Most: 1, Pod: "other"}},
		`no pod of App shop/cart has the container "x"; the containers are cart`:           {crashing(), LogOptions{Most: 1, Container: "x"}},
		`container "cart" of pod cart-7d9c4-x2x7k has no log: image "nginx:1.17.0" cannot`: {cases()["image"], LogOptions{Most: 1}},
	} {
		sources, _, err := LogSources(c.s, c.o)
		if err == nil {
			err = WithoutLog(sources)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := LogLine("\x1b[1;31mred\x1b[0m\ttab\r\u202eleft\x07" + strings.Repeat("x", 2*maxText)); !strings.HasPrefix(got, "red tableftx") || len(got) > maxText {
		t.Errorf("%d bytes: %.60q", len(got), got)
	}
}
