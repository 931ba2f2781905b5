package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

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
