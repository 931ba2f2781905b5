package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

// applyBody returns the request body that states the fields, and preconditions in the metadata.
func applyBody(fields map[string]any, preconditions map[string]string) ([]byte, error) {
	body := maps.Clone(fields)
	if stated, ok := fields["metadata"].(map[string]any); ok {
		metadata := maps.Clone(stated)
		for name, value := range preconditions {
			metadata[name] = value
		}
		body["metadata"] = metadata
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return escapeForYAML(data), nil
}

// escapeForYAML writes as escapes those characters of a JSON text that stand for themselves there and not in YAML, which refuses
// them or takes them for a line break (https://yaml.org/spec/1.1/#id868524): the API server reads an apply request as
// YAML. The other line breaks of Unicode are escaped by Go's encoder.
func escapeForYAML(data []byte) []byte {
	unprintable := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if !bytes.ContainsFunc(data, unprintable) {
		return data
	}
	var escaped bytes.Buffer
	for _, r := range string(data) {
		if unprintable(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes()
}
