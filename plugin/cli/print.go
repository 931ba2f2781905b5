package cli

import (
	"fmt"
	"io"
	"sync"

	"huolala.cn/app-operator/plugin/view"
)

// output is the standard output of a command. It keeps the first error of a write, which Run returns to the shell whatever a command does with it:
// a file that is cut off must not look like a whole one.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	n, err := o.to.Write(text)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = fmt.Errorf("write the output: %w", err)
		}
	}
	return n, err
}

// firstError returns the error of the first write that has failed, nil if all have succeeded.
func (o *output) firstError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// outputError returns the first error of a write to the standard output, for a command that must not go on after one.
func (r *root) outputError() error {
	to := r.Out
	if piped, ok := to.(pipeWriter); ok {
		to = piped.to
	}
	if printed, ok := to.(*output); ok {
		return printed.firstError()
	}
	return nil
}

// printf prints a format of the plug-in's own. Each argument with a text is cleaned, and is one line: names, images and annotations are in the words
// of others.
func (r *root) printf(format string, args ...any) {
	fmt.Fprintf(r.Out, format, cleanArguments(args)...) // The output keeps the error.
}

// cleanArguments returns the arguments of a format, with each text in one line that a terminal can show.
func cleanArguments(args []any) []any {
	cleaned := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			cleaned[i] = view.CleanLine(arg)
		case error:
			cleaned[i] = view.CleanLine(arg.Error())
		case fmt.Stringer:
			cleaned[i] = view.CleanLine(arg.String())
		default:
			cleaned[i] = arg
		}
	}
	return cleaned
}

// printText prints a text of package view, which is clean and may have colors and several lines.
func (r *root) printText(text string) {
	_, _ = io.WriteString(r.Out, text) // The output keeps the error.
}
