package view

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// Resource is a custom resource of any kind, with what the views need of it.
type Resource struct {
	Kind       string
	ObjectMeta metav1.ObjectMeta
	// Image is the image of the spec, empty for a kind that has none or several.
	Image string
	// Workloads are the names of the Deployments and StatefulSets that the spec means, in the order in which they start.
	Workloads []string
	// Paused is true while nothing is written to the children.
	Paused bool
	// Ready is the number of ready pods out of the wanted ones, like "2/2".
	Ready string
	// Outdated is true while a newer rendering or another meaning of the named size waits to be taken.
	Outdated bool
	// Selector selects the pods, empty where the status has none.
	Selector string
	Status   appv1.CommonStatus
	// Spec is the custom resource's spec.
	Spec any
}

// LastGood is the value of HeldAt for the last revision that was ready.
const LastGood = appv1.HoldLastGood

// HeldAt returns what the annotation of a hold names: a ReplicaSet, or LastGood; empty if the resource is not held by it.
func (r *Resource) HeldAt() string { return r.ObjectMeta.Annotations[appv1.AnnotationHold] }

// Serving returns the part of the spec that describes what stands around the pods, nil for a kind that has none.
func (r *Resource) Serving() *appv1.ServingSpec {
	switch spec := r.Spec.(type) {
	case *appv1.AppSpec:
		return &spec.ServingSpec
	case *appv1.ModelBoxSpec:
		return &spec.ServingSpec
	}
	return nil
}

// Of returns the resource that an object of one of the four kinds is, and false for any other object.
func Of(obj runtime.Object) (Resource, bool) {
	switch o := obj.(type) {
	case *appv1.App:
		return Resource{
			Kind: resource.KindApp, ObjectMeta: o.ObjectMeta, Image: o.Spec.Image, Workloads: []string{o.Name}, Paused: o.Spec.Paused,
			Ready: o.Status.Ready, Selector: o.Status.Selector, Status: o.Status.CommonStatus, Spec: &o.Spec,
			Outdated: outdated(&o.Status.WorkloadStatus),
		}, true
	case *appv1.ModelBox:
		return Resource{
			Kind: resource.KindModelBox, ObjectMeta: o.ObjectMeta, Image: o.Spec.Image,
			Workloads: []string{o.Name}, Paused: o.Spec.Paused,
			Ready: o.Status.Ready, Selector: o.Status.Selector, Status: o.Status.CommonStatus, Spec: &o.Spec,
			Outdated: outdated(&o.Status.WorkloadStatus),
		}, true
	case *appv1.UnitedDeployment:
		r := Resource{
			Kind: resource.KindUnitedDeployment, ObjectMeta: o.ObjectMeta, Workloads: []string{o.Spec.DeploymentName},
			Paused: o.Spec.Paused, Ready: o.Status.Ready, Selector: o.Status.Selector, Status: o.Status.CommonStatus, Spec: &o.Spec,
			Outdated: outdated(&o.Status.WorkloadStatus),
		}
		if o.Spec.Template != nil {
			r.Image = o.Spec.Template.Image
		}
		return r, true
	case *appv1.CloudManager:
		named := o.DeepCopy()
		named.DefaultNames()
		return Resource{
			Kind: resource.KindCloudManager, ObjectMeta: o.ObjectMeta, Paused: o.Spec.Paused, Ready: o.Status.Ready,
			Workloads: []string{
				named.Spec.DB.StatefulSet.Name, named.Spec.Identity.Deployment.Name, named.Spec.Front.Deployment.Name,
			},
			Status: o.Status.CommonStatus, Spec: &o.Spec,
			Outdated: outdatedTier(o.Status.Front) || outdatedTier(o.Status.Identity) || outdatedTier(o.Status.DB),
		}, true
	}
	return Resource{}, false
}

func outdated(s *appv1.WorkloadStatus) bool { return s.LatestRendering != 0 || s.LatestSize != "" }

func outdatedTier(s appv1.TierStatus) bool { return s.LatestRendering != 0 || s.LatestSize != "" }

// Object returns how a resource is called in a sentence, such as "App shop/cart".
func (r *Resource) Object() string {
	return r.Kind + " " + r.ObjectMeta.Namespace + "/" + r.ObjectMeta.Name
}

