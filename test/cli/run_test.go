package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	plugin "huolala.cn/app-operator/plugin/cli"
	"huolala.cn/app-operator/test/fixture"
	"huolala.cn/app-operator/test/harness"
)

// runner returns a user with the rights of a command of the plug-in, and the App web with an image.
func runner(t *testing.T, command, image string) (*user, *appv1.App) {
	t.Helper()
	ns, _ := plane.Shared(t)
	app := fixture.NewApp(ns, "web")
	app.Spec.Image = image
	plane.Create(t, app)
	plane.Stands(t, app, "Ready=True")
	for _, n := range plugin.CommandNeeds() {
		if n.Command == command {
			who := account(t, ns, "user", n.Rights)
			return as(t, plane.ProxyAs(t, who, withLogs(t, who, nil)).Config(), ns), app
		}
	}
	t.Fatalf("the rights of %s are not known", command)
	return nil, nil
}

// runs returns the Jobs of the App's runs.
func runs(t testing.TB, app *appv1.App) []batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := plane.Client.List(t.Context(), &list, client.InNamespace(app.Namespace), client.MatchingLabels{appv1.LabelRun: app.Name}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestRun runs commands with the controllers of Kubernetes: the output and the exit code are those of the command, and no Service finds its pod.
func TestRun(t *testing.T) {
	t.Parallel()
	u, app := runner(t, "run", "nginx:1")
	mine := &corev1.Service{ObjectMeta: fixture.Meta(app.Namespace, "mine")}
	mine.Spec.Selector, mine.Spec.Ports = map[string]string{"team": "red"}, []corev1.ServicePort{{Port: 80}}
	plane.Create(t, mine)
	plane.Change(t, app, func() { app.Spec.PodLabels, app.Spec.Image = map[string]string{"team": "red"}, "jobruns.test/web:1" })
	plane.Stands(t, app, "Ready=True")
	if code, out, said := u.try("run", "web", "--detach", "--", "sleep"); code != 0 || !strings.Contains(out, "is started. Follow it: kubectl logs -f job/web-run-") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	job := runs(t, app)[0]
	harness.Eventually(t, func() error { return runsNow(t, &job) })
	var slices discoveryv1.EndpointSliceList
	if err := plane.Client.List(t.Context(), &slices, client.InNamespace(app.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range slices.Items {
		for _, e := range slices.Items[i].Endpoints {
			if e.TargetRef != nil && strings.HasPrefix(e.TargetRef.Name, job.Name) {
				t.Errorf("Service %s leads to the pod of the Job", slices.Items[i].Labels[discoveryv1.LabelServiceName])
			}
		}
	}
	says(t, u.run("run", "web", "--detach", "--ttl", "5m", "--", "sleep"), "web-run-")

	plane.Change(t, app, func() { app.Spec.Image = "jobfails.test/web:1" })
	plane.Stands(t, app, "Ready=True")
	code, out, said := u.try("run", "web", "--", "date")
	if code != 1 || out != "a line of its log\n" || strings.Contains(said, "kubectl happ:") {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	if n := len(runs(t, app)); n != 3 {
		t.Errorf("%d Jobs", n)
	}
	code, out, said = u.try("run", "web", "--ttl", "0", "--", "date")
	if code != 1 || out != "a line of its log\n" || strings.Contains(said, "kubectl happ:") {
		t.Errorf("with --ttl 0: exit status %d\n%s%s", code, out, said)
	}
	harness.Eventually(t, func() error { return haveRuns(t, app, 3) })
}

// runsNow returns an error unless the pod of a Job runs.
func runsNow(t testing.TB, job *batchv1.Job) error {
	var pods corev1.PodList
	if err := plane.Client.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return err
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
		return fmt.Errorf("%d pods of Job %s", len(pods.Items), job.Name)
	}
	return nil
}

// haveRuns returns an error unless the App has a number of Jobs of runs.
func haveRuns(t testing.TB, app *appv1.App, want int) error {
	if n := len(runs(t, app)); n != want {
		return fmt.Errorf("%d Jobs, want %d", n, want)
	}
	return nil
}

// TestRunDoesNotStart has a quota without room, and an image that cannot be pulled: the plug-in says so, and deletes the Job.
func TestRunDoesNotStart(t *testing.T) {
	t.Parallel()
	u, app := runner(t, "run", "nginx:1")
	plane.Change(t, app, func() { app.Spec.Image = badImage })
	plane.Until(t, app, func() error { return standing(app, appv1.ReasonImagePullBackOff) })
	code, out, said := u.try("run", "web", "--grace", "0", "--", "date")
	if code != 1 || out != "" {
		t.Errorf("exit status %d\n%s", code, out)
	}
	says(t, said, "cannot be pulled", "Fix spec.image", "The Job is deleted")
	quota := &corev1.ResourceQuota{ObjectMeta: fixture.Meta(app.Namespace, "none")}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	plane.Create(t, quota)
	plane.Until(t, quota, func() error {
		if len(quota.Status.Hard) == 0 {
			return errNotYet
		}
		return nil
	})
	if code, _, said = u.try("run", "web", "--grace", "0", "--", "date"); code != 1 {
		t.Errorf("exit status %d", code)
	}
	says(t, said, "no pod can be created", "exceeded quota: none", "Ask for a larger quota", "The Job is deleted")
	harness.Eventually(t, func() error { return haveRuns(t, app, 0) })
}

// TestRunInterrupted ends the plug-in by each signal that means its end: the Job is deleted.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	// A program inherits the signals that its parent ignores, as below nohup or in the background of a script. A signal that its parent handles is not ignored.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(handled)
	u, app := runner(t, "run", "jobruns.test/web:1")
	for _, by := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cmd := exec.CommandContext(t.Context(), program, "--kubeconfig", u.config, "--namespace", u.namespace, "run", "web", "--", "sleep")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, func() error {
			made := runs(t, app)
			if len(made) == 0 {
				return errNotYet
			}
			return runsNow(t, &made[0])
		})
		if err := cmd.Process.Signal(by); err != nil {
			t.Fatal(err)
		}
		var exited *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exited) || exited.ExitCode() != 130 || !strings.HasSuffix(said.String(), " is deleted\n") {
			t.Errorf("%s: %v\n%s", by, err, said.String())
		}
		harness.Eventually(t, func() error { return haveRuns(t, app, 0) })
	}
}

