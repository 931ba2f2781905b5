package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var jobs = schema.GroupResource{Group: "batch", Resource: "jobs"}

// interrupted runs a command with the server until a context ends.
func (s *runServer) interrupted(ctx context.Context, t *testing.T) (code int, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	code = Run(ctx, Program{
		Path: "kubectl-happ", Args: []string{"run", "web", "--server", s.url, "-n", namespaceOfTests, "--", "migrate"}, In: strings.NewReader(""), Out: &out, Err: &errs,
		Getenv: func(string) string { return "" },
	})
	return code, errs.String()
}

// TestRunUnclear has creations of the Job whose outcome the plug-in does not learn: it follows the Job that is there, and names the one that may come.
func TestRunUnclear(t *testing.T) {
	cut := func(*runServer) runtime.Object { panic(http.ErrAbortHandler) }
	fails := func(err *apierrors.StatusError) func(*runServer) runtime.Object {
		return func(*runServer) runtime.Object { return status(err) }
	}
	none := func(s *runServer) { s.job = nil }
	ours := func(*runServer) {}
	others := func(s *runServer) { s.job.Spec.Template.Spec.Containers[0].Command = []string{"other"} }
	for name, c := range map[string]struct {
		// answer is the answer to the creation, stored changes what is stored then.
		answer func(*runServer) runtime.Object
		stored func(*runServer)
		// unreadable is true if the user may not get Jobs, interrupts if the user presses Ctrl-C during the creation.
		unreadable, interrupts bool
		code                   int
		want                   []string
		deleted                bool
	}{
		"cut, and there":          {answer: cut, stored: ours, want: []string{"has image shop/web:7"}},
		"a timeout, and there":    {answer: fails(apierrors.NewTimeoutError("slow", 0)), stored: ours, want: []string{"has image shop/web:7"}},
		"an error, and there":     {answer: fails(apierrors.NewInternalError(errors.New("etcd"))), stored: ours, want: []string{"has image shop/web:7"}},
		"sent twice":              {answer: fails(apierrors.NewAlreadyExists(jobs, "web-run-x")), stored: ours, want: []string{"has image shop/web:7"}},
		"the name of another Job": {answer: fails(apierrors.NewAlreadyExists(jobs, "web-run-x")), stored: others, code: 1, want: []string{"already exists", "was not found"}},
		"cut, and not there":      {answer: cut, stored: none, code: 1, want: []string{"EOF. Job shop/web-run-", "was not found; if it comes all the same, delete it: kubectl delete job web-run-"}},
		"an error, and not there": {
			answer: fails(apierrors.NewInternalError(errors.New("TOKEN is S3CR3T-VALUE"))), stored: none, code: 1, want: []string{"Internal error", "was not found; if it comes"},
		},
		"cut, and no right to look": {
			answer: cut, stored: ours, unreadable: true, code: 1,
			want: []string{"Job shop/web-run-", "may exist; see kubectl get job web-run-", " -n shop, and delete it: kubectl delete job web-run-"},
		},
		"refused":                        {answer: fails(apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "web-run-x", nil)), stored: none, code: 1, want: []string{"is invalid"}},
		"interrupted, and there":         {answer: cut, stored: ours, interrupts: true, code: 130, want: []string{" is deleted\n"}, deleted: true},
		"interrupted, and not there":     {answer: cut, stored: none, interrupts: true, code: 130, want: []string{"was not found; if it comes all the same, delete it: kubectl delete job"}},
		"interrupted, of another":        {answer: fails(apierrors.NewAlreadyExists(jobs, "x")), stored: others, interrupts: true, code: 130, want: []string{"was not found"}},
		"interrupted, and may not look":  {answer: cut, stored: ours, unreadable: true, interrupts: true, code: 130, want: []string{"may exist; see"}},
		"interrupted, but an answer yet": {answer: func(s *runServer) runtime.Object { return s.job }, stored: ours, interrupts: true, code: 130, want: []string{" is deleted\n"}, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, endedStatus(0, ""))
			ctx, interrupt := context.WithCancel(context.Background())
			defer interrupt()
			var answering sync.Mutex // The request after one that is cut comes by another connection.
			s.answer = func(q *http.Request, body string) runtime.Object {
				answering.Lock()
				defer answering.Unlock()
				reads := strings.Contains(q.URL.Path, "/jobs/") && q.Method == http.MethodGet
				switch {
				case strings.HasSuffix(q.URL.Path, "/jobs") && q.Method == http.MethodPost:
					_ = s.answerRun(q, body)
					c.stored(s)
					if c.interrupts {
						interrupt()
					}
					return c.answer(s)
				case reads && c.unreadable:
					return status(apierrors.NewForbidden(jobs, "web-run-x", errors.New("no right")))
				case reads && s.job == nil:
					return status(apierrors.NewNotFound(jobs, "web-run-x"))
				}
				return s.answerRun(q, body)
			}
			code, said := s.interrupted(ctx, t)
			if code != c.code || s.deleted() != c.deleted || strings.Contains(said, "S3CR3T") {
				t.Errorf("exit status %d\n%s\nwrites %q", code, said, s.writes)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
			creations := slices.DeleteFunc(slices.Clone(s.writes), func(w string) bool { return !strings.HasPrefix(w, "POST ") })
			if len(creations) != 1 {
				t.Errorf("the Job is created %d times", len(creations))
			}
		})
	}
}

