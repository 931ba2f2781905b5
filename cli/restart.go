package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"huolala.cn/app-operator/resource"
	"huolala.cn/app-operator/view"
)

// annotationRestarted is what "kubectl rollout restart" writes; the operator keeps it.
const annotationRestarted = "kubectl.kubernetes.io/restartedAt"

func (r *root) restartCommand() *cobra.Command {
	var wait, yes bool
	cmd := &cobra.Command{
		Use: "restart NAME...", Short: "Replace the pods, as kubectl rollout restart does", Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.connect()
			if err != nil {
				return err
			}
			targets, err := c.resolveAll(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err := r.confirm(yes, fmt.Sprintf("Replace the pods of %d resources?", len(targets))); err != nil {
				return err
			}
			for _, t := range targets {
				if err := r.restart(cmd.Context(), c, t); err != nil {
					return err
				}
			}
			return r.finish(cmd.Context(), c, wait, targets...)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until they are ready.")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

// restart replaces the pods of a resource's workloads.
func (r *root) restart(ctx context.Context, c *clients, t target) error {
	now, err := c.of(t.kind, t.namespace).get(ctx, t.name)
	if err != nil {
		return inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	done, err := c.restart(ctx, t, &now)
	for _, w := range done {
		fmt.Fprintf(r.Out, "%s %s/%s restarted\n", w.kind, t.namespace, w.name)
	}
	return err
}

// restarted is a workload whose pods are replaced.
type restarted struct {
	kind, name string
	pods       int32
}

// restart replaces the pods of a resource's workloads, or tries to, with dryRun. A database restarts with its tiers. With an error, it
// returns those that come before.
func (c *clients) restart(ctx context.Context, t target, now *view.Resource, dryRun ...string) ([]restarted, error) {
	at := time.Now().UTC().Format(time.RFC3339)
	options := metav1.PatchOptions{FieldManager: fieldManager, DryRun: dryRun}
	var done []restarted
	for i, name := range now.Workloads {
		kind, restart := "Deployment", c.restartDeployment
		if t.kind.Name == resource.KindCloudManager && i == 0 {
			kind, restart = "StatefulSet", c.restartStatefulSet
		}
		pods, err := restart(ctx, t.namespace, name, at, options)
		if err != nil {
			return done, inWords(err, "restart", kind+" "+name, t.namespace)
		}
		done = append(done, restarted{kind, name, pods})
	}
	return done, nil
}

func (c *clients) restartDeployment(ctx context.Context, namespace, name, at string, options metav1.PatchOptions) (pods int32, err error) {
	err = again(func() error {
		api := c.kube.AppsV1().Deployments(namespace)
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods = ptr.Deref(live.Spec.Replicas, 1)
		_, err = api.Patch(ctx, name, types.MergePatchType, restartPatch(live, at), options)
		return err
	})
	return pods, err
}

func (c *clients) restartStatefulSet(ctx context.Context, namespace, name, at string, options metav1.PatchOptions) (pods int32, err error) {
	err = again(func() error {
		api := c.kube.AppsV1().StatefulSets(namespace)
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pods = ptr.Deref(live.Spec.Replicas, 1)
		_, err = api.Patch(ctx, name, types.MergePatchType, restartPatch(live, at), options)
		return err
	})
	return pods, err
}

// again tries once more after a conflict.
func again(try func() error) error {
	for i := 0; ; i++ {
		if err := try(); !apierrors.IsConflict(err) || i == retries {
			return err
		}
	}
}

// restartPatch changes the pod template of a workload object that is still as it was read.
func restartPatch(live metav1.Object, at string) []byte {
	return mergePatch(map[string]any{
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationRestarted: at}}}},
	}, live.GetResourceVersion())
}
