package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxPart is how many bytes a part of a report has at most, so that an issue tracker takes the whole.
	maxPart = 8 << 10
	// leastHidden is how many bytes a value of a variable has at least that is hidden wherever it occurs. A shorter one, such as "true", is
	// hidden in the spec and in changes alone.
	leastHidden = 8
	// maxReportEvents is how many events a report has, maxReportPods how many pods in the same state.
	maxReportEvents, maxReportPods = 20, 3
)

// The texts of a report.
const (
	reportHead = "Without the values of variables, arguments, commands, annotations and patches, and without logs: see `%s`."
	reportMore = "… %d more lines"
)

// urlQuery matches the query of a URL, which may have a token in it.
var urlQuery = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s"'?]+)\?[^\s"']+`)

// ReportOf returns a report on a resource for a ticket, as Markdown: the versions that about names, the cause, the objects, the revisions or
// runs, the conditions and the spec. A value of a variable is hidden in all of them, and so is all else that RedactSpec hides.
func ReportOf(s *Snapshot, about []string) string {
	r := &s.Resource
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n", r.Object(), r.State())
	fmt.Fprintf(&b, reportHead+"\n", r.Command("logs"))
	without := s.hider()
	part := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", title, cutLines(fenced(without(text)), maxPart))
		}
	}
	about = append(slices.Clone(about), "time: "+s.Now.UTC().Format(time.RFC3339))
	for i := range about {
		about[i] = clean(about[i])
	}
	part("Versions", strings.Join(about, "\n"))
	part("Why", WhyOf(s, maxReportEvents).Text(Style{}, s.Now))
	part("Objects", TreeOf(s, TreeOptions{Limit: maxReportPods}).Text(Style{}, s.Now))
	for _, name := range slices.Concat([]string{""}, r.parts()) {
		if history, err := HistoryOf(s, Part(name)); err == nil {
			for i := range history.Revisions {
				history.Revisions[i].Changes = withoutVariables(Redact(history.Revisions[i].Changes))
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

// fenced returns a text that does not end the block of Markdown that it is in.
func fenced(text string) string { return strings.ReplaceAll(text, "```", "'''") }

// cutLines returns the first lines of a text, of so many bytes together, and how many lines are left out.
func cutLines(text string, most int) string {
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
		b.WriteString(clean(line+": "+c.Message) + "\n")
	}
	return b.String()
}

// variableChange matches the path of a variable or of a part of it, variableList the path of all variables of a container.
var variableChange, variableList = regexp.MustCompile(`(?:^|\.)envs?\[`), regexp.MustCompile(`(?:^|\.)envs?$`)

// withoutVariables hides the values of variables in changes.
func withoutVariables(changes []Change) []Change {
	for i := range changes {
		c := &changes[i]
		if variableChange.MatchString(c.Path) {
			c.Old, c.New = hide(c.Old), hide(c.New)
			continue
		}
		isList := variableList.MatchString(c.Path)
		c.Old, c.New = walkVariables(c.Old, isList), walkVariables(c.New, isList)
	}
	return changes
}

// hideVariables returns a spec in which the values of all variables are hidden.
func hideVariables(spec map[string]any) map[string]any {
	hiddenSpec, _ := walkVariables(spec, false).(map[string]any)
	return hiddenSpec
}

func walkVariables(value any, variables bool) any {
	switch v := value.(type) {
	case map[string]any:
		shown := map[string]any{}
		for key, below := range v {
			if variables && key == "value" {
				shown[key] = hidden
				continue
			}
			shown[key] = walkVariables(below, variables || key == "env" || key == "envs")
		}
		return shown
	case []any:
		shown := make([]any, 0, len(v))
		for _, item := range v {
			shown = append(shown, walkVariables(item, variables))
		}
		return shown
	}
	return value
}

// hider returns a function that hides, in a text of others, the queries and passwords of URLs and each value that is hidden in the spec or in a
// recorded spec.
func (s *Snapshot) hider() func(text string) string {
	values := map[string]bool{}
	note := func(spec map[string]any) { differing(spec, hideVariables(RedactSpec(spec)), values) }
	note(toMap(s.Resource.Spec))
	for _, name := range slices.Concat([]string{""}, s.Resource.parts()) {
		if history, err := HistoryOf(s, Part(name)); err == nil {
			for i := range history.Revisions {
				note(history.Revisions[i].Spec)
			}
		}
	}
	r := &s.Resource
	named := strings.Join([]string{r.Kind, r.ObjectMeta.Namespace, r.ObjectMeta.Name, r.Image}, "\n")
	var pairs []string
	for value := range values {
		if len(value) >= leastHidden && !strings.Contains(named, value) {
			pairs = append(pairs, value)
		}
	}
	slices.SortFunc(pairs, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	for i := len(pairs) - 1; i >= 0; i-- {
		pairs = slices.Insert(pairs, i+1, hidden)
	}
	replacer := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = replacer.Replace(text)
		text = urlQuery.ReplaceAllString(text, "${1}?"+hidden)
		return userPassword.ReplaceAllString(text, "${1}"+hidden+"@")
	}
}

// differing notes the texts of a value that another one, which is the same with parts hidden, does not have.
func differing(value, without any, into map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		other, _ := without.(map[string]any)
		for key, below := range v {
			differing(below, other[key], into)
		}
	case []any:
		other, _ := without.([]any)
		for i, below := range v {
			if i < len(other) {
				differing(below, other[i], into)
			} else {
				differing(below, nil, into)
			}
		}
	case string:
		if without != v {
			for line := range strings.Lines(v) {
				into[clean(strings.TrimSpace(line))] = true
			}
			into[clean(v)] = true
		}
	}
}
