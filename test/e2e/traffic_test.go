//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/test/harness"
)

// shop is the namespace of the samples.
const shop = "e2e-shop"

// resources are the samples.
var resources = []string{
	"app.app.huolala.cn/nginx-app", "modelbox.app.huolala.cn/modelbox-sample",
	"cloudmanager.app.huolala.cn/cloudmanager-sample", "uniteddeployment.app.huolala.cn/example-united-deployment",
}

// client asks the sample nginx without a pause, each time by a new connection, and counts.
const client = `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: client
    image: busybox:1.32.1
    command:
    - sh
    - -c
    - |
      good=0 bad=0
      while true; do
        if wget -q -O - http://nginx-app:8080/ | grep -q 'Welcome to nginx!'; then good=$((good + 1)); else bad=$((bad + 1)); fi
        echo $good $bad
        sleep 0.05
      done
`

// samples applies the samples to a namespace of their own, and waits until they are Ready. The database is that of
// the sample but for its password, which the operator makes, and its storage class, which not every cluster has.
func samples(t *testing.T) {
	t.Helper()
	namespace(t, shop)
	for _, file := range []string{"app_v1_app", "app_v1_modelbox", "app_v1_cloudmanager", "app_v1_uniteddeployment", "example-deployment"} {
		var obj unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(replaced(t, "config/samples/"+file+".yaml")), &obj.Object); err != nil {
			t.Fatal(err)
		}
		obj.SetNamespace(shop)
		unstructured.RemoveNestedField(obj.Object, "spec", "db", "rootPass")
		unstructured.RemoveNestedField(obj.Object, "spec", "db", "statefulSet", "storage", "class")
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, string(text))
	}
	ready(t, shop, resources...)
	becomes(t, "2", "get", "deployment", "-n", shop, "example-deployment", "-o", "jsonpath={.status.readyReplicas}")
}

// ready waits until resources are Ready.
func ready(t testing.TB, ns string, names ...string) {
	t.Helper()
	for _, name := range names {
		kubectl(t, "wait", "-n", ns, name, "--for=condition=Ready", "--timeout="+patience.String())
	}
}

// answers checks that the samples do what they are for.
func answers(t *testing.T) {
	t.Helper()
	address := kubectl(t, "get", "service", "-n", shop, "nginx-app", "-o", "jsonpath={.spec.clusterIP}") + ":8080"
	node := kubectl(t, "get", "pod", "-n", shop, "client", "-o", "jsonpath={.status.hostIP}") + ":30010"
	for _, at := range []string{address, node} {
		eventually(t, func(ctx context.Context) error {
			page, err := execute(ctx, "", "kubectl", "exec", "-n", shop, "client", "--", "wget", "-q", "-O", "-", "http://"+at+"/")
			if err == nil && !strings.Contains(page, "Welcome to nginx!") {
				err = fmt.Errorf("%s answers %q", at, page)
			}
			return err
		})
		t.Logf(`%s answers "Welcome to nginx!"`, at)
	}
	data := kubectl(t, "get", "secret", "-n", shop, "cm-dbauth", "-o", "jsonpath={.data.password}")
	password, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(password) < 16 {
		t.Fatalf("a password of %d bytes was made (%v)", len(password), err)
	}
	eventually(t, func(ctx context.Context) error { return login(ctx, string(password)) })
	if err := login(t.Context(), "wrong"); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("a login with a wrong password: %v", err)
	}
	t.Log("the database takes the password that was made, and no other")
}

// login asks the database something. The password goes by standard input, as arguments can be read by others.
func login(ctx context.Context, password string) error {
	const script = `IFS= read -r MYSQL_PWD; export MYSQL_PWD
		exec "$(command -v mariadb || command -v mysql)" -h 127.0.0.1 -u root -e 'select 1'`
	_, err := execute(ctx, password+"\n", "kubectl", "exec", "-i", "-n", shop, "cm-db-0", "--", "sh", "-c", script)
	return err
}

