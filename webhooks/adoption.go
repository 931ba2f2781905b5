package webhooks

import (
	"context"
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
	"huolala.cn/app-operator/resource"
)

// What an adoption does is said before it happens. The fields of an object that the resource does not control are said to
// those alone who can read the resource: any pod can send a review to the webhooks' port, and state in it what it likes. The
// proof is the UID of the resource as it was, which an update states and a creation cannot.

const (
	// maxWarning is the length of a warning that the API server never cuts, in bytes.
	maxWarning = 256
	// maxNamed is how many fields a warning names of a kind, if they fit.
	maxNamed = 8
	// maxPlans is how many adoptions are worked out at once. Others are told what an adoption does in general.
	maxPlans = 2
)

// seer returns what is observed of a workload object that a resource names, and whose spec is of a size.
type seer func(kind, name string, size appv1.Size) resource.BuildOptions

// unseen is the seer of a workload that is new.
func (s *validators) unseen(string, string, appv1.Size) resource.BuildOptions { return s.today }

// wantsAdoption reports whether a resource takes over objects.
func wantsAdoption(owner client.Object) bool {
	return owner.GetAnnotations()[appv1.AnnotationAdopt] == "true" || adoptsWithoutRestart(owner)
}

// adoptsWithoutRestart reports whether it leaves the pod template of a Deployment that it takes over as it is.
func adoptsWithoutRestart(owner client.Object) bool {
	return owner.GetAnnotations()[appv1.AnnotationAdopt] == appv1.AdoptWithoutRestart && resource.KindOf(owner).Holds
}

// adoptable reports whether a live object is one that the owner takes over by its annotation alone.
func (s *validators) adoptable(owner, wanted, live client.Object) bool {
	return apply.Taken(s.scheme, owner, wanted, live, false) != nil && apply.Taken(s.scheme, owner, wanted, live, true) == nil
}

