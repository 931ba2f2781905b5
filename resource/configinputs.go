package resource

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// ConfigInputs records the content of ConfigMaps and Secrets that the pods use.
type ConfigInputs struct {
	// Objects are the sums of the content in use by ConfigReference.ID, "" for an object that does not exist. The map is empty
	// while the operator does not follow content.
	Objects map[string]string `json:"objects,omitempty"`
	// Key is the name of the key for the sums of Secrets.
	Key string `json:"key,omitempty"`
	// Sum is the value of the annotation on the pod template. It is empty, and the annotation is absent, until the first change
	// of content.
	Sum string `json:"sum,omitempty"`
}

// contentSum is the length in bytes of a sum of content.
const contentSum = 16

// MaxConfigObjects is the maximum length in bytes of the record of the objects, in addition to the other records.
const MaxConfigObjects = 6 << 10

// ConfigOf returns the part of the record that a pod template has: Sum.
func ConfigOf(template *corev1.PodTemplateSpec) ConfigInputs {
	c := ConfigInputs{Sum: template.Annotations[appv1.AnnotationConfig]}
	if c.checkSums() != nil {
		return ConfigInputs{}
	}
	return c
}

// checkSums validates a decoded record, as its sum becomes a value of the pod template.
func (c *ConfigInputs) checkSums() error {
	for _, sum := range append(slices.Collect(maps.Values(c.Objects)), c.Sum) {
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != contentSum && len(raw) != 0 || sum != strings.ToLower(sum) {
			return errors.New("unreadable inputs: config has a sum that is none")
		}
	}
	return nil
}

// Unfollowed returns the record for content that the operator does not follow: the annotation alone, as its removal would restart
// the pods.
func (c ConfigInputs) Unfollowed() ConfigInputs { return ConfigInputs{Sum: c.Sum} }

// Follows reports whether the operator followed content when it wrote the record.
func (c *ConfigInputs) Follows() bool { return len(c.Objects) > 0 }

// ContentMark has short sums of the content in use, which are independent of the content that came before.
type ContentMark struct {
	// Objects are the first bytes of the sums by the first bytes of a sum of ConfigReference.ID. An object that does not exist has none.
	Objects map[string]string `json:"objects,omitempty"`
	// Key is the name of the key for the sums of Secrets.
	Key string `json:"key,omitempty"`
}

// shortSum is the length of a short sum in hexadecimal digits.
const shortSum = 8

func shortID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:shortSum]
}

// Mark returns the mark of the content in use.
func (c *ConfigInputs) Mark() ContentMark {
	made := ContentMark{Key: c.Key}
	for id, sum := range c.Objects {
		if len(sum) < shortSum {
			continue
		}
		if made.Objects == nil {
			made.Objects = map[string]string{}
		}
		made.Objects[shortID(id)] = sum[:shortSum]
	}
	return made
}

// Has reports whether an object has a sum in the mark.
func (m *ContentMark) Has(id string) bool { return m.Objects[shortID(id)] != "" }

// Differs reports whether an object with a sum has another one in the mark. An object that the mark lacks, or that does not exist, does not differ,
// and sums of Secrets with different keys are not comparable.
func (m *ContentMark) Differs(id, sum, key string) bool {
	if len(sum) < shortSum || strings.HasPrefix(id, KindSecret+"/") && m.Key != key {
		return false
	}
	known, ok := m.Objects[shortID(id)]
	return ok && known != sum[:shortSum]
}

// RecordSize returns the minimum length in bytes of the record of references.
func RecordSize(refs []ConfigReference) int {
	size := 0
	for i := range refs {
		size += len(refs[i].ID()) + 2*contentSum + len(`"":"",`)
	}
	return size
}

// Content is the observed content of an object that pods use.
type Content struct {
	// Sum is the sum of the keys in use, empty if the object or a required key does not exist.
	Sum string
	// Optional is true if pods start without the object.
	Optional bool
	// Unread is true if the content could not be read.
	Unread bool
}

// Moment is the state of the rollout when the operator reads the content.
type Moment int

const (
	// MomentWaiting delays new content.
	MomentWaiting Moment = iota
	// MomentSettled applies new content, which replaces the pods.
	MomentSettled
	// MomentReplaced applies new content with a rollout that has another reason.
	MomentReplaced
)

