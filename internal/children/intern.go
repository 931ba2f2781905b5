package children

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
)

const (
	// minShared and maxShared are the lengths in bytes between which a text is shared: a shorter text is not worth it, and the record of
	// valid defaults is not longer.
	minShared, maxShared = 128, 8 << 10
	// maxKnown is the maximum number of texts that are known to be shared.
	maxKnown = 256
)

// sharedTexts has texts that many objects of the cache have.
type sharedTexts struct {
	mu    sync.Mutex
	known map[string]string
}

// recordedInputs has the records of inputs: most workloads with the same defaults have the same record.
var recordedInputs sharedTexts

// shareText returns a text that equals the given one, the same for all callers.
func (s *sharedTexts) shareText(text string) string {
	if len(text) < minShared || len(text) > maxShared {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[text]; ok {
		return known
	}
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[string]string{}
	}
	s.known[text] = text
	return text
}

// shareInputs makes one text of equal records of inputs. An object in the cache is never written to.
func shareInputs(obj client.Object) {
	annotations := obj.GetAnnotations()
	if text, ok := annotations[appv1.AnnotationLastAppliedInputs]; ok {
		annotations[appv1.AnnotationLastAppliedInputs] = recordedInputs.shareText(text)
	}
}