// pods names all pods of the shop, with what changes if one is recreated or its containers start again.
func pods(t testing.TB) []string {
	t.Helper()
	out := kubectl(t, "get", "pods", "-n", shop, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{"\n"}{end}`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	return lines
}

// requests are those that the client had an answer for, and those that it had none for.
func requests(ctx context.Context) (good, bad int, err error) {
	line, err := execute(ctx, "", "kubectl", "logs", "-n", shop, "client", "--tail=1")
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(line, &good, &bad)
	return good, bad, err
}

// asked waits until the client has got a number of answers more than it had.
func asked(t testing.TB, had, more int) (good, bad int) {
	t.Helper()
	eventually(t, func(ctx context.Context) (err error) {
		good, bad, err = requests(ctx)
		if err == nil && good < had+more {
			err = fmt.Errorf("the client has had %d answers, %d before", good, had)
		}
		return err
	})
	return good, bad
}

// startClient starts the client, and waits for its first answers.
func startClient(t testing.TB) {
	t.Helper()
	apply(t, client, "-n", shop)
	asked(t, 0, 10)
}

// unnoticed runs an upgrade to a release with a newer rendering, and checks that the applications did not notice it.
func unnoticed(t *testing.T, upgrade func()) {
	t.Helper()
	before := pods(t)
	had, failed := asked(t, 0, 10)
	upgrade()
	// By this the new version says that it has looked at each.
	latest := fmt.Sprint(harness.NextRendering)
	for _, name := range resources[:2] {
		becomes(t, latest, "get", "-n", shop, name, "-o", "jsonpath={.status.latestRendering}")
	}
	becomes(t, strings.Join([]string{latest, latest, latest}, " "), "get", "-n", shop, resources[2], "-o",
		"jsonpath={.status.db.latestRendering} {.status.identity.latestRendering} {.status.front.latestRendering}")
	ready(t, shop, resources...)
	good, bad := asked(t, had, 20)
	if after := pods(t); !slices.Equal(before, after) {
		t.Errorf("the upgrade changed pods:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if bad > failed {
		t.Errorf("%d of %d requests to the sample nginx failed during the upgrade", bad-failed, good-had+bad-failed)
	}
	t.Logf("through the upgrade: %d requests to the sample nginx, %d failed; %d pods, each the same and none restarted",
		good-had+bad-failed, bad-failed, len(before))
}

// renders checks that a change of the spec takes the newer rendering, and that it was that which was waited with.
func renders(t *testing.T) {
	t.Helper()
	const app = "app.app.huolala.cn/nginx-app"
	before := templateWithoutEnv(t, "nginx-app")
	var old []string
	for _, line := range pods(t) {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "nginx-app-") {
			old = append(old, "pod/"+name)
		}
	}
	kubectl(t, "patch", "-n", shop, app, "--type=json", "-p",
		`[{"op": "add", "path": "/spec/envs/-", "value": {"name": "AFTER", "value": "upgrade"}}]`)
	becomes(t, fmt.Sprint(harness.NextRendering)+"/", "get", "-n", shop, app, "-o", "jsonpath={.status.rendering}/{.status.latestRendering}")
	kubectl(t, "rollout", "status", "-n", shop, "deployment/nginx-app", "--timeout="+patience.String())
	// The old ones take a while to end, and who counts pods next must not count them.
	becomes(t, "", append([]string{"get", "-n", shop, "--ignore-not-found", "-o", "name"}, old...)...)
	if after := templateWithoutEnv(t, "nginx-app"); after == before {
		t.Errorf("the renderings do not differ: the pods of nginx-app are, in both, %s", after)
	}
}

// templateWithoutEnv is the spec of a Deployment's pods as JSON, but for the variables of their first container.
func templateWithoutEnv(t testing.TB, deployment string) string {
	t.Helper()
	var d appsv1.Deployment
	if err := json.Unmarshal([]byte(kubectl(t, "get", "deployment", "-n", shop, deployment, "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Env = nil
	text, err := json.Marshal(d.Spec.Template.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
