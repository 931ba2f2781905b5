package view

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// Kind is a kind of custom resource as the views have it.
type Kind struct {
	resource.Kind
	// of returns the data of a resource of the kind for the views, and false for any other object.
	of func(runtime.Object) (Resource, bool)
}

// Kinds are the views of all kinds in resource.Kinds, in the same order.
var Kinds = []Kind{
	{resource.KindApp, appResource},
	{resource.KindModelBox, modelBoxResource},
	{resource.KindUnitedDeployment, unitedDeploymentResource},
	{resource.KindCloudManager, cloudManagerResource},
	{resource.KindTask, taskResource},
}

// ArgumentOf returns how a user names a resource of the kind, such as "modelbox/cart"; an App is just its name.
func (k *Kind) ArgumentOf(name string) string {
	if k.Name == resource.KindApp.Name {
		return name
	}
	return k.SingularName() + "/" + name
}

// KindOf returns the kind of a name that a user has written: the kind, its plural, a short name, each with or without the group.
func KindOf(word string) (Kind, bool) {
	word = strings.ToLower(word)
	if name, group, found := strings.Cut(word, "."); found {
		if group != appv1.GroupVersion.Group && group != appv1.GroupVersion.Version+"."+appv1.GroupVersion.Group {
			return Kind{}, false
		}
		word = name
	}
	for _, k := range Kinds {
		if word == k.Plural || word == k.SingularName() || slices.Contains(k.ShortNames, word) {
			return k, true
		}
	}
	return Kind{}, false
}

