package cli

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/plugin/view"
	"huolala.cn/app-operator/resource"
)

// A creation proves nothing of its author, so the operator answers its plan without a look at most objects of others. The plug-in looks, with
// the rights of its user, and decides as the operator does.

// newOwner is a resource that is to be created.
type newOwner struct {
	resource.Object
	kind view.Kind
	// adopt is true if it takes over objects that nothing controls.
	adopt bool
}

// correctCreation corrects the plan of a creation by the live objects of the names. data is the resource as it is sent. What the user may not
// read stays as the operator has answered.
func (c *clients) correctCreation(ctx context.Context, t target, data []byte, p *plan.Plan) {
	owner := newOwner{Object: t.kind.New(), kind: t.kind}
	if json.Unmarshal(data, owner.Object) != nil {
		return
	}
	owner.SetNamespace(t.namespace)
	switch owner.GetAnnotations()[appv1.AnnotationAdopt] {
	case "true":
		owner.adopt = true
	case appv1.AdoptWithoutRestart:
		owner.adopt = t.kind.Holds
	}
	today := resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}, Unrecorded: true}
	for _, w := range resource.WorkloadsOf(owner.Object, today) {
		c.correctObjects(ctx, owner, w.Objects(), p)
	}
	if task, ok := owner.Object.(*appv1.Task); ok { // Of an unseen App, the CronJob has at least its name.
		made, _ := resource.Task(task, nil, resource.ResolvedSize{})
		c.correctObjects(ctx, owner, []resource.Object{made.CronJob}, p)
	}
}

// correctObjects is correctCreation for the objects of one workload.
func (c *clients) correctObjects(ctx context.Context, owner newOwner, objects []resource.Object, p *plan.Plan) {
	var children claim.Children
	var unread []bool
	for _, wanted := range objects {
		live, err := c.liveOf(ctx, wanted)
		children, unread = append(children, claim.Pair{Wanted: wanted, Live: live}), append(unread, err != nil)
	}
	serves := func(pair claim.Pair) string {
		words, err := children.Serves(ctx, userView{c}, pair.Wanted, pair.Live)
		if err != nil { // It is unknown whether the object serves others: its part of the plan stays.
			unread[slices.Index(children, pair)] = true
		}
		return words
	}
	fates := children.Foresee(owner.decideStanding, serves)
	for i := range fates {
		if !unread[i] {
			correctObject(p, children[i].Wanted, &fates[i])
		}
	}
	adoption := func(f claim.Fate) bool { return f.Standing == claim.Adopted && f.Withheld }
	if first := slices.IndexFunc(fates, func(f claim.Fate) bool { return f.InTheWay() }); p.Problem == nil && slices.ContainsFunc(fates, adoption) {
		p.Problem = problemOf(&fates[first]) // Nothing is adopted while an object is in the way.
	}
}

// problemOf returns the obstacle to an object in the form of a plan.
func problemOf(fate *claim.Fate) *plan.Problem {
	if fate.Standing == claim.Leaving {
		return &plan.Problem{Reason: appv1.ReasonProgressing, Message: fate.Words}
	}
	return &plan.Problem{Reason: appv1.ReasonResourceExists, Message: fate.Words}
}

// decideStanding returns what a live object is to the new owner.
func (o newOwner) decideStanding(pair claim.Pair) (claim.Standing, string) {
	kind := appv1.GroupVersion.WithKind(o.kind.Name)
	return (&claim.Case{
		Wanted: pair.Wanted, Live: pair.Live, Kind: kindOfObject(pair.Wanted), Owner: kind, Name: o.GetName(), Adopt: o.adopt, Whole: true,
		Applied: func() bool { return claim.WasApplied(pair.Live, o.kind.FieldManager()) },
	}).Decide()
}

