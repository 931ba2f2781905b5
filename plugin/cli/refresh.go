package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

// refreshOptions are the flags of refresh.
type refreshOptions struct {
	selection
	all       bool
	wave      string
	wait, yes bool
}

func (r *root) refreshCommand() *cobra.Command {
	var o refreshOptions
	cmd := &cobra.Command{
		Use: "refresh [NAME...]", Short: "Take over newer renderings and sizes; the pods may restart", ValidArgsFunction: r.completeNames,
		Long: "Apply pending changes that are not in the spec, such as a newer rendering, a new definition of a named size, or the pod\n" +
			"template of a Deployment that was adopted without a restart. The pods may restart. --all refreshes all resources with pending changes, and --wave limits how many at a time. The command stops after the\n" +
			"first wave that does not become ready.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			targets, err := r.toRefresh(cmd.Context(), c, args, &o)
			if err != nil {
				return err
			}
			if len(targets) == 0 {
				r.printf("Nothing waits to be refreshed.\n")
				return nil
			}
			size, err := waveSize(o.wave, len(targets))
			if err != nil {
				return err
			}
			if err := r.askConfirmation(cmd.Context(), o.yes, fmt.Sprintf("Refresh %s, %d at a time? Pods may restart.", message.Count(len(targets), "resource"), size)); err != nil {
				return err
			}
			return r.refreshTargets(cmd.Context(), c, targets, size, &o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "All resources for which something waits, in place of names.")
	cmd.Flags().StringVar(&o.wave, "wave", "", "How many at a time, as a number or as a percentage such as 10%. This implies --wait.")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until they are ready.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	o.bindFlags(cmd)
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if _, err := waveSize(o.wave, 1); err != nil {
			return err
		}
		return o.checkArguments(args)
	}
	return cmd
}

// checkArguments returns an error unless the names and the flags say which resources to refresh.
func (o *refreshOptions) checkArguments(args []string) error {
	switch {
	case o.all && len(args) > 0:
		return errors.New("names and --all are mutually exclusive; remove one")
	case !o.all && len(args) == 0:
		return errors.New("name the resources to refresh, or add --all")
	case !o.all && (o.allNamespaces || o.selector != ""):
		return errors.New("-A and -l go with --all")
	}
	return nil
}

// toRefresh returns the named resources, or with o.all all resources for which a refresh changes something and that are not being deleted.
func (r *root) toRefresh(ctx context.Context, c *clients, args []string, o *refreshOptions) ([]target, error) {
	if !o.all {
		targets, err := c.resolveAll(ctx, args)
		for _, t := range targets {
			err = cmp.Or(err, refuseTask(t, messageNoRefresh))
		}
		return targets, err
	}
	found, missing, err := c.listSelected(ctx, &o.selection)
	if err != nil {
		return nil, err
	}
	for _, m := range missing {
		fmt.Fprintln(r.Err, "Warning: not refreshed: "+m.String())
	}
	var targets []target
	for i := range found {
		if !found[i].CanRefresh() || found[i].ObjectMeta.DeletionTimestamp != nil {
			continue
		}
		kind, _ := view.KindOf(found[i].Kind)
		targets = append(targets, target{kind, found[i].ObjectMeta.Namespace, found[i].ObjectMeta.Name})
	}
	return targets, nil
}

// waveSize returns how many resources are refreshed at a time; all without a wave.
func waveSize(wave string, all int) (int, error) {
	if wave == "" {
		return all, nil
	}
	number, percent := strings.CutSuffix(wave, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return 0, fmt.Errorf("--wave: %q is neither a number of resources nor a percentage such as 10%%", wave)
	}
	if percent {
		n = (all*n + 99) / 100
	}
	return min(n, all), nil
}

// refreshTargets refreshes resources, some at a time. With a wait, the first ones that do not come up end it. Of --all, a resource that has gone since
// it was listed is left out.
func (r *root) refreshTargets(ctx context.Context, c *clients, targets []target, size int, o *refreshOptions) error {
	value := time.Now().UTC().Format(time.RFC3339)
	for start := 0; start < len(targets); start += size {
		wave := targets[start:min(start+size, len(targets))]
		all := make([]written, len(wave)) // Without a version for a resource that is left out.
		for i, t := range wave {
			resource, err := c.changeResource(ctx, t, func(*view.Resource) (map[string]any, error) {
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{appv1.AnnotationRefresh: value}}}, nil
			})
			if o.all && (apierrors.IsNotFound(err) || errors.Is(err, errDeleting)) {
				fmt.Fprintf(r.Err, "Warning: not refreshed: %v\n", err)
				continue
			}
			if err != nil {
				return withRest(err, len(targets)-start-i, len(targets)) // With the one that has failed.
			}
			all[i] = writtenNow(t, resource, nil)
			r.printf("%s refreshed%s\n", resource.ObjectName(), r.refreshTakesEffect(resource, t))
		}
		if !o.wait && o.wave == "" {
			continue
		}
		for i := range all {
			if all[i].version == "" {
				continue
			}
			if err := r.waitRefreshed(ctx, c, &all[i], o.all); err != nil {
				return withRest(err, len(targets)-start-len(wave), len(targets))
			}
		}
	}
	return nil
}

// refreshTakesEffect returns when a refresh takes effect, empty for now.
func (r *root) refreshTakesEffect(resource *view.Resource, t target) string {
	if at := resource.HeldAt(); at != "" && !resource.Paused {
		return fmt.Sprintf("; it is held at %s, so this takes effect after %q", at, t.commandLine("unhold"))
	}
	return takesEffect(resource)
}

// withRest adds to the failure of a resource how many of several resources are left.
func withRest(err error, left, all int) error {
	if left == 0 || all == 1 {
		return err
	}
	rest := fmt.Sprintf("; %d of %d were not refreshed", left, all)
	var failed *exit
	if errors.As(err, &failed) {
		return &exit{failed.code, failed.text + rest}
	}
	return fmt.Errorf("%w%s", err, rest)
}

// waitRefreshed waits until nothing waits for a resource any more, and it is ready. While its status may be from before the refresh, a stalled resource may
// not have been looked at yet. With passCanaries, a resource whose canary is ready, or has no pods, and waits for its promotion is left with a line: other
// resources do not wait for it.
func (r *root) waitRefreshed(ctx context.Context, c *clients, refresh *written, passCanaries bool) error {
	t := refresh.target
	h, began, again := c.clientOf(t.kind, t.namespace), time.Now(), r.newRetrier(t.String(), defaultWait.timeout)
	for {
		bounded, end := again.boundRead(ctx)
		now, err := h.getResource(bounded, t.name)
		end()
		err = inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if again.wantsRetry(err) {
			sleepFor(ctx, waitEvery)
			continue
		}
		if err != nil {
			return defaultWait.readError(t, err)
		}
		stalled, seen := now.State() == view.StateStalled, !refresh.isStale(&now)
		if !now.CanRefresh() && !stalled || stalled && seen || now.State() == view.StateDeleting || now.Paused || now.HeldAt() != "" {
			break
		}
		if passCanaries && seen && now.State() == view.StateCanary && (now.CanaryReady() || now.Canary != nil && now.Canary.Pods == 0) {
			r.printf("%s has a canary, which waits for its promotion\n", t)
			return nil
		}
		if time.Since(began) > defaultWait.timeout {
			return &exit{exitTimeout, fmt.Sprintf("%s is not refreshed after %s", t, defaultWait.timeout)}
		}
		if !sleepFor(ctx, waitEvery) {
			return ctx.Err()
		}
	}
	return r.waitFor(ctx, c, t, waitAfter(refresh))
}
