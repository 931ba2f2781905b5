// Package secrecy removes private values from words of other programs: values of Secrets, and values, arguments, commands, headers and
// annotations of the objects that the words are about. It is pure, for the engine and for the verdict on a workload.
package secrecy

import (
	"cmp"
	"encoding/base64"
	"errors"
	"reflect"
	"regexp"
	"slices"
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

// maxForeignWords is how much of the words about an object of others is read, in bytes.
const maxForeignWords = 1 << 10

// maxSecretValues is how many values of Secrets are looked for. With more, no answer is shown.
const maxSecretValues = 1000

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
	if words == "" {
		return ""
	}
	return newRedaction(objects).redactTexts([]string{words}, MaxAnswer)[0]
}

// RedactForeign is RedactText for words about an object of others or a pod, which has no Secrets. As the cache reads many such objects, it reads less of the
// words, and the words about an object with many private values are not shown.
func RedactForeign(words string, object Object) string {
	if words == "" {
		return ""
	}
	private, few := privateValues(limitsOf(object), object)
	if !few {
		return messageManyValues
	}
	return redactPrivate([]string{cutWords(words, maxForeignWords)}, []bool{len(words) > maxForeignWords}, private)[0]
}

// openEnd closes a value that is open at the end of words that are cut, so that the value is found.
const openEnd = `"}]`

// beginningAt returns where the longest beginning of a value at the end of words begins, their length for none. A beginning that is longer than maxPrefix has
// a start in it, which hideValues finds.
func beginningAt(words string, private []string) int {
	first := len(words)
	for _, value := range private {
		for _, spelling := range spellBeginning(value) {
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
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	answer := status.Status()
	texts := []string{answer.Message}
	if answer.Details != nil {
		answer.Details = answer.Details.DeepCopy()
		for i := range answer.Details.Causes {
			texts = append(texts, answer.Details.Causes[i].Message)
		}
	}
	redacted := newRedaction(objects).redactTexts(texts, 2*MaxAnswer)
	found := !slices.Equal(texts, redacted)
	answer.Message = redacted[0]
	for i, words := range redacted[1:] {
		cause := &answer.Details.Causes[i]
		if cause.Message = words; privatePath.MatchString(cause.Field) {
			cause.Message = causeValue.ReplaceAllString(words, "$1")
			found = found || words != cause.Message
		}
	}
	if !found {
		return err
	}
	return &apierrors.StatusError{ErrStatus: answer}
}

// redaction has what texts about objects must not have.
type redaction struct {
	secrets, private []string
	// tooMany is true if there are more values than are looked for. No text is shown then.
	tooMany bool
}

func newRedaction(objects []Object) *redaction {
	secrets, fewSecrets := secretValues(objects...)
	private, few := privateValues(ownLimits, objects...)
	return &redaction{secrets, private, !fewSecrets || !few}
}

// redactTexts returns texts without private values. A text with a value of a Secret is withheld. Of each text MaxAnswer is read at most, and of all of them
// a number of bytes; a text that is not within it is not shown.
func (r *redaction) redactTexts(texts []string, most int) []string {
	read, cut, instead := make([]string, len(texts)), make([]bool, len(texts)), make([]string, len(texts))
	for i, text := range texts {
		room := min(most, MaxAnswer)
		switch {
		case text == "":
		case r.tooMany:
			instead[i] = messageManyValues
		case room < min(len(text), MaxAnswer): // The text would be cut, maybe within a value.
			instead[i] = messageValueHidden
		case hasSecret(text[:min(len(text), room+maxPrefix)], r.secrets):
			instead[i] = Withheld
		default:
			read[i], cut[i] = cutWords(text, room), len(text) > room
		}
		most -= min(len(text), max(room, 0))
	}
	redacted := redactPrivate(read, cut, r.private)
	for i, words := range instead {
		redacted[i] = cmp.Or(words, redacted[i])
	}
	return redacted
}

// redactPrivate returns texts without private values; cut is true for each text that was cut.
func redactPrivate(texts []string, cut []bool, private []string) []string {
	short := make([]string, len(texts))
	for i, words := range texts {
		short[i] = quotedValue.ReplaceAllString(message.OmitObjects(words), "$1")
	}
	return hideValues(short, cut, private)
}

// CutAnswer returns the beginning of long words, with an end that closes an open value.
func CutAnswer(words string) string { return cutWords(words, MaxAnswer) }

func cutWords(words string, most int) string {
	if len(words) <= most {
		return words
	}
	// After a backslash, the end would be a part of the value.
	return strings.TrimRight(strings.ToValidUTF8(words[:most], ""), `\`) + openEnd
}

// isNil reports whether there is no object: a nil interface, or a nil pointer in an interface.
func isNil(obj Object) bool {
	return obj == nil || reflect.ValueOf(obj).IsNil()
}

// hasSecret reports whether words have a value of a Secret, or the beginning of a long one, in them.
func hasSecret(words string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(words, secret[:min(len(secret), maxPrefix)]) })
}

// secretValues returns the values of those objects that are Secrets, as texts quote them and as a request has them. few is false if there are more than
// maxSecretValues.
func secretValues(objects ...Object) (all []string, few bool) {
	seen := map[string]bool{}
	for _, obj := range objects {
		secret, ok := obj.(*corev1.Secret)
		if !ok || secret == nil {
			continue
		}
		for _, value := range secret.Data {
			if len(value) == 0 || seen[string(value)] {
				continue
			}
			if seen[string(value)] = true; len(seen) > maxSecretValues {
				return nil, false
			}
			all = append(append(all, Spellings(string(value))...), base64.StdEncoding.EncodeToString(value))
		}
	}
	return all, true
}
