package controllers

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// newCommandWorld returns a world whose resource runs nginx:1 after its command, and then nginx:2.
func newCommandWorld(t *testing.T, kindName string) *world {
	t.Helper()
	w := newWorld(t, newStored(t, kindNamed(t, kindName), commandSpecOf(kindName, "nginx:1")))
	w.generations = true
	w.settle(kindName)
	w.endJob(batchv1.JobComplete)
	w.settle(kindName)
	w.run(kindName, w.replicaSet("web-1"))
	w.endCommand(kindName, commandSpecOf(kindName, "nginx:2"), batchv1.JobComplete)
	w.run(kindName, w.replicaSet("web-2"))
	w.settle(kindName)
	if n := len(w.jobs()); n != 2 || w.image() != "nginx:2" {
		t.Fatalf("%d Jobs, and the Deployment runs %s", n, w.image())
	}
	return w
}

// endCommand gives the resource a spec a minute later, whose command ends.
func (w *world) endCommand(kindName, spec string, end batchv1.JobConditionType) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.setSpec(kindName, spec)
	w.settle(kindName)
	w.endJob(end)
	w.settle(kindName)
}

// commandAndCanary returns the spec of commandSpecOf with a canary after the command.
func commandAndCanary(kindName, image string) string {
	return withField(commandSpecOf(kindName, image), `"canary":{}`)
}

// latestJob returns the name of the latest Job, empty if there is none. Only the last two stay.
func (w *world) latestJob() string {
	w.t.Helper()
	jobs := w.jobs()
	if len(jobs) == 0 {
		return ""
	}
	return jobs[len(jobs)-1].Name
}

// TestCommandOnce returns to the present spec from an earlier revision, by the end of a hold, and after an edit of the Deployment and kubectl rollout undo, also
// after a change that was taken back and without Jobs: the command of the present spec has succeeded, and does not run again.
func TestCommandOnce(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		w.annotate(name, appv1.AnnotationHold, "web-1")
		w.settle(name)
		if w.image() != "nginx:1" {
			t.Fatalf("the hold has no effect: the Deployment runs %s", w.image())
		}
		w.annotate(name, appv1.AnnotationHold, "")
		w.settle(name)
		if n := len(w.jobs()); n != 2 || w.image() != "nginx:2" {
			t.Errorf("after the hold, there are %d Jobs, and the Deployment runs %s", n, w.image())
		}
		d := w.deployment()
		d.Spec.Template.Spec.Containers[0].Image = "nginx:1"
		if err := w.Client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		w.settle(name)
		if n := len(w.jobs()); n != 2 || w.image() != "nginx:2" {
			t.Errorf("after an edit, there are %d Jobs, and the Deployment runs %s", n, w.image())
		}
		w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobFailed)
		w.setSpec(name, commandSpecOf(name, "nginx:2"))
		w.settle(name)
		for _, jobs := range []string{"all", "none"} {
			if jobs == "none" {
				for _, job := range w.jobs() {
					w.remove(&job)
				}
			}
			before := w.latestJob()
			earlier := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
			if !w.read(earlier) {
				t.Fatal("there is no ReplicaSet")
			}
			w.undo(earlier)
			w.settle(name)
			if w.latestJob() != before || w.image() != "nginx:2" {
				t.Errorf("after an undo with %s of the Jobs, the latest Job is %q, and was %q, and the Deployment runs %s", jobs, w.latestJob(), before, w.image())
			}
			w.stands("after an undo", name, "Applied=True/Applied")
		}
	})
}

// TestNoCommandAfterAbort aborts a canary whose command has succeeded, and deletes all Jobs, as a janitor does: no command runs, and the change still
// waits as aborted.
func TestNoCommandAfterAbort(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		w.endCommand(name, commandAndCanary(name, "nginx:3"), batchv1.JobComplete)
		w.runs("the command has succeeded", "nginx:2", "nginx:3")
		w.annotate(name, appv1.AnnotationAbort, string(w.canary().UID))
		w.settle(name)
		w.stands("aborted", name, "Applied=False/RolledBack")
		for _, job := range w.jobs() {
			w.remove(&job)
		}
		w.settle(name)
		if n := len(w.jobs()); n != 0 {
			t.Errorf("there are %d Jobs", n)
		}
		w.stands("without Jobs", name, "Applied=False/RolledBack")
		w.runs("without Jobs", "nginx:2", "")
	})
}

