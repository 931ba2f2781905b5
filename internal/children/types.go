// Package children has the table of the types of Kubernetes that the operator creates, updates or watches, and what the table refers to: what
// the cache keeps of an object, which events wake a reconcile, and which marks prove that the operator has applied an object. It sends no
// request, except to read an object whole that the cache keeps in part.
package children

import (
	"maps"
	"reflect"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Role is what the operator does with the objects of a type. A type may have several.
type Role int

const (
	// RoleChild is a type of child objects of custom resources: the operator creates, repairs and prunes them.
	RoleChild Role = 1 << iota
	// RoleClaim is a type that a child's controller creates for the operator's pods: the operator updates them and never
	// creates or deletes one.
	RoleClaim
	// RolePod is the type of the pods: the operator reads why they do not run.
	RolePod
	// RoleScaler is a type that scales children or custom resources: the operator reads which.
	RoleScaler
	// RoleJob is a type whose objects the operator creates for a custom resource, and never changes: an apply would revive an object that is
	// being deleted. The CronJob controller creates the Jobs of a CronJob.
	RoleJob
)

// Has reports whether a role is among others.
func (r Role) Has(other Role) bool { return r&other != 0 }

// Scope is which objects of a type the cache of the manager holds.
type Scope int

const (
	// ScopeAll holds all objects, and of the objects of others a part; see Type.Keep.
	ScopeAll Scope = iota + 1
	// ScopeOurs holds the objects with the operator's label app.kubernetes.io/managed-by.
	ScopeOurs
	// ScopeLive holds none: they are read from the API server by name.
	ScopeLive
)

// Type is a type of Kubernetes' own that the operator creates, updates or watches.
type Type struct {
	// Object is an empty object of the type.
	Object client.Object
	Role   Role
	Scope  Scope
	// Features are the fields of the spec that request objects of the type, or the kind that has them, none for a type that is always in
	// use. While all of them are switched off, nothing of the type is watched.
	Features []string
	// Scheduled is a type whose objects only scheduled kinds have.
	Scheduled bool
	// Auxiliary is a type of objects around the pods: trouble with one of them is reported, and holds nothing else up.
	Auxiliary bool
	// Prerequisite is a type of objects that must be in place before the first pod. Routes is a type of objects that lead to the
	// Service. AboutPods is a type of objects that scale, restrict or scrape the pods.
	Prerequisite, Routes, AboutPods bool
	// Trim removes from an object what no decision needs, before the cache keeps the rest of it whole. Nil removes nothing.
	Trim func(client.Object)
	// Reduce copies to an object that has the identity of another alone what decisions need of that one's spec and status, within
	// limits, and reports whether a limit cut something off. Nil copies nothing. See Type.Keep.
	Reduce func(from, to client.Object) (cut bool)
	// Wakes selects the events after which custom resources are reconciled. Nil selects all.
	Wakes predicate.Predicate
	// Exclusive are the lists that hold items of the operator only: items of others are removed. Adopted are further lists
	// of that sort on an object that is being adopted.
	Exclusive, Adopted []fieldpath.Path
	// Unhashed are the fields that do not count for the hash of an object. Hashed returns what counts, and nil means the
	// whole object.
	Unhashed *fieldpath.Set
	Hashed   func(client.Object) any
	// Lasting is the field whose value stays on an object once the operator does not state it any longer, nil for none. It does not stay if the same change
	// states LastingAnnotation, which means the same.
	Lasting           fieldpath.Path
	LastingAnnotation string
	// Custom is a type that a cluster may lack. It has a cache of its own while it is there; see internal/clusterkinds.
	Custom bool
}

// AddToScheme adds the types that a cluster may lack to a scheme. It sends no request to the API server.
func AddToScheme(scheme *runtime.Scheme) error {
	gateway := schema.GroupVersion(gatewayv1.GroupVersion)
	scheme.AddKnownTypes(gateway, &gatewayv1.HTTPRoute{}, &gatewayv1.HTTPRouteList{})
	scheme.AddKnownTypes(monitoringv1.SchemeGroupVersion, &monitoringv1.PodMonitor{}, &monitoringv1.PodMonitorList{})
	metav1.AddToGroupVersion(scheme, gateway)
	metav1.AddToGroupVersion(scheme, monitoringv1.SchemeGroupVersion)
	return nil
}

// A port that a user renumbers is an item of theirs next to the missing item of ours, and the API server often refuses both
// together, because they have one name. A container by another name would run next to the one of the operator; all else that
// an adopted object states, and its owner does not, stays.
var (
	servicePorts = []fieldpath.Path{fieldpath.MakePathOrDie("spec", "ports")}
	containers   = []fieldpath.Path{
		fieldpath.MakePathOrDie("spec", "template", "spec", "containers"),
		fieldpath.MakePathOrDie("spec", "template", "spec", "initContainers"),
	}
	jobContainers = []fieldpath.Path{
		fieldpath.MakePathOrDie("spec", "jobTemplate", "spec", "template", "spec", "containers"),
		fieldpath.MakePathOrDie("spec", "jobTemplate", "spec", "template", "spec", "initContainers"),
	}
)

// Types are all types of Kubernetes' own that the operator works with. The cache, its indexes, the watches, the check that
// the manager is ready, pruning and the tests range over it. A row is what a new type of children needs in addition to its
// builder in package resource.
var Types = []Type{
	{
		Object: &appsv1.Deployment{}, Role: RoleChild, Scope: ScopeAll, Trim: trimDeployment, Reduce: reduceDeployment,
		Adopted: containers, Unhashed: fieldpath.NewSet(ReplicasPath), Hashed: hashedDeployment, Lasting: ReplicasPath,
	},
	{
		Object: &appsv1.StatefulSet{}, Role: RoleChild, Scope: ScopeAll, Trim: trimStatefulSet, Reduce: reduceStatefulSet,
		Adopted: containers, Unhashed: fieldpath.NewSet(ReplicasPath), Hashed: hashedStatefulSet, Lasting: ReplicasPath,
	},
	{
		Object: &corev1.Service{}, Role: RoleChild, Scope: ScopeAll, Trim: trimService, Reduce: reduceService,
		Exclusive: servicePorts,
	},
	{
		Object: &corev1.Secret{}, Role: RoleChild, Scope: ScopeLive,
		Unhashed: fieldpath.NewSet(dataPath), Hashed: hashedSecret,
	},
	{Object: &corev1.PersistentVolumeClaim{}, Role: RoleClaim, Scope: ScopeOurs, Reduce: reduceClaim, Wakes: claimChanged()},
	{
		Object: &batchv1.CronJob{}, Role: RoleChild, Scope: ScopeOurs, Features: []string{"task"}, Scheduled: true,
		Trim: trimCronJob, Wakes: cronJobChanged(), Adopted: jobContainers,
	},
	{
		Object: &batchv1.Job{}, Role: RoleJob, Scope: ScopeOurs, Features: []string{"beforeRollout", "task"},
		Reduce: reduceJob, Wakes: jobChanged(),
	},
	{Object: &corev1.Pod{}, Role: RolePod, Scope: ScopeOurs, Reduce: reducePod, Wakes: podChanged()},
	{
		// The autoscalers of others count too, whatever features are in use: they decide the number of pods.
		Object: &autoscalingv2.HorizontalPodAutoscaler{}, Role: RoleChild | RoleScaler, Scope: ScopeAll, Auxiliary: true, AboutPods: true,
		Trim: trimAutoscaler, Reduce: reduceAutoscaler, Wakes: scalingChanged(),
	},
	{
		Object: &corev1.ServiceAccount{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Features: []string{"serviceAccount"},
		Prerequisite: true, Trim: dropStatusManagedFields, Wakes: serviceAccountChanged(),
	},
	{
		Object: &networkingv1.NetworkPolicy{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Features: []string{"networkPolicy"},
		Prerequisite: true, AboutPods: true, Trim: dropStatusManagedFields,
	},
	{
		Object: &policyv1.PodDisruptionBudget{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Features: []string{"disruptionBudget"},
		AboutPods: true, Trim: trimBudget, Wakes: budgetChanged(),
	},
	{
		Object: &networkingv1.Ingress{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Features: []string{"ingress"},
		Routes: true, Trim: dropStatusManagedFields, Wakes: ingressChanged(),
		// Kubernetes sets the default class when an Ingress is created, and never later.
		Lasting: ingressClassPath, LastingAnnotation: networkingv1beta1.AnnotationIngressClass,
	},
	{
		Object: &gatewayv1.HTTPRoute{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Custom: true, Features: []string{"httpRoute"},
		Routes: true, Trim: dropStatusManagedFields, Wakes: routeChanged(),
	},
	{
		Object: &monitoringv1.PodMonitor{}, Role: RoleChild, Scope: ScopeOurs, Auxiliary: true, Custom: true, Features: []string{"podMonitor"},
		AboutPods: true, Trim: dropStatusManagedFields, Wakes: monitorChanged(),
	},
}

// Watched reports whether anything of the type is watched while features are switched off.
func (t *Type) Watched(disabled []string) bool {
	off := func(feature string) bool { return slices.Contains(disabled, feature) }
	return t.Scope != ScopeLive && (len(t.Features) == 0 || slices.ContainsFunc(t.Features, func(f string) bool { return !off(f) }))
}

// TypeOf returns the row of an object's type, an empty one if the table has none.
func TypeOf(obj client.Object) *Type {
	if row, ok := typeIndex[reflect.TypeOf(obj)]; ok {
		return row
	}
	return &Type{}
}

var typeIndex = indexTypes()

func indexTypes() map[reflect.Type]*Type {
	index := make(map[reflect.Type]*Type, len(Types))
	for i := range Types {
		index[reflect.TypeOf(Types[i].Object)] = &Types[i]
	}
	return index
}

// UnhashedFields returns the fields that do not count for the hash.
func (t *Type) UnhashedFields() *fieldpath.Set {
	if t.Unhashed == nil {
		return &fieldpath.Set{}
	}
	return t.Unhashed
}

// HashedPart returns the part of an object that counts for its hash.
func HashedPart(obj client.Object) any {
	if row := TypeOf(obj); row.Hashed != nil {
		return row.Hashed(obj)
	}
	return obj
}

func hashedDeployment(obj client.Object) any {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return obj
	}
	counted := *d
	counted.Spec.Replicas, counted.Status = nil, appsv1.DeploymentStatus{}
	return &counted
}

func hashedStatefulSet(obj client.Object) any {
	s, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return obj
	}
	counted := *s
	counted.Spec.Replicas, counted.Status = nil, appsv1.StatefulSetStatus{}
	return &counted
}

func hashedSecret(obj client.Object) any {
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return obj
	}
	counted := *s
	counted.Data = nil
	return []any{&counted, slices.Sorted(maps.Keys(s.Data))}
}

// ReplicasPath is the field that an autoscaler may own. It does not count for the hash: that a user scales an object
// is no change of the desired object.
var ReplicasPath = fieldpath.MakePathOrDie("spec", "replicas")

// ingressClassPath is the field that chooses the controller of an Ingress.
var ingressClassPath = fieldpath.MakePathOrDie("spec", "ingressClassName")

// dataPath is where a Secret has its values. Their names count for the hash, the values do not: the hash is in an
// annotation, and would give a weak password away.
var dataPath = fieldpath.MakePathOrDie("data")
