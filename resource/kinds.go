package resource

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Kind describes a kind of custom resource for the operator, its webhooks, its tools and its tests.
type Kind struct {
	// Name is the kind; Plural is the name of the resource in the API.
	Name, Plural string
	// ShortNames are further names for kubectl. The names in the CRD come first.
	ShortNames []string
	// PodLabel is the label of pods and volume claims with the name of their custom resource.
	PodLabel string
	// Scales is true for a kind with a scale subresource, the target of an autoscaler.
	Scales bool
	// Serves is true for a kind with appv1.ServingSpec, the fields of the auxiliary objects.
	Serves bool
	// Holds is true for a kind that can run an earlier revision on request, and can adopt a Deployment and keep its pod template.
	Holds bool
	// Scheduled is true for a kind whose pods end: its resources have a CronJob, and no workload.
	Scheduled bool
	// New returns an empty resource, NewList an empty list of resources.
	New     func() Object
	NewList func() runtime.Object
}

// FieldManager returns the field manager of the objects of the kind's resources.
func (k Kind) FieldManager() string { return appv1.FieldManagerPrefix + strings.ToLower(k.Name) }

// Kinds are all kinds, in the order of output. Each kind is defined in its own file.
var Kinds = []Kind{KindApp, KindModelBox, KindUnitedDeployment, KindCloudManager, KindTask}

// KindOf returns the kind of a resource, an empty Kind for another type.
func KindOf(obj runtime.Object) Kind {
	for i := range Kinds {
		if reflect.TypeOf(Kinds[i].New()) == reflect.TypeOf(obj) {
			return Kinds[i]
		}
	}
	return Kind{}
}

// WorkloadsOf returns the workloads of a resource of any kind, none of a resource whose kind is scheduled. It discards the errors of the builders, and does not change the
// resource.
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