// adoptions warns of what the resource takes over: of each object with its fields if the request proves that it may know
// them, and in general otherwise. old is nil for a new resource.
func (v *validator[T]) adoptions(ctx context.Context, obj T, old client.Object, found *review) []string {
	if !wantsAdoption(obj) || len(found.errors) > 0 {
		return nil
	}
	taken := slices.DeleteFunc(slices.Clone(found.children), func(c child) bool {
		live, ok := emptyLike(c.object)
		return !ok || !v.read(ctx, c.object, live) || !v.adoptable(obj, c.object, live)
	})
	if len(taken) == 0 {
		return nil
	}
	var planned map[string]apply.Change
	if old != nil && v.proven(ctx, obj, old) {
		planned = v.planAdoptions(ctx, obj, taken)
	}
	var said []string
	for _, c := range taken {
		kind := c.object.GetObjectKind().GroupVersionKind().Kind
		if change, ok := planned[key(kind, c.object.GetName())]; ok {
			said = append(said, adoptionWarning(&change, found.paused))
		} else {
			said = append(said, generalWarning(kind, c.object.GetName(), adoptsWithoutRestart(obj)))
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

// proven reports whether who asks could read the resource as it was: its UID is that of the resource in the cache.
func (v *validator[T]) proven(ctx context.Context, obj T, old client.Object) bool {
	known := v.empty()
	known.SetNamespace(obj.GetNamespace())
	known.SetName(obj.GetName())
	return v.read(ctx, known, known) && known.GetUID() != "" &&
		old.GetUID() == known.GetUID() && obj.GetUID() == known.GetUID()
}

// planAdoptions works out what the adoption of each child changes, by whole objects from the API server. What cannot be worked
// out in time is missing.
func (v *validator[T]) planAdoptions(ctx context.Context, obj T, taken []child) map[string]apply.Change {
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
	planned := map[string]apply.Change{}
	for _, c := range v.rebuild(ctx, obj, lives) {
		kind := c.object.GetObjectKind().GroupVersionKind().Kind
		live := lives[key(kind, c.object.GetName())]
		if live == nil {
			continue
		}
		changes, err := v.engine.Plan(&apply.Request{
			Owner: obj, Manager: "app-operator/" + strings.ToLower(v.kind), Adopt: true,
			Children: []apply.Child{{Desired: c.object, Live: live}},
		})
		if err == nil && len(changes) == 1 {
			planned[key(kind, c.object.GetName())] = changes[0]
		}
	}
	return planned
}

// rebuild returns the children of a resource as they are built around live workload objects: these keep their selectors, and,
// if the operator made them from the same spec, what else shapes their pods.
func (v *validator[T]) rebuild(ctx context.Context, obj T, lives map[string]client.Object) []child {
	first := v.review(obj, v.seen(ctx, obj.GetNamespace(), lives, nil)).children
	records := map[string]string{}
	for _, c := range first {
		records[key(c.object.GetObjectKind().GroupVersionKind().Kind, c.object.GetName())] = c.object.GetAnnotations()[appv1.AnnotationLastAppliedSpec]
	}
	see := v.seen(ctx, obj.GetNamespace(), lives, records)
	return v.review(obj, func(kind, name string, size appv1.Size) resource.BuildOptions {
		seen := see(kind, name, size)
		seen.Inputs.Kept = seen.Inputs.Kept || adoptsWithoutRestart(obj) && lives[key(kind, name)] != nil
		return seen
	}).children
}

// seen returns the seer of live workload objects. records are those of the spec that is to be.
func (s *validators) seen(ctx context.Context, namespace string, lives map[string]client.Object, records map[string]string) seer {
	return func(kind, name string, size appv1.Size) resource.BuildOptions {
		at := key(kind, name)
		live := lives[at]
		if live == nil {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
			live = &appsv1.Deployment{ObjectMeta: meta}
			if kind == "StatefulSet" {
				live = &appsv1.StatefulSet{ObjectMeta: meta}
			}
			// What is missing states no selector, and the request has proved that it may know what is read.
			if s.read(ctx, live, live) && apply.IsPartial(live) && s.live.Get(ctx, client.ObjectKeyFromObject(live), live) != nil {
				return s.today
			}
		}
		seen := s.today
		if size.Named() {
			seen.Inputs.Size = resource.BuiltInSizes().Resolve(size)
		}
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

// generalWarning says what the adoption of an object does to any object of its kind.
func generalWarning(kind, name string, keeps bool) string {
	does := messageAdoptsWorkload
	switch {
	case kind == "Service":
		does = messageAdoptsService
	case kind != "Deployment" && kind != "StatefulSet":
		does = messageAdoptsOther
	case keeps:
		does = messageAdoptsAsItIs
	}
	said := ""
	for _, how := range []string{messageSeeFieldsFirst, messageSeeFieldsShort, ""} {
		said = strings.TrimSuffix(fmt.Sprintf(messageAdopted+": %s. %s", kind, name, does, how), ". ")
		if len(said) <= maxWarning {
			break
		}
	}
	return cut(said)
}

// adoptionWarning says what the adoption of one object changes, in as many words as a warning may have.
func adoptionWarning(change *apply.Change, paused bool) string {
	begin := fmt.Sprintf(messageAdopted, change.Kind, change.Name)
	if paused {
		begin += messageAdoptedLater
	}
	changed := slices.DeleteFunc(slices.Clone(change.Fields), func(field string) bool {
		// Its labels and its owner change with every adoption.
		return strings.HasPrefix(field, "metadata.") || slices.Contains(change.Removed, field)
	})
	said := ""
	for most := maxNamed; most >= 0; most-- {
		var parts []string
		for _, part := range []struct {
			does   string
			fields []string
		}{{messageFieldsRemoved, change.Removed}, {messageFieldsKept, change.Kept}, {messageFieldsChanged, changed}} {
			if len(part.fields) > 0 {
				parts = append(parts, part.does+listed(part.fields, most))
			}
		}
		switch {
		case change.TemplateChanged:
			parts = append(parts, messagePodsReplaced)
		case change.Kind == "Deployment" || change.Kind == "StatefulSet":
			parts = append(parts, messagePodsKeepRunning)
		}
		if len(parts) == 0 {
			parts = append(parts, messageNothingElse)
		}
		if said = begin + ": " + strings.Join(parts, "; "); len(said) <= maxWarning {
			break
		}
	}
	return cut(said)
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
