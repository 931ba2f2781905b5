package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Happening is an entry in the list of what has happened to a resource: a revision, a command before a
// rollout, an event, or the begin of the present state.
type Happening struct {
	// Time is when it happened, nil if that is not known. AtLatest is true if it can have happened earlier.
	Time     *metav1.Time `json:"time,omitempty"`
	AtLatest bool         `json:"atLatest,omitempty"`
	Mark     Mark         `json:"mark,omitempty"`
	Sign     string       `json:"sign"`
	Title    string       `json:"title"`
	Text     string       `json:"text,omitempty"`
	// Changes are the changes of a revision in words, without values that may be secret.
	Changes []string `json:"changes,omitempty"`
	// By is the field manager that has changed the spec, if it is known.
	By string `json:"by,omitempty"`
	// Revision is the revision, nil for another entry.
	Revision *Revision `json:"revision,omitempty"`
	Part     Part      `json:"part,omitempty"`
}

// reasonScaling is the reason of the events about the steps of a rollout.
const reasonScaling = "ScalingReplicaSet"

// The signs of entries.
const (
	signRevision = "↑"
	signEvent    = "·"
)

// HappenedOf returns what has happened to a resource, the latest first, with at most events of its events.
func HappenedOf(s *Snapshot, events int) []Happening {
	all := append(s.revisionEntries(), s.commandEntries()...)
	why := whyOf(s, 0)
	if why.Since != nil && !why.Since.IsZero() && why.State.Group() != GroupReady {
		all = append(all, Happening{Time: why.Since, Mark: why.State.Mark(), Sign: why.State.Sign(), Title: string(why.State), Text: why.Cause})
	}
	for _, e := range s.latestEvents(math.MaxInt) {
		if events == 0 {
			break
		}
		if e.Message == why.Message || e.Reason == reasonScaling && !e.Warning { // The page has the text, and the revision, already.
			continue
		}
		h := Happening{Time: e.Time, Sign: signEvent, Title: e.Reason, Text: afterTitle(e.Reason, e.Message)}
		if e.Warning {
			h.Mark, h.Sign = MarkFail, MarkFail.Sign()
		}
		all = append(all, h)
		events--
	}
	slices.SortStableFunc(all, func(a, b Happening) int { return b.sortTime().Compare(a.sortTime()) })
	return cleanView(all)
}

// afterTitle returns a text without the title that it begins with, as an entry has the title already.
func afterTitle(title, text string) string { return strings.TrimPrefix(text, title+" ") }

// sortTime returns the time by which entries are sorted.
func (h *Happening) sortTime() time.Time {
	if h.Time == nil {
		return time.Time{}
	}
	return h.Time.Time
}

// revisionEntries returns the revisions of all parts that have a history. A revision without a known time is put below the next one.
func (s *Snapshot) revisionEntries() []Happening {
	var all []Happening
	for i := range s.Resource.Workloads {
		part := s.Resource.Workloads[i].Part
		history, err := HistoryOf(s, part)
		if err != nil {
			continue
		}
		next := metav1.NewTime(s.Now)
		for j := range history.Revisions {
			rev := history.Revisions[j]
			h := Happening{Sign: signRevision, Title: fmt.Sprintf("Revision %d", rev.Number), Revision: &rev, Part: part}
			h.Time, h.AtLatest = rev.Since, false
			if h.Time == nil {
				h.Time, h.AtLatest = cmp.Or(rev.SinceAtLatest, &next), true
			}
			if rev.Current && part == "" {
				if by := s.Resource.changedBy(); by.Time != nil && !by.Time.Before(h.Time) {
					h.By = by.Name
				}
			}
			h.Changes = briefChanges(s.hideChanges(rev.Changes[:min(len(rev.Changes), maxChanges)]), len(rev.Changes))
			switch {
			case len(h.Changes) > 0:
			case rev.Cause != "" && !s.public: // A command line of a user.
				h.Text = rev.Cause
			case rev.Image != "":
				h.Text = "image " + ShortImage(rev.Image)
			}
			next = *h.Time
			all = append(all, h)
		}
	}
	return all
}

// maxChanges is how many changes of a revision an entry has.
const maxChanges = 50

// messageMoreChanges is the text in place of the changes that an entry leaves out.
const messageMoreChanges = "and %d more changes"

// briefChanges returns the first changes of a number of changes in words.
func briefChanges(first []Change, number int) []string {
	var words []string
	for _, change := range first {
		words = append(words, change.briefText())
	}
	if left := number - len(first); left > 0 {
		words = append(words, fmt.Sprintf(messageMoreChanges, left))
	}
	return words
}

// briefText is String with an image as its version.
func (c Change) briefText() string {
	before, isText := c.Old.(string)
	after, areText := c.New.(string)
	if c.Path == "image" && isText && areText {
		from, to := DifferingVersions(before, after)
		return "image " + from + " → " + to
	}
	return c.String()
}

// ownUIDs returns the UIDs of the resource and of the objects that it controls.
func (s *Snapshot) ownUIDs() map[types.UID]bool {
	owner := s.Resource.ObjectMeta.UID
	own := map[types.UID]bool{owner: true}
	add := func(obj metav1.Object) {
		if controlsObject(owner, obj) {
			own[obj.GetUID()] = true
		}
	}
	for i := range s.Deployments {
		add(&s.Deployments[i])
	}
	for i := range s.StatefulSets {
		add(&s.StatefulSets[i])
	}
	for i := range s.Services {
		add(&s.Services[i])
	}
	for i := range s.Autoscalers {
		add(&s.Autoscalers[i])
	}
	for i := range s.Around {
		add(&s.Around[i])
	}
	for i := range s.CronJobs {
		add(&s.CronJobs[i])
	}
	for i := range s.Jobs {
		add(&s.Jobs[i])
	}
	return own
}

// eventText returns the text of an event, after the object that it is about where that is not the resource.
func (s *Snapshot) eventText(e *corev1.Event) string {
	if e.InvolvedObject.UID == s.Resource.ObjectMeta.UID || e.InvolvedObject.Kind == "" {
		return e.Message
	}
	return strings.TrimSpace(e.InvolvedObject.Kind + ": " + e.Message)
}
