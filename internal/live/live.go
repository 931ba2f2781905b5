// Package live redraws a block of lines at the end of a terminal in place, so that the scrollback has no copies of the block.
package live

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Block is the lines that are redrawn.
type Block struct {
	out io.Writer
	// size returns how many columns and lines the terminal has now.
	size func() (width, height int)
	// drawn are the lines that are on the screen.
	drawn []string
}

// New returns a block at the cursor of a terminal. size returns how many columns and lines that has now.
func New(out io.Writer, size func() (width, height int)) *Block { return &Block{out: out, size: size} }

// What a terminal does with these: the cursor up by a number of lines, to the first column, and all below it erased.
const (
	escape     = "\x1b["
	eraseBelow = "\r\x1b[J"
)

// Draw replaces the block by the lines of a text. Of more lines than the screen has, the first ones are drawn, so that no line ever scrolls
// away; each line is cut to the width. Draw writes nothing if the block is unchanged.
func (b *Block) Draw(text string) error {
	width, height := b.size()
	lines := fitLines(text, width, height)
	if strings.Join(lines, "\n") == strings.Join(b.drawn, "\n") {
		return nil
	}
	var out strings.Builder
	if up := b.drawnRows(width, height); up > 0 {
		out.WriteString(escape + strconv.Itoa(up) + "A")
	}
	out.WriteString(eraseBelow)
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
	b.drawn = lines
	_, err := io.WriteString(b.out, out.String())
	return err
}

// drawnRows returns how many rows of a terminal of this size the block takes: a narrower terminal breaks a drawn line into several rows.
func (b *Block) drawnRows(width, height int) int {
	rows := 0
	for _, line := range b.drawn {
		rows += max(1, (lineWidth(line)+width-1)/max(1, width))
	}
	return min(rows, max(0, height-1))
}

// fitLines returns the lines that fit a terminal: one less than its height, because the cursor is below the block.
func fitLines(text string, width, height int) []string {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if room := max(1, height-1); len(lines) > room {
		lines = lines[:room]
	}
	for i := range lines {
		lines[i] = cutLine(lines[i], width)
	}
	return lines
}

// lineWidth returns how many columns a line takes, without escape sequences.
func lineWidth(line string) int {
	n := 0
	for _, part := range splitEscapes(line) {
		if !strings.HasPrefix(part, escape) {
			n += utf8.RuneCountInString(part)
		}
	}
	return n
}

// cutLine returns a line in at most width columns. What sets colors is kept, so that they end where they should.
func cutLine(line string, width int) string {
	if lineWidth(line) <= width {
		return line
	}
	var out strings.Builder
	for _, part := range splitEscapes(line) {
		if strings.HasPrefix(part, escape) {
			out.WriteString(part)
			continue
		}
		runes := []rune(part)
		runes = runes[:min(len(runes), width)]
		width -= len(runes)
		out.WriteString(string(runes))
	}
	return out.String()
}

// splitEscapes returns the parts of a line: text, and escape sequences.
func splitEscapes(line string) []string {
	var parts []string
	for {
		at := strings.Index(line, escape)
		if at < 0 {
			return append(parts, line)
		}
		end := strings.IndexByte(line[at:], 'm')
		if end < 0 {
			return append(parts, line)
		}
		parts = append(parts, line[:at], line[at:at+end+1])
		line = line[at+end+1:]
	}
}
