package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// podOfRun is the name of the pod of the Job in a runServer.
const podOfRun = "web-run-pod"

// runServer is an API server with the App web and its Deployment, which runs the Job of a command.
type runServer struct {
	*fakeServer
	// pods are the statuses that the pod of the Job has from one read to the next; the last one stays. Without any, there is no pod.
	pods []corev1.PodStatus
	// event is the message of the event about pods that cannot be created, refusal the answer to the creation of the Job.
	event   string
	refusal *metav1.Status
	// condition is the end of the Job.
	condition *batchv1.JobCondition
	mu        sync.Mutex
	job       *batchv1.Job
}

func newRunServer(t *testing.T, pods ...corev1.PodStatus) *runServer {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: objectMeta("web")}
	d.OwnerReferences = []metav1.OwnerReference{{UID: "1", Controller: ptr.To(true)}}
	d.Spec.Template.Labels = map[string]string{"team": "red"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "shop/web:7", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "S3CR3T-VALUE"}}}}
	s := &runServer{fakeServer: newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}, "deployments/web": d}), pods: pods}
	s.logs = map[string]string{}
	s.answer = s.answerRun
	return s
}

// answerRun answers requests about the Job and its pod.
func (s *runServer) answerRun(q *http.Request, body string) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.HasSuffix(q.URL.Path, "/jobs") && q.Method == http.MethodPost:
		if s.refusal != nil {
			return s.refusal
		}
		sent, _, _ := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, nil)
		s.job, _ = sent.(*batchv1.Job)
		s.job.UID = "job"
		return s.job
	case strings.Contains(q.URL.Path, "/jobs/") && q.Method == http.MethodGet:
		job := s.job.DeepCopy()
		if s.condition != nil {
			job.Status.Conditions = []batchv1.JobCondition{*s.condition}
		}
		return job
	case strings.Contains(q.URL.Path, "/jobs/") && q.Method == http.MethodDelete:
		return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	case strings.HasSuffix(q.URL.Path, "/pods") && len(s.pods) > 0:
		pod := corev1.Pod{ObjectMeta: objectMeta(podOfRun), Spec: s.job.Spec.Template.Spec, Status: s.pods[0]}
		pod.OwnerReferences = []metav1.OwnerReference{{UID: "job", Controller: ptr.To(true)}}
		if len(s.pods) > 1 {
			s.pods = s.pods[1:]
		}
		return &corev1.PodList{Items: []corev1.Pod{pod}}
	case strings.HasSuffix(q.URL.Path, "/events") && s.event != "":
		e := corev1.Event{ObjectMeta: objectMeta("e"), Reason: "FailedCreate", Message: s.event}
		e.InvolvedObject.UID = "job"
		return &corev1.EventList{Items: []corev1.Event{e}}
	}
	return nil
}

// deleted reports whether the Job was deleted with its pod.
func (s *runServer) deleted() bool {
	return slices.ContainsFunc(s.writes, func(w string) bool {
		return strings.HasPrefix(w, "DELETE ") && strings.Contains(w, "/jobs/web-run-") && strings.Contains(w, "Background")
	})
}

// statusOfRun returns the status of a pod whose container web has a state.
func statusOfRun(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "shop/web:7", State: state}}}
}

func runningStatus() corev1.PodStatus {
	return statusOfRun(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

func endedStatus(code int32, reason string) corev1.PodStatus {
	return statusOfRun(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}})
}

