package cli

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// browser is a browser that has opened the application centre of a user.
type browser struct {
	t      *testing.T
	client *http.Client
	// base is the address of the first page, code that of the login.
	base, code string
	// seen is all that was answered.
	seen strings.Builder
}

// open starts the application centre as a user.
func open(t *testing.T, u *user) *browser {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "--kubeconfig", u.config, "--namespace", u.namespace, "ui", "--no-browser")
	cmd.Env, cmd.Dir = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+t.TempDir()), harness.Root()
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
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for lines := bufio.NewScanner(out); b.code == "" && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
			b.base = lines.Text()
		}
		if _, code, found := strings.Cut(lines.Text(), "for 10 minutes: "); found {
			b.code = code
		}
	}
	if b.base == "" || b.code == "" {
		t.Fatal("the application centre has printed no address, or no code")
	}
	return b
}

// send sends a request and returns the text of the answer. Another status than the wanted one fails the test.
func (b *browser) send(method, path string, form url.Values, status int) string {
	b.t.Helper()
	got, text := b.try(method, path, form)
	if got != status {
		b.t.Fatalf("status %d, want %d\n%s", got, status, text)
	}
	return text
}

// try sends a request and returns the answer, or the page that the answer leads to.
func (b *browser) try(method, path string, form url.Values) (status int, answer string) {
	b.t.Helper()
	q, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	status, answer, next := b.answerTo(q)
	if next != "" {
		return b.load(next)
	}
	return status, answer
}

// load returns a page.
func (b *browser) load(address string) (status int, answer string) {
	b.t.Helper()
	return answered(b.t, func() (int, string) {
		q, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			b.t.Fatal(err)
		}
		status, answer, next := b.answerTo(q)
		if next != "" {
			b.t.Fatalf("%s leads to %s", address, next)
		}
		return status, answer
	})
}

// answered sends the request for a page, again if the API server has not answered in its time, as on a busy machine.
func answered(t *testing.T, send func() (status int, text string)) (status int, text string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if status, text = send(); status == http.StatusBadGateway {
			return errors.New(text)
		}
		return nil
	})
	return status, text
}

// answerTo returns the answer to a request. next is the address that it leads to, empty for none.
func (b *browser) answerTo(q *http.Request) (status int, answer, next string) {
	b.t.Helper()
	r, err := b.client.Do(q)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.seen.Write(text)
	if err := r.Header.Write(&b.seen); err != nil {
		b.t.Fatal(err)
	}
	if at, err := r.Location(); err == nil {
		next = at.String()
	}
	return r.StatusCode, string(text), next
}

// get returns a page.
func (b *browser) get(path string, status int) string {
	b.t.Helper()
	if status == http.StatusBadGateway {
		return b.send(http.MethodGet, path, nil, status)
	}
	got, text := b.load(b.base + path)
	if got != status {
		b.t.Fatalf("%s: status %d, want %d\n%s", path, got, status, text)
	}
	return text
}

// follow reads the stream of a page up to a text, and returns what it has read.
func (b *browser) follow(path, until string) string {
	b.t.Helper()
	ctx, leave := context.WithTimeout(b.t.Context(), harness.Patience)
	defer leave()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.client.Do(q)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var text strings.Builder
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	for !strings.Contains(text.String(), until) {
		if !lines.Scan() {
			b.t.Fatalf("the stream has ended without %q: %v\n%s", until, lines.Err(), &text)
		}
		text.WriteString(lines.Text() + "\n")
	}
	b.seen.WriteString(text.String())
	return text.String()
}

// login sends the code.
func (b *browser) login() {
	b.t.Helper()
	b.send(http.MethodPost, "login", url.Values{"code": {b.code}}, http.StatusOK)
}

