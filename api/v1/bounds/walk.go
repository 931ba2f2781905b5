package bounds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// walker checks JSON along the shape of a Go type before the JSON is decoded. It takes time in proportion to the length of the
// JSON.
type walker struct {
	data []byte
	pos  int
	// path is the path of the value at pos.
	path []step
	room [24]step
	// root is the path of the whole JSON value.
	root string
	// quantities is the number of quantities before pos.
	quantities int
	// thorough makes the walker report every error of decoding, rather than only the limits.
	thorough bool
}

// step is one step of a path: a key, or the index of an item.
type step struct {
	key   []byte
	index int
	// of is the form of the value that contains the step.
	of form
}

// walk checks the JSON of a type and returns the first error.
func walk(data []byte, t reflect.Type, root string, thorough bool) error {
	w := walker{data: data, root: root, thorough: thorough}
	w.path = w.room[:0]
	return w.value(shapeOf(t))
}

// wrong returns an error with the path of the current value.
func (w *walker) wrong(format string, args ...any) error {
	var path strings.Builder
	path.WriteString(w.root)
	for _, s := range w.path {
		switch s.of {
		case sequence:
			fmt.Fprintf(&path, "[%d]", s.index)
		case dictionary:
			fmt.Fprintf(&path, "[%s]", shorten(s.key))
		default:
			path.WriteString("." + shorten(s.key))
		}
	}
	return invalid(path.String(), fmt.Sprintf(format, args...))
}

func invalid(path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: detail}
}

// shorten returns a key on one line of at most 256 bytes, for an error message.
func shorten(key []byte) string {
	const most = 256
	words := strings.Join(strings.Fields(string(key)), " ")
	if len(words) > most {
		words = strings.ToValidUTF8(words[:most], "") + "…"
	}
	return words
}

func (w *walker) malformed() error { return w.wrong("must be JSON") }

// next skips white space and returns the next byte without consuming it, 0 at the end.
func (w *walker) next() byte {
	for ; w.pos < len(w.data); w.pos++ {
		switch c := w.data[w.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value checks a value of any form.
func (w *walker) value(s *shape) error {
	c := w.next()
	if c == 'n' || s.plain && !w.thorough {
		return w.skip()
	}
	switch s.form {
	case object, dictionary:
		if c == '{' {
			return w.object(s)
		}
		return w.unexpected("must be an object")
	case sequence:
		if c == '[' {
			return w.sequence(s)
		}
		return w.unexpected("must be a list")
	case quantity:
		return w.quantity(c)
	case intOrString:
		return w.intOrString(c)
	case patch:
		return w.patch(s)
	}
	if w.thorough {
		return w.scalar(s, c)
	}
	return w.skip()
}

// unexpected handles a value of a wrong form. The error is left to the decoder unless the walker is thorough.
func (w *walker) unexpected(words string) error {
	if w.thorough {
		return w.wrong("%s", words)
	}
	return w.skip()
}

// object checks an object or a dictionary.
func (w *walker) object(s *shape) error {
	w.pos++
	if w.next() == '}' {
		w.pos++
		return nil
	}
	for i := 0; ; i++ {
		if s.form == dictionary && i == s.most {
			return w.wrong("must have at most %d entries", s.most)
		}
		if w.next() != '"' {
			return w.malformed()
		}
		key, ok := w.key()
		if !ok || w.next() != ':' {
			return w.malformed()
		}
		w.pos++
		child := s.elem
		if s.form == object {
			child = s.fields[string(key)]
		}
		if err := w.within(step{key: key, of: s.form}, child); err != nil {
			return err
		}
		switch w.next() {
		case ',':
			w.pos++
		case '}':
			w.pos++
			return nil
		default:
			return w.malformed()
		}
	}
}

// sequence checks a list.
func (w *walker) sequence(s *shape) error {
	w.pos++
	if w.next() == ']' {
		w.pos++
		return nil
	}
	for i := 0; ; i++ {
		if s.most > 0 && i == s.most {
			return w.wrong("must have at most %d items", s.most)
		}
		if err := w.within(step{index: i, of: sequence}, s.elem); err != nil {
			return err
		}
		switch w.next() {
		case ',':
			w.pos++
		case ']':
			w.pos++
			return nil
		default:
			return w.malformed()
		}
	}
}

// within checks a nested value. A nil shape is for a field that the type does not have.
func (w *walker) within(to step, s *shape) error {
	if len(w.path) == MaxDepth {
		return w.tooDeep()
	}
	w.path = append(w.path, to)
	var err error
	if s == nil {
		err = w.skip()
	} else {
		err = w.value(s)
	}
	if err == nil {
		w.path = w.path[:len(w.path)-1]
	}
	return err
}

func (w *walker) tooDeep() error {
	return w.wrong("must be nested at most %d levels deep", MaxDepth)
}

// key reads and unquotes the key of an object.
func (w *walker) key() ([]byte, bool) {
	quoted, ok := w.text()
	if !ok {
		return nil, false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], true
	}
	var key string
	if err := json.Unmarshal(quoted, &key); err != nil {
		return nil, false
	}
	return []byte(key), true
}

// text reads a text with its quotes.
func (w *walker) text() ([]byte, bool) {
	for i := w.pos + 1; i < len(w.data); i++ {
		switch w.data[i] {
		case '\\':
			i++
		case '"':
			read := w.data[w.pos : i+1]
			w.pos = i + 1
			return read, true
		}
	}
	return nil, false
}

// literal skips a number, true, false or null.
func (w *walker) literal() {
	for ; w.pos < len(w.data); w.pos++ {
		switch w.data[w.pos] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// skip skips a value, and checks only its depth.
func (w *walker) skip() error {
	for open := 0; ; {
		switch w.next() {
		case '"':
			if _, ok := w.text(); !ok {
				return w.malformed()
			}
		case '{', '[':
			if open++; len(w.path)+open > MaxDepth {
				return w.tooDeep()
			}
			w.pos++
			continue
		case '}', ']':
			open--
			w.pos++
		case ',', ':':
			if open == 0 {
				return w.malformed()
			}
			w.pos++
			continue
		case 0:
			return w.malformed()
		default:
			w.literal()
		}
		if open < 0 {
			return w.malformed()
		}
		if open == 0 {
			return nil
		}
	}
}

// short reads a number or text, and checks its length.
func (w *walker) short(words string) ([]byte, error) {
	begin := w.pos
	if w.data[begin] == '"' {
		if _, ok := w.text(); !ok {
			return nil, w.malformed()
		}
	} else {
		w.literal()
	}
	read := w.data[begin:w.pos]
	if len(read) > MaxLiteral+2 {
		return nil, w.wrong("%s of at most %d characters", words, MaxLiteral)
	}
	return read, nil
}
