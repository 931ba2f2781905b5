package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

func (r *root) restartCommand() *cobra.Command {
	var wait, yes bool
	cmd := &cobra.Command{
		Use: "restart NAME...", Short: "Replace the pods, as kubectl rollout restart does", Args: takesArguments(1, -1),
		ValidArgsFunction: r.completeNames,
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
				if err := refuseTask(t, messageNoRestart, t.runByHand()); err != nil {
					return err
				}
			}
			if err := r.askConfirmation(cmd.Context(), yes, "Replace the pods of "+message.Count(len(targets), "resource")+"?"); err != nil {
				return err
			}
			all := make([]written, len(targets))
			for i, t := range targets {
				if all[i], err = r.restartResource(cmd.Context(), c, t); err != nil {
					return err
				}
			}
			return r.waitForWritten(cmd.Context(), c, wait, all...)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until they are ready.")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

// restartResource replaces the pods of a resource's workloads. The result has the version of the resource from before.
func (r *root) restartResource(ctx context.Context, c *clients, t target) (written, error) {
	now, err := c.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return written{}, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	done, err := c.restartWorkloads(ctx, t, &now)
	for _, w := range done {
		r.printf("%s %s/%s restarted\n", w.kind, t.namespace, w.name)
	}
	return writtenNow(t, &now, err), err
}

// restarted is a workload whose pods are replaced.
type restarted struct {
	kind, name string
	pods       int32
}

// tryRestart returns the workloads of a resource whose pods a restart replaces, or the obstacle to it. It changes nothing.
func (c *clients) tryRestart(ctx context.Context, t target, now *view.Resource) ([]restarted, error) {
	if err := checkNotDeleting(now); err != nil {
		return nil, err
	}
	return c.restartEach(ctx, t, now, metav1.PatchOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}})
}

// restartWorkloads replaces the pods of a resource's workloads, once all restarts were tried, so that an obstacle to one leaves all others unchanged.
// With an error, it returns the workloads that were restarted nevertheless.
func (c *clients) restartWorkloads(ctx context.Context, t target, now *view.Resource) ([]restarted, error) {
	if _, err := c.tryRestart(ctx, t, now); err != nil {
		return nil, err
	}
	return c.restartEach(ctx, t, now, metav1.PatchOptions{FieldManager: fieldManager})
}

// restartEach restarts one workload after the other, a database first, and returns the workloads restarted before an error.
func (c *clients) restartEach(ctx context.Context, t target, now *view.Resource, options metav1.PatchOptions) ([]restarted, error) {
	at := time.Now().UTC().Format(time.RFC3339)
	var done []restarted
	for i := range now.Workloads {
		meant := &now.Workloads[i]
		restart := c.restartDeployment
		if meant.Kind == view.KindStatefulSet {
			restart = c.restartStatefulSet
		}
		w := restarted{kind: meant.Kind, name: meant.Name}
		err := retryConflict(func() (err error) {
			w.pods, err = restart(ctx, now, meant, at, options)
			return err
		})
		switch {
		case apierrors.IsNotFound(err) && len(now.Workloads) > 1 && i > 0:
			// A tier that waits for an earlier one begins with new pods. The first tier waits for none.
		case err != nil:
			return done, inWords(err, "restart", meant.Kind+" "+meant.Name, t.namespace)
		default:
			done = append(done, w)
		}
	}
	return done, nil
}

func (c *clients) restartDeployment(ctx context.Context, now *view.Resource, w *view.Workload, at string, options metav1.PatchOptions) (pods int32, err error) {
	live, err := restartOne(ctx, c.kube.AppsV1().Deployments(now.ObjectMeta.Namespace), now, w, at, options)
	if err != nil {
		return 0, err
	}
	return ptr.Deref(live.Spec.Replicas, 1), nil
}

func (c *clients) restartStatefulSet(ctx context.Context, now *view.Resource, w *view.Workload, at string, options metav1.PatchOptions) (pods int32, err error) {
	live, err := restartOne(ctx, c.kube.AppsV1().StatefulSets(now.ObjectMeta.Namespace), now, w, at, options)
	if err != nil {
		return 0, err
	}
	return ptr.Deref(live.Spec.Replicas, 1), nil
}

// workloads reads and changes the workloads of a type.
type workloads[T metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, how types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// restartOne restarts a workload if it is the resource's, and returns it.
func restartOne[T metav1.Object](ctx context.Context, api workloads[T], now *view.Resource, w *view.Workload, at string, options metav1.PatchOptions) (T, error) {
	live, err := api.Get(ctx, w.Name, metav1.GetOptions{})
	if err != nil {
		return live, err
	}
	if err := checkWorkload(now, w, live); err != nil {
		return live, err
	}
	return api.Patch(ctx, w.Name, types.MergePatchType, restartPatch(live, at), options)
}

// checkWorkload returns an error unless a workload is the resource's, as one of the same name may be anyone's, and its pods are replaced
// when its template changes.
func checkWorkload(now *view.Resource, w *view.Workload, live metav1.Object) error {
	owner := metav1.GetControllerOf(live)
	ready := meta.FindStatusCondition(now.Status.Conditions, appv1.ConditionReady)
	switch owned := owner != nil && owner.UID == now.ObjectMeta.UID; {
	case owned:
	case !w.Foreign:
		return fmt.Errorf("%s is not controlled by %s; to restart its pods, use \"%s\"", live.GetName(), now.ObjectName(),
			view.CommandLine(live.GetNamespace(), "kubectl rollout restart", strings.ToLower(w.Kind)+"/"+live.GetName()))
	case ready != nil && ready.Reason == appv1.ReasonScaleConflict:
		return fmt.Errorf("%s does not scale Deployment %s, and restarts none of its pods: %s", now.ObjectName(), live.GetName(), ready.Message)
	}
	if d, ok := live.(*appsv1.Deployment); ok && d.Spec.Paused {
		return fmt.Errorf("its rollouts are paused, so no pod would restart; resume them with \"%s\"",
			view.CommandLine(d.Namespace, "kubectl rollout resume", "deployment/"+d.Name))
	}
	return nil
}

// retryConflict tries again after a conflict, up to the number of retries.
func retryConflict(try func() error) error {
	for i := 0; ; i++ {
		if err := try(); !apierrors.IsConflict(err) || i == retries {
			return err
		}
	}
}

// restartPatch changes the pod template of a workload object that is still as it was read.
func restartPatch(live metav1.Object, at string) []byte {
	return mergePatch(map[string]any{
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{view.AnnotationRestarted: at}}}},
	}, live.GetResourceVersion())
}
