package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// The tests in this file run real clusters from the binary that build.sh makes, named by CLUSTER_BINARY.

const patience = 6 * time.Minute

// runningCluster is a `cluster up` that has printed its ready line.
type runningCluster struct {
	*exec.Cmd
	client     kubernetes.Interface
	host       string // address and port of its API server
	kubeconfig string
	stderr     *bytes.Buffer // complete when the command has ended
}

func clusterBinary(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("CLUSTER_BINARY")
	if binary == "" {
		t.Fatal("CLUSTER_BINARY is not set; it names the binary to test, as in: CLUSTER_BINARY=$(./build.sh)/cluster go test ./...")
	}
	return binary
}

// runtimeDir keeps the test's clusters apart from everybody else's. It is not t.TempDir because that is too long
// for sockets on some systems.
func runtimeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cluster-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// upCluster starts a cluster and waits until it is ready.
func upCluster(t *testing.T, dir string, args ...string) *runningCluster {
	t.Helper()
	return upClusterWith(t, dir, nil, args...)
}

// upClusterWith is upCluster with a standard input.
func upClusterWith(t *testing.T, dir string, input io.Reader, args ...string) *runningCluster {
	t.Helper()
	c := &runningCluster{Cmd: exec.Command(clusterBinary(t), append([]string{"up"}, args...)...), stderr: &bytes.Buffer{}}
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	c.Stdin, c.Stderr = input, c.stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%v (%v):\n%s", err, c.Wait(), c.stderr)
	}
	kubeconfig, found := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !found {
		t.Fatalf("standard output: %q", line)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig, c.host, c.client = kubeconfig, address.Host, kubernetes.NewForConfigOrDie(config)
	return c
}

// ends makes the cluster end and checks its exit code and that nothing of it is left, except for the files of
// one that is killed (exit code -1).
func (c *runningCluster) ends(t *testing.T, dir string, exitCode int, end func()) {
	t.Helper()
	children := c.children(t)
	end()
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != exitCode {
		t.Errorf("exit code %d instead of %d:\n%s", code, exitCode, c.stderr)
	}
	eventually(t, func() error {
		for name, pid := range children {
			if syscall.Kill(pid, 0) == nil {
				return fmt.Errorf("%s (%d) is still there", name, pid)
			}
		}
		return nil
	})
	if conn, err := net.Dial("tcp", c.host); err == nil {
		_ = conn.Close()
		t.Errorf("something still listens on %s", c.host)
	}
	if exitCode < 0 {
		return
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if _, err := os.Stat(c.kubeconfig); len(left) > 0 || err == nil {
		t.Errorf("left behind: %v, %s: %v", left, c.kubeconfig, err)
	}
}

// children returns the process ids of the components by their names.
func (c *runningCluster) children(t *testing.T) map[string]int {
	t.Helper()
	list, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == strconv.Itoa(c.Process.Pid) {
			found[fields[2]], _ = strconv.Atoi(fields[0])
		}
	}
	return found
}

func signalTo(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still, after %s: %v", patience, err)
		}
		time.Sleep(pollInterval)
	}
}

