package view

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Style is how text is drawn.
type Style struct {
	// Width is the number of columns that a line may have; 0 for no limit.
	Width int
	// Color is true for a terminal that shows colors.
	Color bool
	// ASCII is true where only ASCII can be shown.
	ASCII bool
}

// Mark is the state of one object.
type Mark string

// The marks. An object without a state of its own has the empty mark.
const (
	MarkGood Mark = "good"
	MarkBusy Mark = "busy"
	MarkBad  Mark = "bad"
)

var (
	markSigns  = map[Mark]string{MarkGood: "✓", MarkBusy: "●", MarkBad: "✗"}
	markColors = map[Mark]string{MarkGood: "\x1b[32m", MarkBusy: "\x1b[33m", MarkBad: "\x1b[31m"}
)

const colorOff, colorBold = "\x1b[0m", "\x1b[1m"

// inASCII replaces signs for terminals without Unicode.
var inASCII = strings.NewReplacer(
	"├─", "|-", "└─", "`-", "│", "|", "└", "`", "█", "#", "▒", "+", "░", ".", "✓", "+", "✗", "x", "●", "o", "…", "...", "→", "->",
	"◀", "<-", "–", "-", "•", "*",
)

// plain returns text as the style can show it.
func (s Style) plain(text string) string {
	if !s.ASCII {
		return text
	}
	text = inASCII.Replace(text)
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, text)
}

// paint returns text in the color of a mark.
func (s Style) paint(mark Mark, text string) string {
	if !s.Color || markColors[mark] == "" || text == "" {
		return text
	}
	return markColors[mark] + text + colorOff
}

// bold returns text in bold.
func (s Style) bold(text string) string {
	if !s.Color {
		return text
	}
	return colorBold + text + colorOff
}

// cut returns text in at most width columns; a longer text is cut and ends with "…". A width below 1 is no limit.
func (s Style) cut(text string, width int) string {
	text = s.plain(text)
	if width < 1 || utf8.RuneCountInString(text) <= width {
		return text
	}
	end := s.plain("…")
	runes := []rune(text)
	return string(runes[:max(0, width-len([]rune(end)))]) + end
}

// wrap breaks a text between words into lines of at most width columns.
func wrap(text string, width int) []string {
	if width < 1 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Line returns a text that may stem from anyone as one line that the style can show.
func (s Style) Line(text string) string { return s.cut(clean(text), s.Width) }

// table is text in columns.
type table struct {
	rows [][]string
	// marks are the marks of the rows: the cell in the column painted has the color of the mark.
	marks   []Mark
	painted int
	// shrinks are the columns that are cut where a line is too long, in this order.
	shrinks []int
	// headed is true if the first row is a head.
	headed bool
}

func (t *table) add(mark Mark, cells ...string) {
	t.rows, t.marks = append(t.rows, cells), append(t.marks, mark)
}

// readable is the width below which no column is cut before the others are, too.
const readable = 22

// long adds a line across all columns.
func (t *table) long(line string) {
	t.rows, t.marks = append(t.rows, []string{line}), append(t.marks, across)
}

// across is the mark of a line across all columns.
const across Mark = "across"

// text returns the table, each line with its end.
func (t *table) text(s Style) string {
	widths := t.widths(s)
	var b strings.Builder
	for i, row := range t.rows {
		if t.marks[i] == across {
			b.WriteString(s.cut(row[0], s.Width) + "\n")
			continue
		}
		var line strings.Builder
		for c, cell := range row {
			cell = s.cut(cell, widths[c])
			pad := widths[c] - utf8.RuneCountInString(cell)
			if c == t.painted {
				cell = s.paint(t.marks[i], cell)
			}
			if t.headed && i == 0 {
				cell = s.bold(cell)
			}
			line.WriteString(cell + strings.Repeat(" ", pad+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// widths returns how wide each column is. Where lines are too long, the columns that shrink are cut, and then the first one.
func (t *table) widths(s Style) []int {
	var widths []int
	for i, row := range t.rows {
		if t.marks[i] == across {
			continue
		}
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(s.plain(cell)))
		}
	}
	if s.Width == 0 {
		return widths
	}
	total := -2
	for _, w := range widths {
		total += w + 2
	}
	for _, floor := range []int{readable, 8} {
		for _, c := range append(slices.Clone(t.shrinks), 0) {
			if over := total - s.Width; over > 0 && c < len(widths) {
				to := max(min(widths[c], floor), widths[c]-over)
				total -= widths[c] - to
				widths[c] = to
			}
		}
	}
	return widths
}
