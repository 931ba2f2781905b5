package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appv1 "huolala.cn/app-operator/api/v1"
)

// line is what a report says of changes; normal is how the recorder shows an event of it before the note.
const (
	line   = "Created Deployment web"
	normal = "Normal Created "
)

var errGone = apierrors.NewNotFound(schema.GroupResource{Group: "app.huolala.cn", Resource: "apps"}, "web")

func TestResult(t *testing.T) {
	failed := &FailedError{Reason: "ApplyFailed", Err: errors.New("503")}
	held := &StalledError{Reason: "FieldConflict", RetryAfter: 10 * time.Second}
	patch := errors.New("status: 503")
	for name, c := range map[string]struct {
		err, patchErr error
		wait          time.Duration
		want          reconcile.Result
		wantErr       []error
	}{
		"done":                           {},
		"figures to be written later":    {wait: time.Second, want: reconcile.Result{RequeueAfter: time.Second}},
		"stalled":                        {err: Stalled("Invalid", "no")},
		"stalled, to be looked at":       {err: held, want: reconcile.Result{RequeueAfter: 10 * time.Second}},
		"stalled, figures before":        {err: held, wait: time.Second, want: reconcile.Result{RequeueAfter: time.Second}},
		"stalled, figures after":         {err: held, wait: time.Minute, want: reconcile.Result{RequeueAfter: 10 * time.Second}},
		"waiting":                        {err: Waiting("Progressing", "not yet")},
		"failed":                         {err: failed, wantErr: []error{failed}},
		"failed, figures":                {err: failed, wait: time.Second, wantErr: []error{failed}},
		"status not written":             {patchErr: patch, wantErr: []error{patch}},
		"stalled, status not written":    {err: held, patchErr: patch, wantErr: []error{patch}},
		"failed, status not written":     {err: failed, patchErr: patch, wantErr: []error{failed, patch}},
		"deleted in the meantime":        {patchErr: errGone},
		"failed, deleted meanwhile":      {err: failed, patchErr: errGone, wantErr: []error{failed}},
		"something of its own not found": {err: errGone, wantErr: []error{errGone}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reconcileResult(c.err, c.patchErr, c.wait)
			if got != c.want || (err != nil) != (c.wantErr != nil) {
				t.Errorf("result is %+v, %v; want %+v, %v", got, err, c.want, c.wantErr)
			}
			for _, want := range c.wantErr {
				if !errors.Is(err, want) {
					t.Errorf("the error is %v, want %v in it: it is logged and counted", err, want)
				}
			}
		})
	}
}

// TestAnnounce checks what is worth an event, and that it is one.
func TestAnnounce(t *testing.T) {
	changed := Report{Event: Event{Action: "Created", Changes: line}}
	warned := changed
	warned.Event.Warning = "the spec is long"
	long := Report{Event: Event{Action: "Created", Changes: "Created " + strings.Repeat("界", 1000)}}
	status := func(report Report, err error) *appv1.App {
		app := &appv1.App{}
		setStatusConditions(app, &report, err)
		return app
	}
	fresh, well, invalid := &appv1.App{}, status(ready, nil), status(underWay, Stalled("Invalid", "no"))
	for name, c := range map[string]struct {
		before, after *appv1.App
		report        Report
		want          string
	}{
		"nothing":                       {well, well, Report{}, ""},
		"new, and nothing done":         {fresh, well, Report{}, ""},
		"becomes ready":                 {status(underWay, nil), well, Report{}, ""},
		"changes":                       {fresh, well, changed, normal + line},
		"changes, with a warning":       {fresh, well, warned, "Warning Created " + line + "; the spec is long"},
		"a warning alone is no news":    {well, well, Report{Event: Event{Warning: "the spec is long"}}, ""},
		"becomes stalled":               {well, invalid, Report{}, "Warning ErrInvalid no"},
		"new and stalled":               {fresh, invalid, Report{}, "Warning ErrInvalid no"},
		"becomes stalled, with changes": {well, invalid, changed, "Warning ErrInvalid no (Created Deployment web)"},
		"stays stalled":                 {invalid, invalid, Report{}, ""},
		"stays stalled, with changes":   {invalid, invalid, changed, normal + line},
		"stalled otherwise":             {invalid, status(underWay, Stalled("Invalid", "another")), Report{}, "Warning ErrInvalid another"},
		"stalled for another reason":    {invalid, status(stuck, nil), Report{}, "Warning ErrImagePullBackOff no such image"},
		"no longer stalled":             {invalid, well, Report{}, ""},
		"long":                          {well, well, long, normal + "Created " + strings.Repeat("界", 337) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			limited := LimitEvents(recorder, clocktesting.NewFakePassiveClock(time.Now()), func() { t.Error("an event is dropped") })
			r := &Reconciler[*appv1.App]{Recorder: limited}
			r.emitEvent(c.before, c.after, &c.report)
			got := drain(recorder)
			if diff := cmp.Diff(c.want, strings.Join(got, " AND ")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, event := range got {
				if !utf8.ValidString(event) || len(event) > maxNote+len("Normal Created ") {
					t.Errorf("the API server refuses an event of %d bytes", len(event))
				}
			}
		})
	}
}