// TestFailedCommandAndDefaults has a command fail, and then other defaults, which make other pods: the command is not run again, as nobody has asked for it.
func TestFailedCommandAndDefaults(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobFailed)
		before := w.latestJob()
		for _, value := range []string{"1", "2"} {
			w.setDefaults("platform", `{"defaults":{"podAnnotations":{"a":"`+value+`"}}}`)
			w.settle(name)
			w.settle(name)
			w.stands("with other defaults", name, "Applied=False/BeforeRolloutFailed", "Stalled=True/BeforeRolloutFailed")
			if job := w.latestJob(); job != before || w.image() != "nginx:2" {
				t.Errorf("the latest Job is %s, and the Deployment runs %s", job, w.image())
			}
		}
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.annotate(name, appv1.AnnotationRefresh, "again")
		w.settle(name)
		if w.latestJob() == before {
			t.Error("after a refresh, no Job runs")
		}
	})
}

// TestCommandAndDeletedJobs has the command of a change end, and that of the next one succeed, whose canary waits. The Jobs are deleted one after the other,
// as a janitor does: the canary stays, and no command runs again.
func TestCommandAndDeletedJobs(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for _, end := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete} {
			t.Run(string(end), func(t *testing.T) {
				w := newCommandWorld(t, name)
				w.endCommand(name, commandAndCanary(name, "nginx:3"), end)
				w.endCommand(name, commandAndCanary(name, "nginx:4"), batchv1.JobComplete)
				w.runs("the second command has succeeded", "nginx:2", "nginx:4")
				uid := w.canary().UID
				for left := len(w.jobs()) - 1; left >= 0; left-- {
					w.remove(&w.jobs()[0])
					w.settle(name)
					w.runs("without the earlier Jobs", "nginx:2", "nginx:4")
					if n := len(w.jobs()); n != left || w.canary().UID != uid {
						t.Fatalf("there are %d Jobs, want %d, and the canary is the same: %t", n, left, w.canary().UID == uid)
					}
					w.stands("without the earlier Jobs", name, "Applied=False/Canary")
				}
				w.runCanary()
				w.promoteCanary(name)
				w.settle(name)
				w.runs("promoted without Jobs", "nginx:4", "nginx:4")
				if n := len(w.jobs()); n != 0 {
					t.Errorf("after the promotion, there are %d Jobs", n)
				}
			})
		}
	})
}

// TestCommandOfReturnedSpec rolls out a spec without a command, and then the one of before: its command runs again, although its Job is the latest.
func TestCommandOfReturnedSpec(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		before := w.latestJob()
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.setSpec(name, flowSpec(name, "nginx:3", onePort))
		w.settle(name)
		w.makeAvailable()
		w.settle(name)
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.setSpec(name, commandSpecOf(name, "nginx:2"))
		w.settle(name)
		if job := w.latestJob(); job == before || w.image() != "nginx:3" {
			t.Fatalf("the latest Job is %s, and the Deployment runs %s", job, w.image())
		}
		w.endJob(batchv1.JobComplete)
		w.settle(name)
		if w.image() != "nginx:2" {
			t.Errorf("the Deployment runs %s", w.image())
		}
	})
}

// TestCommandOfSpecThatWasLeft has the command of a change fail, and takes the change back, with the command or without it: when the change comes again,
// its command runs again, and no pod was replaced meanwhile. A janitor that deletes Jobs meanwhile changes nothing of that.
func TestCommandOfSpecThatWasLeft(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		for _, back := range []string{"with the command", "without the command"} {
			for _, janitor := range []string{"never", "before a reconcile", "after a reconcile"} {
				t.Run(back+" "+janitor, func(t *testing.T) {
					w := newCommandWorld(t, name)
					if janitor != "never" {
						t.Cleanup(func() { w.script.text.Reset() }) // The story is the same.
					}
					former := commandSpecOf(name, "nginx:2")
					if back == "without the command" {
						former = flowSpec(name, "nginx:2", onePort)
					}
					template := w.deployment().Spec.Template
					var ran []string
					for range 3 {
						w.clock.SetTime(w.clock.Now().Add(time.Minute))
						w.setSpec(name, commandSpecOf(name, "nginx:3"))
						w.settle(name)
						job := w.latestJob()
						w.endJob(batchv1.JobFailed)
						w.settle(name)
						w.settle(name)
						w.stands("the command has failed", name, "Applied=False/BeforeRolloutFailed")
						if ran = append(ran, job); w.latestJob() != job {
							t.Errorf("after Job %s, Job %s runs", job, w.latestJob())
						}
						w.setSpec(name, former)
						w.settle(name)
						w.stands("taken back", name, "Applied=True/Applied")
						if jobs := w.jobs(); janitor != "never" {
							w.remove(&jobs[len(jobs)-1])
						}
						if janitor == "after a reconcile" {
							w.settle(name)
						}
						w.requests = nil
						if janitor != "before a reconcile" {
							if w.settle(name); len(w.requests) > 0 {
								t.Errorf("at rest: %q", w.requests)
							}
						}
					}
					if is := w.deployment().Spec.Template; !equality.Semantic.DeepEqual(is, template) {
						t.Errorf("the pod template is %+v", is)
					}
					if janitor == "never" && len(slices.Compact(slices.Sorted(slices.Values(ran)))) != 3 {
						t.Errorf("the Jobs are %q", ran)
					}
					w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobComplete)
					if w.image() != "nginx:3" {
						t.Errorf("the Deployment runs %s", w.image())
					}
				})
			}
		}
	})
}

