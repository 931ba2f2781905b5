package cli

import (
	"context"

	"github.com/spf13/cobra"

	"huolala.cn/app-operator/plugin/view"
)

func (r *root) reportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "report NAME", Short: "A report for a ticket: the cause, the objects, the revisions and the spec, without values that may be secret",
		Args: takesArguments(1, 1), ValidArgsFunction: r.completeNames,
		Long: "A report for a ticket, as Markdown of 64 KiB at most. It has the cause, the objects, the revisions, the conditions and the spec. The\n" +
			"values of variables, arguments, commands, annotations and patches are left out, and so are logs and Secrets. Read the report before\n" +
			"you hand it on: messages and events are in the words of other programs.",
		RunE: r.onTarget(func(ctx context.Context, c *clients, t target) error {
			s, err := c.readSnapshot(ctx, t, true)
			if err != nil {
				return err
			}
			about := []string{"kubectl happ: " + r.Version}
			if server := c.serverVersion(ctx); server != "" {
				about = append(about, "Kubernetes: "+server)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.printText(view.ReportOf(s, about))
			return nil
		}),
	}
}
