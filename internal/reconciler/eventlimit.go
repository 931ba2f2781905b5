package reconciler

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"huolala.cn/app-operator/internal/message"
)

const (
	// eventBurst is how many events about the resources of one namespace are sent at once, and eventRate how many a second afterwards. The recorder of
	// client-go keeps each event for up to 12 minutes, in about 3 KiB: 43 MiB for a namespace whose resources change all the time.
	eventBurst = 10000
	eventRate  = 5
	// eventsIdle is the time after which a namespace has its whole burst again.
	eventsIdle = eventBurst / eventRate * time.Second
	// eventNamespaces is for how many namespaces the recorder remembers the time of their latest event before it forgets the idle ones.
	eventNamespaces = 1000
	// maxNote is the length in bytes that the API allows an event's note (k8s.io/api/events/v1).
	maxNote = 1024
)

// LimitEvents returns a recorder that drops the events of a namespace beyond eventBurst and eventRate. dropped is called for each. The status of a
// resource has its present state in any case. The recorder also cuts the note of an event to what the API server takes.
func LimitEvents(next events.EventRecorder, c clock.PassiveClock, dropped func()) events.EventRecorder {
	return &limitedEvents{next: next, clock: c, dropped: dropped, namespaces: map[string]*eventShare{}}
}

type limitedEvents struct {
	next    events.EventRecorder
	clock   clock.PassiveClock
	dropped func()

	mu         sync.Mutex
	namespaces map[string]*eventShare
}

// eventShare is the share of a namespace, and the time of its latest event.
type eventShare struct {
	limit flowcontrol.PassiveRateLimiter
	used  time.Time
}

// Eventf implements events.EventRecorder.
func (l *limitedEvents) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	namespace := ""
	if of, err := meta.Accessor(regarding); err == nil {
		namespace = of.GetNamespace()
	}
	if !l.takeShare(namespace) {
		l.dropped()
		return
	}
	text := message.Truncate(fmt.Sprintf(note, args...), maxNote)
	l.next.Eventf(regarding, related, kind, reason, action, "%s", text)
}

// takeShare reports whether a namespace may have one more event.
func (l *limitedEvents) takeShare(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	share := l.namespaces[namespace]
	if share == nil {
		l.forgetIdle(now)
		share = &eventShare{limit: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventRate, eventBurst, l.clock)}
		l.namespaces[namespace] = share
	}
	share.used = now
	return share.limit.TryAccept()
}

// forgetIdle deletes the shares that are whole again, once there are many.
func (l *limitedEvents) forgetIdle(now time.Time) {
	if len(l.namespaces) < eventNamespaces {
		return
	}
	for namespace, share := range l.namespaces {
		if now.Sub(share.used) > eventsIdle {
			delete(l.namespaces, namespace)
		}
	}
}
