package ui

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// TestFilterBounded has filters at the bound and beyond: what is beyond does not count, and the page shows the filter that counts.
func TestFilterBounded(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]string{
		strings.Repeat("a", maxFilter):               strings.Repeat("a", maxFilter),
		strings.Repeat("a", maxFilter+1):             strings.Repeat("a", maxFilter),
		strings.Repeat("a ", 5000):                   strings.Repeat("a ", maxFilter/2),
		strings.Repeat("a", maxFilter-1) + "ä and b": strings.Repeat("a", maxFilter-1),
	} {
		address := &url.URL{RawQuery: url.Values{"filter": {filter}}.Encode()}
		if got := choiceOf(address).filter; got != want || !utf8.ValidString(got) {
			t.Errorf("a filter of %d bytes becomes %q", len(filter), got)
		}
	}
	s := viewerOf(t, newMoving(3))
	page := ask(t, s, http.MethodGet, "apps.example.com", "/?filter="+strings.Repeat("a", 5000), nil).Body.String()
	if strings.Contains(page, strings.Repeat("a", maxFilter+1)) || !strings.Contains(page, fmt.Sprintf("maxlength=\"%d\"", maxFilter)) {
		t.Errorf("the page is %s", page)
	}
}

// TestNamesThatCannotExist asks for pages of names that no resource has: nothing is read and followed for them, and they are not told apart from paths
// that do not exist.
func TestNamesThatCannotExist(t *testing.T) {
	t.Parallel()
	m := newMoving(1)
	s := viewerOf(t, m)
	for _, path := range []string{
		"shop/..%2f..%2fsecrets", "..%2f..%2fkube-system/cart", "shop/%2e%2e", "shop/cart%00", "shop/cart,x=y", "shop/CART", "shop/a%20b", "sh%3fop/cart",
		"shop/" + strings.Repeat("a", 254), strings.Repeat("a", 64) + "/cart", "shop/cart%2fstatus", "shop/%0d%0aSet-Cookie:%20x",
	} {
		for _, end := range []string{"", "/events"} {
			answer := ask(t, s, http.MethodGet, "apps.example.com", "/app/"+path+end, nil)
			if answer.Code != http.StatusNotFound || answer.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s%s: %d", path, end, answer.Code)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads+m.feeds > 0 || len(s.hub.topics) > 0 {
		t.Errorf("%d reads, %d topics", m.reads, m.feeds)
	}
}

// TestHugeSpec has a spec that is several times as long as a page shows: its page is no larger than others, and says what it leaves out.
func TestHugeSpec(t *testing.T) {
	t.Parallel()
	app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "app"}}
	app.Spec.Image = "nginx:1"
	for i := range 3000 {
		app.Spec.Envs = append(app.Spec.Envs, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("<", 50)})
	}
	r, _ := view.ResourceOf(app)
	c := newFake()
	c.snapshot = &view.Snapshot{Resource: r, Now: time.Now()}
	page := ask(t, viewerOf(t, c), http.MethodGet, "apps.example.com", "/app/shop/cart", nil)
	if page.Code != http.StatusOK || page.Body.Len() > 2*maxSpec || !strings.Contains(page.Body.String(), " more lines") {
		t.Errorf("status %d, %d bytes", page.Code, page.Body.Len())
	}
}

// TestPagesHaveNoAddress opens pages while no connection to the API server comes about. None of them has the address, which is of the kubeconfig.
func TestPagesHaveNoAddress(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.err = fmt.Errorf("get App cart in shop: %w", &url.Error{Op: "Get", URL: "https://10.1.2.3:6443/apis", Err: &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6443}, Err: syscall.ECONNREFUSED,
	}})
	s := listenWith(t, f, &acted{err: f.err})
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	for path, form := range map[string]url.Values{
		"": nil, "app/shop/cart": nil, "plan?of=app/shop/cart": nil, "plan": {"text": {"kind: App"}}, "app/shop/cart/pause": {"version": {"7"}},
	} {
		text := visit(s, secret, path, form).Body.String()
		if !strings.Contains(text, "connection refused") || strings.Contains(text, "10.1.2.3") || strings.Contains(text, "6443") {
			t.Errorf("%q:\n%s", path, text)
		}
	}
}
