package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

func (r *root) holdCommand() *cobra.Command {
	var to string
	var yes bool
	cmd := &cobra.Command{
		Use: "hold NAME", Short: "Run an earlier revision, without changing the spec", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		Long: "Run the pods of an earlier revision for as long as the annotation " + appv1.AnnotationHold + " is there. The spec is not changed, so a\n" +
			"tool that applies it from Git has nothing to restore. \"unhold\" ends it.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			if err := refuseTask(t, messageNoHold); err != nil {
				return err
			}
			if !t.kind.Holds {
				return fmt.Errorf("%s %s cannot be held; only resources of the kinds %s can", t.kind.Name, t.name, view.NameKinds("and", view.CanBeHeld))
			}
			replicaSet, err := c.heldReplicaSet(ctx, t, to)
			if err != nil {
				return err
			}
			now, err := c.checkHold(ctx, t, replicaSet)
			if err != nil {
				return err
			}
			at := replicaSet
			if replicaSet == appv1.HoldLastGood && now.HeldAt() != replicaSet {
				at += ", " + now.LastGoodInWords()
				r.warnRuns(now, t)
			}
			if err := r.askConfirmation(ctx, yes, fmt.Sprintf("Hold %s %s at %s? The pods restart if they are others.", t.kind.Name, t.name, at)); err != nil {
				return err
			}
			_, err = r.annotateHold(ctx, c, t, replicaSet, at)
			return err
		}),
	}
	cmd.Flags().StringVar(&to, "to", appv1.HoldLastGood, "What to run: "+appv1.HoldLastGood+", the number of a revision, or the name of a ReplicaSet.")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (r *root) unholdCommand() *cobra.Command {
	var yes, wait bool
	cmd := &cobra.Command{
		Use: "unhold NAME", Short: "Let the spec take effect again", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			if err := refuseTask(t, messageNoHold); err != nil {
				return err
			}
			if _, err := c.checkHold(ctx, t, ""); err != nil {
				return err
			}
			if err := r.askConfirmation(ctx, yes, fmt.Sprintf("Let the spec of %s %s take effect? The pods may restart.", t.kind.Name, t.name)); err != nil {
				return err
			}
			done, err := r.annotateHold(ctx, c, t, "", "")
			if err != nil {
				return err
			}
			return r.waitForWritten(ctx, c, wait, done)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until it is ready.")
	return cmd
}

// checkHold returns the resource, or an error if a hold at a value cannot be, or the end of one for an empty value.
func (c *clients) checkHold(ctx context.Context, t target, value string) (*view.Resource, error) {
	now, err := c.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return nil, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	if err := checkNotDeleting(&now); err != nil {
		return nil, err
	}
	if value == appv1.HoldLastGood && now.LastGood == "" && now.HeldAt() != value {
		return nil, fmt.Errorf("--to: %s has no %s revision yet: none that has a record of its spec was ready. "+
			"Name one of \"%s\"", now.ObjectName(), value, t.commandLine("history"))
	}
	return &now, nil
}

// warnRuns warns of a hold at the last good revision if that revision runs: a release that was ready is the last good one, also if a user
// finds it bad later.
func (r *root) warnRuns(now *view.Resource, t target) {
	if now.LastGood != "" && now.LastGood == now.Running {
		fmt.Fprintf(r.Err, "Warning: the last good revision is the one that runs now, as it was ready. If that is the version to leave, name one of \"%s\" in --to\n",
			t.commandLine("history"))
	}
}

// heldReplicaSet returns the value of the annotation: the name of a ReplicaSet, or last-good.
func (c *clients) heldReplicaSet(ctx context.Context, t target, to string) (string, error) {
	switch to {
	case "":
		return "", wrongUse(errors.New("--to: name a revision, a ReplicaSet, or " + appv1.HoldLastGood))
	case appv1.HoldLastGood:
		return to, nil
	}
	number, notNumber := strconv.ParseInt(to, 10, 64)
	if notNumber == nil && number < 1 {
		return "", wrongUse(fmt.Errorf("--to: %s is less than 1, which is the first revision", to))
	}
	s, err := c.readSnapshot(ctx, t, false)
	if err != nil {
		return "", err
	}
	h, err := view.HistoryOf(s, "")
	if err != nil {
		return "", err
	}
	if notNumber != nil {
		for i := range h.Revisions {
			if rev := &h.Revisions[i]; rev.ReplicaSet == to {
				if s.Resource.HeldAt() == to { // Kubernetes numbers it again while the Deployment goes back to it.
					return to, nil
				}
				return to, canHold(rev, t)
			}
		}
		return "", h.UnseenError(fmt.Errorf("--to: %s is no ReplicaSet of %s %s with a record; see \"%s\"", to, t.kind.Name, t.name, t.commandLine("history")))
	}
	rev, err := h.FindRevision(number)
	if err != nil {
		return "", fmt.Errorf("--to: %w", err)
	}
	return rev.ReplicaSet, canHold(rev, t)
}

// canHold returns an error for a revision that the operator cannot hold.
func canHold(rev *view.Revision, t target) error {
	if rev.NoHold == "" {
		return nil
	}
	return fmt.Errorf("--to: revision %d (ReplicaSet %s) cannot be held: %s. Name another one of \"%s\"", rev.Number, rev.ReplicaSet, rev.NoHold, t.commandLine("history"))
}

// annotateHold sets the annotation to a value, or removes it for an empty one. at is the value in words.
func (r *root) annotateHold(ctx context.Context, c *clients, t target, value, at string) (written, error) {
	done, already := "held at "+at, "held at "+value+" already"
	if value == "" {
		done, already = "no longer held", "not held"
	}
	resource, err := c.changeResource(ctx, t, func(now *view.Resource) (map[string]any, error) {
		if now.ObjectMeta.Annotations[appv1.AnnotationHold] == value { // Of any kind: the end of a hold removes an annotation without effect, too.
			return nil, errUnchanged
		}
		var set any
		if value != "" {
			set = value
		}
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{appv1.AnnotationHold: set}}}, nil
	})
	if errors.Is(err, errUnchanged) {
		r.printf("%s is %s\n", resource.ObjectName(), already)
		return writtenNow(t, resource, err), nil
	}
	if err != nil {
		return written{}, err
	}
	r.printf("%s %s%s\n", resource.ObjectName(), done, takesEffect(resource))
	return writtenNow(t, resource, nil), nil
}
