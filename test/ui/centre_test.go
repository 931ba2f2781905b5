package ui

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"huolala.cn/app-operator/test/harness"
)

// centre is a running application centre.
type centre struct {
	t testing.TB
	// base is the address of its first page.
	base string
	// process is its process ID.
	process int
	in      io.Writer
	logins  chan login
	first   string
}

// login is what the application centre prints for one.
type login struct{ address, code string }

// open starts the application centre with a kubeconfig. It ends with the test.
func open(t testing.TB, kubeconfig string, args ...string) *centre {
	t.Helper()
	return launch(t, nil, kubeconfig, append([]string{"--no-browser"}, args...)...)
}

// launch is open with further environment variables, and without an argument that keeps it from opening a browser.
func launch(t testing.TB, env []string, kubeconfig string, args ...string) *centre {
	t.Helper()
	// It ends by the interrupt below, which it tells its pages of.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{"--kubeconfig", kubeconfig, "ui"}, args...)...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+t.TempDir()), env...)
	cmd.Dir, cmd.Stderr = harness.Root(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	c := &centre{t: t, process: cmd.Process.Pid, in: in, logins: make(chan login, 1)}
	go func() {
		var l login
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
				l.address = lines.Text()
			}
			if _, code, found := strings.Cut(lines.Text(), "for 10 minutes: "); found {
				l.code = code
				c.logins <- l
			}
		}
	}()
	printed := c.receive()
	c.base, c.first = printed.address, printed.code
	return c
}

// code returns a code for the login: the one that was printed at the start, then those that Enter prints.
func (c *centre) code() string {
	c.t.Helper()
	if code := c.first; code != "" {
		c.first = ""
		return code
	}
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		c.t.Fatal(err)
	}
	return c.receive().code
}

// receive waits for what is printed for a login.
func (c *centre) receive() login {
	c.t.Helper()
	select {
	case l := <-c.logins:
		return l
	case <-time.After(harness.Patience):
		c.t.Fatal("the application centre prints no address, or no code")
		return login{}
	}
}
