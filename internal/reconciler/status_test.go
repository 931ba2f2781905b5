package reconciler

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
)

// conditions are the four conditions, each as "status/reason: message".
type conditions struct{ ready, applied, reconciling, stalled string }

func conditionsOf(app *appv1.App) conditions {
	text := func(kind string) string {
		c := statusCondition(app, kind)
		if c == nil {
			return "none"
		}
		line := string(c.Status) + "/" + c.Reason
		if c.Message != "" {
			line += ": " + c.Message
		}
		return line
	}
	return conditions{text(appv1.ConditionReady), text(appv1.ConditionApplied), text(appv1.ConditionReconciling), text(appv1.ConditionStalled)}
}

const (
	pausedWords  = "spec.paused is true: the operator does not modify child objects"
	pausedLine   = "False/Paused: " + pausedWords
	pendingWords = "spec.paused is true and a change of the child objects is pending; set it to false to apply the change"
	inForce      = "True/Applied"
	fine         = "False/NotStalled"
)

// The reports that a kind's steps may give.
var (
	ready     = Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}}
	underWay  = Report{Pods: health.Verdict{Reason: "Progressing", Message: "1 of 2 pods"}}
	badImage  = Report{Pods: health.Verdict{Reason: "ImagePullBackOff", Message: "no such image"}}
	stuck     = Report{Pods: health.Verdict{Stalled: true, Reason: "ImagePullBackOff", Message: "no such image"}}
	paused    = Report{Pods: health.Verdict{Reason: "Progressing", Message: "1 of 2 pods"}, Pause: Paused}
	pausedOK  = Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}, Pause: Paused}
	pausedBad = Report{Pods: health.Verdict{Stalled: true, Reason: "ImagePullBackOff", Message: "no such image"}, Pause: Paused}
	pending   = Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}, Pause: Pending}
	held      = Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}, InForce: Earlier, Why: ReasonAndMessage{"Held", "by you"}}
	overruled = Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}, Note: ReasonAndMessage{"Overridden", "cpu"}}
)

// around returns a report of trouble with an object around pods that are ready.
func around(reason string) Report {
	return Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}, Auxiliary: Trouble{ReasonAndMessage: ReasonAndMessage{reason, "it waits"}}}
}

