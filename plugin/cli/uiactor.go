package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
	"huolala.cn/app-operator/plugin/ui"
	"huolala.cn/app-operator/plugin/view"
)

const (
	// rightsLife is how long a right of the user is remembered.
	rightsLife = time.Minute
	// rightsTime is how long a page waits for the answer about a right, and rightsPause how long no page asks again after no answer.
	rightsTime, rightsPause = 2 * time.Second, 10 * time.Second
)

// actor makes the changes that the pages offer, by the code of the commands with the same names.
type actor struct {
	clients *clients
	mu      sync.Mutex
	rights  map[string]knownRight
}

// knownRight is the cached result of a check: why the right is missing, nil if the user has it.
type knownRight struct {
	missing error
	until   time.Time
}

var _ ui.Actor = (*actor)(nil)

// CheckAllowed implements ui.Actor. If the API server does not answer, its last answer counts, and nothing is in the way if there is
// none: it decides in the end.
func (a *actor) CheckAllowed(ctx context.Context, kind view.Kind, namespace string) error {
	key := namespace + "/" + kind.Plural
	a.mu.Lock()
	known := a.rights[key]
	a.mu.Unlock()
	if time.Now().Before(known.until) {
		return known.missing
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "patch", Group: appv1.GroupVersion.Group, Resource: kind.Plural,
		},
	}}
	bounded, cancel := context.WithTimeout(ctx, rightsTime)
	defer cancel()
	answer, err := a.clients.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(bounded, review, metav1.CreateOptions{})
	switch {
	case ctx.Err() != nil: // The page is closed.
		return known.missing
	case err != nil:
		known.until = time.Now().Add(rightsPause)
	case answer.Status.Allowed:
		known = knownRight{until: time.Now().Add(rightsLife)}
	default:
		known.until = time.Now().Add(rightsLife)
		known.missing = fmt.Errorf("you may not patch %s.%s in %s; ask for this right", kind.Plural, appv1.GroupVersion.Group, namespace)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rights[key] = known
	return known.missing
}

// actionOperations returns an action as a JSON patch of the resource as it is now.
func (a *actor) actionOperations(ctx context.Context, act ui.Action) (*view.Resource, []view.Operation, error) {
	t := target{act.Kind, act.Namespace, act.Name}
	if act.Do == ui.Rollback {
		return a.rollbackOperations(ctx, t, act.Value)
	}
	now, err := a.clients.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return nil, nil, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	if err := checkNotDeleting(&now); err != nil {
		return nil, nil, err
	}
	var ops []view.Operation
	switch act.Do {
	case ui.Suspend:
		ops = []view.Operation{{Op: "add", Path: "/spec/suspended", Value: true}}
	case ui.Pause, ui.Resume:
		fields := pauseFields(&now, act.Do == ui.Pause)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			ops = append(ops, view.Operation{Op: "add", Path: "/spec/" + field, Value: fields[field]})
		}
	case ui.Refresh:
		ops = annotationOperations(&now, appv1.AnnotationRefresh, time.Now().UTC().Format(time.RFC3339))
	case ui.Hold:
		ops = annotationOperations(&now, appv1.AnnotationHold, act.Value)
	case ui.Unhold:
		ops = annotationOperations(&now, appv1.AnnotationHold, "")
	case ui.Promote, ui.Abort:
		if ops, err = canaryOperations(&now, t, act); err != nil {
			return nil, nil, err
		}
	case ui.Scale:
		n, err := strconv.ParseInt(act.Value, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("%q is not a number of pods", act.Value)
		}
		ops = []view.Operation{{Op: "add", Path: "/spec/replicas", Value: n}}
	default:
		return nil, nil, fmt.Errorf("there is no action %q", act.Do)
	}
	return &now, ops, nil
}

