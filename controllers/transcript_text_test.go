package controllers

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// hashOf returns a short hash of a value.
func hashOf(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:8]
}

// longest is how many characters of a value are written.
const longest = 160

// shorten replaces what is long by a hash, and the data of a Secret by its length, as it is random.
func (w *world) shorten(kindName string, body map[string]any) {
	if data, ok := body["data"].(map[string]any); ok && kindName == "Secret" {
		for key, value := range data {
			data[key] = fmt.Sprintf("(%d characters)", len(fmt.Sprint(value)))
		}
	}
	var walk func(value any) any
	walk = func(value any) any {
		switch value := value.(type) {
		case map[string]any:
			for key, each := range value {
				value[key] = walk(each)
			}
		case []any:
			for i, each := range value {
				value[i] = walk(each)
			}
		case string:
			return shortened(value)
		}
		return value
	}
	walk(body)
}

func shortened(text string) string {
	if len(text) <= longest {
		return text
	}
	return fmt.Sprintf("%s… (%d characters, #%s)", strings.ToValidUTF8(text[:longest/2], ""), len(text), hashOf(text))
}

// flatten adds the leaves of a value by their paths.
func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, each := range value {
			flatten(strings.TrimPrefix(path+"."+key, "."), each, into)
		}
		if len(value) > 0 {
			return
		}
	case []any:
		for i, each := range value {
			flatten(fmt.Sprintf("%s[%d]", path, i), each, into)
		}
		if len(value) > 0 {
			return
		}
	}
	into[path] = leaf(value)
}

// leaf returns a value as one line: JSON, and a text without quotes where it cannot be taken for another value.
func leaf(value any) string {
	if text, ok := value.(string); ok && !strings.Contains(text, "\n") && (strings.HasPrefix(text, "{") || !json.Valid([]byte(text))) {
		return text
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// difference returns the lines of two flat values that differ: + for a new one, ~ for another value, - for one that is gone.
func difference(before, after map[string]string) []string {
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, had := before[path]
		is, has := after[path]
		switch {
		case !has:
			lines = append(lines, "- "+path)
		case !had:
			lines = append(lines, "+ "+path+": "+is)
		case was != is:
			lines = append(lines, "~ "+path+": "+is)
		}
	}
	if lines == nil {
		return []string{"(no difference)"}
	}
	return lines
}
