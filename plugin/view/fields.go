package view

import (
	"bytes"
	"encoding/json"
)

// DecodeFields returns the fields of a value that has the JSON form of an object. Numbers keep their digits: as floating-point numbers, large ones
// would not.
func DecodeFields(value any) (map[string]any, error) {
	fields := map[string]any{}
	data, err := json.Marshal(value)
	if err != nil {
		return fields, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&fields)
	return fields, err
}

// toMap returns the fields of an API type, which always has the JSON form of an object.
func toMap(spec any) map[string]any {
	fields, _ := DecodeFields(spec)
	return fields
}
