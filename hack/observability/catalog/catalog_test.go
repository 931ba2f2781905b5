package catalog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"huolala.cn/app-operator/internal/metrics"
)

// root is the repository's folder, seen from this one.
const root = "../../.."

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// alerts returns the alerts in the tree.
func alerts(t *testing.T) []Alert {
	t.Helper()
	rules, err := Alerts(root)
	if err != nil {
		t.Fatal(err)
	}
	var all []Alert
	for _, group := range rules.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// TestMetricsOfAnExpression finds the metrics of expressions.
func TestMetricsOfAnExpression(t *testing.T) {
	for expr, want := range map[string]string{
		`up`:                          "up",
		`absent(up{job=~"a.*"} == 1)`: "up",
		`sum by (kind, name) (rate(a_total{x="b_total{}"}[5m])) / on (kind) group_left b > 1e9`: "a_total b",
		`time() - max without (pod) (a) > 7 * 86400 unless on (x) b or vector(0)`:               "a b",
		`label_replace(a, "to", "$1", "from", "(.+)")`:                                          "a",
		`histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval]))) > bool 5`:     "a_bucket",
	} {
		if got := strings.Join(Metrics(expr), " "); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// TestAlertsAreComplete checks each alert: how grave it is, what it says, its runbook, and three cases in the tests for promtool.
func TestAlertsAreComplete(t *testing.T) {
	cases := read(t, "test/observability/alerts_test.yaml")
	headings := regexp.MustCompile(`(?m)^## (.*)$`)
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert+".md")
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: the severity is %q", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no summary, or no description", a.Alert)
		}
		// A missed scrape ends an alert whose gauges are looked at for an instant, unless it goes on for a while.
		if a.For != "" && a.KeepFiringFor != "" || a.For == "" && a.KeepFiringFor == "" {
			t.Errorf("%s needs for, with a range, or keep_firing_for", a.Alert)
		}
		if want := "/docs/runbooks/" + a.Alert + ".md"; !strings.HasSuffix(a.Annotations["runbook_url"], want) {
			t.Errorf("%s: the runbook is %q, want …%s", a.Alert, a.Annotations["runbook_url"], want)
		}
		page := read(t, "docs/runbooks/"+a.Alert+".md")
		var found []string
		for _, match := range headings.FindAllStringSubmatch(page, -1) {
			found = append(found, match[1])
		}
		if got := strings.Join(found, " "); got != "Meaning Impact Diagnosis Mitigation" || !strings.HasPrefix(page, "# "+a.Alert+"\n") {
			t.Errorf("the runbook of %s has the headings %s", a.Alert, got)
		}
		if !strings.Contains(page, "kubectl ") {
			t.Errorf("the runbook of %s has no command", a.Alert)
		}
		for _, what := range []string{"fires", "does not fire", "goes on"} {
			if strings.Count(cases, "- name: '"+a.Alert+" "+what+": ") != 1 {
				t.Errorf("test/observability/alerts_test.yaml has no case %q of %s", what, a.Alert)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(root, "docs/runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			t.Errorf("docs/runbooks/%s is of no alert", entry.Name())
		}
	}
}

// TestDashboards checks what Grafana does not say: panels that overlap, have no unit or no description, or name a data source that
// exists elsewhere alone.
func TestDashboards(t *testing.T) {
	for _, d := range Dashboards() {
		data, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			UID    string
			Panels []struct {
				ID                       int
				Type, Title, Description string
				Datasource               struct{ UID string }
				GridPos                  struct{ X, Y, W, H int }
				FieldConfig              struct{ Defaults struct{ Unit string } }
				Targets                  []struct {
					Expr       string
					Datasource struct{ UID string }
				}
			}
		}
		if err := json.Unmarshal(data, &board); err != nil {
			t.Fatal(err)
		}
		taken, seen := map[[2]int]string{}, map[string]bool{}
		for i, p := range board.Panels {
			where := d.Title + " / " + p.Title
			if p.ID != i+1 || seen[p.Title] && p.Type != "row" {
				t.Errorf("%s: the title or the number %d is there twice", where, p.ID)
			}
			seen[p.Title] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= columns {
						t.Fatalf("%s lies over %q, or outside", where, other)
					}
					taken[[2]int{x, y}] = where
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s needs a description, a unit, ${datasource} and a query", where)
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || len(Metrics(q.Expr)) == 0 {
					t.Errorf("%s: %s", where, q.Expr)
				}
				if strings.Contains(q.Expr, "$namespace") && !d.Namespaces {
					t.Errorf("%s uses $namespace, which its dashboard has not", where)
				}
			}
		}
	}
}

// TestMetricsAreShown checks that each metric of ours is in an alert or on a dashboard: one that nobody looks at is not needed.
func TestMetricsAreShown(t *testing.T) {
	used := map[string]bool{}
	for _, expr := range expressions(t) {
		for _, name := range Metrics(expr) {
			used[Family(name, func(string) bool { return true })] = true
		}
	}
	for _, d := range metrics.All() {
		if !used[d.Name] {
			t.Errorf("%s is in no alert and on no dashboard", d.Name)
		}
	}
	for name := range Foreign {
		if !used[name] {
			t.Errorf("%s is listed, and used nowhere", name)
		}
	}
}

// expressions returns those of all alerts and dashboards.
func expressions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, a := range alerts(t) {
		all = append(all, a.Expr)
	}
	for _, group := range Expressions().Groups {
		for _, rule := range group.Rules {
			all = append(all, rule.Expr)
		}
	}
	return all
}

// TestGenerated compares what is in the tree with what would be written now.
func TestGenerated(t *testing.T) {
	rules, err := Alerts(root)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"docs/observability.md": Page(rules)}
	for _, d := range Dashboards() {
		data, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		want["config/components/dashboards/"+d.UID+".json"] = string(data)
	}
	for path, content := range want {
		if read(t, path) != content {
			t.Errorf("%s is outdated: run make docs", path)
		}
	}
}