// condition returns a condition of the resource, an empty one if it has none of the type.
func (r *Resource) condition(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// Observed reports whether the status speaks of the latest change of the spec.
func (r *Resource) Observed() bool { return r.Status.ObservedGeneration >= r.ObjectMeta.Generation }

// State is how a resource is doing, in one word.
type State string

// The states, worst first.
const (
	StateStalled     State = "Stalled"
	StateDeleting    State = "Deleting"
	StateUnobserved  State = "Unobserved"
	StateProgressing State = "Progressing"
	StatePaused      State = "Paused"
	StateReady       State = "Ready"
)

// states are all states, worst first.
var states = []State{StateStalled, StateDeleting, StateUnobserved, StateProgressing, StatePaused, StateReady}

// State returns how the resource is doing. A status that speaks of an earlier spec counts for nothing.
func (r *Resource) State() State {
	ready := r.condition(appv1.ConditionReady)
	switch {
	case r.ObjectMeta.DeletionTimestamp != nil:
		return StateDeleting
	case !r.Observed() || len(r.Status.Conditions) == 0:
		return StateUnobserved
	case r.condition(appv1.ConditionStalled).Status == metav1.ConditionTrue:
		return StateStalled
	case ready.Reason == appv1.ReasonPaused:
		return StatePaused
	case ready.Status == metav1.ConditionTrue:
		return StateReady
	}
	return StateProgressing
}

// verdict returns the condition that says most about the state: Stalled where it is so, Applied where the spec is not in force
// and the pods are fine, and Ready otherwise.
func (r *Resource) verdict() metav1.Condition {
	if c := r.condition(appv1.ConditionStalled); c.Status == metav1.ConditionTrue {
		return c
	}
	ready, applied := r.condition(appv1.ConditionReady), r.condition(appv1.ConditionApplied)
	if ready.Status == metav1.ConditionTrue && applied.Status == metav1.ConditionFalse {
		return applied
	}
	return ready
}

// specManager is the entry of managedFields by which the spec was last changed.
type specManager struct {
	Name string
	Time *metav1.Time
}

// changedBy returns who last changed the spec. Writes of the status and scaling are no change of the spec.
func (r *Resource) changedBy() specManager {
	var found specManager
	for i := range r.ObjectMeta.ManagedFields {
		entry := &r.ObjectMeta.ManagedFields[i]
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Time == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		// Who pauses and resumes, and sets annotations later, changes nothing of what runs.
		delete(fields.Spec, "f:paused")
		delete(fields.Spec, ".")
		if len(fields.Spec) == 0 {
			continue
		}
		if found.Time == nil || found.Time.Before(entry.Time) {
			found = specManager{Name: entry.Manager, Time: entry.Time}
		}
	}
	return found
}

// gitOpsManagers are the beginnings of the field managers by which a resource is kept as a repository or a chart has it.
var gitOpsManagers = []string{"argocd", "kustomize-controller", "helm-controller", "flux", "helm"}

// gitOpsMarks are labels and annotations by which such tools mark what they keep, or their beginnings.
var gitOpsMarks = []struct{ key, tool string }{
	{"argocd.argoproj.io/tracking-id", "Argo CD"},
	{"argocd.argoproj.io/instance", "Argo CD"},
	{"kustomize.toolkit.fluxcd.io/", "Flux"},
	{"helm.toolkit.fluxcd.io/", "Flux"},
	{"meta.helm.sh/release-name", "Helm"},
}

// GitOps returns the tool that applies the resource from a repository or a chart, and would restore what is changed in the
// cluster; empty if there is no sign of one.
func (r *Resource) GitOps() string {
	for i := range r.ObjectMeta.ManagedFields {
		name := r.ObjectMeta.ManagedFields[i].Manager
		if slices.ContainsFunc(gitOpsManagers, func(prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"-") }) {
			return name
		}
	}
	for _, mark := range gitOpsMarks {
		for _, marks := range []map[string]string{r.ObjectMeta.Labels, r.ObjectMeta.Annotations} {
			for key := range marks {
				if key == mark.key || strings.HasSuffix(mark.key, "/") && strings.HasPrefix(key, mark.key) {
					return mark.tool
				}
			}
		}
	}
	return ""
}
