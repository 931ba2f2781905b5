package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

// pauseCommand is pause, or resume.
func (r *root) pauseCommand(pause bool) *cobra.Command {
	var wait bool
	use, short, done := "resume NAME...", "Let changes of the spec take effect again, and runs of a Task start", "resumed"
	if pause {
		use, short, done = "pause NAME...", "Stop all writes to the children; what runs keeps running", "paused"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: takesArguments(1, -1), ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			targets, err := c.resolveAll(cmd.Context(), args)
			if err != nil {
				return err
			}
			all := make([]written, len(targets))
			for i, t := range targets {
				resource, err := c.changeResource(cmd.Context(), t, func(now *view.Resource) (map[string]any, error) {
					spec := pauseFields(now, pause)
					if len(spec) == 0 {
						return nil, errUnchanged
					}
					return map[string]any{"spec": spec}, nil
				})
				all[i] = writtenNow(t, resource, err)
				if err := r.reportChange(resource, err, done); err != nil {
					return err
				}
				if pause && t.kind.Scheduled {
					fmt.Fprintf(r.Err, messagePausedRuns, resource.ObjectName(), t.commandLine("suspend"))
				}
			}
			return r.waitForWritten(cmd.Context(), c, wait, all...)
		},
	}
	if !pause {
		cmd.Flags().BoolVar(&wait, "wait", false, "Wait until they are ready.")
		cmd.Flags().BoolP("yes", "y", false, "No effect: this command does not ask. The others that can replace pods have it.")
	}
	return cmd
}

// pauseFields returns the fields of the spec to change so that a resource is paused, or is neither paused nor suspended.
func pauseFields(now *view.Resource, pause bool) map[string]any {
	spec := map[string]any{}
	if now.Paused != pause {
		spec["paused"] = pause
	}
	if !pause && now.IsSuspended() {
		spec["suspended"] = false
	}
	return spec
}
