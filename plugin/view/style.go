package view

import (
	"cmp"
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
	MarkHold Mark = "hold"
	MarkFail Mark = "fail"
	MarkBad  Mark = "bad"
)

var (
	markSigns  = map[Mark]string{MarkGood: "✓", MarkBusy: "◐", MarkHold: "‖", MarkFail: "▲", MarkBad: "✗"}
	markColors = map[Mark]string{
		MarkGood: "\x1b[32m", MarkBusy: "\x1b[36m", MarkHold: "\x1b[35m", MarkFail: "\x1b[33m", MarkBad: "\x1b[31m",
	}
)

const colorOff, colorBold = "\x1b[0m", "\x1b[1m"

// inASCII replaces signs for terminals without Unicode.
var inASCII = strings.NewReplacer(
	"├─", "|-", "└─", "`-", "│", "|", "└", "`", "█", "#", "▒", "+", "░", ".", "✓", "+", "✗", "x", "◐", "o", "‖", "=", "▲", "!", "○", "-", "…", "...", "→", "->",
	"◀", "<-", "–", "-", "•", "*",
)

// plainText returns text as the style can show it.
func (s Style) plainText(text string) string {
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

// Sign returns the sign of the mark, a dot for none.
func (m Mark) Sign() string { return cmp.Or(markSigns[m], "·") }

// paintText returns text in the color of a mark.
func (s Style) paintText(mark Mark, text string) string {
	if !s.Color || markColors[mark] == "" || text == "" {
		return text
	}
	return markColors[mark] + text + colorOff
}

// boldText returns text in bold.
func (s Style) boldText(text string) string {
	if !s.Color {
		return text
	}
	return colorBold + text + colorOff
}

// wrapText breaks a text between words into lines of at most width columns.
func wrapText(text string, width int) []string {
	if width < 1 || utf8.RuneCountInString(text) <= width {
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

// OneLine returns a text that may stem from anyone as one line that the style can show.
func (s Style) OneLine(text string) string { return s.plainText(CleanLine(text)) }

// wrapLines returns a text in lines of at most the width of the style, each with its end. The first line begins with head, the others with body.
// Neither a name nor an image is cut: a word that is longer than a line stays whole.
func (s Style) wrapLines(head, body, text string) string {
	width := 0
	if s.Width > 0 {
		width = max(1, s.Width-utf8.RuneCountInString(s.plainText(head)))
	}
	var b strings.Builder
	for _, line := range wrapText(s.plainText(text), width) {
		b.WriteString(strings.TrimRight(s.plainText(head)+line, " ") + "\n")
		head = body
	}
	return b.String()
}

// table is text in columns. Nothing in it is cut: the last column is wrapped where a line would be too long.
type table struct {
	rows []tableRow
	// painted is the column whose cells have the color of their row's mark.
	painted int
	// headed is true if the first row is a head.
	headed bool
}

// tableRow is a row, or a note across all columns.
type tableRow struct {
	cells []string
	mark  Mark
	// head and body begin the first and the further lines of a note. For a row, body begins a line below it.
	note, head, body string
}

func (t *table) addRow(mark Mark, cells ...string) {
	t.rows = append(t.rows, tableRow{cells: cells, mark: mark})
}

// addNote adds a note across all columns.
func (t *table) addNote(head, body, note string) {
	t.rows = append(t.rows, tableRow{note: note, head: head, body: body})
}

// readable is the width below which the last column begins on a line of its own, indent the indentation of that line.
const (
	readable = 22
	indent   = "    "
)

// drawText returns the table, each line with its end.
func (t *table) drawText(s Style) string {
	widths := t.columnWidths(s)
	var b strings.Builder
	for i := range t.rows {
		row := &t.rows[i]
		if row.cells == nil {
			b.WriteString(s.wrapLines(row.head, row.body, row.note))
			continue
		}
		head := t.headed && i == 0
		last := len(row.cells) - 1
		used := 0
		var line strings.Builder
		for c, cell := range row.cells[:last] {
			cell = s.plainText(cell)
			pad := widths[c] - utf8.RuneCountInString(cell) + 2
			used += widths[c] + 2
			line.WriteString(t.paintCell(s, row, c, cell, head) + strings.Repeat(" ", pad))
		}
		t.finishLine(&b, s, row, line.String(), used, head)
	}
	return b.String()
}

// paintCell returns a cell in its color.
func (t *table) paintCell(s Style, row *tableRow, column int, text string, head bool) string {
	switch {
	case head:
		return s.boldText(text)
	case column == t.painted:
		return s.paintText(row.mark, text)
	}
	return text
}

// finishLine writes a line, whose columns but the last one take so many columns of the terminal, and the last column behind or below them.
func (t *table) finishLine(b *strings.Builder, s Style, row *tableRow, line string, used int, head bool) {
	column := len(row.cells) - 1
	text := s.plainText(row.cells[column])
	body, width := strings.Repeat(" ", used), 0
	if s.Width > 0 && used+utf8.RuneCountInString(text) > s.Width {
		width = s.Width - used
		if longest := longestWord(text); width < readable || longest > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			body = s.plainText(cmp.Or(row.body, indent))
			line, width = body, max(1, s.Width-utf8.RuneCountInString(body))
		}
	}
	for _, part := range wrapText(text, width) {
		b.WriteString(strings.TrimRight(line+t.paintCell(s, row, column, part, head), " ") + "\n")
		line = body
	}
}

// longestWord returns the length of the longest word of a text.
func longestWord(text string) int {
	longest := 0
	for word := range strings.FieldsSeq(text) {
		longest = max(longest, utf8.RuneCountInString(word))
	}
	return longest
}

// columnWidths returns how wide each column but the last one is.
func (t *table) columnWidths(s Style) []int {
	var widths []int
	for i := range t.rows {
		cells := t.rows[i].cells
		for c := range len(cells) - 1 {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(s.plainText(cells[c])))
		}
	}
	return widths
}