func waitingStatus(reason, message string) corev1.PodStatus {
	return statusOfRun(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

// TestRun runs commands that end: their output alone goes to the standard output, and their exit code is that of the plug-in.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		pods []corev1.PodStatus
		log  string
		args []string
		code int
		out  string
		said string
		// deleted is true if the Job is gone afterwards.
		deleted bool
	}{
		"success": {
			pods: []corev1.PodStatus{runningStatus(), endedStatus(0, "Completed")}, out: "a  line\nthe last",
			log: "2026-01-01T00:00:00.1Z a  line\n2026-01-01T00:00:00.2Z the last", said: "Job shop/web-run-",
		},
		"exit code 3": {pods: []corev1.PodStatus{endedStatus(3, "Error")}, code: 3, log: "2026-01-01T00:00:00Z no\n", out: "no\n"},
		"memory":      {pods: []corev1.PodStatus{endedStatus(137, "OOMKilled")}, code: 137, said: "used more memory than its limit"},
		"ttl 0":       {pods: []corev1.PodStatus{endedStatus(4, "Error")}, args: []string{"--ttl", "0"}, code: 4, deleted: true},
		"exact bytes": {pods: []corev1.PodStatus{endedStatus(0, "")}, log: "2026-01-01T00:00:00Z \x1b[31mred\x00\n", out: "\x1b[31mred\x00\n"},
		"long line": {
			pods: []corev1.PodStatus{endedStatus(0, "")}, log: "2026-01-01T00:00:00Z " + strings.Repeat("x", 3*maxRunPart) + "\n", out: strings.Repeat("x", 3*maxRunPart) + "\n",
		},
		"no terminal": {pods: []corev1.PodStatus{endedStatus(0, "")}, args: []string{"-it"}, said: "no terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, c.pods...)
			s.logs[podOfRun] = c.log
			code, out, said := s.run(t, slices.Concat([]string{"run", "web"}, c.args, []string{"--", "migrate", "up", "--all"})...)
			if code != c.code || out != c.out || !strings.Contains(said, c.said) || s.deleted() != c.deleted {
				t.Errorf("exit status %d\n%q\n%s\nwrites %q", code, out, said, s.writes)
			}
			main := s.job.Spec.Template.Spec.Containers[0]
			if !slices.Equal(main.Command, []string{"migrate", "up", "--all"}) || main.Image != "shop/web:7" {
				t.Errorf("the container is %+v", main)
			}
			if ttl := *s.job.Spec.TTLSecondsAfterFinished; (ttl == 60) != c.deleted || !c.deleted && ttl != 3600 {
				t.Errorf("the Job stays for %d s", ttl)
			}
		})
	}
}

// TestRunFails has commands that do not start, or have no exit code: each says why in one line and what helps, without private values. The
// Job is deleted if its command has not started.
func TestRunFails(t *testing.T) {
	refusal := func(name, words string) *metav1.Status {
		return status(apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, name, errors.New(words)))
	}
	deadline := &batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}
	for name, c := range map[string]struct {
		server func(*runServer)
		args   []string
		want   []string
		// stays is true if the Job is not deleted, or does not exist.
		stays bool
	}{
		"quota": {
			func(s *runServer) {
				s.event = `Error creating: pods "web-run-x" is forbidden: exceeded quota: small, requested: pods=1`
			},
			nil, []string{"no pod can be created", "exceeded quota: small", "Ask for a larger quota", "The Job is deleted"}, false,
		},
		"policy": {
			func(s *runServer) { s.event = `pods "web-run-x" is forbidden: denied: TOKEN is S3CR3T-VALUE` },
			nil, []string{"no pod can be created", "denied: TOKEN", "have the policy changed"}, false,
		},
		"image": {
			func(s *runServer) {
				s.pods = []corev1.PodStatus{waitingStatus("ImagePullBackOff", "Back-off pulling image \"shop/web:7\": not found\x1b[31m")}
			},
			nil, []string{`image "shop/web:7" cannot be pulled: not found`, "Fix spec.image", "The Job is deleted"}, false,
		},
		"no node": {
			func(s *runServer) {
				s.pods = []corev1.PodStatus{{Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available",
				}}}}
			},
			[]string{"--timeout", "0s"}, []string{"not started within 0s: scheduling: 0/3 nodes are available. Request less"}, false,
		},
		"nothing known": {func(*runServer) {}, []string{"--timeout", "0s"}, []string{"not started within 0s; wait longer by --timeout. The Job is deleted"}, false},
		"evicted": {
			func(s *runServer) {
				s.pods = []corev1.PodStatus{{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}}
			},
			nil, []string{"has ended before the command: low on memory"}, false,
		},
		"deadline": {
			func(s *runServer) { s.condition = deadline }, []string{"--deadline", "90s"}, []string{"has not ended within its deadline of 90 s"}, false,
		},
		"Job refused by a quota":  {func(s *runServer) { s.refusal = refusal("web-run-x", "exceeded quota: jobs") }, nil, []string{"rejects Job shop/web-run-", "exceeded quota: jobs. Ask for"}, true},
		"Job refused by a policy": {func(s *runServer) { s.refusal = refusal("web-run-x", "S3CR3T-VALUE is no value") }, nil, []string{"rejects Job shop/web-run-", "is no value"}, true},
		"no right":                {func(s *runServer) { s.refusal = refusal("", "no right") }, nil, []string{"you may not create Job web-run-"}, true},
		"no Deployment":           {func(s *runServer) { delete(s.objects, "deployments/web") }, nil, []string{"App shop/web has no Deployment web yet", "kubectl happ why web -n shop"}, true},
		"Deployment of others": {
			func(s *runServer) { s.objects["deployments/web"].(*appsv1.Deployment).OwnerReferences = nil }, nil, []string{"is not controlled by App shop/web"}, true,
		},
		"part": {func(*runServer) {}, []string{"--part", "front"}, []string{"has no parts"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t)
			c.server(s)
			code, out, said := s.run(t, slices.Concat([]string{"run", "web", "--grace", "0s"}, c.args, []string{"--", "migrate"})...)
			if code != 1 || out != "" || s.deleted() == c.stays || strings.Contains(said, "S3CR3T") || strings.Contains(said, "\x1b") {
				t.Errorf("exit status %d\n%s%s\nwrites %q", code, out, said, s.writes)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
		})
	}
}

