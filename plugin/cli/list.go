package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/plugin/view"
)

// selection are the flags by which a command finds several resources.
type selection struct {
	all      bool
	selector string
}

func (s *selection) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.all, "all-namespaces", "A", false, "In all namespaces.")
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "Only resources with these labels.")
}

// selected lists the resources of all kinds that are selected. It fails if none of the kinds can be listed.
func (c *clients) selected(ctx context.Context, s *selection) ([]view.Resource, []view.Missing, error) {
	namespace := c.namespace
	if s.all {
		namespace = ""
	}
	var wait sync.WaitGroup
	found := make([][]view.Resource, len(view.Kinds))
	errs := make([]error, len(view.Kinds))
	for i, kind := range view.Kinds {
		wait.Go(func() {
			found[i], errs[i] = c.of(kind, namespace).list(ctx, metav1.ListOptions{LabelSelector: s.selector})
		})
	}
	wait.Wait()
	var all []view.Resource
	var missing []view.Missing
	for i, kind := range view.Kinds {
		all = append(all, found[i]...)
		if errs[i] != nil {
			missing = append(missing, view.Missing{Kinds: plural(kind), Why: refused(errs[i], namespace)})
		}
	}
	if len(missing) == len(view.Kinds) {
		return nil, nil, inWords(errs[0], "list", plural(view.Kinds[0]), namespace)
	}
	return all, missing, ctx.Err()
}

// plural returns the kind in the plural, as a person reads it.
func plural(kind view.Kind) string {
	if strings.HasSuffix(kind.Plural, "xes") {
		return kind.Name + "es"
	}
	return kind.Name + "s"
}

func (r *root) listCommand() *cobra.Command {
	var s selection
	var output string
	var notReady, follow bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "All resources in one table, worst first, with the cause", Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.connect()
			if err != nil {
				return err
			}
			read := func() (*view.List, error) {
				found, missing, err := c.selected(cmd.Context(), &s)
				if err != nil {
					return nil, err
				}
				return filtered(view.Rows(found, missing), notReady), nil
			}
			if output == "json" || output == "yaml" || output == "name" {
				list, err := read()
				if err != nil {
					return err
				}
				if done, err := r.printData(output, list); done {
					return err
				}
				for i := range list.Items {
					fmt.Fprintln(r.Out, strings.ToLower(list.Items[i].Kind)+".app.huolala.cn/"+list.Items[i].Name)
				}
				return nil
			}
			return r.show(cmd.Context(), follow, func(style view.Style) (string, error) {
				list, err := read()
				if err != nil {
					return "", err
				}
				if len(list.Items) == 0 && len(list.NotShown) == 0 {
					return "No resources found.\n", nil
				}
				return list.Text(style, time.Now(), s.all, output == "wide"), nil
			})
		},
	}
	s.bind(cmd)
	outputFlag(cmd, &output, "wide", "json", "yaml", "name")
	cmd.Flags().BoolVar(&notReady, "not-ready", false, "Only resources that are not ready.")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "Go on, and show what changes.")
	return cmd
}

// filtered returns the list, without ready resources if notReady is true.
func filtered(list *view.List, notReady bool) *view.List {
	if !notReady {
		return list
	}
	kept := list.Items[:0]
	for _, row := range list.Items {
		if row.State.Group() != view.GroupReady {
			kept = append(kept, row)
		}
	}
	list.Items = kept
	return list
}
