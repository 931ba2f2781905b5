package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

const (
	// pollPause is the time between two lists of what may not be watched, or between two attempts to list what may not be listed,
	// and retryPause between two attempts to reach an API server that does not answer.
	pollPause, retryPause = 10 * time.Second, 2 * time.Second
)

// FollowTopic implements ui.Follower.
func (r reader) FollowTopic(ctx context.Context, topic ui.Topic, changed func()) ui.Feed {
	f := &feed{ctx: ctx, clients: r.clients, hint: r.hint, changed: changed}
	go f.feelPulse(r.pulse)
	if topic.Name == "" {
		f.followAll(r.selection, r.row)
	} else if kind, known := view.KindOf(topic.Kind); known {
		f.followOne(target{kind, topic.Namespace, topic.Name}) //nolint:contextcheck // The feed has it.
	}
	return f
}

// feed has the watches for the pages of a topic.
type feed struct {
	ctx     context.Context //nolint:containedctx // It ends the feed.
	clients *clients
	// hint is the end of a problem that a right solves.
	hint    string
	changed func()
	// rows are the rows of each kind, for the list.
	rows []rowsOf

	mu    sync.Mutex
	parts []*part
	// heard is the time of the API server's last answer, and silent since when it gives no sign of life, zero while it does.
	heard, silent time.Time
	// endChildren ends the watches of the objects below a resource, children identifies these watches.
	endChildren context.CancelFunc
	children    children
}

// rowsOf are the rows of a kind.
type rowsOf struct {
	*store[view.Row]
	part *part
}

// part is a type of objects that is listed, and then watched.
type part struct {
	// kinds is the kind in the plural, as a person reads it.
	kinds, namespace string
	// required is true if there is nothing to follow without it.
	required bool
	// missing is why the objects cannot be listed, unwatched why they cannot be watched. forbidden is true if a right to list them is missing. away is the
	// time since when there is no answer.
	missing, unwatched string
	forbidden          bool
	away               time.Time
	// listed is true once the objects have been listed, and until they cannot be listed any longer. refusals is how many lists in a row were refused.
	listed   bool
	refusals int
}

// noteRefusal notes that the API server refuses to list a part. A server that has just started refuses all lists until it has read the rights: a part that is
// listed is missing after the second refusal in a row alone.
func (p *part) noteRefusal(err error) {
	p.away = time.Time{}
	if p.refusals++; p.refusals > 1 || !p.listed {
		p.missing, p.forbidden, p.listed = pageRefusal(err, p.namespace), apierrors.IsForbidden(err), false
	}
}

