package view

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// reported returns an App with values that a report must not have, in the spec, a revision, a condition, an event and the end of a container.
func reported() *Snapshot {
	app := &appv1.App{ObjectMeta: objectMeta("cart", "app", "", time.Hour)}
	app.Spec.Image = "nginx:1.17.0"
	app.Spec.Envs = []corev1.EnvVar{{Name: "GREETING", Value: "S3CR3T-greeting"}, {Name: "MODE", Value: "cart"}, {Name: "DATABASE", Value: "mysql://shop:S3CR3T-password@db/shop"}}
	app.Spec.Args = []string{"--token=S3CR3T-argument"}
	app.Annotations = map[string]string{"example.com/note": "S3CR3T-note"}
	const said = `container "cart": cannot run "--token=S3CR3T-argument"; GET http://10.0.0.1/live?token=S3CR3T-query, S3CR3T-greeting, S3CR3T-earlier`
	app.Status.ObservedGeneration = 2
	app.Status.Conditions = []metav1.Condition{condition(appv1.ConditionReady, metav1.ConditionFalse, appv1.ReasonCrashLoopBackOff, said)}
	r, _ := ResourceOf(app)
	s := crashing()
	s.Resource = r
	s.Pods[2].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "S3CR3T-end"}
	s.ReplicaSets[3] = replicaSet("cart-7d9c4", 5, 4, 2, "nginx:1.17.0", `{"image":"nginx:1.17.0","envs":[{"name":"TZ","value":"S3CR3T-earlier"}]}`, 42*time.Second)
	s.Events = append(s.Events, corev1.Event{Reason: "Unhealthy", Message: said, Type: corev1.EventTypeWarning, LastTimestamp: before(time.Minute)})
	return s
}

// TestReport has what is wrong, and no value of a variable.
func TestReport(t *testing.T) {
	text := ReportOf(reported(), []string{"kubectl happ: v9"})
	for _, want := range []string{
		"# App shop/cart: Failing", "kubectl happ: v9", "time: 2026-03-01T12:00:00Z", "## Why", "root cause", "## Objects", "Pod/cart-7d9c4-x2x7k", "## History",
		"5 *", "## Conditions", "Ready=False CrashLoopBackOff", "## Spec", "image: nginx:1.17.0", "name: GREETING", "value: •••", "http://10.0.0.1/live?•••",
		"Unhealthy (Warning)", "kubectl happ logs cart -n shop",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, at := range regexp.MustCompile(`.*S3CR3T.*`).FindAllString(text, -1) {
		t.Errorf("it has %s", at)
	}
}

// TestReportBounded keeps a report short and whole, whatever others write.
func TestReportBounded(t *testing.T) {
	s := reported()
	for i := range 500 {
		s.Events = append(s.Events, corev1.Event{
			Reason: fmt.Sprintf("R%d", i), Message: hostileMarkup + "\n```\n# A heading " + strings.Repeat("long ", 1000), LastTimestamp: before(time.Minute),
		})
	}
	text := ReportOf(s, []string{"Kubernetes: " + hostileMarkup + "\n```"})
	if len(text) > 64<<10 {
		t.Errorf("the report has %d bytes", len(text))
	}
	if fences := strings.Count(text, "```"); fences%2 != 0 || fences != 2*strings.Count(text, "\n## ") {
		t.Errorf("%d fences of %d parts", fences, strings.Count(text, "\n## "))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && isUnprintable(r) }) {
		t.Error("it has characters that are not printed")
	}
	if !strings.Contains(text, "more lines") {
		t.Errorf("it does not say that it is cut:\n%s", text)
	}
}