// clusterCommand runs another command of the binary and returns what it prints.
func clusterCommand(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(clusterBinary(t), args...)
	command.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestBareCluster(t *testing.T) {
	t.Parallel()
	dir, kubeconfig := runtimeDir(t), filepath.Join(t.TempDir(), "kubeconfig")
	c := upCluster(t, dir, "--bare", "--name", "bare", "--kubeconfig", kubeconfig)
	if c.kubeconfig != kubeconfig {
		t.Errorf("kubeconfig: %s", c.kubeconfig)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if output, err := clusterCommand(t, dir, "up", "--bare", "--name", "bare"); err == nil || !strings.Contains(output, "running already") {
		t.Errorf("a second one of the same name: %v\n%s", err, output)
	}
	other := upCluster(t, dir, "--bare", "--name", "other")
	signalTo(t, other.Process.Pid, syscall.SIGTERM)
	_ = other.Wait()
	if version, err := c.client.Discovery().ServerVersion(); err != nil || version.Major != "1" {
		t.Errorf("after another cluster's end: %v, %v", version, err)
	}
	c.ends(t, dir, 0, func() { signalTo(t, c.Process.Pid, syscall.SIGINT) })
}

// TestWatchesDoNotHoldUpTheEnd stops a cluster whose Pods are watched. What a watch holds up takes all of the grace each time; a busy machine
// can take as long, but then also without a watch.
func TestWatchesDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	var watched, unwatched []time.Duration
	for range 5 {
		if watched = append(watched, timeToStop(t, true)); watched[len(watched)-1] < stopGrace {
			return
		}
		unwatched = append(unwatched, timeToStop(t, false))
	}
	if slices.Min(unwatched) < stopGrace {
		t.Errorf("it took %s to stop, each time, and %s without a watch", watched, unwatched)
	}
}

// timeToStop returns how long a cluster takes to stop, whose Pods may be watched.
func timeToStop(t *testing.T, watched bool) time.Duration {
	t.Helper()
	dir := runtimeDir(t)
	c := upCluster(t, dir, "--bare")
	if watched {
		watch, err := c.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
	}
	began := time.Now()
	c.ends(t, dir, 0, func() { signalTo(t, c.Process.Pid, syscall.SIGINT) })
	return time.Since(began)
}

func TestFullCluster(t *testing.T) {
	t.Parallel()
	dir := runtimeDir(t)
	c := upCluster(t, dir, "--nodes", "2")
	if err := nodesReady(t.Context(), c.client, 2); err != nil {
		t.Error(err)
	}
	for name, check := range map[string]func(*corev1.Pod) error{
		"docker.io/library/nginx:1": func(pod *corev1.Pod) error {
			return expect(pod, corev1.PodRunning, true, "", "", 0)
		},
		"imagepullbackoff.test/web:1": func(pod *corev1.Pod) error {
			return expect(pod, corev1.PodPending, false, "ImagePullBackOff", "", 0)
		},
		"crashloopbackoff.test/web:1": func(pod *corev1.Pod) error {
			return expect(pod, corev1.PodRunning, false, "CrashLoopBackOff", "Error", 1)
		},
		"oomkilled.test/web:1": func(pod *corev1.Pod) error {
			return expect(pod, corev1.PodRunning, false, "CrashLoopBackOff", "OOMKilled", 137)
		},
	} {
		t.Run(name, func(t *testing.T) { deploymentLives(t, c.client, name, check) })
	}
	t.Run("claim", func(t *testing.T) { claimIsBoundAndGrows(t, c.client) })

	c.ends(t, dir, 0, func() {
		if output, err := clusterCommand(t, dir, "down"); err != nil || !strings.Contains(output, "stopped") {
			t.Errorf("down: %v\n%s", err, output)
		}
	})
}

// deploymentLives creates a Deployment of two replicas, waits until check accepts its pods, and deletes it.
func deploymentLives(t *testing.T, client kubernetes.Interface, image string, check func(*corev1.Pod) error) {
	ctx := t.Context()
	name, _, _ := strings.Cut(image, ".")
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init", Image: "busybox"}},
					Containers:     []corev1.Container{{Name: "main", Image: image}},
				},
			},
		},
	}
	if _, err := client.AppsV1().Deployments("default").Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := func() ([]corev1.Pod, error) {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
	eventually(t, func() error {
		found, err := pods()
		if err == nil && len(found) != 2 {
			err = fmt.Errorf("%d pods", len(found))
		}
		for i := 0; err == nil && i < len(found); i++ {
			err = check(&found[i])
		}
		return err
	})
	propagation := metav1.DeletePropagationForeground
	if err := client.AppsV1().Deployments("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		found, err := pods()
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%d pods are still there", len(found))
		}
		return err
	})
}

