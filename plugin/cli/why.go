package cli

import (
	"time"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

func (r *root) whyCommand() *cobra.Command {
	var output string
	var follow bool
	var events int
	cmd := &cobra.Command{
		Use: "why NAME", Aliases: []string{"status"}, Short: "Why a resource is not ready: the root cause, what still works, what to do",
		Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.showView(cmd, args[0], output, follow, events > 0, func(s *view.Snapshot, style view.Style) (any, string) {
				why := view.WhyOf(s, events)
				text := why.Text(style, time.Now())
				return why, text
			})
		},
	}
	outputFlag(cmd, &output, "json", "yaml")
	watchFlag(cmd, &follow, &output)
	cmd.Flags().IntVar(&events, "events", 5, "How many of the latest events to show.")
	atLeastZero(cmd, "events")
	return cmd
}