// storedApp is an App as its reconciler gets it.
type storedApp struct{ *appv1.App }

func (s storedApp) Decode() (*appv1.App, error) { return s.App, nil }

// TestChangesAreToldWithoutStatus reconciles an App whose status cannot be written: what was changed is told all the same, and what
// the status would say is not.
func TestChangesAreToldWithoutStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			obj.SetNamespace(key.Namespace)
			obj.SetName(key.Name)
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "apps/status"}, "web", errors.New("no right"))
		},
	}).Build()
	for name, c2 := range map[string]struct {
		report Report
		err    error
		want   string
	}{
		"changes":              {Report{Event: Event{Action: "Created", Changes: line}}, nil, normal + line},
		"changes and an error": {Report{Event: Event{Action: "Created", Changes: line}}, Stalled("Invalid", "no"), normal + line},
		"a step of the writes": {Report{Event: Event{Action: "Created", Changes: line, Reason: "Started", Note: "it starts", IsWrite: true}}, nil, "Normal Started it starts; " + line},
		"a step alone":         {Report{Event: Event{Reason: "Started", Note: "it starts", IsWrite: true}}, nil, "Normal Started it starts"},
		"a step of the status": {Report{Event: Event{Action: "Created", Changes: line, Reason: "Updated", Note: "phase Front"}}, nil, normal + line},
		"an error":             {Report{}, Stalled("Invalid", "no"), ""},
	} {
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler[*appv1.App]{
			Kind: "App", Client: c, Recorder: recorder, Clock: clocktesting.NewFakePassiveClock(time.Now()),
			New:   func() Stored[*appv1.App] { return storedApp{&appv1.App{}} },
			Steps: func(context.Context, *appv1.App, error) (Report, error) { return c2.report, c2.err },
		}
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if got := strings.Join(drain(recorder), " AND "); got != c2.want {
			t.Errorf("%s: the events are %q, want %q", name, got, c2.want)
		}
	}
}

// TestEventsWaitForTheStatus has a status change without end: beyond a number of writes it waits for its pace, and what it says is told
// once it is written.
func TestEventsWaitForTheStatus(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			writes++
			return nil
		},
	}).Build()
	recorder, clk := events.NewFakeRecorder(100), clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	r := &Reconciler[*appv1.App]{
		Kind: "App", Client: c, Recorder: recorder, Clock: clk,
		New: func() Stored[*appv1.App] {
			return storedApp{&appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}}
		},
		Steps: func(context.Context, *appv1.App, error) (Report, error) { return Report{}, Stalled("Invalid", "no") },
	}
	reconcileOnce := func() time.Duration {
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	var wait time.Duration
	for range 3 * hastyMost {
		wait = reconcileOnce()
	}
	if sent := len(drain(recorder)); writes != hastyMost+1 || sent != writes || wait <= 0 || wait > figureInterval {
		t.Errorf("%d writes, want %d; %d events; the next one after %s", writes, hastyMost+1, sent, wait)
	}
	clk.SetTime(clk.Now().Add(wait))
	if reconcileOnce(); writes != hastyMost+2 || len(drain(recorder)) != 1 {
		t.Errorf("after the wait there are %d writes, want one more, with an event", writes)
	}
}

// drain returns the events that were sent so far.
func drain(recorder *events.FakeRecorder) []string {
	var sent []string
	for {
		select {
		case event := <-recorder.Events:
			sent = append(sent, event)
		default:
			return sent
		}
	}
}

// TestGetDoesNotWaitForEver checks that a read gives up waiting for a write that the cache will never show, and takes
// the cache as it is. Time is that of synctest: nobody waits.
func TestGetDoesNotWaitForEver(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		behind := interceptor.NewClient(nil, interceptor.Funcs{
			Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if len(opts) == 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				obj.SetUID("1")
				return nil
			},
		})
		began := time.Now()
		var app appv1.App
		if err := Get(t.Context(), behind, name, &app); err != nil || app.UID != "1" {
			t.Errorf("read %q, %v", app.UID, err)
		}
		if took := time.Since(began); took != catchUp {
			t.Errorf("it took %s, want %s", took, catchUp)
		}

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Get(ended, behind, name, &app); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v, want %v", err, context.Canceled)
		}
	})
}
