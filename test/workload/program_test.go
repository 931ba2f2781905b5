package workload

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/test/harness"
)

// build builds the manager's program, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "manager")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // As in the image.
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// program is the manager as a process of its own, with the rights of its ServiceAccount.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{}
	// probes is where the health probes are served.
	probes string
	log    log
}

// log is what a process has written so far.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// launch starts the manager's program for some namespaces, separated by commas; empty means all. It returns once the
// program is ready. Should the test fail, it shows the log.
func launch(t testing.TB, namespaces string, flags ...string) *program {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{ended: make(chan struct{}), probes: freeAddress(t)}
	p.cmd = exec.Command(path, append([]string{"--health-probe-bind-address=" + p.probes}, flags...)...)
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+writeKubeconfig(t, plane.Config, harness.ManagerUser),
		"WATCH_NAMESPACE="+namespaces, "ENABLE_WEBHOOKS=false")
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // The exit code is in the process state.
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It fails for one that has ended.
		<-p.ended
		if t.Failed() {
			t.Logf("the log of the manager:\n%s", &p.log)
		}
	})
	harness.Eventually(t, func() error {
		code, body, err := get("http://"+p.probes+"/readyz", "")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("readyz: %d %s (%w)", code, body, err)
		}
		return nil
	})
	return p
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// get asks for a page. The certificate is of the manager's own making, so it is not checked.
func get(url, token string) (code int, body string, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// stop asks the program to end, and returns how long that took. It must end well.
func (p *program) stop(t testing.TB) time.Duration {
	t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(harness.Patience):
		t.Fatalf("the program did not end within %s of SIGTERM", harness.Patience)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	return time.Since(began)
}

// TestProgramOfAllNamespaces runs the manager with its defaults. It is not parallel: its manager would meddle with the
// other tests' Apps.
func TestProgramOfAllNamespaces(t *testing.T) {
	p := launch(t, "")
	for range 2 {
		app := newApp(plane.Namespace(t))
		plane.Create(t, app)
		ready(t, app)
	}
	if code, body, err := get("http://"+p.probes+"/healthz", ""); err != nil || code != http.StatusOK {
		t.Errorf("healthz: %d %s (%v)", code, body, err)
	}
	t.Logf("it ended %s after SIGTERM", p.stop(t))
	// The tests below show that the log would tell.
	for _, line := range []string{`"pprof"`, "metrics server"} {
		if strings.Contains(p.log.String(), line) {
			t.Errorf("the log of a manager without flags speaks of %s", line)
		}
	}
}

// TestProgramOfSomeNamespaces runs the manager for two of three namespaces.
func TestProgramOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	other, first, second := newApp(plane.Namespace(t)), newApp(plane.Namespace(t)), newApp(plane.Namespace(t))
	plane.Create(t, other, first, second)
	profiles := freeAddress(t)
	p := launch(t, first.Namespace+", "+second.Namespace, "--pprof-bind-address="+profiles)
	ready(t, first)
	ready(t, second)
	if read(t, other); len(other.Status.Conditions) > 0 {
		t.Errorf("an App outside of WATCH_NAMESPACE has a status: %+v", other.Status)
	}
	if code, _, err := get("http://"+profiles+"/debug/pprof/", ""); err != nil || code != http.StatusOK {
		t.Errorf("profiles: %d (%v)", code, err)
	}
	if !strings.Contains(p.log.String(), `"pprof"`) {
		t.Error("the log does not speak of profiles")
	}
	p.stop(t)
}

