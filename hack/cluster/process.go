package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// lifelineVariable names the file descriptor of the lifeline in a component's environment.
const lifelineVariable = "APP_OPERATOR_CLUSTER_LIFELINE"

// supervisor starts the components of a cluster as children and ends them in the right order.
type supervisor struct {
	executable string
	home       string // the children's home directory: they find no configuration of the user's there
	logDir     string
	processes  []*process    // in the order of their start
	lost       chan *process // processes that ended without a request to stop

	// lifeline is a pipe into which nobody ever writes. Every child has its reading end and the supervisor
	// alone its writing end, so that the children see its end of file, and end themselves, whichever way the
	// supervisor is gone.
	lifeline, lifelineEnd *os.File
}

// process is a component of the cluster that runs as a child of the supervisor.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process is gone
}

func newSupervisor(home, logDir string) (*supervisor, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		return nil, err
	}
	s := &supervisor{executable: executable, home: home, logDir: logDir, lost: make(chan *process, len(components))}
	s.lifeline, s.lifelineEnd, err = os.Pipe()
	return s, err
}

// start runs a component, with its output in a log file.
func (s *supervisor) start(name string, args ...string) (*process, error) {
	p := &process{name: name, logPath: filepath.Join(s.logDir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = &exec.Cmd{
		Path: s.executable,
		Args: append([]string{name}, args...),
		Dir:  s.home,
		// Nothing of the user's: etcd takes ETCD_… for flags, and kwok reads files in the home directory.
		Env:        []string{"HOME=" + s.home, "TMPDIR=" + s.home, lifelineVariable + "=3"},
		Stdout:     log,
		Stderr:     log,
		ExtraFiles: []*os.File{s.lifeline}, // descriptor 3
		// A process group of its own: Ctrl-C in a terminal reaches the supervisor alone, which keeps the order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	s.processes = append(s.processes, p)
	go func() {
		_ = p.cmd.Wait() // the process state has all details of the error
		close(p.exited)
		s.lost <- p
	}()
	return p, nil
}

// stop ends all components, the last one started first, and waits for each: the API server hangs on its way
// out if etcd is gone before it. Those still there after grace are killed.
func (s *supervisor) stop(grace time.Duration) {
	killTime := time.Now().Add(grace)
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop(time.Until(killTime))
	}
	_ = s.lifelineEnd.Close()
	_ = s.lifeline.Close()
}

// complete reports whether all components that were started are still there.
func (s *supervisor) complete() bool {
	for _, p := range s.processes {
		select {
		case <-p.exited:
			return false
		default:
		}
	}
	return true
}

func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it is gone
	select {
	case <-p.exited:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// lostError is the error for a component that ended without a request to stop.
type lostError struct {
	name, state, logTail string
}

func newLostError(p *process) *lostError {
	// The log is read now: it may be removed before the error is read.
	return &lostError{name: p.name, state: p.cmd.ProcessState.String(), logTail: p.logTail()}
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%s is gone (%s)%s", e.name, e.state, e.logTail)
}

// logTail returns the end of the log, indented, as the end of a message.
func (p *process) logTail() string {
	const lines, bytesAtMost = 20, 16 << 10
	end, err := readEnd(p.logPath, bytesAtMost)
	if err != nil {
		return fmt.Sprintf("; its log can't be read: %v", err)
	}
	all := bytes.Split(bytes.TrimSpace(end), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "; the end of its log:\n  | " + string(bytes.Join(all, []byte("\n  | ")))
}

// readEnd reads the last bytes of a file, at most n.
func readEnd(path string, n int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-n), n))
}

// dieWithSupervisor ends this process, a component, as soon as its supervisor is gone. Without a supervisor
// (envtest runs the components too) it does nothing.
func dieWithSupervisor() {
	fd, err := strconv.Atoi(os.Getenv(lifelineVariable))
	if err != nil {
		return
	}
	_ = os.Unsetenv(lifelineVariable)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		if _, err := lifeline.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			os.Exit(1)
		}
	}()
}
