package webhooks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
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
)

// newOptions returns the build options for a new workload of a spec.
func (s *validators) newOptions(ctx context.Context, who *asker, namespace string, spec resource.Spec) resource.BuildOptions {
	present, known := s.presentDefaults(ctx, who, namespace)
	seen := s.today
	seen.Inputs.Defaults = resource.TakeDefaults(&present, spec)
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

// isAdoptable reports whether the owner may adopt a live object, and only with its annotation.
func (s *validators) isAdoptable(owner, wanted, live client.Object) bool {
	return apply.Taken(s.scheme, owner, wanted, live, false) != nil && apply.Taken(s.scheme, owner, wanted, live, true) == nil
}

// warnAdoptions warns of the objects that the resource adopts: with their fields if the request proves that its author may read them, and in
// general otherwise.
func (v *validator[T]) warnAdoptions(ctx context.Context, who *asker, obj T, found *review) []string {
	if !wantsAdoption(obj) || len(found.errors)+len(found.pending) > 0 {
		return nil
	}
	told := who.grantAnswer(topicAdoption)
	if told == nothing {
		return nil
	}
	taken := slices.DeleteFunc(slices.Clone(found.children), func(c child) bool {
		live, ok := emptyLike(c.object)
		return !ok || !v.readCached(ctx, c.object, live) || !v.isAdoptable(obj, c.object, live)
	})
	if len(taken) == 0 {
		return nil
	}
	var planned []apply.Outcome
	refusal := ""
	if told == full {
		planned, refusal = v.planAdoptions(ctx, obj)
	}
	var said []string
	for _, c := range taken {
		said = append(said, v.adoptionOf(obj, c, planned, refusal, found.paused))
	}
	return said
}

// adoptionOf returns the warning of one object: its planned adoption, or else the refusal of the plan, or else the general warning.
func (v *validator[T]) adoptionOf(obj T, c child, planned []apply.Outcome, refusal string, paused bool) string {
	kind, name := c.object.GetObjectKind().GroupVersionKind().Kind, c.object.GetName()
	at := slices.IndexFunc(planned, func(o apply.Outcome) bool { return o.Kind == kind && o.Name == name && !o.Unasked })
	switch {
	case at >= 0 && planned[at].Err == nil:
		return adoptionWarning(&planned[at].Change, paused)
	case at >= 0:
		_, refusal = reconciler.ReasonAndMessageOf(planned[at].Err)
	case refusal == "":
		return generalWarning(kind, name, adoptsWithoutRestart(obj))
	}
	return c.name.String() + ": " + refusal
}

// emptyLike returns an empty object of the type of another.
func emptyLike(obj client.Object) (client.Object, bool) {
	empty, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	return empty, ok
}

// isProven reports whether the author of a review could read the stored resource: its UID is the UID of the resource in the cache.
func (v *validator[T]) isProven(ctx context.Context, obj, old client.Object) bool {
	known := v.empty()
	known.SetNamespace(obj.GetNamespace())
	known.SetName(obj.GetName())
	return v.readCached(ctx, known, known) && known.GetUID() != "" &&
		old.GetUID() == known.GetUID() && obj.GetUID() == known.GetUID()
}

// planAdoptions returns the adoptions by the plan of the resource, and the message of the error that prevents the change. It returns
// neither if the plan cannot be made in time.
func (v *validator[T]) planAdoptions(ctx context.Context, obj T) (planned []apply.Outcome, refusal string) {
	if v.planner == nil {
		return nil, ""
	}
	done, ok := v.limits.plans.beginTurn(ctx, obj.GetNamespace(), v.patience/3)
	if !ok {
		return nil, ""
	}
	defer done()
	planned, err := v.planner.Adoptions(ctx, v.kind, obj)
	var stalled *reconciler.StalledError
	switch {
	case errors.As(err, &stalled):
		refusal = stalled.Message
	case err != nil:
		ctrl.LoggerFrom(ctx).V(1).Info(messagePlanFailed, "name", obj.GetName(), "error", err.Error())
	}
	return planned, refusal
}

// presentDefaults returns the defaults and the sizes that count in a namespace. If they cannot be read, or the asker gets nothing of them, known is
// false, and no AppDefaults count.
func (s *validators) presentDefaults(ctx context.Context, who *asker, namespace string) (present resource.PresentDefaults, known bool) {
	if s.planner != nil && who.grantAnswer(topicDefaults) == full {
		if present, err := s.planner.Present(ctx, namespace); err == nil && present.Unknown == "" {
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
	return cutWarning(said)
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
				parts = append(parts, part.does+listFields(part.fields, part.most))
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
	return cutWarning(say(0, 0))
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

// listFields names the first fields of a list, and how many more there are.
func listFields(fields []string, most int) string {
	switch rest := len(fields) - most; {
	case rest <= 0:
		return strings.Join(fields, ", ")
	case most == 0:
		return fmt.Sprintf(messageFieldsCount, len(fields))
	default:
		return fmt.Sprintf(messageFieldsAndMore, strings.Join(fields[:most], ", "), rest)
	}
}

// cutWarning returns the beginning of a warning that is too long.
func cutWarning(said string) string {
	if len(said) <= maxWarning {
		return said
	}
	return said[:maxWarning-len("...")] + "..."
}
