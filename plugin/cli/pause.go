package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

// pauseCommand is pause, or resume.
func (r *root) pauseCommand(pause bool) *cobra.Command {
	var wait bool
	use, short, done := "resume NAME...", "Let changes of the spec take effect again", "resumed"
	if pause {
		use, short, done = "pause NAME...", "Stop all writes to the children; what runs keeps running", "paused"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: takes(1, -1), ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.connect()
			if err != nil {
				return err
			}
			targets, err := c.resolveAll(cmd.Context(), args)
			if err != nil {
				return err
			}
			for _, t := range targets {
				resource, err := c.change(cmd.Context(), t, func(now *view.Resource) (map[string]any, error) {
					if now.Paused == pause {
						return nil, errUnchanged
					}
					return map[string]any{"spec": map[string]any{"paused": pause}}, nil
				})
				if errors.Is(err, errUnchanged) {
					fmt.Fprintf(r.Out, "%s is %s already\n", resource.Object(), done)
					continue
				}
				if err != nil {
					return err
				}
				r.warnGitOps(resource)
				fmt.Fprintf(r.Out, "%s %s\n", resource.Object(), done)
			}
			return r.finish(cmd.Context(), c, wait, targets...)
		},
	}
	if !pause {
		cmd.Flags().BoolVar(&wait, "wait", false, "Wait until they are ready.")
		cmd.Flags().BoolP("yes", "y", false, "No effect: this command does not ask. The others that can replace pods have it.")
	}
	return cmd
}
