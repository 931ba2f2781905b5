package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

// TestStore tells of changes of what is kept of an object, and of no others.
func TestStore(t *testing.T) {
	changes, lists := 0, 0
	rows := newStore(func(obj runtime.Object) view.Row {
		r, _ := view.ResourceOf(obj)
		return view.RowOf(&r)
	})
	rows.reportTo(func() { lists++ }, func() { changes++ })
	app := func(version, ready string) *appv1.App {
		a := &appv1.App{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "cart", ResourceVersion: version, CreationTimestamp: metav1.Unix(1, 0),
		}}
		a.Status.Ready = ready
		return a
	}
	for i, step := range []struct {
		do    func() error
		tells bool
	}{
		{func() error { return rows.Replace([]any{app("1", "0/2")}, "1") }, true},
		{func() error { return rows.Replace([]any{app("2", "0/2")}, "2") }, false},
		{func() error { return rows.Update(app("3", "0/2")) }, false},
		{func() error { return rows.Update(app("4", "1/2")) }, true},
		{func() error { return rows.Delete(app("5", "1/2")) }, true},
		{func() error { return rows.Add(app("6", "1/2")) }, true},
		{func() error { return rows.Replace(nil, "7") }, true},
	} {
		before := changes
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if tells := changes > before; tells != step.tells {
			t.Errorf("step %d tells of a change: %t", i, tells)
		}
	}
	if lists != 3 || len(rows.allValues()) != 0 {
		t.Errorf("%d lists, %d rows", lists, len(rows.allValues()))
	}
	if versionOf(app("1", "")) == versionOf(app("2", "")) {
		t.Error("two versions are the same")
	}
}

// TestAnswers notes the answers of the API server, one after the other, and compares the state of the feed and the pause of the part.
func TestAnswers(t *testing.T) {
	const watched = true
	gr := schema.GroupResource{Group: appv1.GroupVersion.Group, Resource: "apps"}
	forbidden := apierrors.NewForbidden(gr, "", errors.New("no right"))
	changes := 0
	f := &feed{ctx: t.Context(), changed: func() { changes++ }}
	p := &part{kinds: "Apps", namespace: "shop"}
	f.parts = []*part{p}
	for _, step := range []struct {
		what          string
		watched       bool
		err           error
		away, tells   bool
		polled, lacks string
		pause         time.Duration
	}{
		{"a list", !watched, nil, false, false, "", "", retryPause / 2},
		{"a watch", watched, nil, false, false, "", "", retryPause / 2},
		{"no connection", watched, io.ErrUnexpectedEOF, true, true, "", "", retryPause},
		{"still none", !watched, io.ErrUnexpectedEOF, true, false, "", "", retryPause},
		{"a list again", !watched, nil, false, true, "", "", retryPause / 2},
		{"an old version", watched, apierrors.NewResourceExpired("old"), false, false, "", "", retryPause / 2},
		{"a failing server", watched, apierrors.NewInternalError(errors.New("etcd")), true, true, "", "", retryPause},
		{"no right to watch", watched, forbidden, false, true, "you may not watch them in shop", "", pollPause},
		{"a list without it", !watched, nil, false, false, "you may not watch them in shop", "", pollPause},
		{"the right to watch", watched, nil, false, true, "", "", retryPause / 2},
		{"no right to list", !watched, forbidden, false, true, "", "you may not list them in shop", pollPause},
		{"no such kind", !watched, apierrors.NewNotFound(gr, ""), false, true, "", "the cluster does not have the kind", pollPause},
	} {
		before := changes
		err := f.noteAnswer(t.Context(), p, step.watched, step.err)
		if (err == nil) != (step.err == nil) || step.away && apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("%s: the reflector gets %v", step.what, err)
		}
		state, polled := f.State(), ""
		if len(state.Polled) > 0 {
			polled = state.Polled[0].Why
		}
		if state.Away.IsZero() == step.away || polled != step.polled || p.missing != step.lacks {
			t.Errorf("%s: the state is %+v, missing %q", step.what, state, p.missing)
		}
		if tells := changes > before; tells != step.tells {
			t.Errorf("%s: tells of a change: %t", step.what, tells)
		}
		if pause := f.pauseOf(p); pause != step.pause {
			t.Errorf("%s: the pause is %s, want %s", step.what, pause, step.pause)
		}
	}
	f.changed = func() {
		changes++
		f.State() // It takes the lock of the feed.
	}
	p.required = true
	if state := f.State(); !state.Begun || len(state.Polled) != 1 || f.pauseOf(p) != pollPause {
		t.Errorf("a resource that cannot be listed: %+v", state)
	}
}

