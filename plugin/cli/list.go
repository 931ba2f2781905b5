package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"huolala.cn/app-operator/plugin/view"
)

// selection are the flags by which a command finds several resources.
type selection struct {
	allNamespaces bool
	selector      string
}

func (s *selection) bindFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "In all namespaces.")
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "Only resources with these labels.")
}

// listSelected lists the resources of all kinds that are selected. It fails if none of the kinds can be listed.
func (c *clients) listSelected(ctx context.Context, s *selection) ([]view.Resource, []view.Missing, error) {
	namespace := c.namespace
	if s.allNamespaces {
		namespace = ""
	}
	var wait sync.WaitGroup
	found := make([][]view.Resource, len(view.Kinds))
	errs := make([]error, len(view.Kinds))
	for i, kind := range view.Kinds {
		wait.Go(func() {
			found[i], errs[i] = c.clientOf(kind, namespace).listResources(ctx, metav1.ListOptions{LabelSelector: s.selector})
		})
	}
	wait.Wait()
	var all []view.Resource
	var missing []view.Missing
	for i, kind := range view.Kinds {
		all = append(all, found[i]...)
		if errs[i] != nil {
			missing = append(missing, view.Missing{Kinds: pluralOf(kind), Why: c.refusalOf(errs[i], namespace)})
		}
	}
	if len(missing) == len(view.Kinds) {
		return nil, nil, inWords(errs[0], "list", pluralOf(view.Kinds[0]), namespace)
	}
	return all, missing, ctx.Err()
}

// pluralOf returns the kind in the plural, as a person reads it.
func pluralOf(kind view.Kind) string {
	if strings.HasSuffix(kind.Plural, "xes") {
		return kind.Name + "es"
	}
	return kind.Name + "s"
}

// listOptions are the flags of list.
type listOptions struct {
	selection
	output, states, order string
	notReady, follow      bool
	labels, noHead        bool
}

func (r *root) listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use: "list [KIND | NAME]", Aliases: []string{"ls"}, Short: "All resources in one table, the most urgent first, with the cause", Args: takesArguments(0, 1),
		ValidArgsFunction: r.completeNames,
		Long: "List the resources, the most urgent first: what needs you, what is in progress, what is on hold, and what is ready.\n" +
			"KIND is one of " + view.NameKinds("and", view.AnyKind) + "; NAME is the name of a resource of any kind, or KIND/NAME.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			read := func(ctx context.Context) (*view.List, error) {
				found, missing, err := c.listSelected(ctx, &o.selection)
				if err != nil {
					return nil, err
				}
				list := view.RowsOf(found, missing)
				list.Items = slices.DeleteFunc(list.Items, func(row view.Row) bool { return !o.isWanted(&row, args) })
				list.SortBy(o.order)
				return list, nil
			}
			return r.printList(cmd.Context(), read, &o)
		},
	}
	o.bindFlags(cmd)
	outputFlag(cmd, &o.output, "wide", "json", "yaml", "name")
	cmd.Flags().StringVar(&o.states, "state", "", "Only resources in these states, such as failing,stalled, or in these groups: needs-you, in-progress, on-hold, ready.")
	cmd.Flags().BoolVar(&o.notReady, "not-ready", false, "Only resources that are not ready.")
	cmd.Flags().StringVar(&o.order, "sort-by", view.Orders[0], "Sort by "+strings.Join(view.Orders, ", ")+".")
	cmd.Flags().BoolVar(&o.labels, "show-labels", false, "Show the labels, too.")
	cmd.Flags().BoolVar(&o.noHead, "no-headers", false, "Do not print the names of the columns.")
	watchFlag(cmd, &o.follow, &o.output, "wide")
	checkOutput := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := o.checkFlags(); err != nil {
			return err
		}
		return checkOutput(cmd, args)
	}
	return cmd
}

// checkFlags returns the error in a flag.
func (o *listOptions) checkFlags() error {
	for _, word := range o.stateWords() {
		known := slices.ContainsFunc(view.States, func(s view.State) bool { return strings.EqualFold(string(s), word) }) ||
			slices.ContainsFunc(view.Groups, func(g view.Group) bool { return strings.EqualFold(string(g), word) })
		if !known {
			return fmt.Errorf("--state: %q is no state and no group of states", word)
		}
	}
	if !slices.Contains(view.Orders, o.order) {
		return fmt.Errorf("--sort-by: %q is none of %s", o.order, strings.Join(view.Orders, ", "))
	}
	return nil
}

func (o *listOptions) stateWords() []string {
	if o.states == "" {
		return nil
	}
	return strings.Split(o.states, ",")
}

// isWanted reports whether a row is in the list.
func (o *listOptions) isWanted(row *view.Row, args []string) bool {
	if o.notReady && row.State.Group() == view.GroupReady {
		return false
	}
	if words := o.stateWords(); len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool {
		return strings.EqualFold(word, string(row.State)) || strings.EqualFold(word, string(row.State.Group()))
	}) {
		return false
	}
	if len(args) == 0 {
		return true
	}
	word, name, named := strings.Cut(args[0], "/")
	kind, known := view.KindOf(word)
	switch {
	case named:
		return known && kind.Name == row.Kind && name == row.Name
	case known:
		return kind.Name == row.Kind
	}
	return args[0] == row.Name
}

// printList prints a list in the format of the flags, again and again if it is followed.
func (r *root) printList(ctx context.Context, read func(context.Context) (*view.List, error), o *listOptions) error {
	if o.output == "json" || o.output == "yaml" || o.output == "name" {
		list, err := read(ctx)
		if err != nil {
			return err
		}
		if done, err := r.printData(o.output, list); done {
			return err
		}
		for i := range list.Items {
			r.printf("%s.app.huolala.cn/%s\n", strings.ToLower(list.Items[i].Kind), list.Items[i].Name)
		}
		for _, m := range list.NotShown {
			fmt.Fprintln(r.Err, "not shown: "+m.String())
		}
		return nil
	}
	return r.printDrawing(ctx, "the list", o.follow, func(ctx context.Context, style view.Style) (string, error) {
		list, err := read(ctx)
		if err != nil {
			return "", err
		}
		if len(list.Items) == 0 && len(list.NotShown) == 0 {
			return "No resources found.\n", nil
		}
		return list.Text(style, time.Now(), view.ListOptions{Namespaces: o.allNamespaces, Labels: o.labels, Wide: o.output == "wide", NoHead: o.noHead}), nil
	})
}
