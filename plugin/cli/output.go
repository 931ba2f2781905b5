package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"huolala.cn/app-operator/internal/live"
	"huolala.cn/app-operator/plugin/view"
)

// The size of a terminal with an unknown size, and of output to no terminal, where nothing is cut.
const (
	defaultWidth, defaultHeight = 80, 24
	// redrawEvery is how often a view that is followed is read again.
	redrawEvery = 2 * time.Second
)

// colors are the values of --color.
var colors = []string{"auto", "always", "never"}

// styleOf returns how text is drawn to a stream.
func (r *root) styleOf(stream any) (view.Style, error) {
	s := view.Style{ASCII: !r.hasUnicode()}
	if !slices.Contains(colors, r.color) {
		return s, fmt.Errorf("--color: %q is none of auto, always and never", r.color)
	}
	width, _, terminal := sizeOf(stream)
	s.Width = width
	s.Color = r.color == "always" || r.color == "auto" && terminal && r.Getenv("NO_COLOR") == "" && r.Getenv("TERM") != "dumb"
	return s, nil
}

// hasUnicode reports whether the locale has more than ASCII.
func (r *root) hasUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(r.Getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// sizeOf returns the size of a terminal; the width is 0 for a stream that is none.
func sizeOf(stream any) (width, height int, terminal bool) {
	if printed, ok := stream.(*output); ok {
		stream = printed.to
	}
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight, true
	}
	return width, height, true
}

// printData writes data as JSON or YAML, and reports whether the format is one of them.
func (r *root) printData(format string, data any) (bool, error) {
	switch format {
	case "json":
		text, err := view.EncodeJSON(data)
		r.printText(string(text))
		return true, err
	case "yaml":
		text, err := view.EncodeYAML(data)
		r.printText(string(text))
		return true, err
	}
	return false, nil
}

// outputFlag adds -o with the formats that a command has.
func outputFlag(cmd *cobra.Command, into *string, formats ...string) {
	cmd.Flags().StringVarP(into, "output", "o", "", "Output format: "+strings.Join(formats, ", ")+".")
	check := func(*cobra.Command, []string) error {
		if *into != "" && !slices.Contains(formats, *into) {
			return fmt.Errorf("--output: %q is none of %s", *into, strings.Join(formats, ", "))
		}
		return nil
	}
	cmd.PreRunE = check
}

// watchFlag adds -w to a command with -o. A format other than texts is data, which is printed once: -w refuses the format.
func watchFlag(cmd *cobra.Command, into *bool, output *string, texts ...string) {
	cmd.Flags().BoolVarP(into, "watch", "w", false, "Go on, and show what changes.")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *into && *output != "" && !slices.Contains(texts, *output) {
			return fmt.Errorf("--watch shows text, and --output %s is data; remove one", *output)
		}
		return check(cmd, args)
	}
}

// printDrawing prints what draw returns; with follow, again and again, in place where the output is a terminal, until the context ends. Once a
// drawing has been printed, a read that may succeed later is repeated without a limit. what names the object that is read.
func (r *root) printDrawing(ctx context.Context, what string, follow bool, draw func(context.Context, view.Style) (string, error)) error {
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	text, err := draw(ctx, style)
	if err != nil {
		return err
	}
	if !follow {
		r.printText(text)
		return nil
	}
	update, again := r.newUpdater(), r.newRetrier(what, 0)
	again.until = time.Time{}
	if isTerminal(r.Out) { // A line of the standard error would be in the way of the block.
		again.print = func(note string) { _ = update(note + text) } // The next drawing has the error, too.
	}
	for {
		if err := errors.Join(update(text), r.outputError()); err != nil {
			return err
		}
		text, err = redraw(ctx, again, func(ctx context.Context) (string, error) {
			style.Width, _, _ = sizeOf(r.Out)
			return draw(ctx, style)
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // The user has ended it.
		}
		if err != nil {
			return err
		}
	}
}

// redraw returns the next drawing after a pause. It repeats a read that may succeed later.
func redraw(ctx context.Context, again *retrier, draw func(context.Context) (string, error)) (string, error) {
	for sleepFor(ctx, redrawEvery) {
		bounded, end := again.boundRead(ctx)
		text, err := draw(bounded)
		end()
		if ctx.Err() != nil || !again.wantsRetry(err) {
			return text, err
		}
	}
	return "", ctx.Err()
}

// newUpdater returns what replaces the text on a terminal. Elsewhere, it prints each text that is not the one before.
func (r *root) newUpdater() func(text string) error {
	if _, _, terminal := sizeOf(r.Out); terminal {
		block := live.New(r.Out, func() (int, int) {
			width, height, _ := sizeOf(r.Out)
			return width, height
		})
		return block.Draw
	}
	last := ""
	return func(text string) error {
		if text != last {
			r.printText(text)
		}
		last = text
		return nil
	}
}

// sleepFor waits, and returns false if the context ends.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
