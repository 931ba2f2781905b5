// Package secrecy removes private values from words of other programs: values of Secrets, and values, arguments, commands, headers and
// annotations of the objects that the words are about. It is pure, for the engine and for the verdict on a workload.
package secrecy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"huolala.cn/app-operator/internal/message"
)

// Withheld replaces an answer that has a value of a Secret in it.
const Withheld = messageSecretValue

// minSecret is the length from which on a value of a variable, an argument or a header is removed wherever it occurs. A
// shorter value is part of too many words.
const minSecret = 4

// MaxAnswer is how much of an answer's words is read, in bytes. A message shows far less of them.
const MaxAnswer = 16 << 10

// The limits of RedactForeign: how many private values are looked for, as that takes the more time the more there are, and how much of the words
// is read, in bytes.
const (
	maxForeignValues = 500
	maxForeignWords  = 1 << 10
)

// maxPrefix is how much of a private value, in bytes, is enough to find it in words that are cut.
const maxPrefix = 1 << 10

// PrivateFields matches the parts of paths below which values are private, as the API server spells them.
const PrivateFields = `(?:env|args|command|\w*[aA]nnotations|httpHeaders|data|stringData|podTemplatePatch)`

var (
	// quotedValue is how the API server repeats the value of a private field.
	quotedValue = regexp.MustCompile(`(` + PrivateFields + `[^\s:]*: (?:Invalid|Unsupported|Duplicate) value): (?:"(?:[^"\\]|\\.)*"|[^":{\s][^:\s]*)`)
	causeValue  = regexp.MustCompile(`^((?:Invalid|Unsupported|Duplicate) value): (?:"(?:[^"\\]|\\.)*"|[^":\s]+)`)
	privatePath = regexp.MustCompile(`(?:^|[.\[])` + PrivateFields + `(?:$|[.\[])`)
)

// Object is an object of the API server.
type Object interface {
	metav1.Object
	runtime.Object
}

// RedactText returns words of another program without private values of the objects. Words with a value of a Secret are withheld.
func RedactText(words string, objects ...Object) string {
	if redactValues(&words, secretValues(objects...)) {
		return words
	}
	return redactPrivate(cutAnswer(words), privateValues(objects...))
}

// RedactForeign is RedactText for words about an object of others, which has no Secrets. As the cache reads many such objects, it reads less of the words,
// and the words about an object with many private values are not shown.
func RedactForeign(words string, object Object) string {
	if words == "" {
		return ""
	}
	private, few := fewPrivateValues(maxForeignValues, object)
	if !few {
		return fmt.Sprintf(messageManyValues, maxForeignValues)
	}
	if len(words) <= maxForeignWords {
		return redactPrivate(words, private)
	}
	words = strings.ToValidUTF8(words[:maxForeignWords], "")
	if at := beginningAt(words, private); at < len(words) {
		words = words[:at] + messageValueHidden
	}
	return redactPrivate(words+openEnd, private)
}

// openEnd closes a value that is open at the end of words that are cut, so that the value is found.
const openEnd = `"}]`

// beginningAt returns where the longest beginning of a value at the end of words begins, their length for none.
func beginningAt(words string, private []string) int {
	first := len(words)
	for _, value := range private {
		for _, spelling := range Spellings(value) {
			for at := max(0, len(words)-len(spelling)); at <= len(words)-minSecret && at < first; at++ {
				if strings.HasPrefix(spelling, words[at:]) {
					first = at
				}
			}
		}
	}
	return first
}

// RedactError returns an answer of the API server, which may repeat the words of an admission webhook, without the words that have a value
// of one of the objects in them. The answer goes to a condition, an event and the log.
func RedactError(err error, objects ...Object) error {
	secrets, private := secretValues(objects...), privateValues(objects...)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	answer := status.Status()
	redact := func(words *string) bool {
		if redactValues(words, secrets) {
			return true
		}
		was := *words
		*words = redactPrivate(cutAnswer(*words), private)
		return *words != was
	}
	found := redact(&answer.Message)
	if answer.Details != nil {
		answer.Details = answer.Details.DeepCopy()
		for i := range answer.Details.Causes {
			cause := &answer.Details.Causes[i]
			found = redact(&cause.Message) || found
			if privatePath.MatchString(cause.Field) {
				short := causeValue.ReplaceAllString(cause.Message, "$1")
				found = found || short != cause.Message
				cause.Message = short
			}
		}
	}
	if !found {
		return err
	}
	return &apierrors.StatusError{ErrStatus: answer}
}

// redactPrivate returns words without private values.
func redactPrivate(words string, private []string) string {
	words = message.OmitObjects(words)
	words = quotedValue.ReplaceAllString(words, "$1")
	for _, value := range private {
		for _, spelling := range Spellings(value) {
			words = hideValue(words, spelling)
		}
	}
	return words
}

// hideValue returns words without a value. From a long value on, whose end may be cut off, nothing is shown.
func hideValue(words, value string) string {
	if len(value) <= maxPrefix {
		return strings.ReplaceAll(words, value, messageValueHidden)
	}
	if i := strings.Index(words, value[:maxPrefix]); i >= 0 {
		return words[:i] + messageValueHidden
	}
	return words
}

// cutAnswer returns the beginning of long words, with an end that closes an open value.
func cutAnswer(words string) string {
	if len(words) <= MaxAnswer {
		return words
	}
	return strings.ToValidUTF8(words[:MaxAnswer], "") + openEnd
}

// isNil reports whether there is no object: a nil interface, or a nil pointer in an interface.
func isNil(obj Object) bool {
	return obj == nil || reflect.ValueOf(obj).IsNil()
}

// redactValues replaces words that have a value of a Secret, or the beginning of a long one, in them.
func redactValues(words *string, secrets []string) bool {
	for _, secret := range secrets {
		if strings.Contains(*words, secret[:min(len(secret), maxPrefix)]) {
			*words = Withheld
			return true
		}
	}
	return false
}

// secretValues returns the values of those objects that are Secrets, as texts quote them and as a request has them.
func secretValues(objects ...Object) []string {
	var all []string
	for _, obj := range objects {
		secret, ok := obj.(*corev1.Secret)
		if !ok || secret == nil {
			continue
		}
		for _, value := range secret.Data {
			if len(value) > 0 {
				all = append(append(all, Spellings(string(value))...), base64.StdEncoding.EncodeToString(value))
			}
		}
	}
	return all
}
