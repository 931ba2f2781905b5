package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// table is the report as a page of Markdown.
func (r *report) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, `# Measured

`+"`make bench`"+` writes this page; [docs/scale.md](../scale.md) says what follows from it. %d cores, %s of memory, %s, %s, on
which the API server, etcd, the clients and the manager all run. %s
Rates and times are those of this machine on that day; ratios are of the same round.

- **floor A**: a client that posts each App, its Deployment and its Service, and states the status.
- **floor B**: the same by server-side apply, with one event: the least that what the manager does can cost.
- Each is done by %d clients at once, on an API server and an etcd that are new each time.
- **headless Services**: those of the Apps have no address of the cluster's, for what the API server does to give one grows
  with how many there are. So are those of the %d Apps, whose manager has a GOMEMLIMIT of %s in place of config/manager's.

`, r.Cores, r.Memory, r.Go, r.Date, r.describeRounds(), clients, largest, largestMemory)
	fmt.Fprintf(&text, "## Goals\n\n%s\n![How it grows](bench.svg)\n\n", r.reached())
	text.WriteString("## By the number of Apps\n\nThe last column is how a figure grows: 0 where the number of Apps makes no difference, 1 where\nit grows in proportion to them (the exponent that fits best).\n\n")
	text.WriteString(r.bySize())
	text.WriteString("\n## The rest\n\n| figure | Apps | of | unit | measured |\n|---|---|---|---|---|\n")
	for _, s := range r.Measures {
		if len(r.sizesOf(s)) == 1 {
			fmt.Fprintf(&text, "| %s | %d | %s | %s | %s |\n", s.Name, s.Apps, s.Of, s.Unit, s)
		}
	}
	return text.String()
}

// describeRounds returns how often the figures were measured.
func (r *report) describeRounds() string {
	if r.Rounds == 1 {
		return "Each figure is of one round."
	}
	return fmt.Sprintf("Of up to %d rounds, fewer\nof many Apps, the median is shown, and from where to where they went.", r.Rounds)
}

// sizesOf returns for how many Apps a figure was measured.
func (r *report) sizesOf(like *series) []int {
	var found []int
	for _, s := range r.Measures {
		if s.Name == like.Name && s.Of == like.Of {
			found = append(found, s.Apps)
		}
	}
	slices.Sort(found)
	return found
}

// bySize is the table of what was measured for more than one number of Apps.
func (r *report) bySize() string {
	var all []int
	for _, s := range r.Measures {
		if found := r.sizesOf(s); len(found) > len(all) {
			all = found
		}
	}
	var text strings.Builder
	text.WriteString("| figure | of | unit |")
	for _, n := range all {
		fmt.Fprintf(&text, " %d |", n)
	}
	text.WriteString(" grows |\n|---|---|---|" + strings.Repeat("---|", len(all)+1) + "\n")
	done := map[string]bool{}
	for _, s := range r.Measures {
		key := s.Name + "|" + s.Of
		if done[key] || len(r.sizesOf(s)) < 2 {
			continue
		}
		done[key] = true
		fmt.Fprintf(&text, "| %s | %s | %s |", s.Name, s.Of, s.Unit)
		for _, n := range all {
			shown := ""
			if at := r.find(s.Name, n, s.Of); at != nil {
				shown = at.String()
			}
			fmt.Fprintf(&text, " %s |", shown)
		}
		fmt.Fprintf(&text, " %s |\n", r.exponent(s))
	}
	return text.String()
}

// exponent fits a power of the number of Apps to a figure, by least squares of the logarithms.
func (r *report) exponent(like *series) string {
	var n, x, y, xx, xy float64
	for _, apps := range r.sizesOf(like) {
		value := r.find(like.Name, apps, like.Of).median()
		if value <= 0 {
			return ""
		}
		lx, ly := math.Log(float64(apps)), math.Log(value)
		n, x, y, xx, xy = n+1, x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	return fmt.Sprintf("%.2f", (n*xy-x*y)/(n*xx-x*x))
}
