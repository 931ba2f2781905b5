//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// app is the App of the samples.
const app = "app.app.huolala.cn/nginx-app"

// features runs what an installed operator does for its users, as far as only real pods prove it.
func features(t *testing.T) {
	_, latest := versions(t)
	undeploy(t, "COMPONENTS=viewer")
	deploy(t, latest)
	command(t, "go", "build", "-buildvcs=false", "-o", plugin, "./cmd/kubectl-happ")
	for _, feature := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"canary", releaseCanaries}, {"command", migrateDatabase}, {"task", runTasks}, {"run", runCommands}, {"waves", rollOutDefaults},
		{"viewer", viewList},
	} {
		t.Run(feature.name, func(t *testing.T) {
			namespace(t, shop)
			feature.run(t)
		})
	}
}

// plugin is the plug-in of kubectl, which the part features builds.
var plugin = filepath.Join(work, "kubectl-happ")

// happ runs a command of the plug-in that has to succeed.
func happ(t testing.TB, args ...string) string {
	t.Helper()
	return command(t, plugin, append([]string{"-n", shop}, args...)...)
}

// applySample applies the sample of an App with further fields, and waits until it is Ready.
func applySample(t testing.TB, fields string) {
	t.Helper()
	apply(t, replaced(t, "config/samples/app_v1_app.yaml", "namespace: default", "namespace: "+shop, "spec:\n", "spec:\n"+fields))
	ready(t, shop, app)
}

// graceful lets the requests of a pod end before it stops: the proxies of the nodes take a moment to see that it is about to.
const graceful = "  lifecycle: {preStop: {sleep: {seconds: 5}}}\n"

// setImage changes the image of the sample.
func setImage(t testing.TB, image string) {
	t.Helper()
	kubectl(t, "patch", "-n", shop, app, "--type=merge", "-p", fmt.Sprintf(`{"spec": {"image": %q}}`, image))
}

// releaseCanaries promotes a canary and aborts another while a client sends requests, and checks that each request is answered.
func releaseCanaries(t *testing.T) {
	applySample(t, "  canary: {pods: 1}\n"+graceful)
	startClient(t)
	before := pods(t)
	had, failed := asked(t, 0, 10)
	first := runCanary(t, "nginx:1.17.0", before)
	happ(t, "promote", "nginx-app", "--yes", "--wait")
	promoted := endCanary(t)
	for _, pod := range before {
		if name, _, _ := strings.Cut(pod, " "); name != "client" && strings.Contains(strings.Join(promoted, "\n"), name) {
			t.Errorf("%s is of before the promotion", name)
		}
	}
	becomes(t, "nginx:1.17.0 nginx:1.17.0", "get", "pods", "-n", shop, "-l", "app.huolala.cn/app=nginx-app", "-o", "jsonpath={.items[*].spec.containers[0].image}")
	second := runCanary(t, "nginx:1.20", promoted)
	happ(t, "abort", "nginx-app", "--yes")
	becomes(t, "RolledBack", "get", "-n", shop, app, "-o", `jsonpath={.status.conditions[?(@.type=="Applied")].reason}`)
	if aborted := endCanary(t); strings.Join(aborted, "\n") != strings.Join(promoted, "\n") {
		t.Errorf("the abort changed pods:\n%s\nbefore:\n%s", strings.Join(aborted, "\n"), strings.Join(promoted, "\n"))
	}
	now, _ := asked(t, 0, 10)
	good, bad := asked(t, now, 50)
	if bad > failed {
		t.Errorf("%d of %d requests failed", bad-failed, good-had+bad-failed)
	}
	t.Logf("a canary promoted, another aborted: %d requests, %d failed; the canaries answered %d and %d of them", good-had+bad-failed, bad-failed, first, second)
}

