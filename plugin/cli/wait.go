package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// waitOptions are the state to wait for, and the conditions for giving up.
type waitOptions struct {
	until   string
	timeout time.Duration
	fail    string
	grace   time.Duration
	// after is the change whose effect is waited for, without a version for none.
	after written
	// apart is true if the timeout is for a command before the rollout and for what follows the command, each.
	apart bool
	// refresh is true if the change is a refresh, which has no effect on a paused or held resource. With passCanary, a canary that waits for its promotion ends
	// the wait.
	refresh, passCanary bool
}

// waitEvery is how often a resource is read while it is waited for.
const waitEvery = time.Second

func (r *root) waitCommand() *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use: "wait NAME...", Short: "Show the progress of rollouts until they are done", Args: takesArguments(1, -1), ValidArgsFunction: r.completeNames,
		Long: "Show the progress of rollouts until they are done. Exit status: 0 once all resources are in the state of --for, 1 if a\n" +
			"rollout is stalled or paused, a pod cannot run, the run of a Task has failed, or the resource is being deleted, 2 after an error,\n" +
			"3 after the timeout.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return &exit{exitError, err.Error()}
			}
			targets, err := c.resolveAll(cmd.Context(), args)
			if err != nil {
				return &exit{exitError, err.Error()}
			}
			for _, t := range targets {
				if err := r.waitFor(cmd.Context(), c, t, o); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.until, "for", "ready", "What to wait for: ready, synced (the spec is in force), canary (its pods are ready), or deleted.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "When to give up, for each resource.")
	cmd.Flags().StringVar(&o.fail, "fail", "cause", "What counts as failed: stalled, cause (a pod that cannot run for the time of --grace), or never.")
	cmd.Flags().DurationVar(&o.grace, "grace", 30*time.Second, "How long a pod may have a cause before that counts as failed.")
	atLeastZero(cmd, "timeout", "grace")
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.checkFlags() }
	return cmd
}

func (o *waitOptions) checkFlags() error {
	switch o.until {
	case "ready", "synced", "canary", "deleted":
	default:
		return fmt.Errorf("--for: %q is none of ready, synced, canary and deleted", o.until)
	}
	switch o.fail {
	case "stalled", "cause", "never":
	default:
		return fmt.Errorf("--fail: %q is none of stalled, cause and never", o.fail)
	}
	return nil
}

// defaultWait is how --wait of other commands waits.
var defaultWait = waitOptions{until: "ready", timeout: 10 * time.Minute, fail: "cause", grace: 30 * time.Second, apart: true}

// waitAfter is how --wait waits after a change.
func waitAfter(change *written) waitOptions {
	o := defaultWait
	o.after = *change
	return o
}

// waitFor waits until a resource is in the wanted state.
func (r *root) waitFor(ctx context.Context, c *clients, t target, o waitOptions) error {
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	began := time.Now()
	update, isDeleted, hasCommandEnded, timeCause := r.newUpdater(), o.deletionCheck(), commandCheck(), causeTimer()
	again := &retrier{what: t.String(), until: began.Add(o.timeout), print: func(note string) { _ = update(note) }}
	for {
		bounded, end := again.boundRead(ctx)
		s, err := c.readSnapshot(bounded, t, false)
		end()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isDeleted(s, err) {
			return update(t.kind.Name + " " + t.namespace + "/" + t.name + " is deleted\n")
		}
		if again.wantsRetry(err) {
			sleepFor(ctx, waitEvery)
			continue
		}
		if err != nil {
			return o.readError(t, err)
		}
		p := view.ProgressOf(s)
		if hasCommandEnded(&s.Resource) && o.apart {
			began = time.Now()
			again.until = began.Add(o.timeout)
		}
		text := p.OneLine() + "\n"
		if width, height, terminal := sizeOf(r.Out); terminal {
			style.Width = width
			text = p.Text(style, time.Since(began), o.timeout, height-1)
		}
		if err := update(text); err != nil {
			return err
		}
		if done, err := r.checkEnd(t, s, p, &o, timeCause(p.Cause)); done || err != nil {
			return err
		}
		if time.Since(began) > o.timeout {
			return &exit{exitTimeout, fmt.Sprintf("%s is not %s after %s: %s", t, o.until, o.timeout, p.OneLine())}
		}
		sleepFor(ctx, waitEvery)
	}
}