// TestRunDetached starts a command without waiting for it.
func TestRunDetached(t *testing.T) {
	s := newRunServer(t)
	code, out, said := s.run(t, "run", "web", "--detach", "--ttl", "0", "--deadline", "1h", "--", "migrate")
	if name := s.job.Name; code != 0 || said != "" || out != "Job shop/"+name+" is started. Follow it: kubectl logs -f job/"+name+" -n shop\n" {
		t.Errorf("exit status %d\n%s%s", code, out, said)
	}
	if *s.job.Spec.TTLSecondsAfterFinished != 0 || *s.job.Spec.ActiveDeadlineSeconds != 3600 || s.deleted() {
		t.Errorf("the Job is %+v, writes %q", s.job.Spec, s.writes)
	}
}

// TestRunWrongUse gives run what it does not take.
func TestRunWrongUse(t *testing.T) {
	for want, args := range map[string][]string{
		`write "--" between the name and the command: "kubectl happ run NAME -- COMMAND`: {"run", "web", "migrate"},
		"between the name and the command":                                               {"run", "--", "web", "migrate"},
		"--tty needs --stdin":                                                            {"run", "web", "-t", "--", "sh"},
		"--detach does not go with --stdin":                                              {"run", "web", "-i", "--detach", "--", "sh"},
		"--ttl: 8760h0m1s is more than 8760h0m0s":                                        {"run", "web", "--ttl", "8760h0m1s", "--", "sh"},
		"--deadline: 8761h0m0s is more than":                                             {"run", "web", "--deadline", "8761h", "--", "sh"},
		"write \"kubectl happ run NAME -- COMMAND":                                       {"run", "web", "--"},
	} {
		if code, out, said := run(t, nil, args...); code != exitError || !strings.Contains(said, want) || out != "" {
			t.Errorf("%v: exit status %d, %q; want %q", args, code, out+said, want)
		}
	}
}

// TestRunInterrupted ends run while its command runs, and while it waits for a pod: the Job is deleted, and the plug-in says so.
func TestRunInterrupted(t *testing.T) {
	for name, at := range map[string]string{"while the command runs": "/log", "while it waits": "/events", "during the creation": "/jobs"} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, runningStatus())
			if at == "/events" {
				s.pods = nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := s.answer
			s.answer = func(q *http.Request, body string) runtime.Object {
				if strings.HasSuffix(q.URL.Path, at) {
					cancel()
				}
				return answer(q, body)
			}
			var out, said bytes.Buffer
			t.Setenv("KUBECONFIG", t.TempDir()+"/none")
			code := Run(ctx, Program{
				Path: "kubectl-happ", Args: []string{"run", "web", "--server", s.url, "-n", namespaceOfTests, "--", "migrate"}, In: strings.NewReader(""), Out: &out, Err: &said,
				Getenv: func(string) string { return "" },
			})
			if code != 130 || !s.deleted() || !strings.HasSuffix(said.String(), " is deleted\n") {
				t.Errorf("exit status %d\n%s%s\nwrites %q", code, out.String(), said.String(), s.writes)
			}
		})
	}
}

