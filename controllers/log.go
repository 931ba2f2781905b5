package controllers

import (
	"slices"

	"github.com/go-logr/logr"
)

// verbosest is the most detailed level that is logged. Above it client-go logs the bodies of its requests and their answers,
// which have passwords in them.
const verbosest = 7

// withoutBodies returns a logger that logs nothing above the level verbosest, whatever the command line says.
func withoutBodies(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1) // What is logged comes by way of bodiless.
	}
	return log.WithSink(bodiless{LogSink: sink})
}

// bodiless is a sink that is deaf to what is too detailed. It keeps values until something is logged with them: each look at
// a resource has values of its own, and most have nothing to say.
type bodiless struct {
	logr.LogSink
	values []any
}

var _ logr.CallDepthLogSink = bodiless{}

// Enabled implements logr.LogSink.
func (b bodiless) Enabled(level int) bool { return level <= verbosest && b.LogSink.Enabled(level) }

// Info implements logr.LogSink.
func (b bodiless) Info(level int, message string, pairs ...any) {
	b.LogSink.Info(level, message, slices.Concat(b.values, pairs)...)
}

// Error implements logr.LogSink.
func (b bodiless) Error(err error, message string, pairs ...any) {
	b.LogSink.Error(err, message, slices.Concat(b.values, pairs)...)
}

// WithValues implements logr.LogSink.
func (b bodiless) WithValues(pairs ...any) logr.LogSink {
	return bodiless{b.LogSink, slices.Concat(b.values, pairs)}
}

// WithName implements logr.LogSink.
func (b bodiless) WithName(name string) logr.LogSink {
	return bodiless{b.LogSink.WithName(name), b.values}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (b bodiless) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := b.LogSink.(logr.CallDepthLogSink); ok {
		return bodiless{deep.WithCallDepth(depth), b.values}
	}
	return b
}
