package bench

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"huolala.cn/app-operator/test/harness"
)

// operator is the manager's process.
type operator struct {
	*harness.Process
	metrics string
	began   time.Time
}

// start runs the manager as config/manager does, but for its webhooks: no API server calls those of a process by the name
// of a Service. It returns once the manager is ready.
func (w *world) start(b *testing.B, namespaces string) *operator {
	b.Helper()
	var deployment appsv1.Deployment
	if err := harness.Load("config/manager/manager.yaml", &corev1.Namespace{}, &deployment); err != nil {
		b.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	env := []string{"POD_NAMESPACE=" + harness.SystemNamespace}
	for _, e := range container.Env {
		if e.ValueFrom == nil && e.Name != "WATCH_NAMESPACE" { // The namespaces are the caller's.
			env = append(env, e.Name+"="+e.Value)
		}
	}
	if w.memory != "" {
		env = append(env, "GOMEMLIMIT="+w.memory) // The last one counts.
	}
	// What depends on where it runs.
	flags := slices.DeleteFunc(container.Args, func(arg string) bool { return strings.Contains(arg, "-bind-address=") })
	o := &operator{metrics: harness.FreeAddress(b)}
	flags = append(flags, "--leader-election-namespace="+harness.SystemNamespace,
		"--metrics-bind-address="+o.metrics, "--metrics-secure=false", "--pprof-bind-address="+os.Getenv("BENCH_PPROF"))
	o.began = time.Now()
	o.Process = harness.SpawnWith(b, env, program, w.ManagerConfig(), namespaces, flags...)
	o.Ready(b)
	return o
}

// stop ends the manager in good order.
func (o *operator) stop(b *testing.B) {
	b.Helper()
	o.Signal(b, syscall.SIGTERM)
	select {
	case <-o.Ended():
	case <-time.After(patience):
		b.Fatalf("the manager did not end within %s", patience)
	}
}

// figures are what the manager says of itself.
type figures struct {
	// resident is its memory in MiB, cpu its processor time in seconds.
	resident, cpu float64
	// reconciles is how often an App was looked at, depth how many wait for that or are looked at.
	reconciles, depth int
}

func (o *operator) figures(b *testing.B) figures {
	b.Helper()
	resp, err := http.Get("http://" + o.metrics + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	families := parse(b, string(text))
	sum := func(name string, wanted ...string) (total float64) {
		for _, m := range families[name].GetMetric() {
			if len(wanted) == 0 || labels(m)[wanted[0]] == wanted[1] {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return total
	}
	return figures{
		resident:   sum("process_resident_memory_bytes") / (1 << 20),
		cpu:        sum("process_cpu_seconds_total"),
		reconciles: int(sum("controller_runtime_reconcile_total", "controller", "app")),
		depth:      int(sum("workqueue_depth", "name", "app") + sum("controller_runtime_active_workers", "controller", "app")),
	}
}

// peak is the most memory in MiB that the manager has had.
func (o *operator) peak(b *testing.B) float64 {
	b.Helper()
	return float64(o.PeakMemory(b)) / (1 << 20)
}

// through waits until the manager has looked at so many Apps and has nothing to do, and returns how many seconds that took
// from its start.
func (o *operator) through(b *testing.B, apps int) float64 {
	b.Helper()
	for o.figures(b).reconciles < apps {
		pass(b, pause)
	}
	return o.settle(b).Sub(o.began).Seconds()
}

// pause is how long it is between two questions to the manager, which cost it time.
const pause = 100 * time.Millisecond

// settle waits until the manager has nothing to do for a while, and returns when that began.
func (o *operator) settle(b *testing.B) time.Time {
	b.Helper()
	const quiet = 3 * time.Second
	var before figures
	since := time.Now()
	for deadline := since.Add(patience); time.Since(since) < quiet; pass(b, pause) {
		if time.Now().After(deadline) {
			b.Fatalf("the manager has not settled after %s", patience)
		}
		now := o.figures(b)
		if now.depth > 0 || now.reconciles != before.reconciles {
			since = time.Now()
		}
		before = now
	}
	return since
}
