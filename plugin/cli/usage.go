package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongUse adds the exit code exitError to an error without an exit code. It returns nil for nil.
func wrongUse(err error) error {
	var coded *exit
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &exit{code: exitError, text: err.Error()}
}

// takesArguments checks how many arguments a command has: from least to most, or any number for a negative most.
func takesArguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		given := fmt.Sprintf("%d arguments are given: %s", len(args), strings.Join(args, " "))
		switch len(args) {
		case 0:
			given = "no argument is given"
		case 1:
			given = "1 argument is given: " + args[0]
		}
		return fmt.Errorf("%s; write \"%s\"", given, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

// annotationLeast is the annotation of a flag with the least number that it takes.
const annotationLeast = "least"

// atLeastZero and atLeastOne have flags take no number or duration that is less.
func atLeastZero(cmd *cobra.Command, names ...string) { atLeast(cmd.Flags(), "0", names) }

func atLeastOne(cmd *cobra.Command, names ...string) { atLeast(cmd.Flags(), "1", names) }

func atLeast(flags *pflag.FlagSet, least string, names []string) {
	for _, name := range names {
		flags.Lookup(name).Annotations = map[string][]string{annotationLeast: {least}}
	}
}

// checkFlags returns an error for a flag that is given with too small a number, so that none of those counts as a flag that is not given.
func (r *root) checkFlags(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		least, value := flag.Annotations[annotationLeast], flag.Value.String()
		if len(least) > 0 && (strings.HasPrefix(value, "-") || least[0] == "1" && value == "0") {
			errs = append(errs, fmt.Errorf("--%s: %s is less than %s", flag.Name, value, least[0]))
		}
	})
	if !slices.Contains(colors, r.color) {
		errs = append(errs, fmt.Errorf("--color: %q is none of auto, always and never", r.color))
	}
	return errors.Join(errs...)
}

// waits reports whether a command was told to wait: the exit code 1 is for a failed rollout then.
func waits(cmd *cobra.Command) bool {
	wait, wave := cmd.Flags().Lookup("wait"), cmd.Flags().Lookup("wave")
	return wait != nil && wait.Value.String() == "true" || wave != nil && wave.Value.String() != ""
}

// classifyUsage has each command return errors of its arguments and flags with the exit code of a wrong use, and all errors without an exit code if it
// was told to wait.
func (r *root) classifyUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrongUse(err) })
	if count := cmd.Args; count != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error { return wrongUse(count(cmd, args)) }
	}
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := r.checkFlags(cmd); err != nil {
			return wrongUse(err)
		}
		if check == nil {
			return nil
		}
		return wrongUse(check(cmd, args))
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if waits(cmd) {
				err = wrongUse(err)
			}
			return err
		}
	}
	for _, below := range cmd.Commands() {
		r.classifyUsage(below)
	}
}
