package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	appv1 "huolala.cn/app-operator/api/v1"
)

// readAnnotations has the annotations of a custom resource that reconciles read, but for the record of a tutorial, with the maximum length in
// bytes of a value that the cache keeps as it is. The value of a refresh is recorded, a hold is the name of an object, and the two of a canary
// are a UID.
var readAnnotations = map[string]int{
	appv1.AnnotationAdopt: 16, appv1.AnnotationAcceptOverrides: 16, appv1.AnnotationRefresh: 64 << 10, appv1.AnnotationHold: 253,
	appv1.AnnotationPromote: 64, appv1.AnnotationAbort: 64,
}

// ReadAnnotations returns the sorted names of the annotations that reconciles read. A change of such an annotation changes the effect of a spec.
func ReadAnnotations() []string { return slices.Sorted(maps.Keys(readAnnotations)) }

// AnnotationLimit returns the maximum length in bytes of the value of an annotation that the cache keeps as it is. ok is false for an annotation
// that reconciles do not read.
func AnnotationLimit(name string) (most int, ok bool) {
	most, ok = readAnnotations[name]
	return most, ok
}

// MaxReducedAnnotation is how long, in bytes, the value of an annotation is that is kept of a custom resource without its spec. The longest
// name of an object has room.
const MaxReducedAnnotation = 253

// ShortenValue returns the value of an annotation, and of a value with more than most bytes its SHA-256 sum.
func ShortenValue(value string, most int) string {
	if len(value) <= most {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}