// correctObject states in a plan what becomes of an object.
func correctObject(p *plan.Plan, wanted claim.Object, fate *claim.Fate) {
	kind, name := kindOfObject(wanted), wanted.GetName()
	at := slices.IndexFunc(p.Objects, func(o plan.Object) bool { return o.Kind == kind && o.Name == name })
	if at >= 0 && (p.Objects[at].Action == plan.Scaled || p.Objects[at].Action == plan.Blocked && fate.Absent) {
		return // The operator knows that better.
	}
	object := plan.Object{Kind: kind, Name: name, Action: plan.Created}
	switch auxiliary := claim.RoleOf(wanted).Auxiliary; {
	case fate.InTheWay() && auxiliary:
		object.Action, object.Problem = plan.Blocked, problemOf(fate)
	case fate.InTheWay():
		if p.Problem == nil || p.Problem.Reason == appv1.ReasonResourceExists && at < 0 {
			p.Problem = problemOf(fate)
		}
		fallthrough
	case fate.Withheld:
		if at >= 0 {
			p.Objects = slices.Delete(p.Objects, at, at+1)
		}
		return
	case !fate.Absent:
		object.Action, object.TakenOver = plan.Changed, true
	}
	if at >= 0 {
		p.Objects[at] = object
	} else {
		p.Objects = append(p.Objects, object)
	}
}

// kindOfObject is the kind of an object that was built, which states it.
func kindOfObject(obj claim.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }

// liveOf reads the live object of the type and name of a wanted one, nil if there is none.
func (c *clients) liveOf(ctx context.Context, wanted claim.Object) (claim.Object, error) {
	resources, _ := meta.UnsafeGuessKindToResource(wanted.GetObjectKind().GroupVersionKind())
	found, err := c.dynamic.Resource(resources).Namespace(wanted.GetNamespace()).Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	live, ok := reflect.New(reflect.TypeOf(wanted).Elem()).Interface().(claim.Object)
	if !ok {
		return nil, errors.New("no API object")
	}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, live)
}

// userView is the claim.Cluster of a user.
type userView struct{ c *clients }

// errEnough ends a list whose further objects are not needed.
var errEnough = errors.New("no further object is needed")

// Selecting implements claim.Cluster.
func (v userView) Selecting(ctx context.Context, namespace string, do func(claim.Object, *metav1.LabelSelector) bool) error {
	deployments, err := v.c.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range deployments.Items {
		if !do(&deployments.Items[i], deployments.Items[i].Spec.Selector) {
			return nil
		}
	}
	sets, err := v.c.kube.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		if !do(&sets.Items[i], sets.Items[i].Spec.Selector) {
			return nil
		}
	}
	return nil
}

// Templates implements claim.Cluster.
func (v userView) Templates(ctx context.Context, namespace string, do func(claim.Object, *corev1.PodTemplateSpec) bool) error {
	apps, batch, chunk := v.c.kube.AppsV1(), v.c.kube.BatchV1(), v.c.chunk
	visit := func(item runtime.Object) error {
		workload, ok := item.(claim.Object)
		if template := claim.TemplateOf(item); ok && template != nil && !do(workload, template) {
			return errEnough
		}
		return nil
	}
	for _, visitKind := range []func() error{
		func() error { return visitEach(ctx, apps.Deployments(namespace), chunk, visit) },
		func() error { return visitEach(ctx, apps.StatefulSets(namespace), chunk, visit) },
		func() error { return visitEach(ctx, apps.DaemonSets(namespace), chunk, visit) },
		func() error { return visitEach(ctx, batch.CronJobs(namespace), chunk, visit) },
		func() error { return visitEach(ctx, batch.Jobs(namespace), chunk, visit) },
	} {
		err := visitKind()
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AnyPod implements claim.Cluster.
func (v userView) AnyPod(ctx context.Context, namespace string, selector labels.Selector, account string) (bool, error) {
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: 1}
	if account != "" {
		options.FieldSelector = fields.OneTermEqualSelector("spec.serviceAccountName", account).String()
	}
	pods, err := v.c.kube.CoreV1().Pods(namespace).List(ctx, options)
	return err == nil && len(pods.Items) > 0, err
}

// PodLabels implements claim.Cluster.
func (userView) PodLabels(_ context.Context, live claim.Object) (map[string]string, error) {
	return claim.PodLabels(live), nil
}
