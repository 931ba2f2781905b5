package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// planOptions are the flags of plan.
type planOptions struct {
	files          []string
	recursive      bool
	manager        string
	set            []string
	to             int64
	part           string
	refresh, adopt bool
	failOnRestart  bool
	output         string
}

// exitRestart is the exit status of plan --fail-on-restart where pods would be replaced.
const exitRestart = 3

func (r *root) planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "plan {-f FILE | NAME}", Aliases: []string{"diff"}, Short: "Show what a change would do, and which pods restart", Args: takesArguments(0, 1),
		ValidArgsFunction: r.completeNames,
		Long: "Show what a change would do: which objects are created, changed and deleted, and how many pods restart. The change is sent as\n" +
			"a dry run, and the operator answers; nothing is written. A file is sent as the last \"kubectl apply\" of the resource was.\n\n" +
			"The exit status is 0 if nothing changes, 1 if something does, 2 after an error or if something is in the way of the change, and\n" +
			"3 with --fail-on-restart if pods restart.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return wrongUse(r.printPlans(cmd.Context(), args, &o)) // The exit status 1 means a change, so 2 means any error.
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "Files or directories with resources; - is the standard input.")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Read directories with all that is below them.")
	flags.StringVar(&o.manager, "field-manager", "", "Send files by server-side apply as this manager.")
	flags.StringArrayVar(&o.set, "set", nil, "A field below spec and its value, such as image=nginx:2.")
	flags.Int64Var(&o.to, "to", 0, "A revision that the spec would return to.")
	partFlag(cmd, &o.part)
	flags.BoolVar(&o.refresh, "refresh", false, "What a refresh would take over.")
	flags.BoolVar(&o.adopt, "adopt", false, "What an adoption would take over.")
	flags.BoolVar(&o.failOnRestart, "fail-on-restart", false, "Exit with 3 if pods restart.")
	outputFlag(cmd, &o.output, "json", "yaml")
	atLeastOne(cmd, "to")
	return cmd
}

// printPlans requests the plans and prints them.
func (r *root) printPlans(ctx context.Context, args []string, o *planOptions) error {
	if (len(o.files) > 0) == (len(args) > 0) {
		return errors.New("name either a resource, or files with -f")
	}
	if o.part != "" && o.to == 0 {
		return errors.New("--part goes with --to")
	}
	c, err := r.newClients()
	if err != nil {
		return err
	}
	changes, err := r.requestedChanges(ctx, c, args, o)
	if err != nil {
		return err
	}
	all, err := planAll(ctx, changes)
	if err != nil {
		return err
	}
	if err := r.printPlan(all, o.output); err != nil {
		return err
	}
	return o.exitStatus(all)
}

// exitStatus returns the exit status of plans that are printed, nil for 0.
func (o *planOptions) exitStatus(all *view.Plan) error {
	switch {
	case all.HasProblem(), o.adopt && all.HasBlockedObject():
		return &exit{code: exitError}
	case o.failOnRestart && all.Restarts.Pods > 0:
		return &exit{code: exitRestart}
	case o.failOnRestart && all.IsIncomplete():
		return &exit{code: exitError} // It is not known whether pods restart.
	case all.HasChanges():
		return &exit{code: 1}
	}
	return nil
}

// printPlan prints a plan in a format. Of a plan that is cut off, the exit status must not be that of its changes.
func (r *root) printPlan(all *view.Plan, format string) error {
	printed, err := r.printData(format, all)
	if err != nil {
		return err
	}
	if !printed {
		style, err := r.styleOf(r.Out)
		if err != nil {
			return err
		}
		r.printText(all.Text(style))
	}
	return r.outputError()
}

// change is a change of a resource that can be sent as a dry run. send sends it, and returns what the resource would be.
type change struct {
	target
	verb string
	send func(ctx context.Context) ([]byte, error)
	// look corrects a plan by what its user may see, nil for a change whose plan the operator has made with all that there is.
	look func(ctx context.Context, p *plan.Plan)
}

// planAll requests the plan of each change, and merges the plans.
func planAll(ctx context.Context, changes []change) (*view.Plan, error) {
	var plans []*plan.Plan
	for i := range changes {
		p, err := changes[i].askPlan(ctx)
		if err != nil {
			return nil, err
		}
		if p.Created && changes[i].look != nil {
			changes[i].look(ctx, p)
		}
		plans = append(plans, p)
	}
	return view.PlanOf(plans...), nil
}

