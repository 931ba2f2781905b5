package tiers

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/children"
	"huolala.cn/app-operator/internal/reconciler"
	"huolala.cn/app-operator/resource"
)

// A tier never takes an object of another tier: while such an object has a name of a spec, the tier keeps its last applied spec.

// Signs reports which marks of an object are the operator's own, and not edited by others.
type Signs struct {
	OwnsRole, OwnsRecord func(client.Object) bool
}

// occupant is an object with a name of a tier's spec, and the other tier that has the object.
type occupant struct {
	kind, name string
	of         resource.Tier
}

// Taken is the obstacle to a spec with a name that another tier has.
type Taken struct {
	// Err is the error to report.
	Err error
	// Withheld is true if no last applied spec can be in force in the place of the present one, so that nothing of the tier is written.
	Withheld bool
	by       occupant
}

// FreeNames returns the CloudManager with names that are free: a tier whose spec has a name of another tier has its last applied spec there. The
// tier follows once the other one has replaced its object. taken has the obstacle to the present spec of each such tier.
func FreeNames(cm *appv1.CloudManager, owned children.Inventory, signs Signs) (free *appv1.CloudManager, taken map[resource.Tier]*Taken) {
	free, taken = cm, map[resource.Tier]*Taken{}
	for again := true; again; { // The last applied spec of one tier has names, too. Each tier changes at most twice.
		again = false
		for _, row := range Rows {
			obstacle := taken[row.Role]
			by, found := occupantOf(free, row.Role, owned, signs, taken)
			if !found || obstacle != nil && obstacle.Withheld {
				continue
			}
			again = true
			if obstacle == nil {
				taken[row.Role] = &Taken{by: by}
				if past := WithRecord(free, row.Role, lastRecord(free, row.Role, owned, signs)); past != free {
					free = past
					continue
				}
			}
			taken[row.Role].Withheld = true
		}
	}
	for role, obstacle := range taken {
		obstacle.Err = obstacle.errorOf(cm, free, role, taken)
	}
	return free, taken
}

// errorOf returns the error to report of a tier. The tier waits if the other tier is about to replace its object; else a user has to choose.
func (t *Taken) errorOf(cm, free *appv1.CloudManager, role resource.Tier, taken map[resource.Tier]*Taken) error {
	if !t.isAwaited(cm, free, taken, map[resource.Tier]bool{role: true}) {
		return reconciler.Stalled(appv1.ReasonResourceExists, messageNameTaken, t.by.kind, t.by.name, t.by.of, role)
	}
	return reconciler.Waiting(appv1.ReasonDependencyNotReady, messageNameAwaited, t.by.kind, t.by.name, t.by.of, role)
}

// isAwaited reports whether the other tier leaves the name by itself: it has another name already, or gets one once a further tier has left its own. visited
// are the tiers that wait for it.
func (t *Taken) isAwaited(cm, free *appv1.CloudManager, taken map[resource.Tier]*Taken, visited map[resource.Tier]bool) bool {
	switch {
	case t.Withheld:
		return false
	case !t.by.isNameOf(free):
		return true
	case visited[t.by.of] || t.by.isNameOf(cm) || taken[t.by.of] == nil:
		return false
	}
	visited[t.by.of] = true
	return taken[t.by.of].isAwaited(cm, free, taken, visited)
}

// isNameOf reports whether the spec of the other tier has the name.
func (o *occupant) isNameOf(cm *appv1.CloudManager) bool {
	if o.kind != kindService {
		return o.of.Component(cm).Name == o.name
	}
	return slices.Contains(serviceNames(cm, o.of), o.name)
}

