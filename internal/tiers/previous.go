package tiers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	for _, obj := range owned.Without(wanted...) {
		role := resource.Tier(apply.OperatorLabel(obj, appv1.LabelComponent))
		if role != resource.TierDatabase && role != resource.TierIdentity {
			role = resource.TierFront
		}
		previous[role] = append(previous[role], obj)
	}
	return previous
}

// withName returns an object that has a name.
func withName(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}
