package tiers

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/apply"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// PreviousObjects returns the objects that the CloudManager controls and that, by their names, its spec no longer has, by tier. An object with a name of another
// tier's spec is not of that tier.
func PreviousObjects(cm *appv1.CloudManager, owned children.Inventory, signs Signs) map[resource.Tier][]client.Object {
	var former children.Inventory
	for _, obj := range owned {
		if !slices.ContainsFunc(Rows, func(row Row) bool { return isWanted(obj, cm, row.Role) && !isOther(obj, row.Role, signs) }) {
			former = append(former, obj)
		}
	}
	previous := map[resource.Tier][]client.Object{}
	for _, obj := range former {
		role := roleOf(obj, cm, former)
		previous[role] = append(previous[role], obj)
	}
	return previous
}

// isWanted reports whether an object has the type and the name of an object of a tier's spec.
func isWanted(obj client.Object, cm *appv1.CloudManager, role resource.Tier) bool {
	if kind := kindOf(obj); kind != kindService {
		return kind == workloadKind(role) && obj.GetName() == role.Component(cm).Name
	}
	return slices.Contains(serviceNames(cm, role), obj.GetName())
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

// partOf returns the name of the component that a workload object runs, by its selector, which nobody can change; empty for any other object, and for an
// adopted object with another selector.
func partOf(obj client.Object) string { return SelectorOf(obj)[appv1.LabelPart] }

// SelectorOf returns the labels by which a workload object selects its pods, nil for any other object.
func SelectorOf(obj client.Object) map[string]string {
	var selector *metav1.LabelSelector
	switch obj := obj.(type) {
	case *appsv1.StatefulSet:
		selector = obj.Spec.Selector
	case *appsv1.Deployment:
		selector = obj.Spec.Selector
	}
	if selector == nil {
		return nil
	}
	return selector.MatchLabels
}

// leadsTo reports whether a Service leads to the pods of a component, by the component's name or by the selector of its workload object, nil without one.
func leadsTo(service *corev1.Service, component string, selector map[string]string) bool {
	by := service.Spec.Selector
	return component != "" && by[appv1.LabelPart] == component || len(selector) > 0 && maps.Equal(by, selector)
}

// withName returns an object that has a name.
func withName(obj client.Object, name string) client.Object {
	obj.SetName(name)
	return obj
}

// RetainsPrevious reports whether the volumes of databases of earlier names are to outlive these, whatever the spec said when they
// were created.
func (p *Plan) RetainsPrevious() bool {
	return !p.CloudManager.Spec.Paused && ptr.Deref(p.CloudManager.Spec.DB.StatefulSet.Storage.Retain, true)
}

// CanRemovePrevious reports whether the objects of a tier's earlier names can be removed: the tier is available under its new name, with its
// Service, no tier that uses it needs them, and other clients have had their time to follow. A tier that keeps its last applied spec needs the Service
// that this spec has, which has an earlier name if the present spec has another one.
func (p *Plan) CanRemovePrevious(i int) bool {
	t := &p.Tiers[i]
	return t.Err == nil && t.Action == Applied && t.Report.Pause == reconciler.NotPaused && !t.Retaining && !t.isClosed() && !t.lendsService() &&
		!slices.ContainsFunc(p.Tiers, func(user State) bool { return slices.Contains(user.after, t.Role) && user.usesPrevious() })
}

// usesPrevious reports whether pods of the tier may use the objects of earlier names of the tiers before it: its own pods that do not run the present spec
// yet, and the pods of its own earlier name, which serve their clients until they are removed.
func (t *State) usesPrevious() bool {
	if t.isUnmade() || t.Action == Blocked && !t.hasFormer() {
		return false
	}
	return t.Err != nil || t.Action != Applied || !t.Report.Pods.Ready || t.hasFormer()
}

// hasFormer reports whether there is a workload object of an earlier name. A Service alone uses nothing.
func (t *State) hasFormer() bool {
	return slices.ContainsFunc(t.Previous, func(obj client.Object) bool { return kindOf(obj) != kindService })
}

// isUnmade reports whether the tier has no workload object that could use another tier: it never had one, or has lost it, and its name is taken.
func (t *State) isUnmade() bool {
	return t.isWithheld() && !t.Availability.owned && !t.hasFormer()
}

// lendsService reports whether the pods of an earlier name stay for the sake of the clients of their Service, with the Service if that has an earlier name, too.
func (t *State) lendsService() bool {
	several := len(t.Previous) > 1 // With several workload objects, the record is not known.
	return t.Service.Grace > 0 && (t.SharesService || several || slices.ContainsFunc(t.Previous, func(obj client.Object) bool { return kindOf(obj) == kindService }))
}

// HoldsService reports whether the Service of a renamed tier still has to lead to the former component. The former component has a Service of the same name, and
// the new component has not been available. live is the Service, nil if it does not exist. A Service that leads to the new component stays as it is.
func (p *Plan) HoldsService(i int, live *corev1.Service) bool {
	return p.holds(i, live, p.Tiers[i].SharesService)
}

// HeldService returns the name of the Service of a renamed tier that still has to lead to the former component (HoldsService): of the present spec, or else of the
// last applied one, which may be applied in its place; empty if there is none.
func (p *Plan) HeldService(i int, live *corev1.Service) string {
	t := &p.Tiers[i]
	if t.Availability.available || len(t.Previous) == 0 {
		return "" // Nothing is decoded for a tier without an earlier name.
	}
	present := serviceName(t.Role.Component(p.CloudManager))
	if p.HoldsService(i, live) {
		return present
	}
	last := WithRecord(p.CloudManager, t.Role, t.LastSpec)
	name := serviceName(t.Role.Component(last))
	if name == present || !p.holds(i, t.previousService(name), SharesService(last, t.Role, t.PreviousSpec)) {
		return ""
	}
	return name
}

// previousService returns the Service of an earlier name, nil if there is none.
func (t *State) previousService(name string) *corev1.Service {
	for _, obj := range t.Previous {
		if service, ok := obj.(*corev1.Service); ok && service.Name == name {
			return service
		}
	}
	return nil
}

// holds is HoldsService for a Service of any spec. shared is true if the spec of the former component has a Service of that name.
func (p *Plan) holds(i int, live *corev1.Service, shared bool) bool {
	t := &p.Tiers[i]
	switch {
	case t.Availability.available, live != nil && (!metav1.IsControlledBy(live, p.CloudManager) || leadsTo(live, t.Name, t.Selector)):
		return false
	case shared && p.SpecOfPrevious(i) != nil:
		return true
	}
	return live != nil && slices.ContainsFunc(t.Previous, func(obj client.Object) bool { return leadsTo(live, partOf(obj), SelectorOf(obj)) })
}

// SpecOfPrevious returns the CloudManager by which the objects of a tier's earlier name are repaired until they can be removed, nil
// if they are not: if no record has their spec, or another tier has, or had, an object of their name.
func (p *Plan) SpecOfPrevious(i int) *appv1.CloudManager {
	t := &p.Tiers[i]
	if t.PreviousSpec == "" || t.Report.Pause != reconciler.NotPaused || p.CanRemovePrevious(i) ||
		slices.ContainsFunc(t.Previous, func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil }) {
		return nil
	}
	past := p.CloudManager
	for j := range p.Tiers[:i+1] { // The earlier object uses the tiers before it by their earlier names.
		past = WithRecord(past, p.Tiers[j].Role, cmp.Or(p.Tiers[j].PreviousSpec, p.Tiers[j].LastApplied))
	}
	component := t.Role.Component(past)
	names := []string{component.Name, resource.HeadlessName(component.Name), serviceName(component)}
	if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p.takenFromPrevious(i), name) }) {
		return nil
	}
	return past
}