// Follow returns the record for the observed content by ConfigReference.ID, and the IDs of the objects with content that the pods
// do not use yet. On the first observation, for a new reference, and when a required object appears, Follow records the content
// as the pods' content and does not restart them. A missing object or required key never counts as a change, as new pods would
// not start. key is the name of the key for the sums of Secrets; sums with another key are not comparable.
func (c ConfigInputs) Follow(seen map[string]Content, key string, moment Moment) (next ConfigInputs, changed []string) {
	next = ConfigInputs{Objects: map[string]string{}, Sum: c.Sum, Key: key}
	renewed := map[string]string{}
	references := len(seen) != len(c.Objects)
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		now := seen[id]
		recorded, known := c.Objects[id]
		references = references || !known
		if c.Key != key && strings.HasPrefix(id, KindSecret+"/") {
			known = false
		}
		switch {
		case now.Unread && !known:
		case now.Unread, known && now.Sum == "":
			next.Objects[id] = recorded
		case !known, recorded == "" && !now.Optional, recorded == now.Sum:
			next.Objects[id] = now.Sum
		default:
			next.Objects[id], renewed[id] = recorded, now.Sum
			changed = append(changed, id)
		}
	}
	emit := len(changed) > 0
	switch moment {
	case MomentWaiting:
		return next.orNone(), changed
	case MomentReplaced:
		// A previous sum over other references could equal the sum of later content, which would then seem to be in use.
		emit = emit || references && c.Follows() && c.Sum != ""
	case MomentSettled:
	}
	maps.Copy(next.Objects, renewed)
	if emit {
		next.Sum = sumOfObjects(next.Objects)
	}
	return next.orNone(), changed
}

// orNone clears the fields without a meaning if there are no references, or none to a Secret.
func (c ConfigInputs) orNone() ConfigInputs {
	if len(c.Objects) == 0 {
		return c.Unfollowed()
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(c.Objects)), func(id string) bool { return strings.HasPrefix(id, KindSecret+"/") }) {
		c.Key = ""
	}
	return c
}

// Equal reports whether two records have the same content.
func (c ConfigInputs) Equal(other ConfigInputs) bool {
	return c.Sum == other.Sum && c.Key == other.Key && maps.Equal(c.Objects, other.Objects)
}

// sumOfObjects returns the value of the annotation for the content of all objects.
func sumOfObjects(objects map[string]string) string {
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(objects)) {
		writeFramed(h, id, objects[id])
	}
	return hex.EncodeToString(h.Sum(nil)[:contentSum])
}

// ContentDigests are the digests of an object's values by key. ConfigReference.Sum computes the sum of the keys in use from them.
type ContentDigests struct {
	digests map[string][sha256.Size]byte
	binary  map[string]bool
}

// Bytes returns about how much memory the digests take, in bytes. The figure of a key includes its entry in a map.
func (d ContentDigests) Bytes() int {
	bytes := 0
	for name := range d.digests {
		bytes += len(name) + keyBytes
	}
	return bytes + len(d.binary)*keyBytes
}

// keyBytes is the memory of a digest with its entry in a map, in bytes.
const keyBytes = 112

// DigestContent returns the digests of an object's values. Digests of a Secret use a key, as a plain hash would allow guessing of
// a value. Each digest includes the namespace and the ID of the object, so that equal values of two Secrets have different
// digests.
func DigestContent(key []byte, namespace, id string, text map[string]string, binaries map[string][]byte) ContentDigests {
	d := ContentDigests{digests: map[string][sha256.Size]byte{}, binary: map[string]bool{}}
	add := func(name, value string) {
		h := newContentHash(key)
		writeFramed(h, "value", namespace, id, name, value)
		d.digests[name] = [sha256.Size]byte(h.Sum(nil))
	}
	for name, value := range text {
		add(name, value)
	}
	for name, value := range binaries {
		add(name, string(value))
		d.binary[name] = true
	}
	return d
}

// Sum returns the sum of the keys in use, empty if a required key is missing.
func (r *ConfigReference) Sum(key []byte, namespace string, d ContentDigests) string {
	used := map[string]bool{}
	for name := range d.digests {
		used[name] = r.all || r.text && !d.binary[name]
	}
	for name, required := range r.keys {
		if _, there := d.digests[name]; required && !there {
			return ""
		}
		used[name] = true
	}
	h := newContentHash(key)
	writeFramed(h, "object", namespace, r.ID())
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if digest, there := d.digests[name]; used[name] && there {
			writeFramed(h, name, string(digest[:]))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:contentSum])
}

// newContentHash returns an HMAC, or a plain hash without a key.
func newContentHash(key []byte) hash.Hash {
	if len(key) == 0 {
		return sha256.New()
	}
	return hmac.New(sha256.New, key)
}

// writeFramed writes texts with their lengths, so that different lists of texts have different bytes.
func writeFramed(h hash.Hash, texts ...string) {
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = h.Write(size[:]) // Write of a hash never fails.
		_, _ = h.Write([]byte(text))
	}
}
