package resource

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/bounds"
	"huolala.cn/app-operator/internal/heap"
)

// DefaultsRecord records the defaults that a resource has taken: compressed JSON, as each ReplicaSet has a copy. It is empty for no defaults.
// Two records can have the same meaning and other bytes, as compressed bytes change with the version of Go: compare them with Equal.
type DefaultsRecord string

const (
	// MaxDefaultsRecord is the maximum length in bytes of the record of defaults.
	MaxDefaultsRecord = 4 << 10
	// maxRecordedDefaults is the maximum length in bytes of the JSON in such a record.
	maxRecordedDefaults = 64 << 10
	// transientMark begins a record that is never stored, and has its JSON as it is. No JSON text decodes to such a record, as the mark is no UTF-8.
	transientMark = "\xff"
	// digestLength is the length in characters of the digest of a record.
	digestLength = 16
)

// recordedDefaults is the content of a DefaultsRecord.
type recordedDefaults struct {
	// Fields are the defaults.
	Fields appv1.Defaults `json:"fields,omitzero"`
	// WhenStated has the defaults of blocks, whether or not the resource states them: they shape no pod.
	WhenStated appv1.WhenStated `json:"whenStated,omitzero"`
	// Without are the fields that the resource does without, as far as the defaults had these fields.
	Without []string `json:"without,omitempty"`
}

// noDefaults is the content of the empty record, which most resources have.
var noDefaults recordedDefaults

// recordDefaults returns the record of defaults.
func recordDefaults(taken recordedDefaults) DefaultsRecord {
	plain := string(canonicalJSON(&taken))
	if plain == "{}" {
		return ""
	}
	return encodedDefaults.get(plain, func() DefaultsRecord { return DefaultsRecord(Compress([]byte(plain))) })
}

// Compress returns data as a shorter text, which Decompress reads. The text may differ with the version of Go.
func Compress(data []byte) string {
	var zipped bytes.Buffer
	w, _ := flate.NewWriter(&zipped, flate.BestCompression) // The level is valid, and writing to a buffer does not fail.
	_, _ = w.Write(data)
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(zipped.Bytes())
}

