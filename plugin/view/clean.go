package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// maxText is the maximum length of a text of a view in bytes. A longer text is cut and ends with "…".
const maxText = 4 << 10

// cleanView returns a copy of a view's value with all texts cleaned for every output, see CleanLine, because texts come from events, kubelets,
// conditions and specs of others. Each view returns its result through cleanView, so no output cleans again. The values of a Change keep their
// line breaks. Fields with the JSON name "-" are data that is written back, not shown, and stay exact.
func cleanView[T any](made T) T {
	value := reflect.ValueOf(&made).Elem()
	if cleaned, changed := cleanValue(value, "", func(_, text string) string { return CleanLine(text) }); changed {
		value.Set(cleaned)
	}
	return made
}

// changeType is the type whose values may have several lines.
var changeType = reflect.TypeFor[Change]()

// texts returns a text of a field in another form. The field is the name of the field of a struct, or the key of a map.
type texts func(field, text string) string

// cleanValue returns the value of a field with each text in it as text returns it, and whether that is another value.
func cleanValue(v reflect.Value, field string, text texts) (cleaned reflect.Value, changed bool) {
	switch v.Kind() {
	case reflect.String:
		was := v.String()
		if is := text(field, was); is != was {
			return reflect.ValueOf(is).Convert(v.Type()), true
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v, false
		}
		below, changed := cleanValue(v.Elem(), field, text)
		if !changed {
			return v, false
		}
		if v.Kind() == reflect.Interface {
			return below, true
		}
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(below)
		return copied, true
	case reflect.Slice:
		return cleanSlice(v, field, text)
	case reflect.Map:
		return cleanMap(v, text)
	case reflect.Struct:
		return cleanStruct(v, text)
	default:
	}
	return v, false
}

func cleanSlice(v reflect.Value, field string, text texts) (cleaned reflect.Value, changed bool) {
	for i := range v.Len() {
		item, differs := cleanValue(v.Index(i), field, text)
		if !differs {
			continue
		}
		if !changed {
			copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(copied, v)
			v, changed = copied, true
		}
		v.Index(i).Set(item)
	}
	return v, changed
}

func cleanMap(v reflect.Value, text texts) (cleaned reflect.Value, changed bool) {
	copied := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, key := range v.MapKeys() {
		cleanKey, keyDiffers := cleanValue(key, "", text)
		item, differs := cleanValue(v.MapIndex(key), key.String(), text)
		changed = changed || keyDiffers || differs
		copied.SetMapIndex(cleanKey, item)
	}
	if !changed {
		return v, false
	}
	return copied, true
}

func cleanStruct(v reflect.Value, text texts) (cleaned reflect.Value, changed bool) {
	if v.Type() == changeType {
		text = func(_, text string) string { return CleanText(text) }
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Tag.Get("json") == "-" {
			continue
		}
		item, differs := cleanValue(v.Field(i), field.Name, text)
		if !differs {
			continue
		}
		if !changed {
			copied := reflect.New(v.Type()).Elem()
			copied.Set(v)
			v, changed = copied, true
		}
		v.Field(i).Set(item)
	}
	return v, changed
}

// CleanLine returns a text in one line, of at most maxText bytes, without invisible parts that a terminal or a browser would act on: control
// characters, escape sequences, characters without a glyph, characters that change the direction of text, line separators, and bytes that
// are no UTF-8.
func CleanLine(text string) string {
	return cleanRunes(text, maxText, func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return visibleRune(r)
	})
}

// CleanText is CleanLine for a text of several lines, such as an error: line breaks and tabs stay.
func CleanText(text string) string {
	return cleanRunes(text, 4*maxText, visibleRune)
}

// cleanRunes maps the runes of a text, and cuts it.
func cleanRunes(text string, most int, one func(rune) rune) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("…")], "") + "…"
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return one(r) != r }) && utf8.ValidString(text) {
		return text
	}
	return strings.Map(one, strings.ToValidUTF8(text, "?"))
}

// visibleRune returns a rune that a view shows, and -1 for another.
func visibleRune(r rune) rune {
	if r != '\n' && r != '\t' && isUnprintable(r) {
		return -1
	}
	return r
}

// isUnprintable reports whether a rune is a control character, has no glyph or changes the direction of text.
func isUnprintable(r rune) bool {
	const blankBraille, replacedObject = '\u2800', '\ufffc'
	return unicode.IsControl(r) || r == blankBraille || r == replacedObject ||
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// CleanWriter returns a writer of whole texts that writes each through CleanText.
func CleanWriter(to io.Writer) io.Writer { return cleanWriter{to} }

type cleanWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w cleanWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(w.to, CleanText(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// EncodeJSON returns data as JSON with each character that isUnprintable refuses in its escaped form, so that the text is harmless and the
// data is exact.
func EncodeJSON(data any) ([]byte, error) {
	return encodeEscaped(data, func(r rune) string {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// EncodeYAML returns data as YAML; in the flow style, the style of JSON, if plain YAML would contain a character that EncodeJSON escapes.
func EncodeYAML(data any) ([]byte, error) {
	text, err := yaml.Marshal(data)
	if err == nil && !bytes.ContainsFunc(text, func(r rune) bool { return r != '\n' && isUnprintable(r) }) {
		return text, nil
	}
	return encodeEscaped(data, func(r rune) string { return fmt.Sprintf(`\U%08x`, r) })
}

// encodeEscaped returns data as JSON. beyond returns the escaped form of a rune beyond the basic plane, which JSON and YAML have in different
// forms.
func encodeEscaped(data any, beyond func(rune) string) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return nil, err
	}
	var escaped strings.Builder
	for _, r := range text.String() {
		switch {
		case r == '\n' || !isUnprintable(r):
			escaped.WriteRune(r)
		case r > 0xffff:
			escaped.WriteString(beyond(r))
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return []byte(escaped.String()), nil
}
