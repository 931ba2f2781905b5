package bench

import (
	"context"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// image is what Apps are changed to.
const image = "nginx:1.17.0"

// BenchmarkLife measures the life of so many Apps: all are created at once, changed at once, lose their Services at once, are
// left alone, and meet a manager that was restarted.
func BenchmarkLife(b *testing.B) {
	for _, n := range sizes {
		for round := range roundsOf(n) {
			if n > most {
				lifeOfManager(b, n, round)
				continue
			}
			lives := []func(*testing.B, int, int){lifeOfA, lifeOfB, lifeOfManager}
			for i := range lives {
				lives[(i+round)%len(lives)](b, n, round)
			}
			found.divide("burst", n, floorA)
			found.divide("burst", n, floorB)
			found.divide("change", n, floorB)
			found.divide("drift", n, floorB)
		}
	}
}

// most is for how many Apps the floors are measured. With more of them only the manager is, for its growth.
const most = 5000

// roundsOf is how often a number of Apps is measured: the many take long, and differ less.
func roundsOf(n int) int { return max(1, min(rounds, 10000/n)) }

func lifeOfA(b *testing.B, n, round int) {
	b.Helper()
	w := bare(b)
	defer w.end(b)
	rate := w.burst(b, n, w.post)
	progress("%d Apps, round %d: floor A makes %.0f a second", n, round+1, rate)
	found.add("burst", n, floorA, "Apps/s", rate)
}

func lifeOfB(b *testing.B, n, round int) {
	b.Helper()
	w := bare(b)
	defer w.end(b)
	rate := w.burst(b, n, w.apply)
	found.add("burst", n, floorB, "Apps/s", rate)

	seen := w.observe(b, n, changed, deployment, status)
	began := time.Now()
	each(b, n, w.change)
	seen.wait(b)
	changes := seen.rate(began)
	found.add("change", n, floorB, "Apps/s", changes)

	var apps appv1.AppList
	if err := w.client.List(b.Context(), &apps); err != nil {
		b.Fatal(err)
	}
	w.deleteServices(b, n)
	seen = w.observe(b, n, made, service)
	began = time.Now()
	each(b, n, func(ctx context.Context, i int) error {
		app := &apps.Items[i]
		_, s, err := children(app)
		if err != nil {
			return err
		}
		if err := w.applied(ctx, s); err != nil {
			return err
		}
		return w.tell(ctx, app)
	})
	seen.wait(b)
	took := seen.took(began).Seconds()
	found.add("drift", n, floorB, "s", took)
	progress("%d Apps, round %d: floor B makes %.0f, changes %.0f a second, gives Services back in %.2f s", n, round+1, rate, changes, took)
}

// burst makes many Apps by way of f, and returns how many a second.
func (w *world) burst(b *testing.B, n int, f func(ctx context.Context, i int) error) float64 {
	b.Helper()
	seen := w.observe(b, n, made, deployment, service, status)
	began := time.Now()
	each(b, n, f)
	seen.wait(b)
	// Not when the last step was taken: an event, which is not observed, may come after that.
	return float64(n) / time.Since(began).Seconds()
}

func lifeOfManager(b *testing.B, n, round int) {
	b.Helper()
	w := bare(b)
	defer w.end(b)
	o := w.start(b, "")
	o.settle(b)
	before := o.figures(b)
	w.created(b, o, n, round)
	o.settle(b)
	after := o.figures(b)
	w.weighed(b, n)
	found.add("memory, once all are made", n, manager, "MiB", after.resident)
	found.add("processor time for the making of 1,000", n, manager, "s", (after.cpu-before.cpu)*1000/float64(n))
	found.add("looks at an App until it is made", n, manager, "", float64(after.reconciles-before.reconciles)/float64(n))
	w.edited(b, o, n, round)
	w.drifted(b, o, n, round)
	if round == 0 {
		w.idled(b, o, n)
	}
	found.add("memory, most", n, manager, "MiB", o.peak(b))
	o.stop(b)
	w.restarted(b, n, round)
}

// weighed notes what Apps and their children cost the API server and etcd.
func (w *world) weighed(b *testing.B, n int) {
	b.Helper()
	server := w.metrics(b)
	found.add("memory", n, "API server", "MiB", mebibytes(server["process_resident_memory_bytes"]))
	found.add("database", n, "etcd", "MiB", mebibytes(server["apiserver_storage_size_bytes"]))
	total := 0
	for _, path := range []string{"/apis/app.huolala.cn/v1/apps", "/apis/apps/v1/deployments", "/api/v1/services"} {
		text, err := w.discovery.Discovery().RESTClient().Get().AbsPath(path).
			SetHeader("Accept", "application/vnd.kubernetes.protobuf, application/json").DoRaw(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		total += len(text)
	}
	found.add("all lists", n, "API server", "MiB", float64(total)/(1<<20))
}

// created creates all Apps.
func (w *world) created(b *testing.B, o *operator, n, round int) {
	b.Helper()
	seen := w.observe(b, n, made, deployment, service, status)
	asked := w.requests(b)
	created := make([]time.Time, n)
	began := time.Now()
	each(b, n, func(ctx context.Context, i int) error {
		created[i] = time.Now()
		return w.submit(ctx, i)
	})
	seen.wait(b)
	rate := seen.rate(began)
	found.add(w.burstName(), n, manager, "Apps/s", rate)
	at := map[string]time.Time{}
	for i, t := range created {
		at[w.app(i).Name] = t
	}
	latencies := seen.latencies(at)
	for _, q := range quantiles {
		found.add(w.burstName()+", "+q.name, n, manager, "s", quantile(latencies, q.at).Seconds())
	}
	o.settle(b)
	cost := w.requests(b).since(asked)
	delete(cost, "post apps") // That was us.
	found.count("making an App", n, cost)
	progress("%d Apps, round %d: the manager makes %.0f a second, p50 %.2f s, p99 %.2f s; %s", n, round+1, rate,
		quantile(latencies, 0.5).Seconds(), quantile(latencies, 0.99).Seconds(), cost)
}

// edited gives all Apps another image.
func (w *world) edited(b *testing.B, o *operator, n, round int) {
	b.Helper()
	seen := w.observe(b, n, changed, deployment, status)
	asked := w.requests(b)
	began := time.Now()
	each(b, n, func(ctx context.Context, i int) error {
		_, err := w.edit(ctx, i)
		return err
	})
	seen.wait(b)
	rate := seen.rate(began)
	found.add("change", n, manager, "Apps/s", rate)
	o.settle(b)
	cost := w.requests(b).since(asked)
	delete(cost, "patch apps") // That was us.
	found.count("changing an image", n, cost)
	progress("%d Apps, round %d: the manager changes %.0f a second; %s", n, round+1, rate, cost)
}

// drifted deletes all Services while the manager is held, and measures from the moment that it goes on.
func (w *world) drifted(b *testing.B, o *operator, n, round int) {
	b.Helper()
	o.Signal(b, syscall.SIGSTOP)
	w.deleteServices(b, n)
	seen := w.observe(b, n, made, service)
	asked := w.requests(b)
	began := time.Now()
	o.Signal(b, syscall.SIGCONT)
	seen.wait(b)
	took := seen.took(began).Seconds()
	found.add("drift", n, manager, "s", took)
	o.settle(b)
	cost := w.requests(b).since(asked)
	found.count("giving a Service back", n, cost)
	progress("%d Apps, round %d: the manager gives Services back in %.2f s; %s", n, round+1, took, cost)
}

func (w *world) deleteServices(b *testing.B, n int) {
	b.Helper()
	each(b, n, func(ctx context.Context, i int) error {
		app := w.app(i)
		return w.client.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}})
	})
}

