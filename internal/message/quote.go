// Package message shapes other programs' words for conditions and events.
package message

import (
	"regexp"
	"strings"
)

// maxQuote limits what is repeated of another program's words, in bytes.
const maxQuote = 256

// Quote returns another program's words on one line, cut to what a person reads.
func Quote(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > maxQuote {
		words = strings.ToValidUTF8(words[:maxQuote], "") + "…"
	}
	return words
}

// repeatedObject matches how the API server repeats an object, or what else is no plain value of a field.
var repeatedObject = regexp.MustCompile(`(?s)((?:Invalid|Unsupported|Duplicate) value): (?:\{.*\}|\[.*\]|map\[.*\]|"\{.*\}"|"\[.*\]")`)

// OmitObjects returns an answer of the API server without the objects that it repeats, which may have secrets in them.
func OmitObjects(words string) string { return repeatedObject.ReplaceAllString(words, "$1") }
