package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// waiting is the variable of the environment of a process that waits after its first signal, as a command that hangs does.
const waiting = "HAPP_TEST_WAITS"

func TestMain(m *testing.M) {
	if os.Getenv(waiting) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := untilSignal()
	defer stop()
	fmt.Fprintln(os.Stdout, "begun")
	<-ctx.Done()
	fmt.Fprintln(os.Stdout, "ended")
	_, _ = io.Copy(io.Discard, os.Stdin) // Until the test ends.
}

// TestSecondSignal sends signals to a process that does not end with its context: a second hangup does nothing, and a second Ctrl-C, or another signal
// that means the end, ends it.
func TestSecondSignal(t *testing.T) {
	// A process inherits the signals that its parent ignores, as below nohup or in the background of a script. A signal that its parent handles is not ignored.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(handled)
	for _, first := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		for _, second := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // It is this test.
			cmd.Env = append(os.Environ(), waiting+"=true")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			sendSignal(t, cmd, first)
			if lines.Scan(); lines.Text() != "ended" {
				t.Fatalf("%s: the context does not end: %q", first, lines.Text())
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = cmd.Wait()
			}()
			for running := true; running; {
				sendSignal(t, cmd, syscall.SIGHUP)
				sendSignal(t, cmd, second)
				select {
				case <-over:
					running = false
				case <-time.After(10 * time.Millisecond):
				}
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != second {
				t.Errorf("%s, then %s: %s", first, second, cmd.ProcessState)
			}
		}
	}
}

// sendSignal sends a signal to a process, unless the process has ended.
func sendSignal(t *testing.T, cmd *exec.Cmd, signal os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// TestEnding has a hangup end the plug-in, unless it is ignored, as below nohup.
func TestEnding(t *testing.T) {
	defer signal.Reset(syscall.SIGHUP)
	for _, ignored := range []bool{signal.Ignored(syscall.SIGHUP), true} { // The test itself may run below nohup.
		if ignored {
			signal.Ignore(syscall.SIGHUP)
		}
		if got := ending(); slices.Contains(got, os.Signal(syscall.SIGHUP)) == ignored || !slices.Contains(got, os.Signal(syscall.SIGTERM)) {
			t.Errorf("ignored %t: %v", ignored, got)
		}
	}
}
