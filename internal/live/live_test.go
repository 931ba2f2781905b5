package live

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// screen is a terminal of some lines, with what has scrolled away.
type screen struct {
	t             *testing.T
	width, height int
	lines         [][]rune
	row, col      int
	gone          []string
	writes        int
}

func newScreen(t *testing.T, width, height int) *screen {
	return &screen{t: t, width: width, height: height, lines: make([][]rune, height)}
}

func (s *screen) size() (width, height int) { return s.width, s.height }

// Write implements io.Writer as a terminal does.
func (s *screen) Write(p []byte) (int, error) {
	s.writes++
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\x1b':
			end := i + 2
			for text[end] >= '0' && text[end] <= '9' {
				end++
			}
			s.control(text[end], string(text[i+2:end]))
			i = end
		case '\r':
			s.col = 0
		case '\n':
			s.newline()
		default:
			if s.col == s.width {
				s.newline()
			}
			for len(s.lines[s.row]) <= s.col {
				s.lines[s.row] = append(s.lines[s.row], ' ')
			}
			s.lines[s.row][s.col] = r
			s.col++
		}
	}
	return len(p), nil
}

func (s *screen) control(command rune, number string) {
	switch command {
	case 'A':
		n, err := strconv.Atoi(number)
		if err != nil {
			s.t.Fatal(err)
		}
		s.row = max(0, s.row-n)
	case 'J':
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
		for i := s.row + 1; i < s.height; i++ {
			s.lines[i] = nil
		}
	case 'm':
	default:
		s.t.Fatalf("the terminal does not know %q", command)
	}
}

func (s *screen) newline() {
	s.col = 0
	if s.row++; s.row == s.height {
		s.gone = append(s.gone, string(s.lines[0]))
		s.lines = append(s.lines[1:], nil)
		s.row--
	}
}

func (s *screen) text() string {
	var lines []string
	for _, line := range s.lines {
		lines = append(lines, string(line))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// TestDraw checks with many random blocks that the screen has the last one and what stood above, and nothing else scrolled away.
func TestDraw(t *testing.T) {
	s := newScreen(t, 30, 8)
	fmt.Fprint(s, "above\n")
	b, random := New(s, s.size), rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var lines []string
		for i := range random.IntN(12) {
			lines = append(lines, fmt.Sprintf("%d %s\x1b[31mred\x1b[0m", i, strings.Repeat("x", random.IntN(40))))
		}
		if err := b.Draw(strings.Join(lines, "\n")); err != nil {
			t.Fatal(err)
		}
		for _, line := range s.gone {
			if line != "above" {
				t.Fatalf("a line of the block scrolled away: %q", line)
			}
		}
		var want []string
		if len(s.gone) == 0 {
			want = append(want, "above")
		}
		for _, line := range lines[:min(len(lines), 7)] {
			plain := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(line)
			want = append(want, plain[:min(len(plain), 30)])
		}
		if got := s.text(); got != strings.Join(want, "\n") {
			t.Fatalf("the screen has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
}

// TestDrawNothingNew checks that an unchanged block is not written again.
func TestDrawNothingNew(t *testing.T) {
	s := newScreen(t, 30, 8)
	b := New(s, s.size)
	for range 3 {
		if err := b.Draw("one\ntwo\n"); err != nil {
			t.Fatal(err)
		}
	}
	if s.writes != 1 {
		t.Errorf("%d writes, want 1", s.writes)
	}
}

// TestResize checks that a block is redrawn within a terminal that has become narrower.
func TestResize(t *testing.T) {
	s := newScreen(t, 30, 8)
	b := New(s, s.size)
	if err := b.Draw(strings.Repeat("x", 30) + "\nend"); err != nil {
		t.Fatal(err)
	}
	// The terminal breaks the first line into two.
	s.width, s.row = 20, 3
	s.lines[0], s.lines[1], s.lines[2] = []rune(strings.Repeat("x", 20)), []rune(strings.Repeat("x", 10)), []rune("end")
	if err := b.Draw("new"); err != nil {
		t.Fatal(err)
	}
	if got := s.text(); got != "new" {
		t.Errorf("the screen has\n%s", got)
	}
}