// runCanary changes the image, waits until the canary has answered requests, next to the pods of before, and returns how many.
func runCanary(t *testing.T, image string, before []string) (answered int) {
	t.Helper()
	setImage(t, image)
	becomes(t, image+" 1", "get", "-n", shop, app, "-o", "jsonpath={.status.canary.image} {.status.canary.ready}")
	kubectl(t, "wait", "-n", shop, app, "--for=condition=CanaryReady", "--timeout="+patience.String())
	had, _ := asked(t, 0, 10)
	asked(t, had, 100)
	if now := strings.Join(pods(t), "\n"); !containsAll(now, before) {
		t.Errorf("with a canary, the pods are\n%s\nbefore:\n%s", now, strings.Join(before, "\n"))
	}
	log := kubectl(t, "logs", "-n", shop, "-l", "app.huolala.cn/canary=nginx-app", "--tail=-1")
	if answered = strings.Count(log, `"GET / HTTP`); answered == 0 {
		t.Errorf("the canary has answered no request: %s", tail(log))
	}
	return answered
}

// containsAll reports whether a text contains all of some lines.
func containsAll(text string, lines []string) bool {
	for _, line := range lines {
		if !strings.Contains(text, line) {
			return false
		}
	}
	return true
}

// endCanary waits until no canary runs and no pod is about to stop, and returns the pods.
func endCanary(t *testing.T) []string {
	t.Helper()
	becomes(t, "", "get", "deployments,pods", "-n", shop, "-l", "app.huolala.cn/canary", "--ignore-not-found", "-o", "name")
	eventually(t, func(ctx context.Context) error {
		stopping, err := execute(ctx, "", "kubectl", "get", "pods", "-n", shop, "-o", "jsonpath={.items[*].metadata.deletionTimestamp}")
		if err == nil && stopping != "" {
			err = errors.New("pods are about to stop")
		}
		return err
	})
	return pods(t)
}

// migrating is an App whose rollouts wait for a command in the database of the sample. The command has the password by reference.
const migrating = `
apiVersion: app.huolala.cn/v1
kind: App
metadata: {name: web}
spec:
  image: mariadb:10.3
  command: [sh, -c, "trap 'exit 0' TERM; sleep 86400 & wait"]
  envs:
  - {name: VERSION, value: 'VERSION-OF-IT'}
  - {name: MYSQL_PWD, valueFrom: {secretKeyRef: {name: cm-dbauth, key: password}}}
  beforeRollout:
    command: [mariadb, --host=cm-db, --user=root, -e, "STATEMENT"]
    deadlineSeconds: 120
`

