package webhooks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// A warning lists the changes of an adoption before it happens. The warning names fields of an object that the resource does not control
// only to a caller who can read the resource: any pod can send a review with any content to the webhooks' port. The proof is the UID of the
// stored resource, which an update has and a creation cannot have.

const (
	// maxWarning is the length of a warning that the API server never cuts, in bytes.
	maxWarning = 256
	// maxNamed is how many fields a warning names of a kind, if they fit.
	maxNamed = 8
	// maxPlans is how many adoptions are planned at once. Other requests get the general warning.
	maxPlans = 2
)

// seer returns the build options for a workload object that a resource names, and for its spec, by the live object.
type seer func(kind, name string, spec resource.Spec) resource.BuildOptions

// unseen returns the seer of workloads that are new.
func (s *validators) unseen(ctx context.Context, namespace string) seer {
	present, known := s.present(ctx, namespace)
	return func(_, _ string, spec resource.Spec) resource.BuildOptions {
		return s.newOptions(&present, known, spec)
	}
}

// newOptions returns the build options for a new workload of a spec. known is false if the present defaults could not be read.
func (s *validators) newOptions(present *resource.PresentDefaults, known bool, spec resource.Spec) resource.BuildOptions {
	seen := s.today
	seen.Inputs.Defaults = resource.TakeDefaults(present, spec)
	seen.Inputs.Size = present.Sizes.Resolve(spec.WithDefaults(seen.Inputs.Defaults).Workload().Size)
	if known {
		seen.Sizes = present.Sizes
	}
	return seen
}

// wantsAdoption reports whether a resource takes over objects.
func wantsAdoption(owner client.Object) bool {
	return owner.GetAnnotations()[appv1.AnnotationAdopt] == "true" || adoptsWithoutRestart(owner)
}

// adoptsWithoutRestart reports whether the owner keeps the pod template of a Deployment that it adopts.
func adoptsWithoutRestart(owner client.Object) bool {
	return owner.GetAnnotations()[appv1.AnnotationAdopt] == appv1.AdoptWithoutRestart && resource.KindOf(owner).Holds
}

// adoptable reports whether the owner may adopt a live object, and only with its annotation.
func (s *validators) adoptable(owner, wanted, live client.Object) bool {
	return apply.Taken(s.scheme, owner, wanted, live, false) != nil && apply.Taken(s.scheme, owner, wanted, live, true) == nil
}

// adoptions warns of the objects that the resource adopts: with their fields if the request proves that its author may read them, and in
// general otherwise.
func (v *validator[T]) adoptions(ctx context.Context, who *asker, obj T, found *review) []string {
	if !wantsAdoption(obj) || len(found.errors) > 0 {
		return nil
	}
	told := who.gets(topicAdoption)
	if told == nothing {
		return nil
	}
	taken := slices.DeleteFunc(slices.Clone(found.children), func(c child) bool {
		live, ok := emptyLike(c.object)
		return !ok || !v.read(ctx, c.object, live) || !v.adoptable(obj, c.object, live)
	})
	if len(taken) == 0 {
		return nil
	}
	var planned map[string]adoption
	if told == full {
		planned = v.planAdoptions(ctx, obj, taken)
	}
	var said []string
	paused := found.paused
	for _, c := range taken {
		kind := c.object.GetObjectKind().GroupVersionKind().Kind
		switch found, ok := planned[key(kind, c.object.GetName())]; {
		case !ok:
			said = append(said, generalWarning(kind, c.object.GetName(), adoptsWithoutRestart(obj)))
		case found.refusal != nil:
			said = append(said, c.name.String()+": "+found.refusal.Message)
		default:
			said = append(said, adoptionWarning(&found.change, paused))
		}
	}
	return said
}

func key(kind, name string) string { return kind + "/" + name }

// emptyLike returns an empty object of the type of another.
func emptyLike(obj client.Object) (client.Object, bool) {
	empty, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	return empty, ok
}

// proven reports whether the author of a review could read the stored resource: its UID is the UID of the resource in the cache.
func (v *validator[T]) proven(ctx context.Context, obj, old client.Object) bool {
	known := v.empty()
	known.SetNamespace(obj.GetNamespace())
	known.SetName(obj.GetName())
	return v.read(ctx, known, known) && known.GetUID() != "" &&
		old.GetUID() == known.GetUID() && obj.GetUID() == known.GetUID()
}

// adoption is the change by the adoption of one object, or the reason why it cannot be adopted.
type adoption struct {
	change  apply.Change
	refusal *reconciler.StalledError
}