// TestLostRights lists the resources, and then takes rights, the connection and a kind away and gives them back: only rows of what may be listed are
// shown, those of before stay while there is no answer, and without any kind the reason is. A server that has just started refuses all lists for a
// moment: one refusal of what was listed takes no row away, and the next list is as late as that of a kind without the right.
func TestLostRights(t *testing.T) {
	gr := schema.GroupResource{Group: appv1.GroupVersion.Group, Resource: "apps"}
	forbidden, notFound := apierrors.NewForbidden(gr, "", errors.New("no right")), apierrors.NewNotFound(gr, "")
	f := &feed{ctx: t.Context(), changed: func() {}}
	for _, kinds := range []string{"Apps", "Tasks"} {
		rows, p := newStore(func(obj runtime.Object) view.Row {
			r, _ := view.ResourceOf(obj)
			return view.RowOf(&r)
		}), &part{kinds: kinds, namespace: "shop"}
		rows.reportTo(func() { f.changePart(p, func() { p.listed = true }) }, f.changed)
		f.rows, f.parts = append(f.rows, rowsOf{rows, p}), append(f.parts, p)
	}
	answer := func(at int, watched bool, err error) func() {
		return func() {
			p := f.rows[at].part
			_ = f.noteAnswer(t.Context(), p, watched, err)
			if pause := f.pauseOf(p); (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && pause != pollPause {
				t.Errorf("%v: the pause is %s", err, pause)
			}
		}
	}
	list := func(at int, name string) func() {
		return func() {
			answer(at, false, nil)()
			app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
			if err := f.rows[at].Replace([]any{app}, "1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	const unknown, noKind = "not known", "none of the kinds can be listed: "
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"nothing was listed", func() {}, unknown},
		{"no connection", answer(0, false, io.ErrUnexpectedEOF), unknown},
		{"one kind", list(0, "app"), unknown},
		{"both", list(1, "task"), "app task"},
		{"no connection any longer", answer(0, true, io.ErrUnexpectedEOF), "app task"},
		{"no right to watch", answer(0, true, forbidden), "app task"},
		{"a refusal", answer(0, false, forbidden), "app task"},
		{"no right to list", answer(0, false, forbidden), "task, not Apps"},
		{"no connection without the right", answer(0, false, io.ErrUnexpectedEOF), "task, not Apps"},
		{"a kind that is not found", answer(1, false, notFound), "task, not Apps"},
		{"no such kind either", answer(1, false, notFound), noKind + "you may not list them in shop; the cluster does not have the kind"},
		{"no right for both", answer(1, false, forbidden), noKind + "you may not list them in shop"},
		{"the right again, before the answer is read", answer(0, false, nil), unknown},
		{"a refusal before the answer is read", answer(0, false, forbidden), noKind + "you may not list them in shop"},
		{"the right again", list(0, "new"), "new, not Tasks"},
		{"a server that has just started", answer(0, false, forbidden), "new, not Tasks"},
		{"the same server a moment later", answer(0, true, nil), "new, not Tasks"},
		{"another server that has just started", answer(0, false, forbidden), "new, not Tasks"},
		{"its end", answer(0, false, io.ErrUnexpectedEOF), "new, not Tasks"},
		{"its next start", answer(0, false, forbidden), "new, not Tasks"},
		{"its list", list(0, "newer"), "newer, not Tasks"},
	} {
		step.do()
		found, err := f.ListResources()
		got := unknown
		switch {
		case err != nil:
			if got = err.Error(); !errors.Is(err, ui.ErrNoKind) {
				t.Errorf("%s: %v is another error", step.what, err)
			}
		case found != nil:
			var names []string
			for i := range found.Items {
				names = append(names, found.Items[i].Name)
			}
			slices.Sort(names)
			got = strings.Join(names, " ")
			for _, m := range found.NotShown {
				got += ", not " + m.Kinds
			}
		}
		if got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

// TestHintWithoutRights follows the list where no kind can be listed: the page of a user ends with the same hint as when it is opened, in the namespace of
// the page, unless no right is lacking. The pages of a viewer have a hint of their own.
func TestHintWithoutRights(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Group: appv1.GroupVersion.Group, Resource: "apps"}
	forbidden, notFound := status(apierrors.NewForbidden(gr, "", errors.New("no right"))), status(apierrors.NewNotFound(gr, ""))
	for name, c := range map[string]struct {
		options uiOptions
		answer  *metav1.Status
		want    string
	}{
		"a namespace":    {uiOptions{}, forbidden, `you may not list them in shop; ask for this right, or see "kubectl happ check -n shop"`},
		"all namespaces": {uiOptions{selection: selection{allNamespaces: true}}, forbidden, `you may not list them in all namespaces; ask for this right, or see "kubectl happ check"`},
		"a viewer":       {uiOptions{selection: selection{allNamespaces: true}, viewer: true}, forbidden, "you may not list them in all namespaces"},
		"no kinds":       {uiOptions{}, notFound, "the cluster does not have the kind"},
	} {
		server := newFakeServer(t, nil)
		server.answer = func(*http.Request, string) runtime.Object { return c.answer }
		from := c.options.newReader(server.clients(t))
		news := make(chan struct{}, 1)
		feed := from.FollowTopic(t.Context(), ui.Topic{}, func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		err := error(nil)
		for err == nil {
			<-news
			_, err = feed.ListResources()
		}
		if want := ui.ErrNoKind.Error() + ": " + c.want; err.Error() != want {
			t.Errorf("%s: %q, want %q", name, err, want)
		}
		_, hint, _ := strings.Cut(c.want, "; ")
		if _, err := from.ListResources(t.Context()); !c.options.viewer && c.answer == forbidden && !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: a page that is opened has another hint than %q: %v", name, c.want, err)
		}
	}
}

// TestAwaySinceTheLastAnswer has a watch end after the pulse has stopped: the page is of the last answer, and stays so while the watch is not back.
func TestAwaySinceTheLastAnswer(t *testing.T) {
	last := time.Now().Add(-time.Minute)
	f, p := &feed{changed: func() {}, silent: last}, &part{listed: true}
	f.parts = []*part{p}
	_ = f.noteAnswer(t.Context(), p, true, errors.New("connection refused"))
	for _, silent := range []time.Time{last, {}} {
		f.silent = silent
		if got := f.State().Away; !got.Equal(last) {
			t.Errorf("away since %s, want %s", got, last)
		}
	}
	_ = f.noteAnswer(t.Context(), p, true, nil)
	if got := f.State().Away; !got.IsZero() {
		t.Errorf("it answers, and is away since %s", got)
	}
	_ = f.noteAnswer(t.Context(), p, true, errors.New("connection refused"))
	if got := f.State().Away; !got.After(last) {
		t.Errorf("away since %s", got)
	}
}

// TestPulse follows an API server that answers, hangs, refuses and fails. It is away since its last answer, and the requests of many topics
// are those of one.
func TestPulse(t *testing.T) {
	gr := schema.GroupResource{Resource: "version"}
	var answer error
	asked := 0
	p := &pulse{ask: func(context.Context) error {
		asked++
		return answer
	}}
	check := func(what string, err error, away bool) {
		t.Helper()
		p.mu.Lock()
		p.asked = time.Time{}
		p.mu.Unlock()
		answer = err
		if answered, got := p.checkPulse(t.Context()); got.IsZero() == away || away && !answered.IsZero() && !got.Equal(answered) || !away && answered.IsZero() {
			t.Errorf("%s: away since %s, the last answer was at %s", what, got, answered)
		}
	}
	check("no answer at all", context.DeadlineExceeded, true)
	check("an answer", nil, false)
	check("a time-out", context.DeadlineExceeded, true)
	check("still none", io.ErrUnexpectedEOF, true)
	check("no right", apierrors.NewForbidden(gr, "", errors.New("no right")), false)
	check("a failing server", apierrors.NewInternalError(errors.New("etcd")), true)
	check("an answer again", nil, false)
	before := asked
	for range 10 {
		p.checkPulse(t.Context())
	}
	if asked != before {
		t.Errorf("%d requests for 10 topics", asked-before)
	}
	ctx, end := context.WithCancel(t.Context())
	changes := 0
	f := &feed{ctx: ctx, changed: func() {
		changes++
		end()
	}}
	answer, p.asked = io.ErrUnexpectedEOF, time.Time{}
	f.feelPulse(p)
	if changes != 1 || f.State().Away.IsZero() {
		t.Errorf("%d changes, the state is %+v", changes, f.State())
	}
}

// TestSilentWatch knows a watch that was not answered in time, for which client-go returns no error.
func TestSilentWatch(t *testing.T) {
	started := errors.New("refused")
	for _, c := range []struct {
		w         watch.Interface
		err, want error
	}{{watch.NewEmptyWatch(), nil, errSilent}, {watch.NewFake(), nil, nil}, {nil, started, started}} {
		if got := answeredWatch(c.w, c.err); !errors.Is(got, c.want) {
			t.Errorf("%T, %v: %v, want %v", c.w, c.err, got, c.want)
		}
	}
}
