package ui

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestLoginLeadsOn opens a page without a session, and logs in on the form that it has: the next page is the wanted one, with its query.
func TestLoginLeadsOn(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	to := regexp.MustCompile(`name="to" value="([^"]*)"`)
	for path, want := range map[string]string{
		"/app/shop/cart": "/app/shop/cart", "/?filter=a%26b&view=wall": "/?filter=a%26b&view=wall", "/app/shop/cart/logs?pod=cart-1": "/app/shop/cart/logs?pod=cart-1",
	} {
		for _, folder := range []string{s.id, randomHex(16)} {
			page := request{host: "127.0.0.1:" + s.port, method: http.MethodGet}.send(s, "/"+folder+path)
			found := to.FindStringSubmatch(page.Body.String())
			if page.Code != http.StatusUnauthorized || found == nil {
				t.Fatalf("%s: %d\n%s", path, page.Code, page.Body)
			}
			answer := request{
				host: "127.0.0.1:" + s.port, method: http.MethodPost, contentType: "application/x-www-form-urlencoded",
				form: url.Values{"code": {s.NewCode()}, "to": {html.UnescapeString(found[1])}},
			}.send(s, outside+"login")
			if text := html.UnescapeString(answer.Body.String()); !strings.Contains(text, `<a href="/`+s.id+want+`">`) {
				t.Errorf("after a login, %s leads to\n%s", path, text)
			}
		}
	}
}

// TestLoginStaysHere has pages to go on to that others may have chosen: each is a page below the folder, and its query has no other part of an address.
func TestLoginStaysHere(t *testing.T) {
	t.Parallel()
	s := listen(t, newFake())
	for _, to := range []string{
		"//evil.example/", "http://evil.example/", "\\\\evil.example", "/", "?//evil.example", "?a=b#//evil.example", "//evil.example?a=b", "x?a=%zz&b=1;url=http://evil.example",
		"?a=1\r\nLocation: x", "?%2F%2Fevil.example", "..//evil.example?a=\"><img src=x>",
	} {
		page, err := url.Parse(s.addressOf(to))
		if err != nil || page.Host != "" || page.Scheme != "" || page.Fragment != "" || !strings.HasPrefix(page.Path, "/"+s.id+"/") {
			t.Errorf("%q leads to %v, %v", to, page, err)
		}
		if strings.ContainsAny(s.addressOf(to), "\r\n\"<>; ") {
			t.Errorf("%q leads to %s", to, s.addressOf(to))
		}
	}
}

// TestHostOfPort asks by hosts with and without a port. Browsers name no port 80, and any other one.
func TestHostOfPort(t *testing.T) {
	t.Parallel()
	for port, hosts := range map[string]map[string]bool{
		"80": {
			"127.0.0.1": true, "localhost": true, "127.0.0.1:80": true, "localhost:80": true, "evil.example": false, "evil.example:80": false,
			"127.0.0.1:8080": false, "127.0.0.1.evil.example": false, "": false,
		},
		"8080": {"127.0.0.1": false, "localhost": false, "127.0.0.1:80": false, "127.0.0.1:8080": true, "localhost:8080": true, "evil.example:8080": false},
	} {
		s := listen(t, newFake())
		s.port = port
		for host, known := range hosts {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/style.css", http.NoBody)
			r.Host = host
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			if want := map[bool]int{true: http.StatusOK, false: http.StatusMisdirectedRequest}[known]; w.Code != want {
				t.Errorf("on port %s, as %q: %d, want %d", port, host, w.Code, want)
			}
		}
	}
}
