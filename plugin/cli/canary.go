package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// canaryStep is what a command does with a canary.
type canaryStep struct {
	annotation string
	question   string
	done       string
	// needsReady is true where nothing may be in the way of the promotion of the canary, unless the user forces the step.
	needsReady bool
}

func (r *root) promoteCommand() *cobra.Command {
	var yes, wait, force bool
	cmd := &cobra.Command{
		Use: "promote NAME", Short: "Roll the change of a canary out to all pods", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		Long: "Roll the change that runs in a canary out to all pods, by the annotation " + appv1.AnnotationPromote + " with the UID of the\n" +
			"canary's Deployment. A later change is another canary, which the annotation does not promote.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			step := canaryStep{
				annotation: appv1.AnnotationPromote, question: "Promote the canary of %s, image %s? All pods are replaced.",
				done: "promoted", needsReady: !force,
			}
			done, err := r.stepCanary(ctx, c, t, &step, yes)
			if err != nil {
				return err
			}
			return r.waitForWritten(ctx, c, wait, done)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until it is ready.")
	cmd.Flags().BoolVar(&force, "force", false, "Promote a canary whose pods are not ready, or whose resource is paused with another change, too.")
	return cmd
}

func (r *root) abortCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "abort NAME", Short: "Remove a canary, and leave the pods of before", Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		Long: "Remove the canary, by the annotation " + appv1.AnnotationAbort + " with the UID of the canary's Deployment. The spec is not\n" +
			"changed; it takes effect again once it is another one, or after \"refresh\".",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			step := canaryStep{
				annotation: appv1.AnnotationAbort, question: "Remove the canary of %s, image %s? The pods of before stay.", done: "aborted",
			}
			_, err := r.stepCanary(ctx, c, t, &step, yes)
			return err
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

// stepCanary asks the user, and then sets the annotation of a step to the UID of the canary that the user was asked about.
func (r *root) stepCanary(ctx context.Context, c *clients, t target, step *canaryStep, yes bool) (written, error) {
	if err := refuseTask(t, messageNoCanary); err != nil {
		return written{}, err
	}
	if !t.kind.Holds {
		return written{}, fmt.Errorf("%s %s has no canary; only resources of the kinds %s can", t.kind.Name, t.name, view.NameKinds("and", view.CanBeHeld))
	}
	now, err := c.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return written{}, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	if err := checkCanary(&now, t, step); err != nil {
		return written{}, err
	}
	asked := now.Canary
	if err := r.askConfirmation(ctx, yes, fmt.Sprintf(step.question, now.ObjectName(), view.CleanText(asked.Image))); err != nil {
		return written{}, err
	}
	resource, err := c.changeResource(ctx, t, func(now *view.Resource) (map[string]any, error) {
		if err := checkSameCanary(now, t, asked.UID); err != nil {
			return nil, err
		}
		if now.ObjectMeta.Annotations[step.annotation] == string(asked.UID) {
			return nil, errUnchanged
		}
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{step.annotation: string(asked.UID)}}}, nil
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return written{}, err
	}
	r.printf("the canary of %s is %s%s\n", resource.ObjectName(), step.done, takesEffect(resource))
	return writtenNow(t, resource, err), nil
}

// checkSameCanary returns an error if a resource has another canary than the user was asked about, or none.
func checkSameCanary(now *view.Resource, t target, asked types.UID) error {
	if now.Canary == nil || now.Canary.UID != asked {
		return fmt.Errorf("the canary of %s is another one meanwhile, and nothing was changed; see \"%s\"", now.ObjectName(), t.commandLine("why"))
	}
	return nil
}

// checkCanary returns an error if a resource has no canary for a step.
func checkCanary(now *view.Resource, t target, step *canaryStep) error {
	if err := checkNotDeleting(now); err != nil {
		return err
	}
	if now.Canary == nil {
		return fmt.Errorf("%s has no canary that waits; see \"%s\"", now.ObjectName(), t.commandLine("why"))
	}
	if obstacle := now.PromotionObstacle(); step.needsReady && obstacle != "" {
		return errors.New(obstacle)
	}
	return nil
}
