package observability

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/controllers"
	"huolala.cn/app-operator/hack/observability/catalog"
	"huolala.cn/app-operator/internal/metrics"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
	"huolala.cn/app-operator/test/play"
)

// ours begins the names of the operator's own metrics.
const ours = "app_operator_"

// TestMetricsAreExported has a manager do all that has a metric, and compares what it exports with the table of metrics, and with what
// the alerts and dashboards use. METRICS_OUT names a file for the operator's own metrics, for promtool check metrics.
func TestMetricsAreExported(t *testing.T) {
	exported := scrapeAll(t)
	want := map[string]metrics.Definition{}
	for _, d := range metrics.All() {
		want[d.Name] = d
		family := exported[d.Name]
		if family == nil {
			t.Errorf("no manager exports %s", d.Name)
			continue
		}
		if family.GetHelp() != d.Help || strings.ToLower(family.GetType().String()) != string(d.Type) {
			t.Errorf("%s is a %s: %s", d.Name, family.GetType(), family.GetHelp())
		}
		for _, series := range family.GetMetric() {
			var labels []string
			for _, pair := range series.GetLabel() {
				labels = append(labels, pair.GetName())
			}
			slices.Sort(labels)
			if expected := slices.Sorted(slices.Values(d.Labels)); !slices.Equal(labels, expected) {
				t.Errorf("%s has the labels %v, want %v", d.Name, labels, expected)
			}
		}
	}
	var own bytes.Buffer
	for name, family := range exported {
		if !strings.HasPrefix(name, ours) {
			continue
		}
		if _, known := want[name]; !known {
			t.Errorf("%s is exported, and not in internal/metrics", name)
		}
		if _, err := expfmt.MetricFamilyToText(&own, family); err != nil {
			t.Error(err)
		}
	}
	if path := os.Getenv("METRICS_OUT"); path != "" {
		if err := os.WriteFile(path, own.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}

	histogram := func(name string) bool { return exported[name].GetType() == dto.MetricType_HISTOGRAM }
	for where, expr := range expressions(t) {
		for _, name := range catalog.Metrics(expr) {
			_, foreign := catalog.Foreign[name]
			if exported[catalog.Family(name, histogram)] == nil && !foreign {
				t.Errorf("%s uses %s, which no manager exports: %s", where, name, expr)
			}
		}
	}
}

// expressions returns those of all alerts and dashboards, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	rules, err := catalog.Alerts(harness.Root())
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range rules.Groups {
		for _, alert := range group.Rules {
			all["the alert "+alert.Alert] = alert.Expr
		}
	}
	for _, group := range catalog.Expressions().Groups {
		for _, rule := range group.Rules {
			all["the panel "+rule.Record] = rule.Expr
		}
	}
	return all
}

// scrapeAll runs a manager, has it do all that has a metric, and returns what it exports once nothing of ours is missing.
func scrapeAll(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	ns, address := plane.Namespace(t), harness.FreeAddress(t)
	// More than one, as a watch that begins with all there is falls back to a list, and only that is an error.
	var failed atomic.Int32
	firstPodLists := func(q harness.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if q.Resource == "pods" && failed.Add(1) <= 3 {
			return harness.Answer(apierrors.NewInternalError(errors.New("a list fails"))), nil
		}
		return send()
	}
	serve := func(_ *harness.Manager, o *controllers.Options) {
		o.Metrics = metricsserver.Options{BindAddress: address}
		o.Version, o.Commit = "v1.2.3", "0123abc"
	}
	plane.Create(t, &appv1.AppDefaults{ObjectMeta: fixture.Meta(ns, appv1.AppDefaultsName)})
	plane.Start(t, ns, serve, harness.WithElection("observed"), harness.WithFault(firstPodLists),
		harness.WithWebhooks(plane.Webhooks(t, ns)))

	taken, paused, fought := fixture.NewApp(ns, "taken"), fixture.NewApp(ns, "paused"), fixture.NewApp(ns, "fought")
	paused.Spec.Paused = true
	plane.Create(t, fixture.NewDeployment(ns, "taken"), fought)
	harness.Eventually(t, func() error { return plane.Client.Create(t.Context(), taken) })
	plane.Create(t, paused)
	child := fixture.Deployment(fought)
	plane.Until(t, child, func() error { return nil })
	plane.Change(t, child, func() { child.Spec.Template.Spec.Containers[0].Image = "example.com/other:1" })
	startCanary(t, ns)

	var exported map[string]*dto.MetricFamily
	harness.Eventually(t, func() error {
		// A request with a body, which the server of the metrics refuses.
		refused, err := http.Post("http://"+address+"/metrics", "text/plain", strings.NewReader("x"))
		if err != nil {
			return err
		}
		if err := refused.Body.Close(); err != nil {
			return err
		}
		if refused.StatusCode != http.StatusRequestEntityTooLarge {
			return fmt.Errorf("a request with a body is answered with %s", refused.Status)
		}
		if exported, err = scrape(t, "http://"+address+"/metrics"); err != nil {
			return err
		}
		var missing []string
		for _, d := range metrics.All() {
			if exported[d.Name] == nil {
				missing = append(missing, d.Name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("not exported: %s", strings.Join(missing, ", "))
		}
		return nil
	})
	return exported
}

// startCanary has the manager start a canary of an App whose first image is good.
func startCanary(t *testing.T, ns string) {
	t.Helper()
	app := fixture.NewApp(ns, "canary")
	app.Spec.Canary = &appv1.CanarySpec{}
	plane.Create(t, app)
	d := fixture.Deployment(app)
	plane.Until(t, d, func() error { return nil })
	set := play.NewReplicaSet(d, "good")
	plane.Create(t, set)
	plane.Create(t, play.NewPod(set))
	plane.ChangeStatus(t, d, func() { play.SetAvailable(d) })
	plane.Until(t, app, func() error {
		if app.Status.LastGood == nil {
			return errors.New("no revision is good")
		}
		return nil
	})
	plane.Change(t, app, func() { app.Spec.Image = "example.com/web:2" })
}

// scrape returns the metrics that an address serves.
func scrape(t *testing.T, url string) (map[string]*dto.MetricFamily, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}
