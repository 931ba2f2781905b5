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

// watchSet has the types of objects that a manager watches, and how.
type watchSet struct {
	// disabled are the features that are switched off: nothing of them is watched.
	disabled []string
	// refused are types around the pods that the manager could not list in one of its namespaces when it started. In the cache of all
	// types, one of them would keep all controllers from starting.
	refused []*children.Type
	// leftOut are the namespaces without rights, if there are others.
	leftOut *leftOut
}

// isShared reports whether the cache of the manager holds the objects of a type.
func (w *watchSet) isShared(row *children.Type) bool {
	return row.Watched(w.disabled) && !row.Custom && !slices.Contains(w.refused, row)
}

// isApart reports whether a type has a cache of its own, for as long as its objects can be listed; see package clusterkinds.
func (w *watchSet) isApart(row *children.Type) bool {
	return row.Watched(w.disabled) && (row.Custom || slices.Contains(w.refused, row))
}

// firstLook is how long the manager waits at its start for the answers whether it may list the types around the pods, and after these for the
// answers about the namespaces.
const firstLook = 10 * time.Second

// looker lists objects of a type in a namespace, for the error alone.
type looker func(ctx context.Context, row *children.Type, namespace string) error

// newLooker returns a looker that asks the API server for one object of the operator's.
func newLooker(cfg *rest.Config, scheme *runtime.Scheme) (looker, error) {
	c, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of the first look: %w", err)
	}
	one := metav1.ListOptions{Limit: 1, LabelSelector: labels.Set{appv1.LabelManagedBy: appv1.ManagedBy}.String()}
	return func(ctx context.Context, row *children.Type, namespace string) error {
		gvk, err := apiutil.GVKForObject(row.Object, scheme)
		if err != nil {
			return fmt.Errorf("first look: %w", err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		_, err = c.Resource(resource).Namespace(namespace).List(ctx, one)
		return err
	}, nil
}

// rights are what the first lists have shown.
type rights struct {
	// refusals are the errors by which the API server has refused lists, by namespace and type.
	refusals map[string]map[*children.Type]error
	// allowed has the namespaces in which a list succeeded.
	allowed map[string]bool
}

// note notes the error of a list. After an error that is no refusal, the type is watched like all others.
func (r *rights) note(row *children.Type, namespace string, err error) {
	switch {
	case err == nil:
		r.allowed[namespace] = true
	case apierrors.IsForbidden(err):
		if r.refusals[namespace] == nil {
			r.refusals[namespace] = map[*children.Type]error{}
		}
		r.refusals[namespace][row] = err
	}
}

// isSuspect reports whether the manager may have no rights in a namespace: no list succeeded there. A list without an answer does not count.
func (r *rights) isSuspect(namespace string) bool { return !r.allowed[namespace] }

// newWatchSet reads from the API server one object of each type around the pods, in each namespace, and returns which types and namespaces to
// watch.
func newWatchSet(look looker, opts *Options, log logr.Logger) watchSet {
	w := watchSet{disabled: opts.DisabledFeatures, leftOut: newLeftOut(look, opts, log)}
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	namespaces := opts.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var looked []*children.Type
	found := rights{refusals: map[string]map[*children.Type]error{}, allowed: map[string]bool{}}
	for i := range children.Types {
		row := &children.Types[i]
		if len(row.Features) == 0 || !w.isShared(row) {
			continue
		}
		looked = append(looked, row)
		for _, ns := range namespaces {
			found.note(row, ns, look(ctx, row, ns))
		}
	}
	w.leftOut.addNamespaces(namespaces, found.isSuspect)
	for _, row := range looked {
		for _, ns := range w.leftOut.remove(namespaces) {
			if err := found.refusals[ns][row]; err != nil {
				log.Info("The manager may not list a type of objects: resources with the feature are Forbidden there until it may",
					"feature", strings.Join(row.Features, ", "), "namespace", ns, "refusal", message.Quote(err.Error()))
				w.refused = append(w.refused, row)
			}
		}
	}
	return w
}
