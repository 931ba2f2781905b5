package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/message"
)

// watchSet says which types of objects a manager watches, and how.
type watchSet struct {
	// disabled are the features that are switched off: nothing of them is watched.
	disabled []string
	// refused are types around the pods that the manager could not list when it started. In the cache of all types, one of them would
	// keep all controllers from starting.
	refused []*children.Type
}

// isShared reports whether the cache of the manager holds the objects of a type.
func (w *watchSet) isShared(row *children.Type) bool {
	return row.Watched(w.disabled) && !row.Custom && !slices.Contains(w.refused, row)
}

// isApart reports whether a type has a cache of its own, for as long as its objects can be listed; see package clusterkinds.
func (w *watchSet) isApart(row *children.Type) bool {
	return row.Watched(w.disabled) && (row.Custom || slices.Contains(w.refused, row))
}

// firstLook is how long the manager waits at its start for the answers whether it may list the types around the pods.
const firstLook = 10 * time.Second

// newWatchSet reads from the API server one object of each type around the pods, in each namespace, and returns which types to watch. Only
// a refusal counts: after any other error the type is watched like all others.
func newWatchSet(cfg *rest.Config, scheme *runtime.Scheme, opts *Options, log logr.Logger) (watchSet, error) {
	w := watchSet{disabled: opts.DisabledFeatures}
	c, err := metadata.NewForConfig(cfg)
	if err != nil {
		return w, fmt.Errorf("client of the first look: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	one := metav1.ListOptions{Limit: 1, LabelSelector: labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}.String()}
	namespaces := opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for i := range children.Types {
		row := &children.Types[i]
		if len(row.Features) == 0 || !w.isShared(row) {
			continue
		}
		gvk, err := apiutil.GVKForObject(row.Object, scheme)
		if err != nil {
			return w, fmt.Errorf("first look: %w", err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		for _, ns := range namespaces {
			if _, err := c.Resource(resource).Namespace(ns).List(ctx, one); apierrors.IsForbidden(err) {
				log.Info("The manager may not list a type of objects: resources with the feature are Forbidden until it may",
					"feature", strings.Join(row.Features, ", "), "resource", resource.GroupResource().String(), "refusal", message.Quote(err.Error()))
				w.refused = append(w.refused, row)
				break
			}
		}
	}
	return w, nil
}
