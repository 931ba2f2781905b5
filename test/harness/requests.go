package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is one request to the API server.
type Request struct {
	// Verb is that of Kubernetes' authorization: get, list, watch, create, update, patch, delete.
	Verb string
	// Group is the API group, empty for that of pods.
	Group string
	// Resource is the plural name, with the subresource behind a slash, such as "apps/status".
	Resource string
	// Namespace is the object's, empty for what is in none and for a list of all namespaces.
	Namespace string
	// Name is the object's, empty for a list, and for a creation that states it in the body alone.
	Name string
	// Created is the name that a creation states in the body. It is read for a fault alone.
	Created string
	// Selected is the one name that a list or watch is limited to.
	Selected string
	// Streams is true for a watch that begins with all that there is, in place of a list before it.
	Streams bool
	// DryRun is true for a write that changes nothing.
	DryRun bool
	// Path is the URL's path.
	Path string
	// Sent is when it was sent.
	Sent time.Time
	// Code is the HTTP status of the answer, 0 if there was none.
	Code int
}

// Write reports whether the request writes an object; events, which are sent on the side and may be lost, are none.
func (q Request) Write() bool {
	return !q.read() && q.Resource != "events" && q.Resource != "leases" && q.Resource != ""
}

// counts reports whether a manager with this request under way is at work: a manager that waits for changes, looks for changes again and
// again, or keeps its lease, is not.
func (q Request) counts() bool { return q.Verb != "watch" && q.Resource != "leases" && !q.polls() }

// polls reports whether the request looks for the causes of pods that nothing watches.
func (q Request) polls() bool { return q.Verb == "list" && q.Resource == "pods" && q.Namespace != "" }

func (q Request) read() bool { return q.Verb == "get" || q.Verb == "list" || q.Verb == "watch" }

// Fault stands between a manager and the API server. It sends the request on, or does not, and what it returns is what
// the manager sees.
type Fault func(q Request, send func() (*http.Response, error)) (*http.Response, error)

// Answer returns the API server's answer to a request that failed with err.
func Answer(err apierrors.APIStatus) *http.Response {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	// A Status always has a JSON form.
	body, _ := json.Marshal(status)
	return &http.Response{
		StatusCode: int(status.Code),
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(body)),
	}
}

// Requests records the requests of one manager.
type Requests struct {
	mu        sync.Mutex
	list      []Request
	forbidden []Request
	// waiting is how many requests, watches aside, have yet to be answered, answered how many were.
	waiting, answered int
	// writes are the writes that have yet to be answered, each closed by then.
	writes map[chan struct{}]bool
	fault  Fault
	usage  *usage
	// views are the requests in single namespaces, of a manager that is shared; nil for all others, whose requests are in list.
	views map[string]*Requests
}

// view returns the requests in a namespace from now on.
func (r *Requests) view(namespace string) *Requests {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &Requests{}
	r.views[namespace] = v
	return v
}

// dropView ends the view of a namespace.
func (r *Requests) dropView(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.views, namespace)
}

// noting returns where a request is noted: of a shared manager in the view of its namespace, nil where nobody looks, or in the whole where the request has
// no namespace.
func (r *Requests) noting(q Request) *Requests {
	if r.views == nil || q.Namespace == "" {
		return r
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views[q.Namespace]
}

// lateAnswer is how long All waits for the answer to a write that a fault may hold.
const lateAnswer = 2 * time.Second

// All returns the requests so far. What a write has done can be seen before its answer is there, so All waits for the answers to the writes
// that were sent before. Where no fault stands between, the answers come, however late.
func (r *Requests) All() []Request {
	patience := Patience
	if r.fault != nil {
		patience = lateAnswer
	}
	late := time.After(patience)
	for _, answered := range r.underWay() {
		select {
		case <-answered:
			continue
		case <-late:
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// underWay returns the writes that have yet to be answered.
func (r *Requests) underWay() []chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.writes))
}

// Reset forgets the requests so far.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
}

// Counts returns how often each verb and resource was asked for, such as "patch deployments". Watches, the lists that
// begin them, and leases are left out.
func (r *Requests) Counts() map[string]int {
	counts := map[string]int{}
	for _, q := range r.All() {
		if q.Verb == "watch" || q.Verb == "list" || q.Resource == "leases" || q.Resource == "" {
			continue
		}
		counts[q.Verb+" "+q.Resource]++
	}
	return counts
}

