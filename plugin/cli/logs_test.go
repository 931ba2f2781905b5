package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
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
	"huolala.cn/app-operator/plugin/view"
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

// numberedLines returns lines of a length with their numbers at the end.
func numberedLines(count, length int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, "%s %04d\n", strings.Repeat("x", length-6), i)
	}
	return text.String()
}

// TestLatestLinesOfLongLogs has logs of several sizes: logs prints all lines that are asked for, and a page has the last ones in a bound, whatever the
// size of the others. The kubelet leaves out the end of an answer beyond a limit of bytes.
func TestLatestLinesOfLongLogs(t *testing.T) {
	t.Parallel()
	kind, _ := view.KindOf("App")
	for name, c := range map[string]struct {
		count, length, tail int
		// first is the first line of the page, after the mark of lines that are left out if there is one.
		first string
		cut   bool
	}{
		"short lines":       {100, 10, 50, "0050", false},
		"fewer lines":       {3, 10, 50, "0000", false},
		"lines of 2 KiB":    {60, 2 << 10, 50, "0028", true},
		"more than 1 MiB":   {2000, 1 << 10, 1500, "1950", false},
		"at the page limit": {40, maxPageLog / 40, 50, "0000", false},
	} {
		f := serverOfLogs(t)
		f.logs = map[string]string{"web-1-b": numberedLines(c.count, c.length)}
		code, out, said := f.run(t, "logs", "pod/web-1-b", "--tail", fmt.Sprint(c.tail))
		lines := slices.Collect(strings.Lines(out))[1:]
		if want := min(c.count, c.tail); code != 0 || len(lines) != want || !strings.HasSuffix(lines[want-1], fmt.Sprintf("%04d\n", c.count-1)) {
			t.Errorf("%s: exit status %d, %d lines, the last is %.100q\n%s", name, code, len(lines), lines[len(lines)-1], said)
		}
		logs, _, err := logReader{f.clients(t)}.ReadLogs(t.Context(), kind, namespaceOfTests, "web", view.LogOptions{Pod: "web-1-b", Most: defaultLogs})
		if err != nil || len(logs) != 1 {
			t.Fatalf("%s: %d logs, %v", name, len(logs), err)
		}
		page, cut := strings.CutPrefix(logs[0].Text, "…\n")
		first, _, _ := strings.Cut(page, "\n")
		if cut != c.cut || len(page) > maxPageLog || !strings.HasSuffix(first, c.first) || !strings.HasSuffix(page, fmt.Sprintf(" %04d\n", c.count-1)) {
			t.Errorf("%s: the page has %d bytes, cut %t, the first line ends with %q", name, len(page), cut, first[max(0, len(first)-10):])
		}
	}
}

// TestPageOfEndlessLines has lines that are longer than a page reads: the page marks that the end is missing.
func TestPageOfEndlessLines(t *testing.T) {
	t.Parallel()
	kind, _ := view.KindOf("App")
	for size, marked := range map[int]bool{maxPageRead - 100: false, maxPageRead: true} {
		f := serverOfLogs(t)
		f.logs = map[string]string{"web-1-b": strings.Repeat("x", size/2) + "\n" + strings.Repeat("y", size-size/2-1) + "the end\n"}
		logs, _, err := logReader{f.clients(t)}.ReadLogs(t.Context(), kind, namespaceOfTests, "web", view.LogOptions{Pod: "web-1-b", Most: defaultLogs})
		if err != nil || len(logs) != 1 || strings.HasSuffix(logs[0].Text, "\n…\n") != marked || !strings.Contains(logs[0].Text, "yyy…\n") {
			t.Errorf("%d bytes: %v, %.100v", size, err, logs)
		}
	}
}

// TestLatestLines has the last lines within the bound of a page, with a mark in place of the others.
func TestLatestLines(t *testing.T) {
	line := func(n, size int) string { return strings.Repeat(fmt.Sprint(n%10), size-1) }
	for name, c := range map[string]struct {
		sizes   []int
		limited bool
		kept    int
		cut     bool
	}{
		"nothing":          {nil, false, 0, false},
		"one line":         {[]int{7}, false, 1, false},
		"at the bound":     {slices.Repeat([]int{1 << 10}, maxPageLog>>10), false, maxPageLog >> 10, false},
		"one byte more":    {append(slices.Repeat([]int{1 << 10}, maxPageLog>>10-1), 1<<10+1), false, maxPageLog>>10 - 1, true},
		"many more":        {slices.Repeat([]int{100}, 10*maxPageLog/100), false, maxPageLog / 100, true},
		"a long last line": {append(slices.Repeat([]int{10}, maxPageLog/10), 4<<10), false, (maxPageLog-4<<10)/10 + 1, true},
		"limited":          {[]int{7, 8}, true, 2, false},
	} {
		var l latestLines
		var all []string
		for i, size := range c.sizes {
			all = append(all, line(i, size)+"\n")
			l.addLine(line(i, size))
		}
		want := strings.Join(all[len(all)-c.kept:], "")
		if len(want) > maxPageLog {
			t.Fatalf("%s: the test wants %d bytes", name, len(want))
		}
		if c.cut {
			want = "…\n" + want
		}
		if c.limited {
			want += "…\n"
		}
		if got := l.text(c.limited); got != want {
			t.Errorf("%s: %d bytes, want %d; it begins with %.20q", name, len(got), len(want), got)
		}
	}
}
