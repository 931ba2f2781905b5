package guard

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// token is a request with a bearer token to a path.
func token(path, token string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
}

// TestStrangers sends tokens from addresses without a proof, up to their rates and beyond, and from an address that has proved itself.
func TestStrangers(t *testing.T) {
	count := func(w *world, from, n int) (checked int) {
		for i := range n {
			c := w.dial(address(from))
			c.send(token("/metrics", fmt.Sprint(i)))
			switch status := c.status(); status {
			case http.StatusTeapot:
				checked++
			case http.StatusTooManyRequests:
			default:
				t.Errorf("status %d", status)
			}
			_ = c.Close()
		}
		return checked
	}
	each := func(test func(*testing.T, *world)) func(*testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serve(t, Metrics, nil)
				g := w.guardOf()
				g.next = LimitStrangers(g.next)
				test(t, w)
			})
		}
	}
	t.Run("no token", each(func(t *testing.T, w *world) {
		for _, header := range []string{"", "Authorization: Bearer \r\n", "Authorization: Basic YTpi\r\n"} {
			c := w.dial(address(1))
			c.send("GET /metrics HTTP/1.1\r\nHost: a\r\n" + header + "\r\n")
			if status := c.status(); status != http.StatusUnauthorized || len(w.handled) > 0 {
				t.Errorf("%q: status %d, %d were checked", header, status, len(w.handled))
			}
		}
	}))
	t.Run("one address", each(func(t *testing.T, w *world) {
		if n := count(w, 1, 4*tokenBurst); n != tokenBurst {
			t.Errorf("%d tokens were checked at once, want %d", n, tokenBurst)
		}
		<-time.After(3 * time.Second / tokenRate)
		if n := count(w, 1, 4*tokenBurst); n != 3 {
			t.Errorf("%d tokens were checked three seconds later, want 3", n)
		}
		if n := count(w, 2, 1); n != 1 {
			t.Error("another address had to wait")
		}
	}))
	t.Run("many addresses", each(func(t *testing.T, w *world) {
		n := 0
		for i := range 4 * allTokensBurst {
			n += count(w, i, 1)
		}
		if n != allTokensBurst {
			t.Errorf("%d tokens were checked at once, want %d", n, allTokensBurst)
		}
	}))
	t.Run("proven", each(func(t *testing.T, w *world) {
		c := w.dial(address(1))
		c.send(token("/proved", "right"))
		if status := c.status(); status != http.StatusTeapot {
			t.Fatalf("status %d", status)
		}
		if n := count(w, 1, 4*tokenBurst); n != 4*tokenBurst {
			t.Errorf("%d of %d scrapes of a proven address were answered", n, 4*tokenBurst)
		}
	}))
}
