package resource

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Kind is a kind of custom resource: what the operator, its webhooks, its tools and its tests know of all kinds.
type Kind struct {
	// Name is the kind, Plural the name of its resources in the API.
	Name, Plural string
	// ShortNames are further names that a user can write, those of the definition first.
	ShortNames []string
	// PodLabel is the label of pods and volume claims that names the resource that they belong to.
	PodLabel string
	// Scales is true for a kind with a scale subresource: an autoscaler can scale it.
	Scales bool
	// Serves is true for a kind whose resources can ask for objects around the pods, by appv1.ServingSpec.
	Serves bool
	// Holds is true for a kind that runs an earlier spec on request, and takes over a Deployment without its pod template.
	Holds bool
	// New returns an empty resource, NewList an empty list of such.
	New     func() Object
	NewList func() runtime.Object
}

// FieldManager returns the field manager of the objects that resources of the kind apply.
func (k Kind) FieldManager() string { return "app-operator/" + strings.ToLower(k.Name) }

// Kinds are all kinds, in the order of a table. Each kind's file has its row.
var Kinds = []Kind{KindApp, KindModelBox, KindUnitedDeployment, KindCloudManager}

// KindOf returns the kind of a resource, an empty one if it is of none.
func KindOf(obj runtime.Object) Kind {
	for i := range Kinds {
		if reflect.TypeOf(Kinds[i].New()) == reflect.TypeOf(obj) {
			return Kinds[i]
		}
	}
	return Kind{}
}

// WorkloadsOf returns the workloads that a resource of any kind means, without what is wrong with its spec. The resource is not changed.
func WorkloadsOf(obj Object, seen BuildOptions) []*Workload {
	build := func(w *Workload, _ field.ErrorList) []*Workload { return []*Workload{w} }
	switch obj := obj.(type) {
	case *appv1.App:
		return build(App(obj, seen))
	case *appv1.ModelBox:
		return build(ModelBox(obj, seen))
	case *appv1.UnitedDeployment:
		if obj.Spec.Template != nil {
			return build(UnitedDeployment(obj, seen))
		}
	case *appv1.CloudManager:
		named := obj.DeepCopy()
		named.DefaultNames()
		return slices.Concat(build(CloudManagerDatabase(named, seen)), build(CloudManagerIdentity(named, seen)), build(CloudManagerFront(named, seen)))
	}
	return nil
}
