package tiers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/resource"
)

// PreviousObjects returns what the CloudManager controls and, by its name, no longer wants, by the tier that it is of.
func PreviousObjects(cm *appv1.CloudManager, owned children.Inventory) map[resource.Tier][]client.Object {
	db, identity, front := cm.Spec.DB.StatefulSet.Name, cm.Spec.Identity.Deployment.Name, cm.Spec.Front.Deployment.Name
	wanted := []client.Object{withName(&appsv1.StatefulSet{}, db), withName(&corev1.Service{}, resource.HeadlessName(db))}
	for _, name := range []string{identity, front} {
		wanted = append(wanted, withName(&appsv1.Deployment{}, name))
	}
	for _, row := range Rows {
		wanted = append(wanted, withName(&corev1.Service{}, serviceName(row.Role.Component(cm))))
	}
	previous := map[resource.Tier][]client.Object{}
	former := owned.Without(wanted...)
	for _, obj := range former {
		role := roleOf(obj, cm, former)
		previous[role] = append(previous[role], obj)
	}
	return previous
}

// statedRole returns the tier that the operator's label of an object states; ok is false for an object that has lost the label.
func statedRole(obj client.Object) (role resource.Tier, ok bool) {
	role = resource.Tier(apply.OperatorLabel(obj, appv1.LabelComponent))
	_, isSet := obj.(*appsv1.StatefulSet)
	_, isDeployment := obj.(*appsv1.Deployment)
	switch role {
	case resource.TierDatabase:
		return role, !isDeployment
	case resource.TierIdentity, resource.TierFront:
		return role, !isSet
	}
	return "", false
}

// HasRole reports whether an object states its tier, so that the record on it is of that tier.
func HasRole(obj client.Object) bool {
	_, ok := statedRole(obj)
	return ok
}

// roleOf returns the tier of an object of an earlier name. An object that has lost its label is of the tier of the workload object with its
// selector; a StatefulSet is always the database. Without a sign, it is of a tier that others use, so that it is removed after all of them have been
// replaced.
func roleOf(obj client.Object, cm *appv1.CloudManager, among children.Inventory) resource.Tier {
	if role, ok := statedRole(obj); ok {
		return role
	}
	switch obj := obj.(type) {
	case *appsv1.StatefulSet:
		return resource.TierDatabase
	case *corev1.Service:
		for _, row := range Rows {
			if row.Role.Component(cm).Name == obj.Spec.Selector[appv1.LabelPart] {
				return row.Role
			}
		}
		for _, other := range among {
			if part := partOf(other); part == "" || part != obj.Spec.Selector[appv1.LabelPart] {
				continue
			}
			if _, ok := other.(*appsv1.StatefulSet); ok {
				return resource.TierDatabase
			}
			if role, ok := statedRole(other); ok {
				return role
			}
		}
		return resource.TierDatabase
	}
	return resource.TierIdentity
}

// partOf returns the name of the component that a workload object runs, by its selector, which nobody can change; empty for any other object.
func partOf(obj client.Object) string {
	var selector *metav1.LabelSelector
	switch obj := obj.(type) {
	case *appsv1.StatefulSet:
		selector = obj.Spec.Selector
	case *appsv1.Deployment:
		selector = obj.Spec.Selector
	}
	if selector == nil {
		return ""
	}
	return selector.MatchLabels[appv1.LabelPart]
}

// withName returns an object that has a name.
func withName(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}
