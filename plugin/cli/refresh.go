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
			"template of a Deployment that was adopted without a restart. The pods may restart.\n\n" +
			"--all refreshes all resources with pending changes, except those that are paused, held or being deleted, and --wave limits how\n" +
			"many at a time. The command stops after the first wave that does not become ready, or in which a resource is paused or held\n" +
			"meanwhile. A canary that waits for its promotion is not waited for.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			targets, left, err := r.toRefresh(cmd.Context(), c, args, &o)
			if err != nil {
				return err
			}
			if len(targets) == 0 {
				r.printf("%s\n", map[bool]string{false: "Nothing waits to be refreshed.", true: "Nothing is refreshed."}[left])
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

// errLater is the error for a resource whose refresh would take effect at a time that the user of refresh --all does not choose.
var errLater = errors.New("takes effect later")

// checkTakesEffect returns an error unless a refresh of a resource takes effect now.
func checkTakesEffect(r *view.Resource) error {
	switch at := r.HeldAt(); {
	case r.Paused:
		return fmt.Errorf("%s is paused, so a refresh %w", r.ObjectName(), errLater)
	case at != "":
		return fmt.Errorf("%s is held at %s, so a refresh %w", r.ObjectName(), at, errLater)
	}
	return nil
}

// toRefresh returns the named resources, or with o.all all resources for which a refresh changes something now and that are not being deleted. left is true
// if resources are left out with a warning.
func (r *root) toRefresh(ctx context.Context, c *clients, args []string, o *refreshOptions) (targets []target, left bool, err error) {
	if !o.all {
		targets, err := c.resolveAll(ctx, args)
		for _, t := range targets {
			err = cmp.Or(err, refuseTask(t, messageNoRefresh))
		}
		return targets, false, err
	}
	found, missing, err := c.listSelected(ctx, &o.selection)
	if err != nil {
		return nil, false, err
	}
	for _, m := range missing {
		r.warnNotRefreshed(m.String())
	}
	left = len(missing) > 0
	for i := range found {
		if !found[i].CanRefresh() || found[i].ObjectMeta.DeletionTimestamp != nil {
			continue
		}
		if err := checkTakesEffect(&found[i]); err != nil {
			r.warnNotRefreshed(err.Error())
			left = true
			continue
		}
		kind, _ := view.KindOf(found[i].Kind)
		targets = append(targets, target{kind, found[i].ObjectMeta.Namespace, found[i].ObjectMeta.Name})
	}
	return targets, left, nil
}

// warnNotRefreshed warns that refresh --all leaves something out.
func (r *root) warnNotRefreshed(why string) {
	fmt.Fprintln(r.Err, "Warning: not refreshed: "+view.CleanLine(why))
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

// refreshTargets refreshes resources, some at a time. With a wait, the first ones that do not come up end it. Of --all, a resource that has gone, or was
// paused or held, since it was listed is left out.
func (r *root) refreshTargets(ctx context.Context, c *clients, targets []target, size int, o *refreshOptions) error {
	value := time.Now().UTC().Format(time.RFC3339)
	for start := 0; start < len(targets); start += size {
		wave := targets[start:min(start+size, len(targets))]
		all := make([]written, len(wave)) // Without a version for a resource that is left out.
		for i, t := range wave {
			resource, err := c.refreshResource(ctx, t, value, o.all)
			if o.all && (apierrors.IsNotFound(err) || errors.Is(err, errDeleting) || errors.Is(err, errLater)) {
				r.warnNotRefreshed(err.Error())
				continue
			}
			if err != nil {
				return withRest(err, len(targets)-start-i, len(targets)) // With the one that has failed.
			}
			all[i] = writtenNow(t, resource, nil)
			r.printf("%s refreshed%s\n", resource.ObjectName(), specTakesEffect(resource, t))
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

// refreshResource sets the annotation of a refresh. With now, it returns an error for a resource that is paused or held.
func (c *clients) refreshResource(ctx context.Context, t target, value string, now bool) (*view.Resource, error) {
	return c.changeResource(ctx, t, func(found *view.Resource) (map[string]any, error) {
		if err := checkTakesEffect(found); now && err != nil {
			return nil, err
		}
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{appv1.AnnotationRefresh: value}}}, nil
	})
}

// specTakesEffect returns when a refresh or a change of the spec takes effect, empty for now.
func specTakesEffect(resource *view.Resource, t target) string {
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

// commandWithin is how long a refresh waits for the operator to run a command before the rollout again.
const commandWithin = 2 * time.Minute

// isRefreshed reports whether nothing waits for a resource any more, or nothing will change that by itself. A stalled resource may not have been looked at
// yet, unless its status may no longer be from before the refresh. A command before the rollout runs again with each refresh, so that a status from before
// does not count, however old it is.
func isRefreshed(now *view.Resource, refresh *written) bool {
	switch state := now.State(); {
	case state == view.StateDeleting, checkTakesEffect(now) != nil:
		return true
	case now.WaitsForCommand():
		return !refresh.isUnchanged(now)
	case state == view.StateStalled:
		return !refresh.isStale(now)
	}
	return !now.CanRefresh() && (!now.HasCommand || !refresh.isUnchanged(now))
}

// passCanary reports whether a resource has a canary that waits for its promotion by a person, as its pods are ready or it has none, and prints a line if so.
func (r *root) passCanary(t target, now *view.Resource) bool {
	if now.State() != view.StateCanary || !now.CanaryReady() && (now.Canary == nil || now.Canary.Pods > 0) {
		return false
	}
	r.printf("%s has a canary, which waits for its promotion\n", t)
	return true
}

// waitRefreshed waits until nothing waits for a resource any more, and it is ready. With passCanary, a canary that waits for its promotion ends the wait, as
// other resources do not wait for a person.
func (r *root) waitRefreshed(ctx context.Context, c *clients, refresh *written, passCanary bool) error {
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
		if isRefreshed(&now, refresh) {
			break
		}
		if passCanary && !refresh.isStale(&now) && r.passCanary(t, &now) {
			return nil
		}
		if err := refresh.checkTime(&now, began); err != nil {
			return err
		}
		if !sleepFor(ctx, waitEvery) {
			return ctx.Err()
		}
	}
	o := waitAfter(refresh)
	o.refresh, o.passCanary = true, passCanary
	return r.waitFor(ctx, c, t, o)
}

// checkTime returns an error once a refresh has not taken effect for too long.
func (w *written) checkTime(now *view.Resource, began time.Time) error {
	switch {
	case now.HasCommand && w.isUnchanged(now) && time.Since(w.at) > commandWithin:
		return &exit{exitTimeout, fmt.Sprintf("%s has not run its command %s after the refresh: its status is still of before; see: %s",
			w.target, commandWithin, view.PluginCommand(w.namespace, "check"))}
	case time.Since(began) > defaultWait.timeout:
		return &exit{exitTimeout, fmt.Sprintf("%s is not refreshed after %s", w.target, defaultWait.timeout)}
	}
	return nil
}
