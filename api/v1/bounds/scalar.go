package bounds

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const quantityWords = "must be a quantity, such as 2, 500m or 1Gi,"

// quantity checks a quantity.
func (w *walker) quantity(c byte) error {
	if c == '{' || c == '[' || c == 0 {
		return w.unexpected(quantityWords + " not an object or a list")
	}
	if w.quantities++; w.quantities > MaxQuantities {
		return w.wrong("exceeds the limit of %d quantities", MaxQuantities)
	}
	read, err := w.short(quantityWords)
	if err != nil {
		return err
	}
	read = bytes.Trim(read, `"`)
	if exponent(read) > MaxExponent {
		return w.wrong("%s with an exponent of at most %d digits", quantityWords, MaxExponent)
	}
	if w.thorough {
		if _, err := resource.ParseQuantity(strings.TrimSpace(string(read))); err != nil {
			return w.wrong("%s a number with an optional suffix or a whole exponent", quantityWords)
		}
	}
	return nil
}

// exponent returns the maximum number of consecutive digits after an e, with or without a sign.
func exponent(number []byte) int {
	most := 0
	for i := 0; i < len(number); i++ {
		if number[i] != 'e' && number[i] != 'E' {
			continue
		}
		begin := i + 1
		if begin < len(number) && (number[begin] == '+' || number[begin] == '-') {
			begin++
		}
		end := begin
		for end < len(number) && number[end] >= '0' && number[end] <= '9' {
			end++
		}
		most, i = max(most, end-begin), end-1
	}
	return most
}

const intOrStringWords = "must be a number from -2147483648 to 2147483647, or a string"

// intOrString checks a number or text.
func (w *walker) intOrString(c byte) error {
	if c == '{' || c == '[' || c == 0 {
		return w.unexpected(intOrStringWords)
	}
	read, err := w.short(intOrStringWords)
	if err != nil {
		return err
	}
	if w.thorough && read[0] != '"' {
		if _, err := strconv.ParseInt(string(read), 10, 32); err != nil {
			return w.wrong("%s", intOrStringWords)
		}
	}
	return nil
}

// patch checks a patch of a pod template, by its bounds alone. The merge of the patch reports other errors.
func (w *walker) patch(s *shape) error {
	begin, depth, thorough := w.pos, len(w.path), w.thorough
	// The cheap check of the length precedes the others.
	if err := w.skip(); err != nil {
		return err
	}
	if w.pos-begin > MaxPatch {
		return w.wrong("must be at most %d KiB long as JSON; it has %d KiB", MaxPatch>>10, (w.pos-begin+1023)>>10)
	}
	w.pos, w.thorough = begin, false
	err := w.value(s.elem)
	if err == nil {
		w.path = w.path[:depth]
	}
	w.thorough = thorough
	return err
}

// scalar checks a text, boolean, integer, or value with its own decoder.
func (w *walker) scalar(s *shape, c byte) error {
	begin := w.pos
	if err := w.skip(); err != nil {
		return err
	}
	read := w.data[begin:w.pos]
	switch s.form {
	case text:
		if c != '"' {
			return w.wrong("must be a string")
		}
	case boolean:
		if c != 't' && c != 'f' {
			return w.wrong("must be true or false")
		}
	case integer:
		bits := s.goType.Bits()
		if _, err := strconv.ParseInt(string(read), 10, bits); err != nil {
			return w.wrong("must be a whole number from %d to %d", -1<<(bits-1), uint64(1)<<(bits-1)-1)
		}
	default:
		if json.Unmarshal(read, reflect.New(s.goType).Interface()) != nil {
			return w.wrong("must be of the type %s", s.goType)
		}
	}
	return nil
}
