package cli

import (
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
)

// serverOfLogs returns an API server with the App web, whose first pod crashes and whose second pod runs.
func serverOfLogs(t *testing.T) *fakeServer {
	t.Helper()
	owned := func(name string, uid, by types.UID) metav1.ObjectMeta {
		m := objectMeta(name)
		m.UID, m.OwnerReferences = uid, []metav1.OwnerReference{{UID: by, Controller: ptr.To(true)}}
		return m
	}
	app := &appv1.App{ObjectMeta: objectMeta("web")}
	app.UID = "app"
	pod := func(name string, status corev1.ContainerStatus) corev1.Pod {
		status.Name = "web"
		p := corev1.Pod{ObjectMeta: owned(name, types.UID(name), "rs")}
		p.Spec.Containers = []corev1.Container{{Name: "web"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		return p
	}
	lists := map[string]runtime.Object{
		"deployments": &appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: owned("web", "d", "app")}}},
		"replicasets": &appsv1.ReplicaSetList{Items: []appsv1.ReplicaSet{{ObjectMeta: owned("web-1", "rs", "d")}}},
		"pods": &corev1.PodList{Items: []corev1.Pod{
			pod("web-1-a", corev1.ContainerStatus{
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
			}),
			pod("web-1-b", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}),
			pod("web-1-c", corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}),
		}},
	}
	named := &corev1.Pod{ObjectMeta: objectMeta("web-1-b")}
	named.OwnerReferences = []metav1.OwnerReference{{APIVersion: appv1.GroupVersion.String(), Kind: "App", Name: "web", Controller: ptr.To(true)}}
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": app, "pods/web-1-b": named})
	f.logs = map[string]string{"web-1-a before": "it \x1b[31mcrashed\x1b[0m\nthe end", "web-1-b": "serves\n", "web-1-c": "serves, too\n"}
	f.answer = func(q *http.Request, _ string) runtime.Object { return lists[path.Base(q.URL.Path)] }
	return f
}

// TestLogs prints the log of the run that crashed, of the pod that an argument names, and follows what runs.
func TestLogs(t *testing.T) {
	f := serverOfLogs(t)
	for want, args := range map[string][]string{
		"==> Pod web-1-a, container web, the run before, which ended with exit code 3 <==\nit crashed\nthe end\n": {"logs", "web"},
		"==> Pod web-1-b, container web <==\nserves\n":                                                            {"logs", "pod/web-1-b"},
		"==> Pod web-1-b, container web <==\nserves\n ":                                                           {"logs", "po/web-1-b", "-f"},
		"==> Pod web-1-a, container web <==\n":                                                                    {"logs", "web", "--previous=false"},
	} {
		if code, out, said := f.run(t, args...); code != 0 || out != strings.TrimSuffix(want, " ") || said != "" {
			t.Errorf("%v: exit status %d\n%s%s", args, code, out, said)
		}
	}
	if code, _, said := f.run(t, "logs", "web", "-c", "none"); code != 1 || !strings.Contains(said, "the containers are web") {
		t.Errorf("exit status %d: %s", code, said)
	}
}

// TestEachLine cuts long lines, and keeps the others.
func TestEachLine(t *testing.T) {
	var got []string
	err := eachLine(iotest.HalfReader(strings.NewReader("a\n\n"+strings.Repeat("x", 3*maxLogLine)+"\nlast")), func(line string) { got = append(got, line) })
	if err != nil || len(got) != 4 || got[0] != "a" || got[1] != "" || got[2] != strings.Repeat("x", maxLogLine)+"…" || got[3] != "last" {
		t.Errorf("%d lines, %v", len(got), err)
	}
	if err := eachLine(io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(errors.New("broken"))), func(string) {}); err == nil {
		t.Error("a broken stream is no error")
	}
}

// TestEachLineOfWholeReads has streams that end, or break, where a read within a long line ends: the line is there, and marked only if a part of it is
// missing.
func TestEachLineOfWholeReads(t *testing.T) {
	whole := strings.Repeat("x", maxLogLine)
	for name, c := range map[string]struct {
		stream, want string
	}{
		"a whole read":                   {whole, whole},
		"a whole read and its line end":  {whole + "\n", whole},
		"two whole reads":                {whole + whole, whole + "…"},
		"three whole reads":              {whole + whole + whole, whole + "…"},
		"one byte more":                  {whole + "x", whole + "…"},
		"two whole reads and a line end": {whole + whole + "\n", whole + "…"},
	} {
		for ending, end := range map[string]io.Reader{"ends": strings.NewReader(""), "breaks": iotest.ErrReader(errors.New("broken"))} {
			var got []string
			err := eachLine(io.MultiReader(strings.NewReader(c.stream), end), func(line string) { got = append(got, line) })
			if len(got) != 1 || got[0] != c.want || (err != nil) != (ending == "breaks") {
				t.Errorf("%s, which %s: %d lines, %v", name, ending, len(got), err)
			}
		}
	}
}
