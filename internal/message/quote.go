// Package message shapes other programs' words for conditions and events.
package message

import (
	"regexp"
	"strconv"
	"strings"
)

// maxQuote limits the words of another program in a message, in bytes.
const maxQuote = 256

// Quote returns another program's words on one line, cut to what a person reads.
func Quote(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > maxQuote {
		words = strings.ToValidUTF8(words[:maxQuote], "") + "…"
	}
	return words
}

// Truncate returns the beginning of a text, at most a number of bytes. The beginning of a longer text ends with an ellipsis.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, most-len("…"))], "") + "…"
}

// Count returns a number of things in words, such as "1 pod" or "2 pods".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// repeatedObject matches how the API server repeats an object, or what else is no plain value of a field.
var repeatedObject = regexp.MustCompile(`(?s)((?:Invalid|Unsupported|Duplicate) value): (?:\{.*\}|\[.*\]|map\[.*\]|"\{.*\}"|"\[.*\]")`)

// ofNoField matches the words of the API server before the cause, for an object that is invalid as a whole.
var ofNoField = regexp.MustCompile(`(?:<nil>|""): Invalid value: `)

// OmitObjects returns an answer of the API server without the objects that it repeats, which may have secrets in them, and without the empty name
// of the field that such an object is the value of.
func OmitObjects(words string) string {
	return ofNoField.ReplaceAllString(repeatedObject.ReplaceAllString(words, "$1"), "")
}
