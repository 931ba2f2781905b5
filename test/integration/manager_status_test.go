package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kevents "k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/internal/stored"
)

// What steps may report.
var (
	allReady = reconciler.Report{Pods: health.Verdict{Ready: true, Reason: "Ready", Message: "2 pods available"}}
	underWay = reconciler.Report{Pods: health.Verdict{Reason: "Progressing", Message: "1 of 2 pods"}}
	badImage = reconciler.Report{Pods: health.Verdict{Reason: "ImagePullBackOff", Message: "no such image"}}
	stuck    = reconciler.Report{Pods: health.Verdict{Stalled: true, Reason: "ImagePullBackOff", Message: "no such image"}}
)

// flow runs the skeleton of all controllers over one App, with steps that do as they are told.
type flow struct {
	*reconciler.Reconciler[*appv1.App]
	t        *testing.T
	app      *appv1.App
	clock    *clocktesting.FakePassiveClock
	recorder *kevents.FakeRecorder
	// report and err are what the steps return, figures what they set in the status. during, if set, is what happens
	// while they run.
	report  reconciler.Report
	err     error
	figures int32
	during  func()
	// ran and patches count the steps and the writes of the status. patchErr is what a write returns.
	ran, patches int
	patchErr     error
	gone         []types.NamespacedName
}

// newFlow returns a flow over an App that exists.
func newFlow(t *testing.T) *flow {
	t.Helper()
	f := &flow{
		t: t, app: newApp(plane.Namespace(t), "web"),
		clock:    clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)),
		recorder: kevents.NewFakeRecorder(10),
	}
	plane.Create(t, f.app)
	scheme := runtime.NewScheme()
	if err := stored.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	f.Reconciler = &reconciler.Reconciler[*appv1.App]{
		Client: interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: f.patch}), Recorder: f.recorder, Clock: f.clock, Kind: t.Name(),
		New:       func() reconciler.Stored[*appv1.App] { return &stored.App{} },
		Steps:     f.steps,
		OnDeleted: func(name types.NamespacedName) { f.gone = append(f.gone, name) },
	}
	return f
}

func (f *flow) patch(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	f.patches++
	if f.patchErr != nil {
		return f.patchErr
	}
	return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
}

func (f *flow) steps(_ context.Context, app *appv1.App, _ error) (reconciler.Report, error) {
	f.ran++
	app.Status.ReadyReplicas = f.figures
	if f.during != nil {
		f.during()
	}
	return f.report, f.err
}

// once reconciles the App once.
func (f *flow) once() (reconcile.Result, error) {
	return f.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.app)})
}

// run reconciles once, and checks how many writes of the status and which events that made.
func (f *flow) run(what string, patches int, sent ...string) reconcile.Result {
	f.t.Helper()
	f.patches = 0
	result, err := f.once()
	if err != nil {
		f.t.Errorf("%s: %v", what, err)
	}
	if f.patches != patches {
		f.t.Errorf("%s: %d writes of the status, want %d", what, f.patches, patches)
	}
	if diff := cmp.Diff(sent, f.sent()); diff != "" {
		f.t.Errorf("%s: events (-want +got):\n%s", what, diff)
	}
	return result
}

// sent returns the events since the last call.
func (f *flow) sent() []string {
	var sent []string
	for len(f.recorder.Events) > 0 {
		sent = append(sent, <-f.recorder.Events)
	}
	return sent
}

// TestStatusIsWrittenWhenItDiffers follows one App from its creation to a failure.
func TestStatusIsWrittenWhenItDiffers(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.report = underWay
	f.report.Event.Action, f.report.Event.Changes = "Created", "Created Deployment web"
	f.run("new", 1, "Normal Created Created Deployment web")

	f.report = underWay
	f.run("nothing new", 0)
	f.clock.SetTime(f.clock.Now().Add(time.Hour))
	f.run("nothing new for an hour", 0)

	f.report = allReady
	f.run("ready", 1)
	plane.Stands(t, f.app, "Ready=True/Ready", "Reconciling=False/Settled", "Stalled=False/NotStalled")

	f.report, f.err = reconciler.Report{}, reconciler.Stalled("Invalid", "no")
	f.run("stalled", 1, "Warning ErrInvalid no")
	f.run("still stalled", 0)
	f.err = reconciler.Stalled("Invalid", "another")
	f.run("stalled otherwise", 1, "Warning ErrInvalid another")
}

