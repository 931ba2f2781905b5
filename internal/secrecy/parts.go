package secrecy

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// minPart is the length, in bytes, from which on a part of a value is private by itself. A shorter part is part of too many words.
const minPart = 8

// secretPart matches a part of a value that words may have alone: the value of a flag, of the parameter of a query or of a key of JSON, the password in a
// URL, and the token after the scheme of an Authorization header.
var secretPart = regexp.MustCompile(`(?:=|":\s*"|(?i:bearer|basic|token)\s+|://[^/@:\s]*:)([^\s"'@&?]{8,})`)

// passwordPart matches a password in a URL that secretPart does not have: one with an @ in it, or in the value of a flag.
var passwordPart = regexp.MustCompile(`://[^/:\s]*:([^/\s"']{8,})@`)

// Parts returns the parts of a private value that words may have without the rest: the lines of a value with several lines, what secretPart and
// passwordPart match, also without the encoding of URLs, and the texts in a JSON value. Each has minPart bytes at least.
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
			if decoded, err := url.PathUnescape(part[1]); err == nil && decoded != part[1] && len(decoded) >= minPart {
				parts = append(parts, decoded)
			}
		}
	}
	return append(parts, textsOfJSON(value)...)
}

// textsOfJSON returns the texts in an object or a list in JSON, none of any other value.
func textsOfJSON(value string) (texts []string) {
	if text := strings.TrimSpace(value); !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return nil
	}
	var decoded any
	if json.Unmarshal([]byte(value), &decoded) != nil {
		return nil
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case string:
			if len(v) >= minPart {
				texts = append(texts, v)
			}
		}
	}
	walk(decoded)
	return texts
}