// Decompress returns the data of a text, at most a number of bytes, as any client can have written the text.
func Decompress(text string, most int) ([]byte, error) {
	zipped := flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	data, err := io.ReadAll(io.LimitReader(zipped, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unreadable: %w", err)
	case len(data) > most:
		return nil, fmt.Errorf("unreadable: more than %d bytes of JSON", most)
	}
	return data, nil
}

// decodeRecord returns the content of a record. The caller must not change it.
func (r DefaultsRecord) decodeRecord() (*recordedDefaults, error) {
	if r == "" {
		return &noDefaults, nil
	}
	if plain, transient := strings.CutPrefix(string(r), transientMark); transient {
		return unpackPlain([]byte(plain))
	}
	if len(r) > MaxDefaultsRecord {
		return nil, fmt.Errorf("unreadable defaults: more than %d bytes", MaxDefaultsRecord)
	}
	found := decodedDefaults.get(string(r), func() decodedRecord {
		taken, err := r.unpackRecord()
		return decodedRecord{taken: taken, err: err}
	})
	return found.taken, found.err
}

// unpackRecord decodes a record within bounds, as any writer of the workload object can edit the record.
func (r DefaultsRecord) unpackRecord() (*recordedDefaults, error) {
	plain, err := Decompress(string(r), maxRecordedDefaults)
	if err != nil {
		return nil, fmt.Errorf("defaults: %w", err)
	}
	return unpackPlain(plain)
}

// unpackPlain decodes the JSON of a record within bounds.
func unpackPlain(plain []byte) (*recordedDefaults, error) {
	taken := &recordedDefaults{}
	if bounds.Check(plain, reflect.TypeFor[recordedDefaults](), "defaults") != nil {
		return nil, errors.New("unreadable defaults: out of bounds")
	}
	if strict, err := kjson.UnmarshalStrict(plain, taken); err != nil || len(strict) > 0 {
		return nil, errors.New("unreadable defaults: not written by this release")
	}
	return taken, nil
}

// Equal reports whether two records have the same meaning. A record that cannot be read equals no other.
func (r DefaultsRecord) Equal(other DefaultsRecord) bool {
	if r == other {
		return true
	}
	is, err := r.decodeRecord()
	if err != nil {
		return false
	}
	was, err := other.decodeRecord()
	return err == nil && bytes.Equal(canonicalJSON(is), canonicalJSON(was))
}

// Digest returns a short text that identifies the meaning of a record. It is empty for no defaults, and for a record that cannot be read.
func (r DefaultsRecord) Digest() string {
	taken, err := r.decodeRecord()
	if r == "" || err != nil {
		return ""
	}
	return hexSum(canonicalJSON(taken))[:digestLength]
}

// WithAround returns the record with the fields around the pods of another record. A record that cannot be read is returned as it is.
func (r DefaultsRecord) WithAround(of DefaultsRecord) DefaultsRecord {
	taken, err := r.decodeRecord()
	if err != nil {
		return r
	}
	other, err := of.decodeRecord()
	if err != nil {
		return r
	}
	made := recordedDefaults{Fields: *taken.Fields.DeepCopy(), WhenStated: other.WhenStated, Without: taken.Without}
	into, from := reflect.ValueOf(&made.Fields).Elem(), reflect.ValueOf(other.Fields.DeepCopy()).Elem()
	for i := range defaultsFields {
		if f := &defaultsFields[i]; f.around {
			into.Field(f.index).Set(from.Field(f.index))
		}
	}
	return recordDefaults(made)
}

// OptsOut reports whether a change of the fields that a resource does without changes its pods: the record has a field of the pods that the
// resource does without by now, or lacks a field that the resource did without.
func (r DefaultsRecord) OptsOut(without []string) bool {
	taken, err := r.decodeRecord()
	if err != nil {
		return false
	}
	fields := reflect.ValueOf(&taken.Fields).Elem()
	for i := range defaultsFields {
		f := &defaultsFields[i]
		if f.around {
			continue
		}
		now, then := slices.Contains(without, f.name), slices.Contains(taken.Without, f.name)
		if then && !now || now && !then && !isUnset(fields.Field(f.index)) {
			return true
		}
	}
	return false
}

// defaultedFields returns the fields of a resource with the recorded defaults. The result may share values with the arguments, and has none
// of the record. A record that cannot be read adds nothing: DecodeInputs refuses it.
func (r DefaultsRecord) defaultedFields(workload *appv1.WorkloadSpec, serving *appv1.ServingSpec, without []string) (appv1.WorkloadSpec, appv1.ServingSpec) {
	taken, err := r.decodeRecord()
	if r == "" || err != nil {
		return *workload, *serving
	}
	w, s := withDefaults(taken.Fields.DeepCopy(), workload, serving, without)
	fillBlocks(taken.WhenStated.DeepCopy(), &s, without)
	resolveIngressClass(workload, serving, &w, &s)
	return w, s
}

// TakeDefaults returns the record of the present defaults that a spec takes, which has no defaults yet. A record that is too long makes
// the spec invalid; see tooLong.
func TakeDefaults(present *PresentDefaults, spec Spec) DefaultsRecord {
	if present.Fields == nil || spec.Serving() == nil {
		return ""
	}
	return recordDefaults(takenDefaults(present, spec))
}

// TakeTransientDefaults is TakeDefaults for defaults that a review makes up: the record is not compressed, is never stored, and no result of the record
// is remembered.
func TakeTransientDefaults(made *PresentDefaults, spec Spec) DefaultsRecord {
	taken := takenDefaults(made, spec)
	return DefaultsRecord(transientMark) + DefaultsRecord(canonicalJSON(&taken))
}

// takenDefaults returns the content of the record of defaults that a spec takes.
func takenDefaults(present *PresentDefaults, spec Spec) recordedDefaults {
	fields, without := takeDefaults(present.Fields, spec.Workload(), spec.Serving(), spec.Without())
	return recordedDefaults{Fields: *fields, WhenStated: present.WhenStated, Without: without}
}

// tooLong returns an error for a record that is longer than a workload object may have.
func (r DefaultsRecord) tooLong(path *field.Path) field.ErrorList {
	if len(r) <= MaxDefaultsRecord {
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(messageDefaultsTooLong, len(r), MaxDefaultsRecord))}
}

// DefaultsCurrent reports whether two records of defaults mean the same for a spec, which has no defaults yet.
func DefaultsCurrent(spec Spec, used, present DefaultsRecord) bool {
	if used.Equal(present) {
		return true
	}
	content := func(record DefaultsRecord) []byte {
		with := spec.WithDefaults(record)
		return append(canonicalJSON(with.Workload()), canonicalJSON(with.Serving())...)
	}
	return bytes.Equal(content(used), content(present))
}

// memo remembers the results of a pure function of a text, within a budget of memory. Most resources have the same defaults, so a few results
// suffice.
type memo[T any] struct {
	mu    sync.Mutex
	known map[string]T
	bytes int
}

// maxMemo is how many bytes the texts and the results of a memo take.
const maxMemo = 4 << 20

// get returns the result for a text, by the function if the result is not known.
func (m *memo[T]) get(text string, made func() T) T {
	m.mu.Lock()
	known, ok := m.known[text]
	m.mu.Unlock()
	if ok {
		return known
	}
	known = made()
	size := heap.Size(text) + heap.Size(known)
	if size > maxMemo {
		return known
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, meanwhile := m.known[text]; meanwhile {
		return known
	}
	if m.known == nil || m.bytes+size > maxMemo {
		m.known, m.bytes = map[string]T{}, 0
	}
	m.known[strings.Clone(text)] = known
	m.bytes += size
	return known
}

// decodedRecord is a decoded record, or why it cannot be read.
type decodedRecord struct {
	taken *recordedDefaults
	err   error
}

var (
	encodedDefaults memo[DefaultsRecord]
	decodedDefaults memo[decodedRecord]
)

// ExplainDefaults returns the errors of a spec that is valid without its defaults: the first one says that they come from AppDefaults.
func ExplainDefaults(errs field.ErrorList) field.ErrorList {
	explained := slices.Clone(errs)
	first := *errs[0]
	first.Detail += messageFromDefaults
	explained[0] = &first
	return explained
}
