//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// waved is how many Apps take changed defaults one after the other.
const waved = 5

// appDefaults are the AppDefaults of the shop, whose rollout has waves of one App.
const appDefaults = "apiVersion: app.huolala.cn/v1\nkind: AppDefaults\nmetadata: {name: default}\n" +
	"spec: {defaults: {podAnnotations: {round: %q}}, rollout: {type: Waves, size: 1, soak: 1s}}\n"

// rollOutDefaults changes the defaults of Apps: they take them one after the other, and at no time more than one is not ready for it.
func rollOutDefaults(t *testing.T) {
	const defaults = "appdefaults.app.huolala.cn/default"
	apply(t, fmt.Sprintf(appDefaults, "1"), "-n", shop)
	for i := range waved {
		apply(t, fmt.Sprintf("apiVersion: app.huolala.cn/v1\nkind: App\nmetadata: {name: wave-%d}\nspec: {image: 'nginx:1.16.1', ports: [{port: 80}]}\n", i), "-n", shop)
	}
	for i := range waved {
		ready(t, shop, fmt.Sprintf("app.app.huolala.cn/wave-%d", i))
	}
	const counts = "jsonpath={.status.current} {.status.pending}"
	becomes(t, fmt.Sprintf("%d ", waved), "get", "-n", shop, defaults, "-o", counts)
	seen := followDeployments(t)
	began := time.Now()
	apply(t, fmt.Sprintf(appDefaults, "2"), "-n", shop)
	becomes(t, strings.TrimSpace(strings.Repeat("2 ", waved)), "get", "deployments", "-n", shop, "-o", "jsonpath={.items[*].spec.template.metadata.annotations.round}")
	kubectl(t, "wait", "-n", shop, defaults, "--for=condition=RolledOut", "--timeout="+patience.String())
	took := time.Since(began)
	becomes(t, fmt.Sprintf("%d %d ", waved, waved), "get", "-n", shop, defaults, "-o", "jsonpath={.status.wave} {.status.current} {.status.pending}")
	states, most := seen()
	if most != 1 {
		t.Errorf("up to %d Apps were not ready at a time, want 1", most)
	}
	t.Logf("%d Apps took changed defaults in %.0fs, one after the other: in each of %d states, at most %d was not ready", waved, took.Seconds(), states, most)
}

// followDeployments follows the Deployments of the shop. The function that it returns ends that, and says how many states there were, and how
// many Deployments at most were under way in one of them.
func followDeployments(t *testing.T) func() (states, most int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "kubectl", "get", "deployments", "-n", shop, "--watch", "-o", "json")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (states, most int) {
		stop()
		_ = cmd.Wait()
		rolling := map[string]bool{}
		for stream := json.NewDecoder(&out); ; states++ {
			var d appsv1.Deployment
			if err := stream.Decode(&d); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return states, most
			} else if err != nil {
				t.Fatal(err)
			}
			s, want := d.Status, *d.Spec.Replicas
			if rolling[d.Name] = s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > want || s.AvailableReplicas < want; !rolling[d.Name] {
				delete(rolling, d.Name)
			}
			most = max(most, len(rolling))
		}
	}
}

// viewerHost is the name in the addresses of the viewer's pages.
const viewerHost = "apps.example.com"

// viewList has the viewer answer behind its proxy: the list for a reader with a password, and nothing for others.
func viewList(t *testing.T) {
	_, latest := versions(t)
	applySample(t, "")
	startClient(t)
	proxy := buildProxy(t, image(":"+latest))
	kubectl(t, "label", "namespace", shop, "viewer=enabled")
	kubectl(t, "create", "configmap", "app-operator-viewer", "-n", system, "--from-literal=hosts="+viewerHost)
	kubectl(t, "create", "secret", "generic", "app-operator-viewer-proxy", "-n", system, "--from-literal=OAUTH2_PROXY_PROVIDER=github",
		"--from-literal=OAUTH2_PROXY_CLIENT_ID=apps", "--from-literal=OAUTH2_PROXY_CLIENT_SECRET=e2e", "--from-literal=OAUTH2_PROXY_EMAIL_DOMAINS=example.com",
		"--from-literal=OAUTH2_PROXY_COOKIE_SECRET=0123456789abcdef", "--from-literal=OAUTH2_PROXY_HTPASSWD_FILE=/htpasswd",
		"--from-literal=OAUTH2_PROXY_REDIRECT_URL=https://"+viewerHost+"/oauth2/callback")
	command(t, "make", "deploy", "COMPONENTS=viewer", "IMG="+pinned(t, latest))
	t.Cleanup(func() {
		if t.Failed() {
			diagnose(t, system)
		}
	})
	kubectl(t, "set", "image", "-n", system, "deployment/app-operator-viewer", "proxy="+proxy)
	kubectl(t, "rollout", "status", "-n", system, "deployment/app-operator-viewer", "--timeout="+patience.String())
	ask := func(ctx context.Context, host, login string) (string, error) {
		return execute(ctx, "", "kubectl", "exec", "-n", shop, "client", "--", "wget", "-q", "-O", "-", "--header", "Host: "+host,
			"--header", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(login)), "http://app-operator-viewer."+system+"/")
	}
	var page string
	eventually(t, func(ctx context.Context) (err error) {
		page, err = ask(ctx, viewerHost, "reader:e2e")
		if err == nil && !strings.Contains(page, "nginx-app") {
			err = fmt.Errorf("the list is %s", tail(page))
		}
		return err
	})
	for _, refused := range []struct{ host, login string }{{viewerHost, "reader:wrong"}, {viewerHost, "stranger:e2e"}, {"evil.example.com", "reader:e2e"}} {
		if page, err := ask(t.Context(), refused.host, refused.login); err == nil || strings.Contains(page, "nginx-app") {
			t.Errorf("%s at %s is answered %s", refused.login, refused.host, tail(page))
		}
	}
	t.Logf("the viewer answers a list of %d bytes behind oauth2-proxy, and three others nothing", len(page))
}

// buildProxy builds and pushes the proxy that the component viewer names, from its source, with a user whose name is reader, and returns the image.
func buildProxy(t testing.TB, from string) string {
	t.Helper()
	version := regexp.MustCompile(`oauth2-proxy/oauth2-proxy:(v\S+)`).FindStringSubmatch(replaced(t, "config/components/viewer/deployment.yaml"))
	if version == nil {
		t.Fatal("the component viewer names no oauth2-proxy")
	}
	dir := filepath.Join(work, "proxy")
	password := sha1.Sum([]byte("e2e"))
	write(t, dir+"/htpasswd", "reader:{SHA}"+base64.StdEncoding.EncodeToString(password[:])+"\n")
	write(t, dir+"/Dockerfile", "FROM "+from+"\nCOPY oauth2-proxy htpasswd /\nENTRYPOINT [\"/oauth2-proxy\"]\n")
	folder, err := filepath.Abs(filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	command(t, "env", "CGO_ENABLED=0", "GOBIN="+folder, "go", "install", "github.com/oauth2-proxy/oauth2-proxy/v7@"+version[1])
	build := append([]string{"build"}, strings.Fields(os.Getenv("BUILD_FLAGS"))...)
	command(t, containerTool(), append(build, "-t", image("-proxy:"+version[1]), "-f", dir+"/Dockerfile", dir)...)
	command(t, "make", "docker-push", "IMG="+image("-proxy:"+version[1]))
	return image("-proxy@" + strings.TrimSpace(command(t, "bin/crane", "digest", image("-proxy:"+version[1]))))
}
