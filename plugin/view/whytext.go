package view

import (
	"fmt"
	"strings"
	"time"
)

// headlineText is the first line.
func (w *Why) headlineText(now time.Time) string {
	object := w.Resource + " " + w.Namespace + "/" + w.Name
	since := ""
	if w.Since != nil && !w.Since.IsZero() {
		since = " for " + longDuration(now.Sub(w.Since.Time))
	}
	state := object + " is " + string(w.State) + since
	switch {
	case w.State == StateUnobserved:
		return object + ": " + messageUnobserved + since
	case w.State == StateDeleting:
		return object + " is being deleted" + since
	case w.serves:
		return object + " serves, but its spec is not in force" + since + ": " + w.Reason
	case w.State == StateZero:
		return object + " is scaled to zero" + since
	case w.Reason == string(w.State), w.State == StateRolling:
		return state
	}
	return state + ": " + w.Reason
}

// labelWidth is the width of the labels on the left.
const labelWidth = 18

// Text returns the answer as text.
func (w *Why) Text(s Style, now time.Time) string {
	var b strings.Builder
	for _, line := range wrapText(s.plainText(w.headlineText(now)), s.Width) {
		b.WriteString(s.paintText(w.State.Mark(), line) + "\n")
	}
	b.WriteString(w.chainText(s))
	section := func(label string, lines ...string) {
		for _, line := range lines {
			width := 0
			if s.Width > 0 {
				width = max(20, s.Width-labelWidth-1)
			}
			for _, part := range wrapText(line, width) {
				b.WriteString(s.boldText(fmt.Sprintf("%-*s", labelWidth, label)) + " " + s.plainText(part) + "\n")
				label = ""
			}
		}
	}
	if w.Works != "" {
		section("What still works", w.Works)
	}
	section("What waits", w.Pending...)
	if w.Defaults != "" {
		section("Defaults", w.Defaults)
	}
	section("What to do", w.Advice...)
	var events []string
	for i := range w.Events {
		e := &w.Events[i]
		line := ageOf(e.Time, now) + " " + e.Reason
		if e.Warning {
			line += " (Warning)"
		}
		events = append(events, line+": "+e.Message)
	}
	section("Last events", events...)
	return b.String() + notShown(s, w.NotShown)
}

// chainText returns the way to the root cause.
func (w *Why) chainText(s Style) string {
	widest := 0
	object := func(i int) string {
		if i == 0 {
			return "  " + w.Chain[0].Object
		}
		return strings.Repeat("  ", i) + "└ " + w.Chain[i].Object
	}
	for i := range w.Chain {
		widest = max(widest, len([]rune(object(i))))
	}
	var b strings.Builder
	for i, step := range w.Chain {
		text, mark := step.Text, Mark("")
		if step.Root && w.State.Group() == GroupNeedsYou {
			text, mark = text+"   ◀ root cause", MarkBad
		}
		head := s.plainText(fmt.Sprintf("%-*s", widest, object(i)))
		width := 0
		if s.Width > 0 {
			width = max(20, s.Width-widest-2)
		}
		for n, line := range wrapText(text, width) {
			if n > 0 {
				head = strings.Repeat(" ", widest)
			}
			b.WriteString(strings.TrimRight(head+"  "+s.paintText(mark, s.plainText(line)), " ") + "\n")
		}
	}
	return b.String()
}