// serveAttach answers a connection with a container: it hands what it reads to do, and sends the result.
func serveAttach(do func(input string) string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, q *http.Request) {
		protocol := wsstream.ChannelProtocolConfig{Binary: true, Channels: []wsstream.ChannelType{
			wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel,
		}}
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": protocol})
		_, streams, err := conn.Open(w, q)
		if err != nil {
			return
		}
		input, _ := io.ReadAll(streams[0])
		if output := do(string(input)); output != "" {
			_, _ = io.WriteString(streams[1], output)
		}
		_, _ = io.WriteString(streams[3], `{"metadata":{},"status":"Success"}`)
		_ = conn.Close()
	}
}

// TestRunWithInput passes the standard input on to a command, whose whole output is in its log.
func TestRunWithInput(t *testing.T) {
	s := newRunServer(t, runningStatus())
	s.upgrade = serveAttach(func(input string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logs[podOfRun], s.pods = "2026-01-01T00:00:00Z got "+input+"\n", []corev1.PodStatus{endedStatus(5, "Error")}
		return ""
	})
	var out, said bytes.Buffer
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	code := Run(t.Context(), Program{
		Path: "kubectl-happ", Args: []string{"run", "web", "-i", "--server", s.url, "-n", namespaceOfTests, "--", "cat"}, In: strings.NewReader("some input"), Out: &out, Err: &said,
		Getenv: func(string) string { return "" },
	})
	if main := s.job.Spec.Template.Spec.Containers[0]; code != 5 || out.String() != "got some input\n" || !main.Stdin || !main.StdinOnce || s.deleted() {
		t.Errorf("exit status %d\n%s%s", code, out.String(), said.String())
	}
}

// TestRunWithoutInput has a connection that the API server refuses: the command would wait forever, so the Job is deleted.
func TestRunWithoutInput(t *testing.T) {
	s := newRunServer(t, runningStatus())
	s.upgrade = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(status(apierrors.NewForbidden(schema.GroupResource{Resource: "pods/attach"}, podOfRun, nil)))
	}
	code, _, said := s.run(t, "run", "web", "-i", "--", "cat")
	if code != 1 || !s.deleted() || !strings.Contains(said, "you may not attach to the pod of Job web-run-") || !strings.Contains(said, "The Job is deleted") {
		t.Errorf("exit status %d\n%s", code, said)
	}
}

// follower returns a follower of a Job of the server.
func (s *runServer) follower(t *testing.T, in io.Reader, out io.Writer) *runFollower {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	flags := genericclioptions.NewConfigFlags(true)
	flags.APIServer = &s.url
	r := &root{Program: Program{In: in, Out: out, Err: io.Discard, Getenv: func(string) string { return "" }}, flags: flags, color: "auto"}
	c, err := r.newClients()
	if err != nil {
		t.Fatal(err)
	}
	s.job = &batchv1.Job{ObjectMeta: objectMeta("web-run-x")}
	s.job.UID = "job"
	s.job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
	return &runFollower{root: r, c: c, o: &runOptions{}, job: s.job, tty: true}
}

// TestRunOnTerminal has a command with a terminal: what it writes goes through as it is. The log of a command that has ended before is printed.
func TestRunOnTerminal(t *testing.T) {
	s := newRunServer(t, runningStatus())
	s.upgrade = serveAttach(func(input string) string { return "\x1b[1m" + input })
	var out bytes.Buffer
	if err := s.follower(t, strings.NewReader("exit"), &out).attachTerminal(t.Context(), podOfRun); err != nil || out.String() != "\x1b[1mexit" {
		t.Errorf("%q, %v", out.String(), err)
	}
	early := newRunServer(t, endedStatus(0, ""))
	early.logs[podOfRun] = "2026-01-01T00:00:00Z done\n"
	early.upgrade = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the container has ended", http.StatusInternalServerError)
	}
	out.Reset()
	if err := early.follower(t, strings.NewReader(""), &out).attachTerminal(t.Context(), podOfRun); err != nil || out.String() != "done\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestLogGoesOn has a log that breaks off twice: each line is printed once.