// migrateDatabase rolls out versions whose commands change the database of a CloudManager: a command that fails leaves the pods as they are.
func migrateDatabase(t *testing.T) {
	const web = "app.app.huolala.cn/web"
	apply(t, replaced(t, "config/samples/app_v1_cloudmanager.yaml", "class: local-path, ", "", "    rootPass: '123456'\n", ""), "-n", shop)
	ready(t, shop, resources[2])
	release := func(version, statement string) {
		t.Helper()
		apply(t, strings.NewReplacer("VERSION-OF-IT", version, "STATEMENT", statement).Replace(migrating), "-n", shop)
	}
	podsOf := func() string {
		return kubectl(t, "get", "pods", "-n", shop, "-l", "app.huolala.cn/app=web", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	release("1", "create database if not exists shop; create table if not exists shop.orders (id int primary key)")
	ready(t, shop, web)
	before := podsOf()

	release("2", "insert into shop.nowhere values (1)")
	becomes(t, "BeforeRolloutFailed", "get", "-n", shop, web, "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`)
	if after := podsOf(); after != before || before == "" {
		t.Errorf("after a command that failed, the pods are %s, before %s", after, before)
	}
	const words = "Table 'shop.nowhere' doesn't exist"
	if log := happ(t, "logs", "web"); !strings.Contains(log, words) {
		t.Errorf("the log of the command is %s", log)
	}
	if status := kubectl(t, "get", "-n", shop, web, "-o", "jsonpath={.status}"); strings.Contains(status, words) {
		t.Errorf("the status repeats the output: %s", status)
	}

	release("3", "alter table shop.orders add column if not exists note text")
	ready(t, shop, web)
	if after := podsOf(); after == before {
		t.Error("the command has succeeded, and the pods are those of before")
	}
	columns := kubectl(t, "exec", "-n", shop, "deployment/web", "--", "mariadb", "--host=cm-db", "--user=root", "-N", "-e", "show columns from shop.orders")
	if !strings.Contains(columns, "id\t") || !strings.Contains(columns, "note\t") {
		t.Errorf("the columns are %s", columns)
	}
	t.Logf("of three commands before rollouts one failed, and no pod changed: the columns are %q", columns)
}

// report is a Task of the sample, whose command is to be given.
const report = `
apiVersion: app.huolala.cn/v1
kind: Task
metadata: {name: NAME}
spec: {app: nginx-app, command: [sh, -c, 'COMMAND'], schedule: 'SCHEDULE'}
`

// runTasks runs Tasks on their schedule and by hand, with the variables of their App.
func runTasks(t *testing.T) {
	applySample(t, "")
	task := func(name, schedule, do string) {
		apply(t, strings.NewReplacer("NAME", name, "SCHEDULE", schedule, "COMMAND", do).Replace(report), "-n", shop)
		becomes(t, "nginx:1.16.1", "get", "-n", shop, "task/"+name, "-o", "jsonpath={.status.image}")
	}
	result := func(name, want string) {
		t.Helper()
		becomes(t, want, "get", "-n", shop, "task/"+name, "-o", `jsonpath={.status.lastRun.result} {.status.conditions[?(@.type=="Ready")].reason}`)
	}
	task("minutely", "* * * * *", "echo due")
	task("report", "0 5 1 1 *", "echo report of $DEMO")
	kubectl(t, "create", "job", "report-now", "--from=cronjob/report", "-n", shop)
	result("report", "Succeeded Succeeded")
	if log := happ(t, "logs", "task/report"); !strings.Contains(log, "report of app") {
		t.Errorf("the run has written %q", log)
	}
	task("broken", "0 5 1 1 *", "exit 3")
	kubectl(t, "create", "job", "broken-now", "--from=cronjob/broken", "-n", shop)
	result("broken", "Failed RunFailed")
	if why := happ(t, "why", "task/broken"); !strings.Contains(why, "exit code 3") {
		t.Errorf("why a run has failed: %s", why)
	}
	result("minutely", "Succeeded Succeeded")
	t.Log("a run by hand and one by schedule succeeded, and one failed, as their Tasks say")
}

// runCommands runs commands by the plug-in, with the standard input by way of the kubelet, and compares what they write, which is more than a
// line of a log can have.
func runCommands(t *testing.T) {
	applySample(t, "")
	var input strings.Builder
	for i := range 200 {
		fmt.Fprintf(&input, "%d %s\n", i, strings.Repeat("0123456789", 50*i))
	}
	input.WriteString("no end of a line")
	run := func(args ...string) (string, int) {
		t.Helper()
		out, err := execute(t.Context(), input.String(), plugin, append([]string{"-n", shop, "run", "nginx-app"}, args...)...)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit == nil {
			return out, 0
		}
		t.Logf("%s", tail(err.Error()))
		return out, exit.ExitCode()
	}
	if out, code := run("-i", "--", "cat"); code != 0 || out != input.String() {
		t.Errorf("of %d bytes of input %d came back, with status %d", input.Len(), len(out), code)
	}
	if out, code := run("--", "sh", "-c", "echo $DEMO; exit 7"); code != 7 || out != "app\n" {
		t.Errorf("the command has written %q, with status %d", out, code)
	}
	var jobs batchv1.JobList
	if err := json.Unmarshal([]byte(kubectl(t, "get", "jobs", "-n", shop, "-l", "app.huolala.cn/run=nginx-app", "-o", "json")), &jobs); err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != 2 {
		t.Errorf("%d Jobs stay, want 2", len(jobs.Items))
	}
	t.Logf("%d bytes of input came back by a command's output; another command ended with its own status", input.Len())
}
