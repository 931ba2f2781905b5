package secrecy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Spellings returns a value as texts quote it: as it is, and, where that differs, with the escapes of Go, of JSON in the ways of usual encoders, and of
// URLs. Of a value beyond MaxAnswer, the other spellings are of its beginning.
func Spellings(value string) []string {
	start := value[:min(len(value), MaxAnswer)]
	encoded, _ := json.Marshal(start) // A string always has an encoding.
	inGo, inJSON := trimQuotes(strconv.Quote(start)), trimQuotes(string(encoded))
	all := []string{value}
	for _, spelling := range []string{
		inGo, inJSON, escapeASCII(inGo, "%04x"), escapeASCII(inGo, "%04X"), escapeASCII(inJSON, "%04x"), escapeASCII(inJSON, "%04X"),
		strings.ReplaceAll(inGo, "/", `\/`), strings.ReplaceAll(escapeASCII(inGo, "%04x"), "/", `\/`), url.QueryEscape(start), url.PathEscape(start),
	} {
		if !slices.Contains(all, spelling) {
			all = append(all, spelling)
		}
	}
	return all
}

// trimQuotes returns a quoted text without its quotes.
func trimQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }

// escapeASCII returns a text of JSON with the characters beyond ASCII escaped, as Python, Java, PHP and .NET do.
func escapeASCII(text, hexadecimal string) string {
	if !strings.ContainsFunc(text, isWide) {
		return text
	}
	var escaped strings.Builder
	for _, char := range text {
		if !isWide(char) {
			escaped.WriteRune(char)
			continue
		}
		for _, unit := range utf16.Encode([]rune{char}) {
			fmt.Fprintf(&escaped, `\u`+hexadecimal, unit)
		}
	}
	return escaped.String()
}

func isWide(char rune) bool { return char >= utf8.RuneSelf }
