package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// viewerHost is the name in the addresses of a viewer's pages.
const viewerHost = "apps.example.com"

// reader is a reader of a viewer.
type reader struct {
	t *testing.T
	// base is the address of the viewer, or of a proxy in front of it; host is the name in the addresses.
	base, host string
	// seen is all that was answered.
	seen strings.Builder
}

// startViewer starts a viewer with a configuration, in a namespace, until the test ends.
func startViewer(t *testing.T, cfg *rest.Config, namespace string) *reader {
	t.Helper()
	port := harness.FreePort(t)
	cmd := exec.CommandContext(t.Context(), program, "--kubeconfig", harness.WriteKubeconfig(t, cfg), "--namespace", namespace, "ui", "--viewer",
		"--port", strconv.Itoa(port), "--host", viewerHost)
	cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), "HOME="+t.TempDir()), harness.Root(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "127.0.0.1:"+strconv.Itoa(port)) {
		t.Fatalf("the viewer prints %q: %v", line, err)
	}
	return &reader{t: t, base: fmt.Sprintf("http://127.0.0.1:%d/", port), host: viewerHost}
}

// send sends a request and returns the status and the text of the answer.
func (r *reader) send(method, path string) (status int, text string) {
	r.t.Helper()
	answer := r.begin(r.t.Context(), method, path)
	defer func() { _ = answer.Body.Close() }()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.seen.Write(all)
	return answer.StatusCode, string(all)
}

func (r *reader) begin(ctx context.Context, method, path string) *http.Response {
	r.t.Helper()
	q, err := http.NewRequestWithContext(ctx, method, r.base+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Host = r.host
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// get returns a page that has some words.
func (r *reader) get(path string, words ...string) string {
	r.t.Helper()
	status, text := answered(r.t, func() (int, string) { return r.send(http.MethodGet, path) })
	if status != http.StatusOK {
		r.t.Errorf("%s: status %d\n%s", path, status, text)
	}
	says(r.t, text, words...)
	return text
}

// follow reads the stream of a page up to a text.
func (r *reader) follow(path, until string) {
	r.t.Helper()
	ctx, leave := context.WithTimeout(r.t.Context(), harness.Patience)
	defer leave()
	answer := r.begin(ctx, http.MethodGet, path)
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.seen.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), until) {
			return
		}
	}
	r.t.Fatalf("the stream %s has ended without %q: %v", path, until, lines.Err())
}

// hiddenValues are values in the cluster that no page of a viewer has.
var hiddenValues = []string{"value-of-a-secret", "value-of-a-configmap", "debug-of-a-variable", "password-of-a-variable", "--token=of-an-argument", "of-an-annotation", "site-of-a-default"}

// visible creates an App with values that a viewer hides, and with all that there can be around its pods.
func visible(t *testing.T, ns string) *appv1.App {
	t.Helper()
	plane.Create(t, &corev1.Secret{ObjectMeta: fixture.Meta(ns, "web"), StringData: map[string]string{"key": hiddenValues[0]}},
		&corev1.ConfigMap{ObjectMeta: fixture.Meta(ns, "web"), Data: map[string]string{"key": hiddenValues[1]}})
	defaults := &appv1.AppDefaults{ObjectMeta: fixture.Meta(ns, appv1.AppDefaultsName)}
	defaults.Spec.Defaults.Envs = []corev1.EnvVar{{Name: "SITE", Value: hiddenValues[6]}}
	plane.Create(t, defaults)
	app := fixture.NewApp(ns, "web")
	app.Spec.Ports[0].Name = "http"
	app.Spec.Envs = []corev1.EnvVar{{Name: "LEVEL", Value: hiddenValues[2]}, {Name: "DB_PASSWORD", Value: hiddenValues[3]}, {
		Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, Key: "key"}},
	}}
	app.Spec.Args, app.Spec.PodAnnotations = []string{hiddenValues[4]}, map[string]string{"note": hiddenValues[5]}
	app.Spec.NetworkPolicy = &appv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{}}
	app.Spec.ServiceAccount, app.Spec.PodMonitor = &appv1.ServiceAccountSpec{}, &appv1.PodMonitorSpec{}
	app.Spec.HTTPRoute = &appv1.HTTPRouteSpec{ParentRefs: []appv1.ParentRef{{Name: "public"}}}
	app.Spec.BeforeRollout = &appv1.BeforeRolloutSpec{Command: []string{"/app/migrate"}}
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True", "Applied=True")
	plane.Change(t, app, func() { app.Spec.Envs[0].Value, app.Spec.Image = hiddenValues[2]+"-2", "nginx:2" })
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonReady) })
	event := &corev1.Event{ObjectMeta: fixture.Meta(ns, "said"), Type: corev1.EventTypeWarning, Reason: "Unhealthy", LastTimestamp: metav1.Now()}
	event.InvolvedObject = corev1.ObjectReference{Kind: "App", Namespace: ns, Name: app.Name, UID: app.UID}
	event.Message = "probe failed at " + hiddenValues[6] + " with " + hiddenValues[4]
	plane.Create(t, event)
	return app
}

