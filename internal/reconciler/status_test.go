package reconciler

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// conditions are the three conditions, each as "status/reason: message".
type conditions struct{ ready, reconciling, stalled string }

func conditionsOf(app *appv1.App) conditions {
	text := func(kind string) string {
		c := condition(app, kind)
		if c == nil {
			return "none"
		}
		line := string(c.Status) + "/" + c.Reason
		if c.Message != "" {
			line += ": " + c.Message
		}
		return line
	}
	return conditions{text(appv1.ConditionReady), text(appv1.ConditionReconciling), text(appv1.ConditionStalled)}
}

const (
	pausedLine = "False/Paused: the annotation app.huolala.cn/paused stops all writes to the children"
	fine       = "False/NotStalled"
)

// The reports that a kind's steps may give.
var (
	ready     = Report{Ready: true, Reason: "Ready", Message: "2 pods available"}
	underWay  = Report{Reason: "Progressing", Message: "1 of 2 pods"}
	badImage  = Report{Reason: "ImagePullBackOff", Message: "no such image"}
	stuck     = Report{Stalled: true, Reason: "ImagePullBackOff", Message: "no such image"}
	paused    = Report{Paused: true, Reason: "Progressing", Message: "1 of 2 pods"}
	pausedOK  = Report{Paused: true, Ready: true, Reason: "Ready", Message: "2 pods available"}
	pausedBad = Report{Paused: true, Stalled: true, Reason: "ImagePullBackOff", Message: "no such image"}
)

func TestSummarize(t *testing.T) {
	stalledErr := Stalled("Invalid", "replicas: no")
	waitingErr := Waiting("Progressing", "being deleted")
	failedErr := &FailedError{Reason: "ApplyFailed", Message: "trying again", Err: errors.New("503 at 12:00:01")}
	for name, c := range map[string]struct {
		report Report
		err    error
		want   conditions
	}{
		"ready":     {ready, nil, conditions{"True/Ready: 2 pods available", "False/Settled", fine}},
		"under way": {underWay, nil, conditions{"False/Progressing: 1 of 2 pods", "True/Progressing: 1 of 2 pods", fine}},
		"a pod says why": {
			badImage, nil, conditions{"False/ImagePullBackOff: no such image", "True/ImagePullBackOff: no such image", fine},
		},
		"for too long": {
			stuck, nil, conditions{"False/ImagePullBackOff: no such image", "False/ImagePullBackOff: no such image", "True/ImagePullBackOff: no such image"},
		},
		"stalled, whatever the earlier pods do": {
			ready, stalledErr, conditions{"False/Invalid: replicas: no", "False/Invalid: replicas: no", "True/Invalid: replicas: no"},
		},
		"stalled twice over, the error counts": {
			stuck, stalledErr, conditions{"False/Invalid: replicas: no", "False/Invalid: replicas: no", "True/Invalid: replicas: no"},
		},
		"waiting": {
			ready, waitingErr, conditions{"False/Progressing: being deleted", "True/Progressing: being deleted", fine},
		},
		"failed": {
			ready, failedErr, conditions{"False/ApplyFailed: trying again", "True/ApplyFailed: trying again", fine},
		},
		"failed in another way": {
			ready, errors.New("no cache"), conditions{"False/ApplyFailed: no cache", "True/ApplyFailed: no cache", fine},
		},
		"wrapped and joined": {
			ready, errors.Join(errors.New("first"), stalledErr), conditions{"False/Invalid: replicas: no", "False/Invalid: replicas: no", "True/Invalid: replicas: no"},
		},
		"paused, ready":     {pausedOK, nil, conditions{"True/Ready: 2 pods available", pausedLine, fine}},
		"paused, under way": {paused, nil, conditions{"False/Progressing: 1 of 2 pods", pausedLine, fine}},
		"paused, for too long": {
			pausedBad, nil, conditions{"False/ImagePullBackOff: no such image", pausedLine, "True/ImagePullBackOff: no such image"},
		},
		"paused, stalled": {
			paused, stalledErr, conditions{"False/Invalid: replicas: no", pausedLine, "True/Invalid: replicas: no"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := &appv1.App{}
			app.Generation = 4
			summarize(app, &c.report, c.err)
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
	summarize(app, &underWay, nil)
	long := metav1.Unix(1, 0)
	for i := range app.Status.Conditions {
		app.Status.Conditions[i].LastTransitionTime = long
	}
	before := app.DeepCopy()
	summarize(app, &underWay, nil)
	if diff := cmp.Diff(before, app); diff != "" {
		t.Errorf("the same report again (-before +after):\n%s", diff)
	}
	summarize(app, &badImage, nil)
	if at := condition(app, appv1.ConditionReady).LastTransitionTime; at != long {
		t.Errorf("another reason moves the time to %s", at)
	}
	summarize(app, &ready, nil)
	if at := condition(app, appv1.ConditionReady).LastTransitionTime; at == long {
		t.Error("another status leaves the time as it was")
	}
}

// TestSummarizeKeepsConditionsOfOthers checks that a condition that is not ours stays.
func TestSummarizeKeepsConditionsOfOthers(t *testing.T) {
	app := &appv1.App{}
	theirs := metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "Because"}
	app.Status.Conditions = []metav1.Condition{theirs}
	summarize(app, &ready, nil)
	if diff := cmp.Diff(theirs, *condition(app, "Theirs"), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("their condition (-before +after):\n%s", diff)
	}
	if n := len(app.Status.Conditions); n != 4 {
		t.Errorf("%d conditions, want 4", n)
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
		summarize(app, &Report{Reason: "Progressing", Message: long}, err)
		for _, c := range app.Status.Conditions {
			if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) {
				t.Errorf("%s: the message of %s has %d bytes, or is cut within a character", name, c.Type, len(c.Message))
			}
		}
	}
}
