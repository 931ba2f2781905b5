package controllers

import (
	"slices"

	"github.com/go-logr/logr"
)

// maxVerbosity is the most detailed level that is logged. Above it client-go logs the bodies of its requests and their answers,
// which have passwords in them.
const maxVerbosity = 7

// withoutBodies returns a logger that logs nothing above the level verbosest, whatever the command line says.
func withoutBodies(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1) // cappedSink adds one stack frame.
	}
	return log.WithSink(cappedSink{LogSink: sink})
}

// cappedSink drops entries above maxVerbosity. It keeps values until an entry is logged with them: each reconcile has values of its own,
// and most reconciles log nothing.
type cappedSink struct {
	logr.LogSink
	values []any
}

var _ logr.CallDepthLogSink = cappedSink{}

// Enabled implements logr.LogSink.
func (b cappedSink) Enabled(level int) bool { return level <= maxVerbosity && b.LogSink.Enabled(level) }

// Info implements logr.LogSink.
func (b cappedSink) Info(level int, message string, pairs ...any) {
	b.LogSink.Info(level, message, slices.Concat(b.values, pairs)...)
}

// Error implements logr.LogSink.
func (b cappedSink) Error(err error, message string, pairs ...any) {
	b.LogSink.Error(err, message, slices.Concat(b.values, pairs)...)
}

// WithValues implements logr.LogSink.
func (b cappedSink) WithValues(pairs ...any) logr.LogSink {
	return cappedSink{b.LogSink, slices.Concat(b.values, pairs)}
}

// WithName implements logr.LogSink.
func (b cappedSink) WithName(name string) logr.LogSink {
	return cappedSink{b.LogSink.WithName(name), b.values}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (b cappedSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := b.LogSink.(logr.CallDepthLogSink); ok {
		return cappedSink{deep.WithCallDepth(depth), b.values}
	}
	return b
}
