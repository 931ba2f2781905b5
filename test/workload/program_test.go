package workload

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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
var build = sync.OnceValues(func() (string, error) { return harness.BuildManager(scratch) })

// launch starts the manager's program with the rights of its ServiceAccount, for some namespaces, separated by commas; empty
// means all. It returns once the program is ready.
func launch(t testing.TB, namespaces string, flags ...string) *harness.Process {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := harness.Spawn(t, path, plane.ManagerConfig(), namespaces, flags...)
	p.Ready(t)
	return p
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
	resp, err := (&http.Client{Transport: transport, Timeout: harness.Patience}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// stop asks the program to end, and returns how long that took. It must end well.
func stop(t testing.TB, p *harness.Process) time.Duration {
	t.Helper()
	began := time.Now()
	p.Signal(t, syscall.SIGTERM)
	select {
	case <-p.Ended():
	case <-time.After(harness.Patience):
		t.Fatalf("the program did not end within %s of SIGTERM", harness.Patience)
	}
	if code := p.ExitCode(); code != 0 {
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
	if code, body, err := get("http://"+p.Probes+"/healthz", ""); err != nil || code != http.StatusOK {
		t.Errorf("healthz: %d %s (%v)", code, body, err)
	}
	t.Logf("it ended %s after SIGTERM", stop(t, p))
	// The tests below show that the log would tell.
	for _, line := range []string{`"pprof"`, `"name":"metrics"`} {
		if strings.Contains(p.Output.String(), line) {
			t.Errorf("the log of a manager without flags speaks of %s", line)
		}
	}
}

// TestProgramOfSomeNamespaces runs the manager for two of three namespaces.
func TestProgramOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	other, first, second := newApp(plane.Namespace(t)), newApp(plane.Namespace(t)), newApp(plane.Namespace(t))
	plane.Create(t, other, first, second)
	profiles := harness.FreeAddress(t)
	p := launch(t, first.Namespace+", "+second.Namespace, "--pprof-bind-address="+profiles)
	ready(t, first)
	ready(t, second)
	if read(t, other); len(other.Status.Conditions) > 0 {
		t.Errorf("an App outside of WATCH_NAMESPACE has a status: %+v", other.Status)
	}
	if code, _, err := get("http://"+profiles+"/debug/pprof/", ""); err != nil || code != http.StatusOK {
		t.Errorf("profiles: %d (%v)", code, err)
	}
	if !strings.Contains(p.Output.String(), `"pprof"`) {
		t.Error("the log does not speak of profiles")
	}
	stop(t, p)
}

// rulesOfClusters returns a folder with the roles and bindings that a cluster has, with the names that they have there.
func rulesOfClusters(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	rules, err := filepath.Rel(folder, filepath.Join(harness.Root(), "config", "rbac"))
	if err != nil {
		t.Fatal(err)
	}
	text := "namespace: " + harness.SystemNamespace + "\nnamePrefix: app-operator-\nresources: [" + rules + "]\n"
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestProgramMetrics asks for the metrics without a token, with one that is not allowed to, and with one that is.
func TestProgramMetrics(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	newKubectl(t, harness.SystemNamespace).run("apply", "--server-side", "--force-conflicts", "-k", rulesOfClusters(t))
	plane.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "app-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "scraper"}},
	})
	scraper, stranger := newToken(t, ns, "scraper"), newToken(t, ns, "stranger")
	address := harness.FreeAddress(t)
	p := launch(t, ns, "--metrics-bind-address="+address)
	app := newApp(ns)
	plane.Create(t, app)
	ready(t, app)
	harness.Eventually(t, func() error { // The server makes its certificate first.
		_, _, err := get("https://"+address+"/metrics", scraper)
		return err
	})

	for name, ask := range map[string]struct {
		url, token string
		code       int
	}{
		"no token":          {"https://" + address + "/metrics", "", http.StatusUnauthorized},
		"a wrong token":     {"https://" + address + "/metrics", "wrong", http.StatusInternalServerError},
		"no right":          {"https://" + address + "/metrics", stranger, http.StatusForbidden},
		"profiles":          {"https://" + address + "/debug/pprof/", scraper, http.StatusNotFound},
		"without TLS":       {"http://" + address + "/metrics", scraper, http.StatusBadRequest},
		"profiles at probe": {"http://" + p.Probes + "/debug/pprof/", "", http.StatusNotFound},
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
	if !strings.Contains(p.Output.String(), `"name":"metrics"`) {
		t.Error("the log does not speak of metrics")
	}
	stop(t, p)
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

// TestProgramElection runs two managers; one works. If it is stopped it hands over at once; if it is killed, the
// other waits until the lease has run out. Both is measured.
func TestProgramElection(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	elect := []string{"--leader-elect", "--leader-election-namespace=" + harness.SystemNamespace}
	// A lease that is not given up runs longer than anything here is waited for.
	long := slices.Concat(elect, []string{"--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m"})
	// The durations of a release: a leader that gets no processor for the renew deadline, ten seconds, ends by itself.
	const lease, renewDeadline = 15 * time.Second, 10 * time.Second
	app := newApp(ns)
	plane.Create(t, app)

	stopped := launch(t, ns, long...)
	holder := elected(t, "")
	ready(t, app)
	before := uids(t, ns)
	second := launch(t, ns, long...)
	began := time.Now()
	ended := stop(t, stopped)
	next := elected(t, holder)
	handover := time.Since(began)
	worked := works(t, app, began)
	t.Logf("the leader ended %s after SIGTERM, the other had the lease after %s and had worked after %s", ended, handover, worked)

	stop(t, second)
	killed := launch(t, ns, elect...)
	holder = elected(t, next)
	third := launch(t, ns, elect...)
	began = time.Now()
	killed.Signal(t, syscall.SIGKILL)
	elected(t, holder)
	handover = time.Since(began)
	t.Logf("after SIGKILL the other had the lease of %s after %s and had worked after %s", lease, handover, works(t, app, began))
	if handover < lease-renewDeadline {
		t.Errorf("the lease of a killed leader was taken after %s, before it ran out", handover)
	}
	stop(t, third)
	if n := shared(before, uids(t, ns)); n != len(before) {
		t.Errorf("%d of %d pods are left", n, len(before))
	}
}

// elected waits until a user other than before holds the lease, and returns who.
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
