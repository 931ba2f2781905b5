package fence

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease"
	mine  = `{"spec":{"holderIdentity":"me"}}`
)

// site is a server behind a fence that closes after ten seconds.
type site struct {
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	fence *Fence
	// work and election are the ways through the fence and next to it.
	work, election *http.Client
	url            string
	// code is what the server answers, delay after how long, asked how often it was asked.
	code, asked int
	delay       time.Duration
}

func newSite(t *testing.T) *site {
	s := &site{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), code: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked++
		s.later(s.delay)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.code)
		_, _ = w.Write([]byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}`))
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.fence = New(10*time.Second, s.clock)
	var err error
	if s.work, err = rest.HTTPClientFor(s.fence.Work(&rest.Config{})); err == nil {
		s.election, err = rest.HTTPClientFor(s.fence.Election(&rest.Config{}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// send sends a request, and checks whether it has arrived.
func (s *site) send(method, path, body string, arrives bool) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	before := s.asked
	client := s.work
	if path == lease {
		client = s.election
	}
	resp, err := client.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	if (s.asked > before) != arrives || arrives != (err == nil) || !arrives && !errors.Is(err, ErrLapsed) {
		s.t.Errorf("%s %s %s arrived: %t, want %t (%v)", method, path, body, s.asked > before, arrives, err)
	}
}

func (s *site) later(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

const pod = "/api/v1/namespaces/ns/pods/web"

// TestFence follows a manager from standing by to the end of its lease.
func TestFence(t *testing.T) {
	s := newSite(t)
	s.send(http.MethodPatch, pod, "{}", true) // Never held: what needs no leader.
	s.send(http.MethodPut, lease, mine, true)
	s.later(10 * time.Second)
	s.send(http.MethodPatch, pod, "{}", true)
	s.later(time.Millisecond)
	for _, method := range []string{http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodDelete} {
		s.send(method, pod, "{}", false)
	}
	s.code = http.StatusConflict
	s.send(http.MethodPut, lease, mine, true) // Another writer has it.
	s.send(http.MethodPatch, pod, "{}", false)
	s.code = http.StatusOK
	s.send(http.MethodPut, lease, mine, true)
	s.send(http.MethodPatch, pod, "{}", true)
	s.send(http.MethodPut, lease, `{"spec":{"holderIdentity":""}}`, true) // Given up.
	s.send(http.MethodPatch, pod, "{}", false)
}

// TestFenceClientGo has the lease written as elections do it, which is not in JSON. One that was lost is not given up: that
// would be its next holder's.
func TestFenceClientGo(t *testing.T) {
	s := newSite(t)
	client, err := coordinationv1client.NewForConfig(s.fence.Election(&rest.Config{Host: s.url}))
	if err != nil {
		t.Fatal(err)
	}
	write := func(holder string) error {
		_, err := client.Leases("ns").Update(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}, metav1.UpdateOptions{})
		return err
	}
	for _, holder := range []string{"me", ""} {
		if err := write(holder); err != nil {
			t.Fatal(err)
		}
		s.send(http.MethodPatch, pod, "{}", holder != "")
	}
	if err := write("me"); err != nil {
		t.Fatal(err)
	}
	s.later(11 * time.Second)
	before := s.asked
	if err := write(""); !errors.Is(err, ErrLapsed) || s.asked > before {
		t.Errorf("a lease that may be another owner's was given up: %v", err)
	}
	s.send(http.MethodPatch, pod, "{}", false)
	if err := write("me"); err != nil {
		t.Errorf("it cannot be renewed: %v", err)
	}
}

// TestFenceSlowRenewal has a renewal that is answered late count from when it was sent.
func TestFenceSlowRenewal(t *testing.T) {
	s := newSite(t)
	s.delay = 11 * time.Second
	s.send(http.MethodPut, lease, mine, true)
	s.send(http.MethodPatch, pod, "{}", false)
}

// TestFenceOnTheWay has the lease lapse while a write is on its way through the process.
func TestFenceOnTheWay(t *testing.T) {
	s := newSite(t)
	s.send(http.MethodPut, lease, mine, true)
	body := &slowBody{Reader: strings.NewReader("{}"), read: func() { s.later(11 * time.Second) }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+pod, body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 2
	resp, err := s.work.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, ErrLapsed) {
		t.Errorf("it was sent: %v", err)
	}
}

// slowBody lets something happen before it is read.
type slowBody struct {
	*strings.Reader
	read func()
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.read()
	return b.Reader.Read(p)
}