// CanExist reports whether a resource can have a name in a namespace.
func CanExist(namespace, name string) bool {
	return len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// NameKinds returns the names of the kinds for which has is true, such as "App, ModelBox or CloudManager".
func NameKinds(conjunction string, has func(Kind) bool) string {
	var names []string
	for _, k := range Kinds {
		if has(k) {
			names = append(names, k.Name)
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
	}
	return strings.Join(names, "")
}

// AnyKind is for NameKinds: all kinds.
func AnyKind(Kind) bool { return true }

// CanBeHeld is for NameKinds: the kinds that run an earlier spec on request.
func CanBeHeld(k Kind) bool { return k.Holds }

// SingularName is the kind as a user writes it, such as "modelbox".
func (k Kind) SingularName() string { return strings.ToLower(k.Name) }

// APIVersion is the API version of the resources of a kind.
func (Kind) APIVersion() string { return appv1.GroupVersion.String() }

// ResourceOf returns the resource that an object of one of the kinds is, and false for any other object.
func ResourceOf(obj runtime.Object) (Resource, bool) {
	for i := range Kinds {
		if r, ok := Kinds[i].of(obj); ok {
			r.Kind = Kinds[i].Name
			return r, true
		}
	}
	return Resource{}, false
}

func appResource(obj runtime.Object) (Resource, bool) {
	app, ok := obj.(*appv1.App)
	if !ok {
		return Resource{}, false
	}
	return ofWorkload(Resource{
		ObjectMeta: app.ObjectMeta, WantsService: len(app.Spec.Ports) > 0, Image: app.Spec.Image, Replicas: app.Spec.Replicas, Paused: app.Spec.Paused, Spec: &app.Spec, Serving: &app.Spec.ServingSpec,
		Canary: app.Status.Canary, HasCommand: app.Spec.BeforeRollout != nil,
		Workloads: []Workload{{Kind: KindDeployment, Name: app.Name, Spec: &app.Spec, Path: "/spec", NewRecord: newOf[appv1.AppSpec], built: resource.AppSpec(app)}},
	}, &app.Status.WorkloadStatus).withHistory(app.History()).withDefaults(app.Status.Defaults), true
}

func modelBoxResource(obj runtime.Object) (Resource, bool) {
	box, ok := obj.(*appv1.ModelBox)
	if !ok {
		return Resource{}, false
	}
	return ofWorkload(Resource{
		ObjectMeta: box.ObjectMeta, WantsService: len(box.Spec.Ports) > 0, Image: box.Spec.Image, Replicas: box.Spec.Replicas, Paused: box.Spec.Paused, Spec: &box.Spec, Serving: &box.Spec.ServingSpec,
		Canary: box.Status.Canary, HasCommand: box.Spec.BeforeRollout != nil,
		Workloads: []Workload{{Kind: KindDeployment, Name: box.Name, Spec: &box.Spec, Path: "/spec", NewRecord: newOf[appv1.ModelBoxSpec], built: resource.ModelBoxSpec(box)}},
	}, &box.Status.WorkloadStatus).withHistory(box.History()).withDefaults(box.Status.Defaults), true
}

func unitedDeploymentResource(obj runtime.Object) (Resource, bool) {
	ud, ok := obj.(*appv1.UnitedDeployment)
	if !ok {
		return Resource{}, false
	}
	w := Workload{Kind: KindDeployment, Name: ud.Spec.DeploymentName, Foreign: ud.Spec.Template == nil, Scaled: true}
	r := Resource{ObjectMeta: ud.ObjectMeta, Replicas: ud.Spec.Replicas, Paused: ud.Spec.Paused, Spec: &ud.Spec}
	if template := ud.Spec.Template; template != nil {
		w.Spec, w.Path, w.NewRecord = template, "/spec/template", newOf[appv1.WorkloadSpec]
		r.Image, r.WantsService = template.Image, len(template.Ports) > 0
	}
	r.Workloads = []Workload{w}
	return ofWorkload(r, &ud.Status.WorkloadStatus), true
}

// ofWorkload adds the status of a kind with one workload.
func ofWorkload(r Resource, status *appv1.WorkloadStatus) Resource {
	r.Ready, r.Selector, r.Status = status.Ready, status.Selector, status.CommonStatus
	r.Pods = countOf(status.Ready)
	r.Pods.Updated, r.Pods.Existing = int(status.UpdatedReplicas), int(status.Replicas)
	r.Service, _, _ = strings.Cut(status.Endpoint, ".")
	r.Endpoint, r.Size = status.Endpoint, status.Size
	r.Outdated = status.LatestRendering != 0 || status.LatestSize != ""
	return r
}

func cloudManagerResource(obj runtime.Object) (Resource, bool) {
	cm, ok := obj.(*appv1.CloudManager)
	if !ok {
		return Resource{}, false
	}
	named := cm.DeepCopy()
	named.DefaultNames()
	r := Resource{
		ObjectMeta: cm.ObjectMeta, Paused: cm.Spec.Paused, Ready: cm.Status.Ready, Status: cm.Status.CommonStatus, Spec: &cm.Spec,
		Workloads: []Workload{
			{Kind: KindStatefulSet, Name: named.Spec.DB.StatefulSet.Name, Part: "db"}, // What a volume holds does not go back.
			{
				Kind: KindDeployment, Name: named.Spec.Identity.Deployment.Name, Part: "identity",
				Spec: cm.Spec.Identity.Deployment, Path: "/spec/identity/deployment", NewRecord: newOf[appv1.Component],
			},
			{
				Kind: KindDeployment, Name: named.Spec.Front.Deployment.Name, Part: "front",
				Spec: cm.Spec.Front.Deployment, Path: "/spec/front/deployment", NewRecord: newOf[appv1.Component],
			},
		},
	}
	r.Pods = countOf(cm.Status.Ready)
	r.Pods.Tiers = true
	for i, tier := range []*appv1.TierStatus{&cm.Status.DB, &cm.Status.Identity, &cm.Status.Front} {
		r.Tiers = append(r.Tiers, Tier{Part: r.Workloads[i].Part, Ready: tier.Ready, Endpoint: tier.Endpoint})
		r.Outdated = r.Outdated || tier.LatestRendering != 0 || tier.LatestSize != ""
	}
	return r, true
}

// withHistory adds the ReplicaSets that the status names.
func (r Resource) withHistory(history *appv1.HistoryStatus) Resource {
	r.Running = history.ReplicaSet
	if good := history.LastGood; good != nil {
		r.LastGood, r.LastGoodImage = good.ReplicaSet, good.Image
	}
	return r
}

// withDefaults adds whether the resource has the present defaults.
func (r Resource) withDefaults(used *appv1.DefaultsInUse) Resource {
	r.Defaults = used
	r.Outdated = r.Outdated || used != nil && !used.Current && used.Invalid == ""
	return r
}

func newOf[T any]() any { return new(T) }