// canaryOperations returns the operations that promote or remove the canary that an action is about, or why it is refused, as the commands refuse it.
func canaryOperations(now *view.Resource, t target, act ui.Action) ([]view.Operation, error) {
	step := canaryStep{annotation: appv1.AnnotationAbort}
	if act.Do == ui.Promote {
		step = canaryStep{annotation: appv1.AnnotationPromote, needsReady: true}
	}
	err := checkCanary(now, t, &step)
	if err == nil {
		err = checkSameCanary(now, t, types.UID(act.Value))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return annotationOperations(now, step.annotation, act.Value), nil
}

// rollbackOperations returns the operations that restore the spec of a revision.
func (a *actor) rollbackOperations(ctx context.Context, t target, revision string) (*view.Resource, []view.Operation, error) {
	number, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is not a revision", revision)
	}
	s, err := a.clients.readSnapshot(ctx, t, false)
	if err == nil {
		err = checkNotDeleting(&s.Resource)
	}
	if err != nil {
		return nil, nil, err
	}
	ops, err := operationsBack(s, "", number)
	return &s.Resource, ops, err
}

// annotationOperations returns the operations that set an annotation, or remove it for an empty value. There are annotations afterwards.
func annotationOperations(now *view.Resource, key, value string) []view.Operation {
	path := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
	if value == "" {
		if _, found := now.ObjectMeta.Annotations[key]; !found {
			return nil
		}
		return []view.Operation{{Op: "remove", Path: path}}
	}
	var ops []view.Operation
	if len(now.ObjectMeta.Annotations) == 0 {
		ops = append(ops, view.Operation{Op: "add", Path: "/metadata/annotations", Value: map[string]any{}})
	}
	return append(ops, view.Operation{Op: "add", Path: path, Value: value})
}

// restartPods replaces the pods of a resource as it was proposed by its resource version, or proposes it. It changes the workloads, and not
// the resource, so the operator has no part in the plan: the API server tries it.
func (a *actor) restartPods(ctx context.Context, act ui.Action, version string) (*ui.Proposal, error) {
	t := target{act.Kind, act.Namespace, act.Name}
	now, err := a.clients.clientOf(t.kind, t.namespace).getResource(ctx, t.name)
	if err != nil {
		return nil, inWords(err, "get", t.kind.Name+" "+t.name, t.namespace)
	}
	p := &ui.Proposal{Version: now.ObjectMeta.ResourceVersion}
	if version != "" && version != p.Version {
		return nil, ui.ErrChanged
	}
	done, err := a.clients.tryRestart(ctx, t, &now)
	if err != nil {
		return nil, err
	}
	if version != "" {
		done, err = a.clients.restartEach(ctx, t, &now, metav1.PatchOptions{FieldManager: fieldManager})
	}
	switch {
	case err != nil && len(done) > 0:
		last := done[len(done)-1]
		return nil, fmt.Errorf("%w: %s %s and those before it are restarted: %w", ui.ErrPartial, last.kind, last.name, err)
	case err != nil && mayBeDone(err):
		return nil, fmt.Errorf("%w: %w", ui.ErrUnclear, err)
	case err != nil:
		return nil, err
	}
	for _, w := range done {
		p.Pods += int(w.pods)
		p.Rows = append(p.Rows, view.PlanRow{Object: w.kind + " " + w.name, Effect: fmt.Sprintf("%s are replaced one after the other", message.Count(int(w.pods), "pod"))})
		p.Text += fmt.Sprintf("%s %s: pods are replaced, as kubectl rollout restart does: %d\n", w.kind, w.name, w.pods)
	}
	return p, nil
}