// occupantOf returns the object of another tier with a name of a tier's spec, also an object in the last applied spec of a tier in taken. A workload object of
// the other type has the same pods' labels, so it counts until the tier has its own.
func occupantOf(
	cm *appv1.CloudManager, role resource.Tier, owned children.Inventory, signs Signs, taken map[resource.Tier]*Taken,
) (by occupant, found bool) {
	name, services := role.Component(cm).Name, serviceNames(cm, role)
	exists := slices.ContainsFunc(owned, func(obj client.Object) bool {
		return kindOf(obj) == workloadKind(role) && obj.GetName() == name && !isOther(obj, role, signs)
	})
	for _, obj := range owned {
		kind := kindOf(obj)
		wanted := kind == kindService && slices.Contains(services, obj.GetName()) ||
			kind != kindService && obj.GetName() == name && (kind == workloadKind(role) || !exists)
		if wanted && isOther(obj, role, signs) {
			of, _ := statedRole(obj)
			return occupant{kind, obj.GetName(), of}, true
		}
	}
	for _, row := range Rows {
		if t := taken[row.Role]; row.Role == role || t == nil || t.Withheld {
			continue
		}
		if row.Role.Component(cm).Name == name {
			return occupant{workloadKind(row.Role), name, row.Role}, true
		}
		for _, service := range serviceNames(cm, row.Role) {
			if slices.Contains(services, service) {
				return occupant{kindService, service, row.Role}, true
			}
		}
	}
	return occupant{}, false
}

// isOther reports whether the operator has applied an object for another tier.
func isOther(obj client.Object, role resource.Tier, signs Signs) bool {
	of, ok := statedRole(obj)
	return ok && of != role && signs.OwnsRole(obj)
}

// lastRecord returns the recorded spec of a tier's workload object: of the one with the present name, or else of the only one with another name. Of several
// with other names it is the one that the status names, whose spec was in force before, or else the newest one if that is available.
func lastRecord(cm *appv1.CloudManager, role resource.Tier, owned children.Inventory, signs Signs) string {
	var present, former []client.Object
	for _, obj := range owned {
		of, ok := statedRole(obj)
		switch {
		case !ok || of != role || kindOf(obj) != workloadKind(role):
		case obj.GetName() == role.Component(cm).Name:
			present = append(present, obj)
		default:
			former = append(former, obj)
		}
	}
	if len(present) > 0 {
		return RecordOfOnly(present, signs.OwnsRecord)
	}
	if len(former) > 1 {
		named := slices.IndexFunc(former, func(obj client.Object) bool { return obj.GetName() == statusName(cm, role) })
		if named >= 0 {
			former = former[named : named+1]
		} else {
			former = newestAvailable(former, cm)
		}
	}
	return RecordOfOnly(former, signs.OwnsRecord)
}

// statusName returns the name of a tier's component in the status.
func statusName(cm *appv1.CloudManager, role resource.Tier) string {
	switch role {
	case resource.TierDatabase:
		return cm.Status.DB.Name
	case resource.TierIdentity:
		return cm.Status.Identity.Name
	}
	return cm.Status.Front.Name
}

// newestAvailable returns the newest one of some workload objects, none if that is not available, or if another one is as new.
func newestAvailable(objects []client.Object, owner client.Object) []client.Object {
	age := func(a, b client.Object) int { return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time) }
	newest := slices.MaxFunc(objects, age)
	same := func(obj client.Object) bool { return obj != newest && age(obj, newest) == 0 }
	if slices.ContainsFunc(objects, same) || !AvailabilityOf(newest, owner).available {
		return nil
	}
	return []client.Object{newest}
}

// OwnObject returns a workload object with the name of a tier, nil if the operator has applied it for another tier.
func OwnObject(obj client.Object, role resource.Tier, signs Signs) client.Object {
	if obj == nil || isOther(obj, role, signs) {
		return nil
	}
	return obj
}

// serviceNames returns the names of the Services of a tier.
func serviceNames(cm *appv1.CloudManager, role resource.Tier) []string {
	component := role.Component(cm)
	names := []string{serviceName(component)}
	if role == resource.TierDatabase {
		names = append(names, resource.HeadlessName(component.Name))
	}
	return names
}

// The kinds of the objects of tiers.
const (
	kindService     = "Service"
	kindDeployment  = "Deployment"
	kindStatefulSet = "StatefulSet"
)

// workloadKind returns the kind of a tier's workload object.
func workloadKind(role resource.Tier) string {
	if role == resource.TierDatabase {
		return kindStatefulSet
	}
	return kindDeployment
}

// kindOf returns the kind of an object of a tier.
func kindOf(obj client.Object) string {
	switch obj.(type) {
	case *appsv1.StatefulSet:
		return kindStatefulSet
	case *appsv1.Deployment:
		return kindDeployment
	case *corev1.Service:
		return kindService
	}
	return ""
}