// TestCommandAfterDeletedJob takes back a change whose command has failed by a spec without a command, and deletes the failed Job: the spec of before runs
// its command again, although its Job is the latest one that is left.
func TestCommandAfterDeletedJob(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		w.endCommand(name, commandSpecOf(name, "nginx:3"), batchv1.JobFailed)
		w.setSpec(name, flowSpec(name, "nginx:4", onePort))
		w.settle(name)
		w.makeAvailable()
		w.settle(name)
		jobs := w.jobs()
		w.remove(&jobs[len(jobs)-1])
		w.settle(name)
		before := w.latestJob()
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.setSpec(name, commandSpecOf(name, "nginx:2"))
		w.settle(name)
		if job := w.latestJob(); job == before || w.image() != "nginx:4" {
			t.Fatalf("the latest Job is %s, and the Deployment runs %s", job, w.image())
		}
		w.endJob(batchv1.JobComplete)
		w.settle(name)
		if w.image() != "nginx:2" {
			t.Errorf("the Deployment runs %s", w.image())
		}
	})
}

// TestCommandAndEarlierCanary replaces a canary that waits by a change whose command fails: no pods of the earlier change stay.
func TestCommandAndEarlierCanary(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.setSpec(name, commandAndCanary(name, "nginx:3"))
		w.settle(name)
		w.runs("the command runs", "nginx:2", "")
		w.endJob(batchv1.JobComplete)
		w.settle(name)
		w.runs("the command has succeeded", "nginx:2", "nginx:3")
		w.clock.SetTime(w.clock.Now().Add(time.Minute))
		w.setSpec(name, commandAndCanary(name, "nginx:4"))
		w.sent()
		w.settle(name)
		if got := w.sent(); len(got) != 1 || !containsAll(got[0], appv1.ReasonBeforeRolloutStarted, "the canary in Deployment web-canary is removed") {
			t.Errorf("another command: the events are %q", got)
		}
		w.runs("another command runs", "nginx:2", "")
		w.endJob(batchv1.JobFailed)
		w.settle(name)
		w.runs("another command has failed", "nginx:2", "")
		w.stands("another command has failed", name, "Applied=False/BeforeRolloutFailed", "Stalled=True/BeforeRolloutFailed")
	})
}

// TestNoCommandForOthers runs no command where the Deployment of that name belongs to others, also if the resource is to adopt it.
func TestNoCommandForOthers(t *testing.T) {
	forNames(t, heldKinds(), func(t *testing.T, name string) {
		w := newCommandWorld(t, name)
		d := w.deployment()
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other", Controller: new(true)}}
		if err := w.Client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		w.setSpec(name, commandSpecOf(name, "nginx:3"))
		w.settle(name)
		if n := len(w.jobs()); n != 2 {
			t.Errorf("%d Jobs", n)
		}
		w.stands("a Deployment of others", name, "Applied=False/ResourceExists")
		before := w.latestJob()
		w.annotate(name, appv1.AnnotationAdopt, "true")
		for _, image := range []string{"nginx:4", "nginx:5"} {
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.setSpec(name, commandSpecOf(name, image))
			w.settle(name)
			w.settle(name)
			if w.latestJob() != before {
				t.Errorf("for %s, Job %s runs", image, w.latestJob())
			}
			w.stands("a Deployment of others, to adopt", name, "Applied=False/ResourceExists")
		}
	})
}