// TestViewer reads the pages of a viewer that has exactly the rights of its role. They have no button and no value; each request that changes something
// and each of another host is refused, and the API server gets nothing but requests that read.
func TestViewer(t *testing.T) {
	t.Parallel()
	plane.Define(t, harness.HTTPRouteDefinition(t))
	plane.Define(t, harness.PodMonitorDefinition())
	ns, _ := plane.Shared(t)
	who := account(t, ns, "viewer", plugin.ViewerRights())
	visible(t, ns)
	office := fixture.NewCloudManager(ns, "office")
	plane.Create(t, office)
	newTask(t, ns, "report", "", "nginx:1")
	x := plane.ProxyAs(t, who, nil)
	r := startViewer(t, x.Config(), ns)
	home, tiers, task := "app/"+ns+"/web", "cloudmanager/"+ns+"/office", "task/"+ns+"/report"
	r.get("", ns+"/</small>web")
	r.get("?view=wall", "web")
	page := r.get(home, "Deployment/web", "What has happened", "Revision", "name: LEVEL", "•••", "probe failed at ••• with •••", "NetworkPolicy/web", "HTTPRoute/web", "PodMonitor/web", "ServiceAccount/web")
	page += r.get(task, "CronJob/report", "No run has started yet.")
	r.get(tiers, "office")
	r.follow("events", "event: order")
	r.follow(home+"/events", `"id":"spec"`)
	r.follow(tiers+"/events", `"id":"spec"`)
	r.follow(task+"/events", `"id":"spec"`)
	for _, word := range []string{`method="post"`, "/rollback", "/pause", "/suspend", "/scale", "Log out", "you may not"} {
		if strings.Contains(page, word) {
			t.Errorf("%q is in\n%s", word, page)
		}
	}
	for _, value := range hiddenValues {
		if strings.Contains(r.seen.String(), value) {
			t.Errorf("a page has the value %q", value)
		}
	}
	for _, path := range []string{"", home, home + "/events", home + "/pause", home + "/rollback?value=1", "plan", "login", "logout", "api/v1/namespaces/" + ns + "/secrets"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			if status, text := r.send(method, path); status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d\n%s", method, path, status, text)
			}
		}
	}
	for _, host := range []string{"evil.example", "127.0.0.1", "localhost", viewerHost + ".evil.example"} {
		other := &reader{t: t, base: r.base, host: host}
		if status, text := other.send(http.MethodGet, home); status != http.StatusMisdirectedRequest || strings.Contains(text, "web") {
			t.Errorf("as %s: status %d\n%s", host, status, text)
		}
	}
	checkReading(t, x)
}

// checkReading checks that a viewer has sent nothing but requests that read, within its rights, and that it has used each of these.
func checkReading(t *testing.T, x *harness.Proxy) {
	t.Helper()
	used := map[plugin.Right]bool{}
	for _, q := range x.Requests.All() {
		right := plugin.Right{Verb: q.Verb, Group: q.Group, Resource: q.Resource}
		used[right] = true
		if !slices.Contains([]string{"get", "list", "watch"}, q.Verb) {
			t.Errorf("the viewer sends %+v", q)
		}
	}
	if f := x.Requests.Forbidden(); len(f) > 0 {
		t.Errorf("requests beyond the rights: %v", f)
	}
	for _, right := range plugin.ViewerRights() {
		// A watch can begin with what a list has. No page of a ModelBox or a UnitedDeployment is opened.
		watched := right.Verb == "list" && used[plugin.Right{Verb: "watch", Group: right.Group, Resource: right.Resource}]
		unopened := right.Verb == "get" && (right.Resource == "modelboxes" || right.Resource == "uniteddeployments")
		if !used[right] && !watched && !unopened {
			t.Errorf("nothing uses the right to %s", right)
		}
	}
}

// TestViewerBehindProxy reads by way of a proxy that hands the host on, as oauth2-proxy does: a change is on the page at once.
func TestViewerBehindProxy(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	r := startViewer(t, plane.Config, u.namespace)
	target, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	r.base = proxyTo(t, target)
	r.get("", "web")
	plane.Change(t, app, func() { app.Spec.Image = badImage })
	r.follow("events", "ImagePullBackOff")
	r.follow("app/"+u.namespace+"/web/events", "ImagePullBackOff")
	if status, text := r.send(http.MethodGet, "app/"+u.namespace+"/none"); status != http.StatusNotFound || !strings.Contains(text, "there is no App none") {
		t.Errorf("status %d\n%s", status, text)
	}
}

// proxyTo starts a proxy that names a reader, and returns its address.
func proxyTo(t *testing.T, target *url.URL) string {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(q *httputil.ProxyRequest) {
		q.SetURL(target)
		q.Out.Host = q.In.Host
		q.Out.Header.Set("X-Forwarded-User", "jo")
	}})
	t.Cleanup(server.Close)
	return server.URL + "/"
}