// ProposeAction implements ui.Actor.
func (a *actor) ProposeAction(ctx context.Context, act ui.Action) (*ui.Proposal, error) {
	if act.Do == ui.Restart {
		return a.restartPods(ctx, act, "")
	}
	now, ops, err := a.actionOperations(ctx, act)
	if err != nil {
		return nil, err
	}
	dry, err := a.clients.dryRunOperations(target{act.Kind, act.Namespace, act.Name}, now, ops)
	if err != nil {
		return nil, err
	}
	p, err := dry.askPlan(ctx)
	if err != nil {
		return nil, err
	}
	all := view.PlanOf(p)
	text := all.Text(view.Style{})
	if tool := now.GitOps(); tool != "" {
		text += view.CleanText(tool) + " applies " + now.ObjectName() + ", and may restore what is changed here. Change it in Git.\n"
	}
	proposal := newProposal(all, text)
	proposal.Version, proposal.To, proposal.Command = now.ObjectMeta.ResourceVersion, versionAfter(now, act, ops), actionCommand(now, act)
	if obstacle := all.FindObstacle(now); obstacle != nil {
		proposal.Blocked = obstacle.Reason + ": " + obstacle.Message
	}
	return proposal, nil
}

// newProposal returns a plan with its text as a page shows it.
func newProposal(all *view.Plan, text string) *ui.Proposal {
	restarts := all.CountRestarts()
	return &ui.Proposal{
		Text: text, Summary: all.Summary(), Rows: all.TableRows(),
		Pods: int(restarts.Pods), Promoted: int(restarts.Promoted), Unknown: restarts.Unknown, Paused: restarts.Paused,
	}
}

// versionAfter returns the version that runs after an action, empty if the action does not choose one.
func versionAfter(now *view.Resource, act ui.Action, ops []view.Operation) string {
	switch act.Do {
	case ui.Hold:
		if act.Value == view.LastGood && now.LastGoodImage != "" {
			return view.VersionOf(now.LastGoodImage)
		}
	case ui.Rollback:
		for _, op := range ops {
			if image, ok := op.Value.(string); ok && strings.HasSuffix(op.Path, "/image") {
				return view.VersionOf(image)
			}
		}
	}
	return ""
}

// actionCommand returns the command line that does what an action does.
func actionCommand(now *view.Resource, act ui.Action) string {
	switch act.Do {
	case ui.Scale:
		return view.CommandLine(now.ObjectMeta.Namespace, "kubectl scale", strings.ToLower(now.Kind)+"/"+now.ObjectMeta.Name, "--replicas="+act.Value)
	case ui.Rollback:
		return now.PluginCommand(act.Do, "--to", act.Value)
	case ui.Hold:
		if act.Value != view.LastGood {
			return ""
		}
	}
	return now.PluginCommand(act.Do)
}

// PlanText implements ui.Actor.
func (a *actor) PlanText(ctx context.Context, text string) (*ui.Proposal, error) {
	objects, err := decodeObjects(strings.NewReader(text), "the text")
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var left []string
	changes, err := a.clients.changesOf(ctx, objects, "", func(what string) { left = append(left, what+"\n") })
	if err != nil {
		return nil, err
	}
	all, err := planAll(ctx, changes)
	if err != nil {
		return nil, err
	}
	return newProposal(all, all.Text(view.Style{})+view.CleanText(strings.Join(left, ""))), nil
}

// PerformAction implements ui.Actor.
func (a *actor) PerformAction(ctx context.Context, act ui.Action, version string) error {
	if act.Do == ui.Restart {
		_, err := a.restartPods(ctx, act, version)
		return err
	}
	now, ops, err := a.actionOperations(ctx, act)
	if err != nil {
		return err
	}
	if now.ObjectMeta.ResourceVersion != version {
		return ui.ErrChanged
	}
	data, err := json.Marshal(append([]view.Operation{{Op: "test", Path: "/metadata/resourceVersion", Value: version}}, ops...))
	if err != nil {
		return err
	}
	_, err = a.clients.clientOf(act.Kind, act.Namespace).patchResource(ctx, act.Name, types.JSONPatchType, data)
	if apierrors.IsConflict(err) || isFailedTest(err) {
		return ui.ErrChanged
	}
	unclear := err != nil && mayBeDone(err)
	if err = inWords(err, "patch", act.Kind.Name+" "+act.Name, act.Namespace); unclear {
		return fmt.Errorf("%w: %w", ui.ErrUnclear, err)
	}
	return err
}