// TestUI has a rollout that fails, and looks at it with the application centre. No answer has credentials in it.
func TestUI(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	app := newApp(t, u, "nginx:1")
	b := open(t, u)
	says(t, b.get("", http.StatusUnauthorized), "<form")
	b.login()
	says(t, b.get("", http.StatusOK), `id="app/`+u.namespace+`/web"`, "2/2", "Ready")
	plane.Change(t, app, func() { app.Spec.Image = badImage })
	plane.Until(t, app, func() error { return standing(app, "ImagePullBackOff") })
	says(t, b.get("?filter=imagepull", http.StatusOK), "web", "ImagePullBackOff")
	says(t, b.get("?filter=nothing-like-it", http.StatusOK), "No resource matches")
	says(t, b.get("app/"+u.namespace+"/web", http.StatusOK),
		"Deployment/web", "ImagePullBackOff", "root cause", badImage, "What to do", "What has happened", "rev 2", "image: "+badImage)
	says(t, b.get("app/"+u.namespace+"/none", http.StatusNotFound), "there is no App none")
	says(t, b.follow("events", "event: order"), "app/"+u.namespace+"/web", "ImagePullBackOff")
	says(t, b.follow("app/"+u.namespace+"/web/events", `"id":"spec"`), "root cause", badImage)
	credentials := []string{plane.Config.BearerToken, string(plane.Config.KeyData), string(plane.Config.CertData)}
	config, err := os.ReadFile(u.config)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(config), "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "token", "client-key-data", "client-certificate-data":
			credentials = append(credentials, value)
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
				credentials = append(credentials, string(plain))
			}
		}
	}
	checked := 0
	for _, credential := range credentials {
		if credential == "" {
			continue
		}
		checked++
		if strings.Contains(b.seen.String(), credential) {
			t.Error("an answer has credentials in it")
		}
	}
	if checked == 0 {
		t.Error("the kubeconfig has no credentials")
	}
}

// TestUIWithoutRights has a user without rights, who is told which right is missing.
func TestUIWithoutRights(t *testing.T) {
	t.Parallel()
	u := administrator(t)
	newApp(t, u, "nginx:1")
	b := open(t, as(t, plane.ProxyAs(t, account(t, u.namespace, "stranger", nil), nil).Config(), u.namespace))
	b.login()
	says(t, b.get("", http.StatusBadGateway), "you may not list")
}

// TestUIRights opens the pages and their streams as a user with exactly the rights that are documented, and then without each of them:
// what is missing is said.
func TestUIRights(t *testing.T) {
	t.Parallel()
	ns, _ := plane.Shared(t)
	who := account(t, ns, "user", rightsOf("ui"))
	prepare(t, fixture.NewApp(ns, "web"), "ui")
	newTask(t, ns, "report", "", "nginx:1")
	for _, right := range rightsOf("ui") {
		page := "app/" + ns + "/web"
		if right.Resource == "cronjobs" {
			page = "task/" + ns + "/report"
		}
		restarts := right.Resource == "deployments" && (right.Verb == "get" || right.Verb == "patch")
		if right.Resource == "statefulsets" || right.Resource == "persistentvolumeclaims" || right.Verb == "patch" && !restarts {
			continue // Of CloudManagers; see TestUIViewer.
		}
		mine := right.Group == appv1.GroupVersion.Group
		if mine && right.Resource != "apps" && right.Verb != "list" && right.Verb != "watch" {
			continue
		}
		b := open(t, as(t, plane.ProxyAs(t, who, withLogs(t, who, without(right))).Config(), ns))
		b.login()
		switch {
		case right.Resource == "pods/log":
			says(t, b.get(page+"/logs", http.StatusForbidden), "you may not get the log of pod web-")
		case restarts:
			says(t, b.get(page+"/restart", http.StatusForbidden), "you may not restart Deployment web in "+ns)
		case right.Verb == "get":
			says(t, b.get(page, http.StatusForbidden), "you may not get App web")
		case right.Verb == "watch" && mine:
			says(t, b.follow("events", "you may not watch them in "+ns), "Read every 10 seconds")
		case right.Verb == "watch":
			says(t, b.follow(page+"/events", "you may not watch them in "+ns), "Read every 10 seconds")
		case mine:
			says(t, b.get("", http.StatusOK), "you may not list them in "+ns)
			b.follow("events", "event: order") // A watch begins with the list.
		default:
			says(t, b.get(page, http.StatusOK), "you may not list them in "+ns)
			b.follow(page+"/events", "you may not list them in "+ns)
		}
	}
	x := plane.ProxyAs(t, who, withLogs(t, who, nil))
	b := open(t, as(t, x.Config(), ns))
	b.login()
	page := "app/" + ns + "/web"
	b.get("", http.StatusOK)
	says(t, b.get(page, http.StatusOK), page+"/logs")
	says(t, b.get(page+"/logs", http.StatusOK), "Pod web-", "a line of its log")
	b.get("task/"+ns+"/report", http.StatusOK)
	b.get(page+"/restart", http.StatusOK)
	b.follow("events", "event: order")
	b.follow(page+"/events", `"id":"spec"`)
	if strings.Contains(b.seen.String(), "you may not") {
		t.Errorf("with all rights, the pages are\n%s", &b.seen)
	}
	if f := x.Requests.Forbidden(); len(f) > 0 {
		t.Errorf("requests beyond the rights: %v", f)
	}
}

