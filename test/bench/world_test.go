package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/test/harness"
)

const (
	// clients is how many clients there are at once.
	clients = 16
	// warmth is how long a new API server is left alone.
	warmth = 10 * time.Second
	// patience is how long anything may take.
	patience = 15 * time.Minute
)

// world is a new control plane with a namespace for the Apps.
type world struct {
	*harness.Plane
	namespace string
	// shards, if it is not 0, is over how many namespaces the Apps are spread; see shard.
	shards int
	// headless is true if the Services of the Apps have no address of the cluster's.
	headless bool
	// memory, if it is not empty, takes the place of config/manager's GOMEMLIMIT.
	memory    string
	client    client.WithWatch
	discovery kubernetes.Interface
}

// bare starts an API server and an etcd, which end with end.
func bare(b *testing.B) *world {
	b.Helper()
	plane, err := harness.StartAPIServer()
	if err != nil {
		b.Fatal(err)
	}
	w := in(b, plane)
	pass(b, warmth) // An API server that says it is ready goes on starting for a while, at the cost of who comes first.
	return w
}

func in(b *testing.B, plane *harness.Plane) *world {
	b.Helper()
	w := &world{Plane: plane}
	var err error
	if w.client, err = client.NewWithWatch(plane.Config, client.Options{Scheme: harness.Scheme()}); err != nil {
		b.Fatal(err)
	}
	if w.discovery, err = kubernetes.NewForConfig(plane.Config); err != nil {
		b.Fatal(err)
	}
	w.namespace = "bench"
	w.addNamespace(b, w.namespace)
	return w
}

func (w *world) addNamespace(b *testing.B, name string) {
	b.Helper()
	if err := w.client.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		b.Fatal(err)
	}
}

// shard is the namespace of the App of a number.
func (w *world) shard(i int) string {
	if w.shards == 0 {
		return w.namespace
	}
	return fmt.Sprintf("%s-%d", w.namespace, i%w.shards)
}

func (w *world) end(b *testing.B) {
	b.Helper()
	if err := w.Stop(); err != nil {
		b.Errorf("stop the control plane: %v", err)
	}
	// Now, so that a run which is ended early leaves what it has found.
	if err := found.save(os.Getenv("BENCH_OUT")); err != nil {
		b.Errorf("write the report: %v", err)
	}
}

// app returns the App of a number, as a user would write it.
func (w *world) app(i int) *appv1.App {
	app := &appv1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: resource.KindApp.Name},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.shard(i), Name: fmt.Sprintf("app-%05d", i)},
	}
	app.Spec.Replicas = ptr.To[int32](2)
	app.Spec.Image = "nginx:1.16.1"
	app.Spec.Ports = []appv1.Port{{Port: 8080, TargetPort: ptr.To(intstr.FromInt32(80))}}
	if w.headless {
		app.Spec.Service.ClusterIP = corev1.ClusterIPNone
	}
	return app
}

// submit creates the App of a number.
func (w *world) submit(ctx context.Context, i int) error { return w.client.Create(ctx, w.app(i)) }

// each calls f for each number below n, from several clients at once.
func each(b *testing.B, n int, f func(ctx context.Context, i int) error) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(clients)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// pass lets time pass, for it is time that is measured.
func pass(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-time.After(d):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}

// counts are requests, by verb and resource, such as "apply deployments".
type counts map[string]int

// since is what came on top of counts before.
func (c counts) since(before counts) counts {
	c = maps.Clone(c)
	for name, n := range before {
		c[name] -= n
	}
	maps.DeleteFunc(c, func(_ string, n int) bool { return n == 0 })
	return c
}

// writes is how many of them write an object. Events are none.
func (c counts) writes() int {
	total := 0
	for name, n := range c {
		switch verb, resource, _ := strings.Cut(name, " "); {
		case verb == "get" || verb == "list" || verb == "watch" || resource == "events":
		default:
			total += n
		}
	}
	return total
}

func (c counts) total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// String lists them.
func (c counts) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, c[name]))
	}
	return strings.Join(parts, ", ")
}

// concerns are the resources that the manager has to do with. Of all others the API server asks itself, too.
var concerns = map[string]bool{
	"apps": true, "modelboxes": true, "uniteddeployments": true, "cloudmanagers": true, "tasks": true, "deployments": true,
	"statefulsets": true, "services": true, "pods": true, "horizontalpodautoscalers": true,
	"persistentvolumeclaims": true, "secrets": true, "events": true,
	"serviceaccounts": true, "networkpolicies": true, "poddisruptionbudgets": true, "ingresses": true, "httproutes": true,
	"podmonitors": true, "cronjobs": true, "jobs": true,
}

// metrics returns those of the API server.
func (w *world) metrics(b *testing.B) map[string]*dto.MetricFamily {
	b.Helper()
	text, err := w.discovery.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return parse(b, string(text))
}

// mebibytes is the sum of a metric's values, which are in bytes.
func mebibytes(family *dto.MetricFamily) float64 {
	var total float64
	for _, m := range family.GetMetric() {
		total += m.GetGauge().GetValue()
	}
	return total / (1 << 20)
}

// requests returns what the API server has been asked so far, watches aside, by its own count.
func (w *world) requests(b *testing.B) counts {
	b.Helper()
	got := counts{}
	for _, m := range w.metrics(b)["apiserver_request_total"].GetMetric() {
		label := labels(m)
		if !concerns[label["resource"]] || label["verb"] == "WATCH" {
			continue
		}
		name := strings.ToLower(label["verb"]) + " " + label["resource"]
		if label["subresource"] != "" {
			name += "/" + label["subresource"]
		}
		got[name] += int(m.GetCounter().GetValue())
	}
	return got
}

// parse reads metrics in the format of Prometheus.
func parse(b *testing.B, text string) map[string]*dto.MetricFamily {
	b.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	return families
}

func labels(m *dto.Metric) map[string]string {
	values := map[string]string{}
	for _, pair := range m.GetLabel() {
		values[pair.GetName()] = pair.GetValue()
	}
	return values
}
