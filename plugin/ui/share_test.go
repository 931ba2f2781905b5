package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// appTopic is the topic of one of many Apps.
func appTopic(i int) Topic { return Topic{Kind: "App", Namespace: "shop", Name: fmt.Sprint("app-", i)} }

// TestViewerTopics follows as many resources as there may be. The next one takes the place of one that nobody looks at, then of one of the reader who has
// most, and finds none if each reader has one.
func TestViewerTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10000)
		s := viewerOf(t, m)
		defer s.end()
		visit := func(reader string, i int) (*seat, error) { return s.hub.openVisit(t.Context(), reader, appTopic(i)) }
		follow := func(reader string, i int) *seat {
			taken, err := visit(reader, i)
			if err != nil {
				t.Fatal(err)
			}
			return taken
		}
		ends := func(what string, ended, stays *seat) {
			t.Helper()
			if s.hub.topics[ended.Topic] == ended.followed || s.hub.topics[stays.Topic] != stays.followed || len(s.hub.topics) != viewerTopics+1 {
				t.Errorf("%s: of %d topics, not %s has ended", what, len(s.hub.topics), ended.Name)
			}
		}
		if _, err := s.hub.openVisit(t.Context(), "list", Topic{}); err != nil { // It takes no room.
			t.Fatal(err)
		}
		var seats []*seat
		for i := range viewerTopics {
			seats = append(seats, follow("greedy", i))
		}
		for _, i := range []int{7, 3} {
			s.hub.closeVisit(seats[i])
			<-time.After(time.Second)
		}
		follow("jo", viewerTopics)
		ends("one was left", seats[7], seats[3])
		follow("greedy", viewerTopics+1)
		ends("another one was left", seats[3], seats[0])
		shared := follow("jo", 0)
		follow("jo", viewerTopics+2)
		ends("another reader", seats[1], shared)
		again := follow("greedy", 1)
		ends("the greedy reader itself", seats[2], shared)
		s.hub.closeVisit(seats[1]) // The topic of that time is over.
		<-time.After(2 * linger)
		ends("after a while", seats[2], again)
		for i := range viewerTopics - 4 {
			follow(fmt.Sprint("reader ", i), 100+i)
		}
		if _, err := visit("jo", 5000); err != nil {
			t.Errorf("a reader with three resources has no more: %v", err)
		}
	})
}

// TestViewerFull has each reader look at one resource, and on one page. There is nothing to yield to one more, who still gets the list.
func TestViewerFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMoving(1)
		m.over = make(chan struct{}, 10000)
		s := viewerOf(t, m)
		defer s.end()
		for i := range viewerStreams {
			if _, err := s.hub.openStream(t.Context(), fmt.Sprint("reader ", i), appTopic(i%viewerTopics)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.hub.openStream(t.Context(), "one more", Topic{}); !errors.Is(err, errTooMany) {
			t.Errorf("one more stream: %v", err)
		}
		_, err := s.hub.openVisit(t.Context(), "one more", appTopic(viewerTopics))
		if !errors.Is(err, errTooMany) || statusOf(err) != http.StatusServiceUnavailable {
			t.Errorf("one more resource: %v", err)
		}
		for path, want := range map[string]int{"/": http.StatusOK, "/events": http.StatusServiceUnavailable} {
			if status := askAs(t, s, "one more", path).Code; status != want {
				t.Errorf("%s: %d, want %d", path, status, want)
			}
		}
	})
}

// TestViewerStreams opens as many streams as there may be. A reader whom the proxy names has a part of them, and readers without a name share what
// there is: the newest page of theirs takes the place of their oldest one.
func TestViewerStreams(t *testing.T) {
	t.Parallel()
	s := viewerOf(t, newMoving(1))
	join := func(reader string, many int) (all []*seat) {
		for range many {
			taken, err := s.hub.openStream(t.Context(), reader, Topic{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, taken)
		}
		return all
	}
	ousted := func(all []*seat) (n int) {
		for _, taken := range all {
			select {
			case <-taken.ousted:
				n++
			default:
			}
		}
		return n
	}
	named := join("jo", viewerTabs+1)
	unnamed := join("", viewerStreams)
	if of, others := ousted(named), ousted(unnamed); of != 1 || ousted(named[:1]) != 1 || others != viewerTabs || ousted(unnamed[:viewerTabs]) != viewerTabs {
		t.Errorf("%d of a reader's pages and %d others are ended, want the oldest one and the %d oldest", of, others, viewerTabs)
	}
	if len(s.hub.streams) != viewerStreams {
		t.Errorf("%d pages are followed", len(s.hub.streams))
	}
}

// askAs has a reader whom the proxy names open a page.
func askAs(t *testing.T, s *Server, reader, path string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, s, http.MethodGet, "apps.example.com", path, http.Header{headerUser: {reader}})
}