// planAdoptions plans the adoption of each child, with whole objects from the API server. Adoptions that cannot be planned in time are
// missing.
func (v *validator[T]) planAdoptions(ctx context.Context, obj T, taken []child) map[string]adoption {
	select {
	case v.plans <- struct{}{}:
		defer func() { <-v.plans }()
	default:
		return nil
	}
	lives := map[string]client.Object{}
	for _, c := range taken {
		live, ok := emptyLike(c.object)
		if !ok {
			continue
		}
		if err := v.live.Get(ctx, client.ObjectKeyFromObject(c.object), live); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info(messageWarningUnreadable, "name", c.object.GetName(), "error", err.Error())
			continue
		}
		lives[key(c.object.GetObjectKind().GroupVersionKind().Kind, c.object.GetName())] = live
	}
	if len(lives) == 0 {
		return nil
	}
	planned := map[string]adoption{}
	children := v.rebuild(ctx, obj, lives)
	for _, c := range children {
		kind := c.object.GetObjectKind().GroupVersionKind().Kind
		live := lives[key(kind, c.object.GetName())]
		if live == nil {
			continue
		}
		if made, ok := v.planAdoption(ctx, obj, c, live, workloadChildren(c.workload, lives)); ok {
			planned[key(kind, c.object.GetName())] = made
		}
	}
	return planned
}

// workloadChildren returns the workload objects of a workload as children for the engine, with their live objects.
func workloadChildren(w *resource.Workload, lives map[string]client.Object) []apply.Object {
	var children []apply.Object
	for _, wanted := range w.Objects() {
		switch wanted.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			child := apply.Object{Desired: wanted}
			if live, ok := lives[key(wanted.GetObjectKind().GroupVersionKind().Kind, wanted.GetName())]; ok {
				child.Live = live
			}
			children = append(children, child)
		}
	}
	return children
}

// planAdoption plans the adoption of one child. ok is false without a plan. around are the workload objects whose pods a Service selects.
func (v *validator[T]) planAdoption(ctx context.Context, obj T, c child, live client.Object, around []apply.Object) (made adoption, ok bool) {
	req := apply.Request{
		Owner: obj, Manager: resource.KindOf(obj).FieldManager(), Policy: apply.Policy{Adopt: true, DefaultLabels: c.workload.DefaultLabels},
		Objects: []apply.Object{{Desired: c.object, Live: live, StatedLabels: c.workload.StatedLabels(c.object)}},
	}
	whole := req
	whole.Objects = slices.Concat(around, req.Objects)
	err := v.engine.CheckServes(ctx, &whole, &req.Objects[0], live)
	if errors.As(err, &made.refusal) {
		return made, true
	}
	done, planning := v.engine.Run(ctx, req, apply.Local)
	if errors.As(planning, &made.refusal) {
		return made, true
	}
	changes := done.Changes()
	if err != nil || planning != nil || len(changes) != 1 {
		return made, false
	}
	made.change = changes[0]
	return made, true
}

// rebuild returns the children of a resource as built for live workload objects: these keep their selectors, and, if the operator made them
// from the same spec, the other inputs of their pods.
func (v *validator[T]) rebuild(ctx context.Context, obj T, lives map[string]client.Object) []child {
	first := v.review(obj, v.seen(ctx, obj.GetNamespace(), lives, nil)).children
	records := map[string]string{}
	for _, c := range first {
		records[key(c.object.GetObjectKind().GroupVersionKind().Kind, c.object.GetName())] = c.object.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
	}
	see := v.seen(ctx, obj.GetNamespace(), lives, records)
	return v.review(obj, func(kind, name string, spec resource.Spec) resource.BuildOptions {
		seen := see(kind, name, spec)
		seen.Inputs.Kept = seen.Inputs.Kept || adoptsWithoutRestart(obj) && lives[key(kind, name)] != nil
		return seen
	}).children
}

// seen returns the seer of live workload objects. records are the recorded specs of the new spec.
func (s *validators) seen(ctx context.Context, namespace string, lives map[string]client.Object, records map[string]string) seer {
	present, known := s.present(ctx, namespace)
	return func(kind, name string, spec resource.Spec) resource.BuildOptions {
		at := key(kind, name)
		live := lives[at]
		if live == nil {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
			live = &appsv1.Deployment{ObjectMeta: meta}
			if kind == "StatefulSet" {
				live = &appsv1.StatefulSet{ObjectMeta: meta}
			}
			// A missing object has no selector. The request has proved that its author may read the object.
			if s.read(ctx, live, live) && children.IsPartial(live) && s.live.Get(ctx, client.ObjectKeyFromObject(live), live) != nil {
				return s.today
			}
		}
		seen := s.newOptions(&present, known, spec)
		seen.Unrecorded = false
		recorded, err := resource.DecodeInputs(live.GetAnnotations()[appv1.AnnotationLastAppliedInputs])
		if was := live.GetAnnotations()[appv1.AnnotationLastAppliedSpec]; err == nil && was != "" && was == records[at] {
			seen.Inputs = recorded
		} else if err == nil {
			seen.Inputs.Config = recorded.Config
		}
		var selector *metav1.LabelSelector
		switch live := live.(type) {
		case *appsv1.Deployment:
			selector = live.Spec.Selector
		case *appsv1.StatefulSet:
			selector = live.Spec.Selector
		}
		if selector != nil {
			seen.Selector = selector.MatchLabels
		}
		seen.Autoscaled = s.autoscaler(ctx, namespace, kind, name) != ""
		return seen
	}
}

