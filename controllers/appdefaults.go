package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/heap"
	"huolala.cn/app-operator/internal/shares"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/waves"
	"huolala.cn/app-operator/resource"
)

// Defaults reads the AppDefaults that count. They are read from the cache at each use, so that no change is missed. Of invalid AppDefaults the
// last valid spec counts, which their status has; without it, what counts is unknown, which is not the same as none.
type Defaults struct {
	// own is the namespace of the operator, whose AppDefaults count for all namespaces; empty if it is not known.
	own string
	// disabled are the features that are switched off.
	disabled []string
	// reader is the cache, nil for none: the built-in sizes, and no defaults. live reads what the cache keeps in part alone.
	reader, live client.Reader
	// decoded has the last readings by namespace, within a budget. A reading that is gone is made again.
	decoded *shares.Store[string, knownDefaults]
}

// The budget of decoded AppDefaults, in bytes: of a namespace, and of all. The longest spec takes about 3 MiB.
const (
	maxNamespaceDefaults = 4 << 20
	maxDecodedDefaults   = 16 << 20
)

// knownDefaults is the last reading of the AppDefaults of a namespace.
type knownDefaults struct {
	// uid and version identify the AppDefaults, and far the AppDefaults of the operator's namespace where the result depends on them.
	uid          types.UID
	version, far string
	generation   int64
	// valid is the spec in force, nil if none is known.
	valid *appv1.AppDefaultsSpec
	// wrong is why the present spec is not in force, nil if it is.
	wrong field.ErrorList
	// soaked is the latest wave whose soak has ended, by the status.
	soaked waves.Soaked
}

// isUnknown reports whether there are AppDefaults, and no valid spec of them is known.
func (k *knownDefaults) isUnknown() bool { return k.uid != "" && k.valid == nil }

// newDefaults returns a reader of AppDefaults. own is the namespace of the operator, empty if it is not known.
func newDefaults(own string, disabled []string) *Defaults {
	return &Defaults{own: own, disabled: disabled, decoded: shares.New[string, knownDefaults](maxNamespaceDefaults, maxDecodedDefaults)}
}

// builtInDefaults count without AppDefaults. They are never written.
var builtInDefaults = resource.LayerDefaults()

// Present implements workload.DefaultsReader.
func (d *Defaults) Present(ctx context.Context, namespace string) (resource.PresentDefaults, error) {
	return d.presentWith(ctx, namespace, "", nil)
}

// presentWith is Present with another spec in place of the AppDefaults of a namespace.
func (d *Defaults) presentWith(ctx context.Context, namespace, of string, spec *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	if d.reader == nil {
		return builtInDefaults, nil
	}
	var layers []*appv1.AppDefaultsSpec
	unknown := ""
	for _, ns := range d.namespacesFor(namespace) {
		if ns == of && spec != nil {
			layers = append(layers, spec)
			continue
		}
		known, err := d.readDefaults(ctx, ns)
		switch {
		case err != nil:
			return builtInDefaults, err
		case known.isUnknown():
			unknown = ns
		case known.valid != nil:
			layers = append(layers, known.valid)
		}
	}
	if len(layers) == 0 && unknown == "" {
		return builtInDefaults, nil
	}
	present := resource.LayerDefaults(layers...)
	present.Unknown = unknown
	return present, nil
}

// namespacesFor returns the namespaces whose AppDefaults count for the resources of a namespace, the nearest last.
func (d *Defaults) namespacesFor(namespace string) []string {
	if d.own == "" || d.own == namespace {
		return []string{namespace}
	}
	return []string{d.own, namespace}
}

// readDefaults reads the AppDefaults of a namespace, the zero value if there are none.
func (d *Defaults) readDefaults(ctx context.Context, namespace string) (knownDefaults, error) {
	found := &stored.AppDefaults{}
	// The cache waits until it has synced: AppDefaults that were not read yet never count as none.
	switch err := d.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: appv1.AppDefaultsName}, found); {
	case apierrors.IsNotFound(err):
		d.decoded.Delete(namespace, namespace)
		return knownDefaults{}, nil
	case err != nil:
		return knownDefaults{}, fmt.Errorf("read the AppDefaults of namespace %s: %w", namespace, err)
	}
	far, err := d.farFor(ctx, namespace)
	if err != nil {
		return knownDefaults{}, err
	}
	before, _ := d.decoded.Get(namespace, namespace)
	if before.uid == found.UID && before.version == found.ResourceVersion && (before.far == "" || before.far == far.version) {
		return before, nil
	}
	if found.Reduced() {
		if err := d.live.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
			return knownDefaults{}, fmt.Errorf("read the AppDefaults of namespace %s: %w", namespace, err)
		}
	}
	known := d.effectiveDefaults(found, &before, &far)
	if before.uid != found.UID || before.generation <= found.Generation { // Another reading may have been of a later state.
		d.decoded.Put(namespace, namespace, known, heap.Size(known))
	}
	return known, nil
}

// farFor returns the AppDefaults of the operator's namespace for the AppDefaults of another namespace.
func (d *Defaults) farFor(ctx context.Context, namespace string) (knownDefaults, error) {
	if d.own == "" || d.own == namespace {
		return knownDefaults{}, nil
	}
	return d.readDefaults(ctx, d.own)
}

