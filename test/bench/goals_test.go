package bench

import (
	"fmt"
	"strings"
)

// goal is what a figure should reach.
type goal struct {
	what     string
	name, of string
	apps     int
	limit    float64
	// least is true for a figure that should be at least the limit; else it should be at most that.
	least bool
}

// goals are those of the project. What asserts requests is in the tests; here it is measured once more.
var goals = []goal{
	{"created at once, against a plain client", "burst", ratio(floorA), 1000, 0.60, true},
	{"created at once, against a plain client", "burst", ratio(floorA), 5000, 0.60, true},
	{"created at once, against server-side apply", "burst", ratio(floorB), 1000, 0.85, true},
	{"created at once, against server-side apply", "burst", ratio(floorB), 5000, 0.85, true},
	{"a single App, p50, against server-side apply", "single, p50", ratio(floorB), 1, 2, false},
	{"all Services deleted, against server-side apply", "drift", ratio(floorB), 1000, 1.25, false},
	{"restart, writes", "restart, writes", manager, 5000, 0, false},
	{"restart, until idle, against the lists alone", "restart", ratio(lists), 5000, 2.5, false},
	{"requests of an idle minute", "requests in 60 idle seconds", manager, 5000, 0, false},
	{"requests of an idle minute, with Tasks that are not due", idleTasks, manager, scheduled, 0, false},
	{"requests of an idle minute, with canaries that wait", idleCanaries, manager, canaries, 0, false},
	{"restart over canaries, writes", "restart over canaries, writes", manager, canaries, 0, false},
	{"requests of an idle minute, with outdated defaults", idleDefaults, manager, defaulted, 0, false},
	{"restart over outdated defaults, writes", "restart over outdated defaults, writes", manager, defaulted, 0, false},
	{"requests of an idle minute, with outdated defaults", idleDefaults, manager, mostDefaulted, 0, false},
	{"restart over outdated defaults, writes", "restart over outdated defaults, writes", manager, mostDefaulted, 0, false},
	{"memory, Apps with defaults of 2 KiB against Apps that state the same", memoryDefaults, manager, defaulted, 1.05, false},
	{"memory, Apps with defaults of 2 KiB against Apps that state the same", memoryDefaults, manager, mostDefaulted, 1.05, false},
	{"a single App next to a busy tenant, p50, against alone", busySingle, manager, busyApps, 3, false},
	{"status writes an App, with pods", "status writes until an App is ready, with pods", manager, 500, 4, false},
	{"memory with 1,000 Apps after a restart, MiB", restartMemory, manager, 1000, 95, false},
	{"memory with 10,000 Apps at rest, MiB", restMemory, manager, 10000, 230, false},
	{"the same right after all were made and changed, with the events of it, MiB", settledMemory, manager, 10000, 300, false},
	{"memory for 10,000 foreign Deployments and Services, MiB", foreignMemory, manager, 1000, 32, false},
}

// growth is the goal for how the rate holds: that at the largest number of Apps as a part of that at the other.
var growth = struct {
	few, many int
	limit     float64
}{1000, 10000, 0.9}

// reached returns the table of goals.
func (r *report) reached() string {
	var text strings.Builder
	text.WriteString("| figure | Apps | goal | measured | |\n|---|---|---|---|---|\n")
	for _, g := range goals {
		if s := r.find(g.name, g.apps, g.of); s != nil {
			r.line(&text, g.what, g.apps, g.limit, g.least, s.median(), s.String())
		}
	}
	for _, name := range []string{"burst", burstHeadless} {
		few, many := r.find(name, growth.few, manager), r.find(name, growth.many, manager)
		if few != nil && many != nil {
			value := many.median() / few.median()
			r.line(&text, fmt.Sprintf("%s, the rate against that at %d", name, growth.few), growth.many, growth.limit, true, value, number(value))
		}
	}
	return text.String()
}

func (r *report) line(text *strings.Builder, what string, apps int, limit float64, least bool, value float64, shown string) {
	sign, met := "≤", value <= limit
	if least {
		sign, met = "≥", value >= limit
	}
	mark := "missed"
	if met {
		mark = "reached"
	}
	fmt.Fprintf(text, "| %s | %d | %s %s | %s | %s |\n", what, apps, sign, number(limit), shown, mark)
}
