package secrecy

import (
	"regexp"
	"strings"
)

// minPart is the length, in bytes, from which on a part of a value is private by itself. A shorter part is part of too many words.
const minPart = 8

// secretPart matches a part of a value that words may have alone: the value of a flag, of the parameter of a query or of a key of JSON, the password in a
// URL, and the token after the scheme of an Authorization header.
var secretPart = regexp.MustCompile(`(?:=|":\s*"|(?i:bearer|basic|token)\s+|://[^/@:\s]*:)([^\s"'@&?]{8,})`)

// passwordPart matches a password in a URL that secretPart does not have: one with an @ in it, or in the value of a flag.
var passwordPart = regexp.MustCompile(`://[^/:\s]*:([^/\s"']{8,})@`)

// Parts returns the parts of a private value that words may have without the rest: the lines of a value with several lines, and what secretPart and
// passwordPart match. Each has minPart bytes at least.
func Parts(value string) []string {
	var parts []string
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minPart {
				parts = append(parts, line)
			}
		}
	}
	for _, form := range []*regexp.Regexp{secretPart, passwordPart} {
		for _, part := range form.FindAllStringSubmatch(value, -1) {
			parts = append(parts, part[1])
		}
	}
	return parts
}