// hidden returns the value of a hidden field of a page.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, `name="`+name+`" value="`)
	value, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		t.Fatalf("there is no field %s in\n%s", name, page)
	}
	return value
}

// do opens the page of an action and presses its button, again if the resource has changed in between.
func (b *browser) do(path, value string) {
	b.t.Helper()
	harness.Eventually(b.t, func() error {
		page := b.get(path+"?value="+url.QueryEscape(value), http.StatusOK)
		switch status, text := b.press(page, path, value); status {
		case http.StatusOK: // By way of the page of the resource.
			return nil
		case http.StatusConflict:
			return errors.New("the resource has changed")
		default:
			b.t.Fatalf("status %d\n%s", status, text)
			return nil
		}
	})
}

// press presses the button of a page.
func (b *browser) press(page, path, value string) (status int, answer string) {
	b.t.Helper()
	form := url.Values{"token": {hidden(b.t, page, "token")}, "version": {hidden(b.t, page, "version")}, "value": {value}}
	return b.try(http.MethodPost, path, form)
}

// TestUIActions changes an App with the application centre: each page shows the plan, and its button does that, once.
func TestUIActions(t *testing.T) {
	t.Parallel()
	u := planner(t)
	app := newApp(t, u, "nginx:1")
	b := open(t, u)
	b.login()
	home := "app/" + u.namespace + "/web"
	says(t, b.get(home, http.StatusOK), home+"/pause", home+"/scale", home+"/hold")

	page := b.get(home+"/scale?value=3", http.StatusOK)
	says(t, page, "Deployment", "No pod restarts.", `<button class="first">Scale to 3</button>`)
	if plane.Read(t, app); *app.Spec.Replicas != 2 {
		t.Fatalf("the plan has scaled to %d pods", *app.Spec.Replicas)
	}
	b.do(home+"/scale", "3")
	if plane.Read(t, app); *app.Spec.Replicas != 3 {
		t.Errorf("there are %d pods", *app.Spec.Replicas)
	}
	if status, text := b.press(page, home+"/scale", "4"); status != http.StatusConflict || !strings.Contains(text, "has changed meanwhile") {
		t.Errorf("the button of a page that is out of date: %d\n%s", status, text)
	}
	if plane.Read(t, app); *app.Spec.Replicas != 3 {
		t.Errorf("there are %d pods", *app.Spec.Replicas)
	}
	says(t, u.run("wait", "web"), "3 of 3 ready")
	plane.Read(t, app)
	plane.Change(t, app, func() { app.Spec.Image = "nginx:2" })
	says(t, u.run("wait", "web"), "3 of 3 ready")
	says(t, b.get(home, http.StatusOK), home+"/rollback?value=1", "Roll back to revision 1")
	page = b.get(home+"/rollback?value=1", http.StatusOK)
	says(t, page, "image", "nginx:1", "3 pods restart")
	b.do(home+"/rollback", "1")
	if plane.Read(t, app); app.Spec.Image != "nginx:1" {
		t.Errorf("the image is %s", app.Spec.Image)
	}
	says(t, u.run("wait", "web"), "3 of 3 ready")

	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "web"}}
	plane.Read(t, d)
	generation := d.Generation
	says(t, b.get(home+"/restart", http.StatusOK), "Deployment web", "3 pods restart", `<button class="first">Restart</button>`)
	if plane.Read(t, d); d.Generation != generation {
		t.Error("the plan has restarted the pods")
	}
	b.do(home+"/restart", "")
	if plane.Read(t, d); d.Generation != generation+1 {
		t.Errorf("the Deployment was changed %d times", d.Generation-generation)
	}
	says(t, u.run("wait", "web"), "3 of 3 ready")

	b.do(home+"/pause", "")
	if plane.Read(t, app); !app.Spec.Paused {
		t.Error("the App is not paused")
	}
	b.do(home+"/resume", "")
	b.do(home+"/hold", appv1.HoldLastGood)
	if plane.Read(t, app); app.Spec.Paused || app.Annotations[appv1.AnnotationHold] != appv1.HoldLastGood {
		t.Errorf("paused is %t, the annotations are %v", app.Spec.Paused, app.Annotations)
	}
	b.do(home+"/unhold", "")
	if plane.Read(t, app); app.Annotations[appv1.AnnotationHold] != "" {
		t.Error("the App is held")
	}
	says(t, b.get(home+"/rollback?value=99", http.StatusBadGateway), "there is no revision 99")
}

