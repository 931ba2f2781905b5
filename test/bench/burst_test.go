// Package bench measures the manager against the least that the same work costs a plain client, in one run on one API
// server, so that the ratio means something on any machine. Run it with
//
//	make test PKG=./test/bench RUN=NONE TESTFLAGS='-bench . -benchtime 1x'
package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

const (
	// apps is how many Apps are created at once.
	apps = 300
	// clients is how many clients create them.
	clients = 16
)

var plane *harness.Plane

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run() // "go test ./..." measures nothing, and needs no API server for it.
	}
	var err error
	if plane, err = harness.Bare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}()
	return m.Run()
}

// BenchmarkBurst creates many Apps at once, by turns with a plain client that posts each App, its Deployment and its
// Service itself.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		floor := burstFloor(b)
		rate, latencies := burstManager(b)
		slices.Sort(latencies)
		b.ReportMetric(floor, "floor-CRs/s")
		b.ReportMetric(rate, "CRs/s")
		b.ReportMetric(rate/floor, "ratio")
		b.ReportMetric(latencies[len(latencies)/2].Seconds(), "p50-s")
		b.ReportMetric(latencies[len(latencies)*99/100].Seconds(), "p99-s")
	}
}

// burstFloor returns how many Apps a second a plain client makes together with their children.
func burstFloor(b *testing.B) float64 {
	b.Helper()
	ns := plane.Namespace(b)
	began := time.Now()
	parallel(b, func(ctx context.Context, i int) error {
		app := newApp(ns, i)
		if err := plane.Client.Create(ctx, app); err != nil {
			return err
		}
		w, errs := resource.App(app, resource.Observed{Inputs: resource.Inputs{Rendering: resource.RenderingLatest}})
		if len(errs) > 0 {
			return errs.ToAggregate()
		}
		if err := plane.Client.Create(ctx, resource.Deployment(w)); err != nil {
			return err
		}
		return plane.Client.Create(ctx, resource.Service(w))
	})
	return apps / time.Since(began).Seconds()
}

// burstManager returns how many Apps a second the manager makes, and the time from each App's creation to that of the
// later of its two children, as a watch of them sees it.
func burstManager(b *testing.B) (rate float64, latencies []time.Duration) {
	b.Helper()
	ns := plane.Namespace(b)
	m := plane.Start(b, ns)
	m.Idle(b)

	created := make([]time.Time, apps)
	done := watchChildren(b, ns)
	began := time.Now()
	parallel(b, func(ctx context.Context, i int) error {
		created[i] = time.Now()
		return plane.Client.Create(ctx, newApp(ns, i))
	})
	var complete map[string]time.Time
	select {
	case complete = <-done:
	case <-time.After(2 * time.Minute):
		b.Fatalf("not all children exist after two minutes; the manager's last requests: %v", tail(m.Requests.All(), 20))
	}
	var last time.Time
	for name, at := range complete {
		var i int
		if _, err := fmt.Sscanf(name, "app-%d", &i); err != nil {
			b.Fatal(err)
		}
		latencies = append(latencies, at.Sub(created[i]))
		if at.After(last) {
			last = at
		}
	}
	m.Idle(b)
	m.Stop(b)
	return apps / last.Sub(began).Seconds(), latencies
}

func tail[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// watchChildren returns a channel that gives, once every App has both children, the time at which each had them.
func watchChildren(b *testing.B, ns string) <-chan map[string]time.Time {
	b.Helper()
	c, err := client.NewWithWatch(plane.Config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	events := make(chan watch.Event)
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		w, err := c.Watch(b.Context(), list, client.InNamespace(ns))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				events <- e
			}
		}()
	}
	done := make(chan map[string]time.Time, 1)
	go func() {
		seen, complete := map[string]int{}, map[string]time.Time{}
		for e := range events {
			obj, ok := e.Object.(client.Object)
			if e.Type != watch.Added || !ok {
				continue
			}
			if seen[obj.GetName()]++; seen[obj.GetName()] == 2 {
				complete[obj.GetName()] = time.Now()
			}
			if len(complete) == apps {
				done <- complete
				return
			}
		}
	}()
	return done
}

// parallel calls f for each number below apps, from several clients at once.
func parallel(b *testing.B, f func(ctx context.Context, i int) error) {
	b.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range clients {
		wg.Go(func() {
			for i := range next {
				if err := f(b.Context(), i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range apps {
		next <- i
	}
	close(next)
	wg.Wait()
}

func newApp(ns string, i int) *appv1.App {
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("app-%d", i)}}
	app.Spec.Replicas = ptr.To[int32](2)
	app.Spec.Image = "nginx:1.16.1"
	app.Spec.Ports = []appv1.Port{{Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80))}}
	return app
}