// watcher lists and watches the objects of a type in a namespace.
type watcher[L runtime.Object] interface {
	lister[L]
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// followObjects lists and watches the chosen objects until the context ends.
func followObjects[L runtime.Object](f *feed, ctx context.Context, p *part, c watcher[L], chosen metav1.ListOptions, into keeper) {
	into.reportTo(func() { f.changePart(p, func() { p.listed = true }) }, f.changed)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector, opts.FieldSelector = chosen.LabelSelector, chosen.FieldSelector
			list, err := c.List(ctx, opts)
			return list, f.noteAnswer(ctx, p, false, err)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector, opts.FieldSelector = chosen.LabelSelector, chosen.FieldSelector
			w, err := c.Watch(ctx, opts)
			return w, f.noteAnswer(ctx, p, true, answeredWatch(w, err))
		},
	}
	f.mu.Lock()
	f.parts = append(f.parts, p)
	f.mu.Unlock()
	reflector := cache.NewReflectorWithOptions(source, nil, into, cache.ReflectorOptions{TypeDescription: p.kinds})
	ctx = logr.NewContext(ctx, logr.Discard())
	go func() {
		for ctx.Err() == nil {
			_ = reflector.ListAndWatchWithContext(ctx) // The source has noted the error.
			select {
			case <-ctx.Done():
			case <-time.After(f.pauseOf(p)):
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.parts = slices.DeleteFunc(f.parts, func(other *part) bool { return other == p })
	}()
}

// pauseOf returns how long a part waits after its watch has ended, or could not be started.
func (f *feed) pauseOf(p *part) time.Duration {
	f.mu.Lock()
	now := *p
	f.mu.Unlock()
	switch {
	case !now.away.IsZero():
		return retryPause
	case now.missing != "" && now.required:
		f.changed() // No event reports a change.
		return pollPause
	case now.refusals > 0, now.missing != "", now.unwatched != "":
		return pollPause
	}
	return retryPause / 2
}

// changePart changes the state of a part, and calls changed if the state of the feed differs afterwards.
func (f *feed) changePart(p *part, change func()) {
	f.mu.Lock()
	before, listed := *p, p.listed
	change()
	after := *p
	f.mu.Unlock()
	if before.missing != after.missing || before.unwatched != after.unwatched || before.away != after.away || listed != after.listed {
		f.changed()
	}
}

// noteAnswer notes what the API server has answered. The reflector repeats some failed watches by itself, ever more rarely: it gets
// an error that it does not know, so that it is repeated here.
func (f *feed) noteAnswer(ctx context.Context, p *part, watched bool, err error) error {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		f.changePart(p, func() {
			f.heard, p.away, p.missing, p.refusals = time.Now(), time.Time{}, "", 0
			if watched {
				p.unwatched = ""
			}
		})
	case apierrors.IsForbidden(err) && watched:
		f.changePart(p, func() {
			p.away, p.unwatched = time.Time{}, strings.Replace(pageRefusal(err, p.namespace), "list", "watch", 1)
		})
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !watched:
		f.changePart(p, func() { p.noteRefusal(err) })
	case apierrors.IsGone(err), apierrors.IsResourceExpired(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsBadRequest(err):
	default:
		f.changePart(p, func() {
			if p.refusals = 0; !p.away.IsZero() {
				return
			}
			if p.away = time.Now(); !f.silent.IsZero() { // A watch notices the end of its connection later than the pulse.
				p.away = f.silent
			}
		})
		return errors.New(err.Error())
	}
	return err
}

// State implements ui.Feed.
func (f *feed) State() ui.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := ui.State{Begun: true, Heard: f.heard, Away: f.silent}
	for _, p := range f.parts {
		s.Begun = s.Begun && (p.listed || p.missing != "")
		if !p.away.IsZero() && (s.Away.IsZero() || p.away.Before(s.Away)) {
			s.Away = p.away
		}
		switch {
		case p.missing == "" && p.unwatched != "":
			s.Polled = append(s.Polled, view.Missing{Kinds: p.kinds, Why: p.unwatched})
		case p.missing != "" && p.required:
			s.Polled = append(s.Polled, view.Missing{Kinds: p.kinds, Why: p.missing})
		}
	}
	slices.SortFunc(s.Polled, func(a, b view.Missing) int { return strings.Compare(a.Kinds, b.Kinds) })
	return s
}

// ListResources implements ui.Feed. A kind that cannot be listed any longer has no rows; its earlier rows stay in its store.
func (f *feed) ListResources() (*view.List, error) {
	f.mu.Lock()
	var missing []view.Missing
	var reasons []string
	hint := ""
	var shown []rowsOf
	known := true
	for _, of := range f.rows {
		p := of.part
		if p.missing == "" {
			known = known && p.listed
			shown = append(shown, of)
			continue
		}
		missing = append(missing, view.Missing{Kinds: p.kinds, Why: p.missing})
		if p.forbidden {
			hint = f.hint
		}
		if !slices.Contains(reasons, p.missing) {
			reasons = append(reasons, p.missing)
		}
	}
	f.mu.Unlock()
	switch {
	case !known:
		return nil, nil
	case len(shown) == 0:
		return nil, fmt.Errorf("%w: %s%s", ui.ErrNoKind, strings.Join(reasons, "; "), hint)
	}
	var rows []view.Row
	for _, of := range shown {
		rows = append(rows, of.allValues()...)
	}
	return view.ListOf(rows, missing), nil
}

