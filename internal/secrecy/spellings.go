package secrecy

import (
	"encoding/json"
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
		inGo, inJSON, escapeASCII(inGo, lowerDigits), escapeASCII(inGo, upperDigits), escapeASCII(inJSON, lowerDigits), escapeASCII(inJSON, upperDigits),
		strings.ReplaceAll(inGo, "/", `\/`), strings.ReplaceAll(escapeASCII(inGo, lowerDigits), "/", `\/`), url.QueryEscape(start), url.PathEscape(start),
	} {
		if !slices.Contains(all, spelling) {
			all = append(all, spelling)
		}
	}
	return all
}

// trimQuotes returns a quoted text without its quotes.
func trimQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }

// The hexadecimal digits of escapes.
const (
	lowerDigits = "0123456789abcdef"
	upperDigits = "0123456789ABCDEF"
)

// escapeASCII returns a text of JSON with the characters beyond ASCII escaped, as Python, Java, PHP and .NET do.
func escapeASCII(text, digits string) string {
	if !strings.ContainsFunc(text, isWide) {
		return text
	}
	escaped, units := make([]byte, 0, 2*len(text)), make([]uint16, 0, 2)
	for _, char := range text {
		if !isWide(char) {
			escaped = append(escaped, byte(char))
			continue
		}
		for _, unit := range utf16.AppendRune(units, char) {
			escaped = append(escaped, '\\', 'u', digits[unit>>12], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
		}
	}
	return string(escaped)
}

func isWide(char rune) bool { return char >= utf8.RuneSelf }