// TestViewerGreedy has readers, with a name and without, take all that they can: pages that are followed, pages of resources, reads, and requests. Another
// reader opens the list and a resource as fast as ever, and follows both.
func TestViewerGreedy(t *testing.T) {
	for _, greedy := range []string{"greedy", ""} {
		t.Run(greedy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMoving(1)
				m.over = make(chan struct{}, 100000)
				s := viewerOf(t, m)
				defer s.end()
				stop := make(chan struct{})
				defer synctest.Wait()
				defer close(stop)
				for i := range 400 { // So many tabs: each opens one resource after another, and follows it for a while.
					go func() {
						for n := i; ; n += 400 {
							select {
							case <-stop:
								return
							case <-time.After(time.Second / 4):
							}
							ctx, leave := context.WithTimeout(context.WithValue(t.Context(), readerKey{}, greedy), answerTime)
							_, _ = s.hub.currentContent(ctx, appTopic(n))
							if taken, err := s.hub.openStream(ctx, greedy, appTopic(n)); err == nil {
								select {
								case <-stop:
								case <-taken.ousted:
								case <-time.After(time.Minute):
								}
								s.hub.closeStream(taken)
							}
							leave()
						}
					}()
				}
				<-time.After(time.Minute)
				for round := range 5 {
					began := time.Now()
					for _, path := range []string{"/", "/app/shop/cart"} {
						if answer := askAs(t, s, "jo", path); answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "has not answered") {
							t.Errorf("round %d, %s: %d\n%s", round, path, answer.Code, answer.Body)
						}
					}
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("round %d: the pages take %s", round, took)
					}
				}
				for _, topic := range []Topic{{}, {Kind: "App", Namespace: "shop", Name: "cart"}} {
					taken, err := s.hub.openStream(t.Context(), "jo", topic)
					if err != nil {
						t.Fatal(err)
					}
					<-taken.news
					for range 5 {
						<-time.After(2 * pauseResource)
						at := taken.latestContent().at
						m.change(func() {})
						<-time.After(2 * pauseResource)
						if !taken.latestContent().at.After(at) {
							t.Errorf("topic %q: no update", topic.Name)
						}
					}
					s.hub.closeStream(taken)
				}
			})
		})
	}
}

// TestRate has reads wait: readers take turns, however many reads each of them has waiting, and a read for several readers comes with the first of
// their turns.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rate{taken: map[string]int{}}
		var begun []string
		var mu sync.Mutex
		wait := func(ctx context.Context, name string, readers ...string) {
			go func() {
				if r.awaitTurn(ctx, Topic{Name: name}, readers...) == nil {
					mu.Lock()
					defer mu.Unlock()
					begun = append(begun, name)
				}
			}()
			synctest.Wait()
		}
		given, give := context.WithCancel(t.Context())
		wait(given, "given up", "b")
		for i := range 4 {
			wait(t.Context(), fmt.Sprint("a", i), "a")
		}
		wait(t.Context(), "b0", "b")
		wait(t.Context(), "b1", "b")
		wait(t.Context(), "a4", "a")
		give()
		synctest.Wait()
		for range 3 {
			r.releaseRead()
			synctest.Wait()
		}
		wait(t.Context(), "c0", "c")
		r.addReader(Topic{Name: "a4"}, "d")
		for range 6 {
			r.releaseRead()
			synctest.Wait()
		}
		if want := []string{"a0", "b0", "a1", "b1", "a4", "c0", "a2", "a3"}; !slices.Equal(begun, want) {
			t.Errorf("the reads begin in the order %v, want %v", begun, want)
		}
		if r.tokens != 1 || len(r.waiting)+len(r.taken) > 0 {
			t.Errorf("%d tokens, %d reads wait, %d readers are known", r.tokens, len(r.waiting), len(r.taken))
		}
		for range 2 * viewerBurst {
			r.releaseRead()
		}
		if r.tokens != viewerBurst {
			t.Errorf("%d tokens after a quiet time", r.tokens)
		}
	})
}

// TestViewerWaitsTogether opens a resource whose read waits for another reader already: the read comes with the turn of either.
func TestViewerWaitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewerOf(t, newMoving(1))
		defer s.end()
		for range viewerBurst - 1 {
			_, _ = s.hub.limits.reads.takeToken(appTopic(0), []string{"greedy"})
		}
		for _, reader := range []string{"greedy", "jo"} {
			if _, err := s.hub.openVisit(t.Context(), reader, appTopic(1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s.hub.limits.reads.mu.Lock()
		defer s.hub.limits.reads.mu.Unlock()
		waiting := s.hub.limits.reads.waiting
		if len(waiting) != 1 || !slices.Equal(waiting[0].readers, []string{"greedy", "jo"}) {
			t.Errorf("%d reads wait: %+v", len(waiting), waiting)
		}
	})
}

// TestViewerRequests has as many requests in work as a reader may have, and one more. Another reader, and the same one after an end, are answered.
func TestViewerRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, greedy := range []string{"greedy", ""} {
			s := viewerOf(t, newMoving(1))
			most := map[string]int{"": viewerUnnamed}[greedy] + map[string]int{"greedy": viewerRequests}[greedy]
			leave := make(chan struct{})
			s.handler = withHeaders(s.forViewer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/stays" {
					<-leave
				}
			})))
			for range most {
				go askAs(t, s, greedy, "/stays")
			}
			synctest.Wait()
			if status := askAs(t, s, greedy, "/").Code; status != http.StatusTooManyRequests {
				t.Errorf("%q, one more: %d", greedy, status)
			}
			if status := askAs(t, s, "jo", "/").Code; status != http.StatusOK {
				t.Errorf("%q, another reader: %d", greedy, status)
			}
			close(leave)
			synctest.Wait()
			if status := askAs(t, s, greedy, "/").Code; status != http.StatusOK {
				t.Errorf("%q, afterwards: %d", greedy, status)
			}
			s.end()
		}
	})
}
