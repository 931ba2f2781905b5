package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

// historyOptions are the flags of history.
type historyOptions struct {
	revision   int64
	diff       string
	part       string
	showValues bool
	output     string
}

func (r *root) historyCommand() *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use: "history NAME", Short: "The recorded revisions, and what changed in each; of a Task, its runs", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			s, err := c.readSnapshot(ctx, t, false)
			if err != nil {
				return err
			}
			if t.kind.Scheduled {
				return r.printRuns(t, view.RunsOf(s), &o)
			}
			h, err := view.HistoryOf(s, view.Part(o.part))
			if err != nil {
				return err
			}
			return r.printHistory(h, &o)
		}),
	}
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "Print the whole spec of this revision.")
	cmd.Flags().StringVar(&o.diff, "diff", "", "Print what differs between two revisions, as A..B.")
	partFlag(cmd, &o.part)
	cmd.Flags().BoolVar(&o.showValues, "show-values", false, "Show values that may be secret, too.")
	outputFlag(cmd, &o.output, "json", "yaml")
	atLeastOne(cmd, "revision")
	checkDiff := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("diff") && cmd.Flags().Changed("revision") {
			return errors.New("--diff and --revision are mutually exclusive; remove one")
		}
		if cmd.Flags().Changed("diff") {
			if _, _, err := revisionsOf(o.diff); err != nil {
				return err
			}
		}
		return checkDiff(cmd, args)
	}
	return cmd
}

// printRuns prints the runs of a Task, which have no revisions.
func (r *root) printRuns(t target, runs *view.Runs, o *historyOptions) error {
	if o.revision != 0 || o.diff != "" || o.part != "" {
		return wrongUse(fmt.Errorf(messageRunsAlone, t.commandLine("history")))
	}
	if done, err := r.printData(o.output, runs); done {
		return err
	}
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	r.printText(runs.Text(style, time.Now()))
	return nil
}

func partFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "part", "", "Of a CloudManager: front or identity.")
}

func (r *root) printHistory(h *view.History, o *historyOptions) error {
	if o.revision != 0 {
		rev, err := h.FindRevision(o.revision)
		if err != nil {
			return err
		}
		spec := rev.Spec
		if !o.showValues {
			spec = view.RedactSpec(spec)
		}
		_, err = r.printData(cmp.Or(o.output, "yaml"), spec)
		return err
	}
	if o.diff != "" {
		return r.printDiff(h, o)
	}
	if !o.showValues {
		for i := range h.Revisions {
			h.Revisions[i].Changes = view.RedactChanges(h.Revisions[i].Changes)
		}
	}
	if done, err := r.printData(o.output, h); done {
		return err
	}
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	r.printText(h.Text(style, time.Now()))
	return nil
}

// revisionsOf returns the numbers of the two revisions of --diff.
func revisionsOf(diff string) (a, b int64, err error) {
	from, to, found := strings.Cut(diff, "..")
	a, err = strconv.ParseInt(from, 10, 64)
	b, err2 := strconv.ParseInt(to, 10, 64)
	if !found || err != nil || err2 != nil || a < 1 || b < 1 {
		return 0, 0, fmt.Errorf("--diff: %q is not A..B, the numbers of two revisions", diff)
	}
	return a, b, nil
}

func (r *root) printDiff(h *view.History, o *historyOptions) error {
	a, b, err := revisionsOf(o.diff)
	if err != nil {
		return err
	}
	found, err := h.CompareRevisions(a, b)
	if err != nil {
		return err
	}
	if !o.showValues {
		found.Changes = view.RedactChanges(found.Changes)
	}
	if done, err := r.printData(o.output, found); done {
		return err
	}
	return r.printChanges(found.Changes, o.showValues)
}

// printChanges prints differences, a line each. Values that are whole blocks are printed below their line, the old one first.
func (r *root) printChanges(changes []view.Change, showValues bool) error {
	if !showValues {
		changes = view.RedactChanges(changes)
	}
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	style.Width = 0
	for _, c := range changes {
		r.printf("  %s\n", style.OneLine(c.String()))
		if !showValues {
			continue
		}
		if err := errors.Join(r.printBlock(style, "-", c.Old), r.printBlock(style, "+", c.New)); err != nil {
			return err
		}
	}
	return nil
}

// printBlock prints a value that is a whole block, each line behind a sign, and nothing for a plain value.
func (r *root) printBlock(style view.Style, sign string, value any) error {
	switch value.(type) {
	case map[string]any, []any:
	default:
		return nil
	}
	text, err := view.EncodeYAML(value)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		r.printf("      %s %s\n", sign, style.OneLine(strings.TrimSuffix(line, "\n")))
	}
	return nil
}
