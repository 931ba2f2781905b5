package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

func (r *root) treeCommand() *cobra.Command {
	o := view.TreeOptions{}
	var output string
	var follow bool
	cmd := &cobra.Command{
		Use: "tree NAME", Short: "A resource with its children, down to the containers that fail", Args: takesArguments(1, 1),
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.showView(cmd, args[0], output, follow, false, func(s *view.Snapshot, style view.Style) (any, string) {
				tree := view.TreeOf(s, o)
				text := tree.Text(style, time.Now())
				return tree, text
			})
		},
	}
	outputFlag(cmd, &output, "json", "yaml")
	watchFlag(cmd, &follow, &output)
	cmd.Flags().BoolVar(&o.AllRevisions, "all-revisions", false, "Show revisions that have no pods, too.")
	cmd.Flags().IntVar(&o.Limit, "limit", 3, "How many pods to show that are in the same state; 0 for all.")
	cmd.Flags().IntVar(&o.Depth, "depth", 0, "How many levels to show below the resource; 0 for all.")
	atLeastZero(cmd, "limit", "depth")
	return cmd
}

// showView shows one view of a resource: as data, or as text, once or again and again.
func (r *root) showView(cmd *cobra.Command, argument, output string, follow, events bool,
	draw func(*view.Snapshot, view.Style) (data any, text string),
) error {
	c, err := r.newClients()
	if err != nil {
		return err
	}
	t, err := c.resolveTarget(cmd.Context(), argument)
	if err != nil {
		return err
	}
	if output != "" {
		s, err := c.readSnapshot(cmd.Context(), t, events)
		if err != nil {
			return err
		}
		data, _ := draw(s, view.Style{})
		_, err = r.printData(output, data)
		return err
	}
	return r.printDrawing(cmd.Context(), t.String(), follow, func(ctx context.Context, style view.Style) (string, error) {
		s, err := c.readSnapshot(ctx, t, events)
		if err != nil {
			return "", err
		}
		_, text := draw(s, style)
		return text, nil
	})
}