func TestLogGoesOn(t *testing.T) {
	s := newRunServer(t, runningStatus(), runningStatus(), endedStatus(0, ""))
	answer := s.answer
	parts := []string{
		"2026-01-01T00:00:00.1Z one\n", "2026-01-01T00:00:00.1Z one\n2026-01-01T00:00:00.25Z two\n2026-01-01T00:00:00.3Z \n",
		"2026-01-01T00:00:00.25Z two\n2026-01-01T00:00:00.3Z \n2026-01-01T00:00:01Z three\n",
	}
	var since []string
	s.answer = func(q *http.Request, body string) runtime.Object {
		if strings.HasSuffix(q.URL.Path, "/log") {
			since = append(since, q.URL.Query().Get("sinceTime"))
			s.logs[podOfRun], parts = parts[0], parts[1:]
		}
		return answer(q, body)
	}
	var out bytes.Buffer
	if err := s.follower(t, nil, &out).printLog(t.Context(), podOfRun); err != nil || out.String() != "one\ntwo\n\nthree\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if !slices.Equal(since, []string{"", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"}) {
		t.Errorf("since %q", since)
	}
}

// logEntry is an entry of a kubelet's log: a line, or a part of a long line.
type logEntry struct {
	at   time.Time
	text string
}

// keptLog returns the log that a kubelet keeps of lines, in entries of at most eight bytes, each a tenth of a second after the one before.
func keptLog(lines ...string) []logEntry {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var entries []logEntry
	for _, line := range lines {
		for begin := 0; begin < len(line); begin += 8 {
			at = at.Add(100 * time.Millisecond)
			entries = append(entries, logEntry{at, line[begin:min(len(line), begin+8)]})
		}
	}
	return entries
}

// logSinceOf returns what a kubelet answers of a log from a time on, in whole seconds. It leaves out entries, and states the time at the beginning of a line
// alone: the rest of a line whose first entries are left out has none.
func logSinceOf(entries []logEntry, since time.Time) string {
	var text strings.Builder
	begins := true
	for _, entry := range entries {
		if !entry.at.Before(since.Truncate(time.Second)) {
			if begins {
				text.WriteString(entry.at.Format(time.RFC3339Nano) + " ")
			}
			text.WriteString(entry.text)
		}
		begins = strings.HasSuffix(entry.text, "\n")
	}
	return text.String()
}

// TestCopyLog breaks a log off at each two places, by its end or by an error, and goes on: each byte of it is printed once.
func TestCopyLog(t *testing.T) {
	long := strings.Repeat("0123456789", 4) + "\n"
	entries := keptLog("one\n", long, "\n", long, long, "two\n", long, "no end of a line")
	want := "one\n" + long + "\n" + long + long + "two\n" + long + "no end of a line"
	whole := len(logSinceOf(entries, time.Time{}))
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
		for first := range whole {
			for _, second := range []int{0, 5, 40, 41, 90, 150, 222} {
				var out bytes.Buffer
				var at logPosition
				for _, bytes := range []int{first, second, whole} {
					answer := logSinceOf(entries, at.last)
					rest := iotest.ErrReader(end)
					if bytes >= len(answer) {
						rest = strings.NewReader("")
					}
					var err error
					if at, err = copyLog(&out, io.MultiReader(strings.NewReader(answer[:min(bytes, len(answer))]), rest), at); err != nil && !errors.Is(err, end) {
						t.Fatal(err)
					}
				}
				if out.String() != want {
					t.Fatalf("broken off after %d and %d bytes by %v:\n%q\nwant\n%q", first, second, end, out.String(), want)
				}
			}
		}
	}
}

// TestLineCleaner writes a log for a terminal: without escape sequences, with each line break.
func TestLineCleaner(t *testing.T) {
	var out bytes.Buffer
	if _, err := copyLog(lineCleaner{&out, view.Style{}}, strings.NewReader("\x1b[31mred\x1b[0m\a\n\n2026-01-01T00:00:00Z end"), logPosition{}); err != nil || out.String() != "red\n\nend" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	long := strings.Repeat("x", 3*maxRunPart)
	if _, err := copyLog(lineCleaner{&out, view.Style{}}, strings.NewReader(long+"\n"), logPosition{}); err != nil || out.String() != long+"\n" {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

// TestTerminalSizes has no size for a stream that is no terminal.
func TestTerminalSizes(t *testing.T) {
	var sizes remotecommand.TerminalSizeQueue = &terminalSizes{of: strings.NewReader("")}
	if size := sizes.Next(); size != nil {
		t.Errorf("the size is %v", size)
	}
}