// expect checks what the pod and its first container say.
func expect(pod *corev1.Pod, phase corev1.PodPhase, ready bool, waiting, terminated string, exitCode int32) error {
	if len(pod.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("%s has no status yet", pod.Name)
	}
	status := pod.Status.ContainerStatuses[0]
	var gotWaiting, gotTerminated string
	var gotExitCode int32
	if status.State.Waiting != nil {
		gotWaiting = status.State.Waiting.Reason
	}
	if last := status.LastTerminationState.Terminated; last != nil {
		gotTerminated, gotExitCode = last.Reason, last.ExitCode
	}
	if pod.Status.Phase != phase || status.Ready != ready || gotWaiting != waiting || gotTerminated != terminated ||
		gotExitCode != exitCode || (status.RestartCount > 0) != (terminated != "") {
		return fmt.Errorf("%s: %+v", pod.Name, pod.Status)
	}
	return nil
}

func claimIsBoundAndGrows(t *testing.T, client kubernetes.Interface) {
	ctx := t.Context()
	claims := client.CoreV1().PersistentVolumeClaims("default")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for _, size := range []string{"1Gi", "5Gi"} {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		var err error
		if claim.UID == "" {
			claim, err = claims.Create(ctx, claim, metav1.CreateOptions{})
		} else {
			claim, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() (err error) {
			if claim, err = claims.Get(ctx, "data", metav1.GetOptions{}); err != nil {
				return err
			}
			if capacity := claim.Status.Capacity.Storage(); claim.Status.Phase != corev1.ClaimBound || capacity.String() != size {
				return fmt.Errorf("%s, %s", claim.Status.Phase, capacity)
			}
			return nil
		})
	}
	if err := claims.Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err == nil && len(volumes.Items) > 0 {
			err = fmt.Errorf("the volume is still there: %s", volumes.Items[0].Status.Phase)
		}
		return err
	})
}

func TestLostComponent(t *testing.T) {
	t.Parallel()
	dir := runtimeDir(t)
	c := upCluster(t, dir, "--bare")
	c.ends(t, dir, 1, func() { signalTo(t, c.children(t)[etcdName], syscall.SIGKILL) })
	if !strings.Contains(c.stderr.String(), "etcd is gone (signal: killed); the end of its log:\n  | ") {
		t.Errorf("standard error:\n%s", c.stderr)
	}
}

func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	dir, kubeconfig := runtimeDir(t), filepath.Join(t.TempDir(), "kubeconfig")
	killed := upCluster(t, dir, "--bare", "--kubeconfig", kubeconfig)
	killed.ends(t, dir, -1, func() { signalTo(t, killed.Process.Pid, syscall.SIGKILL) })

	next := upCluster(t, dir, "--bare", "--kubeconfig", kubeconfig)
	next.ends(t, dir, 0, func() { signalTo(t, next.Process.Pid, syscall.SIGTERM) })
	if !strings.Contains(next.stderr.String(), "removed the remains") {
		t.Errorf("standard error:\n%s", next.stderr)
	}
}

// TestEndOfInput checks that a cluster ends with the process that holds the other end of its standard input.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	dir := runtimeDir(t)
	input, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := upClusterWith(t, dir, input, "--bare", "--until-eof")
	_ = input.Close()
	c.ends(t, dir, 0, func() { _ = other.Close() })
}

// TestReadersGoAway checks that the cluster still cleans up when nobody reads its output any more.
func TestReadersGoAway(t *testing.T) {
	t.Parallel()
	dir := runtimeDir(t)
	command := exec.Command(clusterBinary(t), "up", "--bare")
	command.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(stderr, make([]byte, 1), 1); err != nil {
		t.Fatal(err)
	}
	_ = stderr.Close()
	signalTo(t, command.Process.Pid, syscall.SIGTERM)
	_ = command.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); command.ProcessState.ExitCode() != 1 || len(left) > 0 {
		t.Errorf("%s, left behind: %v", command.ProcessState, left)
	}
}