// takenFromPrevious returns the names that the objects of a tier's earlier name cannot have: the names of the objects that other tiers have, or had, and the
// names of the tier now. Both components can have the same Service (HoldsService).
func (p *Plan) takenFromPrevious(i int) []string {
	var taken []string
	for j := range p.Tiers {
		t := &p.Tiers[j]
		component := t.Role.Component(p.CloudManager)
		if j == i {
			if t.Role == resource.TierDatabase {
				taken = append(taken, resource.HeadlessName(component.Name))
			}
			if !t.SharesService {
				taken = append(taken, component.Name, serviceName(component))
			}
			if !t.SharesService && !t.Service.Held {
				taken = append(taken, serviceName(t.Role.Component(WithRecord(p.CloudManager, t.Role, t.LastApplied))))
			}
			continue
		}
		if !t.isWithheld() {
			taken = append(append(taken, component.Name), serviceNames(p.CloudManager, t.Role)...)
		}
		for _, obj := range t.Previous {
			taken = append(taken, obj.GetName())
		}
	}
	return taken
}

// SharesService reports whether the Service of a component has the name that it has by an earlier record, too.
func SharesService(cm *appv1.CloudManager, role resource.Tier, record string) bool {
	past := WithRecord(cm, role, record)
	return past != cm && serviceName(role.Component(past)) == serviceName(role.Component(cm))
}
