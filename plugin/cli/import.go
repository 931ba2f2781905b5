package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/view"
)

// importOptions are the flags of import.
type importOptions struct {
	files             []string
	recursive         bool
	selector, folder  string
	all, onlyVerified bool
}

func (r *root) importCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use: "import [NAME...]", Short: "Print the Apps that take over Deployments without a restart", Args: takesArguments(0, -1),
		Long: "Print the App that takes over a Deployment, with its Service, autoscaler, disruption budget and Ingress. Without live objects, it\n" +
			"creates objects that mean the same. NAME is the name of a Deployment, also as deployment/NAME. With --filename, the objects are those of\n" +
			"files. Comments name each field that an App cannot set, or sets to another value. The command changes nothing in the cluster.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.newClients()
			if err != nil {
				return err
			}
			return r.importAll(cmd.Context(), c, args, &o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "Files or folders with the objects, - for standard input; the cluster is not asked.")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Folders with all folders below them.")
	flags.StringVarP(&o.selector, "selector", "l", "", "All Deployments with these labels.")
	flags.BoolVar(&o.all, "all", false, "All Deployments of the namespace that nothing controls.")
	flags.StringVarP(&o.folder, "output", "o", "", "Write a file for each App into this folder, and none over a file with another content.")
	flags.BoolVar(&o.onlyVerified, "verify", false, "Print no App, but in what the objects of the App in an empty namespace would differ; exit with 1 if in anything.")
	return cmd
}

// importAll prints the Apps of all Deployments that are asked for.
func (r *root) importAll(ctx context.Context, c *clients, arguments []string, o *importOptions) error {
	names, err := deploymentNames(arguments)
	if err != nil {
		return err
	}
	several := o.all || o.selector != "" || len(o.files) > 0
	if len(names) == 0 && !several {
		return wrongUse(errors.New("write the NAME of a Deployment, or --all, --selector or --filename"))
	}
	if o.onlyVerified && o.folder != "" {
		return wrongUse(errors.New("--verify prints no App, so there is none for --output"))
	}
	wanted, err := labels.Parse(o.selector)
	if err != nil {
		return wrongUse(fmt.Errorf("--selector: %w", err))
	}
	sources, err := r.importSources(ctx, c, names, o)
	if err != nil {
		return err
	}
	sources = slices.DeleteFunc(sources, func(from *view.Source) bool {
		d := from.Deployment
		return len(names) > 0 && !slices.Contains(names, d.Name) || !wanted.Matches(labels.Set(d.Labels))
	})
	return r.importSeveral(sources, o, several)
}