// checkEnd reports whether a wait is over, with an error if what is waited for has failed. same is how long the cause has been the same.
func (r *root) checkEnd(t target, s *view.Snapshot, p *view.Progress, o *waitOptions, same time.Duration) (bool, error) {
	stale := o.after.isStale(&s.Resource)
	if err := checkTakesEffect(&s.Resource); o.refresh && err != nil && p.State != view.StateDeleting {
		return false, &exit{1, err.Error() + "; see: " + t.commandLine("why")}
	}
	if o.passCanary && !stale && r.passCanary(t, &s.Resource) {
		return true, nil
	}
	if p.State != view.StateDeleting && o.isReached(s, p) {
		return true, nil
	}
	if failed := o.rolloutFailure(p, same, stale); failed != "" {
		return false, &exit{1, t.String() + " " + failed + "; see: " + t.commandLine("why")}
	}
	return false, nil
}

// causeTimer returns a function that returns, read by read, for how long the cause has been the same.
func causeTimer() func(cause string) time.Duration {
	since, last := time.Now(), ""
	return func(cause string) time.Duration {
		if cause != last {
			last, since = cause, time.Now()
		}
		return time.Since(since)
	}
}

// commandCheck returns a function that reports once, read by read, that the rollout no longer waits for its command, for which it waited at the read before.
func commandCheck() func(now *view.Resource) bool {
	waited, ended := false, false
	return func(now *view.Resource) bool {
		before := waited
		waited = now.WaitsForCommand()
		if ended || !before || waited {
			return false
		}
		ended = true
		return true
	}
}

// deletionCheck returns a function that reports, read by read, whether the resource whose deletion is waited for is gone. Another resource may have its name by
// then.
func (o *waitOptions) deletionCheck() func(s *view.Snapshot, err error) bool {
	var uid types.UID
	return func(s *view.Snapshot, err error) bool {
		if err != nil || o.until != "deleted" {
			return apierrors.IsNotFound(err) && o.until == "deleted"
		}
		uid = cmp.Or(uid, s.Resource.ObjectMeta.UID)
		return s.Resource.ObjectMeta.UID != uid
	}
}

// readError returns the error of a wait that a failed read ends: with exitTimeout if the same read may succeed later, with exitError for a refusal.
func (o *waitOptions) readError(t target, err error) error {
	if isTransient(err) {
		return &exit{exitTimeout, fmt.Sprintf("%s is not known to be %s after %s: %v", t, o.until, o.timeout, err)}
	}
	return &exit{exitError, err.Error()}
}

// isReached reports whether the resource is in the wanted state. Where workloads cannot be listed, a status that may be from before the change does not count.
func (o *waitOptions) isReached(s *view.Snapshot, p *view.Progress) bool {
	switch o.until {
	case "synced":
		return view.InForce(&s.Resource)
	case "canary":
		return s.Resource.IsObserved() && s.Resource.CanaryReady()
	case "deleted":
		return false
	}
	return p.IsDone() && (len(p.NotShown) == 0 || !o.after.isStale(&s.Resource))
}

// rolloutFailure returns why a rollout counts as failed, empty if it has not failed. same is how long the cause has been the same. With stale, the status
// may be from before the change, which may cure what is stalled.
func (o *waitOptions) rolloutFailure(p *view.Progress, same time.Duration, stale bool) string {
	switch {
	case o.until == "deleted":
		return ""
	case p.State == view.StateDeleting:
		return "is being deleted"
	case o.fail == "never":
		return ""
	case p.State == view.StateStalled && !stale:
		return "is stalled: " + strings.TrimSpace(p.Message)
	case p.Reason == appv1.ReasonPaused:
		return "is paused: no change of its spec takes effect"
	case p.EndReason() != "":
		return p.EndReason()
	case o.fail == "cause" && p.Cause != "" && same >= o.grace:
		return "does not come up: " + p.Cause
	}
	return ""
}