// TestFiguresAreWrittenAtMostOnceASecond checks that conditions do not wait and figures do.
func TestFiguresAreWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.report = underWay
	f.run("new", 1)

	f.figures = 1
	if got := f.run("figures at once", 0); got.RequeueAfter != time.Second {
		t.Errorf("comes back after %s, want 1 s", got.RequeueAfter)
	}
	f.clock.SetTime(f.clock.Now().Add(400 * time.Millisecond))
	if got := f.run("figures soon", 0); got.RequeueAfter != 600*time.Millisecond {
		t.Errorf("comes back after %s, want 600 ms", got.RequeueAfter)
	}
	f.report.Pods.Message = "2 of 2 pods"
	f.run("a message that counts pods", 0)
	f.clock.SetTime(f.clock.Now().Add(600 * time.Millisecond))
	if got := f.run("figures after a second", 1); got.RequeueAfter != 0 {
		t.Errorf("comes back after %s, want no more", got.RequeueAfter)
	}

	f.figures, f.report = 2, badImage
	f.run("figures with a condition", 1)
	f.report = stuck
	f.run("another condition at once", 1, "Warning ErrImagePullBackOff no such image")
	f.report.Pods.Message = "no such image: no such host"
	f.run("what to act on", 1, "Warning ErrImagePullBackOff no such image: no such host")
}

// TestGone checks that of a resource that is gone, or going, nothing is done.
func TestGone(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	plane.Change(t, f.app, func() { f.app.Finalizers = []string{"example.com/theirs"} })
	plane.Delete(t, f.app)
	f.run("going", 0)
	if f.ran != 0 || f.gone != nil {
		t.Errorf("steps ran %d times, and %v is gone; want neither", f.ran, f.gone)
	}

	plane.Read(t, f.app)
	plane.Change(t, f.app, func() { f.app.Finalizers = nil })
	f.run("gone", 0)
	if diff := cmp.Diff([]types.NamespacedName{client.ObjectKeyFromObject(f.app)}, f.gone); diff != "" {
		t.Errorf("who is told (-want +got):\n%s", diff)
	}
}

// TestStaleViewIsNotReported checks that an outdated view leads to another try and to nothing that anyone sees.
func TestStaleViewIsNotReported(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.err = reconciler.ErrStale
	if got := f.run("outdated", 0); got.IsZero() {
		t.Error("it does not come back")
	}
}

// TestFailedStatusWrite checks that what could not be written is written by the next try, and only then told.
func TestFailedStatusWrite(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.report, f.err = reconciler.Report{}, reconciler.Stalled("Invalid", "no")
	f.patchErr = errors.New("503")
	if _, err := f.once(); !errors.Is(err, f.patchErr) {
		t.Errorf("error is %v, want %v", err, f.patchErr)
	}
	if sent := f.sent(); sent != nil {
		t.Errorf("events %v are sent before the status", sent)
	}
	f.patchErr = nil
	f.run("again", 1, "Warning ErrInvalid no")

	f.report, f.err = allReady, nil
	f.patchErr = apierrors.NewNotFound(schema.GroupResource{Group: "app.huolala.cn", Resource: "apps"}, "web")
	f.run("deleted in the meantime", 1)
}

// TestStatusOfALaterResource makes the App again while the steps run: the status is of the earlier one, and must not be
// written to the later one.
func TestStatusOfALaterResource(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.report = allReady
	f.during = func() {
		plane.Delete(t, f.app)
		f.app = newApp(f.app.Namespace, f.app.Name)
		plane.Create(t, f.app)
	}
	if _, err := f.once(); err == nil {
		t.Error("the write is not refused")
	}
	plane.Read(t, f.app)
	if len(f.app.Status.Conditions) > 0 {
		t.Errorf("the later App has the status of the earlier: %v", f.app.Status.Conditions)
	}
}
