package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/plugin/view"
)

// rollbackOptions are the flags of rollback.
type rollbackOptions struct {
	to               int64
	part             string
	wait, yes, force bool
	showValues       bool
}

func (r *root) rollbackCommand() *cobra.Command {
	var o rollbackOptions
	cmd := &cobra.Command{
		Use: "rollback NAME", Short: "Restore a recorded spec, after showing what that changes", Args: takesArguments(1, 1),
		ValidArgsFunction: r.completeNames,
		Long: "Restore the spec that a revision was built from, after showing what that changes. The command writes only fields that differ.\n" +
			"It does not change the number of pods, spec.paused, or fields for other objects, such as ingress and autoscaling.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			if err := r.rollbackResource(ctx, c, t, &o); err != nil {
				return err
			}
			return r.waitForWritten(ctx, c, o.wait, written{target: t})
		}),
	}
	cmd.Flags().Int64Var(&o.to, "to", 0, "The revision; by default the newest one whose spec is not the present one.")
	atLeastOne(cmd, "to")
	partFlag(cmd, &o.part)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until it is ready.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().BoolVar(&o.force, "force", false, "Change a resource that is applied from Git, or held, too.")
	cmd.Flags().BoolVar(&o.showValues, "show-values", false, "Show values that may be secret, too.")
	return cmd
}

// readForRollback returns a resource with its objects, or an error if a rollback of the resource is not wanted.
func (c *clients) readForRollback(ctx context.Context, t target, o *rollbackOptions) (*view.Snapshot, error) {
	if err := refuseTask(t, messageNoRollback); err != nil {
		return nil, err
	}
	s, err := c.readSnapshot(ctx, t, false)
	if err == nil {
		err = checkNotDeleting(&s.Resource)
	}
	if err != nil {
		return nil, err
	}
	if tool := s.Resource.GitOps(); tool != "" && !o.force {
		return nil, fmt.Errorf("%s applies %s, and restores what is changed here. Change it in Git; or suspend it there, and add --force",
			tool, s.Resource.ObjectName())
	}
	if at := s.Resource.HeldAt(); at != "" && !o.force {
		return nil, fmt.Errorf("%s is held at %s, so its spec has no effect. End that by \"%s\" first, or add --force",
			s.Resource.ObjectName(), at, t.commandLine("unhold"))
	}
	return s, nil
}

func (r *root) rollbackResource(ctx context.Context, c *clients, t target, o *rollbackOptions) error {
	s, err := c.readForRollback(ctx, t, o)
	if err != nil {
		return err
	}
	w, err := s.Resource.RecordedWorkload(view.Part(o.part))
	if err != nil {
		return err
	}
	h, err := view.HistoryOf(s, view.Part(o.part))
	if err != nil {
		return err
	}
	now := w.CurrentSpec()
	rev, err := h.OtherRevision(now)
	if o.to != 0 {
		rev, err = h.FindRevision(o.to)
	}
	if err != nil {
		for _, m := range h.NotShown {
			err = fmt.Errorf("%w; not shown: %s", err, m)
		}
		return err
	}
	ops := view.RollbackOperations(now, w.Path, rev)
	if len(ops) == 0 {
		r.printf("%s has the spec of revision %d already\n", s.Resource.ObjectName(), rev.Number)
		if !rev.Current && rev.NoHold == "" {
			fmt.Fprintf(r.Err, "The pods of revision %d differ by other inputs, such as defaults. To have them back: %s\n", rev.Number, s.Resource.PluginCommand("hold", "--to", strconv.FormatInt(rev.Number, 10)))
		}
		return nil
	}
	r.printf("%s, back to revision %d:\n", s.Resource.ObjectName(), rev.Number)
	if err := r.printChanges(view.RollbackChanges(now, rev), o.showValues); err != nil {
		return err
	}
	if rev.NoHold != "" {
		fmt.Fprintf(r.Err, "Warning: revision %d has %s. This restores its spec, and not their pod template\n", rev.Number, rev.NoHold)
	}
	if !o.yes {
		if err := r.askConfirmation(ctx, false, c.restoreQuestion(ctx, t, s, w, rev, ops)); err != nil {
			return err
		}
	}
	r.warnGitOps(&s.Resource)
	return r.restoreRevision(ctx, c, t, &s.Resource, ops, rev.Number)
}

// planWithin is how long a question waits for the operator's plan.
const planWithin = 10 * time.Second

// restoreQuestion returns the question before a rollback, with the number of pods that restart by the operator's plan. Without a plan that has all of them,
// these are the pods of other revisions.
func (c *clients) restoreQuestion(ctx context.Context, t target, s *view.Snapshot, w *view.Workload, to *view.Revision, ops []view.Operation) string {
	pods, canary := s.CountReplaced(w, to), false
	bounded, end := context.WithTimeout(ctx, planWithin)
	defer end()
	if dry, err := c.dryRunOperations(t, &s.Resource, ops); err == nil {
		if p, err := dry.askPlan(bounded); err == nil {
			if restarts, known := view.RestartsOf(p); known {
				pods, canary = int(restarts.Pods), restarts.Promoted
			}
		}
	}
	if pods == 0 {
		return "Restore this? No pod restarts."
	}
	restart := map[bool]string{false: "pods restart", true: "pod restarts"}[pods == 1]
	switch {
	case s.Resource.Paused && canary:
		restart += " once it is resumed and the canary is promoted"
	case s.Resource.Paused:
		restart += " once it is resumed"
	case canary:
		restart += " once the canary is promoted"
	}
	return fmt.Sprintf("Restore this? %d %s.", pods, restart)
}

// restoreRevision writes the operations, if the spec is still as it was read. The operator writes the status of a failing rollout again and again, so the
// version of the resource says nothing.
func (r *root) restoreRevision(ctx context.Context, c *clients, t target, now *view.Resource, ops []view.Operation, revision int64) error {
	ops = append([]view.Operation{
		{Op: "test", Path: "/metadata/uid", Value: now.ObjectMeta.UID}, {Op: "test", Path: "/metadata/generation", Value: now.ObjectMeta.Generation},
	}, ops...)
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	_, err = c.clientOf(t.kind, t.namespace).patchResource(ctx, t.name, types.JSONPatchType, data)
	if apierrors.IsConflict(err) || isFailedTest(err) {
		return fmt.Errorf("%s has been changed meanwhile, and nothing was restored: run it again", now.ObjectName())
	}
	if err != nil {
		return inWords(err, "patch", t.kind.Name+" "+t.name, t.namespace)
	}
	r.printf("%s rolled back to revision %d%s\n", now.ObjectName(), revision, specTakesEffect(now, t))
	return nil
}

// isFailedTest reports whether the API server has refused a JSON patch for its test: its answer is 422, without any cause.
func isFailedTest(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