func TestSummarize(t *testing.T) {
	stalledErr := Stalled("Invalid", "replicas: no")
	waitingErr := Waiting("Progressing", "being deleted")
	failedErr := &FailedError{Reason: "ApplyFailed", Message: "retrying", Err: errors.New("503 at 12:00:01")}
	invalidConditions := conditions{"False/Invalid: replicas: no", "False/Invalid: replicas: no", "False/Invalid: replicas: no", "True/Invalid: replicas: no"}
	for name, c := range map[string]struct {
		report Report
		err    error
		want   conditions
	}{
		"ready":     {ready, nil, conditions{"True/Ready: 2 pods available", inForce, "False/Settled", fine}},
		"under way": {underWay, nil, conditions{"False/Progressing: 1 of 2 pods", inForce, "True/Progressing: 1 of 2 pods", fine}},
		"a pod says why": {
			badImage, nil, conditions{"False/ImagePullBackOff: no such image", inForce, "True/ImagePullBackOff: no such image", fine},
		},
		"for too long": {
			stuck, nil, conditions{"False/ImagePullBackOff: no such image", inForce, "False/ImagePullBackOff: no such image", "True/ImagePullBackOff: no such image"},
		},
		"stalled, whatever the earlier pods do":      {ready, stalledErr, invalidConditions},
		"stalled twice over, the error counts":       {stuck, stalledErr, invalidConditions},
		"wrapped and joined":                         {ready, errors.Join(errors.New("first"), stalledErr), invalidConditions},
		"stalled, whatever admission has overridden": {overruled, stalledErr, invalidConditions},
		"waiting": {
			ready, waitingErr, conditions{"False/Progressing: being deleted", "False/Progressing: being deleted", "True/Progressing: being deleted", fine},
		},
		"failed": {
			ready, failedErr, conditions{"False/ApplyFailed: retrying", "False/ApplyFailed: retrying", "True/ApplyFailed: retrying", fine},
		},
		"failed, and the pods have stalled": {
			stuck, failedErr, conditions{"False/ApplyFailed: retrying", "False/ApplyFailed: retrying", "True/ApplyFailed: retrying", fine},
		},
		"failed in another way": {
			ready, errors.New("no cache"), conditions{"False/ApplyFailed: no cache", "False/ApplyFailed: no cache", "True/ApplyFailed: no cache", fine},
		},
		"paused, ready":     {pausedOK, nil, conditions{"True/Paused: " + pausedWords + ". 2 pods available", inForce, pausedLine, fine}},
		"paused, under way": {paused, nil, conditions{"False/Paused: " + pausedWords + ". 1 of 2 pods", inForce, pausedLine, fine}},
		"paused, for too long": {
			pausedBad, nil, conditions{"False/ImagePullBackOff: no such image", inForce, pausedLine, "True/ImagePullBackOff: no such image"},
		},
		"paused, stalled": {
			paused, stalledErr, conditions{"False/Invalid: replicas: no", "False/Invalid: replicas: no", pausedLine, "True/Invalid: replicas: no"},
		},
		"paused, with a change waiting": {
			pending, nil, conditions{"Unknown/Paused: " + pendingWords + ". 2 pods available", "False/Paused: " + pendingWords, pausedLine, fine},
		},
		"not in force, though nothing is wrong": {
			held, nil, conditions{"False/Held: by you", "False/Held: by you", "True/Held: by you", fine},
		},
		"an object around the pods waits": {
			around("Progressing"), nil, conditions{"True/Ready: 2 pods available", "False/Progressing: it waits", "True/Progressing: it waits", fine},
		},
		"an object around the pods is refused": {
			around("Forbidden"), nil, conditions{"True/Ready: 2 pods available", "False/Forbidden: it waits", "False/Settled", fine},
		},
		"overridden": {overruled, nil, conditions{"True/Ready: 2 pods available", "True/Overridden: cpu", "False/Settled", fine}},
	} {
		t.Run(name, func(t *testing.T) {
			app := &appv1.App{}
			app.Generation = 4
			setStatusConditions(app, &c.report, c.err)
			if diff := cmp.Diff(c.want, conditionsOf(app), cmp.AllowUnexported(conditions{})); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if app.Status.ObservedGeneration != 4 {
				t.Errorf("observedGeneration is %d, want 4", app.Status.ObservedGeneration)
			}
			for _, c := range app.Status.Conditions {
				if c.ObservedGeneration != 4 || c.Reason == "" || c.LastTransitionTime.IsZero() {
					t.Errorf("the API server would refuse, or kubectl wait misread: %+v", c)
				}
			}
		})
	}
}

// TestSummarizeIsStable checks that the same report makes no difference, and that the time of a condition is that of its
// last change of status.
func TestSummarizeIsStable(t *testing.T) {
	app := &appv1.App{}
	setStatusConditions(app, &underWay, nil)
	long := metav1.Unix(1, 0)
	for i := range app.Status.Conditions {
		app.Status.Conditions[i].LastTransitionTime = long
	}
	before := app.DeepCopy()
	setStatusConditions(app, &underWay, nil)
	if diff := cmp.Diff(before, app); diff != "" {
		t.Errorf("the same report again (-before +after):\n%s", diff)
	}
	setStatusConditions(app, &badImage, nil)
	if at := statusCondition(app, appv1.ConditionReady).LastTransitionTime; at != long {
		t.Errorf("another reason moves the time to %s", at)
	}
	setStatusConditions(app, &ready, nil)
	if at := statusCondition(app, appv1.ConditionReady).LastTransitionTime; at == long {
		t.Error("another status leaves the time as it was")
	}
}

// TestSummarizeKeepsConditionsOfOthers checks that a condition that is not ours stays.
func TestSummarizeKeepsConditionsOfOthers(t *testing.T) {
	app := &appv1.App{}
	theirs := metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "Because"}
	app.Status.Conditions = []metav1.Condition{theirs}
	setStatusConditions(app, &ready, nil)
	if diff := cmp.Diff(theirs, *statusCondition(app, "Theirs"), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("their condition (-before +after):\n%s", diff)
	}
	if n := len(app.Status.Conditions); n != 5 {
		t.Errorf("%d conditions, want 5", n)
	}
}

