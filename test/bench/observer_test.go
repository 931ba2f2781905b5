package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

// step is something that becomes true of an App and of what belongs to it.
type step string

const (
	deployment step = "the Deployment is as wanted"
	service    step = "the Service is there"
	status     step = "the status speaks of it"
	ready      step = "the App is ready"
)

// observer follows the Apps of a world and their children, as a user would, and notes when each step was first seen.
type observer struct {
	number int
	steps  map[step]map[string]time.Time
	events chan watch.Event
	done   chan struct{}
	taken  func(watch.Event) (step, bool)
	// err is that of a stream that cannot go on.
	err error
}

// observe follows a number of Apps until the steps were taken for each of them, in what happens from now on. taken says
// which step an event shows.
func (w *world) observe(b *testing.B, number int, taken func(watch.Event) (step, bool), steps ...step) *observer {
	b.Helper()
	o := &observer{number: number, steps: map[step]map[string]time.Time{}, events: make(chan watch.Event, 100), done: make(chan struct{}), taken: taken}
	for _, s := range steps {
		o.steps[s] = map[string]time.Time{}
	}
	lists := map[client.ObjectList]bool{
		&appsv1.DeploymentList{}: o.steps[deployment] != nil,
		&corev1.ServiceList{}:    o.steps[service] != nil,
		&appv1.AppList{}:         o.steps[status] != nil || o.steps[ready] != nil,
	}
	ctx, cancel := context.WithCancel(b.Context())
	for list, wanted := range lists {
		if wanted {
			w.follow(ctx, b, list, o.events)
		}
	}
	go func() {
		defer cancel()
		for !o.complete() && o.err == nil {
			select {
			case e := <-o.events:
				o.note(e)
			case <-ctx.Done():
				return
			}
		}
		close(o.done)
	}()
	return o
}

// follow sends what happens to the objects of a list from now on. It goes on where a stream has ended.
func (w *world) follow(ctx context.Context, b *testing.B, list client.ObjectList, events chan<- watch.Event) {
	b.Helper()
	if err := w.client.List(ctx, list, client.InNamespace(w.watched()), client.Limit(1)); err != nil {
		b.Fatal(err)
	}
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &watcher{w, list})
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for e := range stream.ResultChan() {
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// watched is the namespace to watch: that of the Apps, or all.
func (w *world) watched() string {
	if w.shards > 0 {
		return ""
	}
	return w.namespace
}

// watcher opens streams of a list.
type watcher struct {
	world *world
	list  client.ObjectList
}

// WatchWithContext implements cache.WatcherWithContext.
func (w *watcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.world.client.Watch(ctx, w.list, &client.ListOptions{Namespace: w.world.watched(), Raw: &options})
}

func (o *observer) complete() bool {
	for _, seen := range o.steps {
		if len(seen) < o.number {
			return false
		}
	}
	return true
}

func (o *observer) note(e watch.Event) {
	if e.Type == watch.Bookmark {
		return
	}
	obj, ok := e.Object.(client.Object)
	if !ok {
		o.err = apierrors.FromObject(e.Object)
		return
	}
	if s, ok := o.taken(e); ok && o.steps[s] != nil {
		if _, known := o.steps[s][obj.GetName()]; !known {
			o.steps[s][obj.GetName()] = time.Now()
		}
	}
}

// wait returns once all steps were taken.
func (o *observer) wait(b *testing.B) {
	b.Helper()
	select {
	case <-o.done:
		if o.err != nil {
			b.Fatalf("a stream has ended: %v", o.err)
		}
	case <-time.After(patience):
		b.Fatalf("not done after %s", patience)
	}
}

// took is how long it was until the last step was taken.
func (o *observer) took(began time.Time) time.Duration {
	var longest time.Duration
	for _, seen := range o.steps {
		for _, at := range seen {
			longest = max(longest, at.Sub(began))
		}
	}
	return longest
}

// rate is how many Apps a second that makes.
func (o *observer) rate(began time.Time) float64 { return float64(o.number) / o.took(began).Seconds() }

// latencies are the times from the creation of each App to that of the later of its children, in order.
func (o *observer) latencies(created map[string]time.Time) []time.Duration {
	var all []time.Duration
	for name, began := range created {
		all = append(all, max(o.steps[deployment][name].Sub(began), o.steps[service][name].Sub(began)))
	}
	slices.Sort(all)
	return all
}

// quantiles are those that are told.
var quantiles = []struct {
	name string
	at   float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"most", 1}}

// quantile of an ordered list.
func quantile(ordered []time.Duration, q float64) time.Duration {
	return ordered[min(len(ordered)-1, int(float64(len(ordered))*q))]
}

// made tells of new children, and of the first status.
func made(e watch.Event) (step, bool) {
	switch obj := e.Object.(type) {
	case *appsv1.Deployment:
		return deployment, e.Type == watch.Added
	case *corev1.Service:
		return service, e.Type == watch.Added
	case *appv1.App:
		return status, obj.Status.ObservedGeneration == obj.Generation
	}
	return "", false
}

// changed tells of Deployments with the new image, and of the status after that.
func changed(e watch.Event) (step, bool) {
	switch obj := e.Object.(type) {
	case *appsv1.Deployment:
		return deployment, obj.Spec.Template.Spec.Containers[0].Image == image
	case *appv1.App:
		return status, obj.Spec.Image == image && obj.Status.ObservedGeneration == obj.Generation
	}
	return "", false
}
