package claim

import (
	"reflect"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Role is how the objects of a type depend on the others of an owner; see children.Type.
type Role struct{ Auxiliary, Prerequisite, Routes, AboutPods bool }

// roles are the types of objects around the pods.
var roles = map[reflect.Type]Role{
	reflect.TypeFor[*autoscalingv2.HorizontalPodAutoscaler](): {Auxiliary: true, AboutPods: true},
	reflect.TypeFor[*corev1.ServiceAccount]():                 {Auxiliary: true, Prerequisite: true},
	reflect.TypeFor[*networkingv1.NetworkPolicy]():            {Auxiliary: true, Prerequisite: true, AboutPods: true},
	reflect.TypeFor[*policyv1.PodDisruptionBudget]():          {Auxiliary: true, AboutPods: true},
	reflect.TypeFor[*networkingv1.Ingress]():                  {Auxiliary: true, Routes: true},
	reflect.TypeFor[*gatewayv1.HTTPRoute]():                   {Auxiliary: true, Routes: true},
	reflect.TypeFor[*monitoringv1.PodMonitor]():               {Auxiliary: true, AboutPods: true},
}

// RoleOf returns the role of an object's type.
func RoleOf(obj Object) Role { return roles[reflect.TypeOf(obj)] }

// Fate is what becomes of a wanted object of an owner that is not stored yet.
type Fate struct {
	Standing Standing
	// Absent is true if there is no object of the name, so that one is created.
	Absent bool
	// Words say why an object is in the way, or is to be deleted first; empty for an object that is created or taken over.
	Words string
	// Withheld is true if nothing is done to the object, as another object is in the way.
	Withheld bool
}

// InTheWay reports whether the live object is in the way of the wanted one.
func (f *Fate) InTheWay() bool { return f.Words != "" }

// Foresee returns what becomes of each of the objects that a new owner wants: what is in the way, and what waits for that. decide decides about
// a live object, serves returns why an object that is to be adopted serves others; see Case and Children.Serves. The engine does the same.
func (c Children) Foresee(decide func(Pair) (Standing, string), serves func(Pair) string) []Fate {
	fates := make([]Fate, len(c))
	adopts, blocked := false, false
	for i, pair := range c {
		f := &fates[i]
		if f.Absent = pair.Live == nil; f.Absent {
			continue
		}
		if f.Standing, f.Words = decide(pair); f.Standing == Adopted {
			adopts = true
			if f.Words = serves(pair); f.Words != "" {
				f.Standing = Taken
			}
		}
		blocked = blocked || f.Standing == Taken || f.Standing == Leaving && !RoleOf(pair.Wanted).Auxiliary
	}
	for i, pair := range c { // Nothing is adopted while an object is in the way.
		f := &fates[i]
		f.Withheld = adopts && blocked && !f.InTheWay() && (f.Standing == Adopted || f.Absent && !RoleOf(pair.Wanted).Auxiliary)
	}
	c.withholdDependents(fates)
	return fates
}

// withholdDependents marks the objects that depend on others which are in the way or withheld: a new object with pods depends on its
// prerequisites, a route on its Service, and an object about pods on the Deployment of its name that exists.
func (c Children) withholdDependents(fates []Fate) {
	missing := func(depends func(Pair) bool) bool {
		for i, pair := range c {
			if depends(pair) && (fates[i].InTheWay() || fates[i].Withheld) {
				return true
			}
		}
		return false
	}
	first := missing(func(pair Pair) bool { return RoleOf(pair.Wanted).Prerequisite })
	service := missing(func(pair Pair) bool { _, ok := pair.Wanted.(*corev1.Service); return ok })
	ofOthers := func(name string) bool {
		for i, pair := range c {
			_, ok := pair.Wanted.(*appsv1.Deployment)
			if ok && pair.Wanted.GetName() == name {
				return !fates[i].Absent && (fates[i].InTheWay() || fates[i].Withheld)
			}
		}
		return false
	}
	for i, pair := range c {
		f, role := &fates[i], RoleOf(pair.Wanted)
		if f.InTheWay() {
			continue
		}
		f.Withheld = f.Withheld || first && f.Absent && PodLabels(pair.Wanted) != nil || service && role.Routes ||
			role.AboutPods && ofOthers(pair.Wanted.GetName())
	}
}
