package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"huolala.cn/app-operator/resource"
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

// restart replaces the pods of a resource's workloads. A database restarts with its tiers.
func (r *root) restart(ctx context.Context, c *clients, t target) error {
	now, err := c.of(t.kind, t.namespace).get(ctx, t.name)
	if err != nil {
		return inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	at := time.Now().UTC().Format(time.RFC3339)
	for i, name := range now.Workloads {
		kind, restart := "Deployment", c.restartDeployment
		if t.kind.Name == resource.KindCloudManager && i == 0 {
			kind, restart = "StatefulSet", c.restartStatefulSet
		}
		if err := restart(ctx, t.namespace, name, at); err != nil {
			return inWords(err, "restart", kind+" "+name, t.namespace)
		}
		fmt.Fprintf(r.Out, "%s %s/%s restarted\n", kind, t.namespace, name)
	}
	return nil
}

func (c *clients) restartDeployment(ctx context.Context, namespace, name, at string) error {
	return again(func() error {
		api := c.kube.AppsV1().Deployments(namespace)
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = api.Patch(ctx, name, types.MergePatchType, restartPatch(live, at), metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
}

func (c *clients) restartStatefulSet(ctx context.Context, namespace, name, at string) error {
	return again(func() error {
		api := c.kube.AppsV1().StatefulSets(namespace)
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = api.Patch(ctx, name, types.MergePatchType, restartPatch(live, at), metav1.PatchOptions{FieldManager: fieldManager})
		return err
	})
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