// present returns the defaults and the sizes that count in a namespace. If they cannot be read, known is false, and no AppDefaults count.
func (s *validators) present(ctx context.Context, namespace string) (present resource.PresentDefaults, known bool) {
	if s.planner != nil {
		if present, err := s.planner.Present(ctx, namespace); err == nil {
			return present, true
		}
	}
	return resource.LayerDefaults(), false
}

// generalWarning returns the effect of an adoption on any object of a kind.
func generalWarning(kind, name string, keeps bool) string {
	does, unless := messageAdoptsOther, messageUnlessAboutOthers
	switch kind {
	case "Service":
		does, unless = messageAdoptsService, messageUnlessServesOthers
	case "Deployment", "StatefulSet":
		does, unless = messageAdoptsWorkload, ""
		if keeps {
			does = messageAdoptsAsItIs
		}
	}
	begin := fmt.Sprintf(messageAdopted, kind, name) + unless
	said := ""
	for _, how := range []string{messageSeeFieldsFirst, messageSeeFieldsShort, ""} {
		said = strings.TrimSuffix(fmt.Sprintf("%s: %s. %s", begin, does, how), ". ")
		if len(said) <= maxWarning {
			break
		}
	}
	return cut(said)
}

// adoptionWarning returns the changes of one object's adoption, cut to the length of a warning.
func adoptionWarning(change *apply.Change, paused bool) string {
	begin := fmt.Sprintf(messageAdopted, change.Kind, change.Name)
	if paused {
		begin += messageAdoptedLater
	}
	set, changed := changedLabels(change)
	say := func(most, mostLabels int) string {
		var parts []string
		for _, part := range []struct {
			does   string
			fields []string
			most   int
		}{
			{messageFieldsRemoved, change.Removed, most}, {messageFieldsKept, change.Kept, most},
			{messageFieldsChanged, changed, most}, {messageLabelsSet, set, mostLabels},
		} {
			if len(part.fields) > 0 {
				parts = append(parts, part.does+listed(part.fields, part.most))
			}
		}
		switch {
		case change.TemplateChanged:
			parts = append(parts, messagePodsReplaced)
		case change.Kind == "Deployment" || change.Kind == "StatefulSet":
			parts = append(parts, messageNoPodRestarts)
		}
		if len(parts) == 0 {
			parts = append(parts, messageNothingElse)
		}
		return begin + ": " + strings.Join(parts, "; ")
	}
	for most := maxNamed; most >= 0; most-- {
		if said := say(most, maxNamed); len(said) <= maxWarning {
			return said
		}
	}
	return cut(say(0, 0))
}

const (
	// labelField is how the engine names a label, before its key.
	labelField = "metadata.labels["
	// commonLabels is how the keys of Kubernetes' recommended labels begin.
	commonLabels = "app.kubernetes.io/"
)

// changedLabels returns the labels that an adoption sets, and the other fields that it changes. Kubernetes' recommended labels are one
// entry. The owner, and the annotations that are the operator's records, are in neither: these are the adoption.
func changedLabels(change *apply.Change) (set, changed []string) {
	var common []string
	for _, field := range change.Fields {
		label, ok := strings.CutPrefix(field, labelField)
		label = strings.TrimSuffix(label, "]")
		short, recommended := strings.CutPrefix(label, commonLabels)
		switch {
		case slices.Contains(change.Removed, field), field == "metadata.ownerReferences",
			strings.HasPrefix(field, "metadata.annotations["+appv1.GroupVersion.Group+"/"):
		case ok && recommended:
			common = append(common, short)
		case ok:
			set = append(set, label)
		default:
			changed = append(changed, field)
		}
	}
	switch {
	case len(common) == 1:
		set = append([]string{commonLabels + common[0]}, set...)
	case len(common) > 1:
		set = append([]string{commonLabels + "{" + strings.Join(common, ",") + "}"}, set...)
	}
	return set, changed
}

// listed names the first fields of a list, and how many more there are.
func listed(fields []string, most int) string {
	switch rest := len(fields) - most; {
	case rest <= 0:
		return strings.Join(fields, ", ")
	case most == 0:
		return fmt.Sprintf(messageFieldsCount, len(fields))
	default:
		return fmt.Sprintf(messageFieldsAndMore, strings.Join(fields[:most], ", "), rest)
	}
}

// cut returns the beginning of a warning that is too long.
func cut(said string) string {
	if len(said) <= maxWarning {
		return said
	}
	return said[:maxWarning-len("...")] + "..."
}
