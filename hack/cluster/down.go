package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// downTimeout is more than a supervisor takes to stop.
const downTimeout = 30 * time.Second

// down stops the cluster with a name, waits until it is gone, and returns a description of the outcome. A missing cluster is no error.
func down(ctx context.Context, name string) (outcome string, err error) {
	s, err := newState(name)
	if err != nil {
		return "", err
	}
	pid, err := s.supervisorPID()
	if err != nil {
		return "", err
	}
	if pid == 0 {
		return s.sweep("not running")
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return "", err
	}
	defer process.Release()
	// Look again now that we have got hold of the process: if it is still the supervisor, the signal reaches no
	// other that came to the same id in between (on Linux; elsewhere a process is no more than its id).
	if again, err := s.supervisorPID(); err != nil || again != pid {
		return s.sweep("not running any more")
	}
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return "", err
	}
	if err := s.waitUntilGone(ctx, pid); err != nil {
		return "", err
	}
	return s.sweep("stopped")
}

// waitUntilGone waits until that supervisor doesn't hold the lock any more.
func (s *state) waitUntilGone(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	for {
		if current, err := s.supervisorPID(); err == nil && current != pid {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cluster %q (pid %d) is still running after %s", s.name, pid, downTimeout)
		case <-time.After(pollInterval):
		}
	}
}

// sweep removes what a supervisor that was killed has left behind, if one has, and adds that to the outcome.
func (s *state) sweep(outcome string) (string, error) {
	err := s.acquire(0)
	if running := (*runningError)(nil); errors.Is(err, fs.ErrNotExist) || errors.As(err, &running) {
		return outcome, nil
	}
	if err != nil {
		return "", err
	}
	return outcome + "; removed the remains of one that had been killed", s.release()
}