// TestSummarizeBoundsMessages checks that no message makes the API server refuse the whole status: what a user wrote may
// be part of it, and may be long.
func TestSummarizeBoundsMessages(t *testing.T) {
	long := strings.Repeat("界", 50_000)
	for name, err := range map[string]error{
		"stalled": Stalled("Invalid", "%s", long), "failed": errors.New(long), "report": nil,
	} {
		app := &appv1.App{}
		setStatusConditions(app, &Report{Pods: health.Verdict{Reason: "Progressing", Message: long}}, err)
		for _, c := range app.Status.Conditions {
			if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
				t.Errorf("%s: the message of %s has %d bytes, or is cut within a character", name, c.Type, len(c.Message))
			}
		}
	}
}

// TestReadyIsNeverTrueForWhatIsNotInForce has every report of a kind's steps with every error.
func TestReadyIsNeverTrueForWhatIsNotInForce(t *testing.T) {
	errs := []error{nil, Stalled("Invalid", "no"), Waiting("Progressing", "later"), &FailedError{Reason: "Forbidden", Err: errors.New("403")}, errors.New("500")}
	for bits := range 1 << 7 {
		report := Report{Pods: health.Verdict{Reason: "Progressing", Message: "pods"}, InForce: InForce(bits >> 2 & 3), Pause: Pause(bits >> 4 % 3)}
		report.Pods.Ready, report.Pods.Stalled = bits&1 != 0, bits&2 != 0
		if report.InForce != Present {
			report.Why = ReasonAndMessage{"Held", "by you"}
		}
		if bits&64 != 0 {
			report.Note = ReasonAndMessage{"Overridden", "cpu"}
		}
		for _, err := range errs {
			app := &appv1.App{}
			setStatusConditions(app, &report, err)
			if isTrue(statusCondition(app, appv1.ConditionReady)) && !isTrue(statusCondition(app, appv1.ConditionApplied)) {
				t.Errorf("%+v, %v: Ready is True and Applied is not", report, err)
			}
			if isTrue(statusCondition(app, appv1.ConditionReady)) && isTrue(statusCondition(app, appv1.ConditionStalled)) {
				t.Errorf("%+v, %v: Ready and Stalled are both True", report, err)
			}
		}
	}
}

// TestStalledMessagesKeepTheirNumbers has the message of a resource that stays stalled change: figures in it change nothing, and names do.
func TestStalledMessagesKeepTheirNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		written       bool
	}{
		"a count":                      {"used: pods=3, limited: pods=3", "used: pods=4, limited: pods=3", false},
		"another resource":             {"used: pods=4, limited: pods=3", "used: cpu=4, limited: cpu=3", true},
		"quantities":                   {"requested: requests.cpu=500m,limits.memory=1.5Gi, used: requests.cpu=1", "requested: requests.cpu=1500m,limits.memory=2.25Gi, used: requests.cpu=3", false},
		"nodes":                        {"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {pool: gpu}", "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint {pool: gpu}", false},
		"a taint":                      {"0/3 nodes are available: 3 node(s) had untolerated taint {pool: gpu1}", "0/3 nodes are available: 3 node(s) had untolerated taint {pool: gpu2}", true},
		"a delay":                      {"back-off 40s restarting failed container", "back-off 20s restarting failed container", false},
		"a longer delay":               {"back-off 2m40s restarting failed container", "back-off 5m0s restarting failed container", false},
		"an exit code":                 {"exits with code 1; see its log", "exits with code 137; see its log", false},
		"a time":                       {"certificate has expired: current time 2026-01-02T03:04:05Z is after 2025-12-31T00:00:00Z", "certificate has expired: current time 2026-02-10T13:14:15Z is after 2025-12-31T00:00:00Z", false},
		"ports of a connection":        {"read udp 10.244.0.5:43210->10.96.0.10:53: i/o timeout", "read udp 10.244.0.5:50123->10.96.0.10:53: i/o timeout", false},
		"a port in brackets":           {"dial tcp [::1]:5000: connection refused", "dial tcp [::1]:5001: connection refused", false},
		"a percentage":                 {"usage 80% (8 of 10)", "usage 90% (9 of 10)", false},
		"a resource":                   {"Deployment web-a belongs to UnitedDeployment ud-1", "Deployment web-a belongs to UnitedDeployment ud-2", true},
		"a tier":                       {"tier t1 is not ready", "tier t2 is not ready", true},
		"a path":                       {"spec.tiers/t1.image: Required value", "spec.tiers/t2.image: Required value", true},
		"a file":                       {"cannot open /data1/x", "cannot open /data2/x", true},
		"a temporary folder":           {"failed to mount /var/lib/containerd/tmpmounts/containerd-mount760407397: input/output error", "failed to mount /var/lib/containerd/tmpmounts/containerd-mount788433525: input/output error", false},
		"a quoted temporary folder":    {`open "/var/tmp/container_images_storage3046117436/1": no space left`, `open "/var/tmp/container_images_storage1146117431/1": no space left`, false},
		"a key":                        {"Secret db has no key tls_1", "Secret db has no key tls_2", true},
		"a hold":                       {`the annotation hold is "3", which is no ReplicaSet`, `the annotation hold is "4", which is no ReplicaSet`, true},
		"a quoted sentence":            {`denied: "3 of 5 pods, at most 3"`, `denied: "4 of 6 pods, at most 4"`, false},
		"an image":                     {`image "registry:5000/web:1.2" cannot be pulled`, `image "registry:5000/web:1.3" cannot be pulled`, true},
		"an assigned name":             {"container=web1 has ended", "container=web2 has ended", true},
		"a name, and a figure of that": {"UnitedDeployment ud-1 has 3 pods", "UnitedDeployment ud-1 has 4 pods", false},
	} {
		app := &appv1.App{}
		setStatusConditions(app, &Report{}, Stalled("Trouble", "%s", c.before))
		before := app.DeepCopy()
		setStatusConditions(app, &Report{}, Stalled("Trouble", "%s", c.after))
		want := c.before
		if c.written {
			want = c.after
		}
		if got := statusCondition(app, appv1.ConditionStalled).Message; got != want {
			t.Errorf("%s: the message is %q, want %q", name, got, want)
		}
		if diff := cmp.Diff(before, app); !c.written && diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
		app.Generation++
		setStatusConditions(app, &Report{}, Stalled("Trouble", "%s", c.after))
		if got := statusCondition(app, appv1.ConditionStalled).Message; got != c.after {
			t.Errorf("%s: for another generation it is reported as %q", name, got)
		}
	}
}