// effectiveDefaults returns what counts of AppDefaults: their spec if it is valid, else the last valid one, by an earlier reading or by the
// status. Containers that cannot run make a spec invalid, but an earlier release has put such a spec in force: it stays the last valid one, and the
// spec itself counts where no other is known.
func (d *Defaults) effectiveDefaults(found *stored.AppDefaults, before, far *knownDefaults) knownDefaults {
	known := knownDefaults{uid: found.UID, version: found.ResourceVersion, generation: found.Generation, soaked: soakedOf(&found.Status.Value)}
	typed, err := found.Decode()
	known.wrong = checkDefaults(typed, found.Raw().Len(), err, d.disabled)
	if len(known.wrong) == 0 {
		known.wrong, known.far = d.checkSize(&typed.Spec, far)
	}
	counts := len(known.wrong) == 0
	if counts {
		known.wrong = validation.RunnableDefaults(&typed.Spec)
	}
	if len(known.wrong) == 0 {
		known.valid = &typed.Spec
		return known
	}
	if before.uid == found.UID && before.valid != nil {
		known.valid = before.valid
		return known
	}
	if past := decodeLastValid(found.Status.Value.LastValid); past != nil && len(validation.AppDefaults(past, 0, d.disabled)) == 0 {
		known.valid = past // Also where its default size is defined no longer: the resources that take the size report that.
		return known
	}
	if counts {
		known.valid = &typed.Spec
	}
	return known
}

// checkSize returns an error for a default size that does not exist. far are the AppDefaults below; version is the version of far where the
// answer depends on it.
func (d *Defaults) checkSize(spec *appv1.AppDefaultsSpec, far *knownDefaults) (wrong field.ErrorList, version string) {
	path := field.NewPath("spec", "defaults", "size")
	own := resource.LayerDefaults(spec).Sizes
	if len(own.Resolve(spec.Defaults.Size).Undefined(own, path)) == 0 || far.isUnknown() {
		return nil, ""
	}
	all := resource.LayerDefaults(far.valid, spec).Sizes
	return all.Resolve(spec.Defaults.Size).Undefined(all, path), cmp.Or(far.version, "none")
}

// encodeLastValid returns the text of a spec for the status of AppDefaults.
func encodeLastValid(spec stored.Spec) string {
	plain, err := spec.MarshalJSON()
	if err != nil {
		return ""
	}
	return resource.Compress(plain)
}

// decodeLastValid returns the spec of such a text, nil for a text that the operator has not written.
func decodeLastValid(text string) *appv1.AppDefaultsSpec {
	plain, err := resource.Decompress(text, validation.MaxDefaultsSpec)
	if text == "" || err != nil {
		return nil
	}
	found := &stored.AppDefaults{}
	if err := found.Spec.UnmarshalJSON(plain); err != nil {
		return nil
	}
	typed, err := found.Decode()
	if err != nil {
		return nil
	}
	return &typed.Spec
}

// checkDefaults returns the errors of AppDefaults. length is the length of the JSON of the spec, and undecodable is why the spec cannot be
// decoded, nil if it can.
func checkDefaults(defaults *appv1.AppDefaults, length int, undecodable error, disabled []string) field.ErrorList {
	var wrong *field.Error
	switch {
	case errors.As(undecodable, &wrong):
		return field.ErrorList{wrong}
	case undecodable != nil:
		return field.ErrorList{field.InternalError(field.NewPath("spec"), undecodable)}
	}
	return validation.AppDefaults(&defaults.Spec, length, disabled)
}

// cacheOptions has the cache hold the AppDefaults of the watched namespaces and of the operator's.
func (d *Defaults) cacheOptions(namespaces []string, kept *budget.Budget) cache.ByObject {
	by := cache.ByObject{Transform: keepDefaults(kept)}
	if len(namespaces) == 0 {
		return by
	}
	by.Namespaces = map[string]cache.Config{}
	for _, ns := range namespaces {
		by.Namespaces[ns] = cache.Config{}
	}
	if d.own != "" {
		by.Namespaces[d.own] = cache.Config{}
	}
	return by
}

// keepDefaults returns what changes AppDefaults to what the cache keeps of them: within the budget they are kept whole.
func keepDefaults(kept *budget.Budget) func(any) (any, error) {
	return func(in any) (any, error) {
		trimmed := trimResource(in)
		if obj, ok := trimmed.(*stored.AppDefaults); ok {
			kept.KeepResource("AppDefaults", obj, func() []string { return nil })
			if obj.Reduced() {
				shortenAnnotations(obj)
			}
		}
		return trimmed, nil
	}
}

// watchDefaults has the resources of a kind looked at again when the AppDefaults that count for them have changed: their status reports it.
func (s *Deps) watchDefaults(b *builder.Builder, w *waker) *builder.Builder {
	// At the start all are looked at anyway.
	return b.Watches(&stored.AppDefaults{}, w.handler(s.mapDefaults), builder.WithPredicates(laterSpecChanged()))
}

// mapDefaults maps AppDefaults to the resources that they count for.
func (s *Deps) mapDefaults(_ context.Context, obj client.Object) wakeUps {
	return wakeUps{groups: []wakeGroup{{namespace: string(s.defaults.scopeOf(obj.GetNamespace()))}}}
}

// scopeOf selects the resources that the AppDefaults of a namespace count for.
func (d *Defaults) scopeOf(namespace string) client.InNamespace {
	if namespace == d.own {
		return ""
	}
	return client.InNamespace(namespace)
}