// TestRunOutputBreaks runs a command whose output nobody reads: the Job is deleted.
func TestRunOutputBreaks(t *testing.T) {
	t.Parallel()
	u, app := runner(t, "run", "jobfails.test/web:1")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	cmd := exec.CommandContext(t.Context(), program, "--kubeconfig", u.config, "--namespace", u.namespace, "run", "web", "--", "date")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = writer, &said
	var exited *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exited) || exited.ExitCode() != 141 || !strings.HasSuffix(said.String(), " is deleted\n") {
		t.Errorf("%v\n%s", err, said.String())
	}
	_ = writer.Close()
	harness.Eventually(t, func() error { return haveRuns(t, app, 0) })
}

// TestRunInput has a user with and a user without the right to connect with pods. Simulated nodes have no connections: the Job is deleted in both cases.
func TestRunInput(t *testing.T) {
	t.Parallel()
	for command, lacks := range map[string]bool{"run": true, "run -i": false} {
		_, app := runner(t, command, "jobruns.test/web:1")
		u := as(t, plane.Config, app.Namespace) // The proxy of a runner passes on no connection.
		code, out, said := u.try("run", "web", "-i", "--as", "system:serviceaccount:"+app.Namespace+":user", "--", "cat")
		if code != 1 || strings.Contains(said, "you may not attach to the pod of Job web-run-") != lacks || !strings.Contains(said, "The Job is deleted") {
			t.Errorf("rights of %s: exit status %d\n%s%s", command, code, out, said)
		}
		harness.Eventually(t, func() error { return haveRuns(t, app, 0) })
	}
}