// Writes is Counts without reads and events.
func (r *Requests) Writes() map[string]int {
	counts := map[string]int{}
	for _, q := range r.All() {
		if q.Write() {
			counts[q.Verb+" "+q.Resource]++
		}
	}
	return counts
}

// Stored is Writes without dry runs.
func (r *Requests) Stored() map[string]int {
	counts := map[string]int{}
	for _, q := range r.All() {
		if q.Write() && !q.DryRun {
			counts[q.Verb+" "+q.Resource]++
		}
	}
	return counts
}

// Reads returns how many requests read something, watches aside.
func (r *Requests) Reads() int {
	n := 0
	for _, q := range r.All() {
		if q.Verb == "get" || q.Verb == "list" {
			n++
		}
	}
	return n
}

// Forbidden returns the requests of the manager's whole life that the API server did not allow.
func (r *Requests) Forbidden() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forbidden)
}

// AwaitQuiet waits until no request has been sent for a while, watches aside, beginning now. Of the time between two looks, only as much
// counts as lies between them where the test gets its turn: else a machine that stands still for seconds, or a test that is given no
// time, would make a manager with work to do look idle.
func (r *Requests) AwaitQuiet(t testing.TB) {
	t.Helper()
	var silent time.Duration
	_, before := r.progress()
	looked := time.Now()
	Eventually(t, func() error {
		waiting, answered := r.progress()
		now := time.Now()
		silent += min(now.Sub(looked), latest)
		if waiting > 0 || answered != before {
			silent = 0
		}
		looked, before = now, answered
		if silent < quiet {
			return fmt.Errorf("%d requests wait for their answers, and the last answer came %s ago", waiting, silent)
		}
		return nil
	})
}

// progress returns how many requests wait for their answers, and how many have got theirs.
func (r *Requests) progress() (waiting, answered int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting, r.answered
}

// begin notes that a request is sent, and returns what end is to be called with once it has been answered.
func (r *Requests) begin(q Request) (answered chan struct{}) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.counts() {
		r.waiting++
	}
	if !q.Write() {
		return nil
	}
	if r.writes == nil {
		r.writes = map[chan struct{}]bool{}
	}
	answered = make(chan struct{})
	r.writes[answered] = true
	return answered
}

func (r *Requests) end(q Request, forbidden bool, answered chan struct{}) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, q)
	if answered != nil {
		delete(r.writes, answered)
		close(answered)
	}
	if forbidden {
		r.forbidden = append(r.forbidden, q)
	}
	if q.counts() {
		r.waiting--
		r.answered++
	}
}

func (r *Requests) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		q := parse(req)
		q.Sent = time.Now()
		noting := r.noting(q)
		done := noting.begin(q)
		var resp *http.Response
		var err error
		answered := 0
		send := func() (*http.Response, error) {
			answer, err := next.RoundTrip(req)
			if err == nil {
				answered = answer.StatusCode
			}
			return answer, err
		}
		if r.fault != nil {
			q.Created = nameInBody(req, &q)
			resp, err = r.fault(q, send)
		} else {
			resp, err = send()
		}
		if resp != nil {
			q.Code = resp.StatusCode
		}
		r.usage.note(q, answered)
		noting.end(q, answered == http.StatusForbidden, done)
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// parse reads verb and resource from a request as the API server does
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris).
func parse(req *http.Request) Request {
	q := Request{Path: req.URL.Path, DryRun: req.URL.Query().Get("dryRun") != ""}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		q.Group, parts = parts[1], parts[3:]
	default:
		q.Verb = "get" // Discovery.
		return q
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Resource = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if len(parts) > 2 {
		q.Resource += "/" + parts[2]
	}
	if name, ok := strings.CutPrefix(req.URL.Query().Get("fieldSelector"), "metadata.name="); ok {
		q.Selected = name
	}
	switch {
	case req.Method == http.MethodGet && req.URL.Query().Get("watch") != "":
		q.Verb, q.Streams = "watch", req.URL.Query().Get("sendInitialEvents") == "true"
	case req.Method == http.MethodGet && len(parts) == 1:
		q.Verb = "list"
	default:
		q.Verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
			http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[req.Method]
	}
	return q
}

// nameInBody returns the name of the object that a creation has in its body, empty for another request.
func nameInBody(req *http.Request, q *Request) string {
	if q.Verb != "create" || req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return ""
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return ""
	}
	made, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	return made.GetName()
}

// String is the request in one line.
func (q Request) String() string {
	return fmt.Sprintf("%s %s %d (%s)", q.Verb, q.Resource, q.Code, q.Path)
}
