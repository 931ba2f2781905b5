package resource

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"huolala.cn/app-operator/api/v1/bounds"
)

const (
	// recordPlain is the length in bytes up to which a spec is recorded as plain JSON.
	recordPlain = 32 << 10
	// recordMax is the length in bytes up to which a record is kept at all. All annotations of an object together may
	// have 256 KiB; others need room too.
	recordMax = 128 << 10
	// recordOthers is how many bytes are left for annotations that are neither the record nor the user's.
	recordOthers = 8 << 10

	gzipPrefix = "gzip:"
	hashPrefix = "sha256:"
)

// ErrNoSpec says that a record does not hold the spec itself.
var ErrNoSpec = errors.New("the record holds no spec")

// EncodeSpec returns the record of a spec: its canonical JSON, compressed where that is long. Where even that is too
// long for an annotation, or for DecodeSpec, only the hash of identity is left, which returns the part of the spec that tells one from another,
// and whole is false. others are the annotations that take up room next to it.
func EncodeSpec(spec any, identity func() json.RawMessage, others map[string]string) (record string, whole bool) {
	room := apivalidation.TotalAnnotationSizeLimitB - recordOthers
	for key, value := range others {
		room -= len(key) + len(value)
	}
	room = min(room, recordMax)
	plain := canonical(spec)
	if len(plain) <= min(recordPlain, room) {
		return string(plain), true
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	// Writing to a buffer does not fail.
	_, _ = w.Write(plain)
	_ = w.Close()
	if len(plain) <= bounds.MaxSpec && base64.StdEncoding.EncodedLen(zipped.Len())+len(gzipPrefix) <= room {
		return gzipPrefix + base64.StdEncoding.EncodeToString(zipped.Bytes()), true
	}
	return hashSpec(identity()), false
}

// DecodeSpec reads a recorded spec into spec. It returns ErrNoSpec for a record that holds only the hash. A record that is out of
// bounds is unreadable: an annotation can be edited by anyone.
func DecodeSpec(record string, spec any) error {
	if sum, hashed := strings.CutPrefix(record, hashPrefix); hashed {
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
			return errors.New("unreadable spec: no hash")
		}
		return ErrNoSpec
	}
	plain := []byte(record)
	if zipped, ok := strings.CutPrefix(record, gzipPrefix); ok {
		var err error
		if plain, err = unzip(zipped); err != nil {
			return fmt.Errorf("unreadable spec: %w", err)
		}
	}
	if err := bounds.Decode(plain, spec, bounds.MaxSpec, "spec"); err != nil {
		return fmt.Errorf("unreadable spec: %w", err)
	}
	return nil
}

// unzip reads what EncodeSpec compressed. What comes out is limited.
func unzip(zipped string) ([]byte, error) {
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(zipped)))
	if err != nil {
		return nil, err
	}
	const most = bounds.MaxSpec
	plain, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(plain) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return plain, err
}

// canonical returns the JSON of v. Go sorts the keys of maps and keeps the order of a struct's fields.
func canonical(v any) []byte {
	// API types always have a JSON form.
	data, _ := json.Marshal(v)
	return data
}

func hashSpec(identity any) string {
	sum := sha256.Sum256(canonical(identity))
	return hashPrefix + hex.EncodeToString(sum[:])
}