// followAll follows the resources of all kinds that are selected, and keeps their rows.
func (f *feed) followAll(s *selection, row func(*view.Resource) view.Row) {
	namespace := f.clients.namespace
	if s.allNamespaces {
		namespace = ""
	}
	chosen := metav1.ListOptions{LabelSelector: s.selector}
	for _, kind := range view.Kinds {
		rows := newStore(func(obj runtime.Object) view.Row {
			r, _ := view.ResourceOf(obj)
			return row(&r)
		})
		p := &part{kinds: pluralOf(kind), namespace: namespace}
		f.rows = append(f.rows, rowsOf{rows, p})
		f.followKind(kind, namespace, chosen, p, rows)
	}
}

// followKind follows resources of a kind.
func (f *feed) followKind(kind view.Kind, namespace string, chosen metav1.ListOptions, p *part, into keeper) {
	followObjects(f, f.ctx, p, f.clients.clientOf(kind, namespace), chosen, into)
}

// children identifies the watches of the objects below a resource. A change of children replaces the watches.
type children struct {
	uid, pods, workload string
	jobs                bool
}

// followOne follows a resource, and what changes below it as pods come and go.
func (f *feed) followOne(t target) {
	chosen := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", t.name).String()}
	p := &part{kinds: pluralOf(t.kind), namespace: t.namespace, required: true}
	f.followKind(t.kind, t.namespace, chosen, p, newStore(func(obj runtime.Object) string {
		r, _ := view.ResourceOf(obj)
		f.followChildren(t, &r)
		return versionOf(obj)
	}))
}

// followChildren follows the objects below a resource, unless they are followed already.
func (f *feed) followChildren(t target, r *view.Resource) {
	next := children{uid: string(r.ObjectMeta.UID), pods: podSelector(t, r), jobs: r.HasCommand}
	if len(r.Workloads) > 0 {
		next.workload = r.Workloads[0].Name
	}
	f.mu.Lock()
	if f.children == next {
		f.mu.Unlock()
		return
	}
	if f.endChildren != nil {
		f.endChildren()
	}
	ctx, end := context.WithCancel(f.ctx)
	f.children, f.endChildren = next, end
	f.mu.Unlock()
	pods := metav1.ListOptions{LabelSelector: next.pods}
	below := func(kinds string) *part { return &part{kinds: kinds, namespace: t.namespace} }
	core := f.clients.kube.CoreV1()
	followObjects(f, ctx, below("Pods"), core.Pods(t.namespace), pods, newStore(versionOf))
	followObjects(f, ctx, below("Events"), core.Events(t.namespace), eventsOf(t), newStore(versionOf))
	if t.kind.Scheduled {
		batch := f.clients.kube.BatchV1()
		followObjects(f, ctx, below("CronJobs"), batch.CronJobs(t.namespace), selectName(t.name), newStore(versionOf))
		followObjects(f, ctx, below("Jobs"), batch.Jobs(t.namespace), pods, newStore(versionOf))
		return
	}
	ours, apps := oursOf(t, r), f.clients.kube.AppsV1()
	followObjects(f, ctx, below("Deployments"), apps.Deployments(t.namespace), workloadsOf(t, r), newStore(versionOf))
	followObjects(f, ctx, below("ReplicaSets"), apps.ReplicaSets(t.namespace), pods, newStore(versionOf))
	followObjects(f, ctx, below("Services"), core.Services(t.namespace), ours, newStore(versionOf))
	if next.jobs {
		jobs := jobsOf(t)
		followObjects(f, ctx, below("Jobs"), f.clients.kube.BatchV1().Jobs(t.namespace), jobs, newStore(versionOf))
		followObjects(f, ctx, below("Pods"), core.Pods(t.namespace), jobs, newStore(versionOf))
	}
	if r.KeepsData() {
		followObjects(f, ctx, below("StatefulSets"), apps.StatefulSets(t.namespace), ours, newStore(versionOf))
	}
}

// versionOf identifies what an object is like: it is another one after each change.
func versionOf(obj runtime.Object) string {
	o, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}
