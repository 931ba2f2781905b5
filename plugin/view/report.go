package view

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxPart is how many bytes a part of a report has at most, so that an issue tracker takes the whole.
	maxPart = 8 << 10
	// maxReportEvents is how many events a report has, maxReportPods how many pods in the same state.
	maxReportEvents, maxReportPods = 20, 3
)

// The texts of a report.
const (
	reportHead = "Without the values of variables, arguments, commands, annotations and patches, and without logs: see `%s`."
	reportMore = "… %d more lines"
)

// ReportOf returns a report on a resource for a ticket, as Markdown: the versions that about names, the cause, the objects, the revisions or
// runs, the conditions and the spec. A value of a variable is hidden in all of them, and so is all else that RedactSpec hides.
func ReportOf(s *Snapshot, about []string) string {
	r := &s.Resource
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n", r.ObjectName(), r.State())
	fmt.Fprintf(&b, reportHead+"\n", r.PluginCommand("logs"))
	without := s.newHider()
	part := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", title, CutLines(escapeFence(without(text)), maxPart))
		}
	}
	about = append(slices.Clone(about), "time: "+s.Now.UTC().Format(time.RFC3339))
	for i := range about {
		about[i] = CleanLine(about[i])
	}
	part("Versions", strings.Join(about, "\n"))
	part("Why", WhyOf(s, maxReportEvents).Text(Style{}, s.Now))
	part("Objects", TreeOf(s, TreeOptions{Limit: maxReportPods}).Text(Style{}, s.Now))
	for _, name := range slices.Concat([]string{""}, r.partNames()) {
		if history, err := HistoryOf(s, Part(name)); err == nil {
			for i := range history.Revisions {
				history.Revisions[i].Changes = withoutVariables(RedactChanges(history.Revisions[i].Changes))
			}
			part(strings.TrimSpace("History "+name), history.Text(Style{}, s.Now))
		}
	}
	if runs := RunsOf(s); runs != nil {
		part("Runs", runs.Text(Style{}, s.Now))
	}
	part("Conditions", s.conditionLines())
	if spec, err := EncodeYAML(hideVariables(RedactSpec(toMap(r.Spec)))); err == nil {
		part("Spec", string(spec))
	}
	return b.String()
}

// escapeFence returns a text that does not end the block of Markdown that it is in.
func escapeFence(text string) string { return strings.ReplaceAll(text, "```", "'''") }

// CutLines returns the first lines of a text, of so many bytes together, and how many lines are left out.
func CutLines(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := strings.LastIndexByte(text[:most], '\n')
	if end < 0 {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text[:end] + "\n" + fmt.Sprintf(reportMore, strings.Count(text[end+1:], "\n")+1)
}

// conditionLines returns the conditions of the resource, a line each.
func (s *Snapshot) conditionLines() string {
	var b strings.Builder
	for _, c := range s.Resource.Status.Conditions {
		line := fmt.Sprintf("%s=%s %s, %s ago", c.Type, c.Status, c.Reason, longDuration(s.Now.Sub(c.LastTransitionTime.Time)))
		if c.ObservedGeneration != 0 && c.ObservedGeneration != s.Resource.ObjectMeta.Generation {
			line += ", of an earlier spec"
		}
		b.WriteString(CleanLine(line+": "+c.Message) + "\n")
	}
	return b.String()
}
