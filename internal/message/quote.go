// Package message shapes other programs' words for conditions and events.
package message

import "strings"

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
