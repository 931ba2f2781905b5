package catalog

import (
	"regexp"
	"slices"
	"strings"
)

var (
	quoted     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	matchers   = regexp.MustCompile(`\{[^}]*\}`)
	lists      = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	ranges     = regexp.MustCompile(`\[[^]]*\]`)
	identifier = regexp.MustCompile(`[A-Za-z_:][A-Za-z0-9_:]*(\s*\()?`)
)

// words are the words of PromQL in the places of a metric.
var words = []string{"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"}

// Metrics returns the metrics in an expression of PromQL: identifiers other than functions, labels, strings and the words of the language.
func Metrics(expr string) []string {
	expr = quoted.ReplaceAllString(expr, `""`)
	for _, cut := range []*regexp.Regexp{matchers, lists, ranges} {
		expr = cut.ReplaceAllString(expr, " ")
	}
	var names []string
	for _, at := range identifier.FindAllStringIndex(expr, -1) {
		word := expr[at[0]:at[1]]
		number := at[0] > 0 && strings.ContainsAny(expr[at[0]-1:at[0]], "0123456789.") // As in 1e9 or 5m.
		if !strings.HasSuffix(word, "(") && !slices.Contains(words, word) && !number {
			names = append(names, word)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Family returns the name by which a metric is exported: a histogram's series have suffixes.
func Family(metric string, histograms func(string) bool) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, found := strings.CutSuffix(metric, suffix); found && histograms(family) {
			return family
		}
	}
	return metric
}

// Foreign are the metrics that rules and dashboards use and no manager exports, with who does.
var Foreign = map[string]string{
	"up":                                       "Prometheus itself",
	"container_cpu_usage_seconds_total":        "the kubelet (cAdvisor)",
	"container_memory_working_set_bytes":       "the kubelet (cAdvisor)",
	"kube_pod_container_status_restarts_total": "kube-state-metrics",
	"kube_pod_owner":                           "kube-state-metrics",
}