// importSeveral prints the Apps of Deployments. With goOn, a Deployment with an error does not keep the others from being printed: a Deployment of another
// owner and a file that exists are left out, and any other error fails the command.
func (r *root) importSeveral(sources []*view.Source, o *importOptions, goOn bool) error {
	printed, failed, differs := 0, 0, false
	for _, from := range sources {
		same, err := r.importOne(from, o, printed > 0)
		switch broken := r.outputError(); {
		case broken != nil:
			return broken
		case err == nil:
			printed++
			differs = differs || !same
		case !goOn:
			return err
		case errors.Is(err, view.ErrControls), errors.Is(err, errExists):
			fmt.Fprintln(r.Err, "left out: "+err.Error())
		default:
			failed++
			fmt.Fprintln(r.Err, "not imported: "+err.Error())
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %s not imported", failed, message.Count(len(sources), "Deployment"))
	case printed == 0:
		return errors.New("there is no Deployment to import")
	case differs:
		return &exit{code: 1}
	}
	return nil
}

// importOne prints the App of a Deployment, or how it compares, and reports whether both mean the same as far as that was asked for.
func (r *root) importOne(from *view.Source, o *importOptions, follows bool) (same bool, err error) {
	made, err := view.ImportOf(from)
	if err != nil {
		return false, err
	}
	if o.onlyVerified {
		found, err := view.VerifyImport(made, from)
		if err != nil {
			return false, fmt.Errorf("the App of Deployment %s: %w", from.Deployment.Name, err)
		}
		r.printText(found.Text())
		return len(found.Differences) == 0, nil
	}
	fields, err := made.Manifest()
	if err != nil {
		return false, err
	}
	text, err := view.EncodeYAML(fields)
	if err != nil {
		return false, err
	}
	if o.folder != "" {
		file := &outputFile{manifestPath(o.folder, made.App), made.HeadComments() + string(text)}
		if err := r.writeFile(file); err != nil {
			return false, fmt.Errorf("the App of Deployment %s: %w", made.App.Name, err)
		}
		return true, nil
	}
	separator := ""
	if follows {
		separator = "---\n"
	}
	r.printText(separator + made.HeadComments() + string(text))
	return true, nil
}

// deploymentNames returns the names of the Deployments that arguments name.
func deploymentNames(arguments []string) ([]string, error) {
	names := make([]string, 0, len(arguments))
	for _, argument := range arguments {
		word, name, found := strings.Cut(argument, "/")
		if !found {
			word, name = "deployment", argument
		}
		kind := strings.ToLower(word)
		if full, ok := belowNames[kind]; ok {
			kind = full
		}
		if kind != "deployment" || name == "" || strings.Contains(name, "/") {
			return nil, wrongUse(fmt.Errorf("%q: write NAME or deployment/NAME; an App is made of Deployments alone", argument))
		}
		names = append(names, name)
	}
	return names, nil
}

// importSources returns the Deployments of the files or of the namespace, each with the objects around it. With names, it fails if one of these
// is not there.
func (r *root) importSources(ctx context.Context, c *clients, names []string, o *importOptions) ([]*view.Source, error) {
	if len(o.files) > 0 {
		return r.fileSources(ctx, c, names, o)
	}
	var n view.Namespace
	g := &gathering{ctx: ctx, namespace: c.namespace, chunk: c.chunk, refusal: c.refusalOf, gathered: &gathered{}}
	gatherList(g, "Deployments", c.kube.AppsV1().Deployments(c.namespace), metav1.ListOptions{}, &n.Deployments)
	gatherList(g, "StatefulSets", c.kube.AppsV1().StatefulSets(c.namespace), metav1.ListOptions{}, &n.StatefulSets)
	gatherList(g, "DaemonSets", c.kube.AppsV1().DaemonSets(c.namespace), metav1.ListOptions{}, &n.DaemonSets)
	gatherList(g, "Services", c.kube.CoreV1().Services(c.namespace), metav1.ListOptions{}, &n.Services)
	gatherList(g, "HorizontalPodAutoscalers", c.kube.AutoscalingV2().HorizontalPodAutoscalers(c.namespace), metav1.ListOptions{}, &n.Autoscalers)
	gatherList(g, "PodDisruptionBudgets", c.kube.PolicyV1().PodDisruptionBudgets(c.namespace), metav1.ListOptions{}, &n.Budgets)
	gatherList(g, "Ingresses", c.kube.NetworkingV1().Ingresses(c.namespace), metav1.ListOptions{}, &n.Ingresses)
	gatherList(g, "NetworkPolicies", c.kube.NetworkingV1().NetworkPolicies(c.namespace), metav1.ListOptions{}, &n.Policies)
	var custom []unstructured.Unstructured
	for _, around := range view.ImportedCustom() {
		objects := c.dynamic.Resource(around.Resource).Namespace(c.namespace)
		gatherList(g, around.Kinds, ifDefined{objects, func(ctx context.Context) bool { return c.servesKind(ctx, around.Resource) }}, metav1.ListOptions{}, &custom)
	}
	g.wait.Wait()
	for i := range custom {
		if err := n.AddObject(&custom[i]); err != nil {
			return nil, err
		}
	}
	r.sayMissing(g.missing)
	if len(names) == 0 {
		return sourcesOf(&n), nil
	}
	sources := make([]*view.Source, 0, len(names))
	for _, name := range names {
		d, err := c.kube.AppsV1().Deployments(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, inWords(err, "get", "deployment "+name, c.namespace)
		}
		sources = append(sources, n.SourceOf(d))
	}
	return sources, nil
}

// sayMissing names what an import could not look at.
func (r *root) sayMissing(missing []view.Missing) {
	for _, m := range missing {
		fmt.Fprintln(r.Err, "not looked at: "+view.CleanLine(m.String()))
	}
}

// sourcesOf returns the sources of all Deployments of a namespace, by name.
func sourcesOf(n *view.Namespace) []*view.Source {
	sources := make([]*view.Source, 0, len(n.Deployments))
	for i := range n.Deployments {
		sources = append(sources, n.SourceOf(&n.Deployments[i]))
	}
	slices.SortStableFunc(sources, func(a, b *view.Source) int { return strings.Compare(a.Deployment.Name, b.Deployment.Name) })
	return sources
}

// fileSources returns the Deployments of files, each with the objects of its namespace that are in the files.
func (r *root) fileSources(ctx context.Context, c *clients, names []string, o *importOptions) ([]*view.Source, error) {
	objects, err := r.readObjects(ctx, o.files, o.recursive)
	if err != nil {
		return nil, err
	}
	spaces, byName := []*view.Namespace{}, map[string]*view.Namespace{}
	for _, obj := range objects {
		if obj.GetNamespace() == "" {
			obj.SetNamespace(c.namespace)
		}
		n := byName[obj.GetNamespace()]
		if n == nil {
			n = &view.Namespace{}
			byName[obj.GetNamespace()] = n
			spaces = append(spaces, n)
		}
		if err := n.AddObject(obj); err != nil {
			return nil, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	var sources []*view.Source
	for _, n := range spaces {
		r.sayMissing(n.Missing)
		sources = append(sources, sourcesOf(n)...)
	}
	for _, name := range names {
		if !slices.ContainsFunc(sources, func(from *view.Source) bool { return from.Deployment.Name == name }) {
			return nil, fmt.Errorf("the files have no Deployment %s", name)
		}
	}
	return sources, nil
}
