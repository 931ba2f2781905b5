package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
)

// endsWithin is how long a test waits for what ends at once.
const endsWithin = 20 * time.Second

// TestReadConfirmation has answers to a question, and ends the context while there is none.
func TestReadConfirmation(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES \n": true, "n\n": false, "\n": false, "y": false, "": false} {
		var said bytes.Buffer
		r := &root{Program: Program{In: iotest.OneByteReader(strings.NewReader(answer)), Err: &said}}
		if err := r.readConfirmation(t.Context(), "Now?"); (err == nil) != want || said.String() != "Now? [y/N] " {
			t.Errorf("%q: %v, %q", answer, err, said.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	in, silent := io.Pipe()
	defer func() { _ = silent.Close() }()
	var said bytes.Buffer
	failed := make(chan error, 1)
	go func() {
		r := &root{Program: Program{In: in, Err: &said}}
		failed <- r.readConfirmation(ctx, "Now?")
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, context.Canceled) || said.String() != "Now? [y/N] \n" {
			t.Errorf("%v, %q", err, said.String())
		}
	case <-time.After(endsWithin):
		t.Fatal("the question does not end with its context")
	}
}

// TestInputEndsWithContext plans a standard input that does not end: the plug-in ends with its context.
func TestInputEndsWithContext(t *testing.T) {
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	for _, args := range [][]string{{"plan", "-f", "-"}, {"import", "--all", "-f", "-"}} {
		ctx, cancel := context.WithCancel(t.Context())
		in, writer := io.Pipe()
		go func() {
			_, _ = io.WriteString(writer, webManifest) // It is read, and the input goes on.
			cancel()
		}()
		code := make(chan int, 1)
		go func() {
			code <- Run(ctx, Program{
				Path: "kubectl-happ", Args: append(args, "--server", f.url, "-n", namespaceOfTests), In: in, Out: io.Discard, Err: io.Discard,
				Getenv: func(string) string { return "" },
			})
		}()
		select {
		case got := <-code:
			if got != 130 {
				t.Errorf("%v: exit status %d", args, got)
			}
		case <-time.After(endsWithin):
			t.Errorf("%v: the plug-in does not end with its context", args)
		}
		_ = writer.Close()
	}
}
