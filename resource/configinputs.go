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

// ConfigInputs is what is recorded of the content that pods use of ConfigMaps and Secrets.
type ConfigInputs struct {
	// Objects are the sums of the content that the pods have, by ConfigReference.ID, empty for an object that does not exist. There are
	// none while content is not followed.
	Objects map[string]string `json:"objects,omitempty"`
	// Key names the key that the sums of Secrets were made with.
	Key string `json:"key,omitempty"`
	// Sum is the value of the annotation on the pod template. It is empty, and there is no annotation, until content has changed for
	// the first time.
	Sum string `json:"sum,omitempty"`
}

// contentSum is the length in bytes of a sum of content.
const contentSum = 16

// MaxConfigObjects is how many bytes the record of the objects may take up, in addition to all else that is recorded.
const MaxConfigObjects = 6 << 10

// ConfigOf returns what a pod template tells of the record that it was made with.
func ConfigOf(template *corev1.PodTemplateSpec) ConfigInputs {
	c := ConfigInputs{Sum: template.Annotations[appv1.AnnotationConfig]}
	if c.check() != nil {
		return ConfigInputs{}
	}
	return c
}

// check returns what is wrong with a record that was read. Its sum is a value of the pod template.
func (c *ConfigInputs) check() error {
	for _, sum := range append(slices.Collect(maps.Values(c.Objects)), c.Sum) {
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != contentSum && len(raw) != 0 || sum != strings.ToLower(sum) {
			return errors.New("unreadable inputs: config has a sum that is none")
		}
	}
	return nil
}

// Unfollowed returns what stays of the record while content is not followed: the annotation, as its removal would restart the
// pods.
func (c ConfigInputs) Unfollowed() ConfigInputs { return ConfigInputs{Sum: c.Sum} }

// Follows reports whether content was followed when the record was written.
func (c *ConfigInputs) Follows() bool { return len(c.Objects) > 0 }

// RecordSize returns how many bytes the record of references takes up at least.
func RecordSize(refs []ConfigReference) int {
	size := 0
	for i := range refs {
		size += len(refs[i].ID()) + 2*contentSum + len(`"":"",`)
	}
	return size
}

// Content is what was seen of an object that pods use content of.
type Content struct {
	// Sum is that of the keys in use, empty where the object does not exist, or lacks a key that pods cannot start without.
	Sum string
	// Optional is true where pods start without the object.
	Optional bool
	// Unread is true where the content is not known now.
	Unread bool
}

// Moment is what happens to the pods at the time when content is looked at.
type Moment int

const (
	// MomentWaiting has new content wait.
	MomentWaiting Moment = iota
	// MomentSettled takes new content, which replaces the pods.
	MomentSettled
	// MomentReplaced is when the pods are replaced for another reason, and have the new content then.
	MomentReplaced
)

// Follow returns the record once content was looked at, by ConfigReference.ID, and which objects have content that the pods do not
// have. The objects are recorded as they were found, and the pods stay as they are, if content is looked at for the first time, a
// reference is new, or an object that pods cannot start without appears: the pods have started with it. An object that is
// gone, and one that lacks a key that pods cannot start without, never counts: pods that were replaced would not start. key
// names the key of the sums of Secrets: those of another one tell nothing.
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
		// A sum of other references could be that of later content, which would then seem to be known.
		emit = emit || references && c.Follows() && c.Sum != ""
	case MomentSettled:
	}
	maps.Copy(next.Objects, renewed)
	if emit {
		next.Sum = sumOfObjects(next.Objects)
	}
	return next.orNone(), changed
}

// orNone returns the record without what has no meaning if nothing is referred to.
func (c ConfigInputs) orNone() ConfigInputs {
	if len(c.Objects) == 0 {
		return c.Unfollowed()
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(c.Objects)), func(id string) bool { return strings.HasPrefix(id, KindSecret+"/") }) {
		c.Key = ""
	}
	return c
}

// Equal reports whether two records say the same.
func (c ConfigInputs) Equal(other ConfigInputs) bool {
	return c.Sum == other.Sum && c.Key == other.Key && maps.Equal(c.Objects, other.Objects)
}

// sumOfObjects is the value of the annotation for the content of all objects.
func sumOfObjects(objects map[string]string) string {
	h := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(objects)) {
		writeFramed(h, id, objects[id])
	}
	return hex.EncodeToString(h.Sum(nil)[:contentSum])
}

// ContentDigests are the digests of an object's values by key, from which ConfigReference.Sum makes the sum of the keys in use.
type ContentDigests struct {
	digests map[string][]byte
	binary  map[string]bool
}

// DigestContent returns the digests of an object's values. Those of a Secret are made with a key, as a plain hash of a value could be tried.
// Its namespace and name are part of each: equal values of two Secrets cannot be told to be equal.
func DigestContent(key []byte, namespace, id string, text map[string]string, binaries map[string][]byte) ContentDigests {
	d := ContentDigests{digests: map[string][]byte{}, binary: map[string]bool{}}
	add := func(name, value string) {
		h := newContentHash(key)
		writeFramed(h, "value", namespace, id, name, value)
		d.digests[name] = h.Sum(nil)
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

// Sum returns the sum of the keys in use, empty if one is missing that pods cannot start without.
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
			writeFramed(h, name, string(digest))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:contentSum])
}

// newContentHash returns an HMAC with a key, a plain hash without.
func newContentHash(key []byte) hash.Hash {
	if len(key) == 0 {
		return sha256.New()
	}
	return hmac.New(sha256.New, key)
}

// writeFramed writes texts with their lengths, so that no two lists of texts are written alike.
func writeFramed(h hash.Hash, texts ...string) {
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		_, _ = h.Write(size[:]) // A hash takes everything.
		_, _ = h.Write([]byte(text))
	}
}
