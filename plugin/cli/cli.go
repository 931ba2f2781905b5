// Package cli is the kubectl plug-in "kubectl happ": it reads the API as its user, shows what package view makes of it, and writes by
// patches that have a precondition.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"huolala.cn/app-operator/plugin/view"
)

// Program is how the plug-in was started.
type Program struct {
	// Path is the path of the program, Args are its arguments.
	Path            string
	Args            []string
	Version, Commit string
	In              io.Reader
	Out, Err        io.Writer
	Getenv          func(string) string
}

// root is what all commands share.
type root struct {
	Program
	flags *genericclioptions.ConfigFlags
	color string
	chunk int64
}

// Exit codes in addition to 0 and 1. exitError is the code for wrong arguments and flags, and, in plan and in commands that wait, for any error.
const (
	exitError   = 2
	exitTimeout = 3
)

// exit is an error with an exit code of its own. It is printed unless it is empty.
type exit struct {
	code int
	text string
}

// Error implements error.
func (e *exit) Error() string { return e.text }

// Run runs the plug-in and returns its exit code.
func Run(ctx context.Context, p Program) int {
	p.Err = view.CleanWriter(p.Err) // Errors and warnings repeat what others have written.
	p.Out = &output{to: p.Out}
	r := &root{Program: p, flags: genericclioptions.NewConfigFlags(true)}
	cmd := r.rootCommand() //nolint:contextcheck // cobra hands each command the context of ExecuteContext.
	cmd.SetArgs(p.Args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		err = r.outputError()
	}
	if err == nil {
		return 0
	}
	var coded *exit
	switch {
	case errors.As(err, &coded):
	case strings.HasPrefix(err.Error(), "unknown command "): // cobra has no type for it.
		coded = &exit{code: exitError, text: err.Error()}
	default:
		coded = &exit{code: 1, text: err.Error()}
	}
	if ctx.Err() != nil {
		return 130
	}
	if coded.text != "" {
		fmt.Fprintln(p.Err, r.programName()+": "+coded.text)
	}
	return coded.code
}

// programName is how the plug-in is called: kubectl finds plug-ins by the prefix of their file.
func (r *root) programName() string {
	if rest, ok := strings.CutPrefix(r.fileName(), "kubectl-"); ok {
		return "kubectl " + rest
	}
	return r.fileName()
}

// fileName is the name of the program's file, for which a shell completes arguments.
func (r *root) fileName() string { return strings.TrimSuffix(filepath.Base(r.Path), ".exe") }

func (r *root) rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   r.fileName(),
		Short: "See and change resources of the kinds " + view.NameKinds("and", view.AnyKind),
		Long: "See and change the resources of app-operator. NAME is the name of an App. For another kind, write KIND/NAME, such as\n" +
			"mbox/cart, hud/cart, cmgr/office or task/report; for something below a resource, write what it is: pod/cart-7d9c4-8x2kf, deploy/cart.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: r.programName()},
		SilenceErrors: true, SilenceUsage: true,
	}
	cmd.SetIn(r.In)
	cmd.SetOut(r.Out)
	cmd.SetErr(r.Err)
	flags := cmd.PersistentFlags()
	r.flags.AddFlags(flags)
	flags.StringVar(&r.color, "color", "auto", "When to use colors: auto, always or never. NO_COLOR in the environment switches auto off.")
	flags.Int64Var(&r.chunk, "chunk-size", 500, "How many objects to request at a time.")
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(
		r.listCommand(), r.treeCommand(), r.whyCommand(), r.logsCommand(), r.reportCommand(), r.waitCommand(), r.planCommand(), r.historyCommand(),
		r.rollbackCommand(), r.holdCommand(), r.unholdCommand(), r.promoteCommand(), r.abortCommand(),
		r.pauseCommand(true), r.suspendCommand(), r.pauseCommand(false), r.refreshCommand(), r.restartCommand(), r.runCommand(),
		r.importCommand(), r.adoptCommand(), r.ejectCommand(),
		r.uiCommand(), r.checkCommand(), r.versionCommand(), r.completionCommand(),
	)
	atLeast(flags, "0", []string{"chunk-size"})
	r.addHelp(cmd)
	r.classifyUsage(cmd)
	return cmd
}
