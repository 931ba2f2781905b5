package secrecy

import (
	"index/suffixarray"
	"strings"
	"unicode/utf8"
)

// wholeText is more bytes than a text has.
const wholeText = 1 << 30

// hideValues returns texts without private values: each run of bytes that overlapping values cover becomes messageValueHidden. From a long value on, whose
// end may be cut off, nothing of its text is shown. At the end of each text that was cut, the beginning of a value is hidden. Each start of a value is looked up
// once in an index of the texts. So the work grows with the length of the values, and with maxPrefix times that of the texts: as the starts differ, one of
// each length is at a place at most. What replaces a value is not searched for another one: words would grow with each value that this text has in it.
func hideValues(texts []string, cut []bool, private []string) []string {
	joined := strings.Join(texts, "\x00")
	if len(private) == 0 || strings.Trim(joined, "\x00") == "" {
		return texts
	}
	index, covered := suffixarray.New([]byte(joined)), make([]int, len(joined))
	for start, length := range startsOf(private) {
		for _, at := range index.Lookup([]byte(start), -1) {
			covered[at] = max(covered[at], length)
		}
	}
	hidden, begin := make([]string, len(texts)), 0
	for i, text := range texts {
		if cut[i] {
			words := strings.TrimSuffix(text, openEnd)
			if at := beginningAt(words, private); at < len(words) {
				covered[begin+at] = max(covered[begin+at], len(words)-at)
			}
		}
		hidden[i] = hideRuns(text, covered[begin:])
		begin += len(text) + len("\x00")
		begin = min(begin, len(joined)) // After the last text, there is no separator.
	}
	return hidden
}

// startsOf returns, for each start by which a spelling of a value is found, how many bytes are hidden from it on. Long values may have the same start.
func startsOf(private []string) map[string]int {
	starts := make(map[string]int, len(private))
	for _, value := range private {
		for _, spelling := range spellBeginning(value) {
			length, start := len(spelling), spelling
			if length > maxPrefix {
				length, start = wholeText, spelling[:maxPrefix]
			}
			if starts[start] < length {
				starts[start] = length
			}
		}
	}
	return starts
}

// hideRuns returns a text in which each run of covered bytes is replaced. From each byte on, covered is how many bytes a value covers.
func hideRuns(text string, covered []int) string {
	var shown strings.Builder
	for at := 0; at < len(text); {
		if covered[at] == 0 {
			shown.WriteByte(text[at])
			at++
			continue
		}
		end := at + covered[at]
		for next := at + 1; next < min(end, len(text)); next++ {
			end = max(end, next+covered[next])
		}
		shown.WriteString(messageValueHidden)
		at = end
	}
	return shown.String()
}

// spellBeginning returns the Spellings of as much of a value as finds it: each spelling of more than maxPrefix bytes begins like that of the whole value.
func spellBeginning(value string) []string {
	return Spellings(value[:min(len(value), maxPrefix+utf8.UTFMax)])
}
