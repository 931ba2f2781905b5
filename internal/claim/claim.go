// Package claim decides what a live object of a child's name is to the owner of the child: the owner's, to be adopted, or in the way. The
// engine that writes, the webhooks and the plug-in ask it, and all of them have its messages. It decides by the objects that it is given,
// and knows no client of controller-runtime.
package claim

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/message"
)

// Object is an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Case is a wanted object, its owner, and the live object of its name.
type Case struct {
	// Wanted and Live are the objects, Kind is the kind of both.
	Wanted, Live Object
	Kind         string
	// Owner is the kind of the owner, Name its name, UID its UID: empty for an owner that is not stored yet.
	Owner schema.GroupVersionKind
	Name  string
	UID   types.UID
	// Adopt is true if the owner takes over objects that nothing controls.
	Adopt bool
	// Sum is the hash that the wanted object has in its annotation, empty if it is not known.
	Sum string
	// Retained is true for a wanted object that outlives its owner, Claim for a PersistentVolumeClaim.
	Retained, Claim bool
	// Whole is true if the live object was read from the API server; the cache has a foreign object in part. Partial is true for a live
	// object without its spec: that it concerns others is not known.
	Whole, Partial bool
	// Applied reports whether the operator has applied the live object for an owner of the kind.
	Applied func() bool
}

// Standing is what a live object is to an owner.
type Standing int

// The standings.
const (
	// Owned is an object that the owner controls.
	Owned Standing = iota
	// Kept is an object that is retained for the owner.
	Kept
	// Lost is an object that the owner has applied as it is wanted, and that has lost its owner reference.
	Lost
	// Adopted is an object that the owner takes over.
	Adopted
	// Leaving is an object that is in the way until it is deleted.
	Leaving
	// Taken is an object that is in the way.
	Taken
)

// Decide returns what the live object is to the owner, and, for an object that is in the way, why and what to do.
func (c *Case) Decide() (standing Standing, words string) {
	sum, known := c.Live.GetAnnotations()[appv1.AnnotationLastAppliedHash]
	controller := metav1.GetControllerOf(c.Live)
	keptFor := c.Live.GetAnnotations()[appv1.AnnotationRetainedFor]
	switch {
	case c.Live.GetDeletionTimestamp() != nil:
		return Leaving, fmt.Sprintf(messageBeingDeleted, c.Kind, c.Live.GetName())
	case controller != nil && c.UID != "" && controller.UID == c.UID:
		return Owned, ""
	case keptFor == c.retainedFor() && (controller == nil || c.createsClaims(controller)):
		return Kept, ""
	case keptFor != "" && keptFor != c.retainedFor():
		return Taken, fmt.Sprintf(messageRetainedForOther, c.objectName(), message.Quote(keptFor), c.Kind, appv1.AnnotationRetainedFor, c.retainedFor())
	case controller == nil && known && c.Sum != "" && sum == c.Sum:
		// The hash covers the owner's UID: this very owner applied it, and another writer has removed the reference since, or
		// the annotation of a retained object.
		return Lost, ""
	case c.Adopt && (controller == nil && !c.concernsOthers() || controller != nil && c.formerSelf(controller)):
		return Adopted, ""
	case controller != nil && c.formerSelf(controller):
		return Leaving, fmt.Sprintf(messageOfEarlierOwner, c.Kind, c.Live.GetName(), controller.Kind)
	}
	return Taken, c.existsMessage(controller)
}

// concernsOthers reports whether the live object is known to be about others.
func (c *Case) concernsOthers() bool { return !c.Partial && ConcernsOthers(c.Wanted, c.Live) }

// existsMessage says that an object of a child's name is not the owner's.
func (c *Case) existsMessage(controller *metav1.OwnerReference) string {
	switch _, service := c.Wanted.(*corev1.Service); {
	case controller != nil:
		return fmt.Sprintf(messageOwnedByOther, c.objectName(), controller.Kind, controller.Name)
	case c.concernsOthers():
		return fmt.Sprintf(messageConcernsOthers, c.objectName())
	case !c.Retained && !c.Claim && c.Applied():
		remedy := ""
		if _, set := c.Wanted.(*appsv1.StatefulSet); !set { // Its claims may go with it.
			remedy = fmt.Sprintf(messageOrDelete, c.Kind)
		}
		return fmt.Sprintf(messageOrphaned, c.objectName(), c.Owner.Kind, c.adoptCommand("true"), remedy)
	case service && !c.Whole:
		return fmt.Sprintf(messageServiceNotOwned, c.objectName(), c.adoptCommand(appv1.GentlestAdoption(c.Owner.Kind)))
	}
	return fmt.Sprintf(messageNotOwned, c.objectName(), c.adoptCommand(appv1.GentlestAdoption(c.Owner.Kind)))
}

// adoptCommand returns the command that has the owner adopt.
func (c *Case) adoptCommand(value string) string {
	return fmt.Sprintf(commandAdopt, strings.ToLower(c.Owner.Kind), c.Name, c.Wanted.GetNamespace(), value)
}

// WasApplied reports whether a manager has applied an object, by its apply requests or the mark that is kept of these.
func WasApplied(live Object, manager string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
	})
}

// objectName is how a message names the object.
func (c *Case) objectName() string { return c.Kind + " " + c.Wanted.GetName() }

// retainedFor is the owner as the annotation of an object that is retained for it names it.
func (c *Case) retainedFor() string { return c.Owner.Kind + "." + c.Name }

// createsClaims reports whether the controller of a claim is a StatefulSet or one of its pods: the claim is deleted with them by the
// StatefulSet's persistentVolumeClaimRetentionPolicy. The annotation of the claim names the owner.
func (c *Case) createsClaims(controller *metav1.OwnerReference) bool {
	if !c.Claim {
		return false
	}
	return apiGroup(*controller) == "apps" && controller.Kind == "StatefulSet" || controller.APIVersion == "v1" && controller.Kind == "Pod"
}

// formerSelf reports whether a controller reference means an earlier object of the owner's own kind and name, as after a
// restore from a backup.
func (c *Case) formerSelf(controller *metav1.OwnerReference) bool {
	return apiGroup(*controller) == c.Owner.Group && controller.Kind+"."+controller.Name == c.retainedFor()
}

// apiGroup is the API group of a reference, whatever its version.
func apiGroup(ref metav1.OwnerReference) string {
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return group
}
