package catalog

import (
	"fmt"
	"slices"
	"strings"

	"huolala.cn/app-operator/internal/metrics"
)

const head = `# Observability

<!-- Written by ` + "`" + `make docs` + "`" + `: change hack/observability/catalog. -->

The operator exports metrics, has alerts with a runbook each, and two dashboards for Grafana:

` + "```sh" + `
COMPONENTS='prometheus alerts dashboards' make deploy IMG=…
` + "```" + `

` + "`prometheus`" + ` and ` + "`alerts`" + ` require the [Prometheus Operator](https://prometheus-operator.dev). Bind the ClusterRole
` + "`app-operator-metrics-reader`" + ` to the ServiceAccount of Prometheus, and give the objects the labels by which your Prometheus selects them.
` + "`dashboards`" + ` adds a ConfigMap with the label ` + "`grafana_dashboard: \"1\"`" + `, which the sidecar of Grafana's chart loads. None of them is in the OLM
bundle, as OLM installs nothing at all where one kind is missing. With OLM, add them by
` + "`kubectl apply -f config/components/prometheus/monitor.yaml -f config/components/alerts/rules.yaml`" + `, and import the files of
` + "`config/components/dashboards`" + ` into Grafana.

## Metrics

The leader computes the metrics of resources from the resources themselves at each scrape. A series ends when its resource or state
ends, and continues after a restart of the operator. A resource that is well has no series of its own; no label has a UID, a pod, an image or a message. A
scrape of 10,000 Apps reads the cache, and sends no request. They are about the kinds App, ModelBox, UnitedDeployment, CloudManager and Task. AppDefaults
have ` + "`app_operator_defaults_valid`" + `; a rollout of theirs that has stopped shows in their condition ` + "`RolledOut`" + `, in an event, and in the series of the Apps that
have stalled.

| metric | type | labels | meaning | series |
|---|---|---|---|---|
`

const middle = `
The manager exports those of controller-runtime as well: ` + "`controller_runtime_*`" + `, ` + "`workqueue_*`" + `, ` + "`rest_client_*`" + `,
` + "`leader_election_master_status`" + `, ` + "`go_*`" + ` and ` + "`process_*`" + `.

The ServiceMonitor has ` + "`honorLabels: true`" + `: ` + "`namespace`" + ` is that of the resource, and Alertmanager can route by it. If your cluster does not allow
that, Prometheus stores it as ` + "`exported_namespace`" + `; the alerts handle both, the dashboard *Applications* needs ` + "`namespace`" + `.
If your Prometheus scrapes native histograms, set ` + "`scrapeClassicHistograms: true`" + ` in the spec of the ServiceMonitor: rules and panels read the classic buckets.

## Alerts

| alert | severity | after | says | runbook |
|---|---|---|---|---|
`

const runbooks = `
` + "`make observability`" + ` tests each alert with promtool: it fires for its cause, it does not fire just before, and a missed scrape does not end it.

To keep the runbooks elsewhere, replace the beginning of their addresses in an overlay of your own:

` + "```yaml" + `
# runbooks.yaml is a ConfigMap called runbooks with data.base, such as https://wiki.example/app-operator
resources: [../../config/default, runbooks.yaml]
components: [../../config/components/alerts]
replacements:
- source: {kind: ConfigMap, name: runbooks, fieldPath: data.base}
  targets:
  - select: {kind: PrometheusRule}
    fieldPaths: ["spec.groups.*.rules.*.annotations.runbook_url"]
    options: {delimiter: /docs/}
` + "```" + `

## Dashboards
`

// Page returns docs/observability.md.
func Page(alerts Rules[Alert]) string {
	var b strings.Builder
	b.WriteString(head)
	for _, d := range metrics.All() {
		labels := "none"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Type, labels, strings.TrimSuffix(d.Help, "."), d.Series)
	}
	b.WriteString(middle)
	for _, group := range alerts.Groups {
		for _, a := range group.Rules {
			after := a.For
			if after == "" {
				after = "at once"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | [%s](runbooks/%s.md) |\n",
				a.Alert, a.Labels["severity"], after, plain(a.Annotations["summary"]), a.Alert, a.Alert)
		}
	}
	b.WriteString(runbooks)
	for _, d := range Dashboards() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| panel | shows | metrics |\n|---|---|---|\n", d.Title, d.Description)
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				var names []string
				for _, q := range p.Queries {
					names = append(names, Metrics(q.Expr)...)
				}
				slices.Sort(names)
				fmt.Fprintf(&b, "| %s | %s | `%s` |\n", p.Title, p.Description, strings.Join(slices.Compact(names), "`, `"))
			}
		}
	}
	b.WriteString("\nOther exporters provide:\n\n| metric | from |\n|---|---|\n")
	names := make([]string, 0, len(Foreign))
	for name := range Foreign {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, Foreign[name])
	}
	return b.String()
}

// plain is the template of a message without its code.
func plain(message string) string {
	for _, label := range []string{"kind", "namespace", "name", "reason", "controller"} {
		message = strings.ReplaceAll(message, "{{ $labels."+label+" }}", strings.ToUpper(label))
	}
	for _, value := range []string{"humanizeDuration", "humanizePercentage"} {
		message = strings.ReplaceAll(message, "{{ $value | "+value+" }}", "VALUE")
	}
	return strings.TrimSuffix(message, ".")
}