// TestRunDeletedByOthers has the deletion after Ctrl-C fail because others delete the Job at the same time, and for another reason.
func TestRunDeletedByOthers(t *testing.T) {
	conflict := apierrors.NewConflict(jobs, "web-run-x", errors.New("Precondition failed: UID in precondition: job, UID in object meta: "))
	for name, c := range map[string]struct {
		answer *apierrors.StatusError
		then   func(*batchv1.Job) runtime.Object
		want   string
	}{
		"gone":            {conflict, func(*batchv1.Job) runtime.Object { return status(apierrors.NewNotFound(jobs, "web-run-x")) }, " is deleted\n"},
		"gone before":     {apierrors.NewNotFound(jobs, "web-run-x"), nil, " is deleted\n"},
		"of the name now": {conflict, func(job *batchv1.Job) runtime.Object { job.UID = "other"; return job }, " is deleted\n"},
		"a lost answer":   {apierrors.NewTimeoutError("slow", 0), func(*batchv1.Job) runtime.Object { return status(apierrors.NewNotFound(jobs, "web-run-x")) }, " is deleted\n"},
		"still there":     {apierrors.NewInternalError(errors.New("etcd")), func(job *batchv1.Job) runtime.Object { return job }, "is still there: delete Job web-run-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunServer(t, runningStatus())
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			tried := false
			s.answer = func(q *http.Request, body string) runtime.Object {
				switch {
				case strings.HasSuffix(q.URL.Path, "/log"):
					interrupt()
				case q.Method == http.MethodDelete:
					tried = true
					return status(c.answer)
				case tried && strings.Contains(q.URL.Path, "/jobs/"):
					return c.then(s.job.DeepCopy())
				}
				return s.answerRun(q, body)
			}
			if code, said := s.interrupted(ctx, t); code != 130 || !strings.Contains(said, c.want) {
				t.Errorf("exit status %d\n%s", code, said)
			}
		})
	}
}

// TestMayBeDone has errors of a write, and whether the write may have been done.
func TestMayBeDone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.ErrUnexpectedEOF, true}, {context.DeadlineExceeded, true}, {&net.OpError{Op: "read", Err: io.EOF}, true}, {&net.OpError{Op: "dial", Err: io.EOF}, false},
		{apierrors.NewServerTimeout(jobs, "create", 1), true}, {apierrors.NewServiceUnavailable("down"), true}, {apierrors.NewAlreadyExists(jobs, "x"), true},
		{apierrors.NewForbidden(jobs, "x", nil), false}, {apierrors.NewTooManyRequests("slow down", 1), false}, {apierrors.NewBadRequest("no"), false},
		{inWords(apierrors.NewInternalError(io.EOF), "create", "Job x", "shop"), true},
	} {
		if got := mayBeDone(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
	if isSameRun(&batchv1.Job{}, &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}}) {
		t.Error("a Job without containers is one of a run")
	}
}
