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
	// recordPlain is the maximum length in bytes of a record of plain JSON.
	recordPlain = 32 << 10
	// recordMax is the maximum length in bytes of a record. The annotations of an object may have 256 KiB in total, and need room
	// for others.
	recordMax = 128 << 10
	// recordOthers is the room in bytes for annotations other than the record and the user's.
	recordOthers = 8 << 10

	gzipPrefix = "gzip:"
	hashPrefix = "sha256:"
)

// ErrNoSpec is the error for a record that holds only the hash of a spec.
var ErrNoSpec = errors.New("the record holds no spec")

// EncodeSpec returns the record of a spec: its canonical JSON, compressed if long. If the compressed JSON is still too long for
// an annotation, or the JSON too long for DecodeSpec, EncodeSpec returns a hash of identity(), the part of the spec that shapes
// the pods, and whole=false. others are the other annotations of the object, which reduce the room.
func EncodeSpec(spec any, identity func() json.RawMessage, others map[string]string) (record string, whole bool) {
	room := apivalidation.TotalAnnotationSizeLimitB - recordOthers
	for key, value := range others {
		room -= len(key) + len(value)
	}
	room = min(room, recordMax)
	plain := canonicalJSON(spec)
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

// DecodeSpec decodes a record into spec. It returns ErrNoSpec for a record with only a hash, and an error for a record out of
// bounds, as any writer of the object can edit the annotation.
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
		if plain, err = unzipRecord(zipped); err != nil {
			return fmt.Errorf("unreadable spec: %w", err)
		}
	}
	if err := bounds.Decode(plain, spec, bounds.MaxSpec, "spec"); err != nil {
		return fmt.Errorf("unreadable spec: %w", err)
	}
	return nil
}

// IsCompressed reports whether a record is compressed.
func IsCompressed(record string) bool { return strings.HasPrefix(record, gzipPrefix) }

// unzipRecord decompresses a record of EncodeSpec. The result is limited to bounds.MaxSpec.
func unzipRecord(zipped string) ([]byte, error) {
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

// canonicalJSON returns the JSON of v, with sorted keys of maps and the fields of a struct in their order.
func canonicalJSON(v any) []byte {
	// API types always have a JSON form.
	data, _ := json.Marshal(v)
	return data
}

func hashSpec(identity any) string {
	sum := sha256.Sum256(canonicalJSON(identity))
	return hashPrefix + hex.EncodeToString(sum[:])
}
