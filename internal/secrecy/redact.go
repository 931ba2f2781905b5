// Package secrecy removes private values from words of other programs: values of Secrets, and values, arguments, commands, headers and
// annotations of the objects that the words are about. It is pure, for the engine and for the verdict on a workload.
package secrecy

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
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

// privateValues returns the values of the annotations of objects, and of the variables, arguments, commands, headers, queries of probes, attributes of
// CSI volumes and annotations of their pods, each with its Parts, the longest first. The operator's own annotations are no secrets but for the record of
// a spec.
func privateValues(objects ...Object) []string {
	all, _ := fewPrivateValues(math.MaxInt, objects...)
	return all
}

// fewPrivateValues is privateValues for a number of values at most. few is false if there are more.
func fewPrivateValues(most int, objects ...Object) (all []string, few bool) {
	add := func(values ...string) {
		for _, value := range values {
			for _, private := range privateWords(value, objects) {
				if len(all) <= most {
					all = append(all, private)
				}
			}
		}
	}
	addAnnotations := func(annotations map[string]string) {
		for name, value := range annotations {
			if !strings.HasPrefix(name, appv1.GroupVersion.Group+"/") || name == appv1.AnnotationLastAppliedSpec {
				add(value)
			}
		}
	}
	for _, obj := range objects {
		if isNil(obj) {
			continue
		}
		addAnnotations(obj.GetAnnotations())
		if cron, ok := obj.(*batchv1.CronJob); ok {
			addAnnotations(cron.Spec.JobTemplate.Annotations)
		}
		if template := templateOf(obj); template != nil {
			addAnnotations(template.Annotations)
			addPodSpec(&template.Spec, add)
		}
	}
	if len(all) > most {
		return nil, false
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all), true
}

// templateOf returns the pod template of an object, nil if it has none.
func templateOf(obj Object) *corev1.PodTemplateSpec {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return &obj.Spec.Template
	case *appsv1.StatefulSet:
		return &obj.Spec.Template
	case *batchv1.Job:
		return &obj.Spec.Template
	case *batchv1.CronJob:
		return &obj.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// addPodSpec adds the attributes of CSI volumes, and the private values of the containers.
func addPodSpec(pod *corev1.PodSpec, add func(...string)) {
	for i := range pod.Volumes {
		if csi := pod.Volumes[i].CSI; csi != nil {
			add(slices.Collect(maps.Values(csi.VolumeAttributes))...)
		}
	}
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			privateOf(&list[i], add)
		}
	}
}

// privateWords returns a private value and its parts, without words that are too short, or name one of the objects.
func privateWords(value string, objects []Object) []string {
	var words []string
	if len(value) >= minSecret {
		words = append(words, value)
	}
	return append(words, slices.DeleteFunc(Parts(value), func(part string) bool { return isNameOf(part, objects) })...)
}

// isNameOf reports whether words are the name or the namespace of one of the objects, which any answer about it has.
func isNameOf(words string, objects []Object) bool {
	return slices.ContainsFunc(objects, func(obj Object) bool { return !isNil(obj) && (obj.GetName() == words || obj.GetNamespace() == words) })
}

// isNil reports whether there is no object: a nil interface, or a nil pointer in an interface.
func isNil(obj Object) bool {
	return obj == nil || reflect.ValueOf(obj).IsNil()
}

// privateOf adds the private values of a container.
func privateOf(c *corev1.Container, add func(...string)) {
	add(c.Command...)
	add(c.Args...)
	for _, env := range c.Env {
		add(env.Value)
	}
	handler := func(exec *corev1.ExecAction, http *corev1.HTTPGetAction) {
		if exec != nil {
			add(exec.Command...)
		}
		if http != nil {
			if _, query, found := strings.Cut(http.Path, "?"); found {
				add(query)
			}
			for _, header := range http.HTTPHeaders {
				add(header.Value)
			}
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			handler(probe.Exec, probe.HTTPGet)
		}
	}
	if c.Lifecycle != nil {
		for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil {
				handler(hook.Exec, hook.HTTPGet)
			}
		}
	}
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
