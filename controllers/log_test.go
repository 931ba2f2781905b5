package controllers

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// newNotedLogger returns a logger that notes what it logs, up to any level.
func newNotedLogger(lines *[]string) logr.Logger {
	return funcr.New(func(prefix, args string) { *lines = append(*lines, prefix+" "+args) }, funcr.Options{Verbosity: 100})
}

// TestWithoutBodies logs nothing at the levels at which client-go logs the bodies of requests.
func TestWithoutBodies(t *testing.T) {
	var lines []string
	log := withoutBodies(newNotedLogger(&lines))
	for level := range 12 {
		lines = nil
		log.V(level).Info("a message", "key", "value")
		if got := len(lines); (got == 1) != (level <= maxVerbosity) {
			t.Errorf("level %d: %q", level, lines)
		}
		if got := log.V(level).Enabled(); got != (level <= maxVerbosity) {
			t.Errorf("level %d is enabled: %t", level, got)
		}
	}
}

// TestLoggerKeepsItsValues has the values and names of a logger in what is logged with it, in order, and not in what is logged with
// another one.
func TestLoggerKeepsItsValues(t *testing.T) {
	var lines, want []string
	plain := newNotedLogger(&want)
	log := withoutBodies(newNotedLogger(&lines))
	for _, each := range []struct {
		log  logr.Logger
		into *[]string
	}{{log, &lines}, {plain, &want}} {
		one := each.log.WithValues("a", 1)
		two := one.WithValues("b", 2)
		other := one.WithValues("c", 3)
		two.Info("two", "d", 4)
		other.WithName("name").Error(errors.New("broken"), "other")
		each.log.Info("none")
		one.V(3).Info("one")
		one.WithCallDepth(1).Info("deeper")
	}
	if len(lines) != 5 || !slices.Equal(lines, want) {
		t.Errorf("logged are\n%s\nwant\n%s", fmt.Sprint(lines), fmt.Sprint(want))
	}
}

// plainSink is a sink that does not know of call depth.
type plainSink struct{ logr.LogSink }

// TestLoggerOfAPlainSink works with a sink that does not know of call depth.
func TestLoggerOfAPlainSink(t *testing.T) {
	var lines []string
	log := withoutBodies(logr.New(plainSink{newNotedLogger(&lines).GetSink()}))
	log.WithCallDepth(1).Info("a message")
	if len(lines) != 1 {
		t.Errorf("%q", lines)
	}
}