const (
	// collected is a time within which Go's runtime has collected, which it does at least every two minutes.
	collected = 150 * time.Second
	// restMemory is the figure of a manager that has nothing to do and has told of nothing: the recorder of events, which is
	// client-go's, keeps each for six to twelve minutes, should it happen again.
	restMemory = "memory, at rest"
	// settledMemory is that of one that has just done something to all Apps, and keeps the events.
	settledMemory = "memory, settled"
	// restartMemory is that of a manager that has been started over all Apps.
	restartMemory = "restart, memory"
)

// idled watches what a manager asks for that has nothing to do, and what memory it has then: of many Apps once it is
// collected, with the events that tell of what was done to them.
func (w *world) idled(b *testing.B, o *operator, n int) {
	b.Helper()
	asked, cpu := w.requests(b), o.figures(b).cpu
	pass(b, time.Minute)
	cost := w.requests(b).since(asked)
	found.add("requests in 60 idle seconds", n, manager, "", float64(cost.total()))
	found.add("processor time in 60 idle seconds", n, manager, "s", o.figures(b).cpu-cpu)
	if n >= most {
		pass(b, collected-time.Minute)
	}
	resident := o.figures(b).resident
	found.add(settledMemory, n, manager, "MiB", resident)
	progress("%d Apps: %d requests in an idle minute, %.0f MiB", n, cost.total(), resident)
}

// restarted starts a manager that finds all Apps as they should be.
func (w *world) restarted(b *testing.B, n, round int) {
	b.Helper()
	began := time.Now()
	w.decode(b)
	floor := time.Since(began).Seconds()
	found.add("restart", n, lists, "s", floor)

	asked := w.requests(b)
	o := w.start(b, "")
	took := o.through(b, n)
	cost := w.requests(b).since(asked)
	found.add("restart", n, manager, "s", took)
	found.divide("restart", n, lists)
	found.add("restart, writes", n, manager, "", float64(cost.writes()))
	found.add("restart, events", n, manager, "", float64(cost["post events"]))
	found.add(restartMemory, n, manager, "MiB", o.figures(b).resident)
	found.add("restart, memory, most", n, manager, "MiB", o.peak(b))
	found.add("restart, processor time", n, manager, "s", o.figures(b).cpu)
	if n >= most && round == 0 {
		pass(b, collected)
		resident := o.figures(b).resident
		found.add(restMemory, n, manager, "MiB", resident)
		progress("%d Apps: %.0f MiB at rest", n, resident)
	}
	progress("%d Apps, round %d: a new manager is idle after %.2f s (the lists take %.2f s); %s", n, round+1, took, floor, cost)
	o.stop(b)
}

// decode lists what the manager's caches hold, and decodes it.
func (w *world) decode(b *testing.B) {
	b.Helper()
	var apps appv1.AppList
	var deployments appsv1.DeploymentList
	var services corev1.ServiceList
	if err := w.client.List(b.Context(), &apps); err != nil {
		b.Fatal(err)
	}
	if err := w.client.List(b.Context(), &deployments); err != nil {
		b.Fatal(err)
	}
	if err := w.client.List(b.Context(), &services); err != nil {
		b.Fatal(err)
	}
}
