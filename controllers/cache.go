package controllers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/budget"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/stored"
	"huolala.cn/app-operator/internal/workload"
)

// The indexes of the cache.
const (
	// indexWanted finds CloudManagers by the names of their children.
	indexWanted = "wanted"
	// indexService finds resources of other kinds by the name that they state for their Service.
	indexService = "service"
)

// ParseNamespaces reads the namespaces to watch from a comma-separated list; an empty one means all, and so does no name.
func ParseNamespaces(list string) []string {
	var namespaces []string
	for _, ns := range strings.Split(list, ",") {
		if ns = strings.TrimSpace(ns); ns != "" {
			namespaces = append(namespaces, ns)
		}
	}
	return namespaces
}

// CacheOptions says what the manager's cache holds: all of what is ours, as far as the budget has room, and of everything else no more than
// decisions need, so that memory does not grow with the rest of the cluster. namespaces limits it; none means all.
func CacheOptions(namespaces []string, watched *watchSet, kept *budget.Budget) cache.Options {
	opts := cache.Options{
		DefaultTransform:         keepResource(kept),
		NewInformer:              kept.NewInformer,
		DefaultWatchErrorHandler: watches.noteFailure,
		ByObject:                 map[client.Object]cache.ByObject{},
	}
	for i := range children.Types {
		if row := &children.Types[i]; watched.isShared(row) {
			opts.ByObject[row.Object] = cacheByObject(row, kept)
		}
	}
	if len(namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts
}

// cacheByObject returns what the cache holds of a type.
func cacheByObject(row *children.Type, kept *budget.Budget) cache.ByObject {
	by := cache.ByObject{Transform: kept.Transform(row)}
	if row.Scope == children.ScopeOurs {
		by.Label = labels.SelectorFromSet(labels.Set{appv1.LabelManagedBy: appv1.ManagedBy})
	}
	return by
}

// AddIndexes adds the indexes that the controllers look things up by.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, watched *watchSet) error {
	for i := range children.Types {
		row := &children.Types[i]
		if !watched.isShared(row) {
			continue
		}
		var err error
		if row.Role.Has(children.RoleChild | children.RoleJob) {
			err = errors.Join(err, indexer.IndexField(ctx, row.Object, children.IndexOwner, children.OwnerKey))
		}
		if row.Role.Has(children.RolePod) {
			err = errors.Join(err, indexer.IndexField(ctx, row.Object, workload.IndexInstance, workload.InstanceKeys))
		}
		if row.Role.Has(children.RoleScaler) {
			err = errors.Join(err, indexer.IndexField(ctx, row.Object, workload.IndexTarget, func(obj client.Object) []string {
				return []string{children.ScaleTarget(obj).String()}
			}))
		}
		if err != nil {
			return fmt.Errorf("%T: %w", row.Object, err)
		}
	}
	for _, k := range allKinds() {
		if k.namesService() {
			if err := indexer.IndexField(ctx, k.empty(), indexService, serviceNames); err != nil {
				return fmt.Errorf("%s: %w", k.Name, err)
			}
		}
		if k.index == "" {
			continue
		}
		if err := indexer.IndexField(ctx, k.empty(), k.index, k.childNames); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return nil
}

// serviceNames returns the name that a stored resource states for its Service, none if it states none.
func serviceNames(obj client.Object) []string {
	if named, ok := obj.(serviceNamer); ok && named.ServiceName() != "" {
		return []string{named.ServiceName()}
	}
	return nil
}

// serviceNamer is a stored resource that can state a name for its Service.
type serviceNamer interface{ ServiceName() string }

// maxOthersAnnotations is how long, in bytes, the annotations of others may be that are kept of a custom resource.
const maxOthersAnnotations = 4 << 10

// keepResource returns what changes a custom resource to what the cache keeps of it.
func keepResource(kept *budget.Budget) func(any) (any, error) {
	rows := map[reflect.Type]kind{}
	for _, k := range allKinds() {
		rows[reflect.TypeOf(k.empty())] = k
	}
	return func(in any) (any, error) {
		trimmed := trimResource(in)
		obj, ok := trimmed.(budget.Resource)
		if !ok {
			return trimmed, nil
		}
		k := rows[reflect.TypeOf(obj)]
		kept.KeepResource(k.Name, obj, func() []string {
			if k.childNames == nil {
				return nil
			}
			return k.childNames(obj)
		})
		if obj.Reduced() {
			shortenAnnotations(obj)
		}
		return obj, nil
	}
}

// shortenAnnotations keeps of the annotations of a custom resource without its spec what tells a change of one that reconciles read.
func shortenAnnotations(obj client.Object) {
	var kept map[string]string
	for key, value := range obj.GetAnnotations() {
		if _, read := stored.AnnotationLimit(key); read || key == appv1.AnnotationTutorialSpec {
			kept = withAnnotation(kept, key, stored.ShortenValue(value, stored.MaxReducedAnnotation))
		}
	}
	obj.SetAnnotations(kept)
}

// trimResource takes out of the metadata of a custom resource all that no decision needs, and that may be as long as all the
// rest: who owns which fields, labels, owners, finalizers, and annotations of others that are many or long. A change of a
// short one has the resource looked at.
func trimResource(in any) any {
	obj, ok := in.(client.Object)
	if !ok {
		return in
	}
	obj.SetManagedFields(nil)
	obj.SetLabels(nil)
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
	obj.SetAnnotations(trimAnnotations(obj))
	return obj
}

// trimAnnotations returns the annotations of a custom resource that are kept, nil for none. They are in a map of their own, as
// one does not shrink with what is deleted from it.
func trimAnnotations(obj client.Object) map[string]string {
	var kept, others map[string]string
	size := 0
	for key, value := range obj.GetAnnotations() {
		most, read := stored.AnnotationLimit(key)
		switch _, app := obj.(*stored.App); {
		case read:
			kept = withAnnotation(kept, key, stored.ShortenValue(value, most))
		case key == appv1.AnnotationTutorialSpec && app:
			kept = withAnnotation(kept, key, value)
		case key != corev1.LastAppliedConfigAnnotation:
			if size += len(key) + len(value); size <= maxOthersAnnotations {
				others = withAnnotation(others, key, value)
			}
		}
	}
	if size <= maxOthersAnnotations {
		for key, value := range others {
			kept = withAnnotation(kept, key, value)
		}
	}
	return kept
}

func withAnnotation(annotations map[string]string, key, value string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	return annotations
}
