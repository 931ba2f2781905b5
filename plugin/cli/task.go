package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

// The answers to commands that do not apply to a Task. Each begins with the Task, and ends with what to do instead.
const (
	messageRunsAlone  = "--revision, --diff and --part are for revisions, and a Task has runs; see \"%s\""
	messageNoRestart  = "%s has no pods that serve, so nothing is restarted; start a run by hand: %s"
	messageNoRun      = "%s runs its own command; start a run by hand: %s; or name the App that spec.app names"
	messageNoRollback = "%s has no recorded revisions; restore its spec where you keep it, or roll back the App that spec.app names"
	messageNoHold     = "%s cannot be held: its next run follows the pods that its App has in force; hold the App that spec.app names"
	messageNoCanary   = "%s has no canary: its next run follows the pods that its App has in force; name the App that spec.app names"
	messageNoRefresh  = "%s takes over sizes and renderings with its next run; there is nothing to refresh"
	messageNoSchedule = "%s has no schedule to suspend; to stop writes to its children: %s"
	messagePausedRuns = "The runs of %s go on; to start no more of them: %s\n"
)

// refuseTask returns an error with a message about a target of a kind with a schedule, nil for any other target.
func refuseTask(t target, message string, arguments ...any) error {
	if !t.kind.Scheduled {
		return nil
	}
	return fmt.Errorf(message, append([]any{t.kind.Name + " " + t.namespace + "/" + t.name}, arguments...)...)
}

// runByHand returns the command that starts a run of a Task.
func (t target) runByHand() string {
	return view.CommandLine(t.namespace, "kubectl create job", t.name+"-again", "--from=cronjob/"+t.name)
}

// suspendCommand is suspend, which resume ends.
func (r *root) suspendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "suspend NAME...", Short: "Start no run of a Task; one that runs goes on", Args: takesArguments(1, -1), ValidArgsFunction: r.completeNames,
		Long: "Start no run of a Task, by spec.suspended; a run that has started goes on. \"resume\" ends it: the latest run that was due meanwhile\n" +
			"then starts, unless it is too late by spec.startingDeadlineSeconds.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			targets, err := c.resolveAll(cmd.Context(), args)
			if err != nil {
				return err
			}
			for _, t := range targets {
				if !t.kind.Scheduled {
					return fmt.Errorf(messageNoSchedule, t.kind.Name+" "+t.namespace+"/"+t.name, t.commandLine("pause"))
				}
			}
			for _, t := range targets {
				resource, err := c.changeResource(cmd.Context(), t, func(now *view.Resource) (map[string]any, error) {
					if now.IsSuspended() {
						return nil, errUnchanged
					}
					return map[string]any{"spec": map[string]any{"suspended": true}}, nil
				})
				if err := r.reportChange(resource, err, "suspended"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// reportChange prints that a resource is changed, with a warning where a tool applies it from Git, or that it was so already. It returns any
// other error of the change.
func (r *root) reportChange(resource *view.Resource, err error, done string) error {
	if errors.Is(err, errUnchanged) {
		r.printf("%s is %s already\n", resource.ObjectName(), done)
		return nil
	}
	if err != nil {
		return err
	}
	r.warnGitOps(resource)
	r.printf("%s %s\n", resource.ObjectName(), done)
	return nil
}
