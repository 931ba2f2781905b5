package guard

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// guardOf returns the guard of the server.
func (w *world) guardOf() *guard { return w.server.Handler.(*guard) }

// open returns how many of some connections are not closed. A connection that is open sends nothing by itself.
func open(clients []*client) (n int) {
	for _, c := range clients {
		ended := make(chan struct{})
		go func() {
			_, _ = c.answers.Peek(1)
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
		default:
			n++
			_ = c.Close()
		}
	}
	return n
}

// TestConnections opens connections to each server, up to the share of an address and of all addresses, and beyond. They send nothing,
// or have an answer that they wait for.
func TestConnections(t *testing.T) {
	for server, limits := range servers {
		quarter, half := int(limits.Connections/shareOfAddress), int(limits.Connections/shareOfUnproven)
		for name, c := range map[string]struct {
			addresses, each, want int
		}{
			"one address, at the limit":     {1, quarter, quarter},
			"one address, beyond":           {1, quarter + 3, quarter},
			"many addresses, at the limit":  {half, 1, half},
			"many addresses, beyond":        {half + 3, 1, half},
			"several addresses, beyond all": {5, quarter, half},
		} {
			t.Run(server+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := serve(t, limits, nil)
					var clients []*client
					for i := range c.addresses * c.each {
						clients = append(clients, w.dial(address(i%c.addresses)))
						synctest.Wait()
					}
					// The newest one is served whatever there is.
					last := clients[len(clients)-1]
					last.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					if status := last.status(); status != http.StatusTeapot {
						t.Errorf("the newest connection is answered with %d", status)
					}
					if n := open(clients); n != c.want {
						t.Errorf("%d of %d connections are open, want %d", n, len(clients), c.want)
					}
					synctest.Wait()
					if left := len(w.guardOf().conns.claims); left > 0 {
						t.Errorf("%d closed connections still count", left)
					}
				})
			})
		}
	}
}

// TestConnectionsInUse has requests in work on all connections that an address may have. A further connection is closed.
func TestConnectionsInUse(t *testing.T) {
	eachServer(t, func(t *testing.T, w *world) {
		w.hold = make(chan struct{})
		for range w.limits.Connections / shareOfAddress {
			w.dial(address(1)).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		further := w.dial(address(1))
		synctest.Wait()
		if open([]*client{further}) != 0 {
			t.Error("a further connection is open")
		}
		other := w.dial(address(2))
		other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		close(w.hold)
		if status := other.status(); status != http.StatusTeapot {
			t.Errorf("another address is answered with %d", status)
		}
	})
}

// TestHandshake opens TLS connections that send nothing, or not all. They are closed once a request should have arrived.
func TestHandshake(t *testing.T) {
	for server, limits := range servers {
		for _, sent := range []string{"", "\x16\x03\x01\x02\x00", "\x16\x03\x01\x02\x00" + strings.Repeat("x", 100)} {
			t.Run(fmt.Sprintf("%s/%d", server, len(sent)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := serve(t, limits, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
						return nil, http.ErrNotSupported
					}})
					c := w.dial(address(1))
					began := time.Now()
					c.send(sent)
					c.checkClosing(began, closesLate, &limits)
				})
			})
		}
	}
}

// bodyOf returns the beginning of a JSON object, of a length.
func bodyOf(length int) string { return ("{" + strings.Repeat("x", length))[:length] }

// unfinished is a review of a size. All of it arrives but for its last ten bytes.
func unfinished(size int) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size+10, bodyOf(size))
}

// finished is a review of a size.
func finished(path string, size int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, size, bodyOf(size))
}

// TestUnfinishedBodies has attackers leave bodies unfinished, from one address and from many. What the bodies hold stays within the share of
// those that have proved nothing, and genuine reviews of an address that has proved nothing either are answered at once.
func TestUnfinishedBodies(t *testing.T) {
	for name, addresses := range map[string]int{"one address": 1, "three": 3, "one each": 200} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serve(t, Webhooks, nil)
				bodies := w.guardOf().bodies
				for i := range 200 {
					w.dial(address(i % addresses)).send(unfinished(1 << 20))
					if i%20 > 0 {
						continue
					}
					began, genuine := time.Now(), w.dial(address(1000))
					genuine.send(finished("/", 100<<10))
					if status := genuine.status(); status != http.StatusTeapot || time.Since(began) > 0 {
						t.Errorf("after %d bodies, a genuine review is answered with %d after %s", i, status, time.Since(began))
					}
					_ = genuine.Close()
					var held int64
					for _, n := range bodies.heldByAddress() {
						held += n
					}
					if held > Webhooks.Budget/shareOfUnproven {
						t.Errorf("%d MiB are held", held>>20)
					}
				}
				<-time.After(Webhooks.Arrival + time.Second)
				synctest.Wait()
				if n := len(bodies.claims); n > 0 {
					t.Errorf("%d bodies are left after their deadline", n)
				}
			})
		})
	}
}

