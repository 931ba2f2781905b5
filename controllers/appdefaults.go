package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/resource"
)

// Defaults reads the AppDefaults that count. They are read from the cache at each use, so that no change is missed; an invalid one leaves
// the last valid one in force.
type Defaults struct {
	// own is the namespace of the operator, whose AppDefaults count for all namespaces; empty if it is not known.
	own string
	// disabled are the features that are switched off.
	disabled []string
	// reader is the cache, nil for none: the built-in sizes, and no defaults.
	reader client.Reader

	mu    sync.Mutex
	known map[string]knownDefaults
}

// knownDefaults is the last reading of the AppDefaults of a namespace.
type knownDefaults struct {
	// uid and version identify the AppDefaults.
	uid        types.UID
	version    string
	generation int64
	// valid is the spec in force, nil if none is.
	valid *appv1.AppDefaultsSpec
	// wrong is why the present spec is not in force, nil if it is.
	wrong field.ErrorList
}

// newDefaults returns a reader of AppDefaults. own is the namespace of the operator, empty if it is not known.
func newDefaults(own string, disabled []string) *Defaults {
	return &Defaults{own: own, disabled: disabled, known: map[string]knownDefaults{}}
}

// builtInDefaults count without AppDefaults. They are never written.
var builtInDefaults = resource.LayerDefaults()

// Present implements workload.DefaultsReader.
func (d *Defaults) Present(ctx context.Context, namespace string) (resource.PresentDefaults, error) {
	layers, err := d.layers(ctx, namespace)
	if err != nil || len(layers) == 0 {
		return builtInDefaults, err
	}
	return resource.LayerDefaults(layers...), nil
}

// presentWith is Present with another spec in place of the AppDefaults of a namespace.
func (d *Defaults) presentWith(ctx context.Context, namespace, of string, spec *appv1.AppDefaultsSpec) (resource.PresentDefaults, error) {
	var layers []*appv1.AppDefaultsSpec
	for _, ns := range d.namespacesFor(namespace) {
		if ns == of {
			layers = append(layers, spec)
			continue
		}
		known, err := d.read(ctx, ns)
		if err != nil {
			return builtInDefaults, err
		}
		layers = append(layers, known.valid)
	}
	return resource.LayerDefaults(layers...), nil
}

// layers returns the specs that count for the resources of a namespace, the nearest last.
func (d *Defaults) layers(ctx context.Context, namespace string) ([]*appv1.AppDefaultsSpec, error) {
	if d.reader == nil {
		return nil, nil
	}
	var layers []*appv1.AppDefaultsSpec
	for _, ns := range d.namespacesFor(namespace) {
		known, err := d.read(ctx, ns)
		if err != nil {
			return nil, err
		}
		if known.valid != nil {
			layers = append(layers, known.valid)
		}
	}
	return layers, nil
}

// namespacesFor returns the namespaces whose AppDefaults count for the resources of a namespace, the nearest last.
func (d *Defaults) namespacesFor(namespace string) []string {
	if d.own == "" || d.own == namespace {
		return []string{namespace}
	}
	return []string{d.own, namespace}
}

// read reads the AppDefaults of a namespace, the zero value if there are none.
func (d *Defaults) read(ctx context.Context, namespace string) (knownDefaults, error) {
	// Held from before the read, so that the last reading is also the latest.
	d.mu.Lock()
	defer d.mu.Unlock()
	found := &stored.AppDefaults{}
	// The cache waits until it has synced: AppDefaults that were not read yet never count as none.
	switch err := d.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: appv1.AppDefaultsName}, found); {
	case apierrors.IsNotFound(err):
		delete(d.known, namespace)
		return knownDefaults{}, nil
	case err != nil:
		return knownDefaults{}, fmt.Errorf("read the AppDefaults of namespace %s: %w", namespace, err)
	}
	known := d.known[namespace]
	if known.uid == found.UID && known.version == found.ResourceVersion {
		return known, nil
	}
	if known.uid != found.UID { // A new object has no earlier spec.
		known = knownDefaults{}
	}
	known.uid, known.version, known.generation, known.wrong = found.UID, found.ResourceVersion, found.Generation, nil
	typed, err := found.Decode()
	if known.wrong = checkDefaults(typed, found.Raw().Len(), err, d.disabled); len(known.wrong) == 0 {
		known.valid = &typed.Spec
	}
	d.known[namespace] = known
	return known, nil
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
func (d *Defaults) cacheOptions(namespaces []string) cache.ByObject {
	by := cache.ByObject{Transform: func(in any) (any, error) { return trimResource(in), nil }}
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

// watchDefaults has the resources of a kind looked at again when the AppDefaults that count for them have changed: their status reports it.
func (s *Deps) watchDefaults(b *builder.Builder, kind client.ObjectList) *builder.Builder {
	concerned := func(ctx context.Context, obj client.Object) []ctrl.Request {
		list, ok := kind.DeepCopyObject().(client.ObjectList)
		if !ok || s.Client.List(ctx, list, s.defaults.scopeOf(obj.GetNamespace()), client.UnsafeDisableDeepCopy) != nil {
			return nil // The manager is ending: nothing else makes reading the cache fail.
		}
		return requestsFor(list)
	}
	return b.Watches(&stored.AppDefaults{}, handler.EnqueueRequestsFromMapFunc(concerned), builder.WithPredicates(predicate.And(
		predicate.GenerationChangedPredicate{},
		// At the start all are looked at anyway.
		predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }},
	)))
}

// scopeOf selects the resources that the AppDefaults of a namespace count for.
func (d *Defaults) scopeOf(namespace string) client.ListOption {
	if namespace == d.own {
		return client.InNamespace("")
	}
	return client.InNamespace(namespace)
}