// TestUIPlan asks for plans of resources in YAML: of a change, of a new one, of several, of what is not ours, and of what is wrong. The page
// begins with the text of a resource, and changes none.
func TestUIPlan(t *testing.T) {
	t.Parallel()
	u := planner(t)
	app := newApp(t, u, "nginx:1")
	b := open(t, u)
	b.login()
	page := b.get("plan?of=app/"+u.namespace+"/web", http.StatusOK)
	_, draft, _ := strings.Cut(page, "<textarea")
	_, draft, _ = strings.Cut(draft, ">")
	draft, _, _ = strings.Cut(draft, "</textarea>")
	draft = strings.TrimPrefix(html.UnescapeString(draft), "\n")
	says(t, draft, "kind: App", "name: web", "image: nginx:1")
	ask := func(text string, status int) string {
		return b.send(http.MethodPost, "plan", url.Values{"token": {hidden(t, page, "token")}, "text": {text}}, status)
	}
	says(t, ask(draft, http.StatusOK), "nothing changes", "No pod restarts.")
	second := "apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: second}\nspec: {image: 'nginx:1'}\n"
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"
	both := strings.ReplaceAll(draft, "nginx:1", "nginx:2") + "---\n" + second + "---\n" + config
	says(t, ask(both, http.StatusOK), "nginx:1 -&gt; nginx:2", "2 pods restart", "App "+u.namespace+"/second (new)", "Not planned: ConfigMap settings")
	for text, wrong := range map[string]string{
		"": "there is no App", config: "there is no App", "a: b: c": "the text: ", "kind: [": "the text: ",
		strings.ReplaceAll(second, "image", "imgae"):  "spec.imgae",
		strings.ReplaceAll(second, "second", "Wrong"): "metadata.name",
	} {
		status, page := b.try(http.MethodPost, "plan", url.Values{"token": {hidden(t, page, "token")}, "text": {text}})
		if status < 400 || status >= 500 || !strings.Contains(page, wrong) {
			t.Errorf("%q: %d, want %q\n%s", text, status, wrong, page)
		}
	}
	generation := app.Generation
	if plane.Read(t, app); app.Generation != generation {
		t.Errorf("the App was changed: %+v", app.Spec)
	}
	if code, _, said := u.try("tree", "second"); code != 1 || !strings.Contains(said, "there is no App second") {
		t.Errorf("%d: %s", code, said)
	}
}

// rightsOf returns the rights that a command needs, and those that it shows more with.
func rightsOf(command string) []plugin.Right {
	for _, n := range plugin.CommandNeeds() {
		if n.Command == command {
			return n.Rights
		}
	}
	return nil
}

// TestUIViewer has a user without the right to write: the buttons are there and cannot be pressed, and a form that is sent by hand is refused.
func TestUIViewer(t *testing.T) {
	t.Parallel()
	u := planner(t)
	app := newApp(t, u, "nginx:1")
	viewer := account(t, u.namespace, "viewer", rightsOf("why"))
	b := open(t, as(t, plane.ProxyAs(t, viewer, nil).Config(), u.namespace))
	b.login()
	home := "app/" + u.namespace + "/web"
	page := b.get(home, http.StatusOK)
	says(t, page, `id="not-allowed" class="reasons">you may not patch apps.app.huolala.cn in `+u.namespace,
		`<button disabled aria-describedby="not-allowed">Pause</button>`)
	if strings.Contains(page, home+"/pause") {
		t.Error("the page leads to an action that the user may not do")
	}
	says(t, b.get(home+"/pause", http.StatusForbidden), "you may not patch")
	form := url.Values{"token": {hidden(t, page, "token")}, "version": {app.ResourceVersion}}
	plane.Read(t, app)
	form.Set("version", app.ResourceVersion)
	says(t, b.send(http.MethodPost, home+"/pause", form, http.StatusForbidden), "Nothing was done", "you may not patch")
	if plane.Read(t, app); app.Spec.Paused {
		t.Error("the App is paused")
	}
}
