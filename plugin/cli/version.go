package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (r *root) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "The version of this plug-in", Args: takesArguments(0, 0),
		Run: func(*cobra.Command, []string) {
			r.printf("%s %s, commit %s, %s %s/%s\n", r.programName(), r.Version, r.Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