// TestProvenReviews has attackers keep as much in work as they may. The reviews of an address that has proved to be genuine are handled
// at once; those of another wait, and are refused after a time.
func TestProvenReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, Webhooks, nil)
		w.hold = make(chan struct{})
		server := w.dial(address(1000))
		go func() { w.hold <- struct{}{} }()
		server.send(finished("/proved", 100))
		if status := server.status(); status != http.StatusTeapot {
			t.Fatalf("the first review is answered with %d", status)
		}
		for i := range 20 {
			w.dial(address(i)).send(finished("/", 3<<20))
		}
		before := len(w.handled)
		server.send(finished("/", 3<<20))
		w.dial(address(1000)).send(finished("/", 3<<20))
		if handled := len(w.handled) - before; handled != 2 {
			t.Errorf("%d of two proven reviews are handled", handled)
		}
		stranger := w.dial(address(2000))
		began := time.Now()
		stranger.send(finished("/", 3<<20))
		if status := stranger.status(); status != http.StatusServiceUnavailable || time.Since(began) != Webhooks.Arrival {
			t.Errorf("a review beyond the budget is answered with %d after %s", status, time.Since(began))
		}
		close(w.hold)
	})
}

// TestCost sends reviews of many short JSON values, at the limit of what one may cost and beyond.
func TestCost(t *testing.T) {
	for values, want := range map[int64]int{0: http.StatusTeapot, -1: http.StatusTeapot, 1: http.StatusRequestEntityTooLarge} {
		synctest.Test(t, func(t *testing.T) {
			w := serve(t, Webhooks, nil)
			most := (Webhooks.Share()-Webhooks.PerByte-Webhooks.PerValue)/(2*Webhooks.PerByte+Webhooks.PerValue) + values
			text := "{" + strings.Repeat("1,", int(most))
			c := w.dial(address(1))
			c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
			if status := c.status(); status != want {
				t.Errorf("%d values are answered with %d, want %d", most, status, want)
			}
		})
	}
}

// TestForms sends bodies that a decoder takes for JSON, and bodies that it takes for YAML or another format, whose cost nothing counts.
func TestForms(t *testing.T) {
	blank := strings.Repeat(" \n", 40<<10)
	for text, want := range map[string]int{
		``: http.StatusTeapot, `{}`: http.StatusTeapot, " \r\n\t{}": http.StatusTeapot, blank + `{}`: http.StatusTeapot, blank: http.StatusTeapot,
		"-\n-\n": http.StatusUnsupportedMediaType, blank + "-\n": http.StatusUnsupportedMediaType, `[{}]`: http.StatusUnsupportedMediaType,
		"---\n{}": http.StatusUnsupportedMediaType, "# a\n{}": http.StatusUnsupportedMediaType, "a: b": http.StatusUnsupportedMediaType,
		"\ufeff{}": http.StatusUnsupportedMediaType, "k8s\x00": http.StatusUnsupportedMediaType, `"{"`: http.StatusUnsupportedMediaType,
	} {
		for _, form := range []string{"Content-Length: %[1]d\r\n\r\n%[2]s", "Transfer-Encoding: chunked\r\n\r\n%[1]x\r\n%[2]s\r\n0\r\n\r\n"} {
			if text == "" && !strings.HasPrefix(form, "Content") {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, Webhooks, nil).dial(address(1))
				c.send("POST / HTTP/1.1\r\nHost: a\r\n" + fmt.Sprintf(form, len(text), text))
				if status := c.status(); status != want {
					t.Errorf("%.20q, %d bytes: %d, want %d", text, len(text), status, want)
				}
			})
		}
	}
}

// TestValues counts the values of JSON texts, in parts of all lengths.
func TestValues(t *testing.T) {
	for text, want := range map[string]int64{
		``: 0, `{}`: 1, `[1,2]`: 2, `{"a":"b,c[{"}`: 1, `{"a":"\",[","b":1}`: 2, `["\\",1]`: 2, `[[[]]]`: 3,
	} {
		for part := 1; part <= len(text)+1; part++ {
			var values jsonValues
			for begin := 0; begin < len(text); begin += part {
				values.countPart([]byte(text[begin:min(begin+part, len(text))]))
			}
			if values.count != want {
				t.Errorf("%s in parts of %d: %d values, want %d", text, part, values.count, want)
			}
		}
	}
}

// TestProofs lets proofs come and grow old.
func TestProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuard(Webhooks, nil, Report{}).proofs
		if p.outranks(address(1000)) {
			t.Error("an address is outranked without any proof")
		}
		for i := range maxProven + 1 {
			p.addProof(address(i))
			<-time.After(time.Second)
		}
		if p.isProven(address(0)) || !p.isProven(address(1)) || !p.isProven(address(maxProven)) || p.isProven(address(1000)) {
			t.Error("not the latest proofs count")
		}
		if !p.outranks(address(0)) || p.outranks(address(1)) || p.outranks(address(maxProven)) || !p.outranks(address(1000)) {
			t.Error("not the addresses without a proof are outranked")
		}
		<-time.After(proofLasts)
		if p.isProven(address(maxProven)) || p.outranks(address(1000)) {
			t.Error("a proof counts for ever")
		}
	})
}