// requestedChanges returns the changes that are asked for.
func (r *root) requestedChanges(ctx context.Context, c *clients, args []string, o *planOptions) ([]change, error) {
	if len(args) == 0 {
		if len(o.set) > 0 || o.to != 0 || o.refresh || o.adopt {
			return nil, errors.New("--set, --to, --refresh and --adopt go with the name of a resource")
		}
		return r.fileChanges(ctx, c, o)
	}
	t, err := c.resolveTarget(ctx, args[0])
	if err != nil {
		return nil, err
	}
	if o.to != 0 {
		if len(o.set) > 0 || o.refresh || o.adopt {
			return nil, errors.New("--to goes with neither --set nor --refresh nor --adopt")
		}
		return c.returnTo(ctx, t, o)
	}
	annotations := map[string]any{plan.Annotation: plan.Request}
	if o.refresh {
		annotations[appv1.AnnotationRefresh] = time.Now().UTC().Format(time.RFC3339)
	}
	if o.adopt {
		annotations[appv1.AnnotationAdopt] = "true"
	}
	body := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	for _, assignment := range o.set {
		if err := assignField(body, assignment); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return []change{c.dryRunPatch(t, types.MergePatchType, data, fieldManager, false)}, nil
}

// assignField sets a field below spec, which is written as path=value. The value is YAML.
func assignField(body map[string]any, assignment string) error {
	path, text, found := strings.Cut(assignment, "=")
	if !found || path == "" || strings.ContainsAny(path, "[]") {
		return fmt.Errorf("--set: %q is no path=value; for an item of a list, use -f", assignment)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("--set: the value of %s: %w", path, err)
	}
	into := body
	steps := append([]string{"spec"}, strings.Split(strings.TrimPrefix(path, "spec."), ".")...)
	for _, step := range steps[:len(steps)-1] {
		below, ok := into[step].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[step] = below
		}
		into = below
	}
	into[steps[len(steps)-1]] = value
	return nil
}

// returnTo returns the change back to a recorded spec.
func (c *clients) returnTo(ctx context.Context, t target, o *planOptions) ([]change, error) {
	s, err := c.readSnapshot(ctx, t, false)
	if err == nil {
		err = checkNotDeleting(&s.Resource)
	}
	if err != nil {
		return nil, err
	}
	ops, err := operationsBack(s, view.Part(o.part), o.to)
	if err != nil {
		return nil, err
	}
	dry, err := c.dryRunOperations(t, &s.Resource, ops)
	return []change{dry}, err
}

// operationsBack returns the operations that restore the spec of a revision.
func operationsBack(s *view.Snapshot, part view.Part, revision int64) ([]view.Operation, error) {
	w, err := s.Resource.RecordedWorkload(part)
	if err != nil {
		return nil, err
	}
	h, err := view.HistoryOf(s, part)
	if err != nil {
		return nil, err
	}
	rev, err := h.FindRevision(revision)
	if err != nil {
		return nil, err
	}
	return view.RollbackOperations(w.CurrentSpec(), w.Path, rev), nil
}

// dryRunOperations returns a dry run of operations on a resource that asks for the plan.
func (c *clients) dryRunOperations(t target, now *view.Resource, ops []view.Operation) (change, error) {
	annotated := *now
	annotated.ObjectMeta = *now.ObjectMeta.DeepCopy()
	if len(ops) > 0 && strings.HasPrefix(ops[0].Path, "/metadata/annotations") && ops[0].Op == "add" {
		annotated.ObjectMeta.Annotations = map[string]string{"": ""} // They are there by then.
	}
	data, err := json.Marshal(append(ops, annotationOperations(&annotated, plan.Annotation, plan.Request)...))
	return c.dryRunPatch(t, types.JSONPatchType, data, fieldManager, false), err
}

// dryRunPatch returns a dry run of a patch.
func (c *clients) dryRunPatch(t target, how types.PatchType, data []byte, manager string, force bool) change {
	return change{target: t, verb: "patch", send: func(ctx context.Context) ([]byte, error) {
		request := c.app.AppV1().RESTClient().Patch(how).Namespace(t.namespace).Resource(t.kind.Plural).Name(t.name).
			Param("dryRun", "All").Param("fieldManager", manager).Param("fieldValidation", "Strict").Body(data)
		if force {
			request.Param("force", "true")
		}
		return answerOf(request.Do(ctx))
	}}
}

// answerOf returns the answer to a request. Its error has the API server's message, which Raw leaves out.
func answerOf(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// maxAsked is how often the operator is asked for a plan that the API server has not answered in time.
const maxAsked = 3

// askPlan returns the operator's plan of a change. It repeats the request while the plan is incomplete because the API server was slow, at most
// maxAsked times.
func (c *change) askPlan(ctx context.Context) (*plan.Plan, error) {
	for asked := 1; ; asked++ {
		p, err := c.askOnce(ctx)
		if err != nil || !p.Incomplete || asked == maxAsked || ctx.Err() != nil {
			return p, err
		}
	}
}

// askOnce sends the dry run and returns the operator's answer.
func (c *change) askOnce(ctx context.Context) (*plan.Plan, error) {
	what := c.kind.Name + " " + c.name
	would, err := c.send(ctx)
	if err == nil {
		var r view.Resource
		var object metav1.PartialObjectMetadata
		if json.Unmarshal(would, &object) == nil {
			r = view.Resource{Kind: c.kind.Name, ObjectMeta: object.ObjectMeta}
		}
		if err := checkNotDeleting(&r); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: the operator has not answered with a plan. Its webhooks are off, or it is older than this plug-in; "+
			"see \"%s\"", what, view.PluginCommand(c.namespace, "check"))
	}
	p, none := plan.Decode(err)
	switch {
	case none != nil:
		return nil, inWords(err, c.verb, what, c.namespace)
	case p.Version > plan.Version:
		return nil, fmt.Errorf("%s: the plan is of version %d, and this plug-in reads up to %d; install the plug-in of the operator's version",
			what, p.Version, plan.Version)
	}
	return p, nil
}
