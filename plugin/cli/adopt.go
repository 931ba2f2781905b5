package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

// adoptOptions are the flags of adopt.
type adoptOptions struct {
	restart, yes bool
	timeout      time.Duration
}

func (r *root) adoptCommand() *cobra.Command {
	var o adoptOptions
	cmd := &cobra.Command{
		Use: "adopt NAME", Short: "Take over the objects that have its children's names, without a restart", Args: takesArguments(1, 1),
		ValidArgsFunction: r.completeNames,
		Long: "Adopt the objects that no controller owns and that have the names of the children of a resource. The command asks\n" +
			"the operator for the plan first, and changes nothing if a pod would restart or the plan is incomplete. It then sets the annotation\n" +
			appv1.AnnotationAdopt + ", and removes the annotation once the resource owns the objects.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			return r.adoptResource(ctx, c, t, &o)
		}),
	}
	cmd.Flags().BoolVar(&o.restart, "restart", false, "Take over the pod template too, with a restart of the pods.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "When to give up waiting for the operator.")
	atLeastZero(cmd, "timeout")
	return cmd
}

// adoptResource shows the plan of an adoption, and carries it out.
func (r *root) adoptResource(ctx context.Context, c *clients, t target, o *adoptOptions) error {
	mode := appv1.AdoptWithoutRestart
	switch {
	case o.restart, t.kind.Scheduled: // Of a Task, no pod restarts, because none serves.
		mode = "true"
	case !t.kind.Holds:
		return fmt.Errorf("%s %s cannot adopt without a restart; only resources of the kinds %s can. See --restart", t.kind.Name, t.name,
			view.NameKinds("and", view.CanBeHeld))
	}
	asked := c.dryRunPatch(t, types.MergePatchType, annotationPatch(map[string]any{appv1.AnnotationAdopt: mode, plan.Annotation: plan.Request}), fieldManager, false)
	p, err := asked.askPlan(ctx)
	if err != nil {
		return err
	}
	style, err := r.styleOf(r.Out)
	if err != nil {
		return err
	}
	r.printText(view.PlanOf(p).Text(style))
	if err := provePlan(p, o.restart); err != nil {
		return err
	}
	if !p.Incomplete && !waitsForTier(p) && !slices.ContainsFunc(p.Objects, func(o plan.Object) bool { return o.TakenOver }) {
		r.printf("There is nothing to take over; nothing was changed\n")
		return nil
	}
	if err := r.askConfirmation(ctx, o.yes, adoptQuestion(t, p, o.restart)); err != nil {
		return err
	}
	return r.carryOutAdoption(ctx, c, t, mode, o.timeout)
}

// carryOutAdoption sets the annotation, waits until the objects are taken over, and removes the annotation. After an adoption that would restart pods,
// the annotation is as it was before, so that nothing is taken over at any later time.
func (r *root) carryOutAdoption(ctx context.Context, c *clients, t target, mode string, timeout time.Duration) error {
	changed, err := c.annotateResource(ctx, t, mode, nil)
	if err != nil {
		return err
	}
	r.warnGitOps(changed)
	err = r.untilAdopted(ctx, c, t, changed, timeout)
	var restarts *restartsError
	if errors.As(err, &restarts) {
		if _, undo := c.annotateResource(ctx, t, changed.ObjectMeta.Annotations[appv1.AnnotationAdopt], &mode); undo != nil && !errors.Is(undo, errUnchanged) {
			return errors.Join(err, undo)
		}
	}
	if err != nil {
		return err
	}
	if _, err := c.annotateResource(ctx, t, "", nil); err != nil {
		return err
	}
	r.printf("%s has taken over its objects\n", changed.ObjectName())
	return nil
}

// adoptQuestion returns the question whether to carry out the plan of an adoption.
func adoptQuestion(t target, p *plan.Plan, restart bool) string {
	question := fmt.Sprintf("Let %s %s take over these objects?", t.kind.Name, t.name)
	switch pods := int(p.ReplacedPods()); {
	case !restart:
		question += " No pod restarts."
	case pods == 1:
		question += " 1 pod restarts."
	default:
		question += " " + message.Count(pods, "pod") + " restart."
	}
	if waitsForTier(p) {
		question += " Those of later tiers follow, with their pods, and are not in the plan: " + p.Problem.Message + "."
	}
	return question
}

// waitsForTier reports whether a plan ends where an earlier tier is not ready yet. The later tiers follow once that tier is ready.
func waitsForTier(p *plan.Plan) bool {
	return p.Problem != nil && p.Problem.Reason == appv1.ReasonDependencyNotReady
}

