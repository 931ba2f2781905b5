// Package guard limits the resources that a server holds for its clients: webhooks, metrics, probes and profiles of the manager, and the
// viewer. Any pod of the cluster can connect to the servers of the manager, without credentials. The connections, the headers, the bodies that
// are read or handled, and the time of each request have limits, and remote addresses share them. ADR 55 has the reasons.
package guard

import "time"

const (
	// maxHeader is the length of a request line with all headers, in bytes. net/http reads slack bytes more than MaxHeaderBytes.
	maxHeader = 16 << 10
	slack     = 4 << 10
	// idleTimeout is how long a connection without a request is kept. It is longer than the 90 s of http.DefaultTransport, so that the client
	// closes an idle connection first: a request that meets the server's close is lost.
	idleTimeout = 2 * time.Minute
)

// Limits are the bounds of one server. Of Connections and of Budget, an address has at most a quarter, and the addresses that have proved
// nothing have at most half together. So the other half is for addresses that have proved to send genuine requests, see Prove.
type Limits struct {
	// Connections is how many connections are open at a time.
	Connections int64
	// Body is the maximal length of a body, in bytes; 0 for no body.
	Body int64
	// Budget is how much memory the bodies may take at a time that are read or handled, in bytes.
	Budget int64
	// PerByte and PerValue are how much memory the handling of a body takes: for each byte, and for each JSON value, which may be as short as
	// three bytes. A body that takes more than a quarter of the budget is too large.
	PerByte, PerValue int64
	// Objects is true if each body must be a JSON object.
	Objects bool
	// Arrival is how long a request may take from its first byte until all of it has been read, and then until there is room to handle
	// it. It is the deadline of a TLS handshake, too.
	Arrival time.Duration
	// Answer is how long a request may be handled.
	Answer time.Duration
}

// Webhooks are the limits of the webhooks. TestReviewMemory of package webhooks measures what a review takes.
//
// etcd stores objects of up to 1.5 MiB, and a review has two of them, the old and the new one. So a review of more than 3 MiB, and of what
// the API server adds, is of a change that etcd refuses. The API server waits for an answer for two seconds. It has 200 changes in flight at a
// time by default (--max-mutating-requests-inflight), each with a connection of its own; a quarter of the connections is 256.
var Webhooks = Limits{
	Connections: 1024, Body: 4 << 20, Budget: 144 << 20, PerByte: 5, PerValue: 160, Objects: true, Arrival: 3 * time.Second, Answer: 5 * time.Second,
}

// Metrics are the limits of the metrics. The kubelet and scrapers have few connections.
var Metrics = Limits{Connections: 64, Arrival: 5 * time.Second, Answer: 30 * time.Second}

// Probes are the limits of the health probes. Each probe of a kubelet is a connection of its own.
var Probes = Limits{Connections: 64, Arrival: 5 * time.Second, Answer: 15 * time.Second}

// Profiles are the limits for the profiles. A request for /debug/pprof/symbol has program counters in its body, and /debug/pprof/profile
// takes as long as the client requests.
var Profiles = Limits{Connections: 32, Body: 64 << 10, Budget: 1 << 20, PerByte: 4, Arrival: 5 * time.Second, Answer: 5 * time.Minute}

// Viewer are the limits of the pages in the cluster. All requests come from the proxy in the same pod, so its quarter is 256 connections: more
// than the pages that are followed at a time. An answer may be a stream of events, which ends after an hour and is opened again by the page;
// package ui bounds the time of all other answers. No request has a body.
var Viewer = Limits{Connections: 1024, Arrival: 5 * time.Second, Answer: time.Hour}

// Share returns how much of the budget the requests of one address may take.
func (l *Limits) Share() int64 { return l.Budget / shareOfAddress }

// Cost returns how much of the budget the handling of a body takes.
func (l *Limits) Cost(body []byte) int64 {
	var values jsonValues
	values.countPart(body)
	return l.bodyCost(int64(len(body)), values.count)
}

func (l *Limits) bodyCost(length, values int64) int64 { return length*l.PerByte + values*l.PerValue }

// jsonValues counts the values of a JSON text that arrives in parts. It counts the beginning of each list and object, and each comma: at least as
// many as a decoder makes.
type jsonValues struct {
	count            int64
	inText, isEscape bool
}

// countPart counts the values of the next part. The state is in variables: the loop is the one per byte of all bodies.
func (v *jsonValues) countPart(part []byte) {
	count, inText, isEscape := v.count, v.inText, v.isEscape
	for _, b := range part {
		switch {
		case isEscape:
			isEscape = false
		case inText:
			isEscape, inText = b == '\\', b != '"'
		case b == '"':
			inText = true
		case b == ',', b == '[', b == '{':
			count++
		}
	}
	*v = jsonValues{count, inText, isEscape}
}
