package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Defaults holds the effects of AppDefaults if every resource took them at once. No resource takes them by itself.
type Defaults struct {
	// Apps is the number of Apps and ModelBoxes that the AppDefaults count for, and Looked the number of resources that the other figures
	// are about.
	Apps, Looked int
	// Templates is the number of resources whose pod template changes, and Pods the number of their pods.
	Templates, Pods int
	// Added, Changed and Removed are the numbers of auxiliary objects that are created, changed and deleted, by kind.
	Added, Changed, Removed map[string]int
	// Invalid is the number of resources that would be invalid, and Examples names the first of them, each with the reason.
	Invalid  int
	Examples []string
	// InWaves is true if the resources take the AppDefaults in waves, and false if they take them with their next changes.
	InWaves bool
}

// MaxExamples is the maximum number of examples in a line.
const MaxExamples = 3

// Line returns the effects on one line, of at most a number of bytes.
func (d *Defaults) Line(most int) string {
	if d.Apps == 0 {
		return "they count for no App"
	}
	counted := fmt.Sprintf("%d %s: ", d.Apps, numbered(d.Apps, "App", "Apps"))
	if d.Looked < d.Apps {
		counted = fmt.Sprintf("%d Apps, the first %d were looked at: ", d.Apps, d.Looked)
	}
	parts := []string{
		fmt.Sprintf("%d pod %s", d.Templates, numbered(d.Templates, "template changes", "templates change")),
		fmt.Sprintf("%d %s would be replaced", d.Pods, numbered(d.Pods, "pod", "pods")),
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Added)) {
		parts = append(parts, fmt.Sprintf("%d get a %s", d.Added[kind], kind))
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Changed)) {
		parts = append(parts, fmt.Sprintf("%d get another %s", d.Changed[kind], kind))
	}
	for _, kind := range slices.Sorted(maps.Keys(d.Removed)) {
		parts = append(parts, fmt.Sprintf("%d lose their %s", d.Removed[kind], kind))
	}
	parts = append(parts, fmt.Sprintf("%d would be invalid", d.Invalid))
	line := counted + strings.Join(parts, ", ")
	for i, example := range d.Examples[:min(len(d.Examples), MaxExamples)] {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		line += separator + example
	}
	if len(line) > most {
		line = strings.ToValidUTF8(line[:max(0, most-len("…"))], "") + "…"
	}
	return line
}

// numbered returns a noun for a number.
func numbered(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