// describeProblem returns why a command has changed nothing. Messages of the reason AdoptionRestarts state already that nothing was
// changed.
func describeProblem(problem *plan.Problem) string {
	said := problem.Reason + ": " + problem.Message
	if problem.Reason == appv1.ReasonAdoptionRestarts {
		return said
	}
	return said + "; nothing was changed"
}

// provePlan returns an error unless a plan shows that an adoption can be carried out, and, unless that is accepted, that no pod restarts.
// With a restart, a plan may wait for an earlier tier.
func provePlan(p *plan.Plan, restart bool) error {
	const nothing = "; nothing was changed"
	for i := range p.Objects {
		if problem := p.Objects[i].Problem; problem != nil {
			return fmt.Errorf("%s %s is blocked: %s", p.Objects[i].Kind, p.Objects[i].Name, describeProblem(problem))
		}
	}
	switch {
	case p.Problem != nil && (!restart || !waitsForTier(p)):
		return errors.New(describeProblem(p.Problem))
	case p.Paused:
		return errors.New("it is paused, and takes over nothing until it is resumed" + nothing)
	case restart:
		return nil
	case p.ReplacedPods() > 0:
		return fmt.Errorf("%s would restart%s. See --restart", message.Count(int(p.ReplacedPods()), "pod"), nothing)
	case p.Incomplete:
		return errors.New("the plan is not complete, and does not prove that no pod restarts" + nothing + ". Run it again")
	}
	for i := range p.Objects {
		if p.Objects[i].Unasked {
			return fmt.Errorf("the plan of %s %s does not prove that no pod restarts%s", p.Objects[i].Kind, p.Objects[i].Name, nothing)
		}
	}
	return nil
}

// annotationPatch returns a JSON merge patch of annotations.
func annotationPatch(annotations map[string]any) []byte {
	// Maps of strings always have a JSON form.
	data, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	return data
}

// annotateResource sets the annotation of an adoption, or removes it for an empty value, and returns the resource as it was. With a value from before, it
// returns errUnchanged unless the annotation still has that value.
func (c *clients) annotateResource(ctx context.Context, t target, value string, before *string) (*view.Resource, error) {
	return c.changeResource(ctx, t, func(now *view.Resource) (map[string]any, error) {
		if before != nil && now.ObjectMeta.Annotations[appv1.AnnotationAdopt] != *before {
			return nil, errUnchanged
		}
		var set any
		if value != "" {
			set = value
		}
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{appv1.AnnotationAdopt: set}}}, nil
	})
}

// restartsError is the error of an adoption that would restart pods. Its text is the operator's.
type restartsError struct{ said string }

// Error implements error.
func (e *restartsError) Error() string { return e.said }

// untilAdopted waits until the spec is in force, including all tiers that wait for an earlier one, and returns an obstacle as the error. changed is the
// resource before the annotation, with the version of the patch: an annotation is no change of the generation, so that a refusal from before looks like a
// refusal from after.
func (r *root) untilAdopted(ctx context.Context, c *clients, t target, changed *view.Resource, timeout time.Duration) error {
	again := r.newRetrier(t.String(), timeout)
	before := meta.FindStatusCondition(changed.Status.Conditions, appv1.ConditionApplied)
	for began := time.Now(); ; sleepFor(ctx, waitEvery) {
		bounded, end := again.boundRead(ctx)
		now, err := c.clientOf(t.kind, t.namespace).getResource(bounded, t.name)
		end()
		err = inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case again.wantsRetry(err):
			continue
		case isTransient(err):
			return adoptionTimeout(t, timeout, err.Error())
		case err != nil:
			return err
		case now.ObjectMeta.DeletionTimestamp != nil:
			return errors.New(now.ObjectName() + " is being deleted, and takes over nothing")
		case view.InForce(&now):
			return nil
		}
		said := "the operator has not said anything"
		applied := meta.FindStatusCondition(now.Status.Conditions, appv1.ConditionApplied)
		if applied != nil {
			said = applied.Reason + ": " + applied.Message
		}
		old := before != nil && applied != nil && *applied == *before && time.Since(began) < staleFor
		if applied != nil && applied.Reason == appv1.ReasonAdoptionRestarts && !old {
			return &restartsError{said}
		}
		if time.Since(began) > timeout {
			return adoptionTimeout(t, timeout, said)
		}
	}
}

// adoptionTimeout returns the error of an adoption that is not known to be done in time, with the last words of the operator or of the API server.
func adoptionTimeout(t target, timeout time.Duration, said string) error {
	return &exit{exitTimeout, fmt.Sprintf("%s has not taken over its objects after %s: %s. The annotation %s stays; "+
		"run the command again to wait on", t, timeout, strings.TrimSuffix(said, "."), appv1.AnnotationAdopt)}
}