// TestProgramMetrics asks for the metrics without a token, with one that is not allowed to, and with one that is.
func TestProgramMetrics(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	// The rules that a cluster has, with the names that they have there.
	newKubectl(t, harness.SystemNamespace).run("apply", "--server-side", "--force-conflicts", "-k", "config/local")
	plane.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "app-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "scraper"}},
	})
	scraper, stranger := newToken(t, ns, "scraper"), newToken(t, ns, "stranger")
	address := freeAddress(t)
	p := launch(t, ns, "--metrics-bind-address="+address)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)

	for name, ask := range map[string]struct {
		url, token string
		code       int
	}{
		"no token":          {"https://" + address + "/metrics", "", http.StatusUnauthorized},
		"a wrong token":     {"https://" + address + "/metrics", "wrong", http.StatusInternalServerError},
		"no right":          {"https://" + address + "/metrics", stranger, http.StatusForbidden},
		"profiles":          {"https://" + address + "/debug/pprof/", scraper, http.StatusNotFound},
		"without TLS":       {"http://" + address + "/metrics", scraper, http.StatusBadRequest},
		"profiles at probe": {"http://" + p.probes + "/debug/pprof/", "", http.StatusNotFound},
	} {
		// To who speaks no TLS, the server closes the connection before the whole answer is read.
		if code, body, err := get(ask.url, ask.token); code != ask.code || strings.Contains(body, "app_operator") {
			t.Errorf("%s: %d %s (%v), want %d", name, code, body, err, ask.code)
		}
	}
	harness.Eventually(t, func() error {
		code, body, err := get("https://"+address+"/metrics", scraper)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("metrics: %d %s (%w)", code, body, err)
		}
		for _, metric := range []string{
			`controller_runtime_reconcile_total{controller="app",result="success"}`,
			`app_operator_child_writes_total{action="Created",kind="Deployment"} 1`,
		} {
			if !strings.Contains(body, metric) {
				return fmt.Errorf("the metrics lack %s:\n%s", metric, body)
			}
		}
		return nil
	})
	if !strings.Contains(p.log.String(), "metrics server") {
		t.Error("the log does not speak of metrics")
	}
	p.stop(t)
}

// newToken makes a ServiceAccount and returns a token of it.
func newToken(t testing.TB, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	plane.Create(t, account)
	request := &authenticationv1.TokenRequest{}
	if err := plane.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// TestProgramElection runs two managers of which one works. If it is stopped it hands over at once; if it is killed, the
// other waits until the lease has run out. Both is measured.
func TestProgramElection(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	elect := []string{"--leader-elect", "--leader-election-namespace=" + harness.SystemNamespace}
	// A lease that is not given up runs longer than anything here is waited for.
	long := slices.Concat(elect, []string{"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m"})
	short := slices.Concat(elect, []string{
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"})
	app := newApp(ns)
	plane.Create(t, app)

	stopped := launch(t, ns, long...)
	holder := elected(t, "")
	ready(t, app)
	before := uids(t, ns)
	second := launch(t, ns, long...)
	began := time.Now()
	ended := stopped.stop(t)
	next := elected(t, holder)
	handover := time.Since(began)
	worked := works(t, app, began)
	t.Logf("the leader ended %s after SIGTERM, the other had the lease after %s and had worked after %s", ended, handover, worked)

	second.stop(t)
	killed := launch(t, ns, short...)
	holder = elected(t, next)
	third := launch(t, ns, short...)
	began = time.Now()
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	elected(t, holder)
	handover = time.Since(began)
	t.Logf("after SIGKILL the other had the lease of 3 s after %s and had worked after %s", handover, works(t, app, began))
	if handover < time.Second {
		t.Errorf("the lease of a killed leader was taken after %s, before it ran out", handover)
	}
	third.stop(t)
	if n := shared(before, uids(t, ns)); n != len(before) {
		t.Errorf("%d of %d pods are left", n, len(before))
	}
}

// elected waits until somebody other than before holds the lease, and returns who.
func elected(t testing.TB, before string) string {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: "app-operator.huolala.cn"}}
	var holder string
	harness.Eventually(t, func() error {
		if err := plane.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder = ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" || holder == before {
			return errors.New("nobody has taken over the lease")
		}
		return nil
	})
	return holder
}

// works scales the App up, and returns how long after began it is ready with one pod more.
func works(t testing.TB, app *appv1.App, began time.Time) time.Duration {
	t.Helper()
	n := *read(t, app).Spec.Replicas + 1
	plane.Change(t, app, func() { app.Spec.Replicas = ptr.To(n) })
	readyPods(t, app, int(n))
	return time.Since(began)
}
