package controllers

import "github.com/go-logr/logr"

// verbosest is the most detailed level that is logged. Above it client-go logs the bodies of its requests and their answers,
// which have passwords in them.
const verbosest = 7

// withoutBodies returns a logger that logs nothing above the level verbosest, whatever the command line says.
func withoutBodies(log logr.Logger) logr.Logger {
	return log.WithSink(bodiless{log.GetSink()})
}

// bodiless is a sink that is deaf to what is too detailed.
type bodiless struct{ logr.LogSink }

var _ logr.CallDepthLogSink = bodiless{}

// Enabled implements logr.LogSink.
func (b bodiless) Enabled(level int) bool { return level <= verbosest && b.LogSink.Enabled(level) }

// WithValues implements logr.LogSink.
func (b bodiless) WithValues(pairs ...any) logr.LogSink {
	return bodiless{b.LogSink.WithValues(pairs...)}
}

// WithName implements logr.LogSink.
func (b bodiless) WithName(name string) logr.LogSink { return bodiless{b.LogSink.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (b bodiless) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := b.LogSink.(logr.CallDepthLogSink); ok {
		return bodiless{deep.WithCallDepth(depth)}
	}
	return b
}