// TestMessagesKeepThePullError has the states of a container whose image cannot be pulled, as Kubernetes 1.31 alternates between them.
func TestMessagesKeepThePullError(t *testing.T) {
	judge := func(reason, words string, stalled bool) *Report {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		if stalled {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}
		}
		var pod corev1.Pod
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "web", Image: "shop/web:2", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: words}},
		}}
		return &Report{Pods: health.Deployment(d, []corev1.Pod{pod}, time.Time{})}
	}
	const backOff, image = "ImagePullBackOff", `Back-off pulling image "shop/web:2"`
	for _, stalled := range []bool{false, true} {
		app := &appv1.App{}
		setStatusConditions(app, judge(backOff, image, stalled), nil)
		first := statusCondition(app, appv1.ConditionReady).Message
		setStatusConditions(app, judge("ErrImagePull", "not found", stalled), nil)
		before := app.DeepCopy()
		if said := statusCondition(app, appv1.ConditionReady).Message; said == first || !strings.Contains(said, "not found") {
			t.Fatalf("stalled %t: the error is missing: %s", stalled, said)
		}
		setStatusConditions(app, judge(backOff, image, stalled), nil)
		if diff := cmp.Diff(before, app); diff != "" {
			t.Errorf("stalled %t: while it waits for the next try (-before +after):\n%s", stalled, diff)
		}
		setStatusConditions(app, judge(backOff, image, !stalled), nil)
		if ready := statusCondition(app, appv1.ConditionReady); !strings.Contains(ready.Message, "not found") || strings.Contains(ready.Message, "no progress") == stalled {
			t.Errorf("from stalled %t to %t: %s", stalled, !stalled, ready.Message)
		}
		setStatusConditions(app, judge("ErrImagePull", "denied", stalled), nil)
		if said := statusCondition(app, appv1.ConditionReady).Message; !strings.Contains(said, "denied") {
			t.Errorf("stalled %t: another error: %s", stalled, said)
		}
		app.Generation++
		setStatusConditions(app, judge(backOff, image, stalled), nil)
		if said := statusCondition(app, appv1.ConditionReady).Message; said != first {
			t.Errorf("stalled %t: of another generation: %s", stalled, said)
		}
	}
}
